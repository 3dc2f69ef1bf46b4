"""Whether what the running kernel did to a program means what was loaded: by composition, as `proofs.equivalence`.

Each change is discharged by what is known of its kind: a rewritten map-helper call by its claims, removed code by the
facts of the program, what other passes put in by the claim on its row. What is left must be the same program: the
changes of other passes are put into the program before, and the two are held against each other slot by slot
(`proofs.properties.patching`). A change without a claim is named, and the whole is not proved then.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from model.isa.insn import Insn
from model.program import MapRef, Program, Ref, Subprogram
from model.rewrite import other_flow
from model.rewrite.other_passes import Row
from proofs.align import Rewritten
from proofs.check_program import lines_of
from proofs.claims import Claims
from proofs.equivalence import claimed
from proofs.live_compare import Comparison, Gone, Removed, successors
from proofs.live_sites import LiveSite
from proofs.obligation import NoRule, Proved, Refuted, Unknown, Verdict
from proofs.outcome import worst
from proofs.properties import patching
from proofs.site import Site

CALL, WIDE, JA32 = 0x85, 0x18, 0x06
RowClaim = Callable[[Row, Insn, Sequence[Insn]], Verdict | None]
"""The verdict of the claim that a row's instructions after mean the one before; None where there is no such claim."""


def no_claim(row: Row, insn: Insn, after: Sequence[Insn]) -> Verdict | None:
    return None


@dataclass(frozen=True, slots=True)
class Parts:
    """The answer: `sites` has the claims on rewritten calls, `rows` the verdict of each other change by its row's name,
    `structure` those of `patching`.
    """

    sites: tuple[Site, ...]
    rows: Mapping[str, Verdict]
    structure: Mapping[str, Verdict]

    @property
    def verdict(self) -> Verdict:
        return worst([*(site.verdict for site in self.sites), *self.rows.values(), *self.structure.values()])


def composed(found: Comparison, sites: Sequence[LiveSite], claims: Claims, row_claim: RowClaim = no_claim) -> Parts:
    """All parts of the answer on one program."""
    done = [site.done for site in sites if site.done is not None]
    lines = lines_of(found.loaded.before, [one.slot for one in done])
    left_open = {site.slot: site.left_open for site in sites if site.left_open}
    verdicts = tuple(_claimed(claimed(one, claims, lines.get(one.slot)), left_open.get(one.slot)) for one in done)
    rows = dict(_rows(found, row_claim))
    if found.strange:
        first = found.strange[0]
        at = found.loaded.before.base + first.slot
        return Parts(verdicts, rows, {"correspondence": Unknown(f"at {at}: {first.reason}")})
    lost = [site for site in sites if site.agrees is False and site.done is None and site.slot in found.places]
    odd = [site for site in lost if len(site.place) != 1]
    if odd:
        at = found.loaded.before.base + odd[0].slot
        return Parts(verdicts, rows, {"correspondence": Unknown(f"at {at}: {odd[0].kernel}")})
    pair = _Pair(found, done).build()
    parts = patching.check(pair.before, pair.after, pair.moved, pair.patched, claims.functions)
    return Parts(verdicts, rows, {name: _open(name, one) for name, one in parts.items() if name != "lines"})


def _claimed(site: Site, left_open: str | None) -> Site:
    return replace(site, verdict=worst([site.verdict, Unknown(left_open)])) if left_open else site


def _open(name: str, verdict: Verdict) -> Verdict:
    """A structural difference may be without effect; it is not proved, and not refuted."""
    if not isinstance(verdict, Refuted):
        return verdict
    return Unknown(f"{name}: " + "; ".join(f"{shown.label} {shown.value}" for shown in verdict.counterexample.shown))


def _rows(found: Comparison, row_claim: RowClaim) -> Iterator[tuple[str, Verdict]]:
    """The worst verdict of each row's changes."""
    by_row: dict[str, list[Verdict]] = {}
    for gone in found.removed.values():
        by_row.setdefault(gone.row.name, []).append(_removal(found, gone, row_claim))
    for change in [*found.changes, *(front.change for front in found.fronts.values())]:
        known = change.row.name == "known branch"
        place = range(change.at, change.at + change.length)
        verdict = _branch(found, change.slot) if known else _named(found, change.row, change.slot, row_claim, place)
        by_row.setdefault(change.row.name, []).append(verdict)
    if found.tail:
        row = other_flow.EXCEPTION
        by_row[row.name] = [_named(found, row, 0, row_claim)]
    for name, verdicts in by_row.items():
        yield name, worst(verdicts)


def _removal(found: Comparison, gone: Removed, row_claim: RowClaim) -> Verdict:
    """Code that no path reaches by the model's own facts; a jump that goes where the next one is. Else the verifier
    knows more.
    """
    if not found.facts.reached[gone.slot]:
        return Proved()
    if gone.gone is Gone.DEAD:
        return Unknown(f"{gone.row.name}: the model does not see that {_at(found, gone.slot)} is never reached")
    if gone.row is other_flow.NEXT:
        if found.loaded.before.insns[gone.slot].opcode != other_flow.JCOND:
            return Proved()
        return _named(found, gone.row, gone.slot, row_claim)
    if gone.row is other_flow.KNOWN_REMOVED:
        return _branch(found, gone.slot)
    return _named(found, gone.row, gone.slot, row_claim)


