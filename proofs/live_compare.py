"""A program as the running kernel made it, held against the program that was loaded: which pass did what, slot by slot.

The kernel tells where each instruction went (`model.loaders.live_xlated`). Here each instruction is looked up: kept, a
site of the rewrite, changed by another pass (a row of `model.rewrite.other_passes`), removed, or not understood.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from model.facts import Facts
from model.kernel.release import Release
from model.loaders.kernel_symbols import Symbols
from model.loaders.live_object import Loaded
from model.program import ExternRef, MapRef, Program, SymbolRef
from model.rewrite import other_alu, other_calls, other_flow, other_memory
from model.rewrite.other_functions import functions as functions_of
from model.rewrite.other_passes import CALLBACK, At, Change, Kernel, Row, recognise
from proofs.align import SYNONYMS, same_but_distance
from proofs.report.listing import slots
from proofs.symbols import helper_functions

CALL, EXIT, WIDE, JA, JA32 = 0x85, 0x95, 0x18, 0x05, 0x06
ROWS = (*other_alu.ROWS, *other_calls.ROWS, *other_flow.ROWS, *other_memory.ROWS)


class Gone(Enum):
    """What a removed instruction was: never reached, or passed through on the way to the next one that is left."""

    DEAD = "dead"
    PASSED = "passed"


@dataclass(frozen=True, slots=True)
class Removed:
    slot: int
    row: Row
    gone: Gone


@dataclass(frozen=True, slots=True)
class Strange:
    """An instruction before and a place after that nothing explains."""

    slot: int
    place: range
    reason: str


@dataclass(frozen=True, slots=True)
class Front:
    """What is put in front of a function's first instruction, at `slot`."""

    slot: int
    change: Change


