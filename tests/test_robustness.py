"""Damaged inputs, thrown at every loader and command: a verdict or a line of error, within bounds of time and memory.

`ROBUSTNESS_CASES=10000` for the long run; `tests/support/thrown.py --show N DIR` shows one case.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from random import Random

import pytest
import thrown
from mutations import FINE, GROSS, NUMBER, Inputs, Mutation, seeds

from proofs.cli import COMMANDS

CASES = int(os.environ.get("ROBUSTNESS_CASES", "240"))
CHUNK, LONGEST = 120, 1800
PLAINLY_OTHER = {"fuzz", "bench", "vm", "live", "mutants"}
"""Commands that read no file, or one that `replay` and `check` read too, and then ask a kernel."""


def faults(first: int, count: int) -> Iterator[str]:
    """Also where the process ends before its last case: by itself after `thrown.DEAD` seconds, or in native code."""
    done = subprocess.run(
        [sys.executable, thrown.__file__, str(first), str(count)],
        capture_output=True,
        text=True,
        timeout=LONGEST,
        check=False,
    )
    told = [json.loads(line) for line in done.stdout.splitlines()]
    yield from (f"case {one['case']}: {' '.join(one['command'])}: {one['fault']}" for one in told if "fault" in one)
    last = told[-1]["case"] if told else "none"
    if done.returncode or last != first + count - 1:
        yield f"case {last}: the process ends with {done.returncode}: {done.stderr[-2000:]}"


@pytest.mark.slow
def test_damaged_inputs_end_in_a_verdict_or_a_line() -> None:
    chunks = [(first, min(CHUNK, CASES - first)) for first in range(0, CASES, CHUNK)]
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        found = [fault for some in pool.map(lambda chunk: list(faults(*chunk)), chunks) for fault in some]
    assert found == [], "\n\n".join(found)


def test_every_command_is_thrown_at() -> None:
    inputs = Inputs(seeds())
    seen = {thrown.case(number, inputs).command[0] for number in range(2000)}
    assert seen == set(COMMANDS) - PLAINLY_OTHER


def test_a_case_is_the_same_in_every_run() -> None:
    inputs = Inputs(seeds())
    assert [thrown.case(n, inputs) for n in range(50)] == [thrown.case(n, Inputs(seeds())) for n in range(50)]


@pytest.mark.parametrize("mutation", dict.fromkeys((*FINE, *GROSS)), ids=lambda one: one.__name__)
def test_every_mutation_damages(mutation: Mutation) -> None:
    """At least in one of a few turns, on text, JSON and an object."""
    good = seeds()
    for kind in ("after", "maps", "object"):
        data = good[kind][0]
        assert any(mutation(Random(n), data, good["case"][0]) != data for n in range(20))
    assert NUMBER.findall(b"-1 0x1f 7") == [b"-1", b"0x1f", b"7"]


def loop(command: list[str]) -> int:
    while True:
        pass


def say(status: int, out: str = "", err: str = "") -> object:
    def main(command: list[str]) -> int:
        sys.stdout.write(out)
        sys.stderr.write(err)
        return status

    return main


def broken(command: list[str]) -> int:
    raise MemoryError


@pytest.mark.parametrize(
    ("main", "expected"),
    [
        (say(0, "proved\n"), ""),
        (say(2, "", "not read: a note\nbpf-devirt: x: expected y\n"), ""),
        (say(2, "", "bpf-devirt: x\nmore\n"), "status 2 with 2 lines"),
        (say(2), "status 2 with 0 lines"),
        (say(4), "status 4"),
        (say(0, "\x1b[1m"), "prints control characters"),
        (say(1, "", "Traceback (most recent call last)"), "Traceback"),
        (broken, "MemoryError"),
        (loop, "slower than 0.2 s"),
    ],
)
def test_planted_faults_are_noticed(main: object, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thrown, "main", main)
    monkeypatch.setattr(thrown, "SECONDS", 0.2)
    before = signal.signal(signal.SIGPROF, thrown.slow)
    try:
        found = thrown.fault(["planted"])
    finally:
        signal.signal(signal.SIGPROF, before)
    assert expected in found
    assert bool(found) is bool(expected)
