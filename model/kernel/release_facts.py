"""A release as a flat table of facts, and what two such tables say differently, row by row.

No places: the line of a function is no fact, nor is the file that holds it. Types are compared by width, sign and
being a pointer, and shown as C spells them.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from model.kernel.compare_facts import prototype_text, shape, shapes
from model.kernel.data_c import encode_c
from model.kernel.data_code import encode_body
from model.kernel.neighbours import placeless
from model.kernel.release import GenLookup, Helper, Release

SHOWN = 160  # characters of one value


@dataclass(frozen=True, slots=True)
class Fact:
    """`key` decides whether two facts are the same, `text` is what a person reads."""

    key: object
    text: str


@dataclass(frozen=True, slots=True)
class Difference:
    """A row that only one side has (`old` or `new` is None), or that both have with another value.

    `kind` is the section in words ("slot", "prototype", "helper"), `name` the row's.
    """

    kind: str
    name: str
    old: str | None
    new: str | None

    def __str__(self) -> str:
        if self.old is None:
            return f"added    {self.kind} {self.name}: {self.new}"
        if self.new is None:
            return f"removed  {self.kind} {self.name}: {self.old}"
        return f"changed  {self.kind} {self.name}: {self.old} -> {self.new}"


@dataclass(frozen=True, slots=True)
class Compared:
    """`skipped`: how many rows of a kind only one release has because the other is from no tree, kind by kind."""

    differences: tuple[Difference, ...]
    skipped: Mapping[str, int]


Rows = Iterator[tuple[str, Fact]]


def _same(text: str) -> Fact:
    return Fact(text, text)


def _types(release: Release) -> Rows:
    for name, row in release.map_types.items():
        operations = "operations not read" if release.type_hole(name) else row.ops or "no operations"
        yield name, _same(f"number {row.number}, {operations}")


def _slots(release: Release) -> Rows:
    for symbol, table in release.ops.items():
        for slot, key in table.slots.items():
            yield f"{symbol}.{slot}", _same(key.partition("@")[0])


def _prototypes(release: Release) -> Rows:
    """By name; where two files have a function of one name, by its key, which names the file."""
    names = Counter(row.name for row in release.functions.values())
    for key, row in release.functions.items():
        name = row.name if names[row.name] == 1 else key
        yield name, Fact(shapes(row.prototype), prototype_text(row.prototype))


def _members(release: Release) -> Rows:
    for name, prototype in release.slots.items():
        yield f"bpf_map_ops.{name}", Fact(shapes(prototype), prototype_text(prototype))


def _helpers(release: Release) -> Rows:
    for name, row in release.helpers.items():
        cast = None if row.result_cast is None else shape(row.result_cast)
        key = (row.id, row.function, tuple(map(shape, row.params)), row.slot, row.arguments, cast)
        yield name, Fact(key, _helper_text(row))


def _helper_text(row: Helper) -> str:
    given = ", ".join(str(index + 1) for index in row.arguments)
    cast = f"({row.result_cast.c}) " if row.result_cast is not None else ""
    params = ", ".join(kind.c for kind in row.params)
    return f"{row.function}({params}), id {row.id}, is {cast}{row.slot} of arguments {given}"


def _accepted(release: Release) -> Rows:
    for name, table in release.accepted.items():
        for kind, row in table.items():
            word = ("accepted" + (f", {row.condition}" if row.condition else "")) if row.accepted else "refused"
            yield f"{kind}/{name}", _same("not read" if release.acceptance_hole(name, kind) else word)


def _rewrites(release: Release) -> Rows:
    for row in release.rewrites:
        demanded = "no prototype demanded" if row.prototype is None else prototype_text(row.prototype)
        key = (row.slot, None if row.prototype is None else shapes(row.prototype))
        yield row.helper, Fact(key, f"becomes {row.slot}, {demanded}")


def _sequences(release: Release) -> Rows:
    for name, row in release.gen_lookup.items():
        bare: GenLookup = placeless(row)
        yield name, Fact(bare.body, json.dumps(encode_body(bare.body)))


def _bodies(release: Release) -> Rows:
    for name, body in release.bodies.items():
        bare = placeless(body)
        coded = encode_c(bare)
        yield name, Fact((bare.result, bare.params, bare.steps), json.dumps([coded["params"], coded["steps"]]))


def _returns(release: Release) -> Rows:
    for name, rows in release.returns.items():
        texts = [f"{row.text} ({row.function})" for row in rows]
        yield name, _same("; ".join(texts))


def _checked(release: Release) -> Rows:
    for name, row in release.checked.items():
        yield name, _same(", ".join(row.arguments))


def _values(release: Release) -> Rows:
    yield "limit of a patch", _same(f"{release.insn_buf} instructions")
    yield "poisoned pointer of for_each", _same(release.poison_for_each or "no for_each")


def _table(get: Callable[[Release], Mapping[str, object]]) -> Callable[[Release], Rows]:
    return lambda release: ((key, _same(str(value))) for key, value in get(release).items())


# What is compared, in this order.
SECTIONS: Mapping[str, Callable[[Release], Rows]] = {
    "type": _types,
    "slot": _slots,
    "prototype": _prototypes,
    "member": _members,
    "helper": _helpers,
    "helper id": _table(lambda release: release.helper_ids),
    "acceptance": _accepted,
    "rewrite": _rewrites,
    "pass": _values,
    "sequence": _sequences,
    "body": _bodies,
    "map_meta_equal": _table(lambda release: release.meta_equal),
    "callback": _table(lambda release: dict.fromkeys(sorted(release.callbacks), "calls back")),
    "offset": _table(lambda release: release.layout),
    "JIT": _table(lambda release: dict.fromkeys(sorted(release.percpu_insn), "per-CPU instructions")),
    "result": _returns,
    "argument": _checked,
    "hole": _table(lambda release: dict.fromkeys(release.holes, "not read")),
}
# What a release that is from no tree may lack without saying that it is not there.
OPEN = frozenset(
    ("prototype", "member", "helper id", "sequence", "body", "offset", "JIT", "result", "argument", "hole")
)


def compare(old: Release, new: Release) -> Compared:
    """What `new` has otherwise than `old`."""
    found: list[Difference] = []
    skipped: dict[str, int] = {}
    partial = bool(old.provenance or new.provenance)
    for kind, rows in SECTIONS.items():
        mine, theirs = dict(rows(old)), dict(rows(new))
        for name in [*mine, *(name for name in theirs if name not in mine)]:
            before, after = mine.get(name), theirs.get(name)
            if before is not None and after is not None and before.key == after.key:
                continue
            if (before is None or after is None) and partial and _open(kind, name, old, new):
                skipped[kind] = skipped.get(kind, 0) + 1
                continue
            found.append(Difference(kind, name, *_texts(before, after)))
    return Compared(tuple(found), skipped)


def _open(kind: str, name: str, old: Release, new: Release) -> bool:
    """Whether a row that only one side has says nothing: the other, from no tree, does not know of such rows."""
    if kind == "slot":
        member = name.rpartition(".")[2]
        return not (member in old.slots and member in new.slots)
    return kind in OPEN


def _texts(before: Fact | None, after: Fact | None) -> tuple[str | None, str | None]:
    """Long values from where they begin to differ."""
    if before is None or after is None:
        return (_cut(before.text) if before else None), (_cut(after.text) if after else None)
    long = max(len(before.text), len(after.text)) > SHOWN
    differ = (i for i, (a, b) in enumerate(zip(before.text, after.text, strict=False)) if a != b)
    start = max(0, next(differ, 0) - SHOWN // 3) if long else 0
    return _cut(before.text, start), _cut(after.text, start)


def _cut(text: str, start: int = 0) -> str:
    part = text[start : start + SHOWN]
    return ("… " if start else "") + part + (" …" if len(text) > start + SHOWN else "")
