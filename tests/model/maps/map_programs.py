"""Programs made of map operations: one text for the model's machine and for the running kernel, and what they leave.

Each operation's r0 (a pointer only as NULL or not) and the value that it gave go to a row of an array map `out`; the
callback of for_each writes the keys and values that it is given to the rows behind.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from model.facts import analyse
from model.isa.insn import Insn
from model.isa.opcodes import Imm64
from model.kernel.data import load_release
from model.kernel.release import Release
from model.loaders import assembly
from model.loaders.live import Live, ProgramType
from model.machine.layout import link
from model.machine.machine import Machine
from model.machine.maps_kernel import MapsKernel
from model.machine.outcome import Returned
from model.machine.regions import Regions
from model.maps.state import ARRAY_VALUE
from model.program import Map, MapRef, Program
from model.rewrite.config import Config
from model.rewrite.passes import rewrite

ROW = 48
"""Bytes of a result: r0, then a value of up to 24 bytes; of a callback: its value, then its key of up to 16 bytes."""
VISITS = 24
"""Rows that the callback may fill, in front of the operations' rows; row 0 holds their number."""
CALLS = {"update": 4, "delete": 2, "lookup": 2, "push": 3, "pop": 2, "peek": 2, "for_each": 4, "lookup_percpu": 3}


@dataclass(frozen=True, slots=True)
class Op:
    """`name` is a helper's without map_ and _elem; "poke" looks up and writes `value`'s first byte there; "keep" looks
    up and holds on to the pointer; "again" reads what it points to. `flags` is also lookup_percpu's CPU.
    """

    name: str
    key: bytes = b""
    value: bytes = b""
    flags: int = 0


@dataclass(frozen=True, slots=True)
class Case:
    """One map and what is done to it. `inside` is what the callback does with each key: "" or "delete"."""

    map: Map
    ops: tuple[Op, ...]
    stop_after: int = 0
    inside: str = ""
    rows: int = field(default=0)


def _bytes(base: int, data: bytes) -> list[str]:
    return [f"*(u8 *)(r10 {at - base:+d}) = {byte}" for at, byte in enumerate(data)]


def _copy(source: str, at: int, target: str, size: int) -> list[str]:
    lines = []
    for offset in range(size):
        lines += [f"r1 = *(u8 *)({source} {offset:+d})", f"*(u8 *)({target} {at + offset:+d}) = r1"]
    return lines


def _lookup_result(op: Op, row: int, size: int, number: int) -> list[str]:
    lines = [f"if r0 == 0 goto none{number}", f"*(u64 *)(r9 {row:+d}) = 1"]
    if op.name == "poke":
        lines.append(f"*(u8 *)(r0 +0) = {op.value[0]}")
    if op.name == "keep":
        lines.append("r7 = r0")
    return [*lines, *_copy("r0", row + 8, "r9", size), f"none{number}:"]


def _op(case: Case, op: Op, number: int, row: int) -> list[str]:
    size, helper = case.map.value_size or 0, op.name
    if helper == "again":
        return _copy("r7", row + 8, "r9", size)
    if helper in ("poke", "keep"):
        helper = "lookup"
    lines = [*_bytes(64, op.key), *_bytes(128, op.value.ljust(size, b"\0"))]
    lines += [
        "r1 = map[m]",
        "r2 = r10",
        f"r2 += {-64 if helper in ('update', 'delete', 'lookup', 'lookup_percpu') else -128}",
    ]
    match helper:
        case "update":
            lines += ["r3 = r10", "r3 += -128", f"r4 = {op.flags}"]
        case "push" | "lookup_percpu":
            lines += [f"r3 = {op.flags}"]
        case "for_each":
            lines += ["r2 = subprog visit", "r3 = 0", f"r4 = {op.flags}"]
    lines.append(f"call {'for_each_map_elem' if helper == 'for_each' else f'map_{helper}_elem'}")
    if helper.startswith("lookup"):
        return [*lines, *_lookup_result(op, row, size, number)]
    lines.append(f"*(u64 *)(r9 {row:+d}) = r0")
    if helper in ("pop", "peek") and case.map.type != "bloom_filter":
        lines += ["r0 = r10", "r0 += -128", *_copy("r0", row + 8, "r9", size)]
    return lines


