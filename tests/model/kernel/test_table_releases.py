"""The releases that come from tables of operations: literals from what is known of the kernel's history.

Neighbours of different origin (a table, a tree) are compared: they may differ only in what the history says.
`KERNEL_FACTS=DIR` (with DIR/ops-6.18.2.json and so on) makes the releases again; skipped without.
"""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from model.facts import MapPointer, SiteFact
from model.kernel.convert import convert, extracted
from model.kernel.data import available, dump_release, load_release
from model.kernel.facts_table import FactsTable, Listed, ListedOps, load_facts
from model.kernel.release import Prototype, Release
from model.kernel.release_facts import Difference, compare
from model.program import Map
from model.rewrite.config import Config
from model.rewrite.direct_call import Kind, decide

TABLES = [name for name in available() if load_release(name).provenance]
SIX = ("map_lookup_elem", "map_update_elem", "map_delete_elem", "map_push_elem", "map_pop_elem", "map_peek_elem")
NINE = (*SIX, "redirect_map", "for_each_map_elem", "map_lookup_percpu_elem")
INT, LONG = (32, True), (64, True)


@pytest.fixture(scope="module")
def read() -> tuple[Release, ...]:
    return extracted()


def test_which() -> None:
    assert TABLES == ["4.19", "5.4", "5.15", "5.16", "5.19", "6.2", "6.3", "6.6", "6.10", "6.14", "6.18", "6.19"]


@pytest.mark.parametrize(
    ("name", "version", "helpers", "word", "limit", "poisoned"),
    [
        ("4.19", "4.19.0", SIX[:3], INT, 16, ""),
        ("5.4", "5.4.3", SIX, INT, 16, ""),
        ("5.15", "5.15.215", NINE[:7], INT, 16, "refused"),
        ("5.16", "5.16.10", NINE[:8], INT, 16, "refused"),
        ("5.19", "5.19.0", NINE, INT, 16, "refused"),
        ("6.2", "6.2.1", NINE, INT, 16, "refused"),
        ("6.3", "6.3.8", NINE, LONG, 16, "refused"),
        ("6.6", "6.6.9", NINE, LONG, 16, "refused"),
        ("6.10", "6.10.0", NINE, LONG, 16, "stays"),
        ("6.14", "6.14.0", NINE, LONG, 32, "stays"),
        ("6.18", "6.18.2", NINE, LONG, 32, "stays"),
        ("6.19", "6.19.0", NINE, LONG, 32, "stays"),
    ],
)
def test_rewrites(
    name: str, version: str, helpers: tuple[str, ...], word: tuple[int, bool], limit: int, poisoned: str
) -> None:
    release = load_release(name)
    assert release.version == version
    assert {row.helper for row in release.rewrites} == set(helpers)
    for row in release.rewrites:
        assert row.prototype is not None
        result = row.prototype.result
        assert result.pointer if "lookup" in row.helper else (result.bits, result.signed) == word
        for kind, pair in release.accepted[row.helper].items():
            function = release.operation(kind, row.slot) if pair.accepted else None
            assert function is None or function.prototype.result.bits == result.bits
    assert (release.insn_buf, release.poison_for_each) == (limit, poisoned)
    assert release.layout.get("struct htab_elem.key") == (None if name in ("4.19", "5.4") else 48)


@pytest.mark.parametrize(("name", "bits"), [("5.15", 32), ("5.16", 32), ("5.19", 32), ("6.2", 64), ("6.18", 64)])
def test_the_key_of_redirect(name: str, bits: int) -> None:
    """u32 ifindex, u64 key since 32637e33003f (6.2): the helper, the slot and the operation."""
    release = load_release(name)
    operation = release.operation("devmap", "map_redirect")
    assert operation is not None
    widths = {row.params[1].bits for row in (release.helpers["redirect_map"], release.slots["map_redirect"])}
    assert widths | {operation.prototype.params[1].bits} == {bits}


INLINED = ("array", "hash", "lru_hash", "array_of_maps", "hash_of_maps")


