"""From obligations to verdicts, by z3: fixed seed, a time limit for each query, counterexamples replayed on ints."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from time import perf_counter

import z3

from model.errors import Unsupported
from proofs.concrete import replays, witnesses
from proofs.obligation import (
    Claim,
    Counterexample,
    NoRule,
    Obligation,
    Proved,
    Refuted,
    Shown,
    Unknown,
    Verdict,
)
from proofs.symbolic import IntegerWorld, Products, TermWorld, Truth

SEED = 0
EFFORT = 2_000_000  # z3 units (about 1 s) for one preference of a counterexample: unlike a time, the same everywhere
ROUNDS = 24  # states with wrong products that are shut out before real products are asked for
DEFAULT_TIMEOUT = 5.0  # seconds for one query


@dataclass(frozen=True, slots=True)
class Result:
    """A verdict with the solver's own time for it, in seconds (0 where an equal formula was decided before)."""

    obligation: Obligation
    verdict: Verdict
    seconds: float


class _Query:
    """One claim over terms."""

    def __init__(self, claim: Claim, timeout: float, over: str) -> None:
        self.claim = claim
        self.products = Products() if over == "products" else None
        self.world = IntegerWorld() if over == "integers" else TermWorld(self.products)
        self.parts = dict(claim(self.world))
        self.logic = "QF_NIA" if over == "integers" else "QF_UFBV"
        self.timeout = max(1, int(timeout * 1000))
        self.known = [*self.world.assumptions, *(self.products.axioms() if self.products is not None else ())]
        self.states = self._solver()
        self.satisfiable = self.states.check()

    def _solver(self, *conditions: Truth) -> z3.Solver:
        """A solver for one question: z3 simplifies a set of formulas that it sees as a whole far better."""
        solver = z3.SolverFor(self.logic)
        solver.set("random_seed", SEED)
        solver.set("timeout", self.timeout)
        solver.add(*self.known, *conditions)
        return solver

    def decide(self, part: str, expect: str) -> Verdict:
        if self.satisfiable == z3.unsat:
            return NoRule("the claim's assumptions contradict each other: a proof would be vacuous")
        if self.satisfiable == z3.unknown:
            return Unknown(f"assumptions: {self.states.reason_unknown()}")
        if expect == "reachable":
            found = self._search(self.states, [self.parts[part]], lambda state: witnesses(self.claim, part, state))
            if found is None:
                return NoRule("no state under the claim's assumptions gets here: what is proved of it is vacuous")
            return found if isinstance(found, Unknown) else Proved()
        claimed = self.parts[part]
        if isinstance(self.world, IntegerWorld):
            claimed = z3.And(claimed, *self.world.fits)
        solver = self._solver(z3.Not(claimed))
        found = self._search(solver, [], lambda state: replays(self.claim, part, state))
        if found is None:
            return Proved()
        return found if isinstance(found, Unknown) else Refuted(self._read(self._readable(solver, found, part)))

    def _search(
        self, solver: z3.Solver, conditions: list[Truth], real: Callable[[Counterexample], bool]
    ) -> z3.ModelRef | Unknown | None:
        """A state in which the solver's formulas and `conditions` hold, also on ints; None where there is none.

        A state with wrong products is shut out by what is known of the real ones, and the search goes on.
        """
        for _ in range(ROUNDS):
            answer = solver.check(*conditions)
            if answer == z3.unsat:
                return None
            if answer == z3.unknown:
                return Unknown(solver.reason_unknown())
            model = solver.model()
            if real(self._read(model)):
                return model
            if self.products is None:
                return Unknown("the solver's state does not replay on integers: a bug in the model")
            solver.add(*self.products.refined(model))
        return Unknown(f"no state with right products in {ROUNDS} rounds")

    def _readable(self, solver: z3.Solver, model: z3.ModelRef, part: str) -> z3.ModelRef:
        """Of the states that refute `part`, one in which as many preferences hold as can be had one by one."""
        kept: list[Truth] = []
        solver.set("rlimit", EFFORT)
        for preference in self.world.preferences:
            if not z3.is_true(model.eval(preference)):
                better = self._search(solver, [*kept, preference], lambda state: replays(self.claim, part, state))
                if better is None or isinstance(better, Unknown):
                    continue
                model = better
            kept.append(preference)
        return model

    def _read(self, model: z3.ModelRef) -> Counterexample:
        def value(term: z3.BitVecRef) -> int:
            return int(model.eval(term, model_completion=True).as_long())

        functions = {
            (name, tuple(value(term) for term in terms)): value(result)
            for name, terms, result in self.world.applications.values()
        }
        words = {name: value(term) for name, term in self.world.words.items()}
        shown = tuple(Shown(label, width, value(term)) for label, width, term in self.world.shown)
        return Counterexample(shown, words, functions)


class Solver:
    """Decides obligations one by one; equal claims once."""

    def __init__(self, timeout: float = DEFAULT_TIMEOUT) -> None:
        self._timeout = timeout
        self._queries: dict[tuple[Claim, str], _Query | NoRule] = {}
        self._decided: dict[tuple[Claim, str, str, str], Verdict] = {}

    def decide(self, obligation: Obligation) -> Result:
        key = (obligation.claim, obligation.part, obligation.expect, obligation.over)
        known = self._decided.get(key)
        if known is not None:
            return Result(obligation, known, 0.0)
        started = perf_counter()
        verdict = self._fresh(obligation, obligation.over)
        if obligation.over == "products" and not isinstance(verdict, Proved):
            verdict = self._confirmed(obligation, verdict)
        self._decided[key] = verdict
        return Result(obligation, verdict, perf_counter() - started)

    def decide_all(self, obligations: Iterable[Obligation]) -> Iterator[Result]:
        for obligation in obligations:
            yield self.decide(obligation)

    def _confirmed(self, obligation: Obligation, verdict: Verdict) -> Verdict:
        """A counterexample that replayed on ints had real products; what did not is asked again with real ones."""
        return verdict if isinstance(verdict, Refuted) else self._fresh(obligation, "words")

    def _fresh(self, obligation: Obligation, over: str) -> Verdict:
        key = (obligation.claim, over)
        query = self._queries.get(key)
        if query is None:
            try:
                query = _Query(obligation.claim, self._timeout, over)
            except Unsupported as hole:
                query = NoRule(str(hole))
            self._queries[key] = query
        return query if isinstance(query, NoRule) else query.decide(obligation.part, obligation.expect)
