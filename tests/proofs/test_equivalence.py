"""Composition: what is proved, what is refuted and by which input, what is not understood."""

from dataclasses import replace
from pathlib import Path

import pytest

from model.facts import Assumption, analyse
from model.isa.insn import Insn
from model.kernel.abi import ABIS
from model.kernel.data import load_release
from model.loaders import assembly, detect, map_show, rewritten
from model.program import Form, Map, MapRef, Program, SymbolRef
from model.rewrite.config import Config
from model.rewrite.passes import Rewritten, rewrite
from proofs.claims import Claims
from proofs.equiv_maps import paired
from proofs.equivalence import Equivalence, equivalent
from proofs.mutants_whole import CALLS, LOOKUP
from proofs.obligation import NoRule, Proved, Refuted, Shown, Unknown
from proofs.pair_run import Entry
from proofs.solver import Solver

X86 = ABIS["x86_64"]
RELEASES = {name: load_release(name) for name in ("6.1", "6.12")}
CLAIMS = {name: Claims(release, X86, Solver()) for name, release in RELEASES.items()}
DUMPS = Path(__file__).parents[1] / "data" / "dumps"
UPDATE = """
.map names hash 4 8 2
        *(u32 *)(r10 -4) = 258
        *(u64 *)(r10 -16) = 5
        r1 = map[names]
        r2 = r10
        r2 += -4
        r3 = r10
        r3 += -16
        r4 = 1
        call bpf_map_update_elem
        exit
"""


def done_on(text: str, name: str = "6.12", config: Config | None = None) -> Rewritten:
    release = RELEASES[name]
    before = assembly.load(text, "given", release.helper_ids).programs[0]
    return rewrite(before, analyse(before, release), release, config or Config())


def answer(done: Rewritten, name: str = "6.12") -> Equivalence:
    return equivalent(done.before, done.after, CLAIMS[name], Config(), (), done.relocs)


@pytest.mark.parametrize("text", [UPDATE, CALLS, LOOKUP], ids=["update", "calls", "lookup"])
def test_the_rewrite_of_6_12_is_proved(text: str) -> None:
    found = answer(done_on(text))
    assert found.verdict == Proved()
    assert all(site.verdict == Proved() for site in found.sites)
    assert found.gap is None
    assert found.witness is None


def test_sites_are_told() -> None:
    found = answer(done_on(CALLS + ".func unused\n r0 = 0\n exit\n"))
    told = [(site.helper, site.decision, site.function) for site in found.sites]
    assert told == [
        ("map_update_elem", "direct", "htab_map_update_elem"),
        ("for_each_map_elem", "direct", "bpf_for_each_array_elem"),
        ("map_pop_elem", "direct", "queue_map_pop_elem"),
    ]
    (site,) = answer(done_on(LOOKUP)).sites
    assert (site.helper, site.decision, site.slot, site.after) == ("map_lookup_elem", "inlined", 10, 10)


def test_6_1_is_refuted_by_an_input_that_is_small() -> None:
    found = answer(done_on(UPDATE, "6.1"), "6.1")
    assert isinstance(found.verdict, Refuted)
    assert found.verdict.counterexample.shown == (
        Shown("before: r0", 64, 0xFFFFFFFFFFFFFFEF),
        Shown("after: r0", 64, 0x00000000FFFFFFEF),
    )
    assert [str(shown) for shown in found.verdict.counterexample.shown] == [
        "before: r0 = 0xffffffffffffffef (-17)",
        "after: r0 = 0x00000000ffffffef (4294967279)",
    ]
    witness = found.witness
    assert witness is not None
    assert witness.what == "r0"
    assert witness.given.entries == (Entry(0, bytes.fromhex("02010000"), bytes(8)),)
    assert witness.given.context == bytes(256)
    assert (witness.given.numbers, witness.given.ones) == ((), False)
    parts = witness.parts
    assert parts is not None
    assert (parts.slot, parts.after, parts.register) == (9, 9, 0)


def test_a_result_that_nobody_looks_at_still_differs_on_the_way() -> None:
    found = answer(done_on(UPDATE.replace("        exit", "        r0 = 0\n        exit"), "6.1"), "6.1")
    assert isinstance(found.verdict, Refuted)
    witness = found.witness
    assert witness is not None
    assert witness.what == ""
    assert witness.parts is not None
    assert witness.parts.values == (0xFFFFFFFFFFFFFFEF, 0x00000000FFFFFFEF)


