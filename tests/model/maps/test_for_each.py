"""Walks, run by the machine around a program's own callback: before and after the rewrite."""

import pytest
from map_programs import Case, Op, on_model, program, results, rewritten, visits

from model.program import Map

KEYS = [number.to_bytes(4, "little") for number in range(8)]
VALUES = [bytes([16 + number, 0, 0, 0]) for number in range(8)]
WALK = Op("for_each")
KINDS = {
    "array": Map("m", "array", 4, 4, 3, 0),
    "percpu_array": Map("m", "percpu_array", 4, 4, 3, 0),
    "hash": Map("m", "hash", 4, 4, 8, 64),
    "percpu_hash": Map("m", "percpu_hash", 4, 4, 8, 64),
    "lru_hash": Map("m", "lru_hash", 4, 4, 64, 64),
    "lru_percpu_hash": Map("m", "lru_percpu_hash", 4, 4, 64, 64),
    "rhash": Map("m", "rhash", 4, 4, 8, 1),
}


def filled(kind: str, count: int = 3) -> tuple[Op, ...]:
    return tuple(Op("update", KEYS[i], VALUES[i]) for i in range(count))


def both(case: Case, name: str) -> tuple[list[tuple[int, bytes]], list[tuple[bytes, bytes]]]:
    """Results and visits, which the rewritten program must have too."""
    made = program(case, name)
    before, after = on_model(made, name), on_model(rewritten(made, name), name)
    assert results(case, before) == results(case, after)
    assert visits(case, before) == visits(case, after)
    return results(case, before), visits(case, before)


def release_of(kind: str) -> str:
    return "7.3" if kind == "rhash" else "6.12"


@pytest.mark.parametrize("kind", KINDS)
def test_each_element_once(kind: str) -> None:
    found, seen = both(Case(KINDS[kind], (*filled(kind), WALK)), release_of(kind))
    assert found[-1][0] == 3
    assert sorted(seen) == sorted(zip(KEYS[:3], VALUES[:3], strict=True))
    if "array" in kind:
        assert [key for key, _ in seen] == KEYS[:3]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("after", [1, 2, 3])
def test_a_result_other_than_0_ends_the_walk(kind: str, after: int) -> None:
    found, seen = both(Case(KINDS[kind], (*filled(kind), WALK), stop_after=after), release_of(kind))
    assert found[-1][0] == after == len(seen)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("flags", [1, 1 << 30])
def test_flags_are_refused(kind: str, flags: int) -> None:
    found, seen = both(Case(KINDS[kind], (*filled(kind), Op("for_each", flags=flags))), release_of(kind))
    assert found[-1][0] == -22
    assert seen == []


def test_arrays_are_walked_to_the_end_hashes_as_far_as_they_are_filled() -> None:
    for kind, expected in (("array", 3), ("percpu_array", 3), ("hash", 0), ("lru_hash", 0), ("rhash", 0)):
        assert both(Case(KINDS[kind], (WALK,)), release_of(kind))[0] == [(expected, bytes(4))]


@pytest.mark.parametrize("kind", ["hash", "percpu_hash", "lru_hash", "lru_percpu_hash"])
def test_deleting_the_current_element_goes_on(kind: str) -> None:
    ops = (*filled(kind, 6), WALK, *(Op("lookup", key) for key in KEYS[:6]))
    found, seen = both(Case(KINDS[kind], ops, inside="delete"), "6.12")
    assert found[6][0] == 6
    assert sorted(seen) == sorted(zip(KEYS[:6], VALUES[:6], strict=True))
    assert [result for result, _ in found[7:]] == [0] * 6


def test_deleting_the_current_element_ends_the_walk_of_an_rhash() -> None:
    found, seen = both(Case(KINDS["rhash"], (*filled("rhash"), WALK), inside="delete"), "7.3")
    assert found[-1][0] == 1 == len(seen)


def test_the_order_of_buckets_without_a_seed() -> None:
    """Keys 0 to 5 in 8 buckets with a seed of 0, as the running 6.18 walks them."""
    _, seen = both(Case(KINDS["hash"], (*filled("hash", 6), WALK)), "6.12")
    assert [key[0] for key, _ in seen] == [0, 4, 2, 1, 5, 3]


def test_6_1_walks_as_well() -> None:
    found, seen = both(Case(KINDS["hash"], (*filled("hash"), WALK)), "6.1")
    assert found[-1][0] == 3 == len(seen)
