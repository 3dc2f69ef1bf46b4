"""A table of a release's map operations, made by somebody else: a JSON file of `map_types`, `slot_prototypes`, `ops`.

`map_types` has BPF_MAP_TYPE_X -> table's symbol; `slot_prototypes` the members of struct bpf_map_ops, as C text; `ops`
symbol -> file, line and slots -> function with file, line and prototype as C text, or null where it is not set.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from model.errors import InputError
from model.kernel.data import read_json, read_text
from model.kernel.data_rows import Node

PREFIX = "BPF_MAP_TYPE_"


@dataclass(frozen=True, slots=True)
class Listed:
    """A function in a slot; `prototype` is its C declaration."""

    name: str
    file: str
    line: int
    prototype: str


@dataclass(frozen=True, slots=True)
class ListedOps:
    """One table of operations: slots that are set; members of the table's own list that are null are not here."""

    file: str
    line: int
    slots: Mapping[str, Listed]


@dataclass(frozen=True, slots=True)
class FactsTable:
    """`map_types` by name in lower case without the prefix; `slots` by member, the C text of each."""

    version: str
    map_types: Mapping[str, str]
    slots: Mapping[str, str]
    ops: Mapping[str, ListedOps]


def load_facts(path: Path) -> FactsTable:
    """InputError, with the JSON path, where the file cannot be read or is no such table."""
    root = Node(read_json(read_text(path), str(path)), str(path))
    fields = root.record("kernel", "slot_prototypes", "map_types", "ops")
    ops = {symbol: _ops(node) for symbol, node in fields["ops"].members().items()}
    types = {}
    for name, node in fields["map_types"].members().items():
        if not name.startswith(PREFIX):
            node.fail(f"a name that begins with {PREFIX}")
        if node.word() not in ops:
            node.fail("a table in $.ops")
        types[name.removeprefix(PREFIX).lower()] = node.word()
    slots = {name: node.text() for name, node in fields["slot_prototypes"].members().items()}
    for symbol, table in ops.items():
        for slot in table.slots:
            if slot not in slots:
                raise InputError(
                    str(path), f"$.ops.{symbol}.slots.{slot}"[:200], "expected a slot in $.slot_prototypes"
                )
    return FactsTable(fields["kernel"].word(), types, slots, ops)


def _ops(node: Node) -> ListedOps:
    row = node.record("file", "line", "slots")
    slots = {name: _listed(item) for name, item in row["slots"].members().items() if item.value is not None}
    return ListedOps(row["file"].word(), row["line"].integer(1), slots)


def _listed(node: Node) -> Listed:
    row = node.record("func", "file", "line", "proto", "ret")
    return Listed(row["func"].word(), row["file"].word(), row["line"].integer(1), row["proto"].text())
