"""From obligations to verdicts, by z3: fixed seed, a time limit for each query, counterexamples replayed on ints."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from random import Random
from time import perf_counter

import z3

from model.errors import Unsupported
from proofs.concrete import outcome, replays
from proofs.limit import Limit
from proofs.obligation import (
    Claim,
    Counterexample,
    Evidence,
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
NOWHERE = "no state under the claim's assumptions gets here: what is proved of it is vacuous"
UNNOTICED = "a planted fault does not make it fail: the proof is vacuous"


@dataclass(frozen=True, slots=True)
class Result:
    """A verdict with the solver's own time for it, in seconds (0 where an equal formula was decided before)."""

    obligation: Obligation
    verdict: Verdict
    seconds: float
    evidence: Evidence


class Query:
    """One claim over terms."""

    def __init__(self, claim: Claim, timeout: float, over: str) -> None:
        self.claim = claim
        self.products = Products() if over == "products" else None
        self.world = IntegerWorld() if over == "integers" else TermWorld(self.products)
        self.parts = dict(claim(self.world))
        self.logic = "QF_NIA" if over == "integers" else "QF_UFBV"
        self.timeout = max(1, int(timeout * 1000))
        self.known = [*self.world.assumptions, *(self.products.axioms() if self.products is not None else ())]
        self.states = self._solver(*self.known)
        self.seen: set[tuple[str, bool]] = set()
        self.proved: set[str] = set()
        self.found: list[Counterexample] = []

    @cached_property
    def open(self) -> Verdict | None:
        """Why nothing can be said of any part; None where a state satisfies the assumptions."""
        if self.seen:
            return None
        found = self._search(self.states, [], self._learnt)
        if found is None:
            return NoRule("the claim's assumptions contradict each other: a proof would be vacuous")
        return Unknown(f"assumptions: {found.reason}") if isinstance(found, Unknown) else None

    def _learnt(self, state: Counterexample) -> bool:
        """Notes what is true and false in a state on ints; whether it is one that the assumptions allow."""
        parts = outcome(self.claim, state)
        self.seen |= parts.items()
        self.found += [state] if parts else []
        return bool(parts)

    def _shows(self, part: str, holds: bool, state: Counterexample) -> bool:
        return self._learnt(state) and (part, holds) in self.seen

    def _solver(self, *conditions: Truth) -> z3.Solver:
        """A solver for one question: z3 simplifies a set of formulas that it sees as a whole far better."""
        solver = z3.SolverFor(self.logic)
        solver.set("random_seed", SEED)
        solver.set("timeout", self.timeout)
        solver.set("ctrl_c", False)  # ours is the one that reports what was found until then
        solver.add(*conditions)
        return solver

    def valid(self, part: str) -> Verdict:
        solver, found = self._failing(part, lambda state: replays(self.claim, part, state))
        if found is None:
            if len(solver.assertions()) == len(self.known) + 1:  # without the real products of some values
                self.proved.add(part)
            return self.open or Proved()
        return found if isinstance(found, Unknown) else Refuted(self._read(self._readable(solver, found, part)))

    def fails(self, part: str) -> Verdict:
        """`Proved`: some state refutes `part`. Which one does not matter."""
        _, found = self._failing(part, partial(self._shows, part, False))
        if found is None:
            return self.open or NoRule(UNNOTICED)
        return found if isinstance(found, Unknown) else Proved()

    def _failing(
        self, part: str, real: Callable[[Counterexample], bool]
    ) -> tuple[z3.Solver, z3.ModelRef | Unknown | None]:
        solver = self._solver(*self.known, self.denied(part))
        return solver, self._search(solver, [], real)

    def denied(self, part: str) -> Truth:
        claimed = self.parts[part]
        return z3.Not(z3.And(claimed, *self.world.fits) if isinstance(self.world, IntegerWorld) else claimed)

    def reached(self, part: str) -> Verdict:
        """`Proved`: some state takes the path whose condition is `part`."""
        if (part, True) in self.seen:
            return Proved()
        found = self._search(self.states, [self.parts[part]], partial(self._shows, part, True))
        if found is None:
            return self.open or NoRule(NOWHERE)
        return found if isinstance(found, Unknown) else Proved()

    def dead(self, part: str) -> bool:
        """Whether the path's own condition is false in every state, whatever is assumed."""
        return bool(self._solver(self.parts[part]).check() == z3.unsat)

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


@dataclass(slots=True)
class _Planted:
    """What a claim with a planted fault does in states that were found for the claim without it: no solver for most."""

    claim: Claim
    failed: set[str]
    tried: int = 0

    def fails(self, part: str, states: Sequence[Counterexample]) -> bool:
        """Whether `part` is false in one of `states`, on ints. What a state does not tell is drawn at random; then what
        is 0 there too, as words are that z3 was free to choose.
        """
        while part not in self.failed and self.tried < len(states):
            state = states[self.tried]
            free = replace(state, words={name: word for name, word in state.words.items() if word})
            for one in (state, free):
                parts = outcome(self.claim, one, Random(SEED))
                self.failed |= {name for name, holds in parts.items() if not holds}
            self.tried += 1
        return part in self.failed


