"""The abstract machine that a claim is written over: words, arbitrary values and unknown functions."""

from collections.abc import Sequence
from typing import Protocol, TypeVar

from model.bits import Bits

W = TypeVar("W")
B = TypeVar("B")

Sized = tuple[W, int]  # a word with its width in bits


class World(Protocol[W, B]):
    """Where a claim lives: over solver terms it speaks of every value, over ints of one."""

    def bits(self, width: int) -> Bits[W, B]:
        """Arithmetic at `width` bits."""
        ...

    def fresh(self, name: str, width: int) -> W:
        """An arbitrary word of `width` bits; the same word for the same name."""
        ...

    def apply(self, function: str, width: int, arguments: Sequence[Sized[W]]) -> W:
        """An unknown function of `arguments`, with a result of `width` bits: equal arguments, equal result."""
        ...

    def pin(self, function: str, width: int, arguments: Sequence[Sized[W]], value: W) -> None:
        """Of the unknown `function` this much is known: at `arguments` it is `value`."""
        ...

    def assume(self, why: str, condition: B) -> None:
        """The claim is made only where `condition` holds; `why` says what grants it."""
        ...

    def prefer(self, condition: B) -> None:
        """Of several counterexamples, one where this holds is easier to read; no claim depends on it."""
        ...

    def show(self, label: str, width: int, word: W) -> None:
        """A word that a counterexample should print, in this order."""
        ...
