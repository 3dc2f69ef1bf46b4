"""An instruction's fields -> its `Operation`: decoded once, run often.

This is the only place that looks at opcodes. `b` has width 64; `imm` is the immediate as a word of 32 bits
(it may be unknown; where the immediate selects a row, `insn.imm` does). Raises `Unsupported`, with the row's
name, for what has no meaning here. Whether a slot is valid (reserved fields, register numbers) is
`model.isa.codec`'s question.
"""

from collections.abc import Callable, MutableSequence, Sequence
from typing import Any

from model.bits import B, Bits, W
from model.errors import Unsupported
from model.isa import opcodes
from model.isa.codec import form_of
from model.isa.insn import Insn
from model.isa.opcodes import (
    Alu,
    AluOffset,
    Atomic,
    Call,
    Class,
    Imm64,
    Jmp,
    Mode,
    Size,
    Source,
    arithmetic,
    load_store,
)
from model.memory import Memory
from model.semantics import alu, atomic, endian, jump
from model.semantics import load_store as memory_rows
from model.semantics.endian import ByteOrder
from model.semantics.operation import (
    Address,
    Branch,
    Effect,
    Exit,
    Goto,
    Invoke,
    MayGoto,
    Operation,
    PacketLoad,
    PerCpu,
    Straight,
    TailCall,
)

_ALU: Any = alu.table()
_END: Any = endian.table()
_JUMP: Any = jump.table()
_LOADS: Any = memory_rows.loads()
_ATOMIC: Any = atomic.table()

Value = Callable[[Sequence[W]], W]
"""What an operand is, given the registers."""

TAIL_CALL = arithmetic(Class.JMP, Jmp.TAIL_CALL, Source.K)
CONTEXT = 6
"""The register that legacy packet loads take the context from (BPF_REG_CTX, include/linux/filter.h)."""
MOVSX = (AluOffset.MOVSX8, AluOffset.MOVSX16, AluOffset.MOVSX32)
NOSPEC = load_store(Class.ST, Mode.NOSPEC, Size.W)


def name_of(insn: Insn) -> str:
    """The form's name in the RFC's notation, or the opcode where no form has these fields."""
    form = form_of(insn, loaded=True)
    return form.name if form is not None else f"opcode 0x{insn.opcode:02x} with offset {insn.off}"


def bind(b: Bits[W, B], insn: Insn, imm: W, *, high: int = 0, order: ByteOrder = "little") -> Operation[W, B]:
    """The operation of `insn`; `high` is the second slot's immediate of a wide form, `order` the host's byte order."""
    match insn.opcode & 7:
        case Class.ALU | Class.ALU64:
            return _arithmetic(b, insn, imm, order)
        case Class.JMP | Class.JMP32:
            return _jump(b, insn, imm)
        case Class.LD:
            return _load_special(b, insn, imm, high)
        case Class.LDX:
            return _load(b, insn)
        case Class.ST:
            return _store_immediate(b, insn, imm)
        case _:
            return _store_register(b, insn)


def _hole(insn: Insn, why: str = "") -> Unsupported:
    return Unsupported(f"no meaning for {name_of(insn)}{': ' if why else ''}{why}")


def _operand(b: Bits[W, B], insn: Insn, imm: W, width: int) -> "Value[W]":
    """The source operand (section 4): the register's low `width` bits, or the immediate.

    The immediate is sign-extended to 64 bits, also where the row is unsigned.
    """
    src = insn.src
    if insn.opcode & 8:
        return (lambda r: r[src]) if width == 64 else (lambda r: b.extract(r[src], 31, 0))
    constant = b.at(32).sext(imm, 64) if width == 64 else imm
    return lambda r: constant


def _destination(b: Bits[W, B], insn: Insn, width: int) -> "Value[W]":
    dst = insn.dst
    return (lambda r: r[dst]) if width == 64 else (lambda r: b.extract(r[dst], 31, 0))


def _put(b: Bits[W, B], width: int, dst: int, value: "Value[W]") -> Effect[W]:
    """dst = value, which has `width` bits: a result of 32 bits is zero-extended (section 4.1)."""
    if width == 64:

        def effect(r: MutableSequence[W], memory: Memory[W]) -> Memory[W]:
            r[dst] = value(r)
            return memory

    else:
        narrow = b.at(width)

        def effect(r: MutableSequence[W], memory: Memory[W]) -> Memory[W]:
            r[dst] = narrow.zext(value(r), 64)
            return memory

    return effect


