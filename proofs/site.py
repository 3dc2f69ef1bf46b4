"""A map-helper call site as a report tells it, and what is to be said of one that keeps its dispatch."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from model.facts import MapPointer
from model.program import Line
from proofs.claims import Claims, conjunction, refuted
from proofs.obligation import NoRule, Proved, Refuted, Unknown, Verdict
from proofs.solver import Result


class Residual(Enum):
    """Why an indirect dispatch is left."""

    NECESSARY = "necessary"  # different operations can be meant, or the release has no direct form
    MISSED = "missed"  # one operation for every map that reaches it: a direct call would have been equivalent
    UNCLEAR = "unclear"  # the input or the model does not tell


@dataclass(frozen=True, slots=True)
class Leftover:
    """A residual dispatch: its kind, the reason, and the verdict of that classification."""

    kind: Residual
    reason: str
    verdict: Verdict
    results: tuple[Result, ...] = ()


@dataclass(frozen=True, slots=True)
class Site:
    """`slot` is in the program as it was read, `after` in the program after (equal for dumps).

    `decision` is one word or two: "direct", "inlined", "stays", "may stay", "dead", "unknown"; `function` what
    is called then. `leftover` is there where a dispatch is left, or may be.
    """

    slot: int
    after: int
    helper: str
    maps: tuple[MapPointer, ...]
    decision: str
    function: str | None
    reason: str
    verdict: Verdict
    results: tuple[Result, ...] = ()
    leftover: Leftover | None = None
    line: Line | None = None

    @property
    def types(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(pointer.map.type or "unknown type" for pointer in self.maps))


def described(pointer: MapPointer) -> str:
    """A map as reports name it: `name (type)`; a template of inner maps says so."""
    kind = pointer.map.type or "unknown type"
    return f"{pointer.map.name} ({kind}{', inner map' if pointer.template else ''})"


def leftover(claims: Claims, helper: str, pointers: Sequence[MapPointer], unknown: bool, cause: str) -> Leftover:
    """What a dispatch that stays is: necessary or missed, proved like any other claim.

    `cause` is why the kernel left it.
    """
    release = claims.release
    rewrite = release.rewrite(helper)
    if rewrite is None:
        return Leftover(Residual.NECESSARY, f"release {release.name} has no direct form for {helper}", Proved())
    if unknown or not pointers:
        return Leftover(Residual.UNCLEAR, "the map in r1 is not shown", Unknown("the map in r1 is not shown"))
    operations: dict[str, list[str]] = {}
    for pointer in pointers:
        function = None if pointer.map.type is None else release.operation(pointer.map.type, rewrite.slot)
        if function is None:
            what = f"{described(pointer)} has no {rewrite.slot} in release {release.name}"
            return Leftover(Residual.UNCLEAR, what, Unknown(what))
        operations.setdefault(function.name, []).append(described(pointer))
    if len(operations) > 1:
        told = "; ".join(f"{name} of {', '.join(maps)}" for name, maps in operations.items())
        return Leftover(Residual.NECESSARY, f"maps with different operations reach it: {told}", Proved())
    return _one_operation(claims, helper, pointers, next(iter(operations)), cause)


def _one_operation(claims: Claims, helper: str, pointers: Sequence[MapPointer], function: str, cause: str) -> Leftover:
    answers = [
        claims.direct(map_type, helper, function)
        for map_type in dict.fromkeys(pointer.map.type for pointer in pointers if pointer.map.type)
    ]
    verdict, results = conjunction(answers)
    match verdict:
        case Proved():
            reason = f"every map that reaches it has {function}: a direct call would be equivalent ({cause})"
            return Leftover(Residual.MISSED, reason, verdict, results)
        case Refuted():
            broken = refuted(results)
            name = broken.obligation.name if broken else ""
            reason = f"a direct call of {function} would not be equivalent: {name} is refuted ({cause})"
            return Leftover(Residual.NECESSARY, reason, Proved(), results)
        case Unknown() | NoRule():
            return Leftover(Residual.UNCLEAR, verdict.reason, verdict, results)
