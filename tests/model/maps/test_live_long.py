"""Long sequences of operations on one map: a program does one operation a run, on the running kernel and in the model,
before and after the rewrite; every result, value and walk must be the same. Skipped where bpf(2) is not permitted.

A run's orders and answers are in the one value of the array `ctl`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

import pytest
from map_programs import loaded, release, rewritten
from map_sequences import ZERO_SEED
from test_live_maps import MODELLED, one_cpu, possible_cpus

from model.loaders import assembly
from model.loaders.live import Live, ProgramType
from model.machine.machine import Machine
from model.machine.maps_kernel import MapsKernel
from model.machine.outcome import Returned
from model.machine.regions import Regions
from model.maps.state import ARRAY_VALUE
from model.program import Map, Program

__all__ = ["one_cpu"]

pytestmark = pytest.mark.live
OPERATIONS = 1000
OP, FLAGS, RESULT, WALK, COUNT, SUM, KEY, VALUE, OUT, SIZE = 0, 8, 16, 24, 32, 40, 64, 128, 192, 256
"""Bytes of `ctl`: what to do, the answer, what a callback does, how often and over what it ran, key, value, value."""
CODES = ("lookup", "update", "delete", "push", "pop", "peek", "lookup_percpu", "for_each", "poke")
PLAIN = ("lookup", "update", "delete", "for_each", "poke")
QUEUE = ("push", "pop", "peek")
HAS = {
    **dict.fromkeys(("array", "hash", "lru_hash"), PLAIN),
    **dict.fromkeys(("percpu_array", "percpu_hash", "lru_percpu_hash"), (*PLAIN, "lookup_percpu")),
    **dict.fromkeys(("queue", "stack"), QUEUE),
    "bloom_filter": ("push", "peek"),
    "lpm_trie": ("lookup", "update", "delete", "poke"),
}
MAPS = (
    *(Map("m", "array", 4, 5, 3, 0), Map("m", "percpu_array", 4, 12, 3, 0)),
    *(Map("m", "hash", 5, 3, 5, ZERO_SEED), Map("m", "hash", 16, 24, 3, ZERO_SEED | 1)),
    *(Map("m", "percpu_hash", 7, 5, 6, ZERO_SEED), Map("m", "lru_hash", 6, 5, 20, ZERO_SEED)),
    *(Map("m", "lru_percpu_hash", 5, 12, 3, ZERO_SEED), Map("m", "queue", 0, 5, 3, 0), Map("m", "stack", 0, 12, 3, 0)),
    *(Map("m", "bloom_filter", 0, 7, 100, ZERO_SEED, extra=3), Map("m", "lpm_trie", 9, 8, 12, 1)),
)
ODD_FLAGS = (3, 4, 5, 6, 8, 9, 16, 1 << 16, 1 << 31, 1 << 32, (1 << 32) | 1, 1 << 63, (1 << 64) - 1)
FLAG_CHOICES = (*(0,) * 14, 1, 1, 1, 2, 2, 2, *ODD_FLAGS)
CALLBACK = """
.func visit
r6 = r1
r7 = r2
r8 = r3
r9 = map[ctl][0]+0
r1 = *(u64 *)(r9 +32)
r1 += 1
*(u64 *)(r9 +32) = r1
r2 = *(u64 *)(r9 +40)
{sums}
*(u64 *)(r9 +40) = r2
r3 = *(u64 *)(r9 +24)
r0 = 0
if r3 == 1 goto remove
if r3 == 2 goto other
if r3 == 3 goto stop
exit
remove:
r1 = r6
r2 = r7
call map_delete_elem
r0 = 0
exit
other:
r1 = r6
r2 = r9
r2 += 64
call map_delete_elem
r0 = 0
exit
stop:
if r1 s< 3 goto on
r0 = 1
on:
exit
"""


def _copy(source: str, at: int, target: str, to: int, size: int) -> list[str]:
    lines = []
    for offset in range(size):
        lines += [f"r1 = *(u8 *)({source} {at + offset:+d})", f"*(u8 *)({target} {to + offset:+d}) = r1"]
    return lines


def _operation(name: str, map_: Map) -> list[str]:
    size = map_.value_size or 0
    second = KEY
    if name in QUEUE:
        second = VALUE if name == "push" or map_.type == "bloom_filter" else OUT
    arguments = {
        "push": [f"r3 = *(u64 *)(r9 +{FLAGS})"],
        "lookup_percpu": [f"r3 = *(u64 *)(r9 +{FLAGS})"],
        "update": ["r3 = r9", f"r3 += {VALUE}", f"r4 = *(u64 *)(r9 +{FLAGS})"],
        "for_each": ["r2 = subprog visit", "r3 = 0", f"r4 = *(u64 *)(r9 +{FLAGS})"],
    }
    helper = {"poke": "map_lookup_elem", "for_each": "for_each_map_elem"}.get(name, f"map_{name}_elem")
    lines = [f"{name}:", "r1 = map[m]", "r2 = r9", f"r2 += {second}", *arguments.get(name, []), f"call {helper}"]
    if name in ("lookup", "poke", "lookup_percpu"):
        lines += ["if r0 == 0 goto done", f"*(u64 *)(r9 +{RESULT}) = 1", *_copy("r0", 0, "r9", OUT, size)]
        lines += _copy("r9", VALUE, "r0", 0, size) if name == "poke" else []
        return [*lines, "goto out"]
    return [*lines, "goto done"]


def text(map_: Map) -> str:
    names = HAS[str(map_.type)]
    lines = [
        f".map m {map_.type} {map_.key_size} {map_.value_size} {map_.max_entries} flags={map_.flags} extra={map_.extra}"
    ]
    lines += [f".map ctl array 4 {SIZE} 1", "r9 = map[ctl][0]+0", f"r8 = *(u64 *)(r9 +{OP})"]
    lines += [f"if r8 == {CODES.index(name)} goto {name}" for name in names]
    lines += ["r0 = 0", "exit"]
    for name in names:
        lines += _operation(name, map_)
    lines += ["done:", f"*(u64 *)(r9 +{RESULT}) = r0", "out:", "r0 = 0", "exit"]
    if "for_each" in names:
        sums = []
        for register, size in (("r7", map_.key_size), ("r8", map_.value_size)):
            for at in range(min(size or 0, 8)):
                sums += ["r2 *= 1000003", f"r3 = *(u8 *)({register} {at:+d})", "r2 ^= r3"]
        lines.append(CALLBACK.format(sums="\n".join(sums)))
    return "\n".join(lines)


def keys(map_: Map, random: Random) -> list[bytes]:
    size, most = map_.key_size or 0, map_.max_entries or 0
    if not size:
        return [b""]
    if "array" in str(map_.type):
        return [index.to_bytes(4, "little") for index in (*range(most + 2), 2 * most, 1 << 31, (1 << 32) - 1)]
    if map_.type == "lpm_trie":  # with bits behind the prefix, and lengths above the longest
        bits = 8 * (size - 4)
        lengths = [0, 1, 7, 8, 9, bits - 1, bits, bits, bits + 1, 1 << 31, (1 << 32) - 1]
        lengths += [random.randrange(bits) for _ in range(6)]
        return [n.to_bytes(4, "little") + bytes(random.choices((0, 10, 138, 255), k=size - 4)) for n in lengths]
    return [random.randbytes(size) for _ in range(most + random.choice((1, 2, most)))]


def order(map_: Map, random: Random, names: list[str], known: list[bytes]) -> bytes:
    name = random.choice(names)
    flags = random.choice(FLAG_CHOICES)
    if name == "lookup_percpu":
        flags = random.choice((0, 0, possible_cpus() - 1, possible_cpus(), (1 << 32) - 1, 1 << 32, (1 << 32) + 1))
    if name == "for_each":
        flags = random.choice((0, 0, 0, 1, 1 << 32))
    size = map_.value_size or 0
    value = random.choice((random.randbytes(size), bytes([random.randrange(6)]) * size))
    words = (CODES.index(name), flags, 77, random.choice((0, 0, 0, 1, 2, 3)))
    head = b"".join(word.to_bytes(8, "little") for word in words)
    return (head.ljust(KEY, b"\0") + random.choice(known).ljust(64, b"\0") + value.ljust(64, b"\0")).ljust(SIZE, b"\0")


def orders(map_: Map, seed: int, count: int) -> Iterator[bytes]:
    """Runs of seven operations of three kinds, with others among them."""
    random = Random(seed)
    known, all_names = keys(map_, random), HAS[str(map_.type)]
    for number in range(count):
        if number % 7 == 0:
            phase = random.choices(all_names, k=3)
        yield order(map_, random, random.choice(([*all_names], phase, phase)), known)


@dataclass
class Side:
    """One program in the model."""

    program: Program
    cpu: int

    def __post_init__(self) -> None:
        self.memory = Regions()
        kernel = MapsKernel(self.memory, release(MODELLED), cpus=possible_cpus(), cpu=self.cpu)
        self.machine = Machine(kernel, self.memory)
        _, ctl = (kernel.map(map_) for map_ in self.program.maps)
        self.at = ctl.address + ARRAY_VALUE

    def run(self, given: bytes) -> bytes:
        self.memory.write(self.at, given)
        outcome = self.machine.run(self.program, 0)
        assert isinstance(outcome, Returned), outcome
        return self.memory.read(self.at, SIZE)


@pytest.mark.parametrize("map_", MAPS, ids=lambda map_: f"{map_.type}-{map_.key_size}-{map_.value_size}")
def test_a_thousand_operations(map_: Map, one_cpu: int) -> None:
    made = assembly.load(text(map_), "long", release(MODELLED).helper_ids).programs[0]
    types = release(MODELLED).map_types
    sides = [Side(program, one_cpu) for program in (made, rewritten(made, MODELLED))]
    with Live() as live:
        fds = [
            live.create_map(
                types[str(m.type)].number,
                *(m.key_size or 0, m.value_size or 0, m.max_entries or 0),
                flags=m.flags or 0,
                extra=m.extra,
            )
            for m in made.maps
        ]
        names = {part.start: part.name for part in made.subprograms}
        program = live.load(loaded(made, fds), ProgramType.SCHED_CLS, functions=names)
        for number, given in enumerate(orders(map_, 1, OPERATIONS)):
            assert live.update(fds[1], bytes(4), given) == 0
            live.run(program, data=bytes(64))
            real = live.lookup(fds[1], bytes(4), SIZE)
            assert [(number, side.run(given)) for side in sides] == [(number, real)] * 2
