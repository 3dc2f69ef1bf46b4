"""Sequences of operations, generated: the model's machine and the running kernel must leave the same bytes.

Each program is loaded, test-run and freed; nothing is attached. Skipped where bpf(2) is not permitted. Hashes have
BPF_F_ZERO_SEED here, so that the order of buckets, and bloom filters' false positives, are compared too.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from map_programs import on_kernel, on_model, program, release, results, rewritten, visits
from map_sequences import ROWS, Row, cases, few

from model.loaders.live import Live, why_not

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
