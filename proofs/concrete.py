"""`World` over plain ints: replays a counterexample, or samples values at random."""

from collections.abc import Callable, Mapping, Sequence
from random import Random

from model.bits import IntBits
from proofs.obligation import Claim, Counterexample, Shown


class IntWorld:
    """`World[int, bool]`. `draw(name, width)` gives each word that is not known yet.

    `violated` lists the assumptions that do not hold under these values: the claim then says nothing.
    """

    def __init__(
        self,
        draw: Callable[[str, int], int],
        words: Mapping[str, int] | None = None,
        functions: Mapping[tuple[str, tuple[int, ...]], int] | None = None,
    ) -> None:
        self._draw = draw
        self._words = dict(words or {})
        self._functions = dict(functions or {})
        self.violated: list[str] = []
        self.shown: list[Shown] = []

    def bits(self, width: int) -> IntBits:
        return IntBits(width)

    def fresh(self, name: str, width: int) -> int:
        if name not in self._words:
            self._words[name] = self._draw(name, width) & ((1 << width) - 1)
        return self._words[name]

    def apply(self, function: str, width: int, arguments: Sequence[tuple[int, int]]) -> int:
        key = (function, tuple(word for word, _ in arguments))
        if key not in self._functions:
            self._functions[key] = self._draw(function, width) & ((1 << width) - 1)
        return self._functions[key]

    def pin(self, function: str, width: int, arguments: Sequence[tuple[int, int]], value: int) -> None:
        key = (function, tuple(word for word, _ in arguments))
        if self._functions.setdefault(key, value) != value:
            self.violated.append(f"{function} has two values at one place")

    def assume(self, why: str, condition: bool) -> None:
        if not condition:
            self.violated.append(why)

    def prefer(self, condition: bool) -> None:
        pass

    def show(self, label: str, width: int, word: int) -> None:
        self.shown.append(Shown(label, width, word))


def replays(claim: Claim, part: str, counterexample: Counterexample) -> bool:
    """Whether `part` of `claim` is false on ints under the counterexample's values, with every assumption true."""
    world = IntWorld(lambda name, width: 0, counterexample.words, counterexample.functions)
    holds = claim(world)[part]
    return not holds and not world.violated


def outcome(claim: Claim, state: Counterexample, rest: Random | None = None) -> Mapping[str, bool]:
    """Each part of `claim` on ints under the values of `state`, what it does not tell being 0 or drawn from `rest`;
    empty where an assumption is false there.
    """
    world = IntWorld(lambda name, width: rest.getrandbits(width) if rest else 0, state.words, state.functions)
    parts = claim(world)
    return {} if world.violated else parts
