"""Fuzz campaigns: generated programs before judges, in shards, by seed; what is found is shrunk and kept.

A shard is a number: the same shard of the same plan is the same programs everywhere, so that a lost one is simply run
again. Judges are values that are called with a case and say what they saw; this module knows none of them.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from time import monotonic, perf_counter
from typing import Protocol

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import Flaky

from gen.programs import EVERY, Calls, Generated, programs

SHARD = 50
"""Programs of a shard."""
SHRINKS = 400
"""Runs of judges, at most, to make a failing case smaller."""
SHRUNK = 2
"""Failures of a shard that are made smaller; more of them are only counted, and kept as they are if they are new."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What a judge saw of one case.

    `failure` is why it fails, in lines for a person, else "". `refused` is why it could not be judged (the verifier's
    reason, a hole of the model), else "". `sites` are (map type, helper, what became of the call).
    """

    failure: str = ""
    refused: str = ""
    sites: tuple[tuple[str, str, str], ...] = ()


class Judge(Protocol):
    """A judge has a name and is picklable. `bind` makes what a process needs once (a solver, a session)."""

    @property
    def name(self) -> str: ...

    def bind(self) -> Callable[[Generated], Seen]: ...


@dataclass(frozen=True, slots=True)
class Plan:
    """`calls` are the helpers that programs call, by map type; `most` is a program's statements, `size`
    a shard's programs.
    """

    seed: int
    judges: tuple[Judge, ...]
    calls: Calls = field(default_factory=lambda: EVERY)
    most: int = 3
    size: int = SHARD


@dataclass(frozen=True, slots=True)
class Failure:
    """A case, made small, on which `judge` failed: `why` in lines."""

    judge: str
    why: str
    case: Generated
    sites: tuple[tuple[str, str, str], ...] = ()

    @property
    def name(self) -> str:
        """The same for the same judge and the same helpers: one of them is enough."""
        return "-".join([self.judge, *sorted({helper for _, helper, _ in self.sites})])


@dataclass(slots=True)
class Tally:
    """What shards found; tallies add up. `seconds` is by stage (generation, each judge), `new` a site's first case."""

    programs: int = 0
    failed: int = 0
    shards: list[int] = field(default_factory=list)
    refused: Counter[tuple[str, str]] = field(default_factory=Counter)
    sites: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    seconds: dict[str, float] = field(default_factory=dict)
    judged: Counter[str] = field(default_factory=Counter)
    failures: dict[str, Failure] = field(default_factory=dict)
    new: dict[tuple[str, str, str], Generated] = field(default_factory=dict)

    def add(self, other: "Tally") -> None:
        self.programs += other.programs
        self.failed += other.failed
        self.shards += other.shards
        self.refused.update(other.refused)
        self.sites.update(other.sites)
        for stage, spent in other.seconds.items():
            self.took(stage, spent)
        self.judged.update(other.judged)
        for failure in other.failures.values():
            self.fail(failure)
        self.new |= {site: other.new[site] for site in other.new.keys() - self.new.keys()}

    def fail(self, failure: Failure) -> None:
        """Of failures of one name, the one with the shortest program is kept."""
        known = self.failures.get(failure.name)
        if known is None or len(failure.case.text) < len(known.case.text):
            self.failures[failure.name] = failure

    def took(self, stage: str, seconds: float) -> None:
        self.seconds[stage] = self.seconds.get(stage, 0.0) + seconds


class _Failed(Exception):
    """A judge failed: hypothesis makes the case smaller."""


@dataclass(slots=True)
class _Examiner:
    judges: Mapping[str, Callable[[Generated], Seen]]
    tally: Tally = field(default_factory=Tally)
    failure: Failure | None = None
    runs: int = 0

    def examine(self, made: Generated) -> None:
        """Every judge's word on one case; raises at the first failure, always from here.

        While a failure is made smaller, only its judge is asked, and nothing is counted.
        """
        found = self._first(made) if self.failure is None else self._again(made, self.failure)
        if found is not None:
            self.failure = found
            raise _Failed

    def _first(self, made: Generated) -> Failure | None:
        self.tally.programs += 1
        for name, judge in self.judges.items():
            started = perf_counter()
            seen = judge(made)
            self.tally.took(name, perf_counter() - started)
            self.tally.judged[name] += not seen.refused
            if seen.refused:
                self.tally.refused[name, seen.refused] += 1
            for site in seen.sites if name == next(iter(self.judges)) else ():
                self.tally.sites[site] += 1
                self.tally.new.setdefault(site, made)
            if seen.failure:
                return Failure(name, seen.failure, made, seen.sites)
        return None

    def _again(self, made: Generated, failure: Failure) -> Failure | None:
        self.runs += 1
        seen = self.judges[failure.judge](made) if self.runs <= SHRINKS else Seen()
        return Failure(failure.judge, seen.failure, made, seen.sites) if seen.failure else None


def run_shard(plan: Plan, number: int, until: float | None = None) -> Tally:
    """The shard `number`: `plan.size` programs, fewer where `until` (seconds from now) is over before.

    A failing case ends a shard's stream of programs; the rest of the shard is another stream.
    """
    end = None if until is None else monotonic() + until
    judges = {judge.name: judge.bind() for judge in plan.judges}
    found = Tally()
    stream = 0
    while found.programs < plan.size and (end is None or monotonic() < end):
        started = perf_counter()
        smaller = found.failed < SHRUNK
        examiner = _stream(plan, judges, (number << 16) + stream, plan.size - found.programs, end, smaller)
        spent = perf_counter() - started - sum(examiner.tally.seconds.values())
        examiner.tally.took("generation", max(0.0, spent))
        if examiner.failure is not None:
            examiner.tally.failed += 1
            examiner.tally.fail(examiner.failure)
        found.add(examiner.tally)
        stream += 1
        if not examiner.tally.programs:
            break
    found.shards = [number]
    return found


def _stream(
    plan: Plan,
    judges: Mapping[str, Callable[[Generated], Seen]],
    number: int,
    count: int,
    end: float | None,
    smaller: bool,
) -> _Examiner:
    examiner = _Examiner(judges)

    @seed(_mixed(plan.seed, number))
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        derandomize=False,
        report_multiple_bugs=False,
        phases=(Phase.generate, Phase.shrink) if smaller else (Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data())
    def judged(data: st.DataObject) -> None:
        if end is not None and monotonic() > end and examiner.failure is None:
            return
        examiner.examine(data.draw(programs(plan.most, plan.calls)))

    with suppress(_Failed, Flaky):  # flaky: the judge's word changed, or it was asked often enough
        judged()
    return examiner


def _mixed(one: int, other: int) -> int:
    return int.from_bytes(hashlib.sha256(f"{one} {other}".encode()).digest()[:8], "little")
