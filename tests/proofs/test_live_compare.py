"""The comparison with a kernel, without one: the model's own rewrite agrees, a damaged one does not."""

from dataclasses import replace

import pytest
from live_fakes import DISTANCES, RELEASE, Damage, answer

from model.isa.insn import Insn
from model.kernel.abi import ABIS
from model.rewrite.other_alu import ROWS
from proofs.live_rows import RowClaims, named
from proofs.obligation import Proved, Refuted, Unknown
from proofs.outcome import Exit
from proofs.properties.inline_cases import inline_claim
from proofs.report.live import lines
from proofs.solver import Solver

HASH = """
.map h hash 4 8 16
.map other hash 4 8 16
.map a array 4 8 16
r1 = *(u32 *)(r1 +0)
*(u32 *)(r10 -4) = r1
r1 = map[h]
r2 = r10
r2 += -4
call map_lookup_elem
if r0 == 0 goto out
r1 = map[h]
r2 = r10
r2 += -4
r3 = r0
r4 = 0
call map_update_elem
out:
r0 = 0
exit
"""
POISONED = """
.map h hash 4 8 16
.map a array 4 8 16
r6 = *(u32 *)(r1 +0)
*(u32 *)(r10 -4) = r6
r1 = map[h]
if r6 == 0 goto here
r1 = map[a]
here:
r2 = r10
r2 += -4
call map_delete_elem
r0 = 0
exit
"""
DEAD = """
r1 = 1
if r1 == 1 goto out
r0 = 5
goto out
out:
r0 = 0
exit
"""


def call_of(insns: list[Insn], name: str) -> int:
    return next(slot for slot, insn in enumerate(insns) if insn.opcode == 0x85 and insn.imm == DISTANCES[name])


def test_the_models_own_rewrite_agrees_and_is_proved() -> None:
    found = answer(HASH)
    assert [site.agrees for site in found.sites] == [True, True]
    assert [site.kernel for site in found.sites] == ["inlined, 3 instructions", "htab_map_update_elem"]
    assert isinstance(found.verdict, Proved)
    assert found.exit is Exit.PROVED


def other_function(insns: list[Insn]) -> None:
    at = call_of(insns, "htab_map_update_elem")
    insns[at] = replace(insns[at], imm=DISTANCES["array_map_update_elem"])


def helper_left(insns: list[Insn]) -> None:
    at = call_of(insns, "htab_map_update_elem")
    insns[at] = replace(insns[at], imm=DISTANCES["bpf_map_update_elem"])


def other_offset(insns: list[Insn]) -> None:
    at = call_of(insns, "__htab_map_lookup_elem") + 2
    insns[at] = replace(insns[at], imm=insns[at].imm + 8)


def other_sequence(insns: list[Insn]) -> None:
    at = call_of(insns, "__htab_map_lookup_elem") + 1
    insns[at] = replace(insns[at], off=2)


@pytest.mark.parametrize("damage", [other_function, helper_left, other_offset, other_sequence])
def test_a_site_that_is_not_as_the_model_has_it_differs(damage: Damage) -> None:
    found = answer(HASH, damage)
    assert sorted(map(str, (site.agrees for site in found.sites))) == ["False", "True"]
    assert found.exit is Exit.REFUTED
    told = list(lines(found, verbose=False))
    assert any("DIFFERS" in text for text in told)
    assert sum("as the model has it" in text or "as the kernel has it" in text for text in told) == 2


def test_another_function_is_refuted_and_a_helper_that_is_left_is_not() -> None:
    wrong, left = answer(HASH, other_function), answer(HASH, helper_left)
    assert isinstance(wrong.verdict, Refuted)
    assert isinstance(left.verdict, Proved)  # it means what was loaded, though the model expects a direct call


def test_a_poisoned_call_may_not_be_direct() -> None:
    def direct(insns: list[Insn]) -> None:
        at = call_of(insns, "bpf_map_delete_elem")
        insns[at] = replace(insns[at], imm=DISTANCES["htab_map_delete_elem"])

    assert answer(POISONED).exit is Exit.PROVED
    found = answer(POISONED, direct)
    assert [site.agrees for site in found.sites] == [False]
    assert isinstance(found.verdict, Refuted)


def changed(insns: list[Insn]) -> None:
    insns[-2] = replace(insns[-2], imm=1)  # r0 = 1


def other_map(insns: list[Insn]) -> None:
    at = next(slot for slot, insn in enumerate(insns) if insn.opcode == 0x18)
    insns[at] = replace(insns[at], imm=101)


def other_call(insns: list[Insn]) -> None:
    insns[1] = Insn(0x85, imm=DISTANCES["bpf_ktime_get_ns"])


