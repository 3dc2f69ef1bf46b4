"""What the extractor cannot read is a hole by name, and `check` says `unsupported` of what needs it: never less."""

from pathlib import Path

import pytest
from kernel_mini_tree import write_tree

from model.kernel.abi import ABIS
from model.kernel.data import dump_release, load_release, read_release
from model.kernel.extract import extract
from model.kernel.release import Release
from model.loaders.assembly import load
from model.loaders.xlated import load_text
from model.program import Map
from model.rewrite.config import Config
from proofs.check_claims import check as check_claims
from proofs.check_program import Checked
from proofs.check_program import check as check_program
from proofs.check_release import check as check_release
from proofs.claims import Claims
from proofs.cli import main
from proofs.obligation import Refuted
from proofs.outcome import status, why, word
from proofs.report.text import open_lines
from proofs.solver import Solver

BOX, BAG, TYPES = "kernel/bpf/box.c", "kernel/bpf/bag.c", "include/linux/bpf_types.h"
HELPERS, VERIFIER, FIXUPS = "kernel/bpf/helpers.c", "kernel/bpf/verifier.c", "kernel/bpf/fixups.c"
HEADER, BPF, FILTER = "include/linux/bpf_verifier.h", "include/linux/bpf.h", "include/linux/filter.h"
POISON = "\t\t\tif (bpf_map_ptr_poisoned(aux))\n\t\t\t\tgoto patch_call_imm;\n"
DECLINED = "\t\t\t\tif (cnt == -EOPNOTSUPP)\n\t\t\t\t\tgoto patch_map_ops_generic;\n"
PUT = "BPF_CALL_IMM(ops->map_put_elem);"
CASE = f"\t\t\tcase BPF_FUNC_map_put:\n\t\t\t\tinsn->imm = {PUT}\n\t\t\t\tgoto next_insn;\n"
# Of the mini tree's pairs; its for_each helper narrows the flags to 32 bits, which the operation does not.
ALL = {"box/map_lookup_elem", "box/map_put", "bag/map_put", "box/for_each_map_elem"}
PUTS = {f"{kind}/map_put" for kind in ("box", "bag")}
EVERY_PUT = {f"{kind}/map_put" for kind in ("box", "bag", "crate", "locked")}


@pytest.fixture(scope="module")
def solver() -> Solver:
    return Solver()


def verdicts(release: Release, solver: Solver) -> dict[str, str]:
    cells = check_release(release, ABIS["x86_64"], solver)
    return {f"{c.row.map_type}/{c.row.helper}": word(c.verdict) for c in cells if c.verdict is not None}


def unsupported(release: Release, solver: Solver) -> set[str]:
    return {pair for pair, verdict in verdicts(release, solver).items() if verdict == "unsupported"}


def test_a_tree_that_is_read_has_no_holes(tmp_path: Path, solver: Solver) -> None:
    release = extract(write_tree(tmp_path))
    assert release.holes == {}
    assert verdicts(release, solver) == {**dict.fromkeys(ALL, "proved"), "box/for_each_map_elem": "refuted"}


@pytest.mark.parametrize("name", ["5.10", "6.1", "6.12", "7.3"])
def test_the_releases_here_have_no_holes(name: str) -> None:
    assert load_release(name).holes == {}


