"""Obligations: named claims over any world. They know no solver."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol, TypeVar

from model.world import World

W = TypeVar("W")
B = TypeVar("B")


class Claim(Protocol):
    """A claim in parts, hashable: claims that are equal are the same formula and are decided once."""

    def __hash__(self) -> int: ...

    def __call__(self, world: World[W, B]) -> Mapping[str, B]:
        """Each part's condition, by name; all parts share what the claim assumes of `world`."""
        ...

    def reason(self, part: str) -> str:
        """Why `part` can fail, in one line for a person; "" where the values say it all."""
        ...

    def planted(self, part: str) -> "Claim":
        """The claim with a fault in one of its sides that `part` must notice: in the data that the side is run from,
        or in the state that it leaves, never in what the claim asks of it. A proof that stays a proof is vacuous.
        """
        ...


@dataclass(frozen=True, slots=True)
class Obligation:
    """One part of a claim. `name` is a path that sorts and greps; `origin` says in one line where it comes from.

    `expect` is what must be shown of the part: that it holds in every state, or ("reachable") in one. A "path" is one
    of a program that somebody wrote: whether any state takes it is decided, and both will do. `path` is the path's part
    that a "valid" one speaks of: of a path that no state takes there is nothing to say.
    `over` is how a solver may go about it: "words" with real multiplication, "products" left as an unknown function
    first and a refutation confirmed with real ones, or unbounded "integers" (for claims of products and comparisons).
    """

    name: str
    origin: str
    claim: Claim
    part: str
    expect: Literal["valid", "reachable", "path"] = "valid"
    over: Literal["words", "products", "integers"] = "words"
    path: str = ""


@dataclass(frozen=True, slots=True)
class Shown:
    """A word of a counterexample: `width` bits, unsigned."""

    label: str
    width: int
    value: int

    def __str__(self) -> str:
        text = f"{self.label} = 0x{self.value:0{(self.width + 3) // 4}x}"
        signed = self.value - (1 << self.width) if self.value >> (self.width - 1) else self.value
        return f"{text} ({signed})"


@dataclass(frozen=True, slots=True)
class Counterexample:
    """Values under which a claim fails: what to print, and everything that a replay on ints needs."""

    shown: tuple[Shown, ...]
    words: Mapping[str, int]
    functions: Mapping[tuple[str, tuple[int, ...]], int]


@dataclass(frozen=True, slots=True)
class Proved:
    pass


@dataclass(frozen=True, slots=True)
class Refuted:
    """The claim is false; the counterexample was replayed on ints."""

    counterexample: Counterexample


@dataclass(frozen=True, slots=True)
class Unknown:
    reason: str


@dataclass(frozen=True, slots=True)
class NoRule:
    """`Unsupported` as a verdict: the model has no rule for what the claim speaks of."""

    reason: str


Verdict = Proved | Refuted | Unknown | NoRule


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a verdict rests on, so that no proof is vacuous.

    `assumptions`: a state was found, and checked on ints, in which all that the claim assumes holds. `path`: such a
    state takes it, or it is dead by its own condition, or what the claim assumes excludes it. `fault`: the claim with a
    planted fault was refuted, the claim itself was, or no state takes the path that it speaks of. "" where it was not
    asked.
    """

    assumptions: bool = False
    path: Literal["", "reached", "dead", "excluded"] = ""
    fault: Literal["", "planted", "itself", "dead"] = ""
