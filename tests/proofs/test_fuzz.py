"""fuzz and replay: what is found, kept, shown again; bad usage; an interrupt."""

import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from gen.judges import bench
from gen.oracles import linked
from gen.programs import Generated
from model.kernel.abi import ABIS
from model.kernel.data import load_release
from model.program import SymbolRef
from proofs.cli import main
from proofs.commands.campaign_judges import judges

CASE = """\
; input 0 0
; entry m0 00000000 0500000000000000
.map io array 4 64 1
.map m0 hash 4 8 4 flags=64
r9 = map[io][0]+0
*(u64 *)(r10 -8) = 7
r1 = map[m0]
r2 = r10
r2 += -8
call map_delete_elem
*(u64 *)(r9 +32) = r0
r0 = 0
exit
"""


def test_a_campaign_on_6_12_finds_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fuzz", "--kernel", "6.12", "--programs", "60", "--seed", "1", "--jobs", "1"]) == 0
    printed = capsys.readouterr().out
    assert re.search(r"^60 programs, \d+/s, 0 refused, \d+ kinds of site, 0 failures, \d+ s$", printed, re.MULTILINE)
    assert "model: judged 60 of 60 (100.0%)" in printed
    assert "\x1b" not in printed


def test_6_1_fails_and_the_failure_is_shown_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["fuzz", "--kernel", "6.1", "--match", "hash/map_delete_elem", "--seed", "1", "--jobs", "1"]
    assert main([*asked, "--programs", "20", "--corpus", str(tmp_path)]) == 1
    capsys.readouterr()
    kept = tmp_path / "failures" / "model-map_delete_elem.asm"
    assert main(["replay", str(kept), "--kernel", "6.1", "--judge", "model,smt"]) == 1
    printed = capsys.readouterr().out
    assert f"{kept}: model: fails" in printed
    assert f"{kept}: smt: fails" in printed
    assert main(["replay", str(kept), "--kernel", "6.12", "--judge", "model,smt"]) == 0
    # it is judged again when the campaign goes on, also on programs that do not fail
    again = ["fuzz", "--kernel", "6.1", "--match", "queue/map_peek_elem", "--jobs", "1", "--programs", "1"]
    assert main([*again, "--corpus", str(tmp_path)]) == 1


def test_a_predicted_value_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """-ENOENT, cut to 32 bits by 6.1's int operation."""
    place = tmp_path / "case.asm"
    place.write_text(CASE, encoding="utf-8")
    assert main(["replay", str(place), "--kernel", "6.1", "--judge", "model"]) == 1
    assert "  io +32: 0xfffffffffffffffe (-2) | 0x00000000fffffffe (4294967294)" in capsys.readouterr().out


def test_a_corpus_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["fuzz", "--kernel", "6.12", "--programs", "50", "--jobs", "1", "--corpus", str(tmp_path)]
    assert main([*asked, "--seed", "4"]) == 0
    assert main(asked) == 0
    printed = capsys.readouterr().out
    assert "seed 4, shard 0," in printed
    assert "seed 4, shard 1," in printed
    assert list((tmp_path / "interesting").iterdir())


def test_a_proof_that_the_runs_contradict_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """The after-side of the run calls another operation than the one that was proved."""
    release, x86 = load_release("6.12"), ABIS["x86_64"]
    (judge,) = judges("smt", release, x86)
    made = Generated(CASE, (), (), (0, 0))
    assert judge.bind()(made).failure == ""
    done = bench(release, x86).done(made)
    wrong = linked(done, release)
    refs = {s: SymbolRef("htab_map_lookup_elem") if isinstance(r, SymbolRef) else r for s, r in wrong.refs.items()}
    monkeypatch.setattr("gen.judges.linked", lambda done, release: replace(wrong, refs=refs))
    assert judge.bind()(made).failure == (
        "before | after\nproved, and yet:\nio +32: 0xfffffffffffffffe (-2) | 0x0000000000000000 (0)"
    )


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["fuzz", "--time", "10x"], "expected a time as 90s, 10m or 1.5h"),
        (["fuzz", "--time", "0"], "expected a time"),
        (["fuzz", "--programs", "0"], "expected a number above 0"),
        (["fuzz", "--programs", "1", "--time", "1"], "not allowed with"),
        (["fuzz", "--judge", "nobody"], "expected of model, smt, kernel"),
        (["fuzz", "--match", "hash/nothing"], "expected TYPE/HELPER"),
        (["fuzz", "--cluster", "tcp://127.0.0.1:1", "--programs", "1"], "--cluster"),
        (["fuzz", "--corpus", "/proc/nowhere"], "cannot be made"),
        (["replay", "/nowhere"], "/nowhere: cannot be read"),
    ],
)
def test_bad_usage_is_one_line(given: list[str], expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        status = main(given)
    except SystemExit as left:
        status = int(left.code or 0)
    assert status == 2
    said = capsys.readouterr().err
    assert expected in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (".map io array 4 64 1\n", "", "line 4: a map that a .map line defines, found 'io'"),
        ("entry m0", "entry m9", "entry m9: expected one of the maps io, m0"),
        ("call map_delete_elem", "call nothing", "line 10: "),
        ("; input 0 0", "; input 0 0 0", "expected '; input"),
    ],
)
def test_a_case_that_is_none_is_one_line(
    old: str, new: str, expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "case.asm"
    place.write_text(CASE.replace(old, new), encoding="utf-8")
    assert main(["replay", str(place), "--judge", "model"]) == 2
    said = capsys.readouterr().err
    assert expected in said
    assert said.count("\n") == 1


def test_an_interrupt_keeps_what_was_found(tmp_path: Path) -> None:
    asked = ["fuzz", "--time", "5m", "--jobs", "2", "--kernel", "6.12", "--seed", "1", "--corpus", str(tmp_path)]
    with subprocess.Popen(
        [sys.executable, "-m", "proofs", *asked], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        cwd=Path(__file__).parents[2], start_new_session=True,
    ) as running:  # fmt: skip
        end = time.monotonic() + 60
        while not (tmp_path / "campaign.json").exists() and time.monotonic() < end:
            time.sleep(0.1)
        os.killpg(running.pid, signal.SIGINT)
        printed, said = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "Traceback" not in said
    assert re.search(r"^\d+ programs, ", printed, re.MULTILINE)
    assert printed.splitlines()[-1] == "interrupted"
