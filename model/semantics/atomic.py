"""Atomic operations (RFC 9669, section 5.3): one function a row, for 32 and 64 bits alike.

The width is the `Bits`' own. `old` is the word in memory, `src` the source register's low bits, `r0` those of
r0; the result is the word that memory holds after. What goes back into a register is `old`, zero-extended to
64 bits: also for the 32-bit forms, whose register keeps nothing of its upper half. In this model one
instruction is one step, so that nothing comes between its load and its store.
"""

from collections.abc import Callable, Mapping

from model.bits import B, Bits, W
from model.isa.opcodes import Atomic


def add(b: Bits[W, B], old: W, src: W, r0: W) -> W:
    """ADD: *(uN *)(dst + offset) += src."""
    return b.add(old, src)


def bit_or(b: Bits[W, B], old: W, src: W, r0: W) -> W:
    """OR: *(uN *)(dst + offset) |= src."""
    return b.bvor(old, src)


def bit_and(b: Bits[W, B], old: W, src: W, r0: W) -> W:
    """AND: *(uN *)(dst + offset) &= src."""
    return b.bvand(old, src)


def xor(b: Bits[W, B], old: W, src: W, r0: W) -> W:
    """XOR: *(uN *)(dst + offset) ^= src."""
    return b.bvxor(old, src)


def exchange(b: Bits[W, B], old: W, src: W, r0: W) -> W:
    """XCHG: memory and src change places; src (32-bit: its low half) goes to memory, the old word to src."""
    return src


def compare_exchange(b: Bits[W, B], old: W, src: W, r0: W) -> W:
    """CMPXCHG: where the old word equals r0 (32-bit: r0's low half), src goes to memory, else the old word stays.

    In either case r0 becomes the old word, zero-extended: a 32-bit cmpxchg that succeeds clears r0's upper half.
    """
    return b.ite(b.eq(old, r0), src, old)


Row = Callable[[Bits[W, B], W, W, W], W]


def table() -> Mapping[int, "Row[W, B]"]:
    """The immediate without FETCH (XCHG and CMPXCHG always have it) -> meaning, tables "simple" and "complex"."""
    return {
        Atomic.ADD: add,
        Atomic.OR: bit_or,
        Atomic.AND: bit_and,
        Atomic.XOR: xor,
        Atomic.XCHG & ~Atomic.FETCH: exchange,
        Atomic.CMPXCHG & ~Atomic.FETCH: compare_exchange,
    }


def result_register(imm: int, src: int) -> int | None:
    """Where the old word goes: r0 for CMPXCHG, `src` for the others with FETCH, nowhere without."""
    if imm == Atomic.CMPXCHG:
        return 0
    return src if imm & Atomic.FETCH else None
