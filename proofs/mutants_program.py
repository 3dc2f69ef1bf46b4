"""Seeded faults in whole programs: wrong facts, wrong patches, wrong lists. See `proofs.mutants`."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from model.errors import InputError
from model.facts import Facts, MapPointer, SiteFact, analyse
from model.isa.insn import Insn
from model.kernel.abi import ABIS
from model.kernel.release import Release
from model.loaders.assembly import load
from model.program import MapRef, Program, Subprogram
from model.rewrite.config import Config
from model.rewrite.passes import Rewritten, rewrite
from proofs.check_program import check
from proofs.claims import Claims
from proofs.mutants import DoesNotApply
from proofs.obligation import Verdict
from proofs.properties import patching
from proofs.properties.direct import direct
from proofs.site import Site
from proofs.solver import Solver

Named = tuple[str, Verdict]
Attack = Callable[[Release, Solver], Iterator[Named]]


@dataclass(frozen=True, slots=True)
class ProgramMutant:
    """`attack` gives the verdicts, by name, on a program with the fault in it."""

    family: str
    name: str
    fault: str
    attack: Attack


MAPS = """
.map numbers array 4 8 16
.map names hash 4 8 16
.map outer array_of_maps 4 4 4 inner=names
"""

# A lookup that is inlined, with a branch across it each way, a subprogram call and a callback behind it.
MOVING = (
    MAPS
    + """
        r6 = 3
        *(u32 *)(r10 -4) = 1
again:  r2 = r10
        r2 += -4
        r1 = map[numbers]
        call bpf_map_lookup_elem
        if r0 == 0 goto none
        r6 = 0
none:   r6 += -1
        if r6 s> 0 goto again
        call other
        r1 = map[numbers]
        r2 = subprog step
        r3 = 0
        r4 = 0
        call bpf_for_each_map_elem
        exit
.func other
        r0 = 7
        exit
.func step
        r0 = 0
        exit
"""
)

# One call, reached with an array or a hash.
POISONED = (
    MAPS
    + """
        call bpf_get_prandom_u32
        r6 = r0
        *(u64 *)(r10 -8) = 0
        r2 = r10
        r2 += -8
        r3 = r2
        r4 = 0
        r1 = map[numbers]
        if r6 == 0 goto here
        r1 = map[names]
here:   call bpf_map_update_elem
        r0 = 0
        exit
"""
)

# A call on an inner map.
INNER = (
    MAPS
    + """
        *(u64 *)(r10 -8) = 0
        r2 = r10
        r2 += -8
        r1 = map[outer]
        call bpf_map_lookup_elem
        if r0 == 0 goto none
        r1 = r0
        r2 = r10
        r2 += -8
        r3 = r2
        r4 = 0
        call bpf_map_update_elem
none:   r0 = 0
        exit
"""
)


def program(release: Release, text: str) -> Program:
    try:
        return load(text, "mutant", release.helper_ids).programs[0]
    except InputError as error:  # a helper that the release does not have
        raise DoesNotApply(str(error)) from None


def _moved(release: Release, solver: Solver, *, change: Callable[[Rewritten], Program]) -> Iterator[Named]:
    """Patching's verdicts where `change` has put a fault into the program after."""
    before = program(release, MOVING)
    done = rewrite(before, analyse(before, release), release, Config())
    patched = [decision.slot for decision in done.decisions if decision.patch is not None]
    functions = Claims(release, ABIS["x86_64"], solver).functions
    for part, verdict in patching.check(before, change(done), done.moved, patched, functions).items():
        yield f"patching/{part}", verdict


def _with(done: Rewritten, slots: Mapping[int, Insn]) -> Program:
    """The program after with other instructions in some slots."""
    insns = list(done.after.insns)
    for slot, insn in slots.items():
        insns[slot] = insn
    return replace(done.after, insns=tuple(insns))


def _find(done: Rewritten, wanted: Callable[[Insn], bool]) -> tuple[int, int]:
    """The first slot before whose instruction is `wanted`, and its slot after."""
    slot = next(slot for slot, insn in enumerate(done.before.insns) if wanted(insn))
    return slot, done.moved[slot]


def _stale(done: Rewritten, *, opcode: int, src: int | None = None) -> Program:
    """The instruction of that opcode keeps the distance that it had before."""
    slot, at = _find(done, lambda insn: insn.opcode == opcode and src in (None, insn.src))
    return _with(done, {at: done.before.insns[slot]})


def _shifted(done: Rewritten, *, src: int) -> Program:
    """A subprogram call that lands one instruction late."""
    _, at = _find(done, lambda insn: insn.opcode == 0x85 and insn.src == src)
    insn = done.after.insns[at]
    return _with(done, {at: replace(insn, imm=insn.imm + 1)})


def _callback_inside(done: Rewritten) -> Program:
    _, at = _find(done, lambda insn: insn.opcode == 0x18 and insn.src == 4)
    insn = done.after.insns[at]
    return _with(done, {at: replace(insn, imm=insn.imm + 1)})


def _subprogram_early(done: Rewritten) -> Program:
    first, *rest = done.after.subprograms
    shifted = [Subprogram(row.name, row.start - 1, row.end) for row in rest]
    return replace(done.after, subprograms=(first, *shifted))


