"""Words that remember what is known of them: a number, or an unknown with a number added. A world over any world.

A bounded run over symbols must know which way a branch on constants goes, and which map a register holds, without a
solver and alike in every world. So what is known here never depends on the world below: only on how a word was made.
What is made twice in one way is one object, so that most of what two equal programs do is seen to be equal at once.
"""

from collections.abc import Sequence
from itertools import islice
from typing import Any, Generic

from model.bits import B, W
from model.world import World
from proofs.properties.tracked_bits import Table, TrackedBits, Truth, Word, key_of


class Tracked(Generic[W, B]):
    """`World[Word[W], Truth[B]]` over `below`."""

    __slots__ = ("_below", "_made", "_seen", "_table")

    def __init__(self, below: World[W, B]) -> None:
        self._below = below
        self._table: Table = {}
        self._made: dict[Word[W], tuple[Any, ...]] = {}
        self._seen = 0

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

    def roots(self, word: Word[W]) -> set[str]:
        """The unknowns that `word` is computed from, by name: arguments of unknown functions are not among them."""
        for key, made in islice(self._table.items(), self._seen, None):
            if isinstance(made, Word):
                self._made.setdefault(made, key)
        self._seen = len(self._table)
        names: set[str] = set()
        pending, met = [word], {word}
        while pending:
            one = pending.pop()
            key = self._made.get(one, ())
            if one.base:
                names.add(one.base)
            elif key and isinstance(key[0], int):  # an operation at this width
                parts = [part for part in key if isinstance(part, Word) and part not in met]
                met.update(parts)
                pending += parts
        return names

    def apply(self, function: str, width: int, arguments: Sequence[tuple[Word[W], int]]) -> Word[W]:
        key = (function, width, *(key_of(word) for word, _ in arguments))
        if key not in self._table:
            self._table[key] = Word(None, self._below.apply(function, width, self._terms(arguments)))
        found: Word[W] = self._table[key]
        return found

    def pin(self, function: str, width: int, arguments: Sequence[tuple[Word[W], int]], value: Word[W]) -> None:
        """Also makes later applications to these very words the value itself."""
        self._table.setdefault((function, width, *(key_of(word) for word, _ in arguments)), value)
        self._below.pin(function, width, self._terms(arguments), self.bits(width).term(value))

    def assume(self, why: str, condition: Truth[B]) -> None:
        if condition.known is not True:
            self._below.assume(why, self.bits(1).condition(condition))

    def prefer(self, condition: Truth[B]) -> None:
        if condition.known is None:
            self._below.prefer(self.bits(1).condition(condition))

    def show(self, label: str, width: int, word: Word[W]) -> None:
        self._below.show(label, width, self.bits(width).term(word))


__all__ = ["Tracked", "TrackedBits", "Truth", "Word"]
