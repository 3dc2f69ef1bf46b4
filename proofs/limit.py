"""A limit on the time of a whole run: what is not decided by then is left open, and says so."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from types import FrameType


@dataclass(slots=True)
class Limit:
    """`seconds` from when it was made; None is no limit. `over` is also set by who interrupts a run."""

    seconds: float | None = None
    interrupted: bool = False
    _started: float = field(default_factory=perf_counter)

    @property
    def left(self) -> float:
        """Seconds, 0 when there are none left."""
        if self.interrupted:
            return 0.0
        return float("inf") if self.seconds is None else max(0.0, self._started + self.seconds - perf_counter())

    @property
    def over(self) -> bool:
        return self.left <= 0

    def reason(self) -> str:
        """Why something was left open."""
        return "interrupted" if self.interrupted else f"the run's time limit ({self.seconds or 0:g} s, --time-limit)"

    def note(self) -> str:
        return f" ({self.reason()})" if self.over else ""


NO_LIMIT = Limit()


@contextmanager
def interruptible(limit: Limit) -> Iterator[None]:
    """The first Ctrl-C only ends `limit`, so that what was found is reported; the second ends the program.

    An exception could be lost: it is raised wherever the interpreter is, and what a destructor raises is dropped.
    """

    def end(number: int, frame: FrameType | None) -> None:
        if limit.interrupted:
            raise KeyboardInterrupt
        limit.interrupted = True

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
