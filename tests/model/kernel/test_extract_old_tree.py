"""A tree in the shape of 4.19 (`old_tree/`), and damaged trees: read, or one clear line; never guessed."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from model.errors import InputError
from model.kernel.abi import ABIS
from model.kernel.extract import extract
from model.kernel.release import Emit, Name, Release
from proofs.check_release import check
from proofs.cli import main
from proofs.outcome import word
from proofs.solver import Solver

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
SHELF, VERIFIER, HELPERS = "kernel/bpf/shelf.c", "kernel/bpf/verifier.c", "kernel/bpf/helpers.c"
UAPI, TYPES, BPF = "include/uapi/linux/bpf.h", "include/linux/bpf_types.h", "include/linux/bpf.h"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return Path(shutil.copytree(HERE / "old_tree", tmp_path / "tree"))


def edit(tree: Path, file: str, old: str, new: str) -> None:
    text = (tree / file).read_text()
    assert text.count(old) == 1, (file, old)
    (tree / file).write_text(text.replace(old, new))


def said(release: Release, arch: str = "x86_64") -> dict[str, str]:
    cells = check(release, ABIS[arch], Solver())
    return {f"{c.row.map_type}/{c.row.helper}": word(c.verdict) for c in cells if c.verdict is not None}


def test_all_of_it_is_read(tree: Path) -> None:
    release = extract(tree)
    assert (release.name, release.version, release.insn_buf, release.poison_for_each) == ("4.19", "4.19.7-old", 16, "")
    assert (release.unread, release.holes) == ((), {})
    assert {name: (row.number, row.ops) for name, row in release.map_types.items()} == {
        "shelf": (1, "shelf_ops"),
        "chest": (2, "chest_ops"),
        "port": (3, "port_ops"),
    }
    assert release.helper_ids == {"map_lookup_elem": 1, "map_update_elem": 2, "map_delete_elem": 3, "tail_call": 4}
    rows = {row.helper: row for row in release.rewrites}
    assert list(rows) == ["map_lookup_elem", "map_update_elem", "map_delete_elem"]
    demanded = rows["map_delete_elem"].prototype
    assert demanded is not None
    assert (demanded.result.c, demanded.result.bits, demanded.result.signed) == ("int", 32, True)
    assert (rows["map_update_elem"].function, rows["map_update_elem"].line) == ("fixup_bpf_calls", 111)
    assert release.slots["map_gen_lookup"].result.c == "u32"
    call = release.gen_lookup["chest_gen"].body[0]
    assert isinstance(call, Emit)  # BPF_EMIT_CALL(BPF_CAST_CALL(f)), f by any name
    assert (call.macro, call.arguments) == ("BPF_EMIT_CALL", (Name("chest_lookup"),))
    assert release.percpu_insn == frozenset()


def test_int_results_are_refuted_where_nobody_extends(tree: Path) -> None:
    release = extract(tree)
    words = {f"{kind}/map_{name}_elem": "refuted" for kind in ("shelf", "chest") for name in ("update", "delete")}
    lookups = {f"{kind}/map_lookup_elem": "proved" for kind in ("shelf", "chest")}
    assert said(release) == words | lookups
    assert set(said(release, "riscv64").values()) == {"proved"}


def test_a_device_map_takes_no_lookup_here(tree: Path) -> None:
    release = extract(tree)
    assert (
        release.accepted["map_lookup_elem"]["port"].reason == "check_map_func_compatibility, kernel/bpf/verifier.c:19"
    )


def test_crlf(tree: Path) -> None:
    """A tree from an archive with other line ends is the same tree, lines included."""
    before = extract(tree)
    for file in tree.rglob("*"):
        if file.is_file():
            file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    assert extract(tree) == before


def test_an_unknown_map_type_comes_by_itself(tree: Path) -> None:
    edit(tree, UAPI, "\tBPF_MAP_TYPE_PORT,\n", "\tBPF_MAP_TYPE_PORT,\n\tBPF_MAP_TYPE_CELLAR,\n")
    edit(
        tree,
        TYPES,
        "BPF_MAP_TYPE(BPF_MAP_TYPE_SHELF",
        "BPF_MAP_TYPE(BPF_MAP_TYPE_CELLAR, cellar_ops)\nBPF_MAP_TYPE(BPF_MAP_TYPE_SHELF",
    )
    (tree / "kernel/bpf/cellar.c").write_text(
        "static void *cellar_lookup(struct bpf_map *map, void *key) { return NULL; }\n"
        "static long cellar_delete(struct bpf_map *map, void *key) { return 0; }\n"
        "const struct bpf_map_ops cellar_ops = {\n"
        "\t.map_lookup_elem = cellar_lookup,\n\t.map_delete_elem = cellar_delete,\n};\n"
    )
    release = extract(tree)
    assert release.map_types["cellar"].number == 4
    assert release.operation("cellar", "map_update_elem") is None
    words = said(release)
    assert words["cellar/map_lookup_elem"] == "proved"
    assert words["cellar/map_update_elem"] == "refuted"  # accepted, and the slot is NULL


def test_a_new_helper_through_a_new_slot(tree: Path) -> None:
    """Not rewritten: it is there, and says so."""
    edit(
        tree,
        BPF,
        "\tint (*map_delete_elem)",
        "\tint (*map_stir)(struct bpf_map *map, u32 times);\n\tint (*map_delete_elem)",
    )
    edit(tree, UAPI, "\tFN(tail_call),", "\tFN(tail_call),\t\\\n\tFN(map_stir),")
    edit(
        tree,
        "net/core/filter.c",
        "\tdefault:",
        "\tcase BPF_FUNC_map_stir:\n\t\treturn &bpf_map_stir_proto;\n\tdefault:",
    )
    edit(tree, SHELF, "\t.map_gen_lookup = shelf_gen,", "\t.map_gen_lookup = shelf_gen,\n\t.map_stir = shelf_stir,")
    with (tree / SHELF).open("a") as stream:
        stream.write("static int shelf_stir(struct bpf_map *map, u32 times)\n{\n\treturn 0;\n}\n")
    with (tree / HELPERS).open("a") as stream:
        stream.write(
            "BPF_CALL_2(bpf_map_stir, struct bpf_map *, map, u32, times)\n{\n"
            "\treturn map->ops->map_stir(map, times);\n}\n"
            "const struct bpf_func_proto bpf_map_stir_proto = {\n\t.func = bpf_map_stir,\n"
            "\t.arg1_type = ARG_CONST_MAP_PTR,\n\t.arg2_type = ARG_ANYTHING,\n};\n"
        )
    release = extract(tree)
    helper = release.helpers["map_stir"]
    assert (helper.id, helper.slot, helper.arguments) == (5, "map_stir", (0, 1))
    assert release.rewrite("map_stir") is None
    stir = release.operation("shelf", "map_stir")
    assert stir is not None
    assert stir.prototype.params[1].bits == 32
    assert release.holes == {}


MISSING = {
    "Makefile": "Makefile: expected a kernel source tree with this file",
    BPF: f"{BPF}: expected a kernel source tree with this file",
    TYPES: f"{TYPES}: expected a kernel source tree with this file",
    UAPI: f"{UAPI}: expected a kernel source tree with this file",
    VERIFIER: f"{VERIFIER}: expected a pass that calls ops->map_gen_lookup",
    HELPERS: f"{HELPERS}: expected BPF_CALL_n bodies that call map->ops",
}


@pytest.mark.parametrize("file", MISSING)
def test_without_a_file_that_decides(tree: Path, capsys: pytest.CaptureFixture[str], file: str) -> None:
    (tree / file).unlink()
    assert main(["extract", str(tree)]) == 2
    out, error = capsys.readouterr()
    assert (out, error.count("\n")) == ("", 1)
    assert MISSING[file] in error


def test_half_a_tree(tree: Path) -> None:
    """Without the tables nothing of their types is claimed."""
    (tree / SHELF).unlink()
    release = extract(tree)
    assert {f"type:{kind}" for kind in ("shelf", "chest", "port")} <= release.holes.keys()
    assert set(said(release).values()) == {"unsupported"}


def test_half_a_file(tree: Path) -> None:
    raw = (tree / HELPERS).read_bytes()
    (tree / HELPERS).write_bytes(raw[: len(raw) // 2])
    release = extract(tree)
    assert {"helper:map_update_elem", "helper:map_delete_elem"} <= release.holes.keys()
    assert any(line.startswith(f"{HELPERS}:14: a bracket is not closed") for line in release.unread)
    assert said(release)["shelf/map_update_elem"] == "unsupported"


def _loops(tree: Path) -> None:
    (tree / "kernel/bpf/self").symlink_to("..")
    (tree / "net/up").symlink_to(tree)
    (tree / "kernel/round.c").symlink_to("round.c")


def _odd_files(tree: Path) -> None:
    (tree / "kernel/odd.c").mkdir()
    (tree / "kernel/bpf/noise.c").write_bytes(bytes(range(256)) * 300 + b"struct bpf_map_ops")
    os.mkfifo(tree / "kernel/bpf/pipe.c")


@pytest.mark.parametrize("damage", [_loops, _odd_files])
def test_what_is_no_source_is_passed_by(tree: Path, damage: Callable[[Path], None]) -> None:
    before = extract(tree)
    damage(tree)
    assert extract(tree) == before


@pytest.mark.parametrize("place", ["", "README.md", "nowhere"])
def test_no_tree(tmp_path: Path, place: str) -> None:
    (tmp_path / "README.md").write_text("a tree of something else\n")
    with pytest.raises(InputError, match=r"expected a (directory with a )?kernel source tree"):
        extract(tmp_path / place)


@pytest.mark.parametrize("place", [SHELF, "kernel/bpf", "net"])
def test_what_may_not_be_read(place: str) -> None:
    """As a user who may not: one line with the path, not half a release."""
    command = [sys.executable, "-m", "proofs", "extract"]
    if os.geteuid() == 0:
        setpriv = shutil.which("setpriv")
        if setpriv is None:
            pytest.skip("root may read everything, and setpriv is not there")
        command = [setpriv, "--reuid=65534", "--clear-groups", *command]
    with tempfile.TemporaryDirectory() as room:
        os.chmod(room, 0o755)
        tree = shutil.copytree(HERE / "old_tree", Path(room) / "tree")
        os.chmod(tree / place, 0)
        done = subprocess.run([*command, str(tree)], capture_output=True, text=True, cwd=ROOT, timeout=60)
        os.chmod(tree / place, 0o755)
    if "No module named" in done.stderr or "can't open" in done.stderr or "Permission denied" in done.stderr[:40]:
        pytest.skip("the other user cannot read the environment")
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "cannot be read" in done.stderr


def test_nothing_in_the_notes_steers_a_terminal(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edit(tree, SHELF, "\t*insn++ = BPF_ALU64_IMM(BPF_MUL, BPF_REG_0, elem_size);", '\t\x1b[31m("\x1b[2J");')
    assert main(["extract", str(tree), "-o", str(tree / "out.json")]) == 0
    assert "\x1b" not in "".join(capsys.readouterr())
    assert "\x1b" not in (tree / "out.json").read_text()
