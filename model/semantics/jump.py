"""Conditions of jumps (RFC 9669, section 4.3): one function a row, for JMP (64 bits) and JMP32 (32) alike.

`dst` and `src` are words of the `Bits`' width: for JMP32 the low halves; an immediate source is
sign-extended to 64 bits also where the compare is unsigned.
"""

from collections.abc import Callable, Mapping

from model.bits import B, Bits, W


def jeq(b: Bits[W, B], dst: W, src: W) -> B:
    """JEQ: dst == src."""
    return b.eq(dst, src)


def jgt(b: Bits[W, B], dst: W, src: W) -> B:
    """JGT: dst > src, unsigned."""
    return b.ult(src, dst)


def jge(b: Bits[W, B], dst: W, src: W) -> B:
    """JGE: dst >= src, unsigned."""
    return b.ule(src, dst)


def jset(b: Bits[W, B], dst: W, src: W) -> B:
    """JSET: dst & src is not zero; in JMP32 bits 32 to 63 do not count."""
    return b.negate(b.eq(b.bvand(dst, src), b.const(0)))


def jne(b: Bits[W, B], dst: W, src: W) -> B:
    """JNE: dst != src."""
    return b.negate(b.eq(dst, src))


def jsgt(b: Bits[W, B], dst: W, src: W) -> B:
    """JSGT: dst > src, signed."""
    return b.slt(src, dst)


def jsge(b: Bits[W, B], dst: W, src: W) -> B:
    """JSGE: dst >= src, signed."""
    return b.sle(src, dst)


def jlt(b: Bits[W, B], dst: W, src: W) -> B:
    """JLT: dst < src, unsigned."""
    return b.ult(dst, src)


def jle(b: Bits[W, B], dst: W, src: W) -> B:
    """JLE: dst <= src, unsigned."""
    return b.ule(dst, src)


def jslt(b: Bits[W, B], dst: W, src: W) -> B:
    """JSLT: dst < src, signed."""
    return b.slt(dst, src)


def jsle(b: Bits[W, B], dst: W, src: W) -> B:
    """JSLE: dst <= src, signed."""
    return b.sle(dst, src)


Condition = Callable[[Bits[W, B], W, W], B]


def table() -> Mapping[int, "Condition[W, B]"]:
    """opcode & 0xf0 -> condition, for the rows of table "jump instructions" but JA, CALL and EXIT."""
    return {
        0x10: jeq,
        0x20: jgt,
        0x30: jge,
        0x40: jset,
        0x50: jne,
        0x60: jsgt,
        0x70: jsge,
        0xA0: jlt,
        0xB0: jle,
        0xC0: jslt,
        0xD0: jsle,
    }