def _arithmetic(b: Bits[W, B], insn: Insn, imm: W, order: ByteOrder) -> Operation[W, B]:
    """ALU and ALU64 (sections 4.1, 4.2)."""
    code, register = insn.opcode >> 4, insn.opcode & 8
    width = 64 if insn.opcode & 7 == Class.ALU64 else 32
    if code == Alu.END:
        return _swap(b, insn, order)
    if code == Alu.MOV and register and insn.off:
        return _move(b, insn, width)
    row = _ALU.get((insn.opcode & 0xF0, insn.off))
    if row is None or (code == Alu.NEG and register):
        raise _hole(insn)
    at, source, target = b.at(width), _operand(b, insn, imm, width), _destination(b, insn, width)
    reads = (insn.src,) if register else ()
    if code == Alu.MOV:  # does not read dst

        def value(r: Sequence[W]) -> W:
            word = source(r)
            result: W = row(at, word, word)
            return result

    else:
        reads = (*reads, insn.dst)

        def value(r: Sequence[W]) -> W:
            result: W = row(at, target(r), source(r))
            return result

    return Straight(_put(b, width, insn.dst, value), reads)


def _move(b: Bits[W, B], insn: Insn, width: int) -> Operation[W, B]:
    """MOV with an offset: MOVSX (section 4.1), and the kernel's own."""
    size, src = insn.off, insn.src
    if size in MOVSX[: 2 if width == 32 else 3]:
        at = b.at(width)
        source = (lambda r: r[src]) if width == 64 else (lambda r: b.extract(r[src], 31, 0))
        return Straight(_put(b, width, insn.dst, lambda r: alu.movsx(at, source(r), size)), (src,))
    if width == 64 and size == AluOffset.ADDR_PERCPU:
        return PerCpu(insn.dst, src, (src,))
    if width == 64 and size == AluOffset.ADDR_SPACE_CAST:
        raise _hole(insn, "arenas are not modelled")
    raise _hole(insn)


def _swap(b: Bits[W, B], insn: Insn, order: ByteOrder) -> Operation[W, B]:
    row = _END.get((insn.opcode & 7, insn.opcode >> 3 & 1))
    size, dst = insn.imm, insn.dst
    if row is None or size not in endian.SIZES or insn.off:
        raise _hole(insn)
    return Straight(_put(b, 64, dst, lambda r: row(b, r[dst], size, order)), (dst,))


def _jump(b: Bits[W, B], insn: Insn, imm: W) -> Operation[W, B]:
    """JMP and JMP32 (section 4.3)."""
    match insn.opcode:
        case opcodes.GOTO:
            return Goto(insn.off)
        case opcodes.GOTOL:
            return Goto(insn.imm)
        case opcodes.CALL if insn.src in (Call.HELPER, Call.SUBPROGRAM, Call.KFUNC):
            return Invoke(Call(insn.src), insn.imm)
        case opcodes.EXIT:
            return Exit()
        case opcodes.MAY_GOTO if insn.src == 0:
            return MayGoto(insn.off)
        case _ if insn.opcode == TAIL_CALL:
            return TailCall()
    row = _JUMP.get(insn.opcode & 0xF0)
    if row is None:
        raise _hole(insn)
    width = 64 if insn.opcode & 7 == Class.JMP else 32
    at, source, target = b.at(width), _operand(b, insn, imm, width), _destination(b, insn, width)
    reads = (insn.dst, insn.src) if insn.opcode & 8 else (insn.dst,)

    def taken(r: Sequence[W]) -> B:
        holds: B = row(at, target(r), source(r))
        return holds

    return Branch(taken, insn.off, reads)


def _size(insn: Insn) -> int:
    return Size(insn.opcode >> 3 & 3).bytes


def _base(insn: Insn, register: int) -> int:
    """The register that an address comes from: not r11, behind which are arguments past the fifth (7.3)."""
    if register == opcodes.STACK_ARGUMENTS:
        raise _hole(insn, "arguments on the stack are not modelled")
    return register


