"""The two ways to the equivalence of programs, held against each other; and what the second one does alone."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, event, given, settings

from gen.small import Generated, programs
from model.errors import Unsupported
from model.facts import analyse
from model.isa.insn import Insn
from model.kernel.abi import ABIS
from model.kernel.data import load_release
from model.loaders import assembly
from model.program import Program, SymbolRef
from model.rewrite.config import Config
from model.rewrite.passes import Rewritten, rewrite
from proofs import whole
from proofs.claims import Claims
from proofs.equivalence import equivalent
from proofs.obligation import Proved, Refuted, Unknown, Verdict
from proofs.outcome import worst
from proofs.solver import Solver

X86 = ABIS["x86_64"]
RELEASES = {name: load_release(name) for name in ("6.1", "6.12")}
CLAIMS = {name: Claims(release, X86, Solver()) for name, release in RELEASES.items()}
Fault = Callable[[Rewritten], Program | None]


def rewritten(text: str, name: str) -> Rewritten:
    release = RELEASES[name]
    before = assembly.load(text, "generated", release.helper_ids).programs[0]
    return rewrite(before, analyse(before, release), release, Config())


def by_composition(done: Rewritten, name: str) -> Verdict:
    return equivalent(done.before, done.after, CLAIMS[name], Config(), (), done.relocs).verdict


def over_symbols(done: Rewritten, name: str) -> Verdict:
    release = RELEASES[name]
    made = whole.claim(done.before, done.after, release, X86, done.relocs)
    return worst(result.verdict for result in Solver().decide_all(whole.obligations(made, release, X86)))


QUICK = settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@QUICK
@given(programs())
def test_both_ways_prove_6_12(made: Generated) -> None:
    done = rewritten(made.text, "6.12")
    assert over_symbols(done, "6.12") == Proved()
    assert by_composition(done, "6.12") == Proved()


@QUICK
@given(programs(most=2))
def test_both_ways_refute_6_1_where_an_int_comes_back(made: Generated) -> None:
    done = rewritten(made.text, "6.1")
    expected = Refuted if made.narrow else Proved
    assert isinstance(over_symbols(done, "6.1"), expected)
    assert isinstance(by_composition(done, "6.1"), expected)


def wrong_function(done: Rewritten) -> Program | None:
    """A direct call of the operation of another type."""
    other = {"htab_map_update_elem": "array_map_update_elem", "htab_map_delete_elem": "array_map_delete_elem"}
    for slot, ref in done.after.refs.items():
        if isinstance(ref, SymbolRef) and ref.name in other:
            return replace(done.after, refs={**done.after.refs, slot: SymbolRef(other[ref.name])})
    return None


def stale_branch(done: Rewritten) -> Program | None:
    """A branch over a patch keeps the distance that it had."""
    insns = list(done.after.insns)
    for slot, insn in enumerate(done.before.insns):
        at = done.moved[slot]
        if insn.opcode & 7 == 5 and insn.opcode not in (0x85, 0x95) and done.after.insns[at].off != insn.off:
            insns[at] = insn
            return replace(done.after, insns=tuple(insns))
    return None


def clobbered(done: Rewritten) -> Program | None:
    """The sum of the results goes to another register once."""
    insns = list(done.after.insns)
    for slot, insn in enumerate(insns):
        if insn == Insn(0x0F, 6, 0):
            insns[slot] = Insn(0x0F, 8, 0)
            return replace(done.after, insns=tuple(insns))
    return None


SAMPLE = """
.map numbers array 4 8 4
.map names hash 4 8 2
        r7 = *(u32 *)(r1 +0)
        r8 = 0
        r6 = 0
        *(u64 *)(r10 -8) = 1
        *(u64 *)(r10 -16) = 5
        if r7 == 3 goto over
        r1 = map[numbers]
        r2 = r10
        r2 += -8
        call bpf_map_lookup_elem
        if r0 == 0 goto over
        r0 = *(u64 *)(r0 +0)
        r6 += r0
        r6 += 1
