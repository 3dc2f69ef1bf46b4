"""Bob Jenkins' hash as the kernel has it (include/linux/jhash.h: jhash, jhash2), over any words, 32 bits.

On little-endian machines jhash2 of n words is jhash of 4n bytes, so one function serves both.
"""

from model.bits import B, Bits, W

INITIAL = 0xDEADBEEF


def jhash(bits: Bits[W, B], word: W, size: int, initial: W) -> W:
    """The hash of `size` bytes, the lowest in the lowest bits of `word` (8 × size bits); `bits` is at 32 bits."""
    start = bits.add(bits.const(INITIAL + size), initial)
    a = b = c = start
    at = 0
    while size - at > 12:
        a = bits.add(a, _part(bits, word, size, at))
        b = bits.add(b, _part(bits, word, size, at + 4))
        c = bits.add(c, _part(bits, word, size, at + 8))
        a, b, c = _mix(bits, a, b, c)
        at += 12
    if at == size:
        return c
    a = bits.add(a, _part(bits, word, size, at))
    b = bits.add(b, _part(bits, word, size, at + 4))
    c = bits.add(c, _part(bits, word, size, at + 8))
    return _final(bits, a, b, c)


def _part(bits: Bits[W, B], word: W, size: int, at: int) -> W:
    """Four bytes from `at` on, zeroes behind the end."""
    width = min(4, size - at)
    if width <= 0:
        return bits.const(0)
    part = bits.at(8 * size).extract(word, 8 * (at + width) - 1, 8 * at)
    return bits.at(8 * width).zext(part, 32)


def _rol(bits: Bits[W, B], word: W, distance: int) -> W:
    return bits.bvor(bits.shl(word, bits.const(distance)), bits.lshr(word, bits.const(32 - distance)))


def _mix(bits: Bits[W, B], a: W, b: W, c: W) -> tuple[W, W, W]:
    for distance in (4, 6, 8, 16, 19, 4):
        a = bits.bvxor(bits.sub(a, c), _rol(bits, c, distance))
        c = bits.add(c, b)
        a, b, c = b, c, a
    return a, b, c


def _final(bits: Bits[W, B], a: W, b: W, c: W) -> W:
    for distance in (14, 11, 25, 16, 4, 14, 24):
        c = bits.sub(bits.bvxor(c, b), _rol(bits, b, distance))
        a, b, c = b, c, a
    return b