def _load_special(b: Bits[W, B], insn: Insn, imm: W, high: int) -> Operation[W, B]:
    """Class LD: 64-bit immediates (section 5.4) and legacy packet loads (section 5.5)."""
    mode, src = insn.opcode >> 5, insn.src
    if insn.opcode == opcodes.WIDE:
        if insn.src not in tuple(Imm64):
            raise _hole(insn)
        if insn.src != Imm64.INTEGER:
            return Address(insn.dst, Imm64(insn.src), insn.imm, high)
        word = memory_rows.wide(b, imm, b.at(32).const(high))
        return Straight(_put(b, 64, insn.dst, lambda r: word), slots=2)
    if mode not in (Mode.ABS, Mode.IND) or insn.opcode >> 3 & 3 == Size.DW:
        raise _hole(insn)
    if mode == Mode.ABS:
        return PacketLoad(lambda r: imm, _size(insn), (CONTEXT,))
    at = b.at(32)
    return PacketLoad(lambda r: at.add(b.extract(r[src], 31, 0), imm), _size(insn), (CONTEXT, src))


def _load(b: Bits[W, B], insn: Insn) -> Operation[W, B]:
    """Class LDX (sections 5.1, 5.2). The guarded loads of the rewrites need the kernel's exception tables."""
    extend = _LOADS.get(insn.opcode >> 5)
    if extend is None or (insn.opcode >> 5 == Mode.MEMSX and _size(insn) == 8):
        raise _hole(insn)
    return Straight(_loader(b, insn, extend), (insn.src,))


def _loader(b: Bits[W, B], insn: Insn, extend: Any) -> Effect[W]:
    size, dst, src, offset = _size(insn), insn.dst, _base(insn, insn.src), b.const(insn.off)

    def effect(r: MutableSequence[W], memory: Memory[W]) -> Memory[W]:
        r[dst] = extend(b, memory.load(memory_rows.address(b, r[src], offset), size), size)
        return memory

    return effect


def _store_immediate(b: Bits[W, B], insn: Insn, imm: W) -> Operation[W, B]:
    """Class ST (section 5.1), and the speculation barrier (include/linux/filter.h), which changes nothing."""
    if insn.opcode == NOSPEC:
        return Straight(lambda r, memory: memory)
    if insn.opcode >> 5 != Mode.MEM:
        raise _hole(insn)
    word = b.at(32).sext(imm, 64)
    return Straight(_storer(b, insn, lambda r: word), (insn.dst,))


def _store_register(b: Bits[W, B], insn: Insn) -> Operation[W, B]:
    """Class STX (sections 5.1, 5.3)."""
    mode, src = insn.opcode >> 5, insn.src
    if mode == Mode.MEM:
        return Straight(_storer(b, insn, lambda r: r[src]), (insn.dst, src))
    if mode != Mode.ATOMIC:
        raise _hole(insn)
    if insn.imm == Atomic.LOAD_ACQ:
        return Straight(_loader(b, insn, memory_rows.mem), (src,))
    if insn.imm == Atomic.STORE_REL:
        return Straight(_storer(b, insn, lambda r: r[src]), (insn.dst, src))
    return _atomic(b, insn)


def _storer(b: Bits[W, B], insn: Insn, value: "Value[W]") -> Effect[W]:
    size, dst, offset = _size(insn), _base(insn, insn.dst), b.const(insn.off)

    def effect(r: MutableSequence[W], memory: Memory[W]) -> Memory[W]:
        return memory_rows.store(b, memory, memory_rows.address(b, r[dst], offset), size, value(r))

    return effect


def _atomic(b: Bits[W, B], insn: Insn) -> Operation[W, B]:
    """Read, modify, write (section 5.3), 32 or 64 bits."""
    row = _ATOMIC.get(insn.imm & ~Atomic.FETCH)
    size, dst, src, offset = _size(insn), insn.dst, insn.src, b.const(insn.off)
    complete = insn.imm in (Atomic.XCHG, Atomic.CMPXCHG) or insn.imm & ~Atomic.FETCH < Atomic.XCHG & ~Atomic.FETCH
    if row is None or size < 4 or not complete:
        raise _hole(insn)
    at, top, into = b.at(8 * size), 8 * size - 1, atomic.result_register(insn.imm, src)
    compares = insn.imm == Atomic.CMPXCHG

    def effect(r: MutableSequence[W], memory: Memory[W]) -> Memory[W]:
        place = memory_rows.address(b, r[dst], offset)
        old = memory.load(place, size)
        operand = b.extract(r[src], top, 0)
        new = row(at, old, operand, b.extract(r[0], top, 0) if compares else operand)
        if into is not None:
            r[into] = at.zext(old, 64)
        return memory.store(place, size, new)

    return Straight(effect, (dst, src, 0) if compares else (dst, src))
