"""Verdicts put together: words, counts, exit status."""

from collections.abc import Iterable
from enum import IntEnum
from typing import assert_never

from proofs.obligation import NoRule, Proved, Refuted, Unknown, Verdict


class Exit(IntEnum):
    """Exit status of every command that gives verdicts."""

    PROVED = 0
    REFUTED = 1
    BAD_INPUT = 2
    OPEN = 3  # nothing refuted, but something unknown or unsupported


def word(verdict: Verdict) -> str:
    match verdict:
        case Proved():
            return "proved"
        case Refuted():
            return "refuted"
        case Unknown():
            return "unknown"
        case NoRule():
            return "unsupported"
        case _:
            assert_never(verdict)


def why(verdict: Verdict) -> str:
    """The reason of a verdict that is open; "" for the others."""
    return verdict.reason if isinstance(verdict, Unknown | NoRule) else ""


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict of a conjunction: refuted if a part is, else open if a part is, else proved; `NoRule` of nothing."""
    found: list[Verdict] = list(verdicts)
    for kind in (Refuted, NoRule, Unknown):
        for verdict in found:
            if isinstance(verdict, kind):
                return verdict
    return Proved() if found else NoRule("nothing was claimed")


def status(verdicts: Iterable[Verdict]) -> Exit:
    words = {word(verdict) for verdict in verdicts}
    if "refuted" in words:
        return Exit.REFUTED
    if words <= {"proved"}:
        return Exit.PROVED
    return Exit.OPEN
