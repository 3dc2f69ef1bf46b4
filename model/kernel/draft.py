"""A release while it is made from a table: what was found so far of holes, of what is missing, and of provenance."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from model.kernel.facts_table import FactsTable
from model.kernel.neighbours import Neighbours


@dataclass(slots=True)
class Draft:
    """`unread` keeps its order; `provenance` is as in `Release`, with lists."""

    near: Neighbours
    table: FactsTable
    holes: dict[str, str] = field(default_factory=dict)
    unread: dict[str, None] = field(default_factory=dict)
    sources: dict[str, dict[str, list[str]]] = field(default_factory=dict)

    @property
    def stated(self) -> str:
        """Provenance of what the table says."""
        return f"independent table for {self.table.version}"

    def source(self, section: str, source: str, key: str = "") -> None:
        """A row of `section` (all of them where `key` is "") is from `source`."""
        keys = self.sources.setdefault(section, {}).setdefault(source, [])
        if key:
            keys.append(key)

    def missing(self, what: str, *holes: str) -> None:
        """What could not be found out; `holes` are the keys of `Release.holes` that it makes."""
        self.unread[what] = None
        for hole in holes:
            self.holes.setdefault(hole, what)

    def apart(self, what: str) -> str:
        """Why `what` could not be taken over."""
        near = self.near
        if near.older is None:
            return f"{what}: no older release was read, and no row tells"
        read = " and ".join(row.version for row in near.both)
        return f"{what}: not alike in {read}, and no row tells"

    @property
    def provenance(self) -> Mapping[str, Mapping[str, tuple[str, ...]]]:
        return {key: {source: tuple(rows) for source, rows in table.items()} for key, table in self.sources.items()}