@dataclass(slots=True)
class Comparison:
    """`places` has, by slot before, the instructions after that stand for it (without what is in front of them).

    `sites` are the slots of map-helper calls that are left, to be judged by the rewrite's own rules.
    """

    loaded: Loaded
    facts: Facts
    release: Release
    symbols: Symbols
    places: dict[int, range] = field(default_factory=dict)
    sites: list[int] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    fronts: dict[int, Front] = field(default_factory=dict)
    removed: dict[int, Removed] = field(default_factory=dict)
    strange: list[Strange] = field(default_factory=list)
    landing: list[int | None] = field(default_factory=list)
    tail: range = range(0)
    """The default exception callback, behind the program's own code."""

    def run(self) -> "Comparison":
        before, read = self.loaded.before, self.loaded.read
        helpers = {number: name for name, number in self.release.helper_ids.items()}
        functions = helper_functions(self.release)
        rows = [row for row in ROWS if row.covers(self.release.version)]
        starts = frozenset(part.start for part in self.loaded.after.subprograms)
        kernel = Kernel(read.moved, self.symbols.places, starts)
        self.tail = self._tail()
        for slot in slots(before):
            width = 2 if before.insns[slot].opcode == WIDE else 1
            place = range(read.moved[slot], read.moved[slot + width])
            if place.stop == len(read.insns):
                place = range(place.start, min(place.stop, self.tail.start))
            if slot in read.removed:
                self._removed(slot)
                continue
            if place.start in starts:
                place = self._front(slot, place, width, kernel)
            self.places[slot] = place
            at = self._at(slot, helpers)
            if at.helper in self.release.helpers:
                self.sites.append(slot)
            elif not self._kept(at, place, functions):
                found = recognise(rows, at, self.loaded.after, place, kernel)
                if found is None or not self._calls_back(found):
                    self.strange.append(Strange(slot, place, "no pass that is known makes this of the instruction"))
                else:
                    self.changes.append(found)
        self.landing = self._landing()
        self.strange += self._fallen()
        return self

    def _at(self, slot: int, helpers: Mapping[int, str]) -> At:
        insns = self.loaded.before.insns
        insn = insns[slot]
        high = insns[slot + 1].imm if insn.opcode == WIDE else 0
        return At(slot, insn, high, helpers.get(insn.imm, "") if insn.opcode == CALL and insn.src == 0 else "")

    def _tail(self) -> range:
        """Where a program that throws and names no callback of its own gets one."""
        insns = self.loaded.read.insns
        throws = any(isinstance(ref, ExternRef) and ref.name == "bpf_throw" for ref in self.loaded.before.refs.values())
        made = throws and not self.loaded.before.entries and insns[-2:] == other_flow.ENDS
        return range(len(insns) - 2 if made else len(insns), len(insns))

    def _front(self, slot: int, place: range, width: int, kernel: Kernel) -> range:
        """The place without what stands in front of a function."""
        at = At(slot, self.loaded.before.insns[slot])
        for length in range(1, len(place) - width + 1):
            head = range(place.start, place.start + length)
            found = recognise(other_flow.PREFIXES, at, self.loaded.after, head, kernel)
            if found is not None:
                self.fronts[slot] = Front(slot, found)
                return range(head.stop, place.stop)
        return place

    def _kept(self, at: At, place: range, functions: Mapping[int, str]) -> bool:
        """One instruction that is as it was, but for where it jumps to; a call of the same function, by its address."""
        before, after = self.loaded.before, self.loaded.after
        if len(place) != (2 if at.insn.opcode == WIDE else 1):
            return False
        now, ref, found = after.insns[place.start], before.refs.get(at.slot), after.refs.get(place.start)
        if at.insn.opcode == CALL and at.insn.src != 1:
            name = found.name if isinstance(found, SymbolRef) else ""
            return now == replace(at.insn, imm=now.imm) and self._is_function(at, name, functions)
        if at.insn.opcode == WIDE:
            second = after.insns[place.start + 1] == before.insns[at.slot + 1]
            if isinstance(ref, MapRef):
                return second and ref == found and now == replace(at.insn, imm=0)
            if at.insn.src == 4:
                return second and replace(now, imm=0) == replace(at.insn, imm=0)
            return second and now == at.insn
        return now == at.insn or same_but_distance(at.insn, now)

    def _is_function(self, at: At, name: str, functions: Mapping[int, str]) -> bool:
        """Whether a call (of a helper by its number, of a kernel function by BTF) is of the function `name`."""
        ref = self.loaded.before.refs.get(at.slot)
        if at.insn.src == 2:
            return isinstance(ref, ExternRef) and name == ref.name.partition("___")[0]
        own = functions.get(at.insn.imm, "")
        known = {own, SYNONYMS.get(own, own)} | (functions_of(at.helper) if at.helper else set())
        return at.helper != "tail_call" and bool(name) and name in known

    def _calls_back(self, change: Change) -> bool:
        """What a patch calls is what the helper would have called back, as far as the model sees."""
        seen = self.facts.callbacks.get(change.slot, ())
        moved = self.loaded.read.moved
        return CALLBACK not in change.bound or not seen or change.bound[CALLBACK] in {moved[start] for start in seen}

    def _removed(self, slot: int) -> None:
        """Known by what it was: whether it was reached is asked at the end (`_fallen`)."""
        at = At(slot, self.loaded.before.insns[slot])
        moved = self.loaded.read.moved
        insn = at.insn
        for row in (other_flow.NEXT, other_flow.KNOWN_REMOVED, other_flow.SPILL):
            if row.pattern(at) and row.covers(self.release.version):
                jump = slot + 1 + (insn.imm if insn.opcode == JA32 else insn.off)
                if row is other_flow.NEXT and not (0 <= jump < len(moved) and moved[jump] == moved[slot]):
                    break
                self.removed[slot] = Removed(slot, row, Gone.PASSED)
                return
        self.removed[slot] = Removed(slot, other_flow.DEAD, Gone.DEAD)

    def lands(self, slot: int) -> int | None:
        """The first slot that is left on the way from `slot`; None where that is dead code."""
        return self.landing[slot] if 0 <= slot < len(self.landing) else None

    def _landing(self) -> list[int | None]:
        """From the last slot to the first: what was removed on the way lets one pass on, forward."""
        insns, moved = self.loaded.before.insns, self.loaded.read.moved
        found: list[int | None] = [None] * len(insns)
        for slot in reversed(range(len(insns))):
            gone = self.removed.get(slot)
            if gone is None:
                found[slot] = slot
            elif gone.gone is Gone.PASSED:
                for way in successors(self.loaded.before, slot):
                    left = found[way] if slot < way < len(insns) else None
                    if left is not None and moved[left] == moved[slot]:
                        found[slot] = left
        return found

    def _fallen(self) -> Iterator[Strange]:
        """Instructions that are left, from which a way leads into code that was removed."""
        if self.loaded.before.insns and self.lands(0) is None:
            yield Strange(0, range(0), "the program's first instruction was removed")
        known = {change.slot for change in self.changes if change.row.name == "known branch"}
        for slot, place in self.places.items():
            insn = self.loaded.before.insns[slot]
            if slot in known or insn.opcode == CALL:
                continue  # the verifier knows the way; a call may not return (exceptions)
            for way in successors(self.loaded.before, slot):
                if self.lands(way) is None:
                    yield Strange(slot, place, f"the way to {self.loaded.before.base + way} leads into removed code")


def successors(program: Program, slot: int) -> Iterator[int]:
    """Slots that may follow in the same function."""
    insn = program.insns[slot]
    if insn.opcode & 7 in (5, 6) and insn.opcode & 0xF0 not in (0x80, 0x90):
        yield slot + 1 + (insn.imm if insn.opcode == JA32 else insn.off)
        if insn.opcode in (JA, JA32):
            return
    if insn.opcode != EXIT:
        yield slot + (2 if insn.opcode == WIDE else 1)