# Case, change, the hole, words of its reason, the pairs that are unsupported.
HOLES = (
    ("a: a helper that masks", (HELPERS, "key, value, flags);", "key, value, flags & 3);"),
     "helper:map_put", "kernel/bpf/helpers.c:15: bpf_map_put: hands over something else", EVERY_PUT),
    ("a helper that does more", (HELPERS, "\treturn map->ops->map_put_elem", "\tk++;\n\treturn map->ops->map_put_elem"),
     "helper:map_put", "kernel/bpf/helpers.c:15: bpf_map_put calls map->ops in a body that does more", EVERY_PUT),
    ("b: an immediate off by one", (FIXUPS, PUT, PUT[:-1] + " + 1;"),
     "rewrite:map_put", "kernel/bpf/fixups.c:35: a case that is not understood", PUTS),
    ("a case that falls into the next", (FIXUPS, PUT + "\n\t\t\t\tgoto next_insn;", PUT),
     "rewrite:map_put", "kernel/bpf/fixups.c:35: a case that is not understood", PUTS),
    ("a case that is not there", (FIXUPS, CASE, ""),
     "rewrite:map_put", "map_put is in the pass's list, but has no case", PUTS),
    ("a list with more in it", (FIXUPS, "BPF_FUNC_map_put ||", "BPF_FUNC_map_put || odd(insn) ||"),
     "rewrite:*", "the pass's list is not understood", ALL),
    ("a helper that another place handles", (FIXUPS, "\t\tinsn++;", "\t\todd(BPF_FUNC_map_put);\n\t\tinsn++;"),
     "rewrite:map_put", "map_put is named outside of the pass's list", PUTS),
    ("c: poison ignored", (FIXUPS, "if (bpf_map_ptr_poisoned(aux))", "if (0)"),
     "condition:poison", "kernel/bpf/fixups.c:11: the pass does not look whether the map pointer is poisoned", ALL),
    ("poison not asked for", (FIXUPS, POISON, ""), "condition:poison", "does not look whether", ALL),
    ("poison the other way", (FIXUPS, "if (bpf_map_ptr_poisoned(aux))", "if (!bpf_map_ptr_poisoned(aux))"),
     "condition:poison", "does not look whether", ALL),
    ("poison asked for too late", (FIXUPS, POISON + "\t\t\tmap_ptr = aux->map_ptr_state.map_ptr;\n",
                                   "\t\t\tmap_ptr = aux->map_ptr_state.map_ptr;\n" + POISON),
     "condition:order", "is out of its order: if (bpf_map_ptr_poisoned(aux))", ALL),
    ("poison that is never", (HEADER, "return aux->map_ptr_state.poison;", "return false;"),
     "condition:poison", "include/linux/bpf_verifier.h:2: bpf_map_ptr_poisoned is not understood", ALL),
    ("no JIT asked for", (FIXUPS, "prog->jit_requested && ", ""),
     "condition:jit", "kernel/bpf/fixups.c:4: the pass does not ask for prog->jit_requested", ALL),
    ("no 64 bits asked for", (FIXUPS, "BITS_PER_LONG == 64 &&", "true &&"),
     "condition:bits", "does not ask for BITS_PER_LONG == 64", ALL),
    ("something else asked for", (FIXUPS, "BITS_PER_LONG == 64 &&", "BITS_PER_LONG == 64 && odd() &&"),
     "condition:list", "asks for something unknown: odd()", ALL),
    ("-EOPNOTSUPP fails the load", (FIXUPS, DECLINED, ""),
     "condition:eopnotsupp", "does not go on where map_gen_lookup returns -EOPNOTSUPP", ALL),
    ("lookups never inlined", (FIXUPS, "_elem && ops->map_gen_lookup", "_elem && 0 && ops->map_gen_lookup"),
     "condition:gen_lookup", "branch for map_gen_lookup is not understood", ALL),
    ("a statement more", (FIXUPS, "\t\t\tops = map_ptr->ops;\n", "\t\t\tops = map_ptr->ops;\n\t\t\todd(ops);\n"),
     "condition:pass", "a statement of the pass is not understood: odd(ops);", ALL),
    ("a pass inside of an if", (FIXUPS, "\t\tif (prog->jit_requested", "\t\tif (odd())\n\t\tif (prog->jit_requested"),
     "condition:enclosing", "inside of a if_statement", ALL),
    ("a call that stays is another", (FIXUPS, "insn->imm = BPF_CALL_IMM(fn->func);", "insn->imm = 0;"),
     "condition:stays", "what becomes of a call that stays", ALL),
    ("another distance", (FILTER, "(void *)__bpf_call_base", "(void *)&jiffies"),
     "condition:call_imm", "include/linux/filter.h:1: BPF_CALL_IMM is not understood", ALL),
    ("a limit that is not read", (HEADER, "INSN_BUF_SIZE 24", "INSN_BUF_SIZE (8 * 3)"),
     "condition:insn_buf", "the limit of a patch (insn_buf) is not understood", ALL),
    ("d: a table that is nowhere", (BAG, "bpf_map_ops bag_ops = {", "bpf_map_ops lost_ops = {"),
     "type:bag", "include/linux/bpf_types.h:4: no table was found for bag: bag_ops",
     {"bag/map_lookup_elem", "bag/map_put"}),
    ("a table in part", (BAG, ".map_alloc = bag_alloc,", ".map_alloc = pick(bag),"),
     "ops:bag_ops", "kernel/bpf/bag.c:14: an initializer that is not understood",
     {"bag/map_lookup_elem", "bag/map_put"}),
    ("a member of the table that is not read", (BPF, "\tint (*map_gen_lookup)(", "\tgenerator (*map_gen_lookup)("),
     "slot:map_gen_lookup", "include/linux/bpf.h:", ALL),
    ("a type in a row of another shape", (TYPES, "BPF_MAP_TYPE(BPF_MAP_TYPE_BAG,", "ROW(BPF_MAP_TYPE_BAG,"),
     "type:bag", "include/linux/bpf_types.h:4: a map type in a row that is not understood",
     {"bag/map_lookup_elem", "bag/map_put"}),
    ("a check that is not read", (VERIFIER, "\tif (!map)\n", "\twhile (x)\n\t\tgo();\n\tif (!map)\n"),
     "accepted:bag/map_put", "a statement that is not understood: while",
     {f"{kind}/{name}" for kind in ("box", "bag") for name in ("map_lookup_elem", "map_put", "for_each_map_elem")}),
    ("a check that is not there", (VERIFIER, "check_map_prog_compatibility(", "check_map_and_prog("),
     "accepted:*/*", "no check_map_prog_compatibility was found",
     {f"{kind}/{name}" for kind in ("box", "bag", "crate", "locked")
      for name in ("map_lookup_elem", "map_put", "for_each_map_elem")}),
)  # fmt: skip


