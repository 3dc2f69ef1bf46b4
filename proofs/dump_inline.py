"""Inlined lookups in a program as the kernel runs it: found, matched with the release's sequence, and claimed."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from model.facts import MapPointer, SiteFact
from model.isa.insn import Insn
from model.kernel.release import GenLookup, Release
from model.program import Program
from model.rewrite.config import Config
from model.rewrite.recognise import Match, Mismatch, match_lookup
from proofs.claims import Answer, Claims, conjunction
from proofs.obligation import Counterexample, NoRule, Refuted, Shown, Unknown
from proofs.site import Site, described
from proofs.symbols import OPERATION

HELPER = "map_lookup_elem"
LOAD_INDEX = Insn(0x61, 0, 2)  # r0 = *(u32 *)(r2 +0)
ADD_R1 = 0x07  # r1 += offset of the elements: no verified program adds to a map pointer itself
BEHIND_MAP = ("struct bpf_array.value", "struct bpf_array.pptrs", "struct xsk_map.xsk_map")
LEAST_MAP = 64  # bytes: struct bpf_map has more than eight 8-byte members in every release (include/linux/bpf.h)
TESTS = (0x35, 0x36)  # if r0 >= or if w0 >=


def candidates(program: Program) -> list[int]:
    """Slots where a lookup without a call may begin: arrays first move r1, xskmaps first load the index."""
    found = []
    insns = program.insns
    for slot in range(len(insns) - 2):
        insn = insns[slot]
        if (insn.opcode == ADD_R1 and insn.dst == 1 and insns[slot + 1] == LOAD_INDEX) or (
            insn == LOAD_INDEX and insns[slot + 1].opcode in TESTS and insns[slot - 1].opcode != ADD_R1
        ):
            found.append(slot)
    return found


def inlined_sites(program: Program, facts: Sequence[SiteFact], claims: Claims, config: Config) -> list[Site]:
    """A `Site` for each of `facts` (r1 before a candidate, or at a call that sequences make) that is a lookup.

    Offsets of members that only a built kernel knows are read from the dump: one value for all of its lookups, and
    each verdict says which.
    """
    found = []
    for fact in facts:
        if not fact.reached or not (fact.pointers or fact.unknown):
            continue
        if any(_gen(claims.release, pointer) is not None for pointer in fact.pointers):
            found.append(_Lookup(fact, *_matches(program, fact, claims, config)))
        elif fact.pointers or claims.called(program, fact.slot) == OPERATION:
            found.append(_Lookup(fact, [], []))
    layout: dict[str, set[int]] = {}
    for lookup in found:
        for _, match in lookup.matches:
            for name, value in _members(match):
                layout.setdefault(name, set()).add(value)
    return [_site(lookup, layout, claims) for lookup in found]


@dataclass(frozen=True, slots=True)
class _Lookup:
    """What may be an inlined lookup: for each map that reaches it, how the sequence fits or misses."""

    fact: SiteFact
    matches: list[tuple[MapPointer, Match]]
    misses: list[tuple[MapPointer, Mismatch]]


def _members(match: Match) -> Iterator[tuple[str, int]]:
    """The members' offsets among what a match learned."""
    return ((name, value) for name, value in match.bound.items() if name.startswith("struct "))


def _gen(release: Release, pointer: MapPointer) -> GenLookup | None:
    row = release.map_types.get(pointer.map.type or "")
    if row is None or row.ops is None:
        return None
    return release.gen_lookup.get(release.ops[row.ops].slots.get("map_gen_lookup", ""))


def _matches(
    program: Program, fact: SiteFact, claims: Claims, config: Config
) -> tuple[list[tuple[MapPointer, Match]], list[tuple[MapPointer, Mismatch]]]:
    """Each map that reaches the lookup, with how the release's sequence for it fits, or where it does not."""
    matches: list[tuple[MapPointer, Match]] = []
    misses: list[tuple[MapPointer, Mismatch]] = []
    for pointer in fact.pointers:
        gen = _gen(claims.release, pointer)
        if gen is None:
            if pointer.map.type is not None:
                misses.append((pointer, Mismatch(f"release {claims.release.name} inlines no lookup of it", fact.slot)))
            continue
        # Maps of unprivileged programs have a masked form: the dump tells which it is, not the options.
        forms = [
            match_lookup(program, fact.slot, gen, pointer.map, Config(config.arch, config.jit, masked), claims.release)
            for masked in (config.unprivileged, not config.unprivileged)
        ]
        first = next((form for form in forms if isinstance(form, Match)), forms[0])
        if isinstance(first, Match):
            matches.append((pointer, first))
        else:
            misses.append((pointer, first))
    return matches, misses


def _site(lookup: _Lookup, layout: Mapping[str, set[int]], claims: Claims) -> Site:
    fact = lookup.fact
    verdict, results = _claimed(lookup, layout, claims)
    members = {f"{name} = {value}": None for _, match in lookup.matches for name, value in _members(match)}
    reason = f"if the offset of {', of '.join(members)}" if members else ""
    return Site(fact.slot, fact.slot, HELPER, fact.pointers, "inlined", None, reason, verdict, results)


def _claimed(lookup: _Lookup, layout: Mapping[str, set[int]], claims: Claims) -> Answer:
    """The sequence is the release's for every map that reaches it, and each of these means the operation."""
    answers: list[Answer] = []
    for pointer, match in lookup.matches:
        if pointer.map.type is not None:
            answers.append(claims.inline(pointer.map.type, pointer.map.max_entries, inner=pointer.template))
        for name, value in _members(match):
            if len(layout[name]) > 1:
                values = ", ".join(map(str, sorted(layout[name])))
                answers.append((Unknown(f"{name} cannot have several offsets: {values}"), ()))
            elif name in BEHIND_MAP and (value < LEAST_MAP or value % 8):
                answers.append((Unknown(f"{name} cannot be at {value}: struct bpf_map comes before it"), ()))
    if lookup.misses and lookup.matches:
        shown = [
            Shown(f"{described(pointer)}: {miss.reason}; at slot", 32, miss.slot) for pointer, miss in lookup.misses
        ]
        answers.append((Refuted(Counterexample(tuple(shown), {}, {})), ()))
    elif lookup.misses:
        pointer, miss = lookup.misses[0]
        reason = f"not what release {claims.release.name} inlines for {described(pointer)}: {miss.reason}"
        answers.append((NoRule(reason), ()))
    fact = lookup.fact
    if fact.unknown or any(pointer.map.type is None for pointer in fact.pointers):
        answers.append((Unknown("an inlined lookup; the map in r1 is not shown"), ()))
    return conjunction(answers)
