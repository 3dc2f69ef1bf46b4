"""From plain JSON values to a `Release`, row by row, with a path for every complaint."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NoReturn, TypeVar

from model.errors import InputError
from model.kernel.data_c import decode_c
from model.kernel.data_code import decode_body
from model.kernel.evidence import Checked, Returned
from model.kernel.release import (
    HOLES,
    Acceptance,
    CType,
    DirectCall,
    Function,
    GenLookup,
    Helper,
    MapType,
    OpsTable,
    Prototype,
    Release,
)

T = TypeVar("T")

SCHEMA = 2  # 2: with holes
NEST = 48  # statements and expressions in one another; the kernel's sequences need 6


@dataclass(frozen=True, slots=True)
class Node:
    """A JSON value with its place in the file."""

    value: object
    file: str
    path: str = "$"

    def fail(self, expected: str) -> NoReturn:
        found = type(self.value).__name__ if isinstance(self.value, dict | list) else repr(self.value)[:60]
        raise InputError(self.file, self.path, f"expected {expected}, found {found}")

    def text(self) -> str:
        return self.value if isinstance(self.value, str) and len(self.value) < 4096 else self.fail("a string")

    def word(self) -> str:
        """A string that can be a name: not empty, printable."""
        text = self.text()
        return text if text and text.isprintable() and len(text) <= 200 else self.fail("a name")

    def integer(self, low: int = 0, high: int = (1 << 31) - 1) -> int:
        if isinstance(self.value, bool) or not isinstance(self.value, int) or not low <= self.value <= high:
            self.fail(f"an integer from {low} to {high}")
        return self.value

    def flag(self) -> bool:
        return self.value if isinstance(self.value, bool) else self.fail("true or false")

    def items(self) -> "list[Node]":
        if not isinstance(self.value, list):
            self.fail("an array")
        return [Node(item, self.file, f"{self.path}[{index}]") for index, item in enumerate(self.value)]

    def members(self) -> "dict[str, Node]":
        if not isinstance(self.value, dict):
            self.fail("an object")
        return {key: Node(item, self.file, f"{self.path}.{key[:80]}") for key, item in self.value.items()}

    def record(self, *names: str, optional: tuple[str, ...] = ()) -> "dict[str, Node]":
        """An object with exactly the members `names`, and maybe those in `optional`."""
        members = self.members()
        for name in names:
            if name not in members:
                raise InputError(self.file, self.path, f"expected a member {name!r}")
        for name, node in members.items():
            if name not in names and name not in optional:
                raise InputError(self.file, node.path, f"expected only {', '.join(names + optional)}")
        return members


Types = Mapping[str, CType]


def _type(node: Node, types: Types) -> CType:
    text = node.text()
    return types[text] if text in types else node.fail("a C type that $.types tells of")


def _types(node: Node) -> dict[str, CType]:
    rows = {}
    for text, row in node.members().items():
        fields = row.record("bits", "signed", optional=("pointer",))
        pointer = fields["pointer"].flag() if "pointer" in fields else False
        bits = fields["bits"].integer(0, 64)
        if bits not in (0, 8, 16, 32, 64) or (pointer and bits != 64):
            fields["bits"].fail("0 (void), 8, 16, 32 or 64 bits, 64 for a pointer")
        rows[text] = CType(text, bits, fields["signed"].flag(), pointer)
    return rows


def _prototype(fields: Mapping[str, Node], types: Types) -> Prototype:
    params = tuple(_type(item, types) for item in fields["params"].items())
    for item, row in zip(fields["params"].items(), params, strict=True):
        if row.bits == 0:
            item.fail("a parameter's type, not void")
    return Prototype(_type(fields["result"], types), params)


def _map_type(name: str, node: Node) -> MapType:
    row = node.record("number", "ops")
    return MapType(name, row["number"].integer(), None if row["ops"].value is None else row["ops"].word())


def _ops(symbol: str, node: Node) -> OpsTable:
    row = node.record("file", "line", "slots")
    slots = {slot: item.word() for slot, item in row["slots"].members().items()}
    return OpsTable(symbol, slots, row["file"].word(), row["line"].integer(1))


def _function(name: str, node: Node, types: Types) -> Function:
    row = node.record("result", "params", "file", "line", optional=("name",))
    symbol = row["name"].word() if "name" in row else name
    return Function(symbol, _prototype(row, types), row["file"].word(), row["line"].integer(1))


def _helper(name: str, node: Node, types: Types) -> Helper:
    row = node.record("id", "function", "params", "slot", "arguments", "result_cast", "file", "line")
    params = tuple(_type(item, types) for item in row["params"].items())
    return Helper(
        name=name,
        id=row["id"].integer(),
        function=row["function"].word(),
        params=params,
        slot=row["slot"].word(),
        arguments=tuple(item.integer(0, len(params) - 1) for item in row["arguments"].items()),
        result_cast=None if row["result_cast"].value is None else _type(row["result_cast"], types),
        file=row["file"].word(),
        line=row["line"].integer(),
    )


def _acceptance(node: Node) -> Acceptance:
    row = node.record("accepted", optional=("condition", "reason"))
    condition, reason = (row[key].text() if key in row else "" for key in ("condition", "reason"))
    return Acceptance(row["accepted"].flag(), condition, reason)


def _rewrite(node: Node, types: Types) -> DirectCall:
    row = node.record("helper", "slot", "prototype", "function", "file", "line")
    demanded = row["prototype"]
    prototype = None if demanded.value is None else _prototype(demanded.record("result", "params"), types)
    return DirectCall(
        row["helper"].word(),
        row["slot"].word(),
        prototype,
        row["function"].word(),
        row["file"].word(),
        row["line"].integer(),
    )


def _gen_lookup(name: str, node: Node) -> GenLookup:
    row = node.record("file", "line", "body")
    body = row["body"]
    return GenLookup(
        name, decode_body(body.value, body.file, body.path, NEST), row["file"].word(), row["line"].integer(1)
    )


def _returned(node: Node) -> tuple[Returned, ...]:
    return tuple(_return(item) for item in node.items())


def _return(node: Node) -> Returned:
    row = node.record("text", "function", "file", "line", optional=("low", "high"))
    low, high = (row[key].integer(-(1 << 63), (1 << 63) - 1) if key in row else None for key in ("low", "high"))
    if (low is None) != (high is None) or (low is not None and high is not None and low > high):
        node.fail("low and high, in this order, or neither")
    place = row["function"].word(), row["file"].word(), row["line"].integer(1)
    return Returned(row["text"].text(), low, high, *place)


def _sources(node: Node) -> dict[str, tuple[str, ...]]:
    return {source: tuple(item.word() for item in keys.items()) for source, keys in node.members().items()}


def _checked(node: Node) -> Checked:
    row = node.record("arguments", "file", "line")
    return Checked(tuple(item.text() for item in row["arguments"].items()), row["file"].word(), row["line"].integer(1))


MEMBERS = [
    "schema",
    "name",
    "version",
    "origin",
    "insn_buf",
    "poison_for_each",
    "percpu_insn",
    "types",
    "map_types",
    "ops",
    "functions",
    "slots",
    "helpers",
    "accepted",
    "rewrites",
    "gen_lookup",
    "meta_equal",
    "callbacks",
    "layout",
    "helper_ids",
    "unread",
    "holes",
]


def read_fields(tree: object, file: str) -> Release:
    """The release in a parsed JSON value; InputError with the JSON path of the first fault."""
    root = Node(tree, file)
    schema = root.members().get("schema")
    if schema is None or schema.value != SCHEMA or isinstance(schema.value, bool):
        what = f"expected {SCHEMA}, the schema of release files that this version reads; extract writes it anew"
        raise InputError(file, "$.schema", what)
    fields = root.record(*MEMBERS, optional=("bodies", "returns", "checked", "provenance"))
    types = _types(fields["types"])

    def rows(name: str, make: Callable[[str, Node], T]) -> dict[str, T]:
        return {key: make(key, node) for key, node in fields[name].members().items()} if name in fields else {}

    release = Release(
        name=fields["name"].word(),
        version=fields["version"].word(),
        origin=fields["origin"].text(),
        map_types=rows("map_types", _map_type),
        ops=rows("ops", _ops),
        functions=rows("functions", lambda key, node: _function(key, node, types)),
        slots=rows("slots", lambda _, node: _prototype(node.record("result", "params"), types)),
        helpers=rows("helpers", lambda key, node: _helper(key, node, types)),
        helper_ids=rows("helper_ids", lambda _, node: node.integer()),
        accepted=rows("accepted", lambda _, node: {key: _acceptance(item) for key, item in node.members().items()}),
        rewrites=tuple(_rewrite(node, types) for node in fields["rewrites"].items()),
        gen_lookup=rows("gen_lookup", _gen_lookup),
        meta_equal=rows("meta_equal", lambda _, node: node.word()),
        callbacks=frozenset(node.word() for node in fields["callbacks"].items()),
        insn_buf=fields["insn_buf"].integer(0, 1 << 16),
        poison_for_each=fields["poison_for_each"].text(),
        layout=rows("layout", lambda _, node: node.integer()),
        percpu_insn=frozenset(node.word() for node in fields["percpu_insn"].items()),
        unread=tuple(node.text() for node in fields["unread"].items()),
        bodies=rows("bodies", lambda key, node: decode_c(key, node.value, file, node.path, NEST)),
        holes=rows("holes", lambda _, node: node.text() or node.fail("a reason")),
        returns=rows("returns", lambda _, node: _returned(node)),
        checked=rows("checked", lambda _, node: _checked(node)),
        provenance=rows("provenance", lambda _, node: _sources(node)),
    )
    _check(release, fields)
    return release


def _check(release: Release, fields: Mapping[str, Node]) -> None:
    """What rows say of one another: every name that one row uses is another row's key."""

    def known(section: str, name: str, place: str, table: Iterable[str], what: str) -> None:
        if name not in table:
            raise InputError(fields[section].file, f"$.{section}{place}", f"expected {what}, found {name[:60]!r}")

    known("poison_for_each", release.poison_for_each, "", ("", "refused", "stays"), "refused, stays or nothing")
    numbers: dict[int, str] = {}
    for name, row in release.map_types.items():
        if row.ops is not None:
            known("map_types", row.ops, f".{name}.ops", release.ops, "a table in $.ops")
        if numbers.setdefault(row.number, name) != name:
            raise InputError(fields["map_types"].file, f"$.map_types.{name}.number", "expected a number of its own")
    for symbol, table in release.ops.items():
        for slot in table.slots:
            known("ops", slot, f".{symbol}.slots", release.slots, "a member in $.slots")
    for name, helper in release.helpers.items():
        known("helpers", helper.slot, f".{name}.slot", release.slots, "a member in $.slots")
        known("helper_ids", name, "", release.helper_ids, f"the number of {name}")
        if release.helper_ids[name] != helper.id:
            raise InputError(fields["helpers"].file, f"$.helpers.{name}.id", f"expected {release.helper_ids[name]}")
        known("accepted", name, "", release.accepted, f"rows for {name}")
    for index, rewrite in enumerate(release.rewrites):
        known("rewrites", rewrite.slot, f"[{index}].slot", release.slots, "a member in $.slots")
        known("rewrites", rewrite.helper, f"[{index}].helper", release.helper_ids, "a helper in $.helper_ids")
    for name, pairs in release.accepted.items():
        known("accepted", name, "", release.helpers, "a helper in $.helpers")
        for kind in pairs:
            known("accepted", kind, f".{name}", release.map_types, "a type in $.map_types")
        for kind in release.map_types:
            known("accepted", kind, f".{name}", pairs, f"a row for {kind}")
    for hole in release.holes:
        known("holes", hole.partition(":")[0], "", HOLES, f"{', '.join(HOLES)} before a colon")
    for name in release.returns:
        known("returns", name, "", release.functions, "a function in $.functions")
    for name in release.checked:
        known("checked", name, "", release.helpers, "a helper in $.helpers")
    for kind in release.meta_equal:
        known("meta_equal", kind, "", release.map_types, "a type in $.map_types")
