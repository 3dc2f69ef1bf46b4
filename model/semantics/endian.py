"""Byte swaps (RFC 9669, section 4.2), for hosts of either byte order.

A swap works on the low 16, 32 or 64 bits (`size`) of a 64-bit register; the bits above are cleared, also
where nothing is swapped: le16 on a little-endian host keeps the low 16 bits and no more.
"""

from collections.abc import Callable, Mapping
from typing import Literal

from model.bits import B, Bits, W
from model.isa.opcodes import Class, Source

ByteOrder = Literal["little", "big"]


def reverse(b: Bits[W, B], word: W, size: int) -> W:
    """The bytes of a word of `size` bits (a multiple of 8) in the opposite order; `b` has any width."""
    result = b.at(size).extract(word, 7, 0)
    for low in range(8, size, 8):
        result = b.at(low).concat(result, b.at(size).extract(word, low + 7, low), 8)
    return result


def bswap(b: Bits[W, B], dst: W, size: int, order: ByteOrder) -> W:
    """{END, TO, ALU64}: dst = bswap16/32/64(dst), on every host."""
    return b.at(size).zext(reverse(b, b.extract(dst, size - 1, 0), size), b.width)


def truncate(b: Bits[W, B], dst: W, size: int) -> W:
    """A conversion between equal byte orders: the low `size` bits stay, the rest is cleared."""
    return b.at(size).zext(b.extract(dst, size - 1, 0), b.width)


def little(b: Bits[W, B], dst: W, size: int, order: ByteOrder) -> W:
    """{END, LE, ALU}: dst = le16/32/64(dst): between host byte order and little endian."""
    return truncate(b, dst, size) if order == "little" else bswap(b, dst, size, order)


def big(b: Bits[W, B], dst: W, size: int, order: ByteOrder) -> W:
    """{END, BE, ALU}: dst = be16/32/64(dst): between host byte order and big endian."""
    return truncate(b, dst, size) if order == "big" else bswap(b, dst, size, order)


Row = Callable[[Bits[W, B], W, int, ByteOrder], W]
SIZES = (16, 32, 64)


def table() -> Mapping[tuple[Class, Source], "Row[W, B]"]:
    """(class, source bit) -> meaning, for the rows of table "byte swap instructions"."""
    return {
        (Class.ALU, Source.K): little,
        (Class.ALU, Source.X): big,
        (Class.ALU64, Source.K): bswap,
    }
