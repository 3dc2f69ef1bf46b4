"""Assembly text in the syntax of uBPF and bpf_conformance -> a program.

One instruction a line: a mnemonic, then operands between commas; registers `%r0` or `r0`, memory `[%r1+8]`,
jump targets `+3`, `-2` (slots behind the next instruction) or a label, `NAME:` a label, `#` a comment (also
`//` and `;`). Arithmetic has 64 bits, with `32` behind the mnemonic 32. Immediates of 32 bits may be
written signed or unsigned.
"""

import re
from collections.abc import Callable, Iterator, Mapping

from model.errors import InputError
from model.isa.insn import Insn
from model.isa.opcodes import (
    CALL,
    EXIT,
    GOTO,
    GOTOL,
    MAY_GOTO,
    WIDE,
    Alu,
    AluOffset,
    Atomic,
    Call,
    Class,
    Jmp,
    Mode,
    Size,
    Source,
    arithmetic,
    load_store,
)
from model.loaders.assembly_draft import Draft, Place, bounded, split64, wrap32
from model.program import Program

_COMMENT = re.compile(r"(?:#|//|;).*")
_REGISTER = re.compile(r"%?r([0-9]{1,2})", re.ASCII | re.IGNORECASE)
_NUMBER = re.compile(r"([+-]?)\s*(0x[0-9a-f]{1,16}|[0-9]{1,20})", re.ASCII | re.IGNORECASE)
_NAME = re.compile(r"[A-Za-z_.$][\w.$]*", re.ASCII)
_MEMORY = re.compile(
    r"\[\s*%?r([0-9]{1,2})\s*(?:([+-]\s*(?:0x[0-9a-f]{1,8}|[0-9]{1,10}))\s*)?\]", re.ASCII | re.IGNORECASE
)

Operands = list[str]
Assemble = Callable[["_Line", Operands], None]
SIZES = {"b": Size.B, "h": Size.H, "w": Size.W, "dw": Size.DW}


class _Line:
    """One instruction's text and what its operands mean. Every method raises `InputError` where it does not fit."""

    def __init__(self, draft: Draft, number: int, text: str) -> None:
        self.draft, self.number, self.text = draft, number, text

    def wrong(self, expected: str) -> InputError:
        return self.draft.wrong(self.number, f"{expected}, found {self.text[:80]!r}")

    def take(self, operands: Operands, count: int) -> Operands:
        if len(operands) != count:
            raise self.wrong(f"{count} operand{'s' * (count != 1)}")
        return operands

    def register(self, operand: str) -> int:
        match = _REGISTER.fullmatch(operand)
        if match is None or int(match[1]) > 10:
            raise self.wrong("a register %r0 to %r10")
        return int(match[1])

    def number_of(self, operand: str) -> int | None:
        match = _NUMBER.fullmatch(operand)
        if match is None:
            return None
        value = int(match[2], 16 if match[2][:2] in ("0x", "0X") else 10)
        return -value if match[1] == "-" else value

    def immediate(self, operand: str) -> int:
        value = self.number_of(operand)
        wrapped = wrap32(value) if value is not None else None
        if wrapped is None:
            raise self.wrong("an immediate of 32 bits")
        return wrapped

    def source(self, operand: str) -> tuple[Source, int, int]:
        """(source bit, register, immediate)."""
        if _REGISTER.fullmatch(operand):
            return Source.X, self.register(operand), 0
        return Source.K, 0, self.immediate(operand)

    def memory(self, operand: str) -> tuple[int, int]:
        """(register, offset)."""
        match = _MEMORY.fullmatch(operand)
        offset = self.number_of(match[2]) if match is not None and match[2] else 0
        if match is None or int(match[1]) > 10 or offset is None or not -(1 << 15) <= offset < 1 << 15:
            raise self.wrong("memory as [%r1+8], with an offset of 16 bits")
        return int(match[1]), offset

    def put(self, insn: Insn, *, high: int | None = None, label: tuple[Place, str] | None = None) -> None:
        self.draft.put(self.number, self.text, insn, high=high, label=label)

    def jump(self, opcode: int, dst: int, src: int, imm: int, target: str, *, far: bool = False) -> None:
        distance = self.number_of(target)
        if distance is None:
            if not _NAME.fullmatch(target):
                raise self.wrong("a target as +3, -2 or a label")
            self.put(Insn(opcode, dst, src, 0, imm), label=("imm" if far else "off", target))
        elif not -(1 << (31 if far else 15)) <= distance < 1 << (31 if far else 15):
            raise self.wrong(f"a distance of {32 if far else 16} bits")
        else:
            self.put(Insn(opcode, dst, src, 0 if far else distance, distance if far else imm))


