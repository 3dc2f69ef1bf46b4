"""Inlined lookups in a program as the kernel runs it: found, matched with the release's sequence, and claimed."""

from collections.abc import Iterator, Sequence

from model.facts import MapPointer, SiteFact
from model.isa.insn import Insn
from model.kernel.release import GenLookup, Release
from model.program import Program, SymbolRef
from model.rewrite.config import Config
from model.rewrite.recognise import Mismatch, match_lookup
from proofs.claims import Answer, Claims
from proofs.obligation import Counterexample, NoRule, Refuted, Shown, Unknown
from proofs.outcome import worst
from proofs.site import Site, described
from proofs.symbols import OPERATION

HELPER = "map_lookup_elem"
LOAD_INDEX = Insn(0x61, 0, 2)  # r0 = *(u32 *)(r2 +0)
ADD_R1 = 0x07  # r1 += offset of the elements: no verified program adds to a map pointer itself
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


def inlined_sites(program: Program, facts: Sequence[SiteFact], claims: Claims, config: Config) -> Iterator[Site]:
    """A `Site` for each of `facts` (r1 before a candidate, or at a call that sequences make) that is a lookup."""
    for fact in facts:
        if not fact.reached or not (fact.pointers or fact.unknown):
            continue
        known = [pointer for pointer in fact.pointers if _gen(claims.release, pointer) is not None]
        if not known:
            if fact.pointers or _called(program, fact.slot, claims):
                yield _site(fact, (Unknown("an inlined lookup; the map in r1 is not shown"), ()))
            continue
        yield _site(fact, _claimed(program, fact, known, claims, config))


def _called(program: Program, slot: int, claims: Claims) -> bool:
    ref = program.refs.get(slot)
    return isinstance(ref, SymbolRef) and claims.symbols.get(ref.name) == OPERATION


def _site(fact: SiteFact, answer: Answer) -> Site:
    verdict, results = answer
    return Site(fact.slot, fact.slot, HELPER, fact.pointers, "inlined", None, "", verdict, results)


def _gen(release: Release, pointer: MapPointer) -> GenLookup | None:
    row = release.map_types.get(pointer.map.type or "")
    if row is None or row.ops is None:
        return None
    return release.gen_lookup.get(release.ops[row.ops].slots.get("map_gen_lookup", ""))


def _claimed(program: Program, fact: SiteFact, known: Sequence[MapPointer], claims: Claims, config: Config) -> Answer:
    """The sequence is the release's for every map that reaches it, and each of these means the operation."""
    answers: list[Answer] = []
    misses: list[tuple[MapPointer, Mismatch]] = []
    for pointer in known:
        gen = _gen(claims.release, pointer)
        if gen is None or pointer.map.type is None:
            continue
        # Maps of unprivileged programs have a masked form: the dump tells which it is, not the options.
        matches = [
            match_lookup(program, fact.slot, gen, pointer.map, Config(config.arch, config.jit, masked), claims.release)
            for masked in (config.unprivileged, not config.unprivileged)
        ]
        miss = matches[0] if all(isinstance(match, Mismatch) for match in matches) else None
        if isinstance(miss, Mismatch):
            misses.append((pointer, miss))
        else:
            answers.append(claims.inline(pointer.map.type, pointer.map.max_entries, inner=pointer.template))
    if len(known) < len(fact.pointers) or (misses and answers):
        shown = tuple(Shown(f"{described(pointer)}: {miss.reason}; at slot", 32, miss.slot) for pointer, miss in misses)
        answers.append((Refuted(Counterexample(shown, {}, {})), ()))
    elif misses:
        pointer, miss = misses[0]
        reason = f"not what release {claims.release.name} inlines for {described(pointer)}: {miss.reason}"
        answers.append((NoRule(reason), ()))
    if fact.unknown:
        answers.append((Unknown("a map that is not shown may reach it too"), ()))
    return worst(verdict for verdict, _ in answers), tuple(result for _, results in answers for result in results)
