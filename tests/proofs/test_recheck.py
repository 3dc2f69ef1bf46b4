"""Proof artefacts: what `check --smt2` writes, and that `recheck` notices whatever is done to it."""

import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from model.errors import InputError
from proofs.artefacts import path_of
from proofs.cli import main
from proofs.killable import each
from proofs.manifest import hash_of

HASH = "dispatch/7.3/x86_64/hash/map_update_elem"
R0 = f"{HASH}/r0"
REACH = f"{HASH}/reach/helper"
TARGET = f"{HASH}/target"


def write(directory: Path, *more: str) -> int:
    given = more or ("--kernel", "7.3", "--match", HASH)
    return main(["check", *given, "--smt2", str(directory), "--quiet"])


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("artefacts") / "out"
    assert write(directory) == 0
    return directory


@pytest.fixture(scope="module")
def proved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("pysat")
    directory = tmp_path_factory.mktemp("proofs") / "out"
    assert write(directory, "--kernel", "7.3", "--match", HASH, "--proof") == 0
    return directory


@pytest.fixture
def copy(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "copy"))


def change(directory: Path, alter: Callable[[dict[str, dict[str, str]]], object]) -> None:
    path = directory / "manifest.json"
    tree = json.loads(path.read_text())
    alter({entry["name"]: entry for entry in tree["obligations"]})
    path.write_text(json.dumps(tree))


def swap(directory: Path, name: str, old: str, new: str) -> None:
    """Changes a formula, with its hash in the manifest."""
    path = directory / f"{name}.smt2"
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))
    change(directory, lambda entries: entries[name].update(sha256=hash_of(path.read_bytes())))


def test_what_is_written(made: Path) -> None:
    tree = json.loads((made / "manifest.json").read_text())
    assert (tree["format"], tree["version"]) == ("bpf-devirt proof artefacts", 1)
    assert tree["releases"][0]["version"].startswith("7.3")
    assert tree["abis"] == ["x86_64"]
    assert tree["tools"].keys() == {"bpf-devirt", "z3-solver"}
    assert any("proofs/smtlib.py" in text for text in tree["trusted"])
    entries = {entry["name"]: entry for entry in tree["obligations"]}
    parts = ("target", "arguments", "r0", "callee_saved", "memory", "kernel", "callbacks")
    expected = {f"{HASH}/{part}": "unsat" for part in parts}
    expected |= {REACH: "sat", f"{HASH}/reach/direct/1": "sat"}
    assert {name: entry["expected"] for name, entry in entries.items()} == expected
    assert {entry["verdict"] for entry in entries.values()} == {"proved"}
    assert entries[R0]["statement"] == "all 64 bits of r0 are the same behind both calls"
    for name, entry in entries.items():
        data = (made / entry["file"]).read_bytes()
        assert entry["file"] == f"{name}.smt2"
        assert entry["sha256"] == hash_of(data)
        assert data.decode().startswith(f"; obligation: {name}\n")
        assert f"(set-info :status {entry['expected']})\n(set-logic QF_UFBV)\n" in data.decode()
        assert data.endswith(b"(check-sat)\n")


