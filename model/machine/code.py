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
from model.semantics.operation import Branch, Effect, Goto, Operation, Straight

Registers = MutableSequence[Any]  # ints, None where a register holds nothing
Slot = Callable[[Registers], int]
"""Runs one instruction and gives the next slot; `CONTROL` leaves it to the machine."""

IntEffect = Effect[int]
Reads = tuple[int, ...]
Taken = Callable[[Registers], bool]

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
    _operations: dict[tuple[Insn, Insn | None], Operation[int, bool] | Exception] = field(default_factory=dict)

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
        known = bisect_right(self._starts, slot)
        return 0 <= slot < len(self.program.insns) and (
            not self._starts or (known > 0 and self._starts[known - 1] == slot)
        )

    def _first(self, slot: int, registers: Registers) -> int:
        """The first run of a slot: puts its function in place and runs it."""
        self.slots[slot] = self._ready(slot)
        return self.slots[slot](registers)

    def _operation(self, slot: int) -> Operation[int, bool] | Exception:
        """What the slot does, or why nothing; equal instructions share it."""
        insns, insn = self.program.insns, self.program.insns[slot]
        if insn.opcode == 0 and slot and insns[slot - 1].opcode == WIDE:
            return Violation("no valid instruction: this is the second slot of a 64-bit load")
        following = insns[slot + 1] if insn.opcode == WIDE and slot + 1 < len(insns) else None
        key = (insn, following)
        operation = self._operations.get(key)
        if operation is None:
            operation = self._operations[key] = self._bind(slot, 0 if following is None else following.imm)
        return operation

    def _bind(self, slot: int, high: int) -> Operation[int, bool] | Exception:
        insn = self.program.insns[slot]
        why = why_invalid(self.program.insns, slot, loaded=self.program.form is Form.XLATED)
        if why is not None:
            return Violation(f"no valid instruction: {why}")
        try:
            return bind(BITS, insn, insn.imm & _U32, high=high, order=self.memory.order)
        except Unsupported as hole:
            return hole

    def _ready(self, slot: int) -> Slot:
        operation = self._operation(slot)
        match operation:
            case Exception():
                return partial(_raise, operation)
            case Straight():
                return _straight(operation, slot + operation.slots, self.memory)
            case Goto(offset):
                return self._goto(slot, slot + 1 + offset)
            case Branch():
                return self._branch(operation, slot)
        self.controls[slot] = operation
        return _leave

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

    def _branch(self, branch: Branch[int, bool], slot: int) -> Slot:
        following, target = slot + 1, slot + 1 + branch.offset
        if self._inside(slot, target):
            return _fork(branch, following, target)
        return self._fork_outside(branch.taken, branch.reads, slot, target)

    def _fork_outside(self, taken: Taken, reads: Reads, slot: int, target: int) -> Slot:
        def run(registers: Registers) -> int:
            _readable(registers, reads)
            return self.goto(slot, target) if taken(registers) else slot + 1

        return run


def _straight(operation: Straight[int], following: int, memory: Regions) -> Slot:
    """What is bound is in default values: fewer objects a slot, and quicker to reach, than a closure's cells."""
    effect, reads = operation.effect, operation.reads
    if len(reads) == 1:

        def one(
            r: Registers,
            only: int = reads[0],
            effect: Effect[int] = effect,
            m: Regions = memory,
            after: int = following,
        ) -> int:
            if r[only] is None:
                raise Unreadable(only)
            effect(r, m)
            return after

        return one

    def several(
        r: Registers,
        reads: Reads = reads,
        effect: IntEffect = effect,
        m: Regions = memory,
        after: int = following,
    ) -> int:
        for register in reads:
            if r[register] is None:
                raise Unreadable(register)
        effect(r, m)
        return after

    return several


def _fork(branch: Branch[int, bool], following: int, target: int) -> Slot:
    taken, reads = branch.taken, branch.reads

    def run(registers: Registers) -> int:
        for register in reads:
            if registers[register] is None:
                raise Unreadable(register)
        return target if taken(registers) else following

    return run


def _readable(registers: Registers, reads: Reads) -> None:
    for register in reads:
        if registers[register] is None:
            raise Unreadable(register)


def _leave(registers: Registers) -> int:
    return CONTROL


def _raise(error: Exception, registers: Registers) -> int:
    raise type(error)(*error.args)


def _off_the_end(registers: Registers) -> int:
    raise Violation("the program runs past its last instruction")
