"""One mutant's trial: is a claim of its family refuted?"""

from dataclasses import dataclass

from model.errors import Unsupported
from model.kernel.release import Release
from proofs.mutants import DoesNotApply, Mutant
from proofs.mutants_program import ProgramMutant
from proofs.obligation import Refuted
from proofs.outcome import why, word
from proofs.solver import Solver


@dataclass(frozen=True, slots=True)
class Trial:
    """`told`: the obligation that refuted the mutant, or what there was instead."""

    killed: bool
    told: str
    applies: bool = True


def trial(mutant: Mutant | ProgramMutant, release: Release, solver: Solver) -> Trial:
    """Decides the mutant's claims; the first that is refuted kills it."""
    try:
        if isinstance(mutant, Mutant):
            results = [solver.decide(obligation) for obligation in mutant.build(release)]
            named = [(result.obligation.name, result.verdict) for result in results]
        else:
            named = list(mutant.attack(release, solver))
    except DoesNotApply as why_not:
        return Trial(False, f"does not apply: {why_not}", applies=False)
    except Unsupported as hole:
        return Trial(False, f"unsupported: {hole}")
    for name, verdict in named:
        if isinstance(verdict, Refuted):
            return Trial(True, name)
    open_ends = [f"{word(verdict)}: {why(verdict)}" for _, verdict in named if why(verdict)]
    return Trial(False, open_ends[0] if open_ends else f"{len(named)} claims, all proved")