def test_refuted_claims_and_holes(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert write(out, "--kernel", "6.1", "--match", HASH.replace("7.3", "6.1")) == 1
    entries = {entry["name"]: entry for entry in json.loads((out / "manifest.json").read_text())["obligations"]}
    assert entries[R0.replace("7.3", "6.1")]["expected"] == "sat"
    assert main(["recheck", str(out), "--solver", "z3"]) == 0
    assert write(out, "--kernel", "4.19", "--match", "dispatch/4.19/x86_64/sockhash") == 3
    holes = [entry for entry in json.loads((out / "manifest.json").read_text())["obligations"] if not entry["file"]]
    assert len(holes) == 3
    assert all(entry["reason"] and entry["verdict"] == "unsupported" for entry in holes)


def test_axioms_come_with_what_rests_on_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert write(out, "--kernel", "7.3", "--claim", "callback", "--match", "callback/7.3/array/key") == 0
    entries = json.loads((out / "manifest.json").read_text())["obligations"]
    assert [(entry["name"], entry["over"], entry["logic"]) for entry in entries] == [
        ("callback/7.3/array/key", "products", "QF_UFBV"),
        ("products/shift_is_product", "words", "QF_UFBV"),
        ("products/commutes", "words", "QF_UFBV"),
        ("products/low_half", "words", "QF_UFBV"),
        ("products/monotone", "integers", "QF_NIA"),
    ]
    capsys.readouterr()
    assert main(["recheck", str(out), "--solver", "z3"]) == 0
    assert "5 obligations, 5 formulas: 5 agree, 0 disagree, 0 open" in capsys.readouterr().out


def files(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_two_runs_are_the_same_bytes_whatever_else_was_asked(made: Path, tmp_path: Path) -> None:
    assert write(tmp_path / "again") == 0
    assert files(tmp_path / "again") == files(made)
    assert write(tmp_path / "more", "--kernel", "7.3", "--match", "dispatch/*/hash/*") == 0
    more = files(tmp_path / "more")
    assert {name: more[name] for name in files(made) if name != "manifest.json"}.items() <= files(made).items()


def test_many_releases_in_one_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert (
        write(out, "--kernel", "7.3,6.1", "--arch", "x86_64,s390x", "--match", "dispatch/*/*/hash/map_update_elem") == 1
    )
    tree = json.loads((out / "manifest.json").read_text())
    assert [release["name"] for release in tree["releases"]] == ["6.1", "7.3"]
    assert tree["abis"] == ["x86_64", "s390x"]
    assert len(tree["obligations"]) == 4 * 9
    capsys.readouterr()
    assert main(["recheck", str(out), "--solver", "z3", "--match", "dispatch/6.1"]) == 0
    assert "18 obligations, " in capsys.readouterr().out


@pytest.mark.parametrize("solver", ["z3", "bitwuzla", "cvc5"])
def test_another_solver_agrees(solver: str, made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if solver != "z3":
        pytest.importorskip(solver)
    assert main(["recheck", str(made), "--solver", solver]) == 0
    out = capsys.readouterr().out
    assert f"asked: {solver} " in out
    assert out.endswith("9 obligations, 9 formulas: 9 agree, 0 disagree, 0 open\n")


def test_a_formula_that_became_satisfiable_is_named(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (copy / f"{R0}.smt2").read_text()
    last = [line for line in text.splitlines() if line.startswith("(assert")][-1]
    swap(copy, R0, last, "(assert true)")
    assert main(["recheck", str(copy), "--solver", "z3"]) == 1
    out = capsys.readouterr().out
    assert f"DISAGREES: {R0}: expected unsat, found sat\n" in out
    assert "8 agree, 1 disagree, 0 open" in out


def test_a_formula_that_became_unsatisfiable_is_named(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    swap(copy, REACH, "(check-sat)", "(assert false)\n(check-sat)")
    assert main(["recheck", str(copy), "--solver", "z3"]) == 1
    assert f"DISAGREES: {REACH}: expected sat, found unsat\n" in capsys.readouterr().out


@pytest.mark.parametrize(("name", "answer"), [(R0, "sat"), (REACH, "unsat")])
def test_another_expected_answer_is_named(
    name: str, answer: str, copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change(copy, lambda entries: entries[name].update(expected=answer))
    assert main(["recheck", str(copy), "--solver", "z3", "--match", HASH]) == 1
    assert f"DISAGREES: {name}: expected {answer}, found " in capsys.readouterr().out


def test_what_we_did_not_know_stays_open(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change(copy, lambda entries: entries[R0].update(expected="unknown", verdict="unknown"))
    assert main(["recheck", str(copy), "--solver", "z3"]) == 3
    assert f"open: {R0}: expected unknown, found unsat\n" in capsys.readouterr().out


def test_a_solver_that_cannot_read_a_formula_leaves_it_open(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    swap(copy, R0, "(check-sat)", "(assert (no-such-function))\n(check-sat)")
    assert main(["recheck", str(copy), "--solver", "z3"]) == 3
    assert f"open: {R0}: expected unsat, found unknown: Z3Exception" in capsys.readouterr().out


def to_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def to_link(path: Path) -> None:
    path.unlink()
    path.symlink_to("/etc/passwd")


def listed_outside(entries: dict[str, dict[str, str]]) -> None:
    entries[R0].update(file="../x.smt2")


BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "a changed file": (lambda d: (d / f"{R0}.smt2").write_text(";\n"), f"{R0}.smt2: expected the bytes"),
    "a changed hash": (lambda d: change(d, lambda e: e[R0].update(sha256="0" * 64)), f"{R0}.smt2: expected the bytes"),
    "a missing file": (lambda d: (d / f"{TARGET}.smt2").unlink(), f"{TARGET}.smt2: cannot be read: No such file"),
    "a folder": (lambda d: to_folder(d / f"{R0}.smt2"), "expected a file"),
    "a path outside": (lambda d: change(d, listed_outside), "../x.smt2: expected a path in the directory"),
    "an absolute path": (lambda d: change(d, lambda e: e[R0].update(file="/etc/passwd")), "expected a path in"),
    "a link outside": (lambda d: to_link(d / f"{R0}.smt2"), "not a link out of it"),
    "an unknown answer": (lambda d: change(d, lambda e: e[R0].update(expected="maybe")), ".expected: expected one of"),
    "a proof of sat": (lambda d: change(d, lambda e: e[REACH].update(proof="p")), "a proof with unsat alone"),
    "one file twice": (lambda d: change(d, lambda e: e[R0].update(file=f"{TARGET}.smt2")), "once"),
    "one name twice": (lambda d: change(d, lambda e: e[R0].update(name=TARGET)), f"expected obligation {TARGET} once"),
    "a member more": (lambda d: change(d, lambda e: e[R0].update(more="x")), "expected only"),
    "a number": (lambda d: change(d, lambda e: e[R0].update(origin=3)), "expected a string, found 3"),  # type: ignore[call-overload]
    "no manifest": (lambda d: (d / "manifest.json").unlink(), "manifest.json: cannot be read"),
    "no JSON": (lambda d: (d / "manifest.json").write_bytes(b"\xff\x00{"), "manifest.json: expected JSON"),
    "deep JSON": (lambda d: (d / "manifest.json").write_text("[" * 100_000), "manifest.json: expected JSON"),
    "another JSON": (lambda d: (d / "manifest.json").write_text("[]"), "$: expected an object"),
    "another format": (lambda d: (d / "manifest.json").write_text('{"format": 1}'), "$.format: expected"),
    "a later version": (
        lambda d: (d / "manifest.json").write_text('{"format": "bpf-devirt proof artefacts", "version": 2}'),
        "$.version: expected 1",
    ),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_directory_is_one_line(what: str, copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    damage, told = BROKEN[what]
    damage(copy)
    assert main(["recheck", str(copy), "--solver", "z3"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert told in captured.err


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["--match", "nothing/*", "--solver", "z3"], "--match: nothing/*: expected a glob that fits an obligation"),
        ([], "expected --solver (cvc5, bitwuzla, z3), or --proofs, or both"),
    ],
)
def test_bad_usage(given: list[str], told: str, made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recheck", str(made), *given]) == 2
    assert told in capsys.readouterr().err


def test_a_foreign_folder_is_left_alone(copy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "letter.txt").write_text("dear")
    (copy / "letter.txt").write_text("dear")
    taken = tmp_path / "taken"
    taken.write_text("")
    link = tmp_path / "link"
    link.symlink_to(copy)
    for directory in (foreign, copy, taken, link, tmp_path / "no" / "folder"):
        before = files(tmp_path)
        assert write(directory) == 2
        assert files(tmp_path) == before
        assert capsys.readouterr().err.count("\n") == 1
    (copy / "letter.txt").unlink()
    (copy / f"{R0}.smt2").write_text("changed")
    assert write(copy) == 0  # ours: written anew
    assert main(["recheck", str(copy), "--solver", "z3"]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy", "foreign", "link", "taken"]


@pytest.mark.parametrize("given", [["--proof"], ["--smt2", "x", "a.o"], ["--smt2", "x", "--tree", "y"]])
def test_smt2_and_what_does_not_go_with_it(
    given: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["check", *given]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("inline/7.3/array/r0", "inline/7.3/array/r0"),
        ("a/../b", "a/%../b"),
        ("/etc/passwd", "%/etc/passwd"),
        ("a//b", "a/%/b"),
        (".hidden/-x", "%.hidden/%-x"),
        ("a b|c&d!e\0\n", "a%20b%7Cc%26d%21e%00%0A"),
        ("50%", "50%25"),
        ("ü", "%C3%BC"),
    ],
)
def test_names_as_paths(name: str, path: str) -> None:
    assert path_of(name) == path


def test_long_names_as_paths() -> None:
    one, two = path_of("x" * 300 + "1"), path_of("x" * 300 + "2")
    assert one != two
    assert len(one) == len(two) < 200


def test_proofs_are_checked_without_a_solver(proved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recheck", str(proved), "--proofs"]) == 0
    out = capsys.readouterr().out
    assert "2 without a proof to check" in out
    assert "7 obligations, 7 formulas, 7 proofs: 7 agree, 0 disagree, 0 open" in out
    assert any("proofs/drup.py" in text for text in json.loads((proved / "manifest.json").read_text())["trusted"])


def damaged(directory: Path, name: str, alter: Callable[[list[str]], list[str]]) -> None:
    def put(entries: dict[str, dict[str, str]]) -> None:
        path = directory / entries[name]["proof"]
        lines = path.read_text().splitlines()
        assert lines
        path.write_text("".join(f"{line}\n" for line in alter(lines)))
        entries[name]["proof_sha256"] = hash_of(path.read_bytes())

    change(directory, put)


@pytest.mark.parametrize(
    ("alter", "told"),
    [
        (lambda lines: [], "line 0: the proof ends"),
        (lambda lines: lines[:-1], "the proof ends, and no contradiction is reached"),
        (lambda lines: lines[-1:], "line 1: the clause does not follow"),
        (lambda lines: ["0"], "line 1: the clause does not follow"),
        (lambda lines: ["2 0", *lines], "line 1: the clause does not follow"),
        (lambda lines: [*lines[:3], "junk", *lines[3:]], "line 4: expected numbers"),
    ],
)
def test_a_damaged_proof_is_refused(
    alter: Callable[[list[str]], list[str]], told: str, proved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copied = Path(shutil.copytree(proved, tmp_path / "copy"))
    damaged(copied, R0, alter)
    assert main(["recheck", str(copied), "--proofs", "--match", R0]) == 1
    out = capsys.readouterr().out
    assert f"DISAGREES: {R0}: expected unsat, its proof is refused: " in out
    assert told in out


def test_a_proof_of_another_formula_is_refused(
    proved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copied = Path(shutil.copytree(proved, tmp_path / "copy"))
    text = (copied / f"{R0}.smt2").read_text()
    last = [line for line in text.splitlines() if line.startswith("(assert")][-1]
    swap(copied, R0, last, "(assert true)")
    assert main(["recheck", str(copied), "--proofs"]) == 1
    assert f"DISAGREES: {R0}: expected unsat, its proof is refused" in capsys.readouterr().out


@pytest.mark.parametrize("given", [["--proofs"], ["--solver", "z3"]])
def test_what_time_does_not_suffice_for_stays_open(
    given: list[str], proved: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["recheck", str(proved), *given, "--match", R0, "--timeout", "0.001"]) == 3
    out = capsys.readouterr().out
    assert f"open: {R0}: expected unsat, " in out
    assert "time: 0.001 s" in out


def sleeping(seconds: float) -> str:
    time.sleep(seconds)
    return "woke"


def test_work_is_killed_when_its_time_is_over() -> None:
    started = time.monotonic()
    found = {done.number: done for done in each(sleeping, [600.0, 0.0, 600.0, 0.1], 2, 3.0)}
    assert time.monotonic() - started < 60
    assert {number: (done.answer, done.failed) for number, done in found.items()} == {
        0: ("", "time: 3 s"),
        1: ("woke", ""),
        2: ("", "time: 3 s"),
        3: ("woke", ""),
    }


def dying(status: int) -> str:
    if status == 1:
        os.abort()
    if status == 2:
        raise InputError("a", "b", "c\nd")
    if status == 3:
        return str(len(bytes(8 << 30)))
    return "fine"


def test_work_that_dies_is_told() -> None:
    found = {done.number: done for done in each(dying, [0, 1, 2, 3, 0], 1, 60.0)}
    assert {number: (done.answer, done.failed) for number, done in found.items()} == {
        0: ("fine", ""),
        1: ("", "its process ended (-6)"),
        2: ("", "InputError: a: b: c d"),
        3: ("", "memory"),
        4: ("fine", ""),
    }
