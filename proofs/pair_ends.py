"""What two runs of one input differ in, and the step where they part."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import zip_longest

from model.isa.insn import Insn
from model.machine.outcome import Fault, Limit
from model.machine.regions import CODE_BASE
from proofs.pair_kernel import Event
from proofs.pair_run import End, Moment

ALIGNED = 2_000
"""Instructions of a program that are aligned by what they are (quadratic at worst)."""


def differ(before: End, after: End) -> str:
    """In what two ends differ that a program's user can see; "" where they agree or where a run was cut short."""
    one, two = before.outcome, after.outcome
    if isinstance(one, Limit) or isinstance(two, Limit) or isinstance(one, Fault):
        return ""
    if isinstance(two, Fault):
        return "the end: a fault"
    if one.value != two.value:
        return "r0"
    if before.context != after.context:
        return "the context"
    if before.packet != after.packet:
        return "the packet"
    changed = [number for number in before.maps if before.maps[number] != after.maps[number]]
    return f"map {changed[0]}" if changed else ""


@dataclass(frozen=True, slots=True)
class Parting:
    """The instruction (slots before and after) behind which `register` differs, with both values; where the two go on
    at different places `register` is None and the values are the next slots, before and after.
    """

    slot: int
    after: int
    register: int | None
    values: tuple[int, int]


def parting(before: Sequence[Moment], after: Sequence[Moment], moved: Sequence[int]) -> Parting | None:
    """Where two traces of one input part: at the first instruction, or patch, that leaves something else."""
    starts = {at: slot for slot, at in reversed(list(enumerate(moved[:-1])))}
    arrivals = ((starts[moment.slot], moment) for moment in after if moment.slot in starts)
    last: tuple[int, int] | None = None
    for one, (slot, two) in zip(before, arrivals, strict=False):
        if one.slot != slot:
            return None if last is None else Parting(*last, None, (one.slot, two.slot))
        if last is not None and one.r0 is not None and two.r0 is not None and one.r0 != two.r0:
            return Parting(*last, 0, (one.r0, two.r0))
        here = one.slot, two.slot
        single = moved[one.slot + 1] == two.slot + 1
        for register, (mine, other) in enumerate(zip(one.registers[:10], two.registers, strict=False)):
            if mine is None or other is None or mine == other or _moved(mine, moved) == other:
                continue
            pair = mine, other
            if register not in one.changed | two.changed:
                return None if last is None else Parting(*last, register, pair)
            if single:
                return Parting(*here, register, pair)
        last = here
    return None


def alike(before: Sequence[Insn], after: Sequence[Insn]) -> dict[int, int]:
    """Slots of instructions that were kept, or replaced one by one, in two programs that nothing else aligns."""
    if max(len(before), len(after)) > ALIGNED:
        return {}
    found: dict[int, int] = {}
    for kind, i, j, k, m in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if kind == "equal" or (kind == "replace" and j - i == m - k):
            found |= zip(range(i, j), range(k, m), strict=True)
        elif kind == "replace":
            found[j - 1] = m - 1
    return found


def parting_of(before: Sequence[Moment], after: Sequence[Moment], slots: Mapping[int, int]) -> Parting | None:
    """As `parting`, by instructions that are `alike`: the first that are not run in the same order, or that leave
    something else in one register.
    """
    others = set(slots.values())
    mine = [moment for moment in before if moment.slot in slots]
    theirs = [moment for moment in after if moment.slot in others]
    last: tuple[int, int] | None = None
    for one, two in zip(mine, theirs, strict=False):
        if slots[one.slot] != two.slot:
            return None if last is None else Parting(*last, None, (one.slot, two.slot))
        last = one.slot, two.slot
        for register in sorted(one.changed & two.changed):
            values = one.registers[register], two.registers[register]
            if values[0] is not None and values[1] is not None and values[0] != values[1]:
                return Parting(*last, register, (values[0], values[1]))
    return None


@dataclass(frozen=True, slots=True)
class Split:
    """The first thing that one run does to its surroundings and the other does not: None where it does nothing more."""

    number: int
    before: Event | None
    after: Event | None


def split(before: Sequence[Event], after: Sequence[Event]) -> Split | None:
    """Where two runs part, whatever their instructions are: calls, callbacks, stores outside of the stack, by order."""
    for number, (one, two) in enumerate(zip_longest(before, after), 1):
        if one is None or two is None or one.what != two.what:
            return Split(number, one, two)
    return None


def _moved(word: int, moved: Sequence[int]) -> int:
    """A word that is the address of one of the program's own instructions, where that went."""
    slot, rest = divmod(word - CODE_BASE, 8)
    return CODE_BASE + 8 * moved[slot] if not rest and 0 <= slot < len(moved) else word