def _lines_stale(done: Rewritten) -> Program:
    return replace(done.after, lines=dict(done.before.lines))


def _patch_jumps_out(done: Rewritten) -> Program:
    """The inlined lookup's first branch goes one instruction too far behind the patch."""
    slot = next(decision.slot for decision in done.decisions if decision.patch and len(decision.patch.insns) > 1)
    start, end = done.moved[slot], done.moved[slot + 1]
    at = next(i for i in range(start, end) if done.after.insns[i].opcode & 7 == 5 and done.after.insns[i].off)
    return _with(done, {at: replace(done.after.insns[at], off=end - at)})


def _other_register(done: Rewritten) -> Program:
    _, at = _find(done, lambda insn: insn.opcode == 0x07 and insn.dst == 6)
    return _with(done, {at: replace(done.after.insns[at], dst=7)})


def _other_map(done: Rewritten) -> Program:
    """A reference of the program after names another map."""
    _, at = _find(done, lambda insn: insn.opcode == 0x18 and insn.src == 1)
    return replace(done.after, refs={**done.after.refs, at: MapRef(1)})


MOVES: Sequence[tuple[str, str, Callable[[Rewritten], Program]]] = (
    ("stale-branch", "a branch across a patch keeps its distance", partial(_stale, opcode=0x65)),
    ("stale-call", "a subprogram call lands one instruction late", partial(_shifted, src=1)),
    ("callback-inside", "a callback address points behind the subprogram's start", _callback_inside),
    ("subprogram-early", "subprograms begin one instruction early", _subprogram_early),
    ("lines-stale", "line records keep their slots", _lines_stale),
    ("patch-jumps-out", "a branch of the patch goes behind its end", _patch_jumps_out),
    ("other-register", "an instruction that no patch touched changes", _other_register),
    ("other-map", "a map load refers to another map after the patch", _other_map),
)


def _site(
    release: Release, solver: Solver, *, text: str, keep: Callable[[SiteFact], tuple[MapPointer, ...]]
) -> Iterator[Named]:
    """Decisions made from wrong facts, held against what reaches each site by the right ones."""
    before = program(release, text)
    facts = analyse(before, release)
    wrong = Facts(
        {slot: replace(fact, pointers=keep(fact)) for slot, fact in facts.sites.items()},
        facts.callbacks,
        facts.reached,
    )
    claims = Claims(release, ABIS["x86_64"], solver)
    for decision in rewrite(before, wrong, release, Config()).decisions:
        for pointer in facts.sites[decision.slot].pointers:
            if decision.function is None or decision.helper == "map_lookup_elem" or pointer.map.type is None:
                continue
            verdict, _ = claims.direct(pointer.map.type, decision.helper, decision.function)
            yield f"dispatch/{pointer.map.type}/{decision.helper}={decision.function}", verdict


def _outer_for_inner(fact: SiteFact) -> tuple[MapPointer, ...]:
    """An inner map taken for one of another type (as its outer map's operations would be)."""
    return tuple(
        replace(pointer, map=replace(pointer.map, type="array")) if pointer.template else pointer
        for pointer in fact.pointers
    )


def _unlisted(release: Release, solver: Solver) -> Iterator[Named]:
    """A dispatch that stays is left off the list of residual sites."""
    claims = Claims(release, ABIS["x86_64"], solver)
    checked = check(program(release, POISONED), claims, Config())
    done = checked.rewritten
    assert done is not None
    facts = analyse(done.before, release)
    listed: list[Site] = [site for site in checked.sites if site.leftover is None]
    found = direct(done.after, facts, release, claims.symbols, listed, done.moved)
    yield "direct", found.verdict


def _missed_for_necessary(release: Release, solver: Solver) -> Iterator[Named]:
    """Two maps of different operations are said to have one: a direct call for both."""
    claims = Claims(release, ABIS["x86_64"], solver)
    function = release.operation("array", "map_update_elem")
    assert function is not None
    for map_type in ("array", "hash"):
        verdict, _ = claims.direct(map_type, "map_update_elem", function.name)
        yield f"missed/{map_type}/map_update_elem={function.name}", verdict


PROGRAM_MUTANTS = (
    *(ProgramMutant("patching", name, fault, partial(_moved, change=change)) for name, fault, change in MOVES),
    ProgramMutant(
        "facts",
        "poison-ignored",
        "the first of two maps that reach a call is taken for the only one",
        partial(_site, text=POISONED, keep=lambda fact: fact.pointers[:1]),
    ),
    ProgramMutant(
        "facts",
        "last-map-wins",
        "the last of two maps that reach a call is taken for the only one",
        partial(_site, text=POISONED, keep=lambda fact: fact.pointers[-1:]),
    ),
    ProgramMutant(
        "facts",
        "inner-template-ops",
        "a call on an inner map takes the operations of another type",
        partial(_site, text=INNER, keep=_outer_for_inner),
    ),
    ProgramMutant("direct", "dispatch-not-listed", "a dispatch that stays is left off the list", _unlisted),
    ProgramMutant("direct", "missed-for-necessary", "different operations are taken for one", _missed_for_necessary),
)
