"""Patches put in: rows, and a slow oracle that keeps instructions by label and resolves them afterwards."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.errors import Unsupported
from model.isa.insn import Insn
from model.program import Line, MapRef, Program, Subprogram, SymbolRef
from model.rewrite.patch import Patch, Reloc, apply

EXIT, NOP = Insn(0x95), Insn(0xB7, 3, imm=7)
THREE = Patch((Insn(0x85), Insn(0x15, 0, off=1), Insn(0x07, imm=56)), {0: Reloc("call", "__htab_map_lookup_elem")})


def program(*insns: Insn, **fields: object) -> Program:
    return Program("p", insns, **fields)  # type: ignore[arg-type]


def test_one_instruction_becomes_three() -> None:
    patched = apply(program(NOP, Insn(0x85, imm=1), EXIT), {1: THREE})
    assert patched.program.insns == (
        Insn(0xB7, 3, 0, 0, 7),
        Insn(0x85, 0, 0, 0, 0),
        Insn(0x15, 0, 0, 1, 0),
        Insn(0x07, 0, 0, 0, 56),
        Insn(0x95),
    )
    assert patched.moved == (0, 1, 4, 5)
    assert patched.relocs == {1: Reloc("call", "__htab_map_lookup_elem")}
    assert patched.program.refs == {1: SymbolRef("__htab_map_lookup_elem")}


JUMPS = {
    "across, forward": (Insn(0x05, off=1), 0, 1, 3),
    "across, backward": (Insn(0x05, off=-3), 3, 1, -5),
    "to the patched instruction, forward": (Insn(0x15, 1, off=0, imm=9), 0, 1, 0),
    "to the patched instruction, backward": (Insn(0x1D, 1, 2, off=-2), 2, 1, -4),
    "behind the patched instruction": (Insn(0x25, 1, off=1, imm=9), 0, 1, 3),
    "away from it": (Insn(0x05, off=0), 2, 1, 0),
    "32-bit compare": (Insn(0x16, 1, off=1, imm=9), 0, 1, 3),
    "may_goto": (Insn(0xE5, off=1), 0, 1, 3),
    "may_goto, backward": (Insn(0xE5, off=-3), 3, 1, -5),
}


@pytest.mark.parametrize("row", JUMPS)
def test_branches(row: str) -> None:
    jump, at, patched, expected = JUMPS[row]
    insns = [NOP, NOP, NOP, NOP, NOP, EXIT]
    insns[at] = jump
    result = apply(program(*insns), {patched: THREE})
    moved = result.program.insns[result.moved[at]]
    assert (moved.off, moved.imm, moved.opcode) == (expected, jump.imm, jump.opcode)


def test_a_long_jump_keeps_its_distance_in_the_immediate() -> None:
    result = apply(program(Insn(0x06, imm=1), NOP, EXIT), {1: THREE})
    assert result.program.insns[0] == Insn(0x06, 0, 0, 0, 3)


def test_calls_and_callback_addresses_move() -> None:
    insns = (Insn(0x18, 2, 4, 0, 5), Insn(0), Insn(0x85, 0, 1, 0, 3), NOP, EXIT, NOP, EXIT)
    result = apply(program(*insns, subprograms=(Subprogram("p", 0, 5), Subprogram("f", 6, 7))), {3: THREE})
    assert result.program.insns[0] == Insn(0x18, 2, 4, 0, 7)
    assert result.program.insns[2] == Insn(0x85, 0, 1, 0, 5)
    assert result.program.subprograms == (Subprogram("p", 0, 7), Subprogram("f", 8, 9))


def test_helper_calls_kernel_calls_and_plain_loads_keep_their_numbers() -> None:
    insns = (Insn(0x85, imm=25), Insn(0x85, 0, 2, 0, 1), Insn(0x18, 1, 0, 0, 4), Insn(0), NOP, EXIT)
    result = apply(program(*insns), {4: THREE})
    assert result.program.insns[:4] == insns[:4]


def test_a_subprogram_that_starts_with_the_patched_instruction_starts_with_the_patch() -> None:
    insns = (Insn(0x85, 0, 1, 0, 1), EXIT, NOP, EXIT)
    result = apply(program(*insns, subprograms=(Subprogram("p", 0, 2), Subprogram("f", 2, 4))), {2: THREE})
    assert result.program.insns[0].imm == 1
    assert result.program.subprograms == (Subprogram("p", 0, 2), Subprogram("f", 2, 6))


def test_relocated_slots_and_entries_move_and_a_patch_has_none() -> None:
    before = program(NOP, Insn(0x85, imm=1), NOP, EXIT, NOP, EXIT, relocated=frozenset({0, 1, 2}), entries=(4,))
    after = apply(before, {1: THREE}).program
    assert (after.relocated, after.entries) == (frozenset({0, 4}), (6,))


def test_lines_and_references_move() -> None:
    before, at, behind = Line("f.c", 1, 1, "a"), Line("f.c", 2, 1, "b"), Line("f.c", 3, 1, "c")
    insns = (NOP, NOP, Insn(0x18, 1, 1), Insn(0), EXIT)
    result = apply(
        program(*insns, refs={2: MapRef(0), 1: SymbolRef("gone")}, lines={0: before, 1: at, 2: behind}), {1: THREE}
    )
    assert result.program.lines == {0: before, 1: at, 4: behind}
    assert result.program.refs == {1: SymbolRef("__htab_map_lookup_elem"), 4: MapRef(0)}


def test_a_fragments_jumps_beyond_its_end_move_by_what_was_inserted() -> None:
    result = apply(program(Insn(0x15, 4, off=8), NOP, NOP, fragment=True), {2: THREE})
    assert result.program.insns[0].off == 10
    back = apply(program(NOP, Insn(0x05, off=-7), fragment=True), {0: THREE})
    assert back.program.insns[3].off == -9


def test_a_branch_that_no_longer_reaches_is_named() -> None:
    insns = (Insn(0x05, off=32_767), *[NOP] * 32_767, EXIT)
    assert apply(program(*insns), {32_768: THREE}).program.insns[0].off == 32_767
    with pytest.raises(Unsupported, match="p: instruction 0: the branch would span 32769 instructions"):
        apply(program(*insns), {5: THREE})
    backward = (NOP, *[NOP] * 32_766, Insn(0x05, off=-32_768), EXIT)
    with pytest.raises(Unsupported, match="instruction 32767"):
        apply(program(*backward), {5: THREE})


def test_an_empty_patch_is_refused() -> None:
    with pytest.raises(Unsupported, match="empty patch"):
        apply(program(NOP, EXIT), {0: Patch(())})


def test_no_patches_no_change() -> None:
    before = program(Insn(0x05, off=1), NOP, EXIT)
    result = apply(before, {})
    assert (result.program, result.moved, result.relocs) == (before, (0, 1, 2, 3), {})


@dataclass(eq=False)
class Node:
    """An instruction that knows the node it points to."""

    insn: Insn
    target: "Node | None" = None
    by_imm: bool = False


def oracle(insns: list[Insn], targets: dict[int, int], patches: dict[int, Patch]) -> list[Insn]:
    """Every node keeps its target; positions are looked up by identity at the end."""
    nodes = [Node(insn) for insn in insns]
    for slot, target in targets.items():
        nodes[slot].target = nodes[target]
        nodes[slot].by_imm = insns[slot].opcode in (0x85, 0x18, 0x06)
    listing: list[Node] = []
    first: dict[int, Node] = {}
    for slot, node in enumerate(nodes):
        if slot in patches:
            fresh = [Node(insn) for insn in patches[slot].insns]
            first[id(node)] = fresh[0]
            listing += fresh
        else:
            listing.append(node)
    result = []
    for position, node in enumerate(listing):
        insn = node.insn
        if node.target is not None:
            aim = first.get(id(node.target), node.target)
            distance = next(index for index, other in enumerate(listing) if other is aim) - position - 1
            fields = (insn.off, distance) if node.by_imm else (distance, insn.imm)
            insn = Insn(insn.opcode, insn.dst, insn.src, *fields)
        result.append(insn)
    return result


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[Insn], dict[int, int], dict[int, Patch]]:
    """Instructions with targets anywhere, and patches in the place of helper calls."""
    length = draw(st.integers(1, 24))
    kinds = draw(
        st.lists(
            st.sampled_from(("plain", "helper", "branch", "long", "call", "may")), min_size=length, max_size=length
        )
    )
    insns: list[Insn] = []
    targets: dict[int, int] = {}
    patches: dict[int, Patch] = {}
    for slot, kind in enumerate(kinds):
        target = draw(st.integers(0, length - 1))
        distance = target - slot - 1
        match kind:
            case "plain":
                insns.append(NOP)
                continue
            case "helper":
                insns.append(Insn(0x85, imm=draw(st.integers(1, 200))))
                inner = draw(
                    st.lists(st.sampled_from((NOP, Insn(0x15, 0, off=1), Insn(0x05, off=-2))), min_size=1, max_size=9)
                )
                if draw(st.booleans()):
                    patches[slot] = Patch(tuple(inner))
                continue
            case "branch":
                insns.append(Insn(draw(st.sampled_from((0x05, 0x15, 0x5E, 0xCD))), 1, 0, distance, 3))
            case "may":
                insns.append(Insn(0xE5, off=distance))
            case "long":
                insns.append(Insn(0x06, imm=distance))
            case _:
                insns.append(Insn(0x85, 0, 1, 0, distance))
        targets[slot] = target
    return insns, targets, patches


@given(cases())
def test_against_the_oracle(case: tuple[list[Insn], dict[int, int], dict[int, Patch]]) -> None:
    insns, targets, patches = case
    assert list(apply(program(*insns), patches).program.insns) == oracle(insns, targets, patches)


def test_twenty_thousand_patches() -> None:
    insns = tuple(Insn(0x15, 1, off=4, imm=n) if n % 5 else Insn(0x85, imm=1) for n in range(100_000)) + (NOP,) * 5
    result = apply(program(*insns), dict.fromkeys(range(0, 100000, 5), THREE))
    assert len(result.program.insns) == 140_005
    assert result.moved[99_995] == 139_993
    assert {insn.off for insn in result.program.insns[3:1000] if insn.opcode == 0x15 and insn.dst == 1} == {6}
