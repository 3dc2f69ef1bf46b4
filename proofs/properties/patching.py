"""Patching(before, after): after patches changed the program's length, everything points where it pointed.

Decided on the program's structure, without the code that applies patches: each instruction before stands
for a run of instructions after (one, or its patch), and the two control-flow relations are the same under
this correspondence. That is a bisimulation, given what the sites' own claims say of each patch.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from model.isa.insn import Insn
from model.program import Program, SymbolRef
from proofs.obligation import Counterexample, Proved, Refuted, Shown, Verdict

CALL, WIDE = 0x85, 0x18
PARTS = ("correspondence", "branches", "calls", "callback_addresses", "subprograms", "references", "lines")


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that points elsewhere: at `slot` (before), where `expected` and `found` are slots after."""

    part: str
    what: str
    slot: int
    expected: int
    found: int


def check(
    before: Program, after: Program, moved: Sequence[int], patched: Collection[int], functions: Mapping[int, str]
) -> dict[str, Verdict]:
    """Each part's verdict; linear.

    `moved[i]` is where slot i of `before` begins in `after`, `moved[n]` is after's length; `patched` are the
    slots that a patch replaced. A helper call that stays has its id before and its function's name after:
    `functions` gives the symbol of each helper id.
    """
    first: dict[str, Fault] = {}
    for fault in _faults(_Pair(before, after, moved, frozenset(patched), functions)):
        first.setdefault(fault.part, fault)
    return {part: _verdict(first.get(part)) for part in PARTS}


def _verdict(fault: Fault | None) -> Verdict:
    if fault is None:
        return Proved()
    shown = (
        Shown(f"{fault.what} at slot {fault.slot} before: expected slot after", 32, fault.expected & 0xFFFFFFFF),
        Shown("found", 32, fault.found & 0xFFFFFFFF),
    )
    return Refuted(Counterexample(shown, {}, {}))


@dataclass(frozen=True, slots=True)
class _Pair:
    before: Program
    after: Program
    moved: Sequence[int]
    patched: frozenset[int]
    functions: Mapping[int, str]


def _faults(pair: _Pair) -> Iterator[Fault]:
    before, after, moved, patched = pair.before, pair.after, pair.moved, pair.patched
    size = len(before.insns)
    if len(moved) != size + 1 or moved[0] != 0 or moved[size] != len(after.insns):
        yield Fault("correspondence", "program", 0, len(after.insns), moved[-1] if moved else -1)
        return
    for slot in range(size):
        start, end = moved[slot], moved[slot + 1]
        if end <= start or (slot not in patched and end != start + 1):
            yield Fault("correspondence", "instruction", slot, start + 1, end)
            return
    for slot, insn in enumerate(before.insns):
        if slot in patched:
            yield from _inside(after, slot, moved[slot], moved[slot + 1])
        elif insn.opcode == CALL and insn.src == 0:
            yield from _same_helper(pair, slot, insn)
        elif insn.opcode & 7 in (5, 6) or insn.opcode == WIDE:
            yield from _kept(slot, insn, after.insns[moved[slot]], moved)
        elif insn != after.insns[moved[slot]]:
            yield Fault("correspondence", "instruction", slot, moved[slot], -1)
    yield from _tables(before, after, moved, patched)


def _same_helper(pair: _Pair, slot: int, insn: Insn) -> Iterator[Fault]:
    """A helper call that stays: by its id before, by its function after (or untouched)."""
    at = pair.moved[slot]
    now = pair.after.insns[at]
    named = pair.after.refs.get(at)
    if isinstance(named, SymbolRef) and slot not in pair.before.refs:
        same = (
            replace(now, imm=0) == replace(insn, imm=0)
            and pair.functions.get(insn.imm, f"helper#{insn.imm}") == named.name
        )
    else:
        same = now == insn
    if not same:
        yield Fault("correspondence", "helper call", slot, at, -1)


def _target(slot: int, insn: Insn) -> tuple[str, int] | None:
    """What kind of pointer into the program an instruction holds, and the slot that it points to."""
    kind = insn.opcode & 7
    operation = insn.opcode & 0xF0
    if kind in (5, 6) and operation not in (0x80, 0x90, 0xF0):
        return "branches", slot + 1 + (insn.imm if insn.opcode == 0x06 else insn.off)
    if insn.opcode == 0x85 and insn.src == 1:
        return "calls", slot + 1 + insn.imm
    if insn.opcode == 0x18 and insn.src == 4:
        return "callback_addresses", slot + 1 + insn.imm
    return None


def _kept(slot: int, insn: Insn, now: Insn, moved: Sequence[int]) -> Iterator[Fault]:
    """An instruction that no patch replaced: the same one, pointing to the same place."""
    was = _target(slot, insn)
    if was is None:
        if insn != now:
            yield Fault("correspondence", "instruction", slot, moved[slot], -1)
        return
    part, target = was
    found = _target(moved[slot], now)
    same_but_for_pointer = replace(insn, off=0, imm=0) == replace(now, off=0, imm=0)
    if found is None or not same_but_for_pointer:
        yield Fault("correspondence", "instruction", slot, moved[slot], -1)
    elif 0 <= target < len(moved):
        if found[1] != moved[target]:
            yield Fault(part, "target", slot, moved[target], found[1])
    elif found[1] - moved[-1] != target - (len(moved) - 1) and found[1] != target:
        yield Fault(part, "target outside of the listing", slot, target, found[1])


def _inside(after: Program, slot: int, start: int, end: int) -> Iterator[Fault]:
    """A patch's own branches stay inside of it, or leave at its end."""
    for at in range(start, end):
        pointer = _target(at, after.insns[at])
        if pointer is not None and pointer[0] == "branches" and not at < pointer[1] <= end:
            yield Fault("branches", "target inside of a patch", slot, end, pointer[1])


def _tables(before: Program, after: Program, moved: Sequence[int], patched: frozenset[int]) -> Iterator[Fault]:
    spans = [(moved[s.start], moved[s.end]) for s in before.subprograms]
    found = [(s.start, s.end) for s in after.subprograms]
    for (start, end), now, row in zip(spans, found, before.subprograms, strict=False):
        if (start, end) != now:
            yield Fault("subprograms", row.name, row.start, start, now[0])
    if len(spans) != len(found):
        yield Fault("subprograms", "number of subprograms", 0, len(spans), len(found))
    for slot, ref in before.refs.items():
        if slot not in patched and after.refs.get(moved[slot]) != ref:
            yield Fault("references", "reference", slot, moved[slot], -1)
    for slot, line in before.lines.items():
        if after.lines.get(moved[slot]) != line:
            yield Fault("lines", "line record", slot, moved[slot], -1)
