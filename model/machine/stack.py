"""The active functions: each has its registers, its 512 bytes of stack, and its next instruction."""

from dataclasses import dataclass, field

from model.machine.code import Code, Registers
from model.machine.outcome import Violation
from model.machine.regions import STACK_BASE, STACK_STRIDE, Region, Regions
from model.semantics import frames

MAY_GOTO_BUDGET = 1 << 23
"""BPF_MAX_LOOPS (include/linux/bpf.h): how often may_goto does not jump, in one run of a function."""


@dataclass(slots=True, eq=False)
class Frame:
    """One active function. `stack` is its 512 bytes; `slot` its next instruction."""

    code: Code
    slot: int
    registers: Registers
    stack: Region
    may_goto: int = MAY_GOTO_BUDGET

    def readable(self, reads: tuple[int, ...]) -> None:
        """Raises `Unreadable` for the first of these registers that holds nothing."""
        for register in reads:
            if self.registers[register] is None:
                raise frames.Unreadable(register)


@dataclass(slots=True, eq=False)
class Stack:
    """The frames, the outermost first; their bytes are in `memory` while they are active."""

    memory: Regions
    frames: list[Frame] = field(default_factory=list)

    @property
    def depth(self) -> int:
        return len(self.frames)

    @property
    def top(self) -> Frame:
        return self.frames[-1]

    def push(self, code: Code, slot: int, registers: Registers) -> None:
        """A new function. Its stack frame holds nothing yet, its r10 is the end of it."""
        depth = len(self.frames)
        if depth >= frames.MAX_FRAMES:
            raise Violation(f"calls are more than {frames.MAX_FRAMES} frames deep")
        end = STACK_BASE + (depth + 1) * STACK_STRIDE
        size = frames.FRAME_SIZE
        stack = Region(f"stack frame {depth}", end - size, bytearray(size), known=bytearray(size))
        self.memory.add(stack)
        registers[frames.FRAME_POINTER] = end
        self.frames.append(Frame(code, slot, registers, stack))

    def pop(self) -> Frame:
        frame = self.frames.pop()
        self.memory.remove(frame.stack)
        return frame
