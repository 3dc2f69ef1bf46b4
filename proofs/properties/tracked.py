"""Words that remember what is known of them: a number, or an unknown with a number added. A world over any world.

A bounded run over symbols must know which way a branch on constants goes, and which map a register holds, without a
solver and alike in every world. So what is known here never depends on the world below: only on how a word was made.
What is made twice in one way is one object, so that most of what two equal programs do is seen to be equal at once.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from model.bits import B, Bits, IntBits, W
from model.world import World

V = TypeVar("V")


@dataclass(frozen=True, slots=True, eq=False)
class Word(Generic[V]):
    """`number` if it is known, else `term` in the world below; `base` + `offset` where it is an unknown by name,
    moved by a number (64 bits).
    """

    number: int | None
    term: V | None = None
    base: str = ""
    offset: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Truth(Generic[V]):
    known: bool | None
    term: V | None = None


YES: Truth[Any] = Truth(True)
NO: Truth[Any] = Truth(False)
Table = dict[tuple[Any, ...], Any]
"""How a word or truth was made -> the one object for it."""


def _key(word: Word[Any]) -> Any:
    return word if word.number is None else word.number


class TrackedBits(Generic[W, B]):
    """`Bits[Word[W], Truth[B]]`: computes numbers as numbers and leaves the rest to the bits below."""

    __slots__ = ("_below", "_ints", "_table")

    def __init__(self, below: Bits[W, B], table: Table) -> None:
        self._below = below
        self._ints = IntBits(below.width)
        self._table = table

    def _once(self, key: tuple[Any, ...], make: Callable[[], Any]) -> Any:
        key = (self.width, *key)
        found = self._table.get(key)
        if found is None:
            found = self._table[key] = make()
        return found

    @property
    def width(self) -> int:
        return self._below.width

    def at(self, width: int) -> "TrackedBits[W, B]":
        return self if width == self.width else TrackedBits(self._below.at(width), self._table)

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
        made: Word[W] = self._once((name, a), lambda: Word(None, getattr(self._below, name)(a.term)))
        return made

    def _two(self, name: str, a: Word[W], b: Word[W]) -> Word[W]:
        if a.number is not None and b.number is not None:
            return Word(getattr(self._ints, name)(a.number, b.number))
        made: Word[W] = self._once(
            (name, _key(a), _key(b)), lambda: Word(None, getattr(self._below, name)(self.term(a), self.term(b)))
        )
        return made

    def _test(self, name: str, a: Word[W], b: Word[W]) -> Truth[B]:
        if a.number is not None and b.number is not None:
            return Truth(getattr(self._ints, name)(a.number, b.number))
        made: Truth[B] = self._once(
            (name, _key(a), _key(b)), lambda: Truth(None, getattr(self._below, name)(self.term(a), self.term(b)))
        )
        return made

    def add(self, a: Word[W], b: Word[W]) -> Word[W]:
        if a.number is not None and b.number is None:
            a, b = b, a
        if b.number == 0:
            return a
        if a.base and b.number is not None:
            offset = self._ints.add(a.offset, b.number)
            moved: Word[W] = self._once(
                ("moved", a.base, offset),
                lambda: Word(None, self._below.add(self.term(a), self.term(b)), a.base, offset),
            )
            return moved
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
        made: Word[W] = self._once(
            ("extract", a, high, low), lambda: Word(None, self._below.extract(self.term(a), high, low))
        )
        return made

    def zext(self, a: Word[W], width: int) -> Word[W]:
        return self._wider("zext", a, width)

    def sext(self, a: Word[W], width: int) -> Word[W]:
        return self._wider("sext", a, width)

    def _wider(self, name: str, a: Word[W], width: int) -> Word[W]:
        if width == self.width:
            return a
        if a.number is not None:
            return Word(getattr(self._ints, name)(a.number, width))
        made: Word[W] = self._once((name, a, width), lambda: Word(None, getattr(self._below, name)(a.term, width)))
        return made

    def concat(self, high: Word[W], low: Word[W], low_width: int) -> Word[W]:
        if high.number is not None and low.number is not None:
            return Word(self._ints.concat(high.number, low.number, low_width))
        made: Word[W] = self._once(
            ("concat", _key(high), _key(low), low_width),
            lambda: Word(None, self._below.concat(self.term(high), self.at(low_width).term(low), low_width)),
        )
        return made

    def eq(self, a: Word[W], b: Word[W]) -> Truth[B]:
        if a is b:
            return YES
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
        made: Word[W] = self._once(
            ("ite", condition, _key(a), _key(b)),
            lambda: Word(None, self._below.ite(self.condition(condition), self.term(a), self.term(b))),
        )
        return made

    def true(self) -> Truth[B]:
        return YES

    def _several(self, name: str, conditions: Sequence[Truth[B]], neutral: Truth[B], other: Truth[B]) -> Truth[B]:
        if any(condition.known is other.known for condition in conditions):
            return other
        rest = list(dict.fromkeys(condition for condition in conditions if condition.known is None))
        if len(rest) < 2:
            return rest[0] if rest else neutral
        made: Truth[B] = self._once(
            (name, *rest), lambda: Truth(None, getattr(self._below, name)(*(self.condition(one) for one in rest)))
        )
        return made

    def conj(self, *conditions: Truth[B]) -> Truth[B]:
        return self._several("conj", conditions, YES, NO)

    def disj(self, *conditions: Truth[B]) -> Truth[B]:
        return self._several("disj", conditions, NO, YES)

    def negate(self, condition: Truth[B]) -> Truth[B]:
        if condition.known is not None:
            return NO if condition.known else YES
        made: Truth[B] = self._once(
            ("negate", condition), lambda: Truth(None, self._below.negate(self.condition(condition)))
        )
        return made


class Tracked(Generic[W, B]):
    """`World[Word[W], Truth[B]]` over `below`."""

    __slots__ = ("_below", "_table")

    def __init__(self, below: World[W, B]) -> None:
        self._below = below
        self._table: Table = {}

    def bits(self, width: int) -> TrackedBits[W, B]:
        return TrackedBits(self._below.bits(width), self._table)

    def fresh(self, name: str, width: int) -> Word[W]:
        key = ("fresh", name, width)
        if key not in self._table:
            self._table[key] = Word(None, self._below.fresh(name, width), name)
        found: Word[W] = self._table[key]
        return found

    def _terms(self, arguments: Sequence[tuple[Word[W], int]]) -> list[tuple[W, int]]:
        return [(self.bits(width).term(word), width) for word, width in arguments]

    def apply(self, function: str, width: int, arguments: Sequence[tuple[Word[W], int]]) -> Word[W]:
        key = (function, width, *(_key(word) for word, _ in arguments))
        if key not in self._table:
            self._table[key] = Word(None, self._below.apply(function, width, self._terms(arguments)))
        found: Word[W] = self._table[key]
        return found

    def pin(self, function: str, width: int, arguments: Sequence[tuple[Word[W], int]], value: Word[W]) -> None:
        """Also makes later applications to these very words the value itself."""
        self._table.setdefault((function, width, *(_key(word) for word, _ in arguments)), value)
        self._below.pin(function, width, self._terms(arguments), self.bits(width).term(value))

    def assume(self, why: str, condition: Truth[B]) -> None:
        if condition.known is not True:
            self._below.assume(why, self.bits(1).condition(condition))

    def prefer(self, condition: Truth[B]) -> None:
        if condition.known is None:
            self._below.prefer(self.bits(1).condition(condition))

    def show(self, label: str, width: int, word: Word[W]) -> None:
        self._below.show(label, width, self.bits(width).term(word))
