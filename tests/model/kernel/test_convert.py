"""A release from a table of operations: what is stated, what is taken over, what stays open."""

import copy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from facts_mini import table, write

from model.errors import InputError
from model.kernel.convert import convert, extracted
from model.kernel.data import dump_release, load_release, read_release
from model.kernel.facts_table import load_facts
from model.kernel.release import Acceptance, Release

Change = Callable[[dict[str, Any]], object]


@pytest.fixture(scope="module")
def read() -> tuple[Release, ...]:
    return extracted()


def made(tmp_path: Path, read: tuple[Release, ...], facts: dict[str, Any]) -> Release:
    return convert(load_facts(write(tmp_path / "facts.json", facts)), read)


def test_what_the_table_states(tmp_path: Path, read: tuple[Release, ...]) -> None:
    release = made(tmp_path, read, table())
    assert (release.name, release.version) == ("6.5", "6.5.1")
    assert {name: (row.number, row.ops) for name, row in release.map_types.items()} == {
        "hash": (1, "htab_map_ops"),
        "queue": (22, "queue_map_ops"),
    }
    assert release.ops["queue_map_ops"].slots == {"map_pop_elem": "queue_map_pop_elem"}
    update = release.functions["htab_map_update_elem"]
    assert (update.file, update.line, update.prototype.result.c) == ("kernel/bpf/hashtab.c", 60, "long")
    assert [kind.bits for kind in update.prototype.params] == [64, 64, 64, 64]
    assert release.slots["map_for_each_callback"].params[1].pointer
    assert release.provenance["ops"] == {"independent table for 6.5.1": ()}


def test_what_is_alike_before_and_behind(tmp_path: Path, read: tuple[Release, ...]) -> None:
    release = made(tmp_path, read, table())
    assert list(release.helpers) == ["map_lookup_elem", "map_update_elem", "map_pop_elem", "for_each_map_elem"]
    assert release.helpers["map_update_elem"].line == 0
    assert release.provenance["helpers"]["the same in 6.1.192 and 6.12.117"] == tuple(release.helpers)
    lookup = release.gen_lookup["htab_map_gen_lookup"]
    assert (lookup.file, lookup.line) == ("kernel/bpf/hashtab.c", 80)
    assert release.layout["struct htab_elem.key"] == 48
    assert [(row.helper, row.prototype.result.c) for row in release.rewrites if row.prototype] == [
        ("map_lookup_elem", "void *"),
        ("map_update_elem", "long"),
        ("map_pop_elem", "long"),
        ("for_each_map_elem", "long"),
    ]
    assert (release.insn_buf, release.poison_for_each) == (16, "refused")
    assert {(kind, name) for name, t in release.accepted.items() for kind, row in t.items() if row.accepted} == {
        ("hash", "map_lookup_elem"),
        ("hash", "map_update_elem"),
        ("hash", "for_each_map_elem"),
        ("queue", "map_pop_elem"),
    }
    # The helpers whose slots the table does not have, and the accepted walk that its hash has no operation for.
    assert {key for key in release.holes if key.startswith("helper:")} == {
        f"helper:{name}"
        for name in ("map_delete_elem", "map_push_elem", "map_peek_elem", "redirect_map", "map_lookup_percpu_elem")
    }
    assert "accepted:hash/for_each_map_elem" in release.holes


def test_a_difference_between_the_neighbours_is_not_taken_over(tmp_path: Path, read: tuple[Release, ...]) -> None:
    """htab_map_lookup_elem's C is another in 6.12 (htab_elem_value) than in 6.1."""
    release = made(tmp_path, read, table())
    assert "htab_map_lookup_elem" not in release.bodies
    assert "__htab_map_lookup_elem" in release.bodies


def test_a_body_whose_callee_differs_is_not_taken_over(tmp_path: Path, read: tuple[Release, ...]) -> None:
    body = read[2].bodies["__htab_map_lookup_elem"]
    other = replace(read[2], bodies={**read[2].bodies, body.function: replace(body, params=())})
    release = made(tmp_path, (*read[:2], other, read[3]), table())
    assert "__htab_map_lookup_elem" not in release.bodies
    assert "htab_of_map_lookup_elem" not in release.bodies  # alike itself, but it calls the other


def test_a_planted_disagreement_is_a_hole(tmp_path: Path, read: tuple[Release, ...]) -> None:
    """The row says accepted, one neighbour says no: nobody is believed."""
    pairs = {**read[2].accepted["map_update_elem"], "hash": Acceptance(False, "", "planted")}
    other = replace(read[2], accepted={**read[2].accepted, "map_update_elem": pairs})
    release = made(tmp_path, (*read[:2], other, read[3]), table())
    assert "not alike in 6.1.192 and 6.12.117" in release.acceptance_hole("map_update_elem", "hash")


