"""A program made ready to run on ints: each slot becomes one function when it is first reached.

The functions are built from the operations that `model.semantics.bind` makes over `IntBits`: fields are
decoded once, the meaning stays where it is written.
"""

from bisect import bisect_right
from collections.abc import Callable, MutableSequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from model.bits import IntBits
from model.errors import Unsupported
from model.isa.codec import why_invalid
from model.isa.insn import Insn
from model.isa.opcodes import WIDE
from model.isa.text import format_insn
from model.machine.outcome import Violation
from model.machine.regions import Regions
from model.program import Form, Program
from model.semantics.bind import bind
from model.semantics.frames import Unreadable
from model.semantics.operation import Branch, Goto, Operation, Straight

Registers = MutableSequence[Any]  # ints, None where a register holds nothing
Slot = Callable[[Registers], int]
"""Runs one instruction and gives the next slot; `CONTROL` leaves it to the machine."""

CONTROL = -1
BITS = IntBits(64)
_U32 = (1 << 32) - 1


@dataclass(slots=True, eq=False)
class Code:
    """`slots` has one function a slot, and one more behind the last; `base` is the address of slot 0 as code."""

    program: Program
    memory: Regions
    base: int
    slots: list[Slot] = field(default_factory=list)
    controls: dict[int, Operation[int, bool]] = field(default_factory=dict)
    _starts: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        count = len(self.program.insns)
        self.slots = [partial(self._first, slot) for slot in range(count)] + [_off_the_end]
        self._starts = [subprogram.start for subprogram in self.program.subprograms]

    def text(self, slot: int) -> str:
        """The instruction as the kernel prints it, without the opcode in front."""
        insns = self.program.insns
        if not 0 <= slot < len(insns):
            return "(no instruction)"
        high = insns[slot + 1].imm if insns[slot].opcode == WIDE and slot + 1 < len(insns) else 0
        text = format_insn(insns[slot], high)
        return text.partition(") ")[2] or text

    def is_function(self, slot: int) -> bool:
        """Whether a function starts at `slot`; true for every slot where subprograms are not known."""
        return 0 <= slot < len(self.program.insns) and (not self._starts or slot in self._starts)

    def _first(self, slot: int, registers: Registers) -> int:
        """The first run of a slot: puts its function in place and runs it."""
        self.slots[slot] = self._ready(slot)
        return self.slots[slot](registers)

    def _ready(self, slot: int) -> Slot:
        insns, insn = self.program.insns, self.program.insns[slot]
        why = why_invalid(insns, slot, loaded=self.program.form is Form.XLATED)
        if insn.opcode == 0 and slot and insns[slot - 1].opcode == WIDE:
            why = "this is the second slot of a 64-bit load"
        if why is not None:
            return partial(_raise, Violation(f"no valid instruction: {why}"))
        high = insns[slot + 1].imm if insn.opcode == WIDE else 0
        try:
            operation = bind(BITS, insn, insn.imm & _U32, high=high, order=self.memory.order)
        except Unsupported as hole:
            return partial(_raise, hole)
        match operation:
            case Straight():
                return _straight(operation, slot + operation.slots, self.memory)
            case Goto(offset):
                return self._goto(slot, slot + 1 + offset)
            case Branch():
                return self._branch(operation, insn, slot)
        self.controls[slot] = operation
        return lambda registers: CONTROL

    def _inside(self, slot: int, target: int) -> bool:
        """Whether a jump from `slot` stays in its function."""
        same = bisect_right(self._starts, slot) == bisect_right(self._starts, target)
        return 0 <= target < len(self.program.insns) and same

    def goto(self, slot: int, target: int) -> int:
        """`target`, if a jump from `slot` may go there."""
        if not self._inside(slot, target):
            raise Violation(f"jump to {target}, outside of the function")
        return target

    def _goto(self, slot: int, target: int) -> Slot:
        if self._inside(slot, target):
            return lambda registers: target
        return lambda registers: self.goto(slot, target)

    def _branch(self, branch: Branch[int, bool], insn: Insn, slot: int) -> Slot:
        taken, following, target = branch.taken, slot + 1, slot + 1 + branch.offset
        if not self._inside(slot, target):
            return _checked(lambda r: self.goto(slot, target) if taken(r) else following, branch.reads)
        return _checked(lambda r: target if taken(r) else following, branch.reads)


def _straight(operation: Straight[int], following: int, memory: Regions) -> Slot:
    effect = operation.effect

    def run(registers: Registers) -> int:
        effect(registers, memory)
        return following

    return _checked(run, operation.reads)


def _checked(run: Slot, reads: tuple[int, ...]) -> Slot:
    """`run`, with a look at the registers that it reads first."""
    match reads:
        case ():
            return run
        case (only,):

            def one(registers: Registers) -> int:
                if registers[only] is None:
                    raise Unreadable(only)
                return run(registers)

            return one
        case _:

            def several(registers: Registers) -> int:
                for register in reads:
                    if registers[register] is None:
                        raise Unreadable(register)
                return run(registers)

            return several


def _raise(error: Exception, registers: Registers) -> int:
    raise error


def _off_the_end(registers: Registers) -> int:
    raise Violation("the program runs past its last instruction")
