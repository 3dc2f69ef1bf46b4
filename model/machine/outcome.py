"""How a run ends, and what ends it early."""

from dataclasses import dataclass


class Violation(Exception):
    """What a program must not do; the machine makes a `Fault` of it. The reason is one line."""


@dataclass(frozen=True, slots=True)
class Returned:
    """The program ended: r0 (64 bits, unsigned) after `steps` instructions."""

    value: int
    steps: int


@dataclass(frozen=True, slots=True)
class Fault:
    """The instruction at `slot` of `program` (`text`, as the kernel prints it) must not be run; `reason` says why."""

    program: str
    slot: int
    text: str
    reason: str
    steps: int

    def __str__(self) -> str:
        return f"fault at {self.slot}: {self.text}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Limit:
    """`steps` instructions were run and the program has not ended; `slot` is the next one."""

    program: str
    slot: int
    text: str
    steps: int

    def __str__(self) -> str:
        return f"step limit: no end after {self.steps:,} instructions, next is {self.slot}: {self.text}"


Outcome = Returned | Fault | Limit