@pytest.mark.parametrize("damage", [changed, other_map, other_call])
def test_what_no_pass_makes_is_not_understood(damage: Damage) -> None:
    found = answer(HASH, damage)
    assert found.comparison is not None
    assert len(found.comparison.strange) == 1
    assert isinstance(found.verdict, Unknown)
    assert found.exit is Exit.OPEN
    assert any("not understood" in text for text in lines(found, verbose=False))


def test_a_jump_elsewhere_is_not_proved() -> None:
    def elsewhere(insns: list[Insn]) -> None:
        at = next(slot for slot, insn in enumerate(insns) if insn.opcode == 0x15 and insn.off > 2)
        insns[at] = replace(insns[at], off=insns[at].off + 1)

    found = answer(HASH, elsewhere)
    assert found.parts is not None
    assert isinstance(found.parts.structure["branches"], Unknown)
    assert found.exit is Exit.OPEN


def removal(*slots: int, size: int) -> tuple[tuple[int, ...], frozenset[int]]:
    moved, at = [], 0
    for slot in range(size):
        moved.append(at)
        at += slot not in slots
    return (*moved, at), frozenset(slots)


def drop(*slots: int) -> Damage:
    def damage(insns: list[Insn]) -> None:
        for slot in sorted(slots, reverse=True):
            del insns[slot]

    return damage


def test_removed_dead_code_and_a_known_branch_are_proved() -> None:
    """Slots: r1 = 1, the branch, two dead ones, r0 = 0, exit."""
    moved, removed = removal(1, 2, 3, size=6)
    found = answer(DEAD, drop(1, 2, 3), moved=moved, removed=removed)
    assert found.parts is not None
    assert {name: type(verdict) for name, verdict in found.parts.rows.items()} == {
        "dead code removed": Proved,
        "known branch removed": Proved,
        "jump to the next instruction removed": Proved,
    }
    assert isinstance(found.verdict, Proved)


def test_code_that_is_reached_may_not_be_removed() -> None:
    """r1 = 1 is removed, and the program begins there; r0 = 0 is, and a way leads to it."""
    for slot in (0, 4):
        moved, removed = removal(slot, size=6)
        found = answer(DEAD, drop(slot), moved=moved, removed=removed)
        assert found.comparison is not None
        assert found.comparison.strange
        assert found.exit is Exit.OPEN


def test_a_branch_that_is_not_known_may_not_go() -> None:
    """The model does not decide it: the kernel may know more, and then it is no proof."""
    text = DEAD.replace("r1 = 1\n", "r1 = *(u32 *)(r1 +0)\n")
    moved, removed = removal(1, 2, 3, size=6)
    found = answer(text, drop(1, 2, 3), moved=moved, removed=removed)
    assert isinstance(found.verdict, Unknown)
    assert "known branch" in found.verdict.reason or "never reached" in found.verdict.reason


def test_a_guard_is_claimed_once_for_all_registers() -> None:
    """r3 /= r7 and r8 /= r2 are one claim; r5 /= r5 is another, and so is a guard that tests the wrong register."""

    def guard(dst: int, src: int, tested: int) -> tuple[Insn, tuple[Insn, ...]]:
        insn = Insn(0x3F, dst, src)
        return insn, (Insn(0x55, tested, off=2), Insn(0xAC, dst, dst), Insn(0x05, off=1), insn)

    assert named(*guard(3, 7, 7)) == named(*guard(8, 2, 2)) == named(*guard(1, 2, 2))
    assert named(*guard(5, 5, 5)) == named(*guard(9, 9, 9)) != named(*guard(1, 2, 2))
    assert named(*guard(3, 7, 3)) != named(*guard(3, 7, 7))
    assert named(*guard(3, 7, 6)) == guard(3, 7, 6)  # r6 is neither


def test_a_guard_is_proved_and_a_wrong_one_is_refuted() -> None:
    claims = RowClaims(RELEASE, ABIS["x86_64"], Solver(20))
    row = next(one for one in ROWS if one.name == "division guard")
    insn = Insn(0x3C, 3, 7)
    right = (Insn(0x56, 7, off=2), Insn(0xAC, 3, 3), Insn(0x05, off=1), insn)
    wrong = (Insn(0x56, 7, off=2), Insn(0xB4, 3, imm=1), Insn(0x05, off=1), insn)  # x / 0 = 1
    assert isinstance(claims(row, insn, right), Proved)
    assert isinstance(claims(row, insn, wrong), Refuted)
    assert claims(next(one for one in ROWS if one.name == "speculation mask"), insn, right) is None


def test_a_release_by_another_name_has_the_rules_of_its_version() -> None:
    """What the template of an inner map has differs by version; a running kernel's release is called `running`."""
    renamed = replace(RELEASE, name="running")
    claims = [inline_claim(one, ABIS["x86_64"], "array", inner=True) for one in (RELEASE, renamed)]
    assert claims[0].copied == claims[1].copied
    assert claims[0].allocation == claims[1].allocation
    assert "elem_size" in claims[0].copied