def _visit(case: Case) -> list[str]:
    """The callback: counts, copies key and value into the row of this call, does what it is to do, stops or not."""
    lines = [
        ".func visit",
        "r6 = r1",
        "r8 = r2",
        "r9 = map[out][0]+0",
        "r7 = *(u64 *)(r9 +0)",
        f"if r7 >= {VISITS - 1} goto full",
    ]
    lines += ["r1 = r7", "r1 += 1", "*(u64 *)(r9 +0) = r1", f"r7 *= {ROW}", "r9 += r7"]
    lines += ["r0 = r3", *_copy("r0", ROW, "r9", case.map.value_size or 0)]
    lines += ["r0 = r8", *_copy("r0", ROW + 24, "r9", case.map.key_size or 0)]
    if case.inside == "delete":
        lines += ["r1 = r6", "r2 = r8", "call map_delete_elem"]
    lines += ["r9 = map[out][0]+0", "r1 = *(u64 *)(r9 +0)", "r0 = 0"]
    if case.stop_after:
        lines += [f"if r1 != {case.stop_after} goto on", "r0 = 1", "on:"]
    return [*lines, "exit", "full:", "r0 = 1", "exit"]


def text(case: Case) -> str:
    map_ = case.map
    rows = VISITS + len(case.ops)
    inner = f" inner={map_.inner.name}" if map_.inner else ""
    lines = [f".map m {map_.type} {map_.key_size} {map_.value_size} {map_.max_entries} flags={map_.flags}"]
    lines[0] += f" extra={map_.extra}{inner}"
    lines += [f".map out array 4 {ROW * rows} 1", "r9 = map[out][0]+0", "r7 = r9"]
    for at in (64, 56, 128, 120, 112):
        lines.append(f"*(u64 *)(r10 {-at:+d}) = 0")
    for number, op in enumerate(case.ops):
        lines += _op(case, op, number, ROW * (VISITS + number))
    lines += ["r0 = 0", "exit"]
    if any(op.name == "for_each" for op in case.ops):
        lines += _visit(case)
    return "\n".join(lines)


@cache
def release(name: str) -> Release:
    """A release by name; "running": the rows of the running kernel's version on the tables of 6.12."""
    if name == "running":
        return replace(load_release("6.12"), version=os.uname().release)
    return load_release(name)


def program(case: Case, name: str = "6.12") -> Program:
    return assembly.load(text(case), "generated", release(name).helper_ids).programs[0]


def rewritten(before: Program, name: str) -> Program:
    kernel = release(name)
    done = rewrite(before, analyse(before, kernel), kernel, Config())
    return link(done.after, done.relocs, kernel)


def on_model(made: Program, name: str, *, cpus: int = 2, cpu: int = 0) -> bytes:
    """What the program leaves in `out` on the model's machine."""
    memory = Regions()
    kernel = MapsKernel(memory, release(name), cpus=cpus, cpu=cpu)
    outcome = Machine(kernel, memory).run(made, 0)
    assert isinstance(outcome, Returned), outcome
    out = kernel.map(made.maps[1])
    return memory.read(out.address + ARRAY_VALUE, out.shape.value_size)


def on_kernel(live: Live, made: Program, types: Mapping[str, int], *, xlated: bool = False) -> bytes:
    """The same of the running kernel, by BPF_PROG_TEST_RUN."""
    fds = [live.create_map(types[str(m.type)], *_sizes(m), flags=m.flags or 0, extra=m.extra) for m in made.maps]
    functions = {part.start: part.name for part in made.subprograms}
    live.run(live.load(loaded(made, fds), ProgramType.SCHED_CLS, functions=functions), data=bytes(64))
    out = live.lookup(fds[1], bytes(4), made.maps[1].value_size or 0)
    assert isinstance(out, bytes)
    return out


def _sizes(m: Map) -> tuple[int, int, int]:
    return m.key_size or 0, m.value_size or 0, m.max_entries or 0


def loaded(made: Program, fds: Sequence[int]) -> list[Insn]:
    """The instructions with descriptors in the place of map references."""
    insns = list(made.insns)
    for slot, ref in made.refs.items():
        if isinstance(ref, MapRef):
            insns[slot] = replace(insns[slot], imm=fds[ref.map])
            assert insns[slot].src in (Imm64.MAP_FD, Imm64.MAP_VALUE)
    return insns


def results(case: Case, out: bytes) -> list[tuple[int, bytes]]:
    """Each operation's r0, signed, and value."""
    size = case.map.value_size or 0
    rows = [out[ROW * (VISITS + i) : ROW * (VISITS + i + 1)] for i in range(len(case.ops))]
    return [(int.from_bytes(row[:8], "little", signed=True), row[8 : 8 + size]) for row in rows]


def visits(case: Case, out: bytes) -> list[tuple[bytes, bytes]]:
    """Key and value of each callback, in order."""
    key, value = case.map.key_size or 0, case.map.value_size or 0
    rows = [out[ROW * i : ROW * (i + 1)] for i in range(1, 1 + int.from_bytes(out[:8], "little"))]
    return [(row[24 : 24 + key], row[:value]) for row in rows]