def _binary(klass: Class, code: Alu, off: int) -> Assemble:
    def assemble(line: _Line, operands: Operands) -> None:
        dst, operand = line.take(operands, 2)
        source, src, imm = line.source(operand)
        line.put(Insn(arithmetic(klass, code, source), line.register(dst), src, off, imm))

    return assemble


def _unary(opcode: int, imm: int = 0) -> Assemble:
    def assemble(line: _Line, operands: Operands) -> None:
        (dst,) = line.take(operands, 1)
        line.put(Insn(opcode, line.register(dst), imm=imm))

    return assemble


def _movsx(klass: Class, size: int) -> Assemble:
    def assemble(line: _Line, operands: Operands) -> None:
        dst, src = line.take(operands, 2)
        line.put(Insn(arithmetic(klass, Alu.MOV, Source.X), line.register(dst), line.register(src), size))

    return assemble


def _conditional(klass: Class, code: Jmp) -> Assemble:
    def assemble(line: _Line, operands: Operands) -> None:
        dst, operand, target = line.take(operands, 3)
        source, src, imm = line.source(operand)
        line.jump(arithmetic(klass, code, source), line.register(dst), src, imm, target)

    return assemble


def _always(opcode: int, *, far: bool = False) -> Assemble:
    def assemble(line: _Line, operands: Operands) -> None:
        (target,) = line.take(operands, 1)
        line.jump(opcode, 0, 0, 0, target, far=far)

    return assemble


def _load(mode: Mode, size: Size) -> Assemble:
    def assemble(line: _Line, operands: Operands) -> None:
        dst, place = line.take(operands, 2)
        src, off = line.memory(place)
        line.put(Insn(load_store(Class.LDX, mode, size), line.register(dst), src, off))

    return assemble


def _store(klass: Class, size: Size) -> Assemble:
    def assemble(line: _Line, operands: Operands) -> None:
        place, value = line.take(operands, 2)
        dst, off = line.memory(place)
        opcode = load_store(klass, Mode.MEM, size)
        if klass is Class.ST:
            line.put(Insn(opcode, dst, 0, off, line.immediate(value)))
        else:
            line.put(Insn(opcode, dst, line.register(value), off))

    return assemble


def _wide(line: _Line, operands: Operands) -> None:
    dst, operand = line.take(operands, 2)
    value = line.number_of(operand)
    halves = split64(value) if value is not None else None
    if halves is None:
        raise line.wrong("an immediate of 64 bits")
    line.put(Insn(WIDE, line.register(dst), imm=halves[0]), high=halves[1])


def _packet(mode: Mode, size: Size) -> Assemble:
    def assemble(line: _Line, operands: Operands) -> None:
        *register, imm = line.take(operands, 1 if mode is Mode.ABS else 2)
        src = line.register(register[0]) if register else 0
        line.put(Insn(load_store(Class.LD, mode, size), 0, src, 0, line.immediate(imm)))

    return assemble


def _call(line: _Line, operands: Operands) -> None:
    """`call 5`, `call local NAME`, `call NAME`: a helper by id, a function of the program by label, either by name."""
    (operand,) = line.take(operands, 1)
    words = operand.split()
    local = len(words) == 2 and words[0].lower() == "local"
    name = words[-1]
    number = line.number_of(name)
    if len(words) > 1 and not local:
        raise line.wrong("call N, call NAME or call local NAME")
    if number is None and not _NAME.fullmatch(name):
        raise line.wrong("a function's number or label")
    if number is not None:
        line.put(Insn(CALL, 0, int(Call.SUBPROGRAM if local else Call.HELPER), 0, line.immediate(name)))
    elif local:
        line.put(Insn(CALL, 0, int(Call.SUBPROGRAM)), label=("imm", name))
    else:
        line.put(Insn(CALL), label=("call", name))


def _exit(line: _Line, operands: Operands) -> None:
    line.take(operands, 0)
    line.put(Insn(EXIT))


_CALLX = 0x8D
"""{CALL, X, JMP}, in no table of RFC 9669 and refused by every kernel; so it is here, with its opcode."""
_ATOMICS = {
    "add": Atomic.ADD,
    "or": Atomic.OR,
    "and": Atomic.AND,
    "xor": Atomic.XOR,
    "xchg": Atomic.XCHG,
    "cmpxchg": Atomic.CMPXCHG,
}
_ATOMIC = re.compile(r"(?:(?:atomic_)?fetch[_ ]?)?(add|or|and|xor|xchg|cmpxchg)(?:[_ ]?fetch)?(32|64)?(?:[_ ]?fetch)?")


