"""`equiv` as a user calls it: exit status, what is printed, one-line errors."""

from pathlib import Path

import pytest

from model.loaders import elf
from proofs.cli import main

DUMPS = Path(__file__).parents[1] / "data" / "dumps"
PROGRAM = """
.map names hash 4 8 2
.map numbers array 4 8 4
        *(u32 *)(r10 -4) = 2
        *(u64 *)(r10 -16) = 5
        r1 = map[numbers]
        r2 = r10
        r2 += -4
        call bpf_map_lookup_elem
        if r0 == 0 goto none
        r6 = *(u64 *)(r0 +0)
none:   r1 = map[names]
        r2 = r10
        r2 += -4
        call bpf_map_delete_elem
        exit
"""


@pytest.fixture
def pair(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    before, after = tmp_path / "before.asm", tmp_path / "after.txt"
    before.write_text(PROGRAM, encoding="utf-8")
    assert main(["rewrite", str(before), "--format", "asm", "--kernel", "6.12"]) == 0
    after.write_text(capsys.readouterr().out, encoding="utf-8")
    return str(before), str(after)


def test_proved(pair: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["equiv", *pair, "--kernel", "6.12", "--symbolic"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[1:3] == [
        "  15 instructions before, 21 after; rewritten map-helper calls: 1 inlined, 1 direct",
        "  proved",
    ]
    assert out[3] == "  run over symbols: proved"


def test_refuted(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    before, after = tmp_path / "before.asm", tmp_path / "after.txt"
    before.write_text(PROGRAM.replace("call bpf_map_lookup_elem", "r0 = 0"), encoding="utf-8")
    assert main(["rewrite", str(before), "--format", "asm", "--kernel", "6.1"]) == 0
    after.write_text(capsys.readouterr().out, encoding="utf-8")
    pair = str(before), str(after)
    assert main(["equiv", *pair, "--kernel", "6.1", "--symbolic", "--reproduce", str(tmp_path / "out")]) == 1
    out = capsys.readouterr().out
    for text in (
        "  refuted\n",
        "    before    13: (85) call bpf_map_delete_elem#3\n",
        "    after     13: (85) call htab_map_delete_elem#0\n",
        "  the call at 13, map_delete_elem on names (hash):\n",
        "    map names (hash): empty\n",
        "    the two part behind 13 before and 13 after, in r0:\n",
        "      before  0xfffffffffffffffe (-2)\n",
        "      after   0x00000000fffffffe (4294967294)\n",
        "    what differs at the end: r0\n",
        "  run over symbols: refuted\n",
        "6.1-x86_64-hash-map_delete_elem: delete of a key that is not there\n",
    ):
        assert text in out
    assert (tmp_path / "out" / "6.1-x86_64-hash-map_delete_elem" / "README").is_file()


def test_a_change_of_another_pass_is_proved_over_symbols(
    pair: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """A load whose result nobody reads is gone."""
    text = Path(pair[1]).read_text(encoding="utf-8")
    Path(pair[1]).write_text(text.replace("(79) r6 = *(u64 *)(r0 +0)", "(05) goto pc+0"), encoding="utf-8")
    assert main(["equiv", *pair, "--kernel", "6.12"]) == 0
    out = capsys.readouterr().out
    assert "  proved\n  by composition: unknown: at 8: the instruction is another one after" in out
    assert "  run over symbols: proved\n" in out


def test_dumps_of_the_running_kernel(capsys: pytest.CaptureFixture[str]) -> None:
    dump, maps = str(DUMPS / "walk.txt"), str(DUMPS / "maps.json")
    assert main(["equiv", dump, str(DUMPS / "walk.json"), "--maps", maps, "--kernel", "6.12"]) == 0
    assert "rewritten map-helper calls: none" in capsys.readouterr().out
    assert main(["equiv", dump, str(DUMPS / "jump.txt"), "--maps", maps, "--kernel", "6.12"]) == 3


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["missing.o", "missing.o"], "expected a file that can be read"),
        (["{before}", "{before}", "--kernel", "0.1"], "0.1"),
        (["{before}", "{before}", "--arch", "vax"], "expected one of"),
        (["{before}", "{before}", "--program", "nobody"], "--program nobody"),
        (["{before}", "{other}"], "expected a program main"),
        (["{before}", "{before}", "--assume", "r1=nothing"], "expected a map type"),
        (["{before}", "{before}", "--maps", "{before}"], "expected the JSON"),
    ],
)
def test_errors_are_one_line(
    pair: tuple[str, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    expected: str,
) -> None:
    other = tmp_path / "other.asm"
    other.write_text(".program one\nexit\n.program two\nexit\n", encoding="utf-8")
    names = {"before": pair[0], "other": str(other)}
    assert main(["equiv", *(argument.format(**names) for argument in arguments)]) == 2
    told = capsys.readouterr()
    assert told.err.count("\n") == 1
    assert told.err.startswith("bpf-devirt: ")
    assert expected in told.err


def test_a_program_that_runs_past_its_end_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, after = tmp_path / "before.asm", tmp_path / "after.asm"
    before.write_text("r2 = r1\nr0 = 0\nexit\n", encoding="utf-8")
    after.write_text("r2 = r1\nr0 = 0\n", encoding="utf-8")
    assert main(["equiv", str(before), str(after)]) == 1
    assert "past its last instruction" in capsys.readouterr().out


def test_help_has_examples(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["equiv", "--help"])
    assert stop.value.code == 0
    assert "python -m proofs equiv prog.bpf.o after.txt" in capsys.readouterr().out


def test_two_arguments_are_needed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["equiv", "one"])
    assert stop.value.code == 2
    assert "AFTER" in capsys.readouterr().err


OBJECTS = sorted(path for path in (DUMPS.parent / "objects").glob("*.o") if not path.name.endswith(".bpfeb.o"))


@pytest.mark.parametrize("path", OBJECTS, ids=lambda path: path.stem)
def test_the_rewrite_of_objects_is_proved(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    after = tmp_path / "after.txt"
    assert main(["rewrite", str(path), "--format", "asm", "--kernel", "6.12"]) == 0
    after.write_text(capsys.readouterr().out, encoding="utf-8")
    status = main(["equiv", str(path), str(after), "--kernel", "6.12", "--program", first_program(path)])
    out = capsys.readouterr().out
    assert status == 0, out
    assert "  proved\n" in out


def first_program(path: Path) -> str:
    return elf.load(path.read_bytes(), path.name).programs[0].name


def test_check_shows_a_refuted_call_in_both_versions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = tmp_path / "before.asm"
    before.write_text(PROGRAM, encoding="utf-8")
    assert main(["check", str(before), "--kernel", "6.1", "--reproduce", str(tmp_path / "out")]) == 1
    out = capsys.readouterr().out
    assert "      before   13: (85) call bpf_map_delete_elem#3\n" in out
    assert "      after    19: (85) call htab_map_delete_elem#?\n" in out
    assert f"  13 ({before}:15: call bpf_map_delete_elem)\n" in out
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["6.1-x86_64-hash-map_delete_elem"]
