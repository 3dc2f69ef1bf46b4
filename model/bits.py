"""Fixed-width words with SMT-LIB's meaning (theory FixedSizeBitVectors), over any representation.

A `Bits[W, B]` works at one width; words `W` and truth values `B` are bare values of the representation
(`int` and `bool`, or solver terms). Every operation is total: `udiv(x, 0)` is all ones, `urem(x, 0)`
is x, `sdiv` and `srem` follow SMT-LIB's `bvsdiv`/`bvsrem` (truncating; sdiv(x, 0) is 1 for negative x
and -1 otherwise), shifts by the width or more give 0 (`ashr`: the sign), because both arms of an `ite`
are evaluated in either run. Signedness is in the operation's name.
"""

from functools import lru_cache
from typing import Protocol, Self, TypeVar

W = TypeVar("W")
B = TypeVar("B")


class Bits(Protocol[W, B]):
    """Arithmetic on words of `width` bits. Words handed in must be of that width."""

    @property
    def width(self) -> int: ...
    def at(self, width: int) -> Self: ...

    def const(self, value: int) -> W: ...
    def add(self, a: W, b: W) -> W: ...
    def sub(self, a: W, b: W) -> W: ...
    def mul(self, a: W, b: W) -> W: ...
    def udiv(self, a: W, b: W) -> W: ...
    def urem(self, a: W, b: W) -> W: ...
    def sdiv(self, a: W, b: W) -> W: ...
    def srem(self, a: W, b: W) -> W: ...
    def neg(self, a: W) -> W: ...
    def bvand(self, a: W, b: W) -> W: ...
    def bvor(self, a: W, b: W) -> W: ...
    def bvxor(self, a: W, b: W) -> W: ...
    def bvnot(self, a: W) -> W: ...
    def shl(self, a: W, b: W) -> W: ...
    def lshr(self, a: W, b: W) -> W: ...
    def ashr(self, a: W, b: W) -> W: ...

    def extract(self, a: W, high: int, low: int) -> W:
        """Bits `high` down to `low` (both included), as a word of high - low + 1 bits."""
        ...

    def zext(self, a: W, width: int) -> W:
        """`a` zero-extended to `width` bits (at least this width)."""
        ...

    def sext(self, a: W, width: int) -> W:
        """`a` sign-extended to `width` bits (at least this width)."""
        ...

    def concat(self, high: W, low: W, low_width: int) -> W:
        """`high` (of this width) above `low` (of `low_width` bits)."""
        ...

    def eq(self, a: W, b: W) -> B: ...
    def ult(self, a: W, b: W) -> B: ...
    def ule(self, a: W, b: W) -> B: ...
    def slt(self, a: W, b: W) -> B: ...
    def sle(self, a: W, b: W) -> B: ...

    def ite(self, condition: B, a: W, b: W) -> W: ...
    def true(self) -> B: ...
    def conj(self, *conditions: B) -> B: ...
    def disj(self, *conditions: B) -> B: ...
    def negate(self, condition: B) -> B: ...


class IntBits:
    """`Bits[int, bool]`: words are ints in 0 … 2**width - 1."""

    __slots__ = ("_mask", "_sign", "_width")

    def __init__(self, width: int) -> None:
        self._width = width
        self._mask = (1 << width) - 1
        self._sign = 1 << (width - 1)

    @property
    def width(self) -> int:
        return self._width

    def at(self, width: int) -> "IntBits":
        return self if width == self._width else _int_bits(width)

    def signed(self, a: int) -> int:
        """The two's complement value of `a`."""
        return (a ^ self._sign) - self._sign

    def const(self, value: int) -> int:
        return value & self._mask

    def add(self, a: int, b: int) -> int:
        return (a + b) & self._mask

    def sub(self, a: int, b: int) -> int:
        return (a - b) & self._mask

    def mul(self, a: int, b: int) -> int:
        return (a * b) & self._mask

    def udiv(self, a: int, b: int) -> int:
        return a // b if b else self._mask

    def urem(self, a: int, b: int) -> int:
        return a % b if b else a

    def sdiv(self, a: int, b: int) -> int:
        x, y = self.signed(a), self.signed(b)
        if y == 0:
            return 1 if x < 0 else self._mask
        quotient = abs(x) // abs(y)
        return (quotient if (x < 0) == (y < 0) else -quotient) & self._mask

    def srem(self, a: int, b: int) -> int:
        x, y = self.signed(a), self.signed(b)
        if y == 0:
            return a
        remainder = abs(x) % abs(y)
        return (-remainder if x < 0 else remainder) & self._mask

    def neg(self, a: int) -> int:
        return -a & self._mask

    def bvand(self, a: int, b: int) -> int:
        return a & b

    def bvor(self, a: int, b: int) -> int:
        return a | b

    def bvxor(self, a: int, b: int) -> int:
        return a ^ b

    def bvnot(self, a: int) -> int:
        return a ^ self._mask

    def shl(self, a: int, b: int) -> int:
        return (a << b) & self._mask if b < self._width else 0

    def lshr(self, a: int, b: int) -> int:
        return a >> b if b < self._width else 0

    def ashr(self, a: int, b: int) -> int:
        return (self.signed(a) >> min(b, self._width)) & self._mask

    def extract(self, a: int, high: int, low: int) -> int:
        return (a >> low) & ((1 << (high - low + 1)) - 1)

    def zext(self, a: int, width: int) -> int:
        return a

    def sext(self, a: int, width: int) -> int:
        return self.signed(a) & ((1 << width) - 1)

    def concat(self, high: int, low: int, low_width: int) -> int:
        return (high << low_width) | low

    def eq(self, a: int, b: int) -> bool:
        return a == b

    def ult(self, a: int, b: int) -> bool:
        return a < b

    def ule(self, a: int, b: int) -> bool:
        return a <= b

    def slt(self, a: int, b: int) -> bool:
        return self.signed(a) < self.signed(b)

    def sle(self, a: int, b: int) -> bool:
        return self.signed(a) <= self.signed(b)

    def ite(self, condition: bool, a: int, b: int) -> int:
        return a if condition else b

    def true(self) -> bool:
        return True

    def conj(self, *conditions: bool) -> bool:
        return all(conditions)

    def disj(self, *conditions: bool) -> bool:
        return any(conditions)

    def negate(self, condition: bool) -> bool:
        return not condition


@lru_cache(maxsize=256)
def _int_bits(width: int) -> IntBits:
    """They hold nothing but their width; rows ask for them in every instruction."""
    return IntBits(width)
