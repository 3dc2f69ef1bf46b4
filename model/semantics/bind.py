"""An instruction's fields -> its `Operation`: decoded once, run often.

This and `bind_memory` are the only places that look at opcodes. What an opcode and the fields that select a
row mean is looked up once a form (`maker`); an instruction of it adds its registers, offset and immediate.
`b` has width 64; `imm` is the immediate as a word of 32 bits (it may be unknown; where the immediate selects
a row, `insn.imm` does). Raises `Unsupported`, with the row's name, for what has no meaning here. Whether a
slot is valid (reserved fields, register numbers) is `model.isa.codec`'s question.
"""

from collections.abc import Callable, MutableSequence, Sequence
from functools import partial
from typing import Any

from model.bits import B, Bits, W
from model.isa import opcodes
from model.isa.insn import Insn
from model.isa.opcodes import Alu, AluOffset, Call, Class, Jmp, Source, arithmetic
from model.memory import Memory
from model.semantics import alu, bind_memory, endian, jump
from model.semantics.bind_memory import put
from model.semantics.endian import ByteOrder
from model.semantics.hole import hole
from model.semantics.operation import (
    Branch,
    Exit,
    Goto,
    Invoke,
    Maker,
    MayGoto,
    Operation,
    PerCpu,
    Straight,
    TailCall,
)

_ALU: Any = alu.table()
_END: Any = endian.table()
_JUMP: Any = jump.table()

TAIL_CALL = arithmetic(Class.JMP, Jmp.TAIL_CALL, Source.K)
MOVSX = (AluOffset.MOVSX8, AluOffset.MOVSX16, AluOffset.MOVSX32)


def bind(b: Bits[W, B], insn: Insn, imm: W, *, high: int = 0, order: ByteOrder = "little") -> Operation[W, B]:
    """The operation of `insn`; `high` is the second slot's immediate of a wide form, `order` the host's byte order."""
    return maker(b, insn, order)(insn, imm, high)


def maker(b: Bits[W, B], insn: Insn, order: ByteOrder = "little") -> Maker[W, B]:
    """What makes the operations of `insn` and of all instructions of its form (`model.isa.forms`)."""
    match insn.opcode & 7:
        case Class.ALU | Class.ALU64:
            return _arithmetic(b, insn, order)
        case Class.JMP | Class.JMP32:
            return _jump(b, insn)
        case _:
            return bind_memory.maker(b, insn)


def _at(b: Bits[W, B], width: int, row: Any, *, register: bool) -> Callable[[W, W], Any]:
    """`row` on the low `width` bits of 64-bit registers (section 4). An immediate has `width` bits already."""
    if width == 64:
        return partial(row, b)
    at = b.at(width)
    if register:
        return lambda x, y: row(at, b.extract(x, 31, 0), b.extract(y, 31, 0))
    return lambda x, y: row(at, b.extract(x, 31, 0), y)


def _immediate(b: Bits[W, B], width: int) -> Callable[[W], W]:
    """The immediate as a word of `width` bits: sign-extended, also where the row is unsigned (section 4)."""
    at = b.at(32)
    return (lambda imm: at.sext(imm, 64)) if width == 64 else (lambda imm: imm)


def _arithmetic(b: Bits[W, B], insn: Insn, order: ByteOrder) -> Maker[W, B]:
    """ALU and ALU64 (sections 4.1, 4.2)."""
    code, register = insn.opcode >> 4, bool(insn.opcode & 8)
    width = 64 if insn.opcode & 7 == Class.ALU64 else 32
    if code == Alu.END:
        return _swap(b, insn, order)
    if code == Alu.MOV and register and insn.off:
        return _move_special(b, insn, width)
    row = _ALU.get((insn.opcode & 0xF0, insn.off))
    if row is None or (code == Alu.NEG and register):
        raise hole(insn)
    if code == Alu.MOV and register:
        return _move(b, width, lambda at, word: row(at, word, word))
    if code == Alu.MOV:
        at, word = b.at(width), _immediate(b, width)
        return lambda insn, imm, high: Straight(put, insn.dst, at.zext(word(imm), 64), None)
    return _two_operands(b, width, row, register=register)


