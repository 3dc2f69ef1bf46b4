"""A release from somebody's table of operations (`model.kernel.facts_table`), where there is no source tree.

What the table states is used. What it does not state (helpers, accepted pairs, rewrites, C) comes from rows
(`model.kernel.spans`), and from the releases before and behind it that were extracted from trees, where these are
alike. The rest is a hole, or left out and named in `unread`. `provenance` tells which is which. What operations return
and what prototypes demand is left to `proofs.reachability`, which asks the same neighbours.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from model.errors import InputError
from model.kernel.c_body import Body
from model.kernel.c_tree import Unread
from model.kernel.c_types import Lookup, read_prototype
from model.kernel.convert_pairs import convert_pairs
from model.kernel.convert_rows import convert_helpers, convert_pass
from model.kernel.data import available, load_release
from model.kernel.draft import Draft
from model.kernel.facts_table import FactsTable, Listed
from model.kernel.nearest import version_numbers
from model.kernel.neighbours import bodies_alike, neighbours
from model.kernel.release import PERCPU_INSN, CType, Function, GenLookup, MapType, OpsTable, Prototype, Release
from model.kernel.spans import first, subjects

GEN_LOOKUP, FOR_EACH, META_EQUAL = "map_gen_lookup", "map_for_each_callback", "map_meta_equal"
UAPI = "user API: a number never changes"


def extracted() -> tuple[Release, ...]:
    """The releases in the data that are from trees as a whole, oldest first."""
    return tuple(release for release in map(load_release, available()) if not release.provenance)


def convert(table: FactsTable, read: Sequence[Release]) -> Release:
    """`read` are the releases that were extracted from trees. InputError where the table is of none of their time."""
    numbers = version_numbers(table.version)
    near = neighbours(table.version, read)
    if len(numbers) < 2 or near.newer is None:
        known = ", ".join(row.version for row in near.read) or "none"
        what = f"expected a version of a kernel, not newer than all that were extracted ({known})"
        raise InputError("$.kernel", table.version[:40], what)
    draft = Draft(near, table)
    look = _typedefs(near.read)
    types = _map_types(draft)
    slots = _slots(draft, look)
    ops, functions = _operations(draft, look)
    helpers = convert_helpers(draft, slots)
    rewrites, insn_buf, poison = convert_pass(draft, slots, helpers)
    lookups = _sequences(draft, ops, functions)
    release = Release(
        name=".".join(str(part) for part in numbers[:2]),
        version=table.version,
        origin=_origin(draft),
        map_types=types,
        ops=ops,
        functions=functions,
        slots=slots,
        helpers=helpers,
        helper_ids=_helper_ids(draft),
        accepted=convert_pairs(draft, types, ops, helpers),
        rewrites=rewrites,
        gen_lookup=lookups,
        meta_equal=_meta_equal(draft, types, ops),
        callbacks=_callbacks(draft, ops),
        insn_buf=insn_buf,
        poison_for_each=poison,
        layout=_layout(draft),
        percpu_insn=_percpu_insn(draft, lookups.values()),
        bodies=_bodies(draft, functions),
    )
    return replace(
        release,
        unread=tuple(sorted(draft.unread)),
        holes=dict(sorted(draft.holes.items())),
        provenance=draft.provenance,
    )


def _origin(draft: Draft) -> str:
    near = draft.near
    alike = f"what is {near.source}" if near.older is not None else f"as in {near.both[0].version} where a row says so"
    return f"{draft.stated}; rows for helpers, pairs and passes; {alike}"


def _typedefs(read: Sequence[Release]) -> Lookup:
    """Widths of the type names that the extracted releases use, as declarations of the same width."""
    known: dict[str, CType] = {}
    for release in read:
        for prototype in [*release.slots.values(), *(row.prototype for row in release.functions.values())]:
            known |= {kind.c: kind for kind in (prototype.result, *prototype.params)}

    def look(name: str) -> str | None:
        kind = known.get(name)
        if kind is None or not kind.bits:
            return None
        return "void *" if kind.pointer else f"{'s' if kind.signed else 'u'}{kind.bits}"

    return look


def _prototype(text: str, look: Lookup) -> tuple[str, Prototype]:
    return read_prototype(text.rstrip().removesuffix(";"), look)


def _map_types(draft: Draft) -> dict[str, MapType]:
    numbers = {name: row.number for release in draft.near.read for name, row in release.map_types.items()}
    types = {}
    for name, symbol in draft.table.map_types.items():
        if name in numbers:
            types[name] = MapType(name, numbers[name], symbol)
        else:
            draft.missing(f"map type {name}: its number is in no release that was read", f"type:{name}")
    draft.source("map_types", draft.stated)
    draft.source("map_types", UAPI, "number")
    return dict(sorted(types.items(), key=lambda item: item[1].number))


def _slots(draft: Draft, look: Lookup) -> dict[str, Prototype]:
    slots = {}
    for name, text in draft.table.slots.items():
        try:
            declared, slots[name] = _prototype(text, look)
            if declared != name:
                raise Unread(f"a declaration of {declared or 'nothing'}")
        except Unread as error:
            slots.pop(name, None)
            draft.missing(f"slot {name}: {error}", f"slot:{name}")
    draft.source("slots", draft.stated)
    return slots


def _operations(draft: Draft, look: Lookup) -> tuple[dict[str, OpsTable], dict[str, Function]]:
    """Functions by name; by "name@file" where two files have one each, as extraction has them."""
    tables = draft.table.ops
    listed = [row for table in tables.values() for row in table.slots.values()]
    homes: dict[str, set[str]] = {}
    for row in listed:
        homes.setdefault(row.name, set()).add(row.file)

    def key(row: Listed) -> str:
        return f"{row.name}@{row.file}" if len(homes[row.name]) > 1 else row.name

    functions = {}
    for row in listed:
        try:
            declared, prototype = _prototype(row.prototype, look)
            if declared != row.name:
                raise Unread(f"a declaration of {declared or 'nothing'}")
            functions[key(row)] = Function(row.name, prototype, row.file, row.line)
        except Unread as error:
            draft.missing(f"{row.file}:{row.line}: {row.name}: {error}")
    ops = {}
    for symbol, table in tables.items():
        # A slot whose prototype was not read is not in `slots`, and its holes cover every table.
        slots = {slot: key(row) for slot, row in table.slots.items() if f"slot:{slot}" not in draft.holes}
        ops[symbol] = OpsTable(symbol, slots, table.file, table.line)
    for section in ("ops", "functions"):
        draft.source(section, draft.stated)
    return ops, functions


def _helper_ids(draft: Draft) -> dict[str, int]:
    """The newer release's numbers, up to the first that belongs to a helper which this one is known to lack.

    Helpers are numbered in the order in which they come, so that the numbers below it may be in use, and none above is.
    """
    newer = draft.near.both[-1]
    version = version_numbers(draft.table.version)
    lacking = [name for name in subjects("helper") if version < version_numbers(first(f"helper/{name}"))]
    end = min((newer.helper_ids[name] for name in lacking if name in newer.helper_ids), default=1 << 31)
    draft.source("helper_ids", f"{UAPI}; those of {newer.version}, below the first that is known to have come later")
    return {name: number for name, number in newer.helper_ids.items() if number < end}


def _sequences(draft: Draft, ops: dict[str, OpsTable], functions: dict[str, Function]) -> dict[str, GenLookup]:
    """The sequences of the functions in the tables, where both neighbours have the same; at the table's place."""
    alike = dict(draft.near.alike(lambda release: release.gen_lookup))
    lookups = {}
    for name in sorted({table.slots[GEN_LOOKUP] for table in ops.values() if GEN_LOOKUP in table.slots}):
        place = functions.get(name)
        if name in alike and place is not None and place.file == alike[name].file:
            lookups[name] = GenLookup(name, alike[name].body, place.file, place.line)
            draft.source("gen_lookup", draft.near.source, name)
        else:
            draft.missing(draft.apart(f"the sequence of {name}"))
    return lookups


