"""Refutations of inlined lookups on the running kernel: maps and test runs only, nothing is attached.

Only the harmless direction is tried: keys that the inlined form takes for out of bounds.
"""

import errno
import platform
import re
from pathlib import Path

import pytest

from model.isa.insn import Insn
from model.loaders.live import Live, ProgramType, why_not

pytestmark = pytest.mark.live

ARRAY_OF_MAPS, PERCPU_ARRAY = 12, 6  # enum bpf_map_type
LOOKUP = Insn(0x85, imm=1)
FRAME = (Insn(0xBF, 2, 10), Insn(0x07, 2, imm=-4))  # r2 = r10 - 4


def found(outer: int, key: int, *, poisoned_by: int = 0) -> tuple[Insn, ...]:
    """Is there an element `key` in the inner map at 0? 1 yes, 0 no, 77 no inner map.

    With `poisoned_by`, another map can reach the second lookup too, so that it stays a helper call.
    """
    start = (
        Insn(0x62, 10, off=-4),
        Insn(0x18, 1, 1, imm=outer),
        Insn(0),
        *FRAME,
        LOOKUP,
        Insn(0x55, 0, off=2),
        Insn(0xB7, 0, imm=77),
        Insn(0x95),
        Insn(0xBF, 6, 0),  # r6 = inner map
    )
    other: tuple[Insn, ...] = ()
    if poisoned_by:  # never taken, which the verifier cannot know
        clock = (Insn(0x85, imm=5), Insn(0x55, 0, off=2))
        other = (*clock, Insn(0x18, 6, 1, imm=poisoned_by), Insn(0))
    second = (Insn(0xBF, 1, 6), Insn(0x62, 10, off=-4, imm=key), *FRAME, LOOKUP)
    return (*start, *other, *second, Insn(0x15, 0, off=1), Insn(0xB7, 0, imm=1), Insn(0x95))


def inlines() -> bool:
    """Whether per-CPU arrays' lookups are inlined: from 6.10 on (db69718b8efa), by JITs with per-CPU instructions."""
    jit = Path("/proc/sys/net/core/bpf_jit_enable")
    on = not jit.exists() or jit.read_text().strip() != "0"
    numbers = re.match(r"(\d+)\.(\d+)", platform.release())
    recent = numbers is not None and (int(numbers[1]), int(numbers[2])) >= (6, 10)
    return on and recent and platform.machine() in ("x86_64", "aarch64", "riscv64")


def test_an_inner_per_cpu_array_larger_than_its_template() -> None:
    """inline/6.12/percpu_array/map_lookup_elem/inner: refuted, also with 4 entries for a template of 1."""
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    if not inlines():
        pytest.skip(f"{platform.release()} on {platform.machine()} does not inline lookups in per-CPU arrays")
    with Live() as live:
        template = live.create_map(PERCPU_ARRAY, 4, 8, 1)
        larger, other = (live.create_map(PERCPU_ARRAY, 4, 8, 4) for _ in range(2))
        outer = live.create_map(ARRAY_OF_MAPS, 4, 4, 1, inner=template)
        let_in = live.update(outer, bytes(4), larger.to_bytes(4, "little"))
        if let_in == -errno.EINVAL:
            pytest.skip(f"{platform.release()} compares max_entries, as 7.3 does")
        assert let_in == 0
        inlined = [
            live.run(live.load(found(outer, key), ProgramType.SCHED_CLS), data=bytes(64)).result for key in range(4)
        ]
        helper = [
            live.run(live.load(found(outer, key, poisoned_by=other), ProgramType.SCHED_CLS), data=bytes(64)).result
            for key in range(4)
        ]
    assert helper == [1, 1, 1, 1]
    assert inlined == [1, 0, 0, 0]