def _named(found: Comparison, row: Row, slot: int, row_claim: RowClaim, place: range = range(0)) -> Verdict:
    """A change that has a name: as good as the claim on it, if there is one."""
    after = found.loaded.after.insns[place.start : place.stop]
    claim = row_claim(row, found.loaded.before.insns[slot], after)
    return claim or NoRule(f"{row.name}: no claim is made on it")


def _branch(found: Comparison, slot: int) -> Verdict:
    """A branch of which the way that is not taken is never reached; or both ways lead to one place."""
    ways = list(successors(found.loaded.before, slot))
    lands = {found.lands(way) for way in ways}
    if len(lands) == 1 and None not in lands:
        return Proved()
    dead = [way for way in ways if found.lands(way) is None]
    if dead and all(not found.facts.reached[way] for way in dead):
        return Proved()
    return Unknown(f"known branch: the model does not decide the branch at {_at(found, slot)}")


def _at(found: Comparison, slot: int) -> int:
    return found.loaded.before.base + slot


@dataclass(slots=True)
class _Pair:
    """The program before with everything of the other passes put in, and the program after; they differ at `patched`,
    the sites, only. `entry` and `way` say where a slot of the loaded program is now, for calls and for jumps.
    """

    found: Comparison
    done: Sequence[Rewritten]
    insns: list[Insn] = field(default_factory=list)
    moved: list[int] = field(default_factory=list)
    patched: set[int] = field(default_factory=set)
    entry: dict[int, int] = field(default_factory=dict)
    way: dict[int, int] = field(default_factory=dict)
    refs: dict[int, Ref] = field(default_factory=dict)
    origin: list[int | None] = field(default_factory=list)
    subprograms: tuple[Subprogram, ...] = ()

    @property
    def before(self) -> Program:
        given = self.found.loaded.before
        return replace(
            given, insns=tuple(self.insns), refs=self.refs, subprograms=self.subprograms, lines={}, entries=()
        )

    @property
    def after(self) -> Program:
        return replace(self.found.loaded.after, lines={}, entries=())

    def build(self) -> "_Pair":
        given, after = self.found.loaded.before, self.found.loaded.after
        rewritten = {one.slot for one in self.done}
        changed = {change.slot for change in self.found.changes}
        sites = set(self.found.sites)
        for slot, place in self.found.places.items():
            self.entry[slot] = len(self.insns)
            front = self.found.fronts.get(slot)
            if front is not None:
                self._copy(range(front.change.at, front.change.at + front.change.length))
            behind = front is not None and front.change.row.name == "counter of may_goto"
            self.way[slot] = len(self.insns) if behind else self.entry[slot]
            if slot in changed:
                self._copy(place)
                continue
            width = 2 if given.insns[slot].opcode == WIDE else 1
            ref = given.refs.get(slot)
            if slot in rewritten:
                self.patched.add(len(self.insns))
            elif given.insns[slot].opcode == CALL and slot not in sites and given.insns[slot].src != 1:
                self._copy(place)  # of one function, as the comparison says: by number before, by address after
                continue
            elif isinstance(ref, MapRef):
                self.refs[len(self.insns)] = ref
            for number in range(width):
                self.insns.append(given.insns[slot + number])
                self.moved.append(place.start + number)
                self.origin.append(slot if number == 0 else None)
        self._copy(self.found.tail)
        self.moved.append(len(after.insns))
        self._targets()
        self._functions()
        return self

    def _copy(self, place: range) -> None:
        """Instructions of another pass, as they are after."""
        after = self.found.loaded.after
        for at in place:
            if at in after.refs:
                self.refs[len(self.insns)] = after.refs[at]
            self.insns.append(after.insns[at])
            self.moved.append(at)
            self.origin.append(None)

    def _targets(self) -> None:
        """Distances: of the program's own instructions by the program before, of the others by where they go after."""
        given = self.found.loaded.before
        for at, insn in enumerate(self.insns):
            slot = self.origin[at]
            kind = _pointer(insn)
            if kind is None or at in self.patched:
                continue
            if slot is None:
                position = self.moved[at] + 1 + (insn.imm if kind == "imm" else insn.off)
                here = bisect_left(self.moved, position)
            else:
                target = slot + 1 + (given.insns[slot].imm if kind == "imm" else given.insns[slot].off)
                calls = insn.opcode in (CALL, WIDE)
                landed = self.found.lands(target)
                if landed is None:
                    continue
                here = (self.entry if calls else self.way)[landed]
            distance = here - at - 1
            self.insns[at] = replace(insn, imm=distance) if kind == "imm" else replace(insn, off=distance)

    def _functions(self) -> None:
        given = self.found.loaded.before
        starts = []
        for part in given.subprograms:
            first = next((slot for slot in range(part.start, part.end) if slot in self.entry), None)
            if first is not None:
                starts.append((part.name, self.entry[first]))
        ends = [start for _, start in starts[1:]] + [len(self.insns)]
        self.subprograms = tuple(Subprogram(name, at, end) for (name, at), end in zip(starts, ends, strict=True))


def _pointer(insn: Insn) -> str | None:
    """The field that has a distance in the program."""
    if insn.opcode & 7 in (5, 6) and insn.opcode & 0xF0 not in (0x80, 0x90):
        return "imm" if insn.opcode == JA32 else "off"
    if (insn.opcode == CALL and insn.src == 1) or (insn.opcode == WIDE and insn.src == 4):
        return "imm"
    return None