def _bodies(draft: Draft, functions: dict[str, Function]) -> dict[str, Body]:
    bodies = {}
    for name, body in bodies_alike(draft.near).items():
        place = functions.get(name)
        if place is not None and place.file != body.file:
            continue
        bodies[name] = replace(body, line=0 if place is None else place.line)
        draft.source("bodies", draft.near.source, name)
    return bodies


def _meta_equal(draft: Draft, types: dict[str, MapType], ops: dict[str, OpsTable]) -> dict[str, str]:
    draft.source("meta_equal", draft.stated)
    functions = {name: ops[row.ops].slots.get(META_EQUAL) for name, row in types.items() if row.ops}
    return {name: function for name, function in functions.items() if function}


def _callbacks(draft: Draft, ops: dict[str, OpsTable]) -> frozenset[str]:
    draft.source("callbacks", "every walk calls back through a pointer, in every release")
    return frozenset(table.slots[FOR_EACH] for table in ops.values() if FOR_EACH in table.slots)


def _layout(draft: Draft) -> dict[str, int]:
    layout = dict(draft.near.alike(lambda release: release.layout))
    if layout:
        draft.source("layout", draft.near.source)
    return layout


def _percpu_insn(draft: Draft, lookups: Iterable[GenLookup]) -> frozenset[str]:
    """The JITs that both neighbours have it of; what they say differently is a hole where a sequence asks for it."""
    near = draft.near
    if near.older is None or near.newer is None or not any(PERCPU_INSN in repr(row.body) for row in lookups):
        return frozenset()
    draft.source("percpu_insn", near.source)
    for arch in sorted(near.older.percpu_insn ^ near.newer.percpu_insn):
        draft.missing(draft.apart(f"{PERCPU_INSN} of {arch}"), f"percpu_insn:{arch}")
    return near.older.percpu_insn & near.newer.percpu_insn
