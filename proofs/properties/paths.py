"""Paths of programs as parts of a claim, and the obligations that each part is."""

from collections.abc import Sequence
from typing import Any, Literal, Protocol

from proofs.obligation import Claim, Obligation

REACH = "reach/"
"""A side as a whole, or a path of the kernel's C: some state takes it."""
PATH = "path/"
"""One path of a program that somebody wrote: it may be dead, and then the parts that speak of it say nothing."""


class Guarded(Protocol):
    """The end of a path, with the path's condition."""

    @property
    def guard(self) -> Any: ...


def taken(world: Any, name: str, side: str, ends: Sequence[tuple[str, Guarded]]) -> dict[str, Any]:
    """That some path of the side is taken, and the condition of each by its label."""
    b = world.bits(64)
    parts = {f"{REACH}{name}/{side}": b.disj(*(end.guard for _, end in ends))}
    return parts | {f"{PATH}{name}/{side}/{label}": end.guard for label, end in ends}


def path_of(part: str) -> str:
    """The path before that `NAME/LABEL/WHAT` speaks of."""
    ends, label, _ = part.rsplit("/", 2)
    return f"{PATH}{ends}/before/{label}"


def stated(
    prefix: str,
    origin: str,
    claim: Claim,
    part: str,
    path: str = "",
    over: Literal["words", "products"] = "words",
) -> Obligation:
    """The obligation `prefix/part`: what is to be shown of it is in how its name begins."""
    name = f"{prefix}/{part}"
    if part.startswith(REACH):
        return Obligation(name, origin, claim, part, expect="reachable", over=over)
    if part.startswith(PATH):
        return Obligation(name, origin, claim, part, expect="path", over=over)
    return Obligation(name, origin, claim, part, over=over, path=path)
