"""Every seeded fault is refuted, and nothing is refuted where there is no fault."""

import pytest

from model.facts import analyse
from model.kernel.abi import ABIS
from model.kernel.data import load_release
from model.rewrite.config import Config
from model.rewrite.passes import rewrite
from proofs.check_program import check
from proofs.claims import Claims
from proofs.mutant_families import MUTANTS
from proofs.mutants_program import INNER, MOVING, POISONED, program
from proofs.obligation import Proved
from proofs.outcome import word
from proofs.properties import patching
from proofs.solver import Solver
from proofs.trial import trial

RELEASE = load_release("newest")
SOLVER = Solver()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: f"{mutant.family}/{mutant.name}")
def test_killed(mutant: object) -> None:
    outcome = trial(mutant, RELEASE, SOLVER)  # type: ignore[arg-type]
    assert outcome.killed, outcome.told


def test_names_are_unique_and_enough() -> None:
    names = [f"{mutant.family}/{mutant.name}" for mutant in MUTANTS]
    assert len(set(names)) == len(names)
    assert len(names) >= 20


@pytest.mark.parametrize("text", [MOVING, POISONED, INNER], ids=["moving", "poisoned", "inner"])
def test_programs_without_a_fault_are_proved(text: str) -> None:
    claims = Claims(RELEASE, ABIS["x86_64"], SOLVER)
    checked = check(program(RELEASE, text), claims, Config())
    assert {part: word(verdict) for part, verdict in checked.patching.items()} == dict.fromkeys(
        patching.PARTS, "proved"
    )
    assert checked.direct is not None
    assert isinstance(checked.direct.verdict, Proved)
    for site in checked.sites:
        assert isinstance(site.verdict, Proved), site


def test_the_moving_program_moves() -> None:
    before = program(RELEASE, MOVING)
    done = rewrite(before, analyse(before, RELEASE), RELEASE, Config())
    assert len(done.after.insns) > len(before.insns)


@pytest.mark.parametrize("name", ["5.10", "6.1"])
def test_older_releases_leave_out_what_they_do_not_have(name: str) -> None:
    """5.10 has no for_each and no lookup_percpu: such faults do not apply, all others are refuted."""
    release = load_release(name)
    outcomes = {f"{m.family}/{m.name}": trial(m, release, SOLVER) for m in MUTANTS if m.family == "dispatch"}
    apart = {key for key, outcome in outcomes.items() if not outcome.applies}
    assert all(outcome.killed for outcome in outcomes.values() if outcome.applies)
    expected = {
        "dispatch/for-each-of-hash-on-array",
        "dispatch/int-result-array-for_each_map_elem",
        "dispatch/abi-row-flipped",
        "dispatch/cpu-narrowed",
    }
    assert apart == (expected if name == "5.10" else set())