@pytest.mark.parametrize(
    ("name", "more"),
    [("4.19", ()), ("5.4", ()), ("5.15", ("xskmap",)), ("6.6", ("xskmap",))]
    + [(name, ("xskmap", "percpu_array", "percpu_hash")) for name in ("6.10", "6.14", "6.18", "6.19")],
)
def test_the_types_with_map_gen_lookup(name: str, more: tuple[str, ...]) -> None:
    release = load_release(name)
    types = {kind for kind, row in release.map_types.items() if "map_gen_lookup" in release.ops[row.ops or ""].slots}
    assert types == {*INLINED, *more}


@pytest.mark.parametrize("name", TABLES)
def test_each_part_says_where_it_is_from(name: str) -> None:
    release = load_release(name)
    assert f"independent table for {release.version}" in release.origin
    for section in ("map_types", "ops", "functions", "slots", "meta_equal"):
        assert f"independent table for {release.version}" in release.provenance[section]
    for section, rows in (
        ("helpers", release.helpers),
        ("gen_lookup", release.gen_lookup),
        ("bodies", release.bodies),
        ("rewrites", {row.helper: row for row in release.rewrites}),
    ):
        told = sorted(key for keys in release.provenance.get(section, {}).values() for key in keys)
        assert told == sorted(rows)
    pairs = {f"{kind}/{helper}" for helper, table in release.accepted.items() for kind in table}
    told = [key for keys in release.provenance["accepted"].values() for key in keys]
    open_pairs = {key.removeprefix("accepted:") for key in release.holes if key.startswith("accepted:")}
    assert sorted(told) == sorted(pairs - open_pairs)


@pytest.mark.parametrize(
    ("name", "pairs"),
    [
        ("4.19", {"devmap/map_lookup_elem", "xskmap/map_lookup_elem"}),
        ("5.4", {"devmap/map_lookup_elem", "devmap_hash/map_lookup_elem", "xskmap/map_lookup_elem"}),
    ],
)
def test_what_old_releases_accept_of_device_and_socket_maps_is_not_known(name: str, pairs: set[str]) -> None:
    socks = {f"{kind}/{helper}" for kind in ("sockmap", "sockhash") for helper in SIX[:3]}
    assert {key.removeprefix("accepted:") for key in load_release(name).holes} == pairs | socks


@pytest.mark.parametrize("name", TABLES)
def test_an_unread_operation_is_no_operation(name: str) -> None:
    """Every accepted pair has an operation with a prototype (no accepted pair has a NULL one)."""
    release = load_release(name)
    for helper, table in release.accepted.items():
        for kind, row in table.items():
            if row.accepted:
                assert release.operation(kind, release.helpers[helper].slot) is not None


@pytest.mark.parametrize("name", [name for name in TABLES if "for_each_map_elem" in load_release(name).helpers])
def test_a_poisoned_walk(name: str) -> None:
    """Up to 6.8 the load fails, where nothing is rewritten (5.15) too; from 6.10 on (9d482da9e17a) the helper stays."""
    pointers = tuple(MapPointer(("map", label), Map(label, "array", key_size=4, value_size=8)) for label in ("a", "b"))
    fact = SiteFact(0, "for_each_map_elem", pointers, reached=True, sure_poison=True)
    decision = decide(load_release(name), Config(), fact.callee, fact)
    assert decision.kind is Kind.STAYS
    refused = name in ("5.15", "5.16", "5.19", "6.2", "6.3", "6.6")
    assert ("refuses for_each_map_elem with several maps" in decision.reason) == refused


# Neighbours: what may differ, besides the tables of new types and their functions. Literals from the history.
CHAIN: tuple[tuple[str, str, set[str]], ...] = (
    ("5.4", "5.10", {"changed slot sock_hash_ops.map_lookup_elem", "changed slot sock_hash_ops.map_update_elem"}
     | {"added slot xsk_map_ops.map_gen_lookup", "changed member bpf_map_ops.map_gen_lookup"}
     | {f"changed prototype {name}_map_gen_lookup" for name in ("array", "array_of", "htab_lru", "htab", "htab_of")}),
    ("5.10", "5.15", set()),
    ("5.15", "5.16", set()),
    ("5.16", "5.19", set()),
    ("5.19", "6.1", set()),
    ("6.1", "6.2", {"changed member bpf_map_ops.map_redirect"}
     | {f"changed prototype {name}_redirect" for name in ("cpu_map", "dev_map", "dev_hash_map", "xsk_map")}),
    ("6.3", "6.6", set()),
    ("6.6", "6.10", {f"added slot {name}_ops.map_gen_lookup" for name in ("htab_percpu_map", "percpu_array_map")}),
    ("6.10", "6.12", set()),
    ("6.12", "6.14", set()),
    ("6.14", "6.18", set()),
    ("6.18", "6.19", set()),
    ("6.19", "7.3", {"changed slot percpu_array_map_ops.map_meta_equal"}),
)  # fmt: skip


