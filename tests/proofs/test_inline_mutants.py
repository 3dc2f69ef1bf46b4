"""Every seeded fault of an inlined lookup is refuted; without it the same claim is proved."""

import pytest

from model.kernel.data import load_release
from proofs.mutants_inline import INLINE_MUTANTS, claimed
from proofs.obligation import Proved, Refuted
from proofs.outcome import word
from proofs.solver import Solver

RELEASE = load_release("7.3")


@pytest.mark.parametrize("mutant", INLINE_MUTANTS, ids=lambda mutant: mutant.name)
def test_refuted(mutant: object) -> None:
    solver = Solver()
    built = mutant.build(RELEASE)  # type: ignore[attr-defined]
    verdicts = (solver.decide(obligation).verdict for obligation in built)
    assert any(isinstance(verdict, Refuted) for verdict in verdicts)


def test_rows() -> None:
    names = [mutant.name for mutant in INLINE_MUTANTS]
    assert len(set(names)) == len(names) >= 20
    assert {mutant.family for mutant in INLINE_MUTANTS} == {"inline"}


@pytest.mark.parametrize("map_type", ["array", "percpu_array", "hash", "lru_hash", "hash_of_maps", "xskmap"])
def test_proved_without_a_fault(map_type: str) -> None:
    solver = Solver()
    for inner in (False, True) if map_type == "percpu_array" else (False,):
        for obligation in claimed(RELEASE, "none", map_type, inner=inner):
            verdict = solver.decide(obligation).verdict
            assert isinstance(verdict, Proved), (obligation.name, word(verdict))