def test_int_where_the_rows_say_long_is_a_hole(tmp_path: Path, read: tuple[Release, ...]) -> None:
    release = made(tmp_path, read, table(word="int"))
    assert "but the table's map_update_elem returns int" in release.rewrite_hole("map_update_elem")
    assert release.rewrite_hole("map_lookup_elem") == ""


def test_a_row_decides_where_the_neighbours_differ(tmp_path: Path, read: tuple[Release, ...]) -> None:
    facts = table()
    facts["slot_prototypes"]["map_redirect"] = "long (*map_redirect)(struct bpf_map *map, u64 key, u64 flags);"
    release = made(tmp_path, read, facts)
    assert [kind.c for kind in release.helpers["redirect_map"].params] == ["struct bpf_map *", "u64", "u64"]
    source = next(text for text, keys in release.provenance["helpers"].items() if keys == ("redirect_map",))
    assert source.startswith("row helper/redirect_map: struct bpf_map *, u64, u64, since 6.2, 32637e33003f")
    assert source.endswith("the body as in 6.12.117")


def test_before_all_that_was_read(tmp_path: Path, read: tuple[Release, ...]) -> None:
    release = made(tmp_path, read, table("4.19.1", "int"))
    assert list(release.helpers) == ["map_lookup_elem", "map_update_elem"]
    assert release.gen_lookup == {}
    assert release.layout == {}
    assert release.helper_ids["tail_call"] == 12
    assert "map_push_elem" not in release.helper_ids
    assert max(release.helper_ids.values()) < 87


def test_a_type_nobody_knows_and_a_prototype_nobody_can_read(tmp_path: Path, read: tuple[Release, ...]) -> None:
    facts = table()
    facts["map_types"]["BPF_MAP_TYPE_CRATE"] = "queue_map_ops"
    facts["ops"]["htab_map_ops"]["slots"]["map_update_elem"]["proto"] = "long htab_map_update_elem(crate_t x)"
    facts["ops"]["htab_map_ops"]["slots"]["map_lookup_elem"]["proto"] = "void *another(struct bpf_map *map, void *key)"
    facts["slot_prototypes"]["map_pop_elem"] = "crate_t (*map_pop_elem)(struct bpf_map *map);"
    release = made(tmp_path, read, facts)
    assert "its number is in no release" in release.type_hole("crate")
    assert "crate" in release.lost("type")
    assert "htab_map_update_elem" not in release.functions
    assert "htab_map_lookup_elem" not in release.functions
    assert "crate_t" in release.holes["slot:map_pop_elem"]
    assert any("a type of unknown width: crate_t" in line for line in release.unread)


@pytest.mark.parametrize("version", ["8.0.1", "7.4", "six", "6", ""])
def test_a_version_out_of_reach(tmp_path: Path, read: tuple[Release, ...], version: str) -> None:
    with pytest.raises(InputError):
        made(tmp_path, read, table(version))


FAULTS: tuple[tuple[Change, str], ...] = (
    (lambda t: t.pop("ops"), "'ops'"),
    (lambda t: t.update(more=1), "$.more"),
    (lambda t: t.update(kernel=7), "$.kernel"),
    (lambda t: t["map_types"].update(BPF_MAP_TYPE_HASH="nothing"), "$.map_types.BPF_MAP_TYPE_HASH"),
    (lambda t: t["map_types"].update(hash="htab_map_ops"), "$.map_types.hash"),
    (lambda t: t["slot_prototypes"].update(map_pop_elem=None), "$.slot_prototypes.map_pop_elem"),
    (lambda t: t["slot_prototypes"].pop("map_pop_elem"), "$.ops.queue_map_ops.slots.map_pop_elem"),
    (lambda t: t["ops"]["htab_map_ops"].update(line=0), "$.ops.htab_map_ops.line"),
    (lambda t: t["ops"]["htab_map_ops"]["slots"].update(map_pop_elem=[]), "$.ops.htab_map_ops.slots.map_pop_elem"),
    (lambda t: t["ops"]["htab_map_ops"]["slots"]["map_lookup_elem"].pop("proto"), "'proto'"),
)


@pytest.mark.parametrize(("change", "place"), FAULTS, ids=[row[1] for row in FAULTS])
def test_a_fault_in_the_table_is_named_with_its_path(tmp_path: Path, change: Change, place: str) -> None:
    facts = copy.deepcopy(table())
    change(facts)
    with pytest.raises(InputError) as caught:
        load_facts(write(tmp_path / "facts.json", facts))
    assert place in str(caught.value)


def test_the_text_is_stable(tmp_path: Path, read: tuple[Release, ...]) -> None:
    release = made(tmp_path, read, table())
    text = dump_release(release)
    assert read_release(text, "x") == release
    assert dump_release(made(tmp_path, read, table())) == text


def test_the_neighbours_are_those_from_trees(read: tuple[Release, ...]) -> None:
    assert [release.name for release in read] == ["5.10", "6.1", "6.12", "7.3"]
    assert load_release("6.6").provenance