def _operations(old: str, new: str) -> list[Difference]:
    """Differences in operations, apart from the tables of types that only the newer release has."""
    here, there = load_release(old), load_release(new)
    fresh = {row.ops for name, row in there.map_types.items() if name not in here.map_types}
    rows = compare(here, there).differences
    kinds = [row for row in rows if row.kind in ("slot", "prototype", "member")]
    return [row for row in kinds if row.name.partition(".")[0] not in fresh]


@pytest.mark.parametrize(("old", "new", "known"), CHAIN, ids=[f"{row[0]}-{row[1]}" for row in CHAIN])
def test_neighbours_agree_but_for_what_is_known(old: str, new: str, known: set[str]) -> None:
    assert {" ".join(str(row).partition(":")[0].split()) for row in _operations(old, new)} == known


def test_int_became_long_between_6_2_and_6_3() -> None:
    """d7ba4cc900bf (6.4, stable 6.3.2): the seven members, and nothing else of any prototype."""
    rows = _operations("6.2", "6.3")
    assert {row.name for row in rows if row.kind == "member"} == {
        f"bpf_map_ops.map_{name}"
        for name in (
            "update_elem",
            "delete_elem",
            "push_elem",
            "pop_elem",
            "peek_elem",
            "redirect",
            "for_each_callback",
        )
    }
    assert len(rows) == 7 + 57
    for row in rows:
        assert row.old is not None
        assert row.new == row.old.replace("int (", "long (", 1)


def text(name: str, prototype: Prototype) -> str:
    return f"{prototype.result.c} {name}({', '.join(kind.c for kind in prototype.params) or 'void'})"


def stated(release: Release) -> FactsTable:
    """What the table that the release was made from said, as far as the release has it."""
    ops = {}
    for symbol, table in release.ops.items():
        rows = {slot: release.functions[key] for slot, key in table.slots.items()}
        listed = {
            slot: Listed(row.name, row.file, row.line, text(row.name, row.prototype)) for slot, row in rows.items()
        }
        ops[symbol] = ListedOps(table.file, table.line, listed)
    types = {row.name: row.ops for row in release.map_types.values() if row.ops is not None}
    slots = {name: text(f"(*{name})", prototype) for name, prototype in release.slots.items()}
    return FactsTable(release.version, types, slots, ops)


@pytest.mark.parametrize("name", TABLES)
def test_the_file_is_what_rows_and_neighbours_say_today(name: str, read: tuple[Release, ...]) -> None:
    """A change of the rows, or of a release that was extracted, without `extract --facts` afterwards is found here."""
    release = load_release(name)
    assert dump_release(convert(stated(release), read)) == dump_release(release)


def test_a_stale_file_is_found(read: tuple[Release, ...]) -> None:
    """A neighbour that was extracted again and has another fact now."""
    release = load_release("6.6")
    changed = [
        replace(one, percpu_insn=frozenset(), meta_equal={}, helper_ids={**one.helper_ids, "map_push_elem": 99})
        if one.name in ("6.1", "6.12")
        else one
        for one in read
    ]
    assert convert(stated(release), changed) != release
    assert convert(replace(stated(release), version="6.6.10"), read) != release


@pytest.mark.parametrize("name", TABLES)
def test_made_again_from_the_tables(name: str) -> None:
    place = os.environ.get("KERNEL_FACTS")
    if not place:
        pytest.skip("KERNEL_FACTS is not set: no tables of operations to read")
    file = Path(place) / f"ops-{load_release(name).version}.json"
    if not file.is_file():
        pytest.skip(f"{file} is not there")
    assert dump_release(convert(load_facts(file), extracted())) == dump_release(load_release(name))
