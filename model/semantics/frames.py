"""Calls inside of a program (RFC 9669, section 4.3, "Program-local functions"; check_func_call, verifier.c, 7.3).

A register that holds nothing is None; an instruction must not read it.
"""

from collections.abc import Sequence
from typing import TypeVar

W = TypeVar("W")

REGISTERS = 13
"""r0 to r10, and the two that only rewrites use (`model.isa.opcodes.HIGHEST_HIDDEN`)."""
FRAME_SIZE = 512
"""Bytes of stack below r10 (MAX_BPF_STACK, include/linux/filter.h)."""
MAX_FRAMES = 8
"""Functions active at a time, the entry among them (MAX_CALL_FRAMES, include/linux/bpf_verifier.h)."""
ARGUMENTS = range(1, 6)
SAVED = range(6, 10)
FRAME_POINTER = 10


class Unreadable(Exception):
    """An instruction reads a register that holds nothing: `register` is its number."""

    def __init__(self, register: int) -> None:
        super().__init__(register)
        self.register = register

    def __str__(self) -> str:
        return f"r{self.register} is read but holds nothing"


def enter(caller: Sequence[W | None], frame: W) -> list[W | None]:
    """A callee's registers: r1 to r5 as handed over, r10 the end of a stack frame of its own, the rest empty.

    r0 and r6 to r9 of the caller are not readable in the callee.
    """
    registers: list[W | None] = [None] * len(caller)
    for register in ARGUMENTS:
        registers[register] = caller[register]
    registers[FRAME_POINTER] = frame
    return registers


def leave(caller: Sequence[W | None], callee: Sequence[W | None]) -> list[W | None]:
    """The caller's registers after EXIT: r0 from the callee, r6 to r10 as they were, r1 to r5 unreadable."""
    registers = scratch(caller)
    registers[0] = callee[0]
    return registers


def scratch(registers: Sequence[W | None]) -> list[W | None]:
    """The registers behind a call of anything: r0 to r5 hold nothing of before (r0 is for the result)."""
    return [None if register <= ARGUMENTS[-1] else word for register, word in enumerate(registers)]
