"""What two releases say differently, planted by hand; and `extract --check` on mini trees with one fault each."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from facts_mini import table, write
from kernel_mini_tree import write_tree

from model.kernel.data import dump_release, load_release
from model.kernel.extract import extract
from model.kernel.release import Release
from model.kernel.release_facts import SECTIONS, compare
from proofs.cli import main

UAPI, TYPES, BPF = "include/uapi/linux/bpf.h", "include/linux/bpf_types.h", "include/linux/bpf.h"
BOX, BAG = "kernel/bpf/box.c", "kernel/bpf/bag.c"
HELPERS, VERIFIER, FIXUPS = "kernel/bpf/helpers.c", "kernel/bpf/verifier.c", "kernel/bpf/fixups.c"
Edit = tuple[str, str, str]

FOUR = "(struct bpf_map *, void *, void *, u64)"
GET = "bpf_map_get(struct bpf_map *, void *), id 1, is (unsigned long) map_get_elem of arguments 1, 2"
CASE = "\t\t\tcase BPF_FUNC_map_put:\n\t\t\t\tinsn->imm = BPF_CALL_IMM(ops->map_put_elem);\n\t\t\t\tgoto next_insn;\n"
JUMP = "BPF_JMP_IMM(BPF_JGE, ret, box->map.max_entries, 2)"
BAGS = "BPF_MAP_TYPE(BPF_MAP_TYPE_BAG, bag_ops)"
# Each fault alone, and what must be told of it (in whole lines; white space folded).
FAULTS: tuple[tuple[str, tuple[Edit, ...], tuple[str, ...]], ...] = (
    (
        "a swapped slot of a table",
        ((BOX, "\t.map_get_elem = box_get,", "\t.map_get_elem = bag_get,"),),
        (
            "changed slot box_ops.map_get_elem: box_get -> bag_get",
            "removed prototype box_get: void * (struct bpf_map *, void *)",
        ),
    ),
    (
        "a helper wired to another slot",
        ((HELPERS, "map->ops->map_get_elem(map, key)", "map->ops->map_put_elem(map, key)"),),
        (f"changed helper map_lookup_elem: {GET} -> {GET.replace('map_get_elem', 'map_put_elem')}",),
    ),
    (
        "a parameter that became narrow",
        ((BOX, "\tvoid *value, u64 flags)", "\tvoid *value, u32 flags)"),),
        (
            "changed prototype box_put: long (struct bpf_map *, void *, void *, u64) -> "
            "long (struct bpf_map *, void *, void *, u32)",
        ),
    ),
    (
        "a long that turned int",
        ((BAG, "static long bag_put", "static int bag_put"),),
        (
            "changed prototype bag_put: long (struct bpf_map *, void *, void *, u64) -> "
            "int (struct bpf_map *, void *, void *, u64)",
        ),
    ),
    (
        "an extra map type",
        (
            (UAPI, "\t__MAX_BPF_MAP_TYPE", "\tBPF_MAP_TYPE_SACK,\n\t__MAX_BPF_MAP_TYPE"),
            (TYPES, BAGS, BAGS + "\n" + BAGS.replace("TYPE_BAG", "TYPE_SACK")),
        ),
        ("added type sack: number 5, bag_ops", "added acceptance sack/map_put: accepted"),
    ),
    (
        "a map type without operations",
        ((TYPES, "BPF_MAP_TYPE(BPF_MAP_TYPE_LOCKED, locked_ops)\n", ""),),
        ("changed type locked: number 4, locked_ops -> number 4, no operations",),
    ),
    (
        "a rewrite that is gone",
        ((FIXUPS, CASE, ""), (FIXUPS, "insn->imm == BPF_FUNC_map_put ||", "")),
        ("removed rewrite map_put: becomes map_put_elem, long (struct bpf_map *, void *, void *, u64)",),
    ),
    (
        "a rewrite to another slot",
        ((FIXUPS, "BPF_CALL_IMM(ops->map_get_elem)", "BPF_CALL_IMM(ops->map_put_elem)"),),
        (
            "changed rewrite map_lookup_elem: becomes map_get_elem, no prototype demanded -> "
            f"becomes map_put_elem, long {FOUR}",
        ),
    ),
    (
        "a pair that is accepted no more",
        ((VERIFIER, "\tcase BPF_MAP_TYPE_BAG:\n", "\tcase BPF_MAP_TYPE_BOX:\n\tcase BPF_MAP_TYPE_BAG:\n"),),
        ("changed acceptance box/for_each_map_elem: accepted -> refused",),
    ),
    (
        "another sequence",
        ((BOX, JUMP, JUMP.replace("JGE", "JGT")),),
        ("changed sequence box_gen:",),
    ),
    (
        "a smaller buffer",
        (("include/linux/bpf_verifier.h", "INSN_BUF_SIZE 24", "INSN_BUF_SIZE 16"),),
        ("changed pass limit of a patch: 24 instructions -> 16 instructions",),
    ),
    (
        "another number",
        ((UAPI, "FN(map_put, 2, ##ctx)", "FN(map_put, 3, ##ctx)"),),
        ("changed helper id map_put: 2 -> 3",),
    ),
    (
        "a member of another type",
        ((BPF, "\tlong (*map_for_each_callback)", "\tint (*map_for_each_callback)"),),
        (
            "changed member bpf_map_ops.map_for_each_callback: long (struct bpf_map *, bpf_callback_t, void *, u64) -> "
            "int (struct bpf_map *, bpf_callback_t, void *, u64)",
        ),
    ),
    (
        "a JIT that cannot",
        (("arch/riscv/net/jit.c", "return true;", "return false;"),),
        ("removed JIT riscv64: per-CPU instructions",),
    ),
    (
        "poison that is not looked at",
        ((FIXUPS, "\t\t\tif (bpf_map_ptr_poisoned(aux))\n\t\t\t\tgoto patch_call_imm;\n", ""),),
        ("added hole condition:poison: not read",),
    ),
)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("base") / "base.json"
    place.write_text(dump_release(extract(write_tree(place.parent / "tree"))), encoding="utf-8")
    return place


def told(out: str) -> list[str]:
    return [" ".join(line.split()) for line in out.splitlines()]


def test_no_differences(base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Blank lines and other places are none."""
    moved = write_tree(tmp_path, (BOX, "static void *box_get", "\n\n\nstatic void *box_get"))
    assert main(["extract", str(moved), "--check", str(base)]) == 0
    assert told(capsys.readouterr().out) == [f"Linux 9.4.2 against {base} (Linux 9.4.2): no differences"]


