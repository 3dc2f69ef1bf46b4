"""Campaigns: the same shards are the same programs, failures are made small, what a lost process ran is run again."""

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from gen.campaign import Plan, Seen, Tally, run_shard
from gen.programs import Generated
from gen.workers import LOST, ShardLost, cluster, here, processes


@dataclass(frozen=True, slots=True)
class Deletes:
    """Fails on each program with a delete."""

    name: str = "deletes"

    def bind(self) -> Callable[[Generated], Seen]:
        def judge(made: Generated) -> Seen:
            sites = tuple(("any", line.split()[1], "direct") for line in made.text.splitlines() if "call map" in line)
            return Seen("a delete\nsecond line" if "call map_delete_elem" in made.text else "", sites=sites)

        return judge


@dataclass(frozen=True, slots=True)
class Refuses:
    name: str = "refuses"

    def bind(self) -> Callable[[Generated], Seen]:
        return lambda made: Seen(refused="never")


@dataclass(frozen=True, slots=True)
class Dies:
    """Kills its process the first time that `place` is not there (or each time)."""

    place: str
    always: bool = False
    name: str = "dies"

    def bind(self) -> Callable[[Generated], Seen]:
        def judge(made: Generated) -> Seen:
            mark = Path(self.place)
            if self.always or not mark.exists():
                mark.write_text("", encoding="utf-8")
                os.kill(os.getpid(), signal.SIGKILL)
            return Seen()

        return judge


def added(tallies: list[Tally]) -> Tally:
    found = Tally()
    for tally in tallies:
        found.add(tally)
    return found


def known(found: Tally) -> tuple[object, ...]:
    return found.programs, found.failed, dict(found.sites), {name: one.case for name, one in found.failures.items()}


def test_a_shard_is_the_same_programs_each_time() -> None:
    plan = Plan(7, (Deletes(),), size=30)
    one, two, other = run_shard(plan, 3), run_shard(plan, 3), run_shard(plan, 4)
    assert known(one) == known(two)
    assert known(one) != known(other)
    assert one.programs == 30
    assert one.shards == [3]
    assert set(one.seconds) == {"generation", "deletes"}


def test_a_failure_is_made_small_and_the_shard_goes_on() -> None:
    found = run_shard(Plan(1, (Deletes(),), size=60), 0)
    assert found.programs == 60
    assert found.failed > 1
    small = found.failures["deletes-map_delete_elem"]
    assert small.why == "a delete\nsecond line"
    assert small.case.text.count("call ") == 1


def test_what_is_refused_is_counted_by_reason() -> None:
    found = run_shard(Plan(1, (Refuses(),), size=20), 0)
    assert found.refused == {("refuses", "never"): 20}
    assert found.judged["refuses"] == 0


def test_an_end_in_time() -> None:
    started = time.monotonic()
    found = added(list(here(Plan(1, (Refuses(),)), 0, None, started + 0.5)))
    assert 0.4 < time.monotonic() - started < 10
    assert found.programs


def test_processes_find_what_one_finds() -> None:
    plan = Plan(3, (Deletes(),), size=10)
    assert known(added(list(processes(plan, 2, 0, 4, None)))) == known(added(list(here(plan, 0, 4, None))))


def test_the_shards_of_a_process_that_dies_are_run_again(tmp_path: Path) -> None:
    found = added(list(processes(Plan(3, (Dies(str(tmp_path / "mark")),), size=5), 2, 0, 6, None)))
    assert sorted(found.shards) == [0, 1, 2, 3, 4, 5]
    assert found.programs == 30


def test_a_shard_that_kills_each_process_ends_the_campaign(tmp_path: Path) -> None:
    with pytest.raises(ShardLost, match=f"lost {LOST + 1} of them"):
        list(processes(Plan(3, (Dies(str(tmp_path / "mark"), always=True),), size=5), 1, 0, 1, None))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_cluster_that_loses_a_worker_loses_nothing(tmp_path: Path) -> None:
    pytest.importorskip("dask.distributed", reason="the extra `cluster` is not installed")
    plan = Plan(3, (Deletes(), Dies(str(tmp_path / "mark"))), size=10)
    found = added(list(cluster(plan, "local:2", 0, 6, None)))
    assert sorted(found.shards) == [0, 1, 2, 3, 4, 5]
    assert (tmp_path / "mark").exists()
    expected = added(list(here(Plan(3, (Deletes(),), size=10), 0, 6, None)))
    assert known(found) == known(expected)
