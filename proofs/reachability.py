"""Whether a release's own code can reach what a refutation shows: by the values that its C returns, or lets be passed.

Read from the release's rows (`Release.returns`, `Release.checked`). A release without bodies takes over what the two
releases nearest to it say, where they agree; else it is unclear.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from model.kernel.evidence import Returned
from model.kernel.release import Release
from model.maps.allocation import ARRAYS, TYPES
from proofs.causes import ENTRIES, Shape, numbers

ANYTHING = "ARG_ANYTHING"
SIZE_CHECKS = ("map_alloc_check", "map_alloc")


class Reach(Enum):
    REACHABLE = "reachable"
    LATENT = "latent"  # only bodies that do not exist get there
    UNCLEAR = "unclear"


@dataclass(frozen=True, slots=True)
class Reached:
    """`why` names function, file and line; `taken_over` the releases that it was read in, () for the release itself."""

    reach: Reach
    why: str
    taken_over: tuple[str, ...] = ()


Read = Callable[[Release], Reached | None]


def reached(shape: Shape, release: Release, map_type: str, helper: str, others: Iterable[Release]) -> Reached:
    """How `release` gets to a failure of `shape` on (map type, helper). `others` are the releases to take over from."""
    match shape.kind:
        case "result":
            return _own_or_near(release, others, lambda one: _result(one, map_type, helper, release))
        case "argument":
            return _own_or_near(release, others, lambda one: _argument(one, shape, helper))
        case "null":
            reason = release.accepted[helper][map_type].reason
            return Reached(Reach.REACHABLE, "the verifier accepts the pair" + (f": {reason}" if reason else ""))
        case "overflow":
            return Reached(Reach.REACHABLE, "a program may divide any number by any other that is not known to be 0")
        case "count" if map_type not in ARRAYS:
            return _callbacks(release, map_type)
        case "entries" | "count":
            return _size(release, map_type)
        case "template" if shape.what == ENTRIES:
            return _template(release, map_type)
    return Reached(Reach.UNCLEAR, "no rule for this cause")


def _own_or_near(release: Release, others: Iterable[Release], read: Read) -> Reached:
    own = read(release)
    if own is not None:
        return own
    near = _nearest(release, [(other, found) for other in others if (found := read(other)) is not None])
    kinds = {found.reach for _, found in near}
    names = tuple(other.name for other, _ in near)
    if len(near) == 2 and len(kinds) == 1:
        return Reached(kinds.pop(), near[0][1].why, names)
    told = ", ".join(f"{other.name}: {found.reach.value}" for other, found in near)
    return Reached(Reach.UNCLEAR, "no body in the data" + (f"; {told}" if told else ""))


def _nearest(release: Release, known: Sequence[tuple[Release, Reached]]) -> list[tuple[Release, Reached]]:
    """The nearest older and the nearest newer one; where one side has none, the two nearest of the other."""
    here = numbers(release.version)
    ordered = sorted(known, key=lambda item: numbers(item[0].version))
    older = [item for item in ordered if numbers(item[0].version) < here]
    newer = [item for item in ordered if numbers(item[0].version) > here]
    if older and newer:
        return [older[-1], newer[0]]
    return older[-2:] or newer[:2]


def _slot(release: Release, map_type: str, slot: str) -> str | None:
    """The key of the function in a slot; None where there is none."""
    row = release.map_types.get(map_type)
    return None if row is None or row.ops is None else release.ops[row.ops].slots.get(slot)


def _result(release: Release, map_type: str, helper: str, wanted: Release) -> Reached | None:
    """By what the operation returns; None where it was not read, or is another function than `wanted` has there."""
    if helper not in release.helpers:
        return None
    key = _slot(release, map_type, release.helpers[helper].slot)
    same = _slot(wanted, map_type, wanted.helpers[helper].slot)
    rows = release.returns.get(key, ()) if key is not None else ()
    if key is None or not rows or _symbol(key) != _symbol(same or ""):
        return None
    name = _symbol(key)
    negative = [row for row in rows if row.low is not None and row.low < 0]
    if negative:
        first = next((row for row in negative if row.function == name), negative[0])
        return Reached(Reach.REACHABLE, f"{_returns(name, first)} {first.text}, {_place(first)}")
    unread = [row for row in rows if row.low is None or row.high is None]
    if unread:
        return Reached(
            Reach.UNCLEAR, f"{_returns(name, unread[0])} what was not read: {unread[0].text}, {_place(unread[0])}"
        )
    known = [(row.low, row.high, row) for row in rows if row.low is not None and row.high is not None]
    least, most = min(low for low, _, _ in known), max(high for _, high, _ in known)
    last = max(known, key=lambda item: item[1])[2]
    values = str(least) if least == most else f"{least} … {most}"
    return Reached(Reach.LATENT, f"{_returns(name, last)} only {values} ({last.text}), {_place(last)}")


def _symbol(key: str) -> str:
    return key.partition("@")[0]


def _returns(name: str, row: Returned) -> str:
    return f"{name} returns" if row.function == name else f"{name} by {row.function} returns"


def _place(row: Returned) -> str:
    return f"{row.file}:{row.line}"


def _argument(release: Release, shape: Shape, helper: str) -> Reached | None:
    """By the argument type in the helper's prototype: ARG_ANYTHING lets any 64-bit value of a scalar through."""
    row, checked = release.helpers.get(helper), release.checked.get(helper)
    if row is None or checked is None:
        return None
    index = row.arguments[shape.position - 1] if shape.position <= len(row.arguments) else len(checked.arguments)
    kind = checked.arguments[index] if index < len(checked.arguments) else ""
    place = f"{checked.file}:{checked.line}"
    if kind == ANYTHING:
        return Reached(Reach.REACHABLE, f"argument {index + 1} of {row.function} is {kind}: any 64 bits, {place}")
    return Reached(Reach.UNCLEAR, f"argument {index + 1} of {row.function} is {kind or 'not told'}, {place}")


def _size(release: Release, map_type: str) -> Reached:
    """By what the allocation lets through: the claim's counterexample keeps to its rows (`model.maps.allocation`)."""
    if map_type not in TYPES:
        return Reached(Reach.UNCLEAR, f"the allocation of {map_type} was not read")
    keys = [_slot(release, map_type, slot) for slot in SIZE_CHECKS]
    rows = [release.functions[key] for key in keys if key is not None and key in release.functions]
    places = " and ".join(f"{row.name} ({row.file}:{row.line})" for row in rows) or "its allocation"
    return Reached(Reach.REACHABLE, f"{places} let a map of 2^31 entries be made")


def _callbacks(release: Release, map_type: str) -> Reached:
    """A hash's callback may call map_update_elem and map_delete_elem on its map: no bound on the walk's length."""
    key = _slot(release, map_type, "map_for_each_callback")
    if key is None or key not in release.functions:
        return Reached(Reach.UNCLEAR, f"the walk of {map_type} was not read")
    row = release.functions[key]
    return Reached(
        Reach.REACHABLE, f"{row.name} ({row.file}:{row.line}) goes on while its callback deletes and inserts"
    )


def _template(release: Release, map_type: str) -> Reached:
    name = release.meta_equal.get(map_type, "")
    row = release.functions.get(name)
    if row is None:
        return Reached(Reach.UNCLEAR, f"{name or 'map_meta_equal'} was not read")
    return Reached(Reach.REACHABLE, f"{row.name} does not compare max_entries, {row.file}:{row.line}")
