"""The ends of two runs over symbols, held against each other."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic

from model.bits import B, W
from model.memory import Outside
from proofs.properties.tracked import Tracked, Truth, Word
from proofs.properties.whole_memory import REGISTER, Owned

PARTS = ("ends", "r0", "memory", "kernel", "callbacks")
CONTEXT = "context"
"""The title of the entry's r1 among the regions of own memory; its bytes are `context +N`."""


@dataclass(frozen=True, slots=True)
class End(Generic[W, B]):
    """A path that left the function: `label` tells its branches (T taken, N not). `own` has the context, if there is
    one.
    """

    label: str
    guard: Truth[B]
    r0: Word[W]
    outside: Outside[Word[W], Truth[B]]
    own: Owned | None = None


def same_ends(
    world: Tracked[W, B], name: str, before: Sequence[End[W, B]], after: Sequence[End[W, B]]
) -> dict[str, Truth[B]]:
    """For each path before: where it is taken, a path after is, and ends in the same state."""
    b = world.bits(REGISTER)
    r0, memory, kernel, callbacks = after[-1].r0, *outside_names(after[-1])
    for end in after[-2::-1]:
        r0 = b.ite(end.guard, end.r0, r0)
        memory, kernel, callbacks = (
            b.ite(end.guard, one, other)
            for one, other in zip(outside_names(end), (memory, kernel, callbacks), strict=True)
        )
    some = b.disj(*(end.guard for end in after))
    context = _contexts(world, before, after)
    parts: dict[str, Truth[B]] = {}
    for end in before:
        names = [b.eq(one, other) for one, other in zip(outside_names(end), (memory, kernel, callbacks), strict=True)]
        equal = [some, b.eq(end.r0, r0), b.conj(names[0], context(end)), *names[1:]]
        for part, condition in zip(PARTS, equal, strict=True):
            parts[f"{name}/{end.label}/{part}"] = b.disj(b.negate(end.guard), condition)
    return parts


def _contexts(
    world: Tracked[W, B], before: Sequence[End[W, B]], after: Sequence[End[W, B]]
) -> Callable[[End[W, B]], Truth[B]]:
    """Whether an end before leaves the context's bytes that the ends after leave."""
    b, narrow = world.bits(REGISTER), world.bits(8)
    regions = [(base, region) for end in (*before, *after) if end.own for base, region in end.own.regions.items()]
    places = sorted({(base, at) for base, region in regions if region.title == CONTEXT for at in region.written})
    bases = sorted({base for base, region in regions if region.title == CONTEXT})

    def left(end: End[W, B]) -> list[tuple[Any, Word[W]]]:
        if end.own is None:
            return []
        under = [end.own.regions[base].under or b.const(0) for base in bases]
        bytes_ = [end.own.byte(base, at) for base, at in places]
        return [*((b, word) for word in under), *((narrow, word) for word in bytes_)]

    joined = left(after[-1])
    for end in after[-2::-1]:
        joined = [(c, c.ite(end.guard, one, other)) for (c, one), (_, other) in zip(left(end), joined, strict=True)]

    def equal(end: End[W, B]) -> Truth[B]:
        return b.conj(*(c.eq(one, other) for (c, one), (_, other) in zip(left(end), joined, strict=True)))

    return equal


def outside_names(end: End[W, B]) -> tuple[Word[W], Word[W], Word[W]]:
    return end.outside.memory, end.outside.kernel, end.outside.callbacks


def show(world: Tracked[W, B], name: str, before: Sequence[End[W, B]], after: Sequence[End[W, B]]) -> None:
    b = world.bits(REGISTER)
    for side, ends in (("before", before), ("after", after)):
        r0 = ends[-1].r0
        for end in ends[-2::-1]:
            r0 = b.ite(end.guard, end.r0, r0)
        world.show(f"{side}: r0 of {name}", REGISTER, r0)
