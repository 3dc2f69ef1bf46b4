"""Seeded faults in the program after, for both ways of `proofs.equivalence`: each way must refute each fault alone.

Composition refutes by an input on which both programs were run; the run over symbols by its claim.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from model.facts import analyse
from model.isa.insn import Insn
from model.kernel.abi import ABIS
from model.kernel.release import Release
from model.program import MapRef, Program, Ref, SymbolRef
from model.rewrite.config import Config
from model.rewrite.passes import Rewritten, rewrite
from proofs import whole
from proofs.claims import Claims
from proofs.equivalence import equivalent
from proofs.mutants_program import Named, ProgramMutant, program
from proofs.obligation import Refuted
from proofs.solver import Solver

Change = Callable[[Rewritten], Program]
ABI = ABIS["x86_64"]

MAPS = """
.map numbers array 4 8 4
.map names hash 4 8 2
.map others hash 4 8 2
.map fifo queue 0 8 2
        r7 = *(u32 *)(r1 +0)
        r8 = 0
        r6 = 0
        *(u64 *)(r10 -8) = r7
        *(u64 *)(r10 -16) = 5
        if r7 == 3 goto over
"""
# A lookup that is inlined, behind a branch across it.
LOOKUP = (
    MAPS
    + """
        r1 = map[numbers]
        r2 = r10
        r2 += -8
        call bpf_map_lookup_elem
        if r0 == 0 goto over
        *(u64 *)(r0 +0) = 9
        r6 += 1
over:   r0 = r6
        exit
"""
)
# Direct calls whose results add up, and a callback.
CALLS = (
    MAPS
    + """
        r1 = map[names]
        r2 = r10
        r2 += -8
        r3 = r10
        r3 += -16
        r4 = 1
        call bpf_map_update_elem
        r6 += r0
over:   r1 = map[numbers]
        r2 = subprog visit
        r3 = 0
        r4 = 0
        call bpf_for_each_map_elem
        r6 += r0
        r1 = map[fifo]
        r2 = r10
        r2 += -16
        call bpf_map_pop_elem
        r6 += r0
        r0 = r6
        exit
.func visit
        r0 = *(u64 *)(r3 +0)
        if r0 == 0 goto stop
        r0 = 0
        exit
stop:   r0 = 1
        exit
"""
)


def rewritten(release: Release, text: str) -> Rewritten:
    before = program(release, text)
    return rewrite(before, analyse(before, release), release, Config())


def _insn(done: Rewritten, wanted: Callable[[Insn], bool], **fields: int) -> Program:
    """The first instruction after that is `wanted`, with other fields."""
    insns = list(done.after.insns)
    at = next(slot for slot, insn in enumerate(insns) if wanted(insn))
    insns[at] = replace(insns[at], **fields)
    return replace(done.after, insns=tuple(insns))


def _ref(done: Rewritten, was: Ref, now: Ref) -> Program:
    """The last slot that names `was` names `now`."""
    at = max(slot for slot, ref in done.after.refs.items() if ref == was)
    return replace(done.after, refs={**done.after.refs, at: now})


def _function(done: Rewritten, *, was: str, now: str) -> Program:
    return _ref(done, SymbolRef(was), SymbolRef(now))


def _other_map(done: Rewritten) -> Program:
    return _ref(done, MapRef(1), MapRef(2))


def _stale_branch(done: Rewritten) -> Program:
    """The branch across the inlined lookup keeps its distance and ends inside of it."""
    slot = next(slot for slot, insn in enumerate(done.before.insns) if insn.opcode == 0x15)
    insns = list(done.after.insns)
    insns[done.moved[slot]] = done.before.insns[slot]
    return replace(done.after, insns=tuple(insns))


def _dropped(done: Rewritten) -> Program:
    """The pop is gone; its result is 0."""
    at = max(slot for slot, insn in enumerate(done.after.insns) if insn.opcode == 0x85)
    insns = list(done.after.insns)
    insns[at] = Insn(0xB7)
    refs = {slot: ref for slot, ref in done.after.refs.items() if slot != at}
    return replace(done.after, insns=tuple(insns), refs=refs)


def _is(opcode: int, dst: int, **fields: int) -> Callable[[Insn], bool]:
    def wanted(insn: Insn) -> bool:
        return (insn.opcode, insn.dst) == (opcode, dst) and all(getattr(insn, n) == v for n, v in fields.items())

    return wanted


POP, PEEK = "queue_map_pop_elem", "queue_map_peek_elem"
UPDATE, DELETE = "htab_map_update_elem", "htab_map_delete_elem"
FAULTS: tuple[tuple[str, str, str, Change], ...] = (
    ("peek-for-pop", "a pop becomes a direct call of peek", CALLS, partial(_function, was=POP, now=PEEK)),
    ("delete-for-update", "an update becomes a call of delete", CALLS, partial(_function, was=UPDATE, now=DELETE)),
    ("other-map", "a call gets another map of the same type", CALLS, _other_map),
    ("call-dropped", "a call is left out", CALLS, _dropped),
    ("branch-inverted", "a branch is taken where it was not", CALLS, partial(_insn, wanted=_is(0x15, 7), opcode=0x55)),
    ("clobbered-register", "a result goes to another register", CALLS, partial(_insn, wanted=_is(0x0F, 6), dst=8)),
    ("other-flags", "a call gets another flag", CALLS, partial(_insn, wanted=_is(0xB7, 4, imm=1), imm=2)),
    ("callback-goes-on", "the callback does not stop where it did", CALLS, partial(_insn, wanted=_is(0x15, 0), imm=8)),
    ("bound-off-by-one", "the inlined lookup has another bound", LOOKUP, partial(_insn, wanted=_is(0x35, 0), imm=5)),
    ("element-size", "the inlined lookup halves elements", LOOKUP, partial(_insn, wanted=_is(0x67, 0), imm=2)),
    ("null-for-hit", "the inlined lookup's NULL is not NULL", LOOKUP, partial(_insn, wanted=_is(0xB7, 0), imm=1)),
    ("stale-branch", "a branch across the inlined lookup keeps its distance", LOOKUP, _stale_branch),
    ("other-value", "a store stores something else", LOOKUP, partial(_insn, wanted=_is(0x7A, 0), imm=8)),
)  # fmt: skip


def composed(release: Release, solver: Solver, *, text: str, change: Change) -> Iterator[Named]:
    done = rewritten(release, text)
    claims = Claims(release, ABI, solver)
    answer = equivalent(done.before, change(done), claims, Config(), (), done.relocs)
    yield "equivalence" + ("/run" if answer.witness is not None else ""), answer.verdict


def symbolic(release: Release, solver: Solver, *, text: str, change: Change) -> Iterator[Named]:
    done = rewritten(release, text)
    made = whole.claim(done.before, change(done), release, ABI, done.relocs)
    for obligation in whole.obligations(made, release, ABI):
        verdict = solver.decide(obligation).verdict
        yield obligation.name, verdict
        if isinstance(verdict, Refuted):
            return


WHOLE_MUTANTS = tuple(
    ProgramMutant(family, name, fault, partial(attack, text=text, change=change))
    for family, attack in (("equivalence", composed), ("whole", symbolic))
    for name, fault, text, change in FAULTS
)