def test_a_claim_s_own_values_where_no_run_can_be_made() -> None:
    text = UPDATE.replace("hash", "sockhash").replace("*(u64 *)(r10 -16) = 5", "*(u64 *)(r10 -16) = 0")
    found = answer(done_on(text, "6.1"), "6.1")
    assert isinstance(found.verdict, Refuted)
    labels = [shown.label for shown in found.verdict.counterexample.shown]
    assert {"helper: r0", "direct: r0"} <= set(labels)
    assert "sockhash" in found.untried


def with_insn(done: Rewritten, at: int, insn: Insn) -> Rewritten:
    insns = list(done.after.insns)
    insns[at] = insn
    return replace(done, after=replace(done.after, insns=tuple(insns)))


def test_another_instruction_that_changes_nothing_is_not_understood() -> None:
    """mov64 of a number that has 31 bits, and mov32 of it, which a kernel's pass may choose."""
    done = done_on(UPDATE)
    at = next(slot for slot, insn in enumerate(done.after.insns) if insn == Insn(0xB7, 4, 0, 0, 1))
    found = answer(with_insn(done, at, Insn(0xB4, 4, 0, 0, 1)))
    assert isinstance(found.verdict, Unknown)
    assert found.gap is not None
    assert (found.gap.slot, found.gap.after) == (8, 8)
    assert "not this rewrite's" in found.verdict.reason
    assert found.untried == "on no input that was tried do the two differ"


def test_dead_code_that_is_gone_is_not_understood() -> None:
    text = UPDATE.replace("        exit", "        goto end\n        r0 = 3\nend:    exit")
    before = done_on(text).before
    after = done_on(UPDATE).after
    found = equivalent(before, after, CLAIMS["6.12"], Config(), (), {})
    assert isinstance(found.verdict, Unknown)
    assert found.gap is not None
    assert found.gap.slot == 10


def test_a_branch_to_elsewhere_is_open_until_a_run_shows_it() -> None:
    text = "r0 = *(u32 *)(r1 +0)\nif r0 == 7 goto one\ngoto two\none: r0 = 1\ntwo: exit\n"
    done = done_on(text)
    assert answer(done).verdict == Proved()
    same = "r0 = *(u32 *)(r1 +0)\nif r0 == 7 goto one\none: goto two\ntwo: r0 = r0\nexit\n"
    moved = done_on(same)
    found = answer(with_insn(moved, 1, replace(moved.after.insns[1], off=1)))
    assert isinstance(found.verdict, Unknown)
    assert "branches does not point where it pointed" in found.verdict.reason
    found = answer(with_insn(done, 1, replace(done.after.insns[1], off=2)))
    assert isinstance(found.verdict, Refuted)
    assert found.witness is not None
    assert found.witness.given.context == (7).to_bytes(4, "little") + bytes(252)
    assert found.witness.parts is not None
    assert (found.witness.parts.slot, found.witness.parts.register, found.witness.parts.values) == (1, None, (3, 4))


def test_another_map_is_refuted() -> None:
    done = done_on(CALLS)
    at = max(slot for slot, ref in done.after.refs.items() if ref == MapRef(1))
    found = answer(replace(done, after=replace(done.after, refs={**done.after.refs, at: MapRef(2)})))
    assert isinstance(found.verdict, Refuted)
    assert isinstance(found.parts["maps"], Refuted)
    assert "map names is map others after" in found.parts["maps"].counterexample.shown[0].label


def test_a_call_of_the_wrong_operation_is_refuted_by_its_claim() -> None:
    done = done_on(UPDATE)
    at = next(slot for slot, ref in done.after.refs.items() if ref == SymbolRef("htab_map_update_elem"))
    refs = {**done.after.refs, at: SymbolRef("htab_percpu_map_update_elem")}
    found = answer(replace(done, after=replace(done.after, refs=refs)))
    assert isinstance(found.verdict, Refuted)
    assert found.sites[0].results[0].obligation.name.startswith("dispatch/6.12/x86_64/hash/map_update_elem=")
    assert found.at == (9, 9)


