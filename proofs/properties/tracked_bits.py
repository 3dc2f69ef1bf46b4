"""Words that remember what is known of them, and their arithmetic over any bits: see `proofs.properties.tracked`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from model.bits import B, Bits, IntBits, W

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


def key_of(word: Word[Any]) -> Any:
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
            (name, key_of(a), key_of(b)), lambda: Word(None, getattr(self._below, name)(self.term(a), self.term(b)))
        )
        return made

    def _test(self, name: str, a: Word[W], b: Word[W]) -> Truth[B]:
        if a.number is not None and b.number is not None:
            return Truth(getattr(self._ints, name)(a.number, b.number))
        made: Truth[B] = self._once(
            (name, key_of(a), key_of(b)), lambda: Truth(None, getattr(self._below, name)(self.term(a), self.term(b)))
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
            ("concat", key_of(high), key_of(low), low_width),
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
            ("ite", condition, key_of(a), key_of(b)),
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
        """What is there already is not added; its opposite makes it false: a branch asked again has one way."""
        made = self._several("conj", conditions, YES, NO)
        if made.known is not None:
            return made
        unknown = [one for one in conditions if one.known is None]
        atoms = dict.fromkeys(atom for one in unknown for atom in self._atoms(one))
        if any(self._table.get((self.width, "negate", atom)) in atoms for atom in atoms):
            return NO
        for one in unknown:
            if len(self._atoms(one)) == len(atoms):
                return one  # the others are in it
        self._table.setdefault(("atoms", made), tuple(atoms))
        return made

    def _atoms(self, condition: Truth[B]) -> tuple[Truth[B], ...]:
        """The conditions of which this one was made by `conj`."""
        found: tuple[Truth[B], ...] = self._table.get(("atoms", condition), (condition,))
        return found

    def disj(self, *conditions: Truth[B]) -> Truth[B]:
        return self._several("disj", conditions, NO, YES)

    def negate(self, condition: Truth[B]) -> Truth[B]:
        if condition.known is not None:
            return NO if condition.known else YES
        made: Truth[B] = self._once(
            ("negate", condition), lambda: Truth(None, self._below.negate(self.condition(condition)))
        )
        self._table[(self.width, "negate", made)] = condition
        return made
