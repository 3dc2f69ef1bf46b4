"""A `map_gen_lookup` function as data (`model.kernel.release.GenLookup`) run over any world: what it emits, and when.

Each way through the function's conditions is one path. Instructions are put together as the macros of
include/linux/filter.h do it (5.10, 6.1, 6.12, 7.3): an immediate is the argument converted to the `__s32 imm` of
`struct bpf_insn`, so that a u32 keeps its bits and an unsigned long loses its upper half.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic

from model.bits import B, W
from model.errors import Unsupported
from model.isa.insn import Insn
from model.isa.opcodes import Alu, AluOffset, Class, Jmp, Mode, Size, Source, arithmetic, load_store
from model.kernel.release import (
    Apply,
    Const,
    Decline,
    Emit,
    Expr,
    Field,
    GenLookup,
    If,
    Name,
    Offset,
    Opaque,
    SizeOf,
    Statement,
)
from model.semantics import c_macros as macros
from model.semantics.c_state import offset_of
from model.semantics.c_types import INT, UNSIGNED_LONG, Value, binary, convert, number, truth, unary
from model.world import World

PATHS = 64  # ways through one function; the kernel's have at most 6
CONSTANTS = {"BPF_F_INNER_MAP": 1 << 12}  # include/uapi/linux/bpf.h
PERCPU = "bpf_jit_supports_percpu_insn"


@dataclass(frozen=True, slots=True)
class Row:
    """One macro: the opcode without what arguments decide, and the arguments in order.

    o: operation, z: size, d: dst, s: src, i: imm, f: off, c: the function that is called.
    """

    opcode: int
    arguments: str
    off: int = 0


def _alu(klass: Class, source: Source, arguments: str, code: Alu = Alu.ADD) -> Row:
    return Row(arithmetic(klass, code, source), arguments)


ROWS: Mapping[str, Row] = {
    "BPF_ALU64_IMM": _alu(Class.ALU64, Source.K, "odi"),
    "BPF_ALU32_IMM": _alu(Class.ALU, Source.K, "odi"),
    "BPF_ALU64_REG": _alu(Class.ALU64, Source.X, "ods"),
    "BPF_ALU32_REG": _alu(Class.ALU, Source.X, "ods"),
    "BPF_MOV64_IMM": _alu(Class.ALU64, Source.K, "di", Alu.MOV),
    "BPF_MOV32_IMM": _alu(Class.ALU, Source.K, "di", Alu.MOV),
    "BPF_MOV64_REG": _alu(Class.ALU64, Source.X, "ds", Alu.MOV),
    "BPF_MOV32_REG": _alu(Class.ALU, Source.X, "ds", Alu.MOV),
    "BPF_MOV64_PERCPU_REG": Row(arithmetic(Class.ALU64, Alu.MOV, Source.X), "ds", AluOffset.ADDR_PERCPU),
    "BPF_LDX_MEM": Row(load_store(Class.LDX, Mode.MEM, Size.W), "zdsf"),
    "BPF_ST_MEM": Row(load_store(Class.ST, Mode.MEM, Size.W), "zdfi"),
    "BPF_STX_MEM": Row(load_store(Class.STX, Mode.MEM, Size.W), "zdsf"),
    "BPF_JMP_IMM": Row(arithmetic(Class.JMP, Jmp.JA, Source.K), "odif"),
    "BPF_JMP32_IMM": Row(arithmetic(Class.JMP32, Jmp.JA, Source.K), "odif"),
    "BPF_JMP_REG": Row(arithmetic(Class.JMP, Jmp.JA, Source.X), "odsf"),
    "BPF_JMP32_REG": Row(arithmetic(Class.JMP32, Jmp.JA, Source.X), "odsf"),
    "BPF_EMIT_CALL": Row(arithmetic(Class.JMP, Jmp.CALL, Source.K), "c"),
}
SIZES = {f"BPF_{size.name}": size for size in Size}
BY_BYTES = {size.bytes: size for size in Size}
ALU_CODES = {f"BPF_{code.name}": code for code in Alu}
JMP_CODES = {f"BPF_{code.name}": code for code in Jmp}


@dataclass(frozen=True, slots=True)
class Emitted(Generic[W]):
    """One instruction; `imm` is its immediate as a word of 32 bits (None for a call), `symbol` what a call reaches."""

    insn: Insn
    imm: W | None = None
    symbol: str = ""


@dataclass(frozen=True, slots=True)
class Way(Generic[W, B]):
    """One way through the function: its condition, in words too, and what it emits or the errno that it returns."""

    guard: B
    label: tuple[str, ...]
    emitted: tuple[Emitted[W], ...] = ()
    errno: str = ""


Members = Callable[[Field], Value[W]]


@dataclass(frozen=True, slots=True)
class Emitter(Generic[W, B]):
    """`members` gives the map's members as the function reads them; `percpu` is bpf_jit_supports_percpu_insn()."""

    world: World[W, B]
    layout: Mapping[str, int]
    members: "Members[W]"
    percpu: bool

    def ways(self, lookup: GenLookup) -> list[Way[W, B]]:
        """All ways through `lookup`, in the source's order. Raises `Unsupported`."""
        start: Way[W, B] = Way(self.world.bits(1).true(), (), ())
        done = list(self._block(lookup.body, start))
        if len(done) > PATHS:
            raise Unsupported(f"{lookup.function} has more than {PATHS} ways through it")
        return done

    def _block(self, body: Sequence[Statement], path: Way[W, B]) -> Iterator[Way[W, B]]:
        paths = [path]
        for statement in body:
            if len(paths) > PATHS:
                raise Unsupported(f"more than {PATHS} ways through a map_gen_lookup")
            paths = [after for one in paths for after in self._statement(statement, one)]
        yield from paths

    def _statement(self, statement: Statement, path: Way[W, B]) -> Iterator[Way[W, B]]:
        if path.errno:
            yield path
            return
        match statement:
            case Emit(macro, arguments, line):
                yield replace(path, emitted=(*path.emitted, self._emit(macro, arguments, line)))
            case Decline(errno):
                yield replace(path, errno=errno)
            case Opaque(text, line):
                raise Unsupported(f"line {line}: {text}")
            case If(condition, then, otherwise):
                known = self._static(condition)
                if known is not None:
                    yield from self._block(then if known else otherwise, path)
                    return
                bits = self.world.bits(1)
                holds = truth(self.world, self.value(condition))
                for arm, taken, sign in ((then, holds, ""), (otherwise, bits.negate(holds), "not ")):
                    label = (*path.label, sign + render(condition))
                    yield from self._block(arm, replace(path, guard=bits.conj(path.guard, taken), label=label))

    def _static(self, expr: Expr) -> bool | None:
        """A condition that the JIT decides, None for any other."""
        match expr:
            case Apply("!", (inner,)):
                known = self._static(inner)
                return None if known is None else not known
            case Apply(function, ()) if function == PERCPU:
                return self.percpu
        return None

    def _emit(self, macro: str, arguments: tuple[Expr, ...], line: int) -> Emitted[W]:
        row = ROWS.get(macro)
        if row is None or len(arguments) != len(row.arguments):
            raise Unsupported(f"line {line}: {macro} with {len(arguments)} arguments")
        opcode, dst, src, off = row.opcode, 0, 0, row.off
        imm: W | None = None if row.arguments == "c" else self.world.bits(32).const(0)
        symbol = ""
        for kind, expr in zip(row.arguments, arguments, strict=True):
            match kind:
                case "o":
                    opcode |= _code(expr, row.opcode & 7) << 4
                case "z":
                    opcode |= _size(expr) << 3
                case "d":
                    dst = _register(expr)
                case "s":
                    src = _register(expr)
                case "f":
                    off = self._known(expr)
                case "i":
                    imm = convert(self.world, self.value(expr), INT).word
                case _:
                    symbol = _function(expr)
        return Emitted(Insn(opcode, dst, src, off), imm, symbol)

    def _known(self, expr: Expr) -> int:
        """What goes into the `__s16 off`: a number that needs no build."""
        value = self._sum(expr)
        if not -(1 << 15) <= value < 1 << 15:
            raise Unsupported(f"{value} does not fit into the offset of an instruction")
        return value

    def _sum(self, expr: Expr) -> int:
        match expr:
            case Const(value):
                return value
            case Offset(struct, member) if f"struct {struct}.{member}" in self.layout:
                return self.layout[f"struct {struct}.{member}"]
            case Apply("+", (left, right)):
                return self._sum(left) + self._sum(right)
        raise Unsupported(f"an offset that needs a build: {render(expr)}")

    def value(self, expr: Expr) -> Value[W]:
        """The expression's value with its C type. Raises `Unsupported`."""
        world = self.world
        match expr:
            case Const(value) if 0 <= value < 1 << 31:
                return number(world, value, INT)
            case Name(name) if name in CONSTANTS:
                return number(world, CONSTANTS[name], INT)
            case Field(_, _, _):
                return self.members(expr)
            case Offset(struct, member):
                return Value(UNSIGNED_LONG, offset_of(world, self.layout, struct, member))
            case SizeOf(c):
                return number(world, _sizeof(c), UNSIGNED_LONG)
            case Apply("round_up", (operand, Const(multiple))):
                return macros.round_up(world, self.value(operand), multiple)
            case Apply("roundup", (operand, Const(multiple))):
                return macros.roundup(world, self.value(operand), multiple)
            case Apply("is_power_of_2", (operand,)):
                return macros.is_power_of_2(world, self.value(operand))
            case Apply("ilog2", (SizeOf(c),)):
                return number(world, _sizeof(c).bit_length() - 1, INT)
            case Apply("ilog2", (operand,)):
                return macros.ilog2(world, self.value(operand))
            case Apply("!" | "~" | "-" as operator, (operand,)):
                return unary(world, operator, self.value(operand))
            case Apply(operator, (left, right)):
                return binary(world, operator, self.value(left), self.value(right))
        raise Unsupported(f"no meaning for {render(expr)} in a map_gen_lookup")


