"""One program on the machine before the rewrite and after: the same, but for what Dispatch refutes."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from map_programs import ROW, VISITS, Case, Op, on_model, program, release, results, rewritten
from map_sequences import ROWS, Row, cases, few

from model.facts import analyse
from model.machine.machine import Machine
from model.machine.maps_kernel import MapsKernel
from model.machine.outcome import Fault, Outcome, Returned
from model.machine.regions import Regions
from model.program import Map, Program, SymbolRef
from model.rewrite.config import Config
from model.rewrite.direct_call import Kind
from model.rewrite.passes import rewrite

EXPECTED = {
    "array": {"array_map_update_elem", "array_map_delete_elem", "bpf_for_each_array_elem"},
    "hash": {"htab_map_update_elem", "htab_map_delete_elem", "bpf_for_each_hash_elem", "__htab_map_lookup_elem"},
    "percpu_array": {"percpu_array_map_lookup_percpu_elem", "bpf_for_each_array_elem"},
    "queue": {"queue_stack_map_push_elem", "queue_map_pop_elem", "queue_map_peek_elem"},
}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
@pytest.mark.parametrize("name", ["6.12", "7.3"])
@settings(max_examples=few(3))
@given(data=st.data())
def test_long_results_are_the_same(name: str, row: Row, data: st.DataObject) -> None:
    made = program(data.draw(cases(row)), name)
    assert on_model(made, name) == on_model(rewritten(made, name), name)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
@settings(max_examples=few(3))
@given(data=st.data())
def test_int_results_differ_where_they_are_negative(row: Row, data: st.DataObject) -> None:
    """On 6.1 the operations return int: a direct call's -17 is 0x00000000ffffffef, the helper's 0xffffffffffffffef."""
    case = data.draw(cases(row))
    made = program(case, "6.1")
    before, after = on_model(made, "6.1"), on_model(rewritten(made, "6.1"), "6.1")
    found = zip(case.ops, results(case, before), results(case, after), strict=True)
    for op, (result, value), (direct, direct_value) in found:
        assert direct == (result & 0xFFFFFFFF if result < 0 else result), op
        assert direct_value == value
    assert before[: ROW * VISITS] == after[: ROW * VISITS]


@pytest.mark.parametrize("kind", EXPECTED)
def test_calls_are_direct(kind: str) -> None:
    row = next(row for row in ROWS if row.name == kind)
    ops = tuple(Op(name, row.keys[0], bytes(row.map.value_size or 0)) for name in dict.fromkeys(row.ops))
    made = rewritten(program(Case(row.map, ops)), "6.12")
    called = {ref.name for ref in made.refs.values() if isinstance(ref, SymbolRef)}
    assert called >= EXPECTED[kind]
    assert not {name for name in called if name.startswith("bpf_map_")}


def test_an_error_by_hand() -> None:
    hash_ = Map("m", "hash", 4, 4, 1, 0)
    key = bytes(4)
    case = Case(hash_, (Op("update", key, b"aaaa"), Op("update", key, b"aaaa", 1), Op("delete", b"\1\0\0\0")))
    for name, expected in (("6.1", [0, 0xFFFFFFEF, 0xFFFFFFFE]), ("6.12", [0, -17, -2])):
        made = program(case, name)
        assert [result for result, _ in results(case, on_model(made, name))] == [0, -17, -2]
        assert [result for result, _ in results(case, on_model(rewritten(made, name), name))] == expected


def test_a_wrong_callee_shows() -> None:
    """The machine follows the name that is called, not the map's type: a stack's pop given the queue's operation."""
    ops = (Op("push", value=b"aaaa"), Op("push", value=b"bbbb"), Op("pop"))
    case = Case(Map("m", "stack", 0, 4, 3, 0), ops)
    made = rewritten(program(case), "6.12")
    refs = {slot: SymbolRef("queue_map_pop_elem") if ref == SymbolRef("stack_map_pop_elem") else ref
            for slot, ref in made.refs.items()}  # fmt: skip
    right, wrong = on_model(made, "6.12"), on_model(replace(made, refs=refs), "6.12")
    assert results(case, right)[-1] == (0, b"bbbb")
    assert results(case, wrong)[-1] == (0, b"aaaa")


def outcome_of(made: Program) -> Outcome:
    memory = Regions()
    return Machine(MapsKernel(memory, release("6.12")), memory).run(made, 0)


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        ("hash", "array_map_update_elem"),
        ("hash", "htab_lru_map_update_elem"),
        ("lru_hash", "htab_map_update_elem"),
        ("array", "htab_map_update_elem"),
        ("array", "trie_update_elem"),
    ],
)
def test_an_operation_of_another_type_is_a_fault(kind: str, wrong: str) -> None:
    right = {"hash": "htab_map_update_elem", "lru_hash": "htab_lru_map_update_elem", "array": "array_map_update_elem"}
    made = rewritten(program(Case(Map("m", kind, 4, 4, 4, 0), (Op("update", bytes(4), b"aaaa"),))), "6.12")
    refs = {slot: SymbolRef(wrong) if ref == SymbolRef(right[kind]) else ref for slot, ref in made.refs.items()}
    assert isinstance(outcome_of(made), Returned)
    outcome = outcome_of(replace(made, refs=refs))
    assert isinstance(outcome, Fault)
    assert f"{wrong} takes m, of type {kind}, for a map of its own type" in outcome.reason


def test_a_helper_that_the_table_does_not_have_is_a_fault() -> None:
    outcome = outcome_of(program(Case(Map("m", "hash", 4, 4, 1, 0), (Op("push", value=b"aaaa"),))))
    assert isinstance(outcome, Fault)
    assert "maps of type hash have no map_push_elem" in outcome.reason


def test_every_call_of_the_programs_is_decided() -> None:
    for row in ROWS:
        ops = tuple(Op(name, row.keys[0], bytes(row.map.value_size or 0)) for name in dict.fromkeys(row.ops))
        made = program(Case(row.map, ops))
        kernel = release("6.12")
        decisions = rewrite(made, analyse(made, kernel), kernel, Config()).decisions
        assert {decision.kind for decision in decisions} <= {Kind.DIRECT, Kind.INLINED}