over:   r1 = map[names]
        r2 = r10
        r2 += -8
        r3 = r10
        r3 += -16
        r4 = 2
        call bpf_map_update_elem
        r6 += r0
        r0 = r6
        exit
"""


@pytest.mark.parametrize("fault", [wrong_function, stale_branch, clobbered])
def test_neither_way_proves_a_fault(fault: Fault) -> None:
    done = rewritten(SAMPLE, "6.12")
    after = fault(done)
    assert after is not None
    wrong = replace(done, after=after)
    assert not isinstance(by_composition(wrong, "6.12"), Proved)
    try:
        assert not isinstance(over_symbols(wrong, "6.12"), Proved)
    except Unsupported as hole:
        assert fault is stale_branch, hole  # noqa: PT017


@pytest.mark.slow
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(programs())
def test_both_ways_agree_on_many(made: Generated) -> None:
    """The second way may give up (paths, steps, the solver's time); it never says the opposite."""
    for name, expected in (("6.12", Proved), ("6.1", Refuted if made.narrow else Proved)):
        done = rewritten(made.text, name)
        assert isinstance(by_composition(done, name), expected)
        try:
            second = over_symbols(done, name)
        except Unsupported as hole:
            event(f"the second way has no rule: {hole}")
            continue
        assert isinstance(second, expected | Unknown)


@settings(QUICK, max_examples=2)
@given(programs(most=2))
def test_neither_way_proves_a_fault_in_generated_programs(made: Generated) -> None:
    """What no input shows may be in code that nothing reaches: the second way knows that, the first does not."""
    done = rewritten(made.text, "6.12")
    for fault in (wrong_function, clobbered):
        after = fault(done)
        if after is None:
            continue
        wrong = replace(done, after=after)
        first = equivalent(wrong.before, wrong.after, CLAIMS["6.12"], Config(), (), wrong.relocs)
        assert not isinstance(first.verdict, Proved)
        if first.witness is None or not first.witness.what:
            continue
        try:
            assert not isinstance(over_symbols(wrong, "6.12"), Proved)
        except Unsupported as hole:
            event(f"the second way has no rule: {hole}")


def test_a_loop_on_a_constant_is_run_to_its_end() -> None:
    text = "r0 = 0\nr6 = 5\nagain: r0 += r6\nr6 += -1\nif r6 != 0 goto again\nexit\n"
    done = rewritten(text, "6.12")
    made = whole.claim(done.before, done.after, RELEASES["6.12"], X86, done.relocs)
    names = [one.name for one in whole.obligations(made, RELEASES["6.12"], X86)]
    parts = [f"main/-/{part}" for part in ("ends", "r0", "memory", "kernel", "callbacks")]
    paths = ["reach/main/before", "path/main/before/-", "reach/main/after", "path/main/after/-"]
    assert names == [f"whole/6.12/x86_64/{part}" for part in (*parts, *paths)]


def test_too_many_paths_are_a_hole() -> None:
    lines = ["r7 = *(u32 *)(r1 +0)", "r0 = 0"]
    for number in range(8):
        lines += [f"if r7 & {1 << number} goto l{number}", "r0 += 1", f"l{number}:"]
    done = rewritten("\n".join([*lines, "exit"]), "6.12")
    made = whole.claim(done.before, done.after, RELEASES["6.12"], X86, done.relocs)
    with pytest.raises(Unsupported, match="more than 64 paths"):
        whole.obligations(made, RELEASES["6.12"], X86)


def test_a_map_that_memory_gave_is_a_hole() -> None:
    text = """
.map names hash 4 8 2
.map outer array_of_maps 4 4 4 inner=names
        *(u64 *)(r10 -8) = 0
        r2 = r10
        r2 += -8
        r1 = map[outer]
        call bpf_map_lookup_elem
        if r0 == 0 goto none
        r1 = r0
        r2 = r10
        r2 += -8
        call bpf_map_delete_elem
none:   r0 = 0
        exit
"""
    done = rewritten(text, "6.12")
    with pytest.raises(Unsupported, match="not loaded by the program itself"):
        over_symbols(done, "6.12")
