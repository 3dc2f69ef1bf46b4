"""What a kernel tree changes in the verdicts: each claim of it beside the same claim of another release."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from proofs.report.record import Record


class Change(Enum):
    """The value is what a report calls it; in the order in which reports tell it."""

    NEWLY_REFUTED = "newly refuted"
    NEWLY_OPEN = "no longer proved"
    NEW_REFUTED = "new, refuted"
    NEW_OPEN = "new, open"
    NEWLY_PROVED = "newly proved"
    NEW_PROVED = "new, proved"
    OTHER = "changed otherwise"
    GONE = "gone"
    SAME = "as before"


FAILS = frozenset({Change.NEWLY_REFUTED, Change.NEWLY_OPEN, Change.NEW_REFUTED})


@dataclass(frozen=True, slots=True)
class Compared:
    """A claim by its name without the release; `before` and `after` are None where a side does not have it."""

    name: str
    change: Change
    before: Record | None
    after: Record | None


def bare(name: str) -> str:
    """ "dispatch/6.1/x86_64/hash/map_update_elem" -> "dispatch/x86_64/hash/map_update_elem"."""
    family, _, rest = name.partition("/")
    return f"{family}/{rest.partition('/')[2]}"


def compare(before: Iterable[Record], after: Iterable[Record]) -> list[Compared]:
    """Every claim of either side: those of `after` in their order, then those that are gone."""
    old: Mapping[str, Record] = {bare(record.name): record for record in before}
    new: Mapping[str, Record] = {bare(record.name): record for record in after}
    found = [Compared(name, _change(old.get(name), record), old.get(name), record) for name, record in new.items()]
    return [*found, *(Compared(name, Change.GONE, old[name], None) for name in old.keys() - new.keys())]


def _change(before: Record | None, after: Record) -> Change:
    verdict = after.verdict
    if before is None:
        return {"proved": Change.NEW_PROVED, "refuted": Change.NEW_REFUTED}.get(verdict, Change.NEW_OPEN)
    if before.verdict == verdict:
        return Change.SAME
    if before.verdict == "proved":
        return Change.NEWLY_REFUTED if verdict == "refuted" else Change.NEWLY_OPEN
    return Change.NEWLY_PROVED if verdict == "proved" else Change.OTHER
