"""The ends of two runs of a small map, held against each other: what a program's user can see of each."""

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, Literal

from model.maps.array import Array
from model.maps.hash import Hash
from model.maps.lru_hash import LruHash
from model.semantics.call import REGISTER
from proofs.properties.small_run import CONTEXT, KEY, STACK, Left

LOWEST, HIGHEST = STACK - 0x2000, KEY + 8
"""Frames, and the variable that for_each keeps its key in: nobody sees them behind the walk."""


def either(b: Any, cases: Sequence[tuple[Any, Any]]) -> Any:
    """The word of whichever guard holds."""
    word = cases[-1][1]
    for guard, other in cases[-2::-1]:
        word = b.ite(guard, other, word)
    return word


def same(world: Any, name: Literal["before", "after"], one: Sequence[Left], two: Sequence[Left]) -> dict[str, Any]:
    """Where a path of `one` is taken, one of `two` is, and leaves the same."""
    b, narrow = world.bits(REGISTER), world.bits(8)
    some = b.disj(*(end.guard for end in two))
    r0 = either(b, [(end.guard, end.r0) for end in two])
    shapes: dict[Any, int] = {}
    lists = either(b, [(end.guard, b.const(_listed(end, shapes))) for end in two])
    places = [b.const(place) for place in sorted({place for end in (*one, *two) for place in _written(end)})]
    own: Any = b.negate(b.true())
    if any(address.number is None for end in (*one, *two) for address, _ in end.store.cells.written):
        places = [world.fresh("any address", REGISTER)]  # says the same of all places at once
        own = b.conj(b.ule(b.const(LOWEST), places[0]), b.ult(places[0], b.const(HIGHEST)))
    joined = [either(narrow, [(end.guard, end.store.load(place, 1)) for end in two]) for place in places]
    parts: dict[str, list[Any]] = {"ends": [], "r0": [], "memory": [], "elements": []}
    for end in one:
        off = b.negate(end.guard)
        parts["ends"].append(b.disj(off, some))
        parts["r0"].append(b.disj(off, b.eq(end.r0, r0)))
        mine = [end.store.load(place, 1) for place in places]
        equal = b.conj(*(narrow.eq(x, y) for x, y in zip(mine, joined, strict=True)))
        parts["memory"].append(b.disj(off, own, equal))
        parts["elements"].append(b.disj(off, b.eq(b.const(_listed(end, shapes)), lists)))
    if not shapes or set(shapes) == {()}:  # arrays only: no path can change which elements there are
        del parts["elements"]
    return {f"{name}/{part}": b.conj(*conditions) for part, conditions in parts.items()}


def faulty(world: Any, ends: Sequence[Left]) -> list[Left]:
    """Each path with another r0, another byte of the context, an element lost; some runs of it never end."""
    b, byte, bit = world.bits(REGISTER), world.bits(8), world.bits(1)
    ending = bit.eq(world.fresh("planted: whether it ends", 1), bit.const(1))
    found = []
    for end in ends:
        at = b.const(CONTEXT)
        store = end.store.store(at, 1, byte.bvxor(end.store.load(at, 1), byte.const(1)))
        for number, state in end.store.states.items():
            store = store.put(number, _other(state))
        found.append(Left(b.conj(end.guard, ending), b.bvxor(end.r0, b.const(1)), store))
    return found


def _other(state: Any) -> Any:
    """A state with an element that no list has; of an array, the same."""
    if isinstance(state, LruHash):
        return replace(state, table=_other(state.table))
    return replace(state, free=(*state.free, -1)) if isinstance(state, Hash) else copy(state)


def _listed(end: Left, shapes: dict[Any, int]) -> int:
    """A number for which elements are where in each map: equal if and only if these are; keys are in memory."""
    found: list[Any] = []
    for number, state in sorted(end.store.states.items()):
        table = state.table if isinstance(state, LruHash) else state
        if isinstance(table, Hash):
            lists = state.lru if isinstance(state, LruHash) else None
            entries = tuple((entry.number, entry.bucket) for entry in table.entries)
            found.append((number, entries, table.free, table.spare, lists))
        elif not isinstance(table, Array):
            found.append((number, id(state)))  # no operation here changes it, or it is another one
    return shapes.setdefault(tuple(found), len(shapes))


def _written(end: Left) -> Iterator[int]:
    """The known addresses that were stored to, frames and for_each's own key apart."""
    for address, _ in end.store.cells.written:
        if address.number is not None and not LOWEST <= address.number < HIGHEST:
            yield address.number
