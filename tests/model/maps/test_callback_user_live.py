"""What a callback may do to the map during the walk: the machine, before and after, and the running kernel.

One bucket holds several of the keys, so that the next element is one of the same list. Live tests load, test-run and
free; they are skipped where bpf(2) is not permitted. BPF_F_ZERO_SEED makes the order of buckets determinate.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from map_programs import Case, Op, on_kernel, on_model, release, results, rewritten, text, visits
from map_sequences import few

from model.loaders import assembly
from model.loaders.live import Live, why_not
from model.program import Map, Program

ZERO_SEED = 64
HASHES = ("hash", "percpu_hash", "lru_hash", "lru_percpu_hash")
KEYS = (5, 6, 7, 2, 4, 1)
"""With 4 buckets and no seed: 5, 6, 7 and 2 are in bucket 2, 4 in bucket 1, 1 in bucket 3."""


@dataclass(frozen=True, slots=True)
class Rule:
    """At the element with the key `at`, the operation `name` on the key `key`."""

    at: int
    name: str
    key: int


def word(number: int) -> bytes:
    return number.to_bytes(4, "little")


def lines(rules: Sequence[Rule]) -> str:
    found = []
    for i, rule in enumerate(rules):
        found += ["r1 = *(u32 *)(r8 +0)", f"if r1 != {rule.at} goto skip{i}", f"*(u32 *)(r10 -8) = {rule.key}"]
        found += ["*(u32 *)(r10 -16) = 99", "r1 = r6", "r2 = r10", "r2 += -8"]
        if rule.name == "update":
            found += ["r3 = r10", "r3 += -16", "r4 = 0"]
        found += [f"call map_{rule.name}_elem", f"skip{i}:"]
    return "\n".join(found)


def walk(kind: str, keys: Sequence[int], rules: Sequence[Rule], name: str) -> tuple[Case, Program]:
    """The map with `keys`, newest last; the walk, which ends after 20 callbacks; then a lookup of every key."""
    map_ = Map("m", kind, 4, 4, 4, 1 if kind == "rhash" else ZERO_SEED)
    ops = [Op("update", word(key), word(key)) for key in keys]
    after = (Op("lookup", word(key)) for key in KEYS)
    case = Case(map_, (*ops, Op("for_each"), *after), stop_after=20, inside="delete")
    made = text(case).replace("r1 = r6\nr2 = r8\ncall map_delete_elem", lines(rules))
    return case, assembly.load(made, "walk", release(name).helper_ids).programs[0]


def seen(kind: str, keys: Sequence[int], *rules: Rule, name: str = "6.12") -> tuple[list[int], list[int]]:
    """The keys that are visited, and those that are there behind the walk: the same before and after the rewrite."""
    case, before = walk(kind, keys, rules, name)
    one, two = on_model(before, name), on_model(rewritten(before, name), name)
    assert one == two
    found = results(case, one)
    there = [key for key, (result, _) in zip(KEYS, found[-len(KEYS) :], strict=True) if result]
    order = [int.from_bytes(key, "little") for key, _ in visits(case, one)]
    assert found[len(keys)][0] == len(order)
    return order, there


# What the callback does at element 7 of a map with 5, 6 and 7 in one list (7 is walked first, then 6, then 5): the keys
# visited, and those left. Read in bpf_for_each_hash_elem of 6.1, 6.12 and 7.3; the running 6.18 does the same (below).
DURING: dict[str, tuple[tuple[Rule, ...], list[int], list[int]]] = {
    "nothing": ((), [7, 6, 5], [5, 6, 7]),
    "delete the current one": ((Rule(7, "delete", 7),), [7, 6, 5], [5, 6]),
    "each deletes itself": (tuple(Rule(key, "delete", key) for key in (5, 6, 7)), [7, 6, 5], []),
    "delete the next one: visited all the same": ((Rule(7, "delete", 6),), [7, 6, 5], [5, 7]),
    "delete the one behind the next": ((Rule(7, "delete", 5),), [7, 6], [6, 7]),
    "delete one that was visited": ((Rule(6, "delete", 7),), [7, 6, 5], [5, 6]),
    "delete the next, then the one behind": ((Rule(7, "delete", 6), Rule(7, "delete", 5)), [7, 6, 5], [7]),
    "delete the one behind, then the next": ((Rule(7, "delete", 5), Rule(7, "delete", 6)), [7, 6], [7]),
    "update the current one": ((Rule(7, "update", 7),), [7, 6, 5], [5, 6, 7]),
    "update the next one": ((Rule(7, "update", 6),), [7, 6, 5], [5, 6, 7]),
    "a new one in this list: too late": ((Rule(7, "update", 2),), [7, 6, 5], [5, 6, 7, 2]),
    "a new one in a list before: too late": ((Rule(7, "update", 4),), [7, 6, 5], [5, 6, 7, 4]),
    "a new one in a list behind: visited": ((Rule(7, "update", 1),), [7, 6, 5, 1], [5, 6, 7, 1]),
}


# More callbacks than max_entries (4): keys, what the callback does, the keys visited, those left. Of a full map whose
# newest, 2, is deleted for 1 in a list behind; and of one list 7, 6, where each callback deletes the next element and
# inserts it again: the memory that was freed last is in front of this element then. Only the program
# ends that walk.
ENDLESS = (Rule(7, "delete", 6), Rule(7, "update", 6), Rule(6, "delete", 7), Rule(6, "update", 7))
LONGER: dict[str, tuple[tuple[int, ...], tuple[Rule, ...], list[int], list[int]]] = {
    "one moved": ((5, 6, 7, 2), (Rule(2, "delete", 2), Rule(2, "update", 1)), [2, 7, 6, 5, 1], [5, 6, 7, 1]),
    "endless": ((6, 7), ENDLESS, [7, 6] * 10, [6, 7]),
}


@pytest.mark.parametrize("what", LONGER)
@pytest.mark.parametrize("name", ["6.1", "6.12", "7.3"])
@pytest.mark.parametrize("kind", ["hash", "percpu_hash"])
def test_a_hash_may_have_more_callbacks_than_entries(kind: str, name: str, what: str) -> None:
    keys, rules, order, there = LONGER[what]
    assert len(order) > 4
    assert seen(kind, keys, *rules, name=name) == (order, there)


@pytest.mark.parametrize("what", DURING)
@pytest.mark.parametrize("name", ["6.1", "6.12", "7.3"])
@pytest.mark.parametrize("kind", ["hash", "percpu_hash"])
def test_during_the_walk_of_a_hash(kind: str, name: str, what: str) -> None:
    rules, order, there = DURING[what]
    assert seen(kind, (5, 6, 7), *rules, name=name) == (order, there)


@pytest.mark.parametrize(
    "what", [what for what, (rules, *_) in DURING.items() if all(r.name == "delete" for r in rules)]
)
@pytest.mark.parametrize("kind", ["lru_hash", "lru_percpu_hash"])
def test_deletes_during_the_walk_of_an_lru_hash(kind: str, what: str) -> None:
    rules, order, there = DURING[what]
    assert seen(kind, (5, 6, 7), *rules) == (order, there)


def test_an_rhash_goes_on_by_the_key_of_the_element() -> None:
    """bpf_each_rhash_elem (7.3): the walk ends with an element that is deleted; one that is gone is not visited."""
    assert seen("rhash", (5, 6, 7), Rule(7, "delete", 7), name="7.3") == ([7], [5, 6])
    assert seen("rhash", (5, 6, 7), Rule(7, "delete", 6), name="7.3") == ([7, 5], [5, 7])
    assert seen("rhash", (5, 6, 7), Rule(7, "update", 6), name="7.3") == ([7, 6, 5], [5, 6, 7])
    assert seen("rhash", (5, 6, 7), Rule(6, "delete", 7), name="7.3") == ([7, 6, 5], [5, 6])


def test_an_lru_walk_on_an_element_that_was_taken_and_given_back() -> None:
    """prealloc_lru_pop (6.12): the key is written before the old element is found; seen in the running 6.18 as well."""
    order, _ = seen("lru_percpu_hash", (5, 2, 7), Rule(7, "update", 6), Rule(2, "update", 5))
    assert order[:2] == [7, 2]
    assert order[5] == 6


@pytest.fixture(scope="module")
def one_cpu() -> Iterator[int]:
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    if tuple(int(part) for part in os.uname().release.split(".")[:2]) < (6, 12):
        pytest.skip(f"kernel {os.uname().release} is older than the rows that it is compared with")
    before = os.sched_getaffinity(0)
    cpu = min(before)
    os.sched_setaffinity(0, {cpu})
    yield cpu
    os.sched_setaffinity(0, before)


def agree(kind: str, keys: Sequence[int], rules: Sequence[Rule], cpu: int) -> None:
    """The machine, before and after, leaves what the running kernel leaves."""
    case, made = walk(kind, keys, rules, "running")
    types = {name: entry.number for name, entry in release("running").map_types.items()}
    with Live() as live:
        kernel = on_kernel(live, made, types)
    for side in (made, rewritten(made, "running")):
        model = on_model(side, "running", cpus=possible_cpus(), cpu=cpu)
        assert visits(case, model) == visits(case, kernel)
        assert results(case, model) == results(case, kernel)


def possible_cpus() -> int:
    last = Path("/sys/devices/system/cpu/possible").read_text(encoding="ascii").strip().split("-")[-1]
    return int(last.split(",")[-1]) + 1


@pytest.mark.live
@pytest.mark.parametrize("what", DURING)
@pytest.mark.parametrize("kind", HASHES)
def test_the_running_kernel_does_the_same(kind: str, what: str, one_cpu: int) -> None:
    agree(kind, (5, 6, 7), DURING[what][0], one_cpu)


@pytest.mark.live
@pytest.mark.parametrize("what", LONGER)
@pytest.mark.parametrize("kind", HASHES)
def test_the_running_kernel_makes_as_many(kind: str, what: str, one_cpu: int) -> None:
    keys, rules, order, _ = LONGER[what]
    case, made = walk(kind, keys, rules, "running")
    types = {name: entry.number for name, entry in release("running").map_types.items()}
    with Live() as live:
        kernel = on_kernel(live, made, types)
    assert [int.from_bytes(key, "little") for key, _ in visits(case, kernel)] == order
    agree(kind, keys, rules, one_cpu)


@pytest.mark.live
@pytest.mark.parametrize("kind", ["lru_hash", "lru_percpu_hash"])
def test_an_element_that_an_update_took_and_gave_back_has_its_key(kind: str, one_cpu: int) -> None:
    """The full map gives up the element that is walked, whose memory then has another key."""
    agree(kind, (5, 2, 7), (Rule(7, "update", 6), Rule(2, "update", 5)), one_cpu)


RULES = st.lists(
    st.builds(Rule, st.sampled_from(KEYS), st.sampled_from(("delete", "update")), st.sampled_from(KEYS)), max_size=4
)


@pytest.mark.live
@pytest.mark.parametrize("kind", HASHES)
@settings(max_examples=few(8))
@given(keys=st.lists(st.sampled_from(KEYS), min_size=2, max_size=4, unique=True), rules=RULES)
def test_the_running_kernel_agrees_on_any(kind: str, keys: list[int], rules: list[Rule], one_cpu: int) -> None:
    agree(kind, keys, rules, one_cpu)
