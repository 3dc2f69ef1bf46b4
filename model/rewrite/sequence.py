"""From the statements of a `map_gen_lookup` to instructions, some of whose fields may be unknown still."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from model.kernel.release import Decline, Emit, Expr, If, Name, Opaque, Statement
from model.rewrite.expressions import Amount, Scope, evaluate, text

SIZES = {"BPF_W": 0x00, "BPF_H": 0x08, "BPF_B": 0x10, "BPF_DW": 0x18}
SIZES_BY_BYTES = {4: 0x00, 2: 0x08, 1: 0x10, 8: 0x18}
OPERATIONS = {
    "BPF_ADD": 0x00,
    "BPF_SUB": 0x10,
    "BPF_MUL": 0x20,
    "BPF_DIV": 0x30,
    "BPF_OR": 0x40,
    "BPF_AND": 0x50,
    "BPF_LSH": 0x60,
    "BPF_RSH": 0x70,
    "BPF_MOD": 0x90,
    "BPF_XOR": 0xA0,
    "BPF_ARSH": 0xC0,
}
JUMPS = {
    "BPF_JA": 0x00,
    "BPF_JEQ": 0x10,
    "BPF_JGT": 0x20,
    "BPF_JGE": 0x30,
    "BPF_JSET": 0x40,
    "BPF_JNE": 0x50,
    "BPF_JSGT": 0x60,
    "BPF_JSGE": 0x70,
    "BPF_JLT": 0xA0,
    "BPF_JLE": 0xB0,
    "BPF_JSLT": 0xC0,
    "BPF_JSLE": 0xD0,
}
REGISTERS = {f"BPF_REG_{number}": number for number in range(11)} | {"BPF_REG_FP": 10}
ZERO = Amount(0)
LIMIT = 64
"""Alternatives that are followed at most where conditions are unknown."""


@dataclass(frozen=True, slots=True)
class Template:
    """An instruction to be: fields as in Insn, `off` and `imm` perhaps unknown, `call` the function called or ""."""

    opcode: int
    dst: int = 0
    src: int = 0
    off: Amount = ZERO
    imm: Amount = ZERO
    call: str = ""


@dataclass(frozen=True, slots=True)
class Alternative:
    """One way through the function: what it emits, or `errno` if it declines.

    `conditions` are those that the map did not decide, with the outcome that was taken for them;
    `unread` says which part of the function has no meaning here ("" if all has).
    """

    templates: tuple[Template, ...] = ()
    errno: str = ""
    conditions: tuple[tuple[str, bool], ...] = ()
    unread: str = ""


class Unreadable(Exception):
    """A statement that is none of the forms above; turned into `Alternative.unread` here."""


def alternatives(body: Sequence[Statement], scope: Scope) -> Iterator[Alternative]:
    """Every way through the function that what is known of the map leaves open, LIMIT at most."""
    pending: list[tuple[tuple[Statement, ...], Alternative]] = [(tuple(body), Alternative())]
    count = 0
    while pending and count < LIMIT:
        rest, so_far = pending.pop()
        finished = False
        while rest and not finished:
            statement, rest = rest[0], rest[1:]
            match statement:
                case Emit():
                    so_far = _emitted(so_far, statement, scope)
                    finished = bool(so_far.unread)
                case Decline(errno):
                    so_far = Alternative((), errno, so_far.conditions)
                    finished = True
                case Opaque(source):
                    so_far = Alternative((), "", so_far.conditions, f"line {statement.line}: {source}")
                    finished = True
                case If(condition, then, otherwise):
                    known = evaluate(condition, scope)
                    if known.known:
                        rest = (then if known.value else otherwise) + rest
                        continue
                    name = text(condition)
                    pending.append((otherwise + rest, _assuming(so_far, name, False)))
                    rest, so_far = then + rest, _assuming(so_far, name, True)
        count += 1
        yield so_far


def _assuming(so_far: Alternative, condition: str, outcome: bool) -> Alternative:
    return Alternative(so_far.templates, "", (*so_far.conditions, (condition, outcome)))


def _emitted(so_far: Alternative, emit: Emit, scope: Scope) -> Alternative:
    try:
        template = template_of(emit, scope)
    except Unreadable as unreadable:
        return Alternative((), "", so_far.conditions, f"line {emit.line}: {unreadable}")
    return Alternative((*so_far.templates, template), "", so_far.conditions)


def template_of(emit: Emit, scope: Scope) -> Template:
    """The instruction that a macro of include/linux/filter.h (5.10 to 7.3) makes. Raises Unreadable."""
    arguments = emit.arguments
    values = [evaluate(argument, scope) for argument in arguments]
    match emit.macro, len(arguments):
        case "BPF_ALU64_IMM" | "BPF_ALU32_IMM", 3:
            group = 0x07 if emit.macro == "BPF_ALU64_IMM" else 0x04
            return Template(group | _operation(arguments[0]), _register(arguments[1]), imm=values[2])
        case "BPF_ALU64_REG" | "BPF_ALU32_REG", 3:
            group = 0x0F if emit.macro == "BPF_ALU64_REG" else 0x0C
            return Template(group | _operation(arguments[0]), _register(arguments[1]), _register(arguments[2]))
        case "BPF_MOV64_IMM" | "BPF_MOV32_IMM", 2:
            return Template(0xB7 if emit.macro == "BPF_MOV64_IMM" else 0xB4, _register(arguments[0]), imm=values[1])
        case "BPF_MOV64_REG" | "BPF_MOV32_REG", 2:
            opcode = 0xBF if emit.macro == "BPF_MOV64_REG" else 0xBC
            return Template(opcode, _register(arguments[0]), _register(arguments[1]))
        case "BPF_MOV64_PERCPU_REG", 2:
            return Template(0xBF, _register(arguments[0]), _register(arguments[1]), off=Amount(-1))
        case "BPF_LDX_MEM" | "BPF_STX_MEM", 4:
            opcode = (0x61 if emit.macro == "BPF_LDX_MEM" else 0x63) | _size(arguments[0], scope)
            return Template(opcode, _register(arguments[1]), _register(arguments[2]), off=values[3])
        case "BPF_ST_MEM", 4:
            opcode = 0x62 | _size(arguments[0], scope)
            return Template(opcode, _register(arguments[1]), off=values[2], imm=values[3])
        case "BPF_JMP_IMM" | "BPF_JMP32_IMM", 4:
            group = 0x05 if emit.macro == "BPF_JMP_IMM" else 0x06
            dst = 0 if _jump(arguments[0]) == 0 else _register(arguments[1])
            return Template(group | _jump(arguments[0]), dst, off=values[3], imm=values[2])
        case "BPF_JMP_REG" | "BPF_JMP32_REG", 4:
            group = 0x0D if emit.macro == "BPF_JMP_REG" else 0x0E
            registers = _register(arguments[1]), _register(arguments[2])
            return Template(group | _jump(arguments[0]), *registers, off=values[3])
        case "BPF_JMP_A", 1:
            return Template(0x05, off=values[0])
        case "BPF_EMIT_CALL", 1:
            return Template(0x85, call=_name(arguments[0]))
    raise Unreadable(f"{emit.macro} with {len(arguments)} arguments")


def _name(argument: Expr) -> str:
    if isinstance(argument, Name):
        return argument.name
    raise Unreadable(f"a name was expected, found {text(argument)}")


def _register(argument: Expr) -> int:
    number = REGISTERS.get(_name(argument))
    if number is None:
        raise Unreadable(f"a register was expected, found {text(argument)}")
    return number


def _operation(argument: Expr) -> int:
    code = OPERATIONS.get(_name(argument))
    if code is None:
        raise Unreadable(f"an operation was expected, found {text(argument)}")
    return code


def _jump(argument: Expr) -> int:
    code = JUMPS.get(_name(argument))
    if code is None:
        raise Unreadable(f"a comparison was expected, found {text(argument)}")
    return code


def _size(argument: Expr, scope: Scope) -> int:
    """Size bits by name (BPF_W) or from `BPF_SIZEOF(type)`, whose value is a number of bytes here."""
    if isinstance(argument, Name) and argument.name in SIZES:
        return SIZES[argument.name]
    amount = evaluate(argument, scope)
    if amount.known and amount.value in SIZES_BY_BYTES:
        return SIZES_BY_BYTES[amount.value]
    raise Unreadable(f"a size was expected, found {text(argument)}")
