"""Classes LD, LDX, ST and STX: a form of loads, stores and atomics -> what makes its operations. See `bind`."""

from collections.abc import MutableSequence
from typing import Any

from model.bits import B, Bits, W
from model.isa import opcodes
from model.isa.insn import Insn
from model.isa.opcodes import Atomic, Class, Imm64, Mode, Size, load_store
from model.memory import Memory
from model.semantics import atomic
from model.semantics import load_store as memory_rows
from model.semantics.hole import hole
from model.semantics.operation import Address, Maker, PacketLoad, Straight

_LOADS: Any = memory_rows.loads()
_ATOMIC: Any = atomic.table()

CONTEXT = 6
"""The register that legacy packet loads take the context from (BPF_REG_CTX, include/linux/filter.h)."""
NOSPEC = load_store(Class.ST, Mode.NOSPEC, Size.W)


def maker(b: Bits[W, B], insn: Insn) -> Maker[W, B]:
    """See `bind.maker`."""
    match insn.opcode & 7:
        case Class.LD:
            return _load_special(b, insn)
        case Class.LDX:
            return _load(b, insn)
        case Class.ST:
            return _store_immediate(b, insn)
        case _:
            return _store_register(b, insn)


def put(r: MutableSequence[W], memory: Memory[W], dst: int, src: W, _: None) -> Memory[W]:
    """dst = the word that the instruction holds."""
    r[dst] = src
    return memory


def _nothing(r: MutableSequence[W], memory: Memory[W], dst: int, src: None, _: None) -> Memory[W]:
    return memory


def _size(insn: Insn) -> int:
    return Size(insn.opcode >> 3 & 3).bytes


def _base(insn: Insn, register: int) -> int:
    """The register that an address comes from: not r11, behind which are arguments past the fifth (7.3)."""
    if register == opcodes.STACK_ARGUMENTS:
        raise hole(insn, "arguments on the stack are not modelled")
    return register


def _load_special(b: Bits[W, B], insn: Insn) -> Maker[W, B]:
    """Class LD: 64-bit immediates (section 5.4) and legacy packet loads (section 5.5)."""
    mode, at, size = insn.opcode >> 5, b.at(32), _size(insn)
    if insn.opcode == opcodes.WIDE:
        if insn.src not in tuple(Imm64):
            raise hole(insn)
        if insn.src != Imm64.INTEGER:
            return lambda insn, imm, high: Address(insn.dst, Imm64(insn.src), insn.imm, high)
        return lambda insn, imm, high: Straight(put, insn.dst, memory_rows.wide(b, imm, at.const(high)), None, slots=2)
    if mode not in (Mode.ABS, Mode.IND) or insn.opcode >> 3 & 3 == Size.DW:
        raise hole(insn)
    if mode == Mode.ABS:
        return lambda insn, imm, high: PacketLoad(lambda r: imm, size, (CONTEXT,))
    return lambda insn, imm, high: PacketLoad(
        lambda r: at.add(b.extract(r[insn.src], 31, 0), imm), size, (CONTEXT, insn.src)
    )


def _load(b: Bits[W, B], insn: Insn) -> Maker[W, B]:
    """Class LDX (sections 5.1, 5.2). The guarded loads of the rewrites need the kernel's exception tables."""
    extend = _LOADS.get(insn.opcode >> 5)
    if extend is None or (insn.opcode >> 5 == Mode.MEMSX and _size(insn) == 8):
        raise hole(insn)
    return _loader(b, _size(insn), extend)


def _loader(b: Bits[W, B], size: int, extend: Any) -> Maker[W, B]:
    def effect(r: "MutableSequence[W]", memory: "Memory[W]", dst: int, src: int, offset: W) -> "Memory[W]":
        r[dst] = extend(b, memory.load(memory_rows.address(b, r[src], offset), size), size)
        return memory

    return lambda insn, imm, high: Straight(effect, insn.dst, _base(insn, insn.src), b.const(insn.off), (insn.src,))


def _store_immediate(b: Bits[W, B], insn: Insn) -> Maker[W, B]:
    """Class ST (section 5.1), and the speculation barrier (include/linux/filter.h), which changes nothing."""
    if insn.opcode == NOSPEC:
        return lambda insn, imm, high: Straight(_nothing, 0, None, None)
    if insn.opcode >> 5 != Mode.MEM:
        raise hole(insn)
    size, at = _size(insn), b.at(32)

    def effect(r: "MutableSequence[W]", memory: "Memory[W]", dst: int, src: W, offset: W) -> "Memory[W]":
        return memory_rows.store(b, memory, memory_rows.address(b, r[dst], offset), size, src)

    return lambda insn, imm, high: Straight(
        effect, _base(insn, insn.dst), at.sext(imm, 64), b.const(insn.off), (insn.dst,)
    )


def _store_register(b: Bits[W, B], insn: Insn) -> Maker[W, B]:
    """Class STX (sections 5.1, 5.3)."""
    mode = insn.opcode >> 5
    if mode == Mode.MEM or (mode == Mode.ATOMIC and insn.imm == Atomic.STORE_REL):
        return _storer(b, _size(insn))
    if mode != Mode.ATOMIC:
        raise hole(insn)
    if insn.imm == Atomic.LOAD_ACQ:
        return _loader(b, _size(insn), memory_rows.mem)
    return _atomic(b, insn)


def _storer(b: Bits[W, B], size: int) -> Maker[W, B]:
    def effect(r: "MutableSequence[W]", memory: "Memory[W]", dst: int, src: int, offset: W) -> "Memory[W]":
        return memory_rows.store(b, memory, memory_rows.address(b, r[dst], offset), size, r[src])

    return lambda insn, imm, high: Straight(
        effect, _base(insn, insn.dst), insn.src, b.const(insn.off), (insn.dst, insn.src)
    )


def _atomic(b: Bits[W, B], insn: Insn) -> Maker[W, B]:
    """Read, modify, write (section 5.3), 32 or 64 bits."""
    code = insn.imm
    row, size = _ATOMIC.get(code & ~Atomic.FETCH), _size(insn)
    complete = code in (Atomic.XCHG, Atomic.CMPXCHG) or code & ~Atomic.FETCH < Atomic.XCHG & ~Atomic.FETCH
    if row is None or size < 4 or not complete:
        raise hole(insn)
    at, top = b.at(8 * size), 8 * size - 1
    compares = code == Atomic.CMPXCHG

    def effect(r: "MutableSequence[W]", memory: "Memory[W]", dst: int, src: int, offset: W) -> "Memory[W]":
        place = memory_rows.address(b, r[dst], offset)
        old = memory.load(place, size)
        operand = b.extract(r[src], top, 0)
        new = row(at, old, operand, b.extract(r[0], top, 0) if compares else operand)
        into = atomic.result_register(code, src)
        if into is not None:
            r[into] = at.zext(old, 64)
        return memory.store(place, size, new)

    if compares:
        return lambda insn, imm, high: Straight(effect, insn.dst, insn.src, b.const(insn.off), (insn.dst, insn.src, 0))
    return lambda insn, imm, high: Straight(effect, insn.dst, insn.src, b.const(insn.off), (insn.dst, insn.src))
