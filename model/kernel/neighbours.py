"""What two releases, an older and a newer one, say alike: that may be taken over for a release between them.

Places in the source are no part of what is compared, and are not taken over (line 0: not known).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, TypeVar

from model.kernel.c_body import Body, Call, nodes_of
from model.kernel.nearest import version_numbers
from model.kernel.release import Release

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The nearest releases that were read, `older` and `newer` than the one between; None where there is none.

    `read` has all releases that were read, oldest first.
    """

    older: Release | None
    newer: Release | None
    read: tuple[Release, ...]

    @property
    def both(self) -> tuple[Release, ...]:
        return tuple(row for row in (self.older, self.newer) if row is not None)

    def alike(self, get: Callable[[Release], Mapping[str, T]]) -> Iterator[tuple[str, T]]:
        """The rows that both have and that are equal but for their places; the newer one's, without places."""
        if self.older is None or self.newer is None:
            return
        old, new = get(self.older), get(self.newer)
        for key, row in new.items():
            if key in old and placeless(old[key]) == placeless(row):
                yield key, placeless(row)

    @property
    def source(self) -> str:
        """Provenance of what is alike."""
        assert self.older is not None
        assert self.newer is not None
        return f"the same in {self.older.version} and {self.newer.version}"


def neighbours(version: str, read: Sequence[Release]) -> Neighbours:
    """By the whole version number; a release of the same number is newer than itself."""
    ordered = sorted(read, key=lambda row: version_numbers(row.version))
    asked = version_numbers(version)
    older = [row for row in ordered if version_numbers(row.version) < asked]
    newer = [row for row in ordered if version_numbers(row.version) >= asked]
    return Neighbours(older[-1] if older else None, newer[0] if newer else None, tuple(ordered))


def placeless(row: T) -> T:
    """A row of a release without line numbers (0 in their place); files stay."""
    if isinstance(row, tuple):
        return tuple(placeless(item) for item in row)  # type: ignore[return-value]
    if not is_dataclass(row) or isinstance(row, type):
        return row
    changed: dict[str, Any] = {}
    for field in fields(row):
        value = getattr(row, field.name)
        bare = 0 if field.name == "line" else placeless(value)
        if bare is not value:
            changed[field.name] = bare
    return replace(row, **changed) if changed else row


def bodies_alike(near: Neighbours) -> dict[str, Body]:
    """The function bodies that are alike together with all that they call, as far as that was read on either side."""
    alike = dict(near.alike(lambda release: release.bodies))
    known = {name for release in near.both for name in release.bodies}
    while True:
        kept = {
            name: body for name, body in alike.items() if all(name in alike for name in _called(body) if name in known)
        }
        if len(kept) == len(alike):
            return kept
        alike = kept


def _called(body: Body) -> Iterator[str]:
    return (node.function for node in nodes_of(body.steps) if isinstance(node, Call))
