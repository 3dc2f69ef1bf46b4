"""Sequences of operations, generated: the model's machine and the running kernel must leave the same bytes.

Each program is loaded, test-run and freed; nothing is attached. Skipped where bpf(2) is not permitted. Hashes have
BPF_F_ZERO_SEED here, so that the order of buckets, and bloom filters' false positives, are compared too.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from map_programs import Case, Op, on_kernel, on_model, program, release, results, rewritten, visits

from model.loaders.live import Live, why_not
from model.program import Map

pytestmark = pytest.mark.live
MODELLED = "6.12"
"""The release whose rows the running kernel (6.12 to 6.18) must agree with."""
ZERO_SEED, NO_PREALLOC = 64, 1
ANY_FLAGS = (0, 0, 0, 1, 2, 3, 4, 5, 8, 1 << 16)


@pytest.fixture(scope="module", autouse=True)
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


def possible_cpus() -> int:
    last = Path("/sys/devices/system/cpu/possible").read_text(encoding="ascii").strip().split("-")[-1]
    return int(last.split(",")[-1]) + 1


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    map: Map
    ops: tuple[str, ...]
    keys: tuple[bytes, ...] = (b"",)
    flags: tuple[int, ...] = ANY_FLAGS
    inside: tuple[str, ...] = ("", "delete")
    longest: int = 14


def words(size: int, *numbers: int) -> tuple[bytes, ...]:
    return tuple(number.to_bytes(size, "little") for number in numbers)


def prefixes(*texts: str) -> tuple[bytes, ...]:
    found = []
    for text in texts:
        address, _, length = text.partition("/")
        found.append(int(length).to_bytes(4, "little") + bytes(int(part) for part in address.split(".")))
    return tuple(found)


READ = ("lookup", "poke", "keep", "again")
HASH = ("update", "update", "update", "delete", *READ, "for_each")
PERCPU = (*HASH, "lookup_percpu")
LPM = prefixes(
    *("0.0.0.0/0", "10.0.0.0/8", "10.1.0.0/16", "10.1.2.0/24", "10.1.2.3/32", "10.1.2.4/32", "10.128.0.0/9"),
    *("11.0.0.0/8", "10.1.2.3/33", "255.255.255.255/31", "10.1.2.3/20", "10.1.2.3/0"),
)
ROWS = (
    Row("array", Map("m", "array", 4, 8, 3, 0), ("update", "update", "delete", *READ, "for_each"), words(4, 0, 1, 2, 3, 9)),
    Row("array, odd size", Map("m", "array", 4, 5, 2, 0), ("update", *READ), words(4, 0, 1, 2, 1 << 31)),
    Row("percpu_array", Map("m", "percpu_array", 4, 12, 3, 0), ("update", "delete", *READ, "lookup_percpu", "for_each"), words(4, 0, 1, 2, 3)),
    Row("hash", Map("m", "hash", 4, 8, 4, ZERO_SEED), HASH, words(4, *range(6))),
    Row("hash, odd sizes", Map("m", "hash", 5, 3, 5, ZERO_SEED), HASH, words(5, *range(7))),
    Row("hash, long key", Map("m", "hash", 16, 24, 3, ZERO_SEED), HASH, words(16, *range(5))),
    Row("hash, allocated", Map("m", "hash", 8, 8, 4, ZERO_SEED | NO_PREALLOC), HASH, words(8, *range(6)), inside=("",)),
    Row("percpu_hash", Map("m", "percpu_hash", 4, 8, 4, ZERO_SEED), PERCPU, words(4, *range(6))),
    Row("lru_hash", Map("m", "lru_hash", 4, 8, 8, ZERO_SEED), HASH, words(4, *range(12)), longest=30),
    Row("lru_hash, one", Map("m", "lru_hash", 4, 8, 1, ZERO_SEED), HASH, words(4, *range(3)), longest=30),
    Row("lru_percpu_hash", Map("m", "lru_percpu_hash", 4, 8, 8, ZERO_SEED), PERCPU, words(4, *range(12)), longest=30),
    Row("queue", Map("m", "queue", 0, 8, 3, 0), ("push", "push", "push", "pop", "peek"), longest=20),
    Row("stack", Map("m", "stack", 0, 12, 3, 0), ("push", "push", "push", "pop", "peek"), longest=20),
    Row("bloom_filter", Map("m", "bloom_filter", 0, 4, 9, ZERO_SEED), ("push", "peek", "peek"), flags=(0, 0, 0, 1, 2), longest=30),
    Row("bloom_filter, odd size", Map("m", "bloom_filter", 0, 7, 100, ZERO_SEED), ("push", "peek"), flags=(0,), longest=30),
    Row("lpm_trie", Map("m", "lpm_trie", 8, 8, 4, NO_PREALLOC), ("update", "update", "delete", *READ), LPM, longest=20),
)  # fmt: skip


@st.composite
def cases(draw: st.DrawFn, row: Row) -> Case:
    size = row.map.value_size or 0
    ops: list[Op] = []
    kept = walked = False
    for _ in range(draw(st.integers(1, row.longest))):
        name = draw(st.sampled_from(row.ops))
        if (name == "keep" and kept) or (name == "again" and not kept) or (name == "for_each" and walked):
            name = row.ops[0]
        kept, walked = kept or name == "keep", walked or name == "for_each"
        value = bytes([draw(st.integers(0, 5 if row.map.type == "bloom_filter" else 255)), *range(1, size)])
        flags = draw(st.sampled_from(row.flags))
        if name == "for_each":
            flags = draw(st.sampled_from((0, 0, 0, 1, 1 << 30)))
        ops.append(Op(name, draw(st.sampled_from(row.keys)), value, flags))
    if "lookup" in row.ops:
        ops += [Op("lookup", key) for key in row.keys]
    return Case(row.map, tuple(ops), draw(st.sampled_from((0, 0, 1, 2))), draw(st.sampled_from(row.inside)))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
@settings(max_examples=40)
@given(data=st.data())
def test_operations(row: Row, data: st.DataObject) -> None:
    case = data.draw(cases(row))
    types = {name: entry.number for name, entry in release(MODELLED).map_types.items()}
    made = program(case, MODELLED)
    with Live() as live:
        kernel = on_kernel(live, made, types)
    cpu = min(os.sched_getaffinity(0))
    for side in (made, rewritten(made, MODELLED)):
        model = on_model(side, MODELLED, cpus=possible_cpus(), cpu=cpu)
        assert list(zip(case.ops, results(case, model), strict=True)) == list(
            zip(case.ops, results(case, kernel), strict=True)
        )
        assert visits(case, model) == visits(case, kernel)
        assert model == kernel