def _code(expr: Expr, klass: int) -> int:
    table: Mapping[str, Alu | Jmp] = ALU_CODES if klass in (Class.ALU, Class.ALU64) else JMP_CODES
    if not isinstance(expr, Name) or expr.name not in table:
        raise Unsupported(f"no operation: {render(expr)}")
    return table[expr.name]


def _size(expr: Expr) -> int:
    match expr:
        case Name(name) if name in SIZES:
            return SIZES[name]
        case Apply("BPF_SIZEOF", (SizeOf(c),)) if _sizeof(c) in BY_BYTES:
            return BY_BYTES[_sizeof(c)]
    raise Unsupported(f"no size of an access: {render(expr)}")


def _register(expr: Expr) -> int:
    match expr:
        case Name(name) if name.startswith("BPF_REG_") and name[8:].isdecimal() and int(name[8:]) <= 10:
            return int(name[8:])
        case Const(value) if 0 <= value <= 10:
            return value
    raise Unsupported(f"no register: {render(expr)}")


def _function(expr: Expr) -> str:
    if not isinstance(expr, Name):
        raise Unsupported(f"no function: {render(expr)}")
    return expr.name


def _sizeof(c: str) -> int:
    if not c.endswith("*"):
        raise Unsupported(f"sizeof({c})")
    return 8


def render(expr: Expr) -> str:
    """The expression as C has it, for labels."""
    match expr:
        case Const(value):
            return str(value)
        case Name(name):
            return name
        case Field(path, _, _):
            return path.rpartition(".")[2]
        case Offset(struct, member):
            return f"offsetof({struct}, {member})"
        case SizeOf(c):
            return f"sizeof({c})"
        case Apply(operator, (inner,)) if not operator[0].isalpha():
            return f"{operator}{render(inner)}"
        case Apply(operator, (left, right)) if not operator[0].isalpha():
            return f"{render(left)} {operator} {render(right)}"
        case Apply(function, arguments):
            return f"{function}({', '.join(render(argument) for argument in arguments)})"
