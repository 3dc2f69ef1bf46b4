"""check --tree: what a patch to a kernel tree changes in the verdicts."""

import json
from pathlib import Path

import pytest
from kernel_mini_tree import write_tree

from model.kernel.data import dump_release
from model.kernel.extract import extract
from proofs.cli import main
from proofs.compare import Change, bare, compare
from proofs.report.record import Record

BAG = "kernel/bpf/bag.c"
INT = [
    (BAG, "static long bag_put(", "static int bag_put("),
]


@pytest.fixture
def base(tmp_path: Path) -> str:
    place = tmp_path / "base.json"
    place.write_text(dump_release(extract(write_tree(tmp_path / "base"))), encoding="utf-8")
    return str(place)


def record(name: str, verdict: str) -> Record:
    return Record(name, "dispatch", verdict, "what")


def test_changes_are_told_apart() -> None:
    rows = {
        "same": ("proved", "proved"),
        "worse": ("proved", "refuted"),
        "open": ("proved", "unknown"),
        "better": ("refuted", "proved"),
        "other": ("refuted", "unsupported"),
        "as-bad": ("refuted", "refuted"),
    }
    before = [record(f"dispatch/1/{name}", one) for name, (one, _) in rows.items()]
    after = [record(f"dispatch/2/{name}", two) for name, (_, two) in rows.items()]
    after += [record(f"dispatch/2/new-{verdict}", verdict) for verdict in ("proved", "refuted", "unknown")]
    found = compare([*before, record("dispatch/1/gone", "proved")], after)
    assert {one.name.partition("/")[2]: one.change.value for one in found} == {
        "same": "as before",
        "worse": "newly refuted",
        "open": "no longer proved",
        "better": "newly proved",
        "other": "changed otherwise",
        "as-bad": "as before",
        "new-proved": "new, proved",
        "new-refuted": "new, refuted",
        "new-unknown": "new, open",
        "gone": "gone",
    }
    assert bare("inline/6.1/hash/map_lookup_elem") == "inline/hash/map_lookup_elem"
    assert Change("gone") is Change.GONE


def test_a_tree_that_changes_nothing(base: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--tree", str(tmp_path / "base"), "--against", base, "--claim", "dispatch"]) == 0
    printed = capsys.readouterr().out
    assert "claims: " in printed
    assert "as before" in printed
    assert "rows of the tree: 0 differ" in printed


def test_an_int_operation_is_newly_refuted(base: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tree = write_tree(tmp_path / "patched", *INT)
    asked = ["check", "--tree", str(tree), "--against", base, "--claim", "dispatch"]
    assert main(asked) == 1
    printed = capsys.readouterr().out
    assert "newly refuted: dispatch/x86_64/bag/" in printed
    assert "  Reason: the operation returns 32 bits (signed)" in printed
    assert main([*asked, "--arch", "riscv64"]) == 0  # there the callee extends
    capsys.readouterr()
    assert main([*asked, "--format", "json"]) == 1
    names = [r["name"] for r in json.loads(capsys.readouterr().out)["records"] if r["verdict"] == "refuted"]
    known = tmp_path / "known.toml"
    rows = "".join(f'[[known]]\nname = "{name}"\nreason = "on purpose"\n' for name in names)
    known.write_text(rows, encoding="utf-8")
    assert main([*asked, "--baseline", str(known)]) == 0


def test_what_was_refuted_before_does_not_fail(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tree = write_tree(tmp_path / "patched", *INT)
    place = tmp_path / "int.json"
    place.write_text(dump_release(extract(tree)), encoding="utf-8")
    assert main(["check", "--tree", str(tree), "--against", str(place), "--claim", "dispatch"]) == 0
    capsys.readouterr()
    fixed = write_tree(tmp_path / "fixed")
    assert main(["check", "--tree", str(fixed), "--against", str(place), "--claim", "dispatch"]) == 0
    assert "newly proved: dispatch/x86_64/bag/" in capsys.readouterr().out


def test_a_missing_baseline_is_tolerated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tree = write_tree(tmp_path / "tree")
    asked = ["check", "--tree", str(tree), "--against", str(tmp_path / "none.json"), "--claim", "dispatch"]
    assert main(asked) == 0
    printed = capsys.readouterr().out
    assert "none.json is not there, so that nothing can get worse" in printed
    assert "new, refuted: dispatch/x86_64/box/" in printed


def test_a_new_map_type_that_is_refuted_fails(base: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Against a release without the type: here the one with `bag` taken from its file."""
    value = json.loads(Path(base).read_text(encoding="utf-8"))
    del value["map_types"]["bag"]
    for rows in value["accepted"].values():
        rows.pop("bag", None)
    Path(base).write_text(json.dumps(value), encoding="utf-8")
    tree = write_tree(tmp_path / "patched", *INT)
    assert main(["check", "--tree", str(tree), "--against", base, "--claim", "dispatch"]) == 1
    assert "new, refuted: dispatch/x86_64/bag/" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["--against", "6.1"], "--against: expected --tree TREE with it"),
        (["--tree", "/nowhere"], "/nowhere: "),
        (["--tree", "/nowhere", "x.o"], "--tree: expected neither FILE nor --reproduce with it"),
    ],
)
def test_bad_usage_is_one_line(given: list[str], expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", *given]) == 2
    said = capsys.readouterr().err
    assert expected in said
    assert said.count("\n") == 1