@pytest.mark.parametrize(("edits", "lines"), [row[1:] for row in FAULTS], ids=[row[0] for row in FAULTS])
def test_a_planted_difference_is_told(
    base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], edits: tuple[Edit, ...], lines: tuple[str, ...]
) -> None:
    assert main(["extract", str(write_tree(tmp_path, *edits)), "--check", str(base)]) == 1
    out = told(capsys.readouterr().out)
    for line in lines:
        assert any(found.startswith(line) for found in out), out
    found = re.search(r": (\d+) differences?$", out[-1])
    assert found
    assert int(found[1]) == len(out) - 1


def test_a_long_value_is_shown_from_where_it_differs() -> None:
    old = load_release("6.1")
    wrong = {**old.bodies, "array_map_lookup_elem": replace(old.bodies["array_map_lookup_elem"], params=())}
    rows = compare(old, replace(old, bodies=wrong)).differences
    assert [(row.kind, row.name) for row in rows] == [("body", "array_map_lookup_elem")]
    assert all(text is not None and len(text) < 170 for text in (rows[0].old, rows[0].new))


def test_every_section_can_differ() -> None:
    """Each section has rows in 6.12, but for holes; each is missed where it is gone, and none differs from itself."""
    old = load_release("6.12")
    names = "map_types ops functions slots helpers helper_ids accepted gen_lookup bodies layout returns checked"
    for name in names.split():
        gone: dict[str, Any] = {name: {}}
        assert compare(old, replace(old, **gone)).differences, name
    assert not compare(old, old).differences
    assert set(SECTIONS) >= {"type", "slot", "prototype", "helper", "acceptance", "rewrite", "sequence", "body"}


def test_what_a_release_from_no_tree_lacks_is_no_difference() -> None:
    found = compare(load_release("6.10"), load_release("6.12"))
    assert [str(row) for row in found.differences] == [
        "changed  pass limit of a patch: 16 instructions -> 32 instructions"
    ]
    assert found.skipped["member"] > 20
    assert compare(load_release("6.12"), load_release("6.12")).skipped == {}


def test_a_slot_that_is_null_in_a_table_is_a_difference() -> None:
    old: Release = load_release("6.18")
    ops = old.ops["htab_map_ops"]
    slots = {name: function for name, function in ops.slots.items() if name != "map_gen_lookup"}
    new = replace(old, ops={**old.ops, "htab_map_ops": replace(ops, slots=slots)})
    assert [str(row) for row in compare(old, new).differences] == [
        "removed  slot htab_map_ops.map_gen_lookup: htab_map_gen_lookup"
    ]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--check", "9.9"], "--check: 9.9: expected a release"),
        (["--check", "/nonexistent.json"], "/nonexistent.json: cannot be read"),
        (["--check", __file__], "expected JSON"),
    ],
)
def test_bad_input_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], expected: str
) -> None:
    if arguments[-1] == __file__:
        (tmp_path / "bad.json").write_text("no", encoding="utf-8")
        arguments = [*arguments[:-1], str(tmp_path / "bad.json")]
    assert main(["extract", str(write_tree(tmp_path / "tree")), *arguments]) == 2
    error = capsys.readouterr().err
    assert expected in error
    assert error.count("\n") == 1


def test_a_tree_or_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    facts = write(tmp_path / "facts.json", table())
    assert main(["extract", "--facts", str(facts), "-o", str(tmp_path / "6.5.json")]) == 0
    assert main(["check", "--kernel", str(tmp_path / "6.5.json"), "--match", "*/hash/map_update_elem"]) == 0
    out = capsys.readouterr().out
    assert "from: independent table for 6.5.1; rows for helpers, pairs and passes; what is the same in 6.1" in out
    assert main(["extract", "--facts", str(facts), "--check", str(tmp_path / "6.5.json")]) == 0
    for arguments in ([], [str(tmp_path), "--facts", str(facts)]):
        with pytest.raises(SystemExit) as caught:
            main(["extract", *arguments])
        assert caught.value.code == 2
    (tmp_path / "other.json").write_text("{}", encoding="utf-8")
    assert main(["extract", "--facts", str(tmp_path / "other.json")]) == 2
    assert "expected a member 'kernel'" in capsys.readouterr().err