def _two_operands(b: Bits[W, B], width: int, row: Any, *, register: bool) -> Maker[W, B]:
    """dst = row(dst, src); a result of 32 bits is zero-extended (section 4.1)."""

    def widened(at: Any, x: Any, y: Any) -> Any:
        return at.zext(row(at, x, y), 64)

    result = _at(b, width, row if width == 64 else widened, register=register)
    if register:

        def from_register(r: "MutableSequence[W]", memory: "Memory[W]", dst: int, src: int, _: None) -> "Memory[W]":
            r[dst] = result(r[dst], r[src])
            return memory

        return lambda insn, imm, high: Straight(from_register, insn.dst, insn.src, None, (insn.src, insn.dst))

    def from_immediate(r: "MutableSequence[W]", memory: "Memory[W]", dst: int, src: W, _: None) -> "Memory[W]":
        r[dst] = result(r[dst], src)
        return memory

    word = _immediate(b, width)
    return lambda insn, imm, high: Straight(from_immediate, insn.dst, word(imm), None, (insn.dst,))


def _move(b: Bits[W, B], width: int, row: Any) -> Maker[W, B]:
    """MOV from a register (section 4.1), which does not read dst; `row` takes a `Bits` and a word."""
    at = b.at(width)

    def effect(r: "MutableSequence[W]", memory: "Memory[W]", dst: int, src: int, _: None) -> "Memory[W]":
        r[dst] = at.zext(row(at, b.extract(r[src], width - 1, 0)), 64)
        return memory

    return lambda insn, imm, high: Straight(effect, insn.dst, insn.src, None, (insn.src,))


def _move_special(b: Bits[W, B], insn: Insn, width: int) -> Maker[W, B]:
    """MOV with an offset: MOVSX (section 4.1), and the kernel's own."""
    size = insn.off
    if size in MOVSX[: 2 if width == 32 else 3]:
        return _move(b, width, lambda at, word: alu.movsx(at, word, size))
    if width == 64 and size == AluOffset.ADDR_PERCPU:
        return lambda insn, imm, high: PerCpu(insn.dst, insn.src, (insn.src,))
    if width == 64 and size == AluOffset.ADDR_SPACE_CAST:
        raise hole(insn, "arenas are not modelled")
    raise hole(insn)


def _swap(b: Bits[W, B], insn: Insn, order: ByteOrder) -> Maker[W, B]:
    """END (section 4.2)."""
    row, size = _END.get((insn.opcode & 7, insn.opcode >> 3 & 1)), insn.imm
    if row is None or size not in endian.SIZES or insn.off:
        raise hole(insn)

    def effect(r: "MutableSequence[W]", memory: "Memory[W]", dst: int, src: None, _: None) -> "Memory[W]":
        r[dst] = row(b, r[dst], size, order)
        return memory

    return lambda insn, imm, high: Straight(effect, insn.dst, None, None, (insn.dst,))


def _jump(b: Bits[W, B], insn: Insn) -> Maker[W, B]:
    """JMP and JMP32 (section 4.3)."""
    match insn.opcode:
        case opcodes.GOTO:
            return lambda insn, imm, high: Goto(insn.off)
        case opcodes.GOTOL:
            return lambda insn, imm, high: Goto(insn.imm)
        case opcodes.CALL if insn.src in (Call.HELPER, Call.SUBPROGRAM, Call.KFUNC):
            return lambda insn, imm, high: Invoke(Call(insn.src), insn.imm)
        case opcodes.EXIT:
            return lambda insn, imm, high: Exit()
        case opcodes.MAY_GOTO if insn.src == 0:
            return lambda insn, imm, high: MayGoto(insn.off)
        case _ if insn.opcode == TAIL_CALL:
            return lambda insn, imm, high: TailCall()
    row = _JUMP.get(insn.opcode & 0xF0)
    if row is None:
        raise hole(insn)
    return _branch(b, 64 if insn.opcode & 7 == Class.JMP else 32, row, register=bool(insn.opcode & 8))


def _branch(b: Bits[W, B], width: int, row: Any, *, register: bool) -> Maker[W, B]:
    holds = _at(b, width, row, register=register)
    if register:

        def on_register(r: "Sequence[W]", dst: int, src: int) -> B:
            result: B = holds(r[dst], r[src])
            return result

        return lambda insn, imm, high: Branch(on_register, insn.dst, insn.src, insn.off, (insn.dst, insn.src))

    def on_immediate(r: "Sequence[W]", dst: int, src: W) -> B:
        result: B = holds(r[dst], src)
        return result

    word = _immediate(b, width)
    return lambda insn, imm, high: Branch(on_immediate, insn.dst, word(imm), insn.off, (insn.dst,))
