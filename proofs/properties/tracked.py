"""Words that remember what is known of them: a number, or an unknown with a number added. A world over any world.

A bounded run over symbols must know which way a branch on constants goes, and which map a register holds, without a
solver and alike in every world. So what is known here never depends on the world below: only on how a word was made.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from model.bits import B, Bits, IntBits, W
from model.world import World

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Word(Generic[V]):
    """`number` if it is known, else `term` in the world below; `base` + `offset` where it is an unknown by name,
    moved by a number (64 bits).
    """

    number: int | None
    term: V | None = None
    base: str = ""
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Truth(Generic[V]):
    known: bool | None
    term: V | None = None


class TrackedBits(Generic[W, B]):
    """`Bits[Word[W], Truth[B]]`: computes numbers as numbers and leaves the rest to the bits below."""

    __slots__ = ("_below", "_ints")

    def __init__(self, below: Bits[W, B]) -> None:
        self._below = below
        self._ints = IntBits(below.width)

    @property
    def width(self) -> int:
        return self._below.width

    def at(self, width: int) -> "TrackedBits[W, B]":
        return self if width == self.width else TrackedBits(self._below.at(width))

    def term(self, word: Word[W]) -> W:
        """The word in the world below."""
        if word.number is not None:
            return self._below.const(word.number)
        assert word.term is not None
        return word.term

    def condition(self, truth: Truth[B]) -> B:
        """The condition in the world below."""
        if truth.known is None:
            assert truth.term is not None
            return truth.term
        return self._below.true() if truth.known else self._below.negate(self._below.true())

    def const(self, value: int) -> Word[W]:
        return Word(self._ints.const(value))

    def _one(self, name: str, a: Word[W]) -> Word[W]:
        if a.number is not None:
            return Word(getattr(self._ints, name)(a.number))
        return Word(None, getattr(self._below, name)(a.term))

    def _two(self, name: str, a: Word[W], b: Word[W]) -> Word[W]:
        if a.number is not None and b.number is not None:
            return Word(getattr(self._ints, name)(a.number, b.number))
        return Word(None, getattr(self._below, name)(self.term(a), self.term(b)))

    def _test(self, name: str, a: Word[W], b: Word[W]) -> Truth[B]:
        if a.number is not None and b.number is not None:
            return Truth(getattr(self._ints, name)(a.number, b.number))
        return Truth(None, getattr(self._below, name)(self.term(a), self.term(b)))

    def add(self, a: Word[W], b: Word[W]) -> Word[W]:
        if a.number is not None and b.number is None:
            a, b = b, a
        if b.number == 0:
            return a
        if a.base and b.number is not None:
            offset = self._ints.add(a.offset, b.number)
            return Word(None, self._below.add(self.term(a), self.term(b)), a.base, offset)
        return self._two("add", a, b)

    def sub(self, a: Word[W], b: Word[W]) -> Word[W]:
        return self.add(a, Word(self._ints.neg(b.number))) if b.number is not None else self._two("sub", a, b)

    def mul(self, a: Word[W], b: Word[W]) -> Word[W]:
        return self._two("mul", a, b)

    def udiv(self, a: Word[W], b: Word[W]) -> Word[W]:
        return self._two("udiv", a, b)

    def urem(self, a: Word[W], b: Word[W]) -> Word[W]:
        return self._two("urem", a, b)

    def sdiv(self, a: Word[W], b: Word[W]) -> Word[W]:
        return self._two("sdiv", a, b)

    def srem(self, a: Word[W], b: Word[W]) -> Word[W]:
        return self._two("srem", a, b)

    def neg(self, a: Word[W]) -> Word[W]:
        return self._one("neg", a)

    def bvand(self, a: Word[W], b: Word[W]) -> Word[W]:
        return self._two("bvand", a, b)

    def bvor(self, a: Word[W], b: Word[W]) -> Word[W]:
        return self._two("bvor", a, b)

    def bvxor(self, a: Word[W], b: Word[W]) -> Word[W]:
        return self._two("bvxor", a, b)

    def bvnot(self, a: Word[W]) -> Word[W]:
        return self._one("bvnot", a)

    def shl(self, a: Word[W], b: Word[W]) -> Word[W]:
        return self._two("shl", a, b)

    def lshr(self, a: Word[W], b: Word[W]) -> Word[W]:
        return self._two("lshr", a, b)

    def ashr(self, a: Word[W], b: Word[W]) -> Word[W]:
        return self._two("ashr", a, b)

    def extract(self, a: Word[W], high: int, low: int) -> Word[W]:
        if low == 0 and high == self.width - 1:
            return a
        if a.number is not None:
            return Word(self._ints.extract(a.number, high, low))
        return Word(None, self._below.extract(self.term(a), high, low))

    def zext(self, a: Word[W], width: int) -> Word[W]:
        return self._wider("zext", a, width)

    def sext(self, a: Word[W], width: int) -> Word[W]:
        return self._wider("sext", a, width)

    def _wider(self, name: str, a: Word[W], width: int) -> Word[W]:
        if width == self.width:
            return a
        if a.number is not None:
            return Word(getattr(self._ints, name)(a.number, width))
        return Word(None, getattr(self._below, name)(a.term, width))

    def concat(self, high: Word[W], low: Word[W], low_width: int) -> Word[W]:
        if high.number is not None and low.number is not None:
            return Word(self._ints.concat(high.number, low.number, low_width))
        return Word(None, self._below.concat(self.term(high), self.at(low_width).term(low), low_width))

    def eq(self, a: Word[W], b: Word[W]) -> Truth[B]:
        if a.base and a.base == b.base:
            return Truth(a.offset == b.offset)
        return self._test("eq", a, b)

    def ult(self, a: Word[W], b: Word[W]) -> Truth[B]:
        return self._test("ult", a, b)

    def ule(self, a: Word[W], b: Word[W]) -> Truth[B]:
        return self._test("ule", a, b)

    def slt(self, a: Word[W], b: Word[W]) -> Truth[B]:
        return self._test("slt", a, b)

    def sle(self, a: Word[W], b: Word[W]) -> Truth[B]:
        return self._test("sle", a, b)

    def ite(self, condition: Truth[B], a: Word[W], b: Word[W]) -> Word[W]:
        if condition.known is not None:
            return a if condition.known else b
        if a is b or (a.number is not None and a.number == b.number):
            return a
        return Word(None, self._below.ite(self.condition(condition), self.term(a), self.term(b)))

    def true(self) -> Truth[B]:
        return Truth(True)

    def conj(self, *conditions: Truth[B]) -> Truth[B]:
        if any(condition.known is False for condition in conditions):
            return Truth(False)
        rest = [self.condition(condition) for condition in conditions if condition.known is None]
        return Truth(None, rest[0] if len(rest) == 1 else self._below.conj(*rest)) if rest else Truth(True)

    def disj(self, *conditions: Truth[B]) -> Truth[B]:
        if any(condition.known is True for condition in conditions):
            return Truth(True)
        rest = [self.condition(condition) for condition in conditions if condition.known is None]
        return Truth(None, rest[0] if len(rest) == 1 else self._below.disj(*rest)) if rest else Truth(False)

    def negate(self, condition: Truth[B]) -> Truth[B]:
        if condition.known is not None:
            return Truth(not condition.known)
        return Truth(None, self._below.negate(self.condition(condition)))


class Tracked(Generic[W, B]):
    """`World[Word[W], Truth[B]]` over `below`."""

    __slots__ = ("_below",)

    def __init__(self, below: World[W, B]) -> None:
        self._below = below

    def bits(self, width: int) -> TrackedBits[W, B]:
        return TrackedBits(self._below.bits(width))

    def fresh(self, name: str, width: int) -> Word[W]:
        return Word(None, self._below.fresh(name, width), name)

    def _terms(self, arguments: Sequence[tuple[Word[W], int]]) -> list[tuple[W, int]]:
        return [(self.bits(width).term(word), width) for word, width in arguments]

    def apply(self, function: str, width: int, arguments: Sequence[tuple[Word[W], int]]) -> Word[W]:
        return Word(None, self._below.apply(function, width, self._terms(arguments)))

    def pin(self, function: str, width: int, arguments: Sequence[tuple[Word[W], int]], value: Word[W]) -> None:
        self._below.pin(function, width, self._terms(arguments), self.bits(width).term(value))

    def assume(self, why: str, condition: Truth[B]) -> None:
        if condition.known is not True:
            self._below.assume(why, self.bits(1).condition(condition))

    def prefer(self, condition: Truth[B]) -> None:
        if condition.known is None:
            self._below.prefer(self.bits(1).condition(condition))

    def show(self, label: str, width: int, word: Word[W]) -> None:
        self._below.show(label, width, self.bits(width).term(word))
