"""What a verdict answers, as a formula that other solvers can be asked."""

from dataclasses import dataclass
from typing import Literal

from proofs.obligation import NoRule, Obligation, Proved, Unknown
from proofs.solver import Query, Result, Solver
from proofs.symbolic import Truth

Expected = Literal["sat", "unsat", "unknown"]


@dataclass(frozen=True, slots=True)
class Question:
    """All of `conditions` hold in some state ("sat"), or in none ("unsat").

    `over` is "products" where the formula has an unknown function for them, with axioms; else as in `Obligation`.
    """

    logic: str
    over: str
    conditions: tuple[Truth, ...]
    expected: Expected


def question(result: Result, solver: Solver) -> Question | None:
    """None where the verdict is no answer to a formula, or time did not suffice to ask."""
    obligation, verdict = result.obligation, result.verdict
    if isinstance(verdict, NoRule) or (isinstance(verdict, Unknown) and verdict.reason.startswith("time: ")):
        return None
    valid = obligation.expect == "valid"
    expected = _expected(result)
    over: str = obligation.over
    if over == "products" and not (valid and expected == "unsat" and _proved(obligation, solver)):
        over = "words"
    query = solver.query(obligation.claim, over)
    if isinstance(query, NoRule):
        return None
    asked = query.denied(obligation.part) if valid else query.parts[obligation.part]
    return Question(query.logic, over, (*query.known, asked), expected)


def _expected(result: Result) -> Expected:
    if isinstance(result.verdict, Unknown):
        return "unknown"
    proved = isinstance(result.verdict, Proved)
    if result.obligation.expect == "valid":
        return "unsat" if proved else "sat"
    return "unsat" if result.evidence.path in ("dead", "excluded") else "sat"


def _proved(obligation: Obligation, solver: Solver) -> bool:
    """Whether products as an unknown function were enough: asked again where another process decided it."""
    query = solver.query(obligation.claim, "products")
    if not isinstance(query, Query):
        return False
    if obligation.part not in query.proved:
        query.valid(obligation.part)
    return obligation.part in query.proved
