"""The User callback claims of a checked program: by induction, and on maps of a few elements, with one line each.

Equal callbacks over maps with equal parameters are decided once, however many programs have a copy.
"""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from rich.console import Console

from model.errors import Unsupported
from model.facts import Assumption, analyse
from model.kernel.abi import Abi
from model.kernel.release import Release
from model.program import MapRef, Program
from model.rewrite.config import Config
from model.rewrite.passes import Rewritten
from proofs.obligation import NoRule, Refuted, Verdict
from proofs.outcome import why, word, worst
from proofs.properties.callback_small import Small
from proofs.properties.callback_user import User
from proofs.properties.callback_user_cases import Case, cases, obligations, small_claims, small_obligations
from proofs.properties.whole import Side
from proofs.report.evidence import counted, timed
from proofs.report.text import clean, refutation
from proofs.solver import DEFAULT_TIMEOUT, Result, Solver

CALL, WIDE, PSEUDO_CALL, PSEUDO_FUNC = 0x85, 0x18, 1, 4


@dataclass(frozen=True, slots=True)
class Walked:
    """One site with one map and callback. `slot` is the call before; `name` begins the obligations' names.

    `small` has the verdicts on maps of few elements by name ("3-elements"), where there are any.
    """

    slot: int
    name: str
    verdict: Verdict
    small: tuple[tuple[str, Verdict], ...] = ()
    results: tuple[Result, ...] = ()

    @property
    def refuted(self) -> list[Verdict]:
        """What counts for an exit status: a hole in the model leaves the site's own claims as they are."""
        return [one for one in (self.verdict, *(verdict for _, verdict in self.small)) if isinstance(one, Refuted)]


@dataclass(slots=True)
class Callbacks:
    """Decides, and remembers what was decided: results have the names of the first of several equal callbacks.

    `timeout` is the solver's for one obligation, in seconds.
    """

    release: Release
    abi: Abi
    timeout: float = DEFAULT_TIMEOUT
    _known: dict[Hashable, Walked] = field(default_factory=dict)

    def check(self, done: Rewritten, config: Config, assumptions: Sequence[Assumption] = ()) -> Iterator[Walked]:
        facts = analyse(done.before, self.release, assumptions, speculative=config.unprivileged)
        for case in cases(done, facts, self.release, self.abi):
            if case.claim is None:
                yield Walked(case.slot, case.prefix, NoRule(case.hole))
                continue
            key = _key(case.claim)
            known = self._known.get(key)
            if known is None:
                known = self._known[key] = self._decided(case, done)
            yield Walked(case.slot, case.prefix, known.verdict, known.small, known.results)

    def _decided(self, case: Case, done: Rewritten) -> Walked:
        solver = Solver(self.timeout)
        try:
            results = tuple(solver.decide_all(obligations(case, self.release)))
            verdict = worst(result.verdict for result in results)
        except Unsupported as hole:
            return Walked(case.slot, case.prefix, NoRule(str(hole)))
        small: list[tuple[str, Verdict]] = []
        try:
            for name, claim in small_claims(case, done):
                found = _small(case, name, claim, solver)
                small.append((name, found if isinstance(found, NoRule) else worst(one.verdict for one in found)))
                results += () if isinstance(found, NoRule) else found
        except Unsupported as hole:
            small.append(("few elements", NoRule(str(hole))))
        return Walked(case.slot, case.prefix, verdict, tuple(small), results)


def _small(case: Case, name: str, claim: Small, solver: Solver) -> tuple[Result, ...] | NoRule:
    try:
        return tuple(solver.decide_all(small_obligations(case, name, claim)))
    except Unsupported as hole:
        return NoRule(str(hole))


def _key(claim: User) -> Hashable:
    """Equal for claims that say the same: the callback's code on both sides, the maps, the way to the operation."""
    sides, codes, numbers = (claim.pair.before, claim.pair.after), [], []
    for side, start in zip(sides, claim.starts, strict=True):
        codes.append(_code(side, claim.map, start))
        numbers.append(claim.function_at(side, start))
    if None in codes or numbers[0] != numbers[1]:
        return claim
    maps = sides[0].program.maps
    types = frozenset(one.type for one in maps)
    return replace(maps[claim.map], name="", id=None), claim.function, types, tuple(codes)


def _code(side: Side, walked: int, start: int) -> Hashable | None:
    """The function at `start` with what its slots name; None where it is not told by itself."""
    program = side.program
    function = next((one for one in program.subprograms if one.start == start), None)
    if function is None:
        return None
    code: list[Hashable] = []
    for slot in range(function.start, function.end):
        insn, ref = program.insns[slot], program.refs.get(slot)
        if (insn.opcode, insn.src) in ((CALL, PSEUDO_CALL), (WIDE, PSEUDO_FUNC)):
            return None
        if isinstance(ref, MapRef):
            code.append((ref.map == walked, ref.map, program.maps[ref.map], ref.offset, insn.dst))
        else:
            code.append((insn, ref, side.relocs.get(slot)))
    return tuple(code)


def callbacks_report(out: Console, program: Program, walks: Sequence[Walked], *, verbose: bool) -> None:
    for walk in walks:
        reason = f" ({why(walk.verdict)})" if why(walk.verdict) else ""
        text = f"  User callback at {program.base + walk.slot}: {word(walk.verdict)} {walk.name}{reason}"
        out.print(clean(text), markup=False, soft_wrap=True)
        for name, verdict in walk.small:
            more = f" ({why(verdict)})" if why(verdict) else ""
            if verbose or word(verdict) != "proved":
                out.print(clean(f"    {name}: {word(verdict)}{more}"), markup=False, soft_wrap=True)
        agreed = [name for name, verdict in walk.small if word(verdict) == "proved"]
        if agreed and not verbose:
            out.print(clean(f"    unrolled, proved: {', '.join(agreed)}"), markup=False, soft_wrap=True)
        broken = [result for result in walk.results if isinstance(result.verdict, Refuted)]
        told = refutation(broken[0]) if broken else []
        told += [f"also refuted: {result.obligation.name}" for result in broken[1:]]
        for line in told:
            out.print(f"    {clean(line)}", markup=False, soft_wrap=True)
        for result in walk.results if verbose else ():
            line = f"  {timed(result)}"
            out.print(line, markup=False, soft_wrap=True)
        if verbose and walk.results:
            out.print(f"  {counted(walk.results)}", markup=False, soft_wrap=True)