class Solver:
    """Decides obligations one by one; equal claims once. What is proved of a claim, its planted fault must refute."""

    def __init__(self, timeout: float = DEFAULT_TIMEOUT, limit: Limit | None = None) -> None:
        """`timeout` is for one query, in seconds; what is not decided when `limit` is over stays unknown."""
        self._timeout = timeout
        self._limit = Limit() if limit is None else limit
        self._queries: dict[tuple[Claim, str], Query | NoRule] = {}
        self._planted: dict[tuple[Claim, Claim], _Planted] = {}
        self._decided: dict[tuple[Claim, str, str, str, str], tuple[Verdict, Evidence]] = {}

    def decide(self, obligation: Obligation) -> Result:
        key = (obligation.claim, obligation.part, obligation.expect, obligation.over, obligation.path)
        known = self._decided.get(key)
        if known is not None:
            return Result(obligation, known[0], 0.0, known[1])
        if self._limit.over:
            return self._open(obligation, 0.0)
        started = perf_counter()
        try:
            decided = self._valid(obligation) if obligation.expect == "valid" else self._taken(obligation)
        except KeyboardInterrupt:
            self._limit.interrupted = True
            return self._open(obligation, perf_counter() - started)
        if isinstance(decided[0], Unknown) and "interrupted" in decided[0].reason:  # z3 takes Ctrl-C itself
            self._limit.interrupted = True
            return self._open(obligation, perf_counter() - started)
        self._decided[key] = decided
        return Result(obligation, decided[0], perf_counter() - started, decided[1])

    def _open(self, obligation: Obligation, seconds: float) -> Result:
        return Result(obligation, Unknown(f"time: {self._limit.reason()}"), seconds, Evidence())

    def decide_all(self, obligations: Iterable[Obligation]) -> Iterator[Result]:
        for obligation in obligations:
            yield self.decide(obligation)

    def _valid(self, obligation: Obligation) -> tuple[Verdict, Evidence]:
        part = obligation.part
        verdict = self._asked(obligation.claim, obligation.over, lambda query: query.valid(part))
        if isinstance(verdict, Refuted):
            return verdict, Evidence(assumptions=True, fault="itself")
        if not isinstance(verdict, Proved):
            return verdict, Evidence()
        noticed = self._noticed(obligation, obligation.claim)
        if isinstance(noticed, Proved):
            return verdict, Evidence(assumptions=True, fault="planted")
        if noticed == NoRule(UNNOTICED) and obligation.path:
            claim, over, path = obligation.claim, obligation.over, obligation.path
            if self._asked(claim, over, lambda query: query.reached(path)) == NoRule(NOWHERE):
                return verdict, Evidence(assumptions=True, fault="dead")
        return noticed, Evidence(assumptions=True)

    def _noticed(self, obligation: Obligation, claim: Claim) -> Verdict:
        """Whether a planted fault makes the part fail."""
        try:
            planted = claim.planted(obligation.part)
        except Unsupported as hole:
            return NoRule(f"no fault to plant: {hole}")
        query = self.query(claim, obligation.over)
        if isinstance(query, Query):
            if obligation.path:
                query.reached(obligation.path)  # finds a state on the path
            trial = self._planted.setdefault((claim, planted), _Planted(planted, set()))
            if trial.fails(obligation.part, query.found):
                return Proved()
        verdict = self._asked(planted, obligation.over, lambda query: query.fails(obligation.part))
        if isinstance(verdict, Proved) or verdict == NoRule(UNNOTICED):
            return verdict
        told = f"with a planted fault: {why}" if (why := getattr(verdict, "reason", "")) else "planted fault"
        return Unknown(told) if isinstance(verdict, Unknown) else NoRule(told)

    def _taken(self, obligation: Obligation) -> tuple[Verdict, Evidence]:
        part = obligation.part
        verdict = self._asked(obligation.claim, obligation.over, lambda query: query.reached(part))
        if isinstance(verdict, Proved):
            return verdict, Evidence(assumptions=True, path="reached")
        if verdict == NoRule(NOWHERE) and obligation.expect == "path":
            query = self.query(obligation.claim, obligation.over)
            dead = isinstance(query, Query) and query.dead(part)
            return Proved(), Evidence(assumptions=True, path="dead" if dead else "excluded")
        return verdict, Evidence()

    def _asked(self, claim: Claim, over: str, ask: Callable[[Query], Verdict]) -> Verdict:
        """The answer over `over`; one that is open or rests on products as an unknown function is asked for again."""
        query = self.query(claim, over)
        verdict = query if isinstance(query, NoRule) else ask(query)
        if over != "products" or isinstance(verdict, Proved | Refuted):
            return verdict
        return self._asked(claim, "words", ask)

    def query(self, claim: Claim, over: str) -> Query | NoRule:
        key = (claim, over)
        query = self._queries.get(key)
        if query is None:
            try:
                query = Query(claim, min(self._timeout, self._limit.left), over)
            except Unsupported as hole:
                query = NoRule(str(hole))
            self._queries[key] = query
        return query
