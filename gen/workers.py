"""Where shards run: in this process, in processes of this machine, or on a Dask cluster (the extra `cluster`)."""

import os
import signal
from collections.abc import Generator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from importlib import import_module
from itertools import count
from multiprocessing import get_context
from time import monotonic
from typing import Any

from gen.campaign import Plan, Tally, run_shard
from model.errors import InputError

AHEAD = 2
"""Shards that wait for each worker."""
LOST = 3
"""How often a shard may lose its worker before the campaign ends."""


class ShardLost(InputError):
    """A shard's worker was lost again and again: what runs in it is to blame."""


def here(plan: Plan, first: int, shards: int | None, until: float | None) -> Generator[Tally]:
    """In this process, one after the other; `until` is a point of time.monotonic."""
    for number in count(first) if shards is None else range(first, first + shards):
        left = None if until is None else until - monotonic()
        if left is not None and left <= 0:
            return
        yield run_shard(plan, number, left)


def _quiet() -> None:
    """Ctrl-C is for the process that hands out the shards."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def processes(plan: Plan, jobs: int, first: int, shards: int | None, until: float | None) -> Generator[Tally]:
    """In `jobs` processes. The shards of a process that dies are run again by another."""
    todo = _Todo(first, shards, until)
    pool = _pool(jobs)
    running: dict[Future[Tally], int] = {}
    try:
        while True:
            while len(running) < jobs * AHEAD and (number := todo.take()) is not None:
                running[pool.submit(run_shard, plan, number, todo.left())] = number
            if not running:
                return
            done, _ = wait(running, timeout=1.0, return_when=FIRST_COMPLETED)
            broken = False
            for future in done:
                number = running.pop(future)
                try:
                    yield future.result()
                except BrokenProcessPool:
                    broken = True
                    todo.again(number)
            if broken:
                for number in running.values():
                    todo.again(number)
                running.clear()
                pool.shutdown(wait=False, cancel_futures=True)
                pool = _pool(jobs)
    finally:
        _stop(pool)


def _pool(jobs: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(jobs, mp_context=get_context("forkserver"), initializer=_quiet)


def _stop(pool: ProcessPoolExecutor) -> None:
    workers: list[Any] = list((getattr(pool, "_processes", None) or {}).values())
    pool.shutdown(wait=False, cancel_futures=True)
    for worker in workers:
        worker.terminate()


class _Todo:
    """The numbers of shards that are still to be run."""

    def __init__(self, first: int, shards: int | None, until: float | None) -> None:
        self._fresh = iter(count(first) if shards is None else range(first, first + shards))
        self._until = until
        self._back: list[int] = []
        self._lost: dict[int, int] = {}

    def left(self) -> float | None:
        return None if self._until is None else max(0.0, self._until - monotonic())

    def take(self) -> int | None:
        if self.left() == 0.0:
            return None
        return self._back.pop() if self._back else next(self._fresh, None)

    def again(self, number: int) -> None:
        """Raises `ShardLost` where the shard has lost its worker too often."""
        self._lost[number] = self._lost.get(number, 0) + 1
        if self._lost[number] > LOST:
            raise ShardLost("shard", str(number), f"expected a worker that lives, lost {LOST + 1} of them")
        self._back.append(number)


def cluster(plan: Plan, address: str, first: int, shards: int | None, until: float | None) -> Generator[Tally]:
    """On a Dask cluster: `address` is its scheduler's, or "local:N" for one of N processes of this machine.

    A shard whose worker is lost is run again elsewhere. Raises `InputError` where there is no cluster.
    """
    try:
        dask: Any = import_module("dask.distributed")
    except ImportError:
        raise InputError("--cluster", "", "expected the extra `cluster`: pip install 'bpf-devirt[cluster]'") from None
    name, _, number_of = address.partition(":")
    own: Any = None
    if name == "local":
        workers = int(number_of) if number_of.isdecimal() else os.cpu_count() or 1
        own = dask.LocalCluster(n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=None)
    try:
        client: Any = dask.Client(own or address, timeout="10s")
    except (OSError, TimeoutError, ValueError) as error:
        raise InputError("--cluster", address[:80], f"expected a Dask scheduler: {error}") from None
    todo = _Todo(first, shards, until)
    waiting = dask.as_completed()
    numbers: dict[str, int] = {}
    try:
        plan_there = client.scatter(plan, broadcast=True)

        def submit() -> bool:
            number = todo.take()
            if number is None:
                return False
            future = client.submit(run_shard, plan_there, number, todo.left(), pure=False, retries=LOST)
            numbers[future.key] = number
            waiting.add(future)
            return True

        for _ in range(AHEAD * max(1, len(client.scheduler_info()["workers"]))):
            submit()
        for future in waiting:
            number = numbers.pop(future.key)
            if future.status == "finished":
                yield future.result()
            else:
                todo.again(number)
            submit()
    finally:
        client.close()
        if own is not None:
            own.close()