@pytest.mark.parametrize(
    ("change", "hole", "reason", "pairs"), [row[1:] for row in HOLES], ids=[row[0] for row in HOLES]
)
def test_what_is_not_read_is_a_hole_and_its_pairs_are_unsupported(
    tmp_path: Path, solver: Solver, change: tuple[str, str, str], hole: str, reason: str, pairs: set[str]
) -> None:
    release = extract(write_tree(tmp_path, change))
    assert reason in release.holes[hole]
    assert unsupported(release, solver) == pairs
    assert read_release(dump_release(release), "x") == release


def test_e_a_file_of_helpers_that_is_not_there(tmp_path: Path, solver: Solver) -> None:
    """One helper elsewhere is enough to go on; the others are in the pass's list, and not read."""
    tree = write_tree(tmp_path)
    text = (tree / HELPERS).read_text()
    each = text[text.index("BPF_CALL_4(bpf_each_one") : text.index("const struct bpf_func_proto *find")]
    wired = "int find(int id)\n{\n\tcase BPF_FUNC_for_each_map_elem:\n\t\treturn &bpf_each_proto;\n}\n"
    (tree / HELPERS).unlink()
    (tree / "kernel/bpf/each.c").write_text(each + wired)
    release = extract(tree)
    assert "map_put is rewritten, but no body of it was read" in release.holes["helper:map_put"]
    assert "map_lookup_elem is rewritten, but no body" in release.holes["helper:map_lookup_elem"]
    kinds = ("box", "bag", "crate", "locked")
    assert unsupported(release, solver) == {
        f"{kind}/{name}" for kind in kinds for name in ("map_put", "map_lookup_elem")
    }


def test_d_a_file_of_operations_that_is_not_there(tmp_path: Path, solver: Solver) -> None:
    tree = write_tree(tmp_path)
    (tree / BAG).unlink()
    release = extract(tree)
    assert {"type:bag", "type:locked"} <= release.holes.keys()
    assert unsupported(release, solver) == {"bag/map_lookup_elem", "bag/map_put"}  # for_each: refused whatever they are
    cells = [c for c in check_release(release, ABIS["x86_64"], solver) if c.verdict is not None]
    lines = list(open_lines(cells, verbose=False))
    assert "unsupported bag/map_lookup_elem and 1 more: operations of bag were not read: " in lines[0]


def test_f_a_slot_that_is_null_for_an_accepted_pair_is_refuted(tmp_path: Path, solver: Solver) -> None:
    release = extract(write_tree(tmp_path, (BAG, "\t.map_put_elem = bag_put,\n\t.map_for", "\t.map_for")))
    assert release.holes == {}
    cells = {(c.row.map_type, c.row.helper): c for c in check_release(release, ABIS["x86_64"], solver)}
    cell = cells["bag", "map_put"]
    assert [result.obligation.name for result in cell.results] == ["dispatch/9.4/x86_64/bag/map_put/operation"]
    assert isinstance(cell.verdict, Refuted)
    assert [str(shown) for shown in cell.verdict.counterexample.shown] == [
        "__bpf_call_base = 0xffffffff81200000 (-2128609280)",
        "helper: target = 0x0000000000000000 (0)",
        "direct: imm = 0x7ee00000 (2128609280)",
        "direct: target of the call = 0x0000000000000000 (0)",
    ]
    text = cell.results[0].obligation.claim.reason("operation")
    assert text == "the verifier accepts the pair, but map_put_elem is NULL: the helper and the rewritten call go there"


PROGRAM = """.map m {kind} 4 8 4
r1 = map[m]
r2 = r10
r3 = r10
r4 = 0
call {helper}
exit
"""


def program(release: Release, kind: str, helper: str, solver: Solver, abi: str = "x86_64") -> Checked:
    text = PROGRAM.format(kind=kind, helper=release.helper_ids[helper])
    return check_program(
        load(text, "t", release.helper_ids).programs[0], Claims(release, ABIS[abi], solver), Config(arch=abi)
    )


def said(checked: Checked) -> tuple[int, str]:
    """Exit status, and every reason."""
    return int(status(checked.verdicts())), "; ".join(why(verdict) for verdict in checked.verdicts())


