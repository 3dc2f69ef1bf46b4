"""What a case leaves: on the model's machine, before the rewrite and after it, and on the running kernel."""

import errno
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Self

from gen.maps import Entry
from gen.programs import INPUTS, IO, Generated
from model.errors import InputError
from model.facts import analyse
from model.isa.insn import Insn
from model.kernel.abi import Abi
from model.kernel.release import CType, Release
from model.loaders import assembly
from model.loaders.live import Live, ProgramType
from model.loaders.live_program import create, with_maps
from model.machine.contents import put, visible
from model.machine.layout import link
from model.machine.machine import Machine
from model.machine.maps_kernel import MapsKernel, zero_upper
from model.machine.outcome import Returned
from model.machine.regions import Regions
from model.maps.state import ARRAY_VALUE, PERCPU, round_up
from model.program import Map, Program
from model.rewrite.config import Config
from model.rewrite.passes import Rewritten, rewrite

STEPS = 200_000
UNSEEN = frozenset({"bloom_filter", "array_of_maps", "hash_of_maps", "prog_array"})
"""Types whose contents the system call does not tell, or tells by numbers of its own."""


@dataclass(frozen=True, slots=True)
class Left:
    """What a run leaves: the map `io`, and every other map's elements by key. `trouble` is a fault's line, else "" """

    io: bytes
    maps: Mapping[str, Mapping[bytes, bytes]] = field(default_factory=dict)
    trouble: str = ""


def differences(one: Left, other: Left) -> list[str]:
    """In one line each, what differs; empty where nothing does."""
    if one.trouble or other.trouble:
        return [] if one.trouble == other.trouble else [f"{one.trouble or 'an end'} | {other.trouble or 'an end'}"]
    found = []
    for at in range(0, len(one.io), 8):
        here, there = (int.from_bytes(left.io[at : at + 8], "little") for left in (one, other))
        if here != there:
            found.append(f"io +{at}: 0x{here:016x} ({_signed(here)}) | 0x{there:016x} ({_signed(there)})")
    for name in one.maps:
        mine, theirs = dict(one.maps[name]), dict(other.maps.get(name, {}))
        for key in sorted(mine.keys() | theirs.keys()):
            if mine.get(key) != theirs.get(key):
                found.append(f"{name}[{key.hex() or '-'}]: {_hex(mine.get(key))} | {_hex(theirs.get(key))}")
    return found


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word


def _hex(value: bytes | None) -> str:
    return "nothing" if value is None else value.hex()


def program(made: Generated, release: Release, file: str = "case") -> Program:
    """Raises `InputError` where the case's text is no program, or has no map `io` that takes the input."""
    found = assembly.load(made.text, file, release.helper_ids).programs[0]
    io = next((map_ for map_ in found.maps if map_.name == IO.name), None)
    room = io is not None and io.type == IO.type and (io.value_size or 0) >= 8 * INPUTS
    if io is None or not room or io.key_size != IO.key_size or not io.max_entries:
        raise InputError(file, "", f"expected a map {IO.name!r}: .map io array 4 64 1")
    return found


def rewritten(before: Program, release: Release, abi: Abi) -> Rewritten:
    return rewrite(before, analyse(before, release), release, Config(arch=abi.name))


def linked(done: Rewritten, release: Release) -> Program:
    return link(done.after, done.relocs, release)


def on_machine(
    side: Program, made: Generated, release: Release, abi: Abi, *, cpus: int = 2, cpu: int = 0, ones: bool = False
) -> Left:
    """`ones` fills the bits that the ABI leaves open above a narrow result. Raises `Unsupported`."""
    memory = Regions()
    kernel = MapsKernel(memory, release, abi=abi, cpus=cpus, cpu=cpu, upper=_ones if ones else zero_upper)
    maps = {map_.name: kernel.map(map_) for map_ in side.maps}
    for map_ in side.maps:
        if map_.inner is not None:
            kernel.put_inner(maps[map_.name], bytes(map_.key_size or 0), kernel.map(map_.inner))
    for entry in made.entries:
        fits(entry, side.maps, "case")
        put(kernel, maps[entry.map], entry.key, entry.value)
    words = b"".join(word.to_bytes(8, memory.order) for word in made.inputs)
    values = memory.find(maps[IO.name].address + ARRAY_VALUE, len(words))
    values.data[: len(words)] = words
    outcome = Machine(kernel, memory, limit=STEPS).run(side, 0)
    if not isinstance(outcome, Returned):
        return Left(b"", trouble=str(outcome))
    seen = {name: visible(kernel, one) for name, one in maps.items() if one.shape.type not in UNSEEN}
    return Left(memory.read(values.base, IO.value_size or 0), {name: seen[name] for name in seen if name != IO.name})


