"""Work in processes of their own that are killed when their time is over: solvers do not always heed a limit."""

import os
import resource
import signal
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from time import perf_counter
from typing import Generic, TypeVar

T = TypeVar("T")
MOST_MEMORY = 4 << 30  # bytes of address space of one process


@dataclass(frozen=True, slots=True)
class Done:
    """What became of the task `number`: an answer, or why there is none. `seconds` are of the wall's clock."""

    number: int
    answer: str
    failed: str
    seconds: float


@dataclass(slots=True)
class _Worker(Generic[T]):
    process: BaseProcess
    pipe: Connection
    number: int = -1  # of its task
    started: float = 0.0

    def give(self, number: int, task: T) -> None:
        self.number, self.started = number, perf_counter()
        with suppress(OSError):  # it is gone: told when it is waited for
            self.pipe.send(task)

    def stop(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()


def each(work: Callable[[T], str], tasks: Sequence[T], jobs: int, timeout: float) -> Iterator[Done]:
    """Every task once, as they end; `timeout` seconds for one. `work` and the tasks must be picklable."""
    waiting = deque(range(len(tasks)))
    workers: list[_Worker[T]] = []
    try:
        while waiting or workers:
            while waiting and len(workers) < jobs:
                worker: _Worker[T] = _start(work)
                workers.append(worker)
                worker.give(number := waiting.popleft(), tasks[number])
            for worker, done in _ended(workers, timeout):
                yield done
                if done.failed or not waiting:
                    worker.stop()
                    workers.remove(worker)
                else:
                    worker.give(number := waiting.popleft(), tasks[number])
    finally:
        for worker in workers:
            worker.stop()


def _ended(workers: Sequence[_Worker[T]], timeout: float) -> Iterator[tuple[_Worker[T], Done]]:
    """The workers that are done, or past their time, when the first of them is."""
    until = min(worker.started for worker in workers) + timeout
    ready = wait([worker.pipe for worker in workers], max(0.0, until - perf_counter()))
    now = perf_counter()
    for worker in list(workers):
        seconds = now - worker.started
        if worker.pipe in ready:
            try:
                answer, failed = worker.pipe.recv()
            except (EOFError, OSError):
                worker.process.join(1)
                answer, failed = "", f"its process ended ({worker.process.exitcode})"
            yield worker, Done(worker.number, answer, failed, seconds)
        elif seconds >= timeout:
            yield worker, Done(worker.number, "", f"time: {timeout:g} s", seconds)


def _start(work: Callable[[T], str]) -> _Worker[T]:
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(work, theirs), daemon=True)
    process.start()
    theirs.close()
    return _Worker(process, ours)


def _serve(work: Callable[[T], str], pipe: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that waits
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    if soft == resource.RLIM_INFINITY or soft > MOST_MEMORY:
        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, hard))
    while True:
        try:
            task = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            pipe.send((work(task), ""))
        except MemoryError:
            pipe.send(("", "memory"))
        except Exception as error:
            pipe.send(("", f"{type(error).__name__}: {error}".partition("\n")[0][:300]))
