"""What keeps each verdict from being vacuous, for --verbose: a line for each obligation, and their count."""

from collections.abc import Iterable
from dataclasses import dataclass

from proofs.obligation import Evidence
from proofs.outcome import word
from proofs.solver import Result

HEAD = f"{'verdict':<11} {'solver':>8}     {'assumptions':<11}  {'shown by':<13}  obligation"
SHOWN = {
    "reached": "path reached",
    "dead": "path dead",
    "excluded": "path excluded",
    "planted": "fault noticed",
    "itself": "fails itself",
}


def timed(result: Result) -> str:
    """One obligation: verdict, the solver's time in ms, whether its assumptions can hold, what shows that it is not
    vacuous, name.
    """
    sure = "satisfiable" if result.evidence.assumptions else "not shown"
    how = SHOWN.get(result.evidence.path or result.evidence.fault, "-")
    return (
        f"{word(result.verdict):<11} {1000 * result.seconds:8.1f} ms  {sure:<11}  {how:<13}  {result.obligation.name}"
    )


@dataclass(frozen=True, slots=True)
class Count:
    """Numbers of obligations. `paths` are those that a path is reachable, `reached` of these, and `dead` or excluded by
    what is assumed; the others are `claims`: their planted fault was `noticed`, they are `refuted` themselves, or
    `idle`: they speak of a path that no state takes.
    """

    obligations: int
    satisfiable: int
    paths: int
    reached: int
    dead: int
    claims: int
    noticed: int
    refuted: int
    idle: int

    @property
    def whole(self) -> bool:
        """Whether nothing here is, or may be, vacuous."""
        return (
            self.satisfiable == self.obligations
            and self.reached + self.dead == self.paths
            and self.noticed + self.refuted + self.idle == self.claims
        )

    def __str__(self) -> str:
        dead = f" (no state takes {self.dead})" if self.dead else ""
        more = [f"{self.refuted} fail without one"] if self.refuted else []
        more += [f"{self.idle} speak of a path that no state takes"] if self.idle else []
        other = f" ({', '.join(more)})" if more else ""
        return (
            f"not vacuous: assumptions satisfiable {self.satisfiable} of {self.obligations}, paths reached "
            f"{self.reached} of {self.paths}{dead}, planted faults noticed {self.noticed} of {self.claims}{other}"
        )


def counted(results: Iterable[Result]) -> Count:
    """Of `results`, each obligation once by its name."""
    by_name = {result.obligation.name: result for result in results}
    claims = [one.evidence for one in by_name.values() if one.obligation.expect == "valid"]
    paths = [one.evidence for one in by_name.values() if one.obligation.expect != "valid"]
    return Count(
        obligations=len(by_name),
        satisfiable=sum(one.evidence.assumptions for one in by_name.values()),
        paths=len(paths),
        reached=_number(paths, "reached"),
        dead=_number(paths, "dead") + _number(paths, "excluded"),
        claims=len(claims),
        noticed=_number(claims, "planted"),
        refuted=_number(claims, "itself"),
        idle=_number(claims, "dead"),
    )


def _number(evidence: Iterable[Evidence], wanted: str) -> int:
    return sum(wanted in (one.path, one.fault) for one in evidence)
