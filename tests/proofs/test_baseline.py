"""Baselines: what is known does not fail, what is open is never covered, what is of no use is told."""

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.errors import InputError
from proofs import baseline
from proofs.baseline import Known, apply, read, written
from proofs.cli import main
from proofs.report.record import Part, Record

CHECK = ["check", "--kernel", "6.1", "--match", "dispatch/*/hash/*"]
INT = '[[known]]\nname = "dispatch/6.1/x86_64/hash/*"\nreason = "int results"\nlink = "https://example.org/1"\n'


def file(tmp_path: Path, text: str) -> str:
    place = tmp_path / "known.toml"
    place.write_text(text, encoding="utf-8")
    return str(place)


def test_what_is_known_does_not_fail(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(CHECK) == 1
    capsys.readouterr()
    assert main([*CHECK, "--baseline", file(tmp_path, INT), "--strict-baseline"]) == 0
    printed = capsys.readouterr().out
    first = "dispatch/6.1/x86_64/hash/map_update_elem and others"
    assert f"known: 3 refuted as expected, {first}: int results (https://example.org/1)\n" in printed


def test_what_is_not_known_still_fails(tmp_path: Path) -> None:
    some = INT.replace("hash/*", "hash/map_update_elem")
    assert main([*CHECK, "--baseline", file(tmp_path, some), "--quiet"]) == 1


def test_an_entry_that_no_longer_refutes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = file(tmp_path, INT.replace("6.1", "*"))
    fixed = ["check", "--kernel", "6.12", "--match", "dispatch/*/hash/*", "--baseline", place]
    assert main(fixed) == 0
    assert "baseline: dispatch/*/x86_64/hash/* is no longer refuted\n" in capsys.readouterr().out
    assert main([*fixed, "--strict-baseline"]) == 1
    nothing = file(tmp_path, INT.replace("hash", "hsah"))
    assert main([*CHECK[:2], "6.12", "--baseline", nothing]) == 0
    assert "baseline: dispatch/6.1/x86_64/hsah/* fits nothing that was checked\n" in capsys.readouterr().out


def record(name: str, verdict: str, *parts: tuple[str, str]) -> Record:
    made = tuple(Part(f"{name}/{part}", found, "at", reason="why") for part, found in parts)
    return Record(name, "dispatch", verdict, "what", parts=made)


def test_what_is_open_is_never_covered() -> None:
    every = (Known("*", "all is well"),)
    for verdict in ("unknown", "unsupported", "proved"):
        (found,) = apply([record("a/b", verdict)], every).records
        assert found.baseline == ""


def test_an_entry_for_a_part_covers_a_record_that_fails_nowhere_else() -> None:
    entry = (Known("a/b/r0", "known"),)
    one = record("a/b", "refuted", ("r0", "refuted"), ("memory", "proved"))
    two = record("a/b", "refuted", ("r0", "refuted"), ("memory", "refuted"))
    assert [r.baseline for r in apply([one], entry).records] == ["known"]
    assert [r.baseline for r in apply([two], entry).records] == [""]


def test_written_and_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "new.toml"
    assert main([*CHECK, "--write-baseline", str(place)]) == 1
    entries = read(place)
    helpers = ("map_update_elem", "map_delete_elem", "for_each_map_elem")
    assert {entry.name for entry in entries} == {f"dispatch/6.1/x86_64/hash/{helper}" for helper in helpers}
    assert main([*CHECK, "--baseline", str(place), "--strict-baseline"]) == 0
    # entries of before stay, with their reasons
    assert main([*CHECK, "--baseline", file(tmp_path, INT), "--write-baseline", str(place)]) == 0
    assert read(place) == (Known("dispatch/6.1/x86_64/hash/*", "int results", "https://example.org/1"),)


@given(st.text(), st.text(min_size=1))
def test_any_text_survives(name: str, reason: str) -> None:
    text = written([Record(name, "f", "refuted", "what", reason=reason)])
    (row,) = tomllib.loads(text)["known"]
    assert (row["name"], row["reason"]) == (name, reason)


@pytest.mark.parametrize(
    "text",
    [
        "known = 1",
        "[[known]]",
        '[[known]]\nname = "x"',
        '[[known]]\nname = ""\nreason = "y"',
        '[[known]]\nname = "x"\nreason = 1',
        '[[known]]\nname = "x"\nreason = "y"\nuntil = "z"',
        '[other]\nname = "x"',
        "[[known",
        "\x00",
    ],
)
def test_what_is_no_baseline_is_one_line(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = file(tmp_path, text)
    assert main([*CHECK, "--baseline", place]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert f"{place}: " in captured.err


def test_not_text_and_not_there(tmp_path: Path) -> None:
    place = tmp_path / "x.toml"
    place.write_bytes(b"\xff")
    with pytest.raises(InputError, match="expected text in UTF-8"):
        read(place)
    with pytest.raises(InputError, match="cannot be read"):
        read(tmp_path / "none")
    assert main([*CHECK, "--strict-baseline"]) == 2
    assert baseline.MOST_BYTES == 4194304
