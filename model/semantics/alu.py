"""Arithmetic (RFC 9669, section 4.1): one function a row, for ALU and ALU64 alike.

The width is the `Bits`' own: 64 for ALU64; 32 for ALU, whose operands are the registers' low halves and
whose result `model.semantics.bind` zero-extends to 64 bits, also where nothing seems to happen: a 32-bit
modulo by zero keeps the low half and clears the upper one. `dst` and `src` are words of that width; an
immediate source is sign-extended to 64 bits for ALU64, also where the row is unsigned.
"""

from collections.abc import Callable, Mapping

from model.bits import B, Bits, W


def add(b: Bits[W, B], dst: W, src: W) -> W:
    """ADD: dst += src; overflow wraps."""
    return b.add(dst, src)


def sub(b: Bits[W, B], dst: W, src: W) -> W:
    """SUB: dst -= src; underflow wraps."""
    return b.sub(dst, src)


def mul(b: Bits[W, B], dst: W, src: W) -> W:
    """MUL: dst *= src; the low `width` bits."""
    return b.mul(dst, src)


def div(b: Bits[W, B], dst: W, src: W) -> W:
    """DIV, offset 0: dst = (src != 0) ? (dst / src) : 0, unsigned; with 32 bits only src's low half counts as 0."""
    return b.ite(b.eq(src, b.const(0)), b.const(0), b.udiv(dst, src))


def sdiv(b: Bits[W, B], dst: W, src: W) -> W:
    """SDIV, offset 1: dst = (src == 0) ? 0 : ((src == -1 && dst == INT_MIN) ? INT_MIN : (dst s/ src)); truncating.

    SMT-LIB's bvsdiv gives INT_MIN for INT_MIN / -1 by itself; -2^31 s/ 2 in 32 bits is 0xc0000000, zero-extended.
    """
    return b.ite(b.eq(src, b.const(0)), b.const(0), b.sdiv(dst, src))


def mod(b: Bits[W, B], dst: W, src: W) -> W:
    """MOD, offset 0: dst = (src != 0) ? (dst % src) : dst, unsigned."""
    return b.ite(b.eq(src, b.const(0)), dst, b.urem(dst, src))


def smod(b: Bits[W, B], dst: W, src: W) -> W:
    """SMOD, offset 1: dst = (src == 0) ? dst : ((src == -1 && dst == INT_MIN) ? 0 : (dst s% src)).

    The result has the dividend's sign, as in C: -13 % 3 == -1. bvsrem gives 0 for INT_MIN % -1 by itself.
    """
    return b.ite(b.eq(src, b.const(0)), dst, b.srem(dst, src))


def bit_or(b: Bits[W, B], dst: W, src: W) -> W:
    """OR: dst |= src."""
    return b.bvor(dst, src)


def bit_and(b: Bits[W, B], dst: W, src: W) -> W:
    """AND: dst &= src."""
    return b.bvand(dst, src)


def xor(b: Bits[W, B], dst: W, src: W) -> W:
    """XOR: dst ^= src."""
    return b.bvxor(dst, src)


def _amount(b: Bits[W, B], src: W) -> W:
    """Shift amounts are masked with 0x3F at 64 bits and 0x1F at 32 (section 4.1)."""
    return b.bvand(src, b.const(b.width - 1))


def lsh(b: Bits[W, B], dst: W, src: W) -> W:
    """LSH: dst <<= (src & mask)."""
    return b.shl(dst, _amount(b, src))


def rsh(b: Bits[W, B], dst: W, src: W) -> W:
    """RSH: dst >>= (src & mask), zeros shifted in."""
    return b.lshr(dst, _amount(b, src))


def arsh(b: Bits[W, B], dst: W, src: W) -> W:
    """ARSH: dst >>= (src & mask), the sign shifted in."""
    return b.ashr(dst, _amount(b, src))


def neg(b: Bits[W, B], dst: W, src: W) -> W:
    """NEG: dst = -dst; the source is not used."""
    return b.neg(dst)


def mov(b: Bits[W, B], dst: W, src: W) -> W:
    """MOV, offset 0: dst = src."""
    return src


def movsx(b: Bits[W, B], src: W, size: int) -> W:
    """MOVSX, offset 8, 16 or 32: dst = (s8, s16, s32)src, sign-extended from `size` bits to the width.

    In class ALU to 32 bits, the upper half is zero: (s8)0xff gives 0x00000000ffffffff.
    """
    return b.at(size).sext(b.extract(src, size - 1, 0), b.width)


# Keyed by the RFC's code (the high nibble of the opcode) and the offset that selects the signed row.
Row = Callable[[Bits[W, B], W, W], W]


def table() -> Mapping[tuple[int, int], "Row[W, B]"]:
    """(opcode & 0xf0, off) -> meaning, for the rows of table "arithmetic instructions" but END and MOVSX."""
    return {
        (0x00, 0): add,
        (0x10, 0): sub,
        (0x20, 0): mul,
        (0x30, 0): div,
        (0x30, 1): sdiv,
        (0x40, 0): bit_or,
        (0x50, 0): bit_and,
        (0x60, 0): lsh,
        (0x70, 0): rsh,
        (0x80, 0): neg,
        (0x90, 0): mod,
        (0x90, 1): smod,
        (0xA0, 0): xor,
        (0xB0, 0): mov,
        (0xC0, 0): arsh,
    }