def test_programs_of_a_tree_that_is_read(tmp_path: Path, solver: Solver) -> None:
    release = extract(write_tree(tmp_path))
    assert said(program(release, "box", "map_put", solver))[0] == 0


@pytest.mark.parametrize(
    ("change", "hole"),
    [(row[1], row[2]) for row in HOLES if "bag" not in row[2] or row[2].startswith("accepted")],
    ids=[row[0] for row in HOLES if "bag" not in row[2] or row[2].startswith("accepted")],
)
def test_programs_that_need_what_was_not_read(
    tmp_path: Path, solver: Solver, change: tuple[str, str, str], hole: str
) -> None:
    release = extract(write_tree(tmp_path, change))
    code, reasons = said(program(release, "box", "map_put", solver))
    assert code == 3
    assert release.holes[hole.replace("bag", "box")] in reasons or release.hole("map_put", "box") in reasons
    assert "unsupported" in {word(verdict) for verdict in program(release, "box", "map_put", solver).verdicts()}


def test_programs_on_operations_that_were_not_read(tmp_path: Path, solver: Solver) -> None:
    tree = write_tree(tmp_path)
    (tree / BAG).unlink()
    release = extract(tree)
    assert said(program(release, "bag", "map_put", solver))[0] == 3
    assert said(program(release, "box", "map_put", solver))[0] == 0  # it does not need them


DUMP = """   0: (18) r1 = map[id:1]
   2: (bf) r2 = r10
   3: (bf) r3 = r10
   4: (b7) r4 = 0
   5: (85) call {function}#1000
   6: (95) exit
"""


@pytest.mark.parametrize("function", ["bpf_map_put", "box_put"])
@pytest.mark.parametrize("case", ["a: a helper that masks", "b: an immediate off by one", "c: poison ignored"])
def test_dumps_that_need_what_was_not_read(tmp_path: Path, solver: Solver, case: str, function: str) -> None:
    change = next(row[1] for row in HOLES if row[0] == case)
    release = extract(write_tree(tmp_path, change))
    found = load_text(DUMP.format(function=function), "t", {1: Map("m", "box", key_size=4, value_size=8)}).programs[0]
    checked = check_program(found, Claims(release, ABIS["x86_64"], solver), Config())
    assert "unsupported" in {word(verdict) for verdict in checked.verdicts()}


def test_a_capability_of_a_jit_that_is_not_read(tmp_path: Path, solver: Solver) -> None:
    """Whether lookups are inlined hangs on it where the sequence asks: those of that architecture are not decided."""
    asks = (BOX, "jit_can()", "bpf_jit_supports_percpu_insn()")
    release = extract(write_tree(tmp_path, ("arch/riscv/net/jit.c", "return true;", "return probe();"), asks))
    assert set(release.holes) == {"percpu_insn:riscv64"}
    assert said(program(release, "box", "map_lookup_elem", solver, "riscv64"))[0] == 3
    groups = list(check_claims("inline", release, ABIS["riscv64"], solver))
    assert [(group.name, word(group.verdict)) for group in groups] == [
        ("inline/9.4/box/map_lookup_elem", "unsupported")
    ]
    assert "probe" in why(groups[0].verdict)
    assert release.lookup_hole("box", "x86_64") == ""
    other = extract(write_tree(tmp_path / "other", ("arch/riscv/net/jit.c", "return true;", "return probe();")))
    assert other.lookup_hole("box", "riscv64") == ""  # its sequence asks something else


def test_inline_and_callback_claims_of_operations_that_were_not_read(tmp_path: Path, solver: Solver) -> None:
    """Whether such a type has them cannot be told: it does not leave the list."""
    tree = write_tree(tmp_path)
    (tree / BAG).unlink()
    release = extract(tree)
    for family, name in (("inline", "inline/9.4/bag/map_lookup_elem"), ("callback", "callback/9.4/bag")):
        groups = {group.name: group for group in check_claims(family, release, ABIS["x86_64"], solver)}
        assert word(groups[name].verdict) == "unsupported"
        assert "no table was found for bag" in why(groups[name].verdict)


def test_the_command_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tree = write_tree(tmp_path / "tree", (FIXUPS, POISON, ""))
    assert main(["extract", str(tree), "-o", str(tmp_path / "k.json")]) == 0
    assert main(["check", "--kernel", str(tmp_path / "k.json"), "--verbose"]) == 3
    out = capsys.readouterr().out
    assert "unsupported box/map_put: kernel/bpf/fixups.c:9: the pass does not look whether" in out
    assert "not read: kernel/bpf/fixups.c:9: the pass does not look whether the map pointer is poisoned" in out
    assert ": 0 proved, 0 refuted, 0 unknown, 4 unsupported;" in out
