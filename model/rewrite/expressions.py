"""C expressions of a `map_gen_lookup`, evaluated for one map as far as it is known.

Arithmetic is C's for the types that occur: `u32` fields wrap at 32 bits, an `offsetof` is 64 bits
unsigned, plain numbers are `int`. What is not known stays in the result by name.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from model.kernel.release import Apply, Const, Expr, Field, Name, Offset, Release, SizeOf
from model.program import Map
from model.rewrite.config import Config

CONSTANTS = {"BPF_F_INNER_MAP": 1 << 12, "BPF_F_NO_PREALLOC": 1, "BPF_F_RDONLY_PROG": 1 << 7, "BPF_F_MMAPABLE": 1 << 10}
"""Flags of enum bpf_map_create flags (include/uapi/linux/bpf.h), a stable interface."""

ARRAYS = ("array", "percpu_array", "array_of_maps", "prog_array", "perf_event_array", "cgroup_array")
POINTER_BYTES = 8


@dataclass(frozen=True, slots=True)
class Amount:
    """A number of `bits` bits (`signed` or not) plus unknown `terms`, each an expression in text.

    `offsets` are those of the terms that are members' offsets: known once a kernel is built.
    """

    value: int
    terms: tuple[str, ...] = ()
    offsets: tuple[str, ...] = ()
    bits: int = 32
    signed: bool = True

    @property
    def known(self) -> bool:
        return not self.terms and not self.offsets


@dataclass(frozen=True, slots=True)
class Scope:
    """The map (None: nothing is known of it) and machine that an expression is evaluated for.

    `bound` gives values to terms and offsets that were learned elsewhere.
    """

    release: Release
    config: Config
    map: Map | None
    bound: Mapping[str, int] = field(default_factory=dict)

    def field(self, path: str) -> int | None:
        """Value of "map.key_size" and the like; None where the input does not tell."""
        return self.bound.get(path, _field(self.map, path, self.config))


def _field(found: Map | None, path: str, config: Config) -> int | None:
    """Fields of `struct bpf_map` and `struct bpf_array` as `array_map_alloc` (5.10 to 7.3) sets them."""
    owner, _, member = path.partition(".")
    if member == "bypass_spec_v1":
        if found is None or found.type is None:
            return None
        return int(found.type in ARRAYS and not config.unprivileged)
    if found is None:
        return None
    if owner == "map":
        names = {"map_flags": found.flags, "key_size": found.key_size, "value_size": found.value_size}
        return {**names, "max_entries": found.max_entries}.get(member)
    if path == "array.elem_size":
        size = 4 if found.type in ("array_of_maps", "prog_array") else found.value_size
        return None if size is None else (size + 7 & ~7) & 0xFFFFFFFF
    if path == "array.index_mask":
        return None if found.max_entries is None else (1 << (found.max_entries - 1 & 0xFFFFFFFF).bit_length()) - 1
    return None


def evaluate(expression: Expr, scope: Scope) -> Amount:
    """Value of a C expression. What the model has no meaning for becomes a term of its own."""
    match expression:
        case Const(value):
            return Amount(value)
        case Name(name):
            return Amount(CONSTANTS[name], bits=32, signed=False) if name in CONSTANTS else _term(name, scope)
        case Field(path, bits, signed):
            content = scope.field(path)
            if content is None:
                return Amount(0, (path,), bits=bits, signed=signed)
            return _amount(content, bits, signed)
        case Offset(struct, member):
            name = f"struct {struct}.{member}"
            known = scope.bound.get(name, scope.release.layout.get(name))
            if known is None:
                return Amount(0, (), (name,), 64, False)
            return Amount(known, bits=64, signed=False)
        case SizeOf(c):
            if c.rstrip().endswith("*"):
                return Amount(POINTER_BYTES, bits=64, signed=False)
            return _term(f"sizeof({c})", scope, 64, False)
        case Apply():
            return _apply(expression, scope)


def _term(name: str, scope: Scope, bits: int = 32, signed: bool = True) -> Amount:
    value = scope.bound.get(name)
    return Amount(0, (name,), (), bits, signed) if value is None else _amount(value, bits, signed)


def _amount(value: int, bits: int, signed: bool) -> Amount:
    value &= (1 << bits) - 1
    if signed and value >> bits - 1:
        value -= 1 << bits
    return Amount(value, (), (), bits, signed)


def _apply(expression: Apply, scope: Scope) -> Amount:
    operands = [evaluate(argument, scope) for argument in expression.arguments]
    function = expression.function
    if function == "bpf_jit_supports_percpu_insn":
        return Amount(int(scope.config.arch in scope.release.percpu_insn))
    if function == "+" and len(operands) == 2:
        left, right = operands
        bits, signed = _common(left, right)
        total = _amount(left.value + right.value, bits, signed).value
        return Amount(total, left.terms + right.terms, left.offsets + right.offsets, bits, signed)
    if not all(operand.known for operand in operands):
        return _term(text(expression), scope)
    found = _function(function, operands)
    return _term(text(expression), scope) if found is None else found


def _common(left: Amount, right: Amount) -> tuple[int, bool]:
    """The usual arithmetic conversions of C for integers of 32 and 64 bits (narrower ones are promoted to int)."""
    pairs = [(32, True) if amount.bits < 32 else (amount.bits, amount.signed) for amount in (left, right)]
    bits = max(pair[0] for pair in pairs)
    return bits, all(pair[1] for pair in pairs if pair[0] == bits)


def _function(function: str, operands: list[Amount]) -> Amount | None:
    """Operators of C and macros of include/linux/{math,log2}.h on known numbers; None for one not listed."""
    values = [operand.value for operand in operands]
    match function, values:
        case "!", [x]:
            return Amount(int(x == 0))
        case "is_power_of_2", [x]:
            return Amount(int(x != 0 and x & x - 1 == 0))
        case "ilog2", [x] if x > 0:
            return Amount(x.bit_length() - 1)
        case "BPF_SIZEOF", [x]:
            return Amount(x)
        case "round_up", [x, y] if y > 0 and y & y - 1 == 0:
            return _amount((x - 1 | y - 1) + 1, max(operands[0].bits, 32), operands[0].signed)
    if len(operands) != 2:
        return None
    bits, signed = _common(*operands)
    x, y = values
    match function:
        case "roundup" if y > 0:
            return _amount((_amount(x + y - 1, bits, signed).value // y) * y, bits, signed)
        case "&":
            return _amount(x & y, bits, signed)
        case "|":
            return _amount(x | y, bits, signed)
        case "-":
            return _amount(x - y, bits, signed)
        case "*":
            return _amount(x * y, bits, signed)
        case "<<" if 0 <= y < operands[0].bits:
            return _amount(x << y, max(operands[0].bits, 32), operands[0].signed)
        case "==" | "!=" | "<" | "<=" | ">" | ">=":
            return Amount(int(_compare(function, _amount(x, bits, signed).value, _amount(y, bits, signed).value)))
        case "&&" | "||":
            return Amount(int(bool(x) and bool(y) if function == "&&" else bool(x) or bool(y)))
    return None


def _compare(function: str, x: int, y: int) -> bool:
    outcomes = {"==": x == y, "!=": x != y, "<": x < y, "<=": x <= y, ">": x > y, ">=": x >= y}
    return outcomes[function]


def text(expression: Expr) -> str:
    """The expression in C, for messages and as the name of an unknown."""
    match expression:
        case Const(value):
            return str(value)
        case Name(name):
            return name
        case Field(path):
            return path
        case Offset(struct, member):
            return f"offsetof(struct {struct}, {member})"
        case SizeOf(c):
            return f"sizeof({c})"
        case Apply(function, arguments):
            parts = [text(argument) for argument in arguments]
            if function[0].isalpha() or function[0] == "_":
                return f"{function}({', '.join(parts)})"
            return f"{function}{parts[0]}" if len(parts) == 1 else f"({f' {function} '.join(parts)})"
