"""Faults at random places of the program after: no way proves what a run refutes, and the two never contradict."""

from collections import Counter
from dataclasses import replace
from random import Random

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from gen.small import Generated, programs
from model.facts import analyse
from model.isa.insn import Insn
from model.kernel.abi import ABIS
from model.kernel.data import load_release
from model.loaders import assembly
from model.program import MapRef, Program
from model.rewrite.config import Config
from model.rewrite.passes import Rewritten, rewrite
from proofs.claims import Claims
from proofs.equivalence import equivalent
from proofs.limit import Limit
from proofs.mutants_whole import CALLS, LOOKUP
from proofs.obligation import Proved, Refuted
from proofs.outcome import word
from proofs.solver import Solver
from proofs.whole import check

RELEASE = load_release("6.12")
CLAIMS = Claims(RELEASE, ABIS["x86_64"], Solver())
NOTHING = Insn(0x05)
CALL, EXIT, WIDE = 0x85, 0x95, 0x18
KINDS = ("nothing", "imm", "off", "dst", "src", "operation", "map")


def rewritten(text: str) -> Rewritten:
    before = assembly.load(text, "generated", RELEASE.helper_ids).programs[0]
    return rewrite(before, analyse(before, RELEASE), RELEASE, Config())


def changed(insn: Insn, kind: str) -> Insn:
    """The instruction with one field made another, as far as it is one of the ordinary ones."""
    alu = insn.opcode & 7 in (4, 7)
    match kind:
        case "imm":
            return replace(insn, imm=insn.imm + 1)
        case "off":
            return replace(insn, off=insn.off + (8 if insn.opcode & 7 in (1, 2, 3) else 1))
        case "dst":
            return replace(insn, dst=insn.dst ^ 1) if insn.dst < 10 else insn
        case "src":
            return replace(insn, src=insn.src ^ 1) if insn.opcode & 8 and insn.src < 10 else insn
        case "operation":
            return replace(insn, opcode=insn.opcode ^ 0x10) if alu and insn.opcode >> 4 in (0, 1, 4, 5) else insn
    return NOTHING


def planted(done: Rewritten, at: int, kind: str) -> Program | None:
    """The program after with a fault at a slot; None where that is no other program, or none that can be read."""
    after, insn = done.after, done.after.insns[at]
    ref = after.refs.get(at)
    if kind == "map":
        if not isinstance(ref, MapRef):
            return None
        return replace(after, refs={**after.refs, at: MapRef((ref.map + 1) % len(after.maps))})
    if insn.opcode in (CALL, EXIT, WIDE, 0) or at in done.relocs:
        return None
    found = changed(insn, kind)
    jumps = insn.opcode & 7 in (5, 6)
    if found == insn or (jumps and not 0 <= at + 1 + found.off < len(after.insns)):
        return None
    return replace(after, insns=(*after.insns[:at], found, *after.insns[at + 1 :]))


def both(done: Rewritten, after: Program) -> tuple[str, str]:
    """Each way's verdict, and that they may stand side by side."""
    first = equivalent(done.before, after, CLAIMS, Config(), (), done.relocs, Limit(20))
    second = check(first, CLAIMS, done.relocs, Limit(20))
    assert not isinstance(first.verdict, Proved)
    if isinstance(second.verdict, Proved):
        assert first.witness is None or not first.witness.what
    if isinstance(second.verdict, Refuted):
        found = second.first or first
        assert found.witness is not None
        assert found.witness.what
    return word(first.verdict), word(second.verdict)


def draw(done: Rewritten, choose: Random) -> Program | None:
    return planted(done, choose.randrange(len(done.after.insns)), choose.choice(KINDS))


def test_faults_in_the_samples() -> None:
    choose, told = Random(7), Counter[tuple[str, str]]()
    for text in (LOOKUP, CALLS):
        done = rewritten(text)
        while sum(told.values()) < (14 if text is LOOKUP else 28):
            after = draw(done, choose)
            if after is not None:
                told[both(done, after)] += 1
    assert told["refuted", "refuted"] >= 12
    assert told["unknown", "proved"] >= 1


def test_what_a_fault_is() -> None:
    done = rewritten(LOOKUP)
    kinds = Counter(kind for at in range(len(done.after.insns)) for kind in KINDS if planted(done, at, kind))
    assert set(kinds) == set(KINDS)


@pytest.mark.slow
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(programs(most=2), st.integers(0, 1 << 30))
def test_faults_in_generated_programs(made: Generated, seed: int) -> None:
    done, choose = rewritten(made.text), Random(seed)
    after = next((found for found in (draw(done, choose) for _ in range(20)) if found is not None), None)
    assert after is not None
    event(" / ".join(both(done, after)))
