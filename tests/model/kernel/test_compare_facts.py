"""Differences of two releases, each planted by hand in a shipped one."""

from dataclasses import replace

import pytest

from model.kernel.compare_facts import differences
from model.kernel.data import load_release
from model.kernel.release import CType, MapType, OpsTable, Prototype, Release

INT = CType("int", 32, True)


@pytest.fixture(scope="module")
def base() -> Release:
    return load_release("6.12")


def with_slots(base: Release, table: str, **slots: str) -> Release:
    old = base.ops[table]
    new = OpsTable(old.symbol, {**old.slots, **slots}, old.file, old.line)
    return replace(base, ops={**base.ops, table: new})


def test_none(base: Release) -> None:
    assert differences(base, base) == ()


def test_a_swapped_slot(base: Release) -> None:
    wrong = with_slots(base, "queue_map_ops", map_pop_elem="stack_map_pop_elem")
    assert differences(wrong, base) == (
        "operation map_pop_elem of queue: stack_map_pop_elem, in 6.12 queue_map_pop_elem",
    )


def test_types_that_share_a_table_share_the_line(base: Release) -> None:
    wrong = with_slots(base, "cgroup_storage_map_ops", map_lookup_elem="other@file.c")
    assert differences(wrong, base) == (
        "operation map_lookup_elem of cgroup_storage, percpu_cgroup_storage: other, in 6.12 cgroup_storage_lookup_elem",
    )


def test_an_int_for_a_long(base: Release) -> None:
    slot, function = base.slots["map_update_elem"], base.functions["htab_map_update_elem"]
    wrong = replace(
        base,
        slots={**base.slots, "map_update_elem": Prototype(INT, slot.params)},
        functions={
            **base.functions,
            function.name: replace(function, prototype=Prototype(INT, function.prototype.params)),
        },
    )
    rest = "(struct bpf_map *, void *, void *, u64)"
    assert differences(wrong, base) == (
        f"slot map_update_elem: int {rest}, in 6.12 long {rest}",
        f"function htab_map_update_elem: int {rest}, in 6.12 long {rest}",
    )


def test_spelling_is_no_difference(base: Release) -> None:
    slot = base.slots["map_update_elem"]
    same = Prototype(CType("long int", 64, True), tuple(replace(kind, c=f"other {kind.c}") for kind in slot.params))
    assert differences(replace(base, slots={**base.slots, "map_update_elem": same}), base) == ()


def test_an_extra_type_a_renumbered_one_and_a_missing_one(base: Release) -> None:
    types = {**base.map_types, "wonder": MapType("wonder", 77, None), "hash": MapType("hash", 41, "htab_map_ops")}
    del types["queue"]
    assert differences(replace(base, map_types=types), base) == (
        "map type: not in 6.12: wonder",
        "map type: only in 6.12: queue",
        "map type hash: number 41, in 6.12 1",
    )


def test_numbers(base: Release) -> None:
    ids = {name: number for name, number in base.helper_ids.items() if name != "probe_read"} | {"map_pop_elem": 1}
    layout = {**base.layout, "struct htab_elem.key": 40}
    assert differences(replace(base, helper_ids=ids, layout=layout), base) == (
        "helper id: only in 6.12: probe_read",
        "helper id map_pop_elem: 1, in 6.12 88",
        "offset struct htab_elem.key: 40, in 6.12 48",
    )


def test_a_sequence_that_the_other_lacks(base: Release) -> None:
    wrong = with_slots(base, "htab_map_ops", map_gen_lookup="new_gen_lookup")
    assert differences(wrong, base)[-1] == (
        "lookup sequence of hash: new_gen_lookup is not in 6.12; nothing is claimed of it"
    )


def test_holes_are_no_differences(base: Release) -> None:
    wrong = with_slots(base, "queue_map_ops", map_pop_elem="stack_map_pop_elem")
    assert differences(replace(wrong, holes={"type:queue": "not read"}), base) == ()


def test_slots_that_a_table_does_not_list_are_no_differences(base: Release) -> None:
    """6.18 is from a table of a few slots; what it has and a kernel has not is told all the same."""
    table = load_release("6.18")
    slots = {"map_free": base.slots["map_free"], **table.slots}
    assert differences(replace(table, slots=slots), table) == ()
    del slots["map_meta_equal"]
    assert differences(replace(table, slots=slots), table) == ("slot: only in 6.18: map_meta_equal",)
    assert differences(replace(base, slots={**base.slots, "map_new": base.slots["map_free"]}), base) == (
        "slot: not in 6.12: map_new",
    )