def test_a_map_that_is_not_shown_is_named_by_the_user() -> None:
    text = "142: r1 = r4\n143: r2 = r7\n144: r3 = 0\n145: r4 = 0\n146: (85) call bpf_for_each_map_elem#164\n"
    before = replace(assembly.load(text, "part", RELEASES["6.12"].helper_ids).programs[0], fragment=True)
    after = replace(before, form=Form.XLATED, refs={4: SymbolRef("bpf_for_each_array_elem")})
    open_ = equivalent(before, after, CLAIMS["6.12"], Config())
    assert isinstance(open_.verdict, Unknown)
    assert "--assume" in open_.verdict.reason
    for kind, expected in (("array", Proved), ("hash", Refuted)):
        named = [Assumption(0, 4, Map("m", kind))]
        assert isinstance(equivalent(before, after, CLAIMS["6.12"], Config(), named).verdict, expected)


def test_recursion_is_a_hole() -> None:
    done = done_on("call self\nexit\n.func self\ncall self\nexit\n")
    assert isinstance(answer(done).verdict, NoRule)


def test_helpers_with_numbers_are_given_the_same_ones() -> None:
    text = LOOKUP.replace("r7 = *(u32 *)(r1 +0)", "call bpf_get_prandom_u32\n r7 = r0").replace("r6 = 0", "r6 = r7")
    assert answer(done_on(text)).verdict == Proved()
    done = done_on(text)
    at = max(slot for slot, insn in enumerate(done.after.insns) if insn == Insn(0x07, 6, 0, 0, 1))
    found = answer(with_insn(done, at, Insn(0x07, 6, 0, 0, 2)))
    assert isinstance(found.verdict, Refuted)
    assert found.witness is not None
    assert found.witness.given.numbers in ((), (0,))


def test_maps_by_their_loads() -> None:
    one = Program("one", (), (Map("a", "hash", 4, 8, 2), Map("b", "array", 4, 8, 2)), refs={0: MapRef(0), 2: MapRef(1)})
    two = Program(
        "two", (), (Map("map[id:9]", None, id=9), Map("map[id:8]", None, id=8)), refs={0: MapRef(1), 2: MapRef(0)}
    )
    loads = paired(one, two)
    assert loads.differ == {}
    assert dict(loads.after.refs) == {0: MapRef(0), 2: MapRef(1)}
    assert [m.id for m in loads.before.maps] == [8, 9]
    again = paired(replace(one, refs={0: MapRef(0), 2: MapRef(0)}), two)
    assert list(again.differ) == [2]


@pytest.mark.parametrize(
    ("name", "other", "same"),
    [
        ("numbers", "numbers", True),
        ("a_name_that_is_long", "a_name_that_is_", True),
        (".bss", "prog.bss", True),
        ("numbers", "names", False),
    ],
)
def test_names_as_kernels_cut_them(name: str, other: str, same: bool) -> None:
    one = Program("one", (), (Map(name, "array", 4, 8, 1),), refs={0: MapRef(0)})
    two = Program("two", (), (Map(other, "array", 4, 8, 1),), refs={0: MapRef(0)})
    assert (paired(one, two).differ == {}) is same


def test_a_dump_of_the_running_kernel_against_itself() -> None:
    text = (DUMPS / "walk.txt").read_text(encoding="utf-8")
    known = map_show.load((DUMPS / "maps.json").read_text(encoding="utf-8"), "maps.json")
    found = detect.load_bytes(text.encode(), "walk.txt", maps=known, helper_ids={}).programs[0]
    assert equivalent(found, found, CLAIMS["6.12"], Config()).verdict == Proved()


def test_what_rewrite_prints_is_read_back() -> None:
    text = """main:
   0: (18) r1 = map[numbers]
   2: (bf) r2 = r10
   3: (07) r1 += offsetof(struct bpf_array, value) + 8
   4: (35) if r0 >= max_entries goto pc+1
   5: (85) call htab_map_delete_elem#?
   6: (95) exit
"""
    loaded = rewritten.load(text, "after.txt", {})
    (program,) = loaded.found.programs
    assert rewritten.looks_like(text)
    assert program.maps == (Map("numbers", None),)
    assert program.refs == {0: MapRef(0), 5: SymbolRef("htab_map_delete_elem")}
    assert program.insns[3] == Insn(0x07, 1, 0, 0, 8)
    assert program.insns[4] == Insn(0x35, 0, 0, 1, 0)
    assert {slot: (named.kind, named.symbol) for slot, named in loaded.relocs[0].items()} == {
        3: ("offset", "struct bpf_array.value"),
        4: ("offset", "max_entries"),
    }
