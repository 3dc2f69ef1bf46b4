"""Putting patches in: one instruction becomes several, and everything that points somewhere moves along.

As `bpf_patch_insn_data` does it (kernel/bpf/verifier.c of 6.1, fixups.c of 7.3), but for all patches of a
program in one pass: what pointed to a patched instruction points to the patch's first instruction.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Literal

from model.errors import Unsupported
from model.isa.insn import Insn
from model.program import Program, Ref, Subprogram, SymbolRef

CALL, EXIT, LD_IMM64, JA32 = 0x85, 0x95, 0x18, 0x06
PSEUDO_CALL, PSEUDO_FUNC = 1, 4


@dataclass(frozen=True, slots=True)
class Reloc:
    """A field of an instruction of which only a name is known until a kernel is built.

    "call": imm is `symbol` - __bpf_call_base, 32 bits signed. "offset": imm is to be increased by
    `symbol`, the offset in bytes of a member ("struct bpf_array.value") or a field of the map that the
    input does not tell ("max_entries"); several are joined by " + ". "displacement": the same for the
    16-bit off of a load or store.
    """

    kind: Literal["call", "offset", "displacement"]
    symbol: str


@dataclass(frozen=True, slots=True)
class Patch:
    """Instructions to put in the place of one; `relocs` by index into `insns`."""

    insns: tuple[Insn, ...]
    relocs: Mapping[int, Reloc] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Patched:
    """`moved[slot]` is the first new slot of an old one, `moved[-1]` the new end; `relocs` by new slot."""

    program: Program
    moved: tuple[int, ...]
    relocs: Mapping[int, Reloc]


def apply(program: Program, patches: Mapping[int, Patch]) -> Patched:
    """The program with each slot of `patches` replaced; linear in the program's length.

    Names of called functions go into `refs`. Raises Unsupported where a 16-bit branch does not reach its
    target any more (the kernel then fails the load with -ERANGE). Targets outside of a fragment move by
    what was inserted between.
    """
    insns = program.insns
    lengths = [1] * len(insns)
    for slot, patch in patches.items():
        if not patch.insns:
            raise Unsupported(f"{program.name}: instruction {slot}: an empty patch (the kernel fails the load)")
        lengths[slot] = len(patch.insns)
    moved = (0, *accumulate(lengths))
    after: list[Insn] = []
    relocs: dict[int, Reloc] = {}
    refs: dict[int, Ref] = {moved[slot]: ref for slot, ref in program.refs.items() if slot not in patches}
    for slot, insn in enumerate(insns):
        found = patches.get(slot)
        if found is None:
            after.append(_stretched(program, insn, slot, moved))
            continue
        after.extend(found.insns)
        for index, reloc in found.relocs.items():
            relocs[moved[slot] + index] = reloc
            if reloc.kind == "call":
                refs[moved[slot] + index] = SymbolRef(reloc.symbol)
    subprograms = tuple(Subprogram(sub.name, moved[sub.start], moved[sub.end]) for sub in program.subprograms)
    lines = {moved[slot]: line for slot, line in program.lines.items()}
    relocated = frozenset(moved[slot] for slot in program.relocated if slot not in patches)
    entries = tuple(moved[start] for start in program.entries)
    result = replace(
        program,
        insns=tuple(after),
        subprograms=subprograms,
        refs=refs,
        lines=lines,
        relocated=relocated,
        entries=entries,
    )
    return Patched(result, moved, relocs)


def _stretched(program: Program, insn: Insn, slot: int, moved: Sequence[int]) -> Insn:
    """The instruction with its branch, call or callback distance as it is after the move."""
    opcode = insn.opcode
    if opcode & 0x07 in (5, 6):
        if opcode == EXIT or (opcode == CALL and insn.src != PSEUDO_CALL):
            return insn
        by_imm = opcode in (CALL, JA32)
    elif opcode == LD_IMM64 and insn.src == PSEUDO_FUNC:
        by_imm = True
    else:
        return insn
    old = insn.imm if by_imm else insn.off
    new = _position(slot + 1 + old, moved) - moved[slot] - 1
    if new == old:
        return insn
    limit = 1 << (31 if by_imm else 15)
    if not -limit <= new < limit:
        raise Unsupported(
            f"{program.name}: instruction {slot}: the branch would span {new} instructions after the rewrite, "
            f"more than 16 bits hold (the kernel fails the load with -ERANGE)"
        )
    return replace(insn, imm=new) if by_imm else replace(insn, off=new)


def _position(target: int, moved: Sequence[int]) -> int:
    if target < 0:
        return target
    last = len(moved) - 1
    return moved[target] if target <= last else moved[last] + target - last
