"""Sequences of operations, generated: the model's machine and the running kernel must leave the same bytes.

Each program is loaded, test-run and freed; nothing is attached. Skipped where bpf(2) is not permitted. Hashes have
BPF_F_ZERO_SEED here, so that the order of buckets, and bloom filters' false positives, are compared too.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from map_programs import loaded, on_kernel, on_model, program, release, results, rewritten, visits
from map_sequences import ROWS, ZERO_SEED, Row, cases, few

from model.loaders import assembly
from model.loaders.live import Live, ProgramType, Refused, why_not
from model.machine.machine import Machine
from model.machine.maps_kernel import MapsKernel
from model.machine.outcome import Returned
from model.machine.regions import Regions
from model.maps.create import refusal
from model.maps.state import Shape

pytestmark = pytest.mark.live
MODELLED = "running"


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


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
@settings(max_examples=few(6))
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


CREATED = [
    *(("array", 4, 4, 1, 0), ("array", 8, 4, 1, 0), ("array", 4, 0, 1, 0), ("array", 4, 4, 0, 0)),
    *(("array", 4, 1 << 31, 1, 0), ("percpu_array", 4, 32769, 1, 0), ("percpu_array", 4, 8, 1, 1 << 12)),
    *(("hash", 0, 4, 1, 0), ("hash", 4, 4 << 20, 1, 0), ("hash", 4, 4, 1, 2), ("hash", 4, 4, (1 << 27) + 1, 1)),
    *(("percpu_hash", 4, 32768, 1, 1), ("percpu_hash", 4, 32769, 1, 1), ("lru_hash", 4, 4, 1, 1)),
    *(("queue", 4, 4, 1, 0), ("queue", 0, 0, 1, 0), ("stack", 0, 4, 7, 0)),
    *(("queue", 0, 4 << 20, 1, 0), ("queue", 0, (4 << 20) + 1, 1, 0)),
    *(("hash", 1, 1, 1, 1), ("hash", 4, (4 << 20) - 53, 1, 1), ("hash", 4, (4 << 20) - 52, 1, 1)),
    *(("lpm_trie", 8, 4, 1, 0), ("lpm_trie", 4, 4, 1, 1), ("lpm_trie", 261, 4, 1, 1), ("lpm_trie", 260, 4, 1, 1)),
    *(("array", 4, 4, 1, flag) for flag in (1, 2, 4, 64, 128, 256, 384, 1 << 9, 1 << 10, 1 << 11, 1 << 12, 1 << 17)),
    *(("percpu_array", 4, 8, 1, flag) for flag in (1, 4, 8, 128, 1 << 10, 1 << 11)),
    *(("prog_array", 4, 4, 1, flag) for flag in (4, 8, 128, 256, 1 << 10)),
    *(("hash", 4, 4, 1, flag) for flag in (4, 24, 128, 384, 1 << 9, 1 << 10, 1 << 12, 1 << 17)),
    *(("percpu_hash", 4, 8, 1, flag) for flag in (4, 1 << 10)),
    *(("lru_hash", 4, 8, 1, flag) for flag in (4, 6, 1 << 10, 1 | 1 << 10)),
    *(("queue", 0, 4, 1, flag) for flag in (1, 4, 16, 64, 128, 1 << 10)),
    *(("lpm_trie", 8, 4, 1, flag) for flag in (3, 5, 65, 129, 1 | 1 << 10)),
    *(("bloom_filter", 0, 4, 1, flag) for flag in (1, 4, 64, 256, 384, 1 << 10)),
    *(("percpu_hash", 4, 1 << 20, 1, 24), ("bloom_filter", 1, (4 << 20) + 1, 1, 0)),
    *(
        ("bloom_filter", 4, 4, 1, 0),
        ("bloom_filter", 0, 4, 1, 0),
        ("prog_array", 4, 8, 1, 0),
        ("prog_array", 4, 4, 1, 0),
    ),
]


@pytest.mark.parametrize("row", CREATED, ids=lambda row: "-".join(map(str, row)))
def test_creation(row: tuple[str, int, int, int, int]) -> None:
    kind, key_size, value_size, most, flags = row
    errno = 0
    with Live() as live:
        try:
            live.create_map(release(MODELLED).map_types[kind].number, key_size, value_size, most, flags=flags)
        except Refused as refused:
            errno = refused.number
    assert refusal(Shape(kind, key_size, value_size, most, flags, "6.12")) == errno


NESTED = """
.map inner {inner} 4 8 2
.map outer {outer} 4 4 3 inner=inner
*(u32 *)(r10 -4) = {key}
r1 = map[outer]
r2 = r10
r2 += -4
call map_lookup_elem
if r0 == 0 goto none
r1 = r0
*(u32 *)(r10 -4) = 1
r2 = r10
r2 += -4
call map_lookup_elem
if r0 == 0 goto empty
r0 = *(u32 *)(r0 +0)
exit
none:
r0 = 77
exit
empty:
r0 = 78
exit
"""


@pytest.mark.parametrize("key", [0, 1, 3])
@pytest.mark.parametrize("inner", ["array", "hash"])
@pytest.mark.parametrize("outer", ["array_of_maps", "hash_of_maps"])
def test_maps_in_maps(outer: str, inner: str, key: int) -> None:
    made = assembly.load(
        NESTED.format(outer=outer, inner=inner, key=key), "nested", release(MODELLED).helper_ids
    ).programs[0]
    results = []
    for side in (made, rewritten(made, MODELLED)):
        memory = Regions()
        kernel = MapsKernel(memory, release(MODELLED))
        low, high = (kernel.map(map_) for map_ in side.maps)
        held, value = memory.place("key", b"\1\0\0\0"), memory.place("value", b"\x2a" + bytes(7))
        kernel.operate(
            low, "array_map_update_elem" if inner == "array" else "htab_map_update_elem", held.base, value.base, 0
        )
        assert kernel.put_inner(high, b"\1\0\0\0", low) == 0
        results.append(Machine(kernel, memory).run(side, 0))
    numbers = release(MODELLED).map_types
    with Live() as live:
        template = live.create_map(numbers[inner].number, 4, 8, 2)
        fds = [template, live.create_map(numbers[outer].number, 4, 4, 3, inner=template)]
        assert live.update(fds[0], b"\1\0\0\0", b"\x2a" + bytes(7)) == 0
        assert live.update(fds[1], b"\1\0\0\0", template.to_bytes(4, "little")) == 0
        real = live.run(live.load(loaded(made, fds), ProgramType.SCHED_CLS), data=bytes(64)).result
    assert [outcome.value if isinstance(outcome, Returned) else outcome for outcome in results] == [real, real]
    assert real == (42 if key == 1 else 77)


LOOK = """
.map m lru_hash 4 4 400 flags=64
.map chosen array 4 4 1
r2 = map[chosen][0]+0
r1 = map[m]
call map_lookup_elem
r1 = r0
r0 = 0
if r1 == 0 goto out
r0 = 1
out:
exit
"""


@pytest.mark.parametrize("seed", range(2))
def test_a_large_lru_hash(seed: int) -> None:
    """More elements than one look takes, so the place where the next one begins matters. On one CPU: updates by system
    calls, lookups, which mark an element, by a program.
    """
    random = Random(seed)
    look = assembly.load(LOOK, "look", release(MODELLED).helper_ids).programs[0]
    memory = Regions()
    kernel = MapsKernel(memory, release(MODELLED), cpus=possible_cpus(), cpu=min(os.sched_getaffinity(0)))
    made = kernel.map(look.maps[0])
    key, value = memory.place("key", bytes(4)), memory.place("value", bytes(4))
    found: list[tuple[int, int]] = []
    with Live() as live:
        number = release(MODELLED).map_types["lru_hash"].number
        fd, chosen = live.create_map(number, 4, 4, 400, flags=ZERO_SEED), live.create_map(2, 4, 4, 1)
        reader = live.load(loaded(look, [fd, chosen]), ProgramType.SCHED_CLS)
        for step in range(2000):
            word = random.choice((random.randrange(120), random.randrange(700))).to_bytes(4, "little")
            key.data[:] = word
            if step % 13 == 12:
                found.append((live.delete(fd, word), kernel.operate(made, "htab_lru_map_delete_elem", key.base)))
            elif step > 400 and step % 3 == 0:
                live.update(chosen, bytes(4), word)
                there = kernel.operate(made, "htab_lru_map_lookup_elem", key.base) != 0
                found.append((live.run(reader, data=bytes(64)).result, int(there)))
            else:
                flags = random.choice((0, 0, 0, 0, 1, 2))
                arguments = (key.base, value.base, flags)
                modelled = kernel.operate(made, "htab_lru_map_update_elem", *arguments)
                found.append((live.update(fd, word, bytes(4), flags), modelled))
        left = live.keys(fd, 4)
    assert [real for real, _ in found] == [modelled for _, modelled in found]
    assert sorted(left) == sorted(entry.key.to_bytes(4, "little") for entry in made.state.table.entries)
