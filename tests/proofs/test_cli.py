"""The command line as a user meets it: what is printed, and with which exit status."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from proofs.cli import COMMANDS, main

OBJECTS = Path(__file__).resolve().parent.parent / "data" / "objects"

# The published fragments of the rewrite's commit, as bpftool printed them.
AFTER = """\
 ; if (rules_map) {
  142: (15) if r4 == 0x0 goto pc+8
  143: (bf) r3 = r10
 ; bpf_for_each_map_elem(rules_map, process_each_rule, &ctx, 0);
  144: (07) r3 += -24
  145: (bf) r1 = r4
  146: (18) r2 = subprog[+5]
  148: (b7) r4 = 0
  149: (85) call bpf_for_each_array_elem#170336
"""
BEFORE = AFTER.replace("bpf_for_each_array_elem#170336", "bpf_for_each_map_elem#143680")


@pytest.fixture
def fragments(tmp_path: Path) -> dict[str, str]:
    for name, text in (("before", BEFORE), ("after", AFTER)):
        (tmp_path / f"{name}.txt").write_text(text)
    return {name: str(tmp_path / f"{name}.txt") for name in ("before", "after")}


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = main(list(arguments))
    captured = capsys.readouterr()
    return int(status), captured.out, captured.err


def test_check_of_the_newest_release(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "check")
    assert status == 0
    assert re.search(r"^hash +proved +proved +proved +- ", out, re.MULTILINE)
    assert "57 claims in 513 obligations: 57 proved, 0 refuted, 0 unknown, 0 unsupported" in out
    assert "\x1b" not in out


def test_check_of_6_1(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "check", "--kernel", "6.1", "--match", "dispatch/*/hash/map_update_elem")
    assert status == 1
    assert "refuted dispatch/6.1/x86_64/hash/map_update_elem/r0" in out
    assert "helper: r0 = 0xffffffffffffffea (-22)" in out
    assert "direct: r0 = 0x00000000ffffffea (4294967274)" in out
    assert "6.1.192: helper bpf_map_update_elem kernel/bpf/helpers.c:" in out


def test_check_of_6_12(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "check", "--kernel", "6.12")
    assert status == 0
    assert " 0 refuted, 0 unknown, 0 unsupported" in out


def test_verbose_names_each_obligation_with_its_time(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "check", "--match", "dispatch/*/array/map_delete_elem", "--verbose")
    assert status == 0
    line = r"^proved +\d+\.\d ms  satisfiable  {} +dispatch/7\.3/x86_64/array/map_delete_elem/([\w/]+)$"
    names = re.findall(line.format("fault noticed"), out, re.MULTILINE)
    assert names == ["target", "arguments", "r0", "callee_saved", "memory", "kernel", "callbacks"]
    assert re.findall(line.format("path reached"), out, re.MULTILINE) == ["reach/helper", "reach/direct/1"]
    counted = "assumptions satisfiable 9 of 9, paths reached 2 of 2, planted faults noticed 7 of 7"
    assert f"not vacuous: {counted}\n" in out


def test_verbose_counts_what_fails_without_a_planted_fault(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "check", "--kernel", "6.1", "--match", "dispatch/*/hash/map_update_elem", "--verbose")
    assert "paths reached 2 of 2, planted faults noticed 6 of 7 (1 fail without one)\n" in out
    assert re.search(r"^refuted +\d+\.\d ms  satisfiable  fails itself .*/r0$", out, re.MULTILINE)


def test_two_maps_at_one_call(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "check", str(OBJECTS / "two_maps.o"))
    assert status == 0
    assert "missed: every map that reaches it has array_map_update_elem" in out
    assert "necessary: maps with different operations reach it: array_map_update_elem of one_array (array)" in out
    assert "direct htab_map_update_elem" in out
    assert re.search(r"^all +1 +0 +1 +1$", out, re.MULTILINE)


def test_a_direct_call_that_is_not_equivalent_is_not_missed(capsys: pytest.CaptureFixture[str]) -> None:
    """On 6.1 a direct call would change r0, so the poisoned site of two arrays is no missed one."""
    status, out, _ = run(capsys, "check", "--kernel", "6.1", "--program", "same_type", str(OBJECTS / "two_maps.o"))
    assert status == 0
    assert "necessary: a direct call of array_map_update_elem would not be equivalent" in out


def test_6_1_refutes_the_direct_calls_of_an_object(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "check", "--kernel", "6.1", "--program", "same_map", str(OBJECTS / "two_maps.o"))
    assert status == 1
    assert "refuted dispatch/6.1/x86_64/hash/map_update_elem/r0" in out


def test_callbacks_are_shown_as_indirect(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "check", "--program", "sum_array", str(OBJECTS / "for_each.o"))
    assert status == 0
    assert "residual indirect branch in the callee (callback): bpf_for_each_array_elem -> add" in out


def test_published_fragments(capsys: pytest.CaptureFixture[str], fragments: dict[str, str]) -> None:
    status, out, _ = run(capsys, "check", fragments["after"])
    assert status == 3
    assert "the map in r1 is not shown: right for array or percpu_array" in out
    status, out, _ = run(capsys, "check", "--assume", "r4=array", fragments["after"])
    assert status == 0
    status, out, _ = run(capsys, "check", "--assume", "145:r4=hash", fragments["after"])
    assert status == 1
    assert "refuted dispatch/7.3/x86_64/hash/for_each_map_elem=bpf_for_each_array_elem/target" in out
    status, out, _ = run(capsys, "check", "--assume", "r4=array", fragments["before"])
    assert status == 0
    assert "missed: every map that reaches it has bpf_for_each_array_elem" in out


def test_rewrite_of_the_published_fragment(capsys: pytest.CaptureFixture[str], fragments: dict[str, str]) -> None:
    status, out, _ = run(capsys, "rewrite", "--assume", "r4=array", fragments["before"])
    assert status == 0
    changed = [line for line in out.splitlines() if " | " in line]
    assert len(changed) == 1
    assert re.fullmatch(
        r" 149: \(85\) call bpf_for_each_map_elem#143680 +\|  149: \(85\) call bpf_for_each_array_elem#\?", changed[0]
    )


def test_rewrite_formats(capsys: pytest.CaptureFixture[str]) -> None:
    target = str(OBJECTS / "for_each.o")
    status, out, _ = run(capsys, "rewrite", "--program", "sum_array", target)
    assert status == 0
    assert re.search(r"call bpf_for_each_map_elem#164 +\|.*call bpf_for_each_array_elem#\?", out)
    status, out, _ = run(capsys, "rewrite", "--program", "sum_array", "--format", "json", target)
    found = json.loads(out)[0]
    assert [row["relocation"] for row in found["after"] if "relocation" in row] == [
        {"kind": "call", "symbol": "bpf_for_each_array_elem"}
    ]
    status, out, _ = run(capsys, "rewrite", "--program", "sum_array", "--format", "hex", target)
    assert "8500000000000000  call bpf_for_each_array_elem" in out.splitlines()
    status, out, _ = run(capsys, "rewrite", "--program", "sum_array", "--format", "asm", target)
    assert "  10: (85) call bpf_for_each_array_elem#?" in out.splitlines()


def test_symbols_give_the_numbers(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    symbols = tmp_path / "kallsyms"
    symbols.write_text("ffffffff81200000 T __bpf_call_base\nffffffff81229960 t bpf_for_each_array_elem\n")
    target = str(OBJECTS / "for_each.o")
    status, out, _ = run(capsys, "rewrite", "--program", "sum_array", "--symbols", str(symbols), target)
    assert status == 0
    assert "call bpf_for_each_array_elem#170336" in out  # 0x29960
    symbols.write_text("0000000000000000 T __bpf_call_base\n")
    status, _, err = run(capsys, "rewrite", "--symbols", str(symbols), target)
    assert status == 2
    assert "expected an address, but it is hidden" in err


def test_cfg(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    target = str(OBJECTS / "two_maps.o")
    status, out, _ = run(capsys, "cfg", "--program", "two_types", target)
    assert status == 0
    assert out.startswith("digraph bpf {")
    for ending in (".dot", ".json", ".svg"):
        path = tmp_path / f"out{ending}"
        status, _, _ = run(capsys, "cfg", "--program", "two_types", target, "-o", str(path))
        assert status == 0
        assert path.stat().st_size > 500
    graph = json.loads((tmp_path / "out.json").read_text())[0]
    dispatches = {(e["source"], e["target"]) for e in graph["edges"] if e["kind"] == "dispatch"}
    assert dispatches == {("site:17", "operation:array_map_update_elem"), ("site:17", "operation:htab_map_update_elem")}


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "list")
    assert status == 0
    for text in ("6.12.117", "lpm_trie", "bpf_for_each_map_elem", "loongarch64", "patching"):
        assert text in out


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["check", "--kernel", "2.6"], "expected a release (4.19, 5.4, 5.10, 5.15, "),
        (["check", "--arch", "i386"], "expected one of x86_64, arm64"),
        (["check", "--match", "nothing/*"], "expected a glob that fits an obligation"),
        (["check", "/nonexistent.o"], "/nonexistent.o"),
        (["check", "/"], "/"),
        (["check", "--section", "x"], "expected a FILE"),
        (["check", "--program", "zzz", str(OBJECTS / "for_each.o")], "expected a program that fits --program zzz"),
        (["check", "--assume", "r1", str(OBJECTS / "for_each.o")], "expected [INDEX:]REG=TYPE"),
        (["check", "--assume", "9999:r1=hash", str(OBJECTS / "for_each.o")], "expected an index from 0 to"),
        (["cfg", str(OBJECTS / "for_each.o"), "-o", "x.png"], "expected a name that ends in .dot, .json, .svg"),
        (["extract", "/nonexistent"], "/nonexistent"),
        (["mutants", "--match", "nothing"], "expected a glob that fits a mutant"),
    ],
)
def test_bad_input_is_one_line_and_status_2(
    arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, err = run(capsys, *arguments)
    assert status == 2
    assert out == ""
    assert err.count("\n") == 1
    assert expected in err


def test_junk_leaves_nothing_half_said(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A good file before a bad one: the bad one is found before anything is printed."""
    junk = tmp_path / "junk.o"
    junk.write_bytes(b"\x7fELF" + bytes(200))
    status, out, err = run(capsys, "check", str(OBJECTS / "for_each.o"), str(junk))
    assert (status, out) == (2, "")
    assert "junk.o" in err


def module(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "proofs", *arguments],
        capture_output=True,
        text=True,
        cwd=Path(__file__).resolve().parents[2],
        env={**os.environ, **environment},
        timeout=120,
        check=False,
    )


