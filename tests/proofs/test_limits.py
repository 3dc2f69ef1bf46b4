"""What a run comes to when its time is over, or Ctrl-C ends it: what was done is reported, the rest is unknown."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from proofs.cli import main
from proofs.explain import explained
from proofs.limit import Limit
from proofs.obligation import Unknown
from proofs.solver import Solver

ROOT = Path(__file__).resolve().parents[2]
OBJECTS = sorted(map(str, (ROOT / "tests" / "data" / "objects").glob("*.o")))


def test_a_solver_without_time_decides_nothing() -> None:
    limit = Limit()
    limit.interrupted = True
    asked = [one.obligation for one in explained("dispatch/7.3/x86_64/hash/*")]
    found = list(Solver(limit=limit).decide_all(asked))
    assert found
    assert {one.verdict for one in found} == {Unknown("time: interrupted")}


def test_what_is_not_decided_is_unknown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--kernel", "7.3", "--time-limit", "0.05", "--format", "json"]) == 3
    records = json.loads(capsys.readouterr().out)["records"]
    verdicts = {record["verdict"] for record in records}
    assert len(records) == 57
    assert "unknown" in verdicts
    assert "refuted" not in verdicts
    reasons = {record["reason"] for record in records if record["verdict"] == "unknown"}
    assert reasons == {"time: the run's time limit (0.05 s, --time-limit)"}


def test_programs_that_no_time_was_left_for(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["check", *OBJECTS, "--time-limit", "0.001"]
    assert main(asked) == 3
    printed = capsys.readouterr().out
    assert "(the run's time limit (0.001 s, --time-limit): " in printed
    assert "programs not checked)" in printed
    assert main([*asked, "--format", "json"]) == 3
    (record,) = json.loads(capsys.readouterr().out)["records"]
    assert record["name"] == "program/not-checked"
    assert record["verdict"] == "unknown"


@pytest.mark.parametrize("given", [["--claim", "all", "--kernel", "7.3"], ["--kernel", "6.1,7.3", "--claim", "all"]])
def test_an_interrupt_reports_what_was_done(given: list[str]) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "proofs", "check", *given],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as running:
        time.sleep(2.5)
        running.send_signal(signal.SIGINT)
        printed, said = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "Traceback" not in said
    assert "unknown" in printed
    assert "interrupted" in printed
