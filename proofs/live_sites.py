"""Map-helper calls of a program that the running kernel rewrote: what it made of each, and whether the model agrees."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from model.facts import MapPointer, SiteFact
from model.isa.insn import Insn
from model.kernel.release import GenLookup, Release
from model.loaders.kernel_btf import KernelTypes
from model.program import SymbolRef
from model.rewrite.config import Config
from model.rewrite.direct_call import Decision, Kind
from model.rewrite.passes import Rewritten as Model
from model.rewrite.recognise import Match, Mismatch, match_lookup
from proofs.align import LOOKUP, Change, Rewritten
from proofs.live_compare import Comparison
from proofs.site import described
from proofs.vm_sites import expected_text, functions_of

CALL = 0x85


@dataclass(frozen=True, slots=True)
class LiveSite:
    """One call. `kernel` and `model` say in words what became of it; `agrees` None where the model leaves it open, or
    the kernel removed the call; `done` is what the kernel put in its place (None where the call is still the helper's).
    `left_open` says which other maps may reach the call as far as the model sees: of them the claim says nothing.
    """

    slot: int
    helper: str
    place: range
    model: str
    kernel: str
    agrees: bool | None
    done: Rewritten | None = None
    reason: str = ""
    left_open: str = ""


@dataclass(frozen=True, slots=True)
class Judge:
    """`types` are the running kernel's: what offsets in inlined lookups must be."""

    found: Comparison
    model: Model
    config: Config
    types: KernelTypes

    def sites(self) -> list[LiveSite]:
        return [self._site(decision) for decision in self.model.decisions]

    def _site(self, decision: Decision) -> LiveSite:
        release, slot = self.found.release, decision.slot
        expected = expected_text(decision, release)
        if slot in self.found.removed:
            known = self.found.facts.sites[slot].reached
            told = "removed as dead code" + ("" if not known else " (by what the verifier knows of values)")
            return LiveSite(slot, decision.helper, range(0), expected, told, None if known else True)
        place = self.found.places[slot]
        fact = self.found.facts.sites[slot]
        name = self._called(place)
        if name and name in functions_of(replace(decision, kind=Kind.STAYS), release):
            return self._told(decision, place, name, decision.kind in (Kind.STAYS, Kind.MAY_STAY))
        if name in release.functions and not self._inlines(decision, place):
            return self._direct(decision, place, fact, name)
        return self._inlined(decision, place, fact)

    def _called(self, place: range) -> str:
        """The function that is called by the only instruction there; "" where it is not that."""
        after = self.found.loaded.after
        insn = after.insns[place.start]
        ref = after.refs.get(place.start)
        plain = len(place) == 1 and replace(insn, imm=0) == Insn(CALL)
        return ref.name if plain and isinstance(ref, SymbolRef) else ""

    def _told(
        self, decision: Decision, place: range, kernel: str, agrees: bool, done: Rewritten | None = None
    ) -> LiveSite:
        expected = expected_text(decision, self.found.release)
        answer = None if decision.kind is Kind.UNKNOWN else agrees
        open_ = ""
        if done is not None and decision.kind is Kind.MAY_STAY:
            kept = {pointer.key for pointer in done.fact.pointers}
            names = [described(pointer) for pointer in decision.pointers if pointer.key not in kept]
            open_ = f"as far as the model sees, {', '.join(names)} may reach it too" if names else ""
        return LiveSite(decision.slot, decision.helper, place, expected, kernel, answer, done, decision.reason, open_)

    def _direct(self, decision: Decision, place: range, fact: SiteFact, name: str) -> LiveSite:
        done = Rewritten(decision.slot, place.start, decision.helper, fact, Change.DIRECT, name)
        if decision.kind is Kind.MAY_STAY:
            fit = tuple(pointer for pointer in fact.pointers if self._operation(decision.helper, pointer) == name)
            if fit:
                done = replace(done, fact=replace(fact, pointers=fit))
            return self._told(decision, place, name, bool(fit), done)
        return self._told(decision, place, name, decision.kind is Kind.DIRECT and name == decision.function, done)

    def _operation(self, helper: str, pointer: MapPointer) -> str:
        row = self.found.release.rewrite(helper)
        found = self.found.release.operation(pointer.map.type or "", row.slot) if row is not None else None
        return "" if found is None else found.name

    def _inlines(self, decision: Decision, place: range) -> bool:
        """A sequence of one instruction: a call that is a lookup's own form."""
        return decision.kind is Kind.INLINED and decision.patch is not None and len(decision.patch.insns) == len(place)

    def _inlined(self, decision: Decision, place: range, fact: SiteFact) -> LiveSite:
        tried = [(pointer, self._match(place, pointer)) for pointer in fact.pointers]
        matches = {pointer: match for pointer, match in tried if isinstance(match, Match)}
        told = f"{len(place)} instructions"
        if decision.helper != LOOKUP or not matches:
            misses = [f": {match.reason}" for _, match in tried if isinstance(match, Mismatch)]
            return self._told(decision, place, f"{told} that are no lookup of the map{''.join(misses)}", False)
        wrong = [text for match in matches.values() if (text := self._offsets(match))]
        learned = {name: value for match in matches.values() for name, value in match.bound.items()}
        kept = replace(fact, pointers=tuple(matches)) if decision.kind is Kind.MAY_STAY else fact
        done = Rewritten(decision.slot, place.start, LOOKUP, kept, Change.INLINED, "", len(place), learned)
        all_of_them = decision.kind is Kind.INLINED and len(matches) == len(fact.pointers)
        agrees = (all_of_them or decision.kind is Kind.MAY_STAY) and not wrong
        return self._told(decision, place, "; ".join([f"inlined, {told}", *wrong]), agrees, done)

    def _match(self, place: range, pointer: MapPointer) -> Match | Mismatch | None:
        """Instruction for instruction what the release's sequence for the map is, to the last of them."""
        gen = lookup_of(self.found.release, pointer)
        if gen is None:
            return None
        after = self.found.loaded.after
        match = match_lookup(after, place.start, gen, pointer.map, self.config, self.found.release)
        if isinstance(match, Match) and match.length != len(place):
            return Mismatch(f"{gen.function} makes {match.length} instructions", place.start)
        return match

    def _offsets(self, match: Match) -> str:
        """Members' offsets that are not the running kernel's."""
        for name, value in match.bound.items():
            known = [_offset(self.types, part) for part in name.split(" + ")]
            told = [one for one in known if one is not None]
            if len(told) == len(known) and sum(told) != value:
                return f"{name} = {value}, but it is {sum(told)} in {self.types.file}"
        return ""


def lookup_of(release: Release, pointer: MapPointer) -> GenLookup | None:
    row = release.map_types.get(pointer.map.type or "")
    if row is None or row.ops is None:
        return None
    return release.gen_lookup.get(release.ops[row.ops].slots.get("map_gen_lookup", ""))


def _offset(types: KernelTypes, name: str) -> int | None:
    struct, _, member = name.removeprefix("struct ").partition(".")
    return types.offset(struct, member) if name.startswith("struct ") else None


def counts(sites: Sequence[LiveSite]) -> Mapping[str, int]:
    """How many agree, differ, were removed or are left open."""
    words = {True: "agree", False: "differ", None: "open"}
    found: dict[str, int] = {}
    for site in sites:
        word = "removed" if site.kernel.startswith("removed") else words[site.agrees]
        found[word] = found.get(word, 0) + 1
    return found
