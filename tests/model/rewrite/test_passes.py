"""The rewrite of whole programs, before and after."""

from dataclasses import replace

from model.facts import analyse
from model.isa.insn import Insn
from model.kernel.data import load_release
from model.loaders.assembly import load
from model.program import Form, MapRef, Program, SymbolRef
from model.rewrite.config import Config
from model.rewrite.direct_call import Kind
from model.rewrite.passes import Rewritten, rewrite
from model.rewrite.patch import Reloc

MAPS = ".map A array 4 8 4\n.map H hash 8 8 4\n"


def rewritten(text: str, version: str = "6.12", config: Config | None = None) -> Rewritten:
    release = load_release(version)
    program = load(MAPS + text, "test", dict(release.helper_ids)).programs[0]
    return rewrite(program, analyse(program, release), release, config or Config())


FOR_EACH = """
r1 = map[A]
r2 = subprog each
r3 = 0
r4 = 0
call for_each_map_elem
r0 = 0
exit
.func each
r0 = 0
exit
"""


def test_for_each_over_an_array_becomes_the_arrays_own_function() -> None:
    result = rewritten(FOR_EACH)
    assert result.before.form is Form.OBJECT
    assert result.before.insns[6] == Insn(0x85, 0, 0, 0, 164)
    assert result.after.form is Form.XLATED
    assert result.after.insns[6] == Insn(0x85, 0, 0, 0, 0)
    assert result.after.refs == {0: MapRef(0), 6: SymbolRef("bpf_for_each_array_elem")}
    assert result.relocs == {6: Reloc("call", "bpf_for_each_array_elem")}
    assert [(decision.slot, decision.kind, decision.function) for decision in result.decisions] == [
        (6, Kind.DIRECT, "bpf_for_each_array_elem")
    ]
    assert result.after.insns[2] == Insn(0x18, 2, 4, 0, 6)


LOOKUP = """
r2 = r10
r2 += -8
*(u64 *)(r2 +0) = 0
r1 = map[H]
call map_lookup_elem
if r0 == 0 goto out
r1 = map[H]
r2 = r10
r2 += -8
call map_delete_elem
call get_prandom_u32
out: r0 = 0
exit
"""


def test_an_inlined_lookup_moves_what_follows() -> None:
    result = rewritten(LOOKUP)
    assert result.after.insns[5:9] == (
        Insn(0x85, 0, 0, 0, 0),
        Insn(0x15, 0, 0, 1, 0),
        Insn(0x07, 0, 0, 0, 56),
        Insn(0x15, 0, 0, 6, 0),
    )
    assert result.moved[5:7] == (5, 8)
    assert result.after.refs == {
        3: MapRef(1),
        5: SymbolRef("__htab_map_lookup_elem"),
        9: MapRef(1),
        13: SymbolRef("htab_map_delete_elem"),
        14: SymbolRef("bpf_get_prandom_u32"),
    }
    assert [decision.kind for decision in result.decisions] == [Kind.INLINED, Kind.DIRECT]
    assert len(result.after.insns) == len(result.before.insns) + 2
    assert result.after.subprograms[0].end == len(result.after.insns)


def test_without_a_jit_every_call_is_the_helpers() -> None:
    result = rewritten(LOOKUP, config=Config(jit=False))
    assert [decision.kind for decision in result.decisions] == [Kind.STAYS, Kind.STAYS]
    assert result.after.refs[5] == SymbolRef("bpf_map_lookup_elem")
    assert len(result.after.insns) == len(result.before.insns)


def test_the_helper_of_redirect_map_goes_by_its_own_name() -> None:
    text = ".map P devmap 4 4 4\nr1 = map[P]\nr2 = 0\nr3 = 0\ncall redirect_map\nexit\n"
    assert rewritten(text, config=Config(jit=False)).after.refs[4] == SymbolRef("bpf_xdp_redirect_map")
    assert rewritten(text).after.refs[4] == SymbolRef("dev_map_redirect")


def test_an_unknown_helper_keeps_its_number_as_name() -> None:
    result = rewritten("call 9999\nexit\n")
    assert result.after.refs == {0: SymbolRef("helper#9999")}


def test_a_program_in_the_kernels_form_stays_as_it_is() -> None:
    dump = replace(rewritten(LOOKUP).after, name="dump")
    release = load_release("6.12")
    again = rewrite(dump, analyse(dump, release), release, Config())
    assert (again.after, again.decisions) == (dump, ())


def test_sites_that_look_alike_keep_their_own_slots() -> None:
    text = "".join("r2 = r10\nr2 += -8\n*(u64 *)(r2 +0) = 0\nr1 = map[H]\ncall map_lookup_elem\n" for _ in range(3))
    result = rewritten(f"{text}r0 = 0\nexit\n")
    assert [decision.slot for decision in result.decisions] == [5, 11, 17]


def test_the_maps_of_a_rewritten_program_are_found_again() -> None:
    """Facts of the program after name the same map at each call that was a site before."""
    result = rewritten(LOOKUP)
    found = analyse(result.after, load_release("6.12"))
    assert {slot: [p.map.name for p in site.pointers] for slot, site in found.sites.items()} == {
        5: ["H"],
        13: ["H"],
        14: [],
    }


def test_twenty_thousand_sites() -> None:
    site = (Insn(0x18, 1, 1), Insn(0), Insn(0xBF, 2, 10), Insn(0x07, 2, imm=-8), Insn(0x85, imm=1))
    release = load_release("6.12")
    maps = load(MAPS + "exit\n", "test", {}).maps
    refs = {slot: MapRef(1) for slot in range(0, 100_000, 5)}
    program = Program("p", (*site * 20_000, Insn(0x95)), maps=maps, refs=refs)
    result = rewrite(program, analyse(program, release), release, Config())
    assert len(result.decisions) == 20_000
    assert len(result.after.insns) == 140_001
