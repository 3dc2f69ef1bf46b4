"""Where functions begin in assembled instructions, and whether every jump stays in its own."""

from bisect import bisect_right
from collections.abc import Callable, Mapping, Set
from itertools import pairwise

from model.errors import InputError
from model.isa.insn import Insn
from model.isa.opcodes import CALL, EXIT, GOTOL, GOTOX, WIDE, Call, Class, Imm64
from model.program import Subprogram

Wrong = Callable[[int, str], InputError]
"""Makes the error for a slot."""


def _jump(slot: int, insn: Insn) -> int | None:
    """The slot that an instruction jumps to (RFC 9669, section 4.3), None where it does not jump."""
    if insn.opcode & 7 not in (Class.JMP, Class.JMP32) or insn.opcode in (CALL, EXIT, GOTOX):
        return None
    return slot + 1 + (insn.imm if insn.opcode == GOTOL else insn.off)


def _callee(slot: int, insn: Insn) -> int | None:
    """The slot that a call or a callback address names (add_subprog_and_kfunc, kernel/bpf/verifier.c, 6.1)."""
    if (insn.opcode == CALL and insn.src == Call.SUBPROGRAM) or (insn.opcode == WIDE and insn.src == Imm64.FUNC):
        return slot + 1 + insn.imm
    return None


def _lands(insns: tuple[Insn, ...], slot: int, target: int, wrong: Wrong) -> None:
    if not 0 <= target < len(insns):
        raise wrong(slot, f"a target inside of the program's {len(insns)} slots, found slot {target}")
    if insns[target].opcode == 0:
        raise wrong(slot, f"an instruction as target, found slot {target}, the second half of a 64-bit load")


def subprograms(
    insns: tuple[Insn, ...], names: Mapping[int, str], functions: Set[int], wrong: Wrong
) -> tuple[Subprogram, ...]:
    """The program's functions: those declared (first slots in `functions`), and every target of a call or callback.

    `names` has the labels by slot; a target without one is called subprog_N after its slot.
    """
    starts = {0, *functions}
    for slot, insn in enumerate(insns):
        target = _callee(slot, insn)
        if target is not None:
            _lands(insns, slot, target, wrong)
            starts.add(target)
    if len(insns) in starts:
        raise wrong(len(insns) - 1, f"instructions after .func {names[len(insns)]}")
    bounds = [*sorted(starts), len(insns)]
    return tuple(Subprogram(names.get(start, f"subprog_{start}"), start, end) for start, end in pairwise(bounds))


def check_targets(insns: tuple[Insn, ...], parts: tuple[Subprogram, ...], wrong: Wrong) -> None:
    """Raises what `wrong` makes for a jump out of its function (check_subprogs, 6.1) or into a 64-bit load."""
    starts = [part.start for part in parts]
    for slot, insn in enumerate(insns):
        target = _jump(slot, insn)
        if target is None:
            continue
        _lands(insns, slot, target, wrong)
        part = parts[bisect_right(starts, slot) - 1]
        if not part.start <= target < part.end:
            raise wrong(slot, f"a target inside of function {part.name}, found slot {target}")