def test_alone_it_prints_the_help_and_exits_2() -> None:
    done = module()
    assert done.returncode == 2
    assert "exit status: 0 all proved" in done.stdout + done.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_help_and_version_everywhere(command: str) -> None:
    done = module(command, "--help")
    assert done.returncode == 0
    assert "examples:" in done.stdout
    done = module(command, "--version")
    assert (done.returncode, done.stdout.split()[0]) == (0, "bpf-devirt")


def test_a_closed_pipe_is_no_traceback() -> None:
    done = subprocess.run(
        f"{sys.executable} -m proofs list | head -n 1",
        shell=True,
        capture_output=True,
        text=True,
        cwd=Path(__file__).resolve().parents[2],
        timeout=120,
        check=False,
    )
    assert "Traceback" not in done.stderr


def test_inline_claims(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "check", "--claim", "inline", "--match", "inline/*/hash/*")
    assert status == 0
    assert re.search(r"^inline/7\.3/hash/map_lookup_elem +proved ", out, re.MULTILINE)
    status, out, _ = run(
        capsys, "check", "--claim", "inline", "--kernel", "6.12", "--match", "inline/*/array_of_maps/*"
    )
    assert status == 1  # the bounds test compares 64 bits with a sign-extended max_entries
    assert "map->max_entries = 0x80000000" in out


@pytest.mark.parametrize("command", [["check"], ["list"], ["mutants", "--match", "direct/*"]])
def test_output_that_cannot_be_written(command: list[str]) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "proofs", *command],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).resolve().parents[2],
            timeout=120,
            check=False,
        )
    assert done.returncode == 2
    assert done.stderr == "bpf-devirt: output cannot be written: No space left on device\n"


def test_a_closed_pipe_is_no_verdict() -> None:
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m proofs check | true; exit ${{PIPESTATUS[0]}}"],
        capture_output=True,
        text=True,
        cwd=Path(__file__).resolve().parents[2],
        timeout=120,
        check=False,
    )
    assert done.returncode in (0, 141), done.stderr  # all was written before the reader went, or it was not
    assert "Traceback" not in done.stderr


def test_options_that_do_not_go_with_files(capsys: pytest.CaptureFixture[str]) -> None:
    for option in (["--match", "x"], ["--claim", "inline"]):
        status, out, err = run(capsys, "check", *option, str(OBJECTS / "for_each.o"))
        assert (status, out) == (2, "")
        assert "expected no FILE with it" in err