def _lock(line: _Line, operands: Operands) -> None:
    """`lock add [%r1+8], %r2`, `lock fetch_add32 …`, `lock xchg …`, `lock cmpxchg32 …` (compares with r0)."""
    first, value = line.take(operands, 2)
    name, bracket, place = first.partition("[")
    match = _ATOMIC.fullmatch(name.strip().lower())
    if match is None or not bracket:
        raise line.wrong("lock OPERATION [%r1+8], %r2")
    dst, off = line.memory(bracket + place)
    imm = int(_ATOMICS[match[1]]) | ("fetch" in match[0] and Atomic.FETCH)
    size = Size.W if match[2] == "32" else Size.DW
    line.put(Insn(load_store(Class.STX, Mode.ATOMIC, size), dst, line.register(value), off, imm))


def _arithmetic_rows() -> Iterator[tuple[str, Assemble]]:
    for suffix, klass in (("", Class.ALU64), ("64", Class.ALU64), ("32", Class.ALU)):
        for code in Alu:
            if code not in (Alu.NEG, Alu.END):
                yield code.name.lower() + suffix, _binary(klass, code, 0)
        yield "sdiv" + suffix, _binary(klass, Alu.DIV, AluOffset.SIGNED)
        yield "smod" + suffix, _binary(klass, Alu.MOD, AluOffset.SIGNED)
        yield "neg" + suffix, _unary(arithmetic(klass, Alu.NEG, Source.K))
        for size in (8, 16, 32)[: 2 if suffix == "32" else 3]:
            yield f"movsx{size}{suffix}", _movsx(klass, size)
    for width in (16, 32, 64):
        yield f"le{width}", _unary(arithmetic(Class.ALU, Alu.END, Source.K), width)
        yield f"be{width}", _unary(arithmetic(Class.ALU, Alu.END, Source.X), width)
        for name in ("swap", "bswap"):
            yield f"{name}{width}", _unary(arithmetic(Class.ALU64, Alu.END, Source.K), width)


def _jump_rows() -> Iterator[tuple[str, Assemble]]:
    for suffix, klass in (("", Class.JMP), ("64", Class.JMP), ("32", Class.JMP32)):
        for code in (
            *(Jmp.JEQ, Jmp.JGT, Jmp.JGE, Jmp.JSET, Jmp.JNE, Jmp.JSGT, Jmp.JSGE),
            *(Jmp.JLT, Jmp.JLE, Jmp.JSLT, Jmp.JSLE),
        ):
            yield code.name.lower() + suffix, _conditional(klass, code)
    yield from ((name, _always(GOTO)) for name in ("ja", "goto"))
    yield from ((name, _always(GOTOL, far=True)) for name in ("ja32", "jal", "gotol"))
    yield from (("may_goto", _always(MAY_GOTO)), ("call", _call), ("callx", _unary(_CALLX)), ("exit", _exit))


def _memory_rows() -> Iterator[tuple[str, Assemble]]:
    for letter, size in SIZES.items():
        yield f"ldx{letter}", _load(Mode.MEM, size)
        yield f"st{letter}", _store(Class.ST, size)
        yield f"stx{letter}", _store(Class.STX, size)
        if size is not Size.DW:
            for name in (f"ldx{letter}sx", f"ldxs{letter}", f"ldsx{letter}"):
                yield name, _load(Mode.MEMSX, size)
            yield f"ldabs{letter}", _packet(Mode.ABS, size)
            yield f"ldind{letter}", _packet(Mode.IND, size)
    yield "lddw", _wide
    yield "lock", _lock


MNEMONICS: Mapping[str, Assemble] = dict([*_arithmetic_rows(), *_jump_rows(), *_memory_rows()])
"""Every mnemonic, in lower case."""


def load(text: str, file: str, helper_ids: Mapping[str, int]) -> Program:
    """The program of an assembly text. Raises `InputError` with the line for what is not as above."""
    draft = Draft(file, helper_ids)
    for number, raw in enumerate(bounded(text, file), 1):
        statement = draft.take_labels(number, _COMMENT.sub("", raw, count=1)).strip()
        if not statement:
            continue
        line = _Line(draft, number, statement)
        mnemonic, *rest = statement.split(None, 1)
        assemble = MNEMONICS.get(mnemonic.lower())
        if assemble is None:
            raise line.wrong("a mnemonic of uBPF's assembly")
        assemble(line, [operand.strip() for operand in rest[0].split(",")] if rest else [])
    return draft.program()