def fits(entry: Entry, maps: Sequence[Map], file: str) -> None:
    """Raises `InputError` for an entry of no map of `maps`, or one that has not its map's sizes."""
    place = f"entry {entry.map}"
    map_ = next((one for one in maps if one.name == entry.map), None)
    if map_ is None:
        raise InputError(file, place, f"expected one of the maps {', '.join(sorted(one.name for one in maps))}")
    if (len(entry.key), len(entry.value)) != (map_.key_size or 0, map_.value_size or 0):
        sizes = f"a key of {map_.key_size or 0} bytes and a value of {map_.value_size or 0}"
        raise InputError(file, place, f"expected {sizes}, found {len(entry.key)} and {len(entry.value)}")


def _ones(value: int, ctype: CType) -> int:
    return (value | -1 << ctype.bits) & ((1 << 64) - 1)


class Kernel:
    """The running kernel as a judge: one case a call, on one CPU; `close` (or the end of `with`) lets go of everything.

    Maps and programs live as long as one case.
    """

    def __init__(self, types: Mapping[str, int]) -> None:
        """`types` are the numbers of enum bpf_map_type by name."""
        self._types = types
        self._affinity = os.sched_getaffinity(0)
        self.cpu = min(self._affinity)
        self.cpus = possible_cpus()
        os.sched_setaffinity(0, {self.cpu})

    def close(self) -> None:
        os.sched_setaffinity(0, self._affinity)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def left(self, before: Program, made: Generated) -> tuple[Left, tuple[Insn, ...]]:
        """What the loaded program leaves, and its instructions as the kernel rewrote them.

        Raises `Refused` where the kernel does not load it.
        """
        with Live() as live:
            return on_kernel(live, before, made, self._types, cpus=self.cpus, cpu=self.cpu)


def on_kernel(
    live: Live, before: Program, made: Generated, types: Mapping[str, int], *, cpus: int, cpu: int
) -> tuple[Left, tuple[Insn, ...]]:
    """As `Kernel.left`, in a session that is there; what is loaded stays for its owner to close."""
    fds = {map_.name: create(live, map_, types) for map_ in before.maps}
    for map_ in before.maps:
        if map_.inner is not None:
            inner = fds.get(map_.inner.name) or create(live, map_.inner, types)
            live.update(fds[map_.name], bytes(map_.key_size or 0), inner.to_bytes(4, "little"))
    for entry in made.entries:
        fits(entry, before.maps, "case")
        live.update(fds[entry.map], entry.key, entry.value)
    words = b"".join(word.to_bytes(8, "little") for word in made.inputs)
    live.update(fds[IO.name], bytes(4), words.ljust(IO.value_size or 0, b"\0"))
    insns = with_maps(before, [fds[map_.name] for map_ in before.maps])
    functions = {part.start: part.name for part in before.subprograms}
    fd = live.load(insns, ProgramType.SCHED_CLS, functions=functions)
    live.run(fd, data=bytes(64))
    io = live.lookup(fds[IO.name], bytes(4), IO.value_size or 0)
    seen = {m.name: _elements(live, fds[m.name], m, cpus, cpu) for m in before.maps if m.type not in UNSEEN}
    left = Left(io if isinstance(io, bytes) else b"", {name: seen[name] for name in seen if name != IO.name})
    return left, live.xlated(fd)


def _elements(live: Live, fd: int, map_: Map, cpus: int, cpu: int) -> Mapping[bytes, bytes]:
    """As `model.machine.contents` has them; what is in a queue or stack is taken out."""
    size = map_.value_size or 0
    if map_.type in ("queue", "stack"):
        taken = [one for one in iter(lambda: live.take(fd, b"", size), -errno.ENOENT) if isinstance(one, bytes)]
        oldest_first = taken if map_.type == "queue" else taken[::-1]
        return {number.to_bytes(4, "little"): value for number, value in enumerate(oldest_first)}
    if "array" in str(map_.type):
        keys: Sequence[bytes] = [index.to_bytes(4, "little") for index in range(map_.max_entries or 0)]
    else:
        keys = live.keys(fd, map_.key_size or 0)
    per_cpu = map_.type in PERCPU
    step = round_up(size)
    found = {key: live.lookup(fd, key, step * cpus if per_cpu else size) for key in keys}
    start = step * cpu if per_cpu else 0
    return {key: value[start : start + size] for key, value in found.items() if isinstance(value, bytes)}


@cache
def possible_cpus() -> int:
    last = Path("/sys/devices/system/cpu/possible").read_text(encoding="ascii").strip().split("-")[-1]
    return int(last.split(",")[-1]) + 1
