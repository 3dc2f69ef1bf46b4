"""The guest's only program, compiled here, and what is said to it: one request at a time, each with a limit of time."""

import math
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

from model.errors import Unsupported
from model.loaders.vm import wire
from model.loaders.vm.wire import LONGEST, Answer

SOURCE = Path(__file__).with_name("guest.c")
COMPILERS = ("cc", "gcc", "clang")
FLAGS = ("-std=gnu11", "-O1", "-static", "-Wall", "-Wextra", "-Werror")
COMPILE_LIMIT = 60  # seconds
CALL_LIMIT = 60.0
"""Seconds for one request."""
_CHUNK = 1 << 16


class Lost(Unsupported):
    """The guest says nothing more: it ended, or a limit of time is over."""


def compiled(flags: Sequence[str] = FLAGS) -> bytes:
    """The program's bytes, linked statically. Raises Unsupported, with the reason in one line."""
    compiler = next((name for name in COMPILERS if shutil.which(name)), None)
    if compiler is None:
        raise Unsupported(
            "vm: the guest's program needs a C compiler: none is installed (apt-get install gcc libc6-dev)"
        )
    with tempfile.TemporaryDirectory(prefix="bpf-devirt-") as place:
        target = Path(place) / "init"
        try:
            done = subprocess.run(
                [compiler, *flags, "-o", target, SOURCE],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=COMPILE_LIMIT,
                check=False,
            )
            if done.returncode == 0:
                return target.read_bytes()
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Unsupported(f"vm: {compiler} cannot be run: {error}") from None
    lines = [line for line in done.stderr.decode(errors="replace").splitlines() if "error" in line] or [
        "no reason told"
    ]
    raise Unsupported(f"vm: {compiler} does not compile the guest's program: {lines[0][:200]}")


class Guest:
    """The program at the other end of two pipes. `why` tells more of its end, where somebody knows.

    Every method raises Lost where no answer comes in time, or anything but an answer.
    """

    def __init__(
        self, into: IO[bytes], out: IO[bytes], why: Callable[[], str] = lambda: "", limit: float = math.inf
    ) -> None:
        """`limit` is the seconds for everything from now on."""
        self._into, self._out, self._why = into.fileno(), out.fileno(), why
        self._limit, self._end = limit, time.monotonic() + limit
        os.set_blocking(self._into, False)
        self._number = 0
        self._held = bytearray()

    def wait(self, limit: float) -> None:
        """Until the program is there, for at most `limit` seconds."""
        until, late = self._until(limit, "does not start")
        self._answer(0, until, late)

    def ask(self, request: Callable[[int], bytes], limit: float = CALL_LIMIT) -> Answer:
        """The answer to what `request` makes of a number."""
        self._number += 1
        until, late = self._until(limit, "does not answer")
        self._send(request(self._number), until, late)
        return self._answer(self._number, until, late)

    def store(self, path: str, data: bytes) -> int:
        """Bytes written to a file that is there, or a negative errno."""
        return self.ask(lambda number: wire.store(number, path, data)).result

    def lines(self, path: str, texts: Sequence[str] = ()) -> list[str]:
        """The lines of a file in which one of `texts` stands (all, without texts); none if it cannot be read."""
        found = self.ask(lambda number: wire.look(number, path, texts))
        return b"".join(found.data).decode(errors="replace").splitlines() if found.result == 0 else []

    def _until(self, limit: float, what: str) -> tuple[float, str]:
        """The nearer of two ends, and what is said when it is over."""
        until = time.monotonic() + limit
        if until < self._end:
            return until, f"{what} within {limit:g} s"
        return self._end, f"is not done within {self._limit:g} s"

    def _send(self, line: bytes, until: float, late: str) -> None:
        rest = memoryview(line)
        while rest:
            if not select.select([], [self._into], [], max(0.0, until - time.monotonic()))[1]:
                raise self._lost(late)
            try:
                rest = rest[os.write(self._into, rest[:4096]) :]
            except BlockingIOError:
                continue
            except OSError:
                raise self._lost("ended") from None

    def _answer(self, number: int, until: float, late: str) -> Answer:
        while True:
            found = wire.answer(self._line(until, late))
            if found is not None and found.number == number:
                return found

    def _line(self, until: float, late: str) -> bytes:
        """One line, without its end."""
        looked = 0
        while (end := self._held.find(b"\n", looked)) < 0:
            looked = len(self._held)
            if looked > LONGEST:
                raise self._lost("says more than it should")
            if not select.select([self._out], [], [], max(0.0, until - time.monotonic()))[0]:
                raise self._lost(late)
            found = os.read(self._out, _CHUNK)
            if not found:
                raise self._lost("ended")
            self._held += found
        line = bytes(self._held[:end])
        del self._held[: end + 1]
        return line

    def _lost(self, what: str) -> Lost:
        told = self._why()
        return Lost(f"vm: the guest {what}{': ' if told else ''}{told}")
