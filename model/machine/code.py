"""A program made ready to run on ints: each slot becomes one function.

The functions are built from the operations that `model.semantics.bind` makes over `IntBits`: what a form
means is looked up once for all programs, an instruction adds its operands; the meaning stays where it is
written. A slot keeps its function from its second run on, so that code which runs once leaves nothing behind.
"""

from bisect import bisect_right
from collections.abc import Callable, MutableSequence
from dataclasses import dataclass, field
from typing import Any

from model.bits import IntBits
from model.isa.codec import form_of, why_invalid
from model.isa.forms import Form as InsnForm
from model.isa.insn import Insn
from model.isa.opcodes import WIDE
from model.isa.text import format_insn
from model.machine.outcome import Violation
from model.machine.regions import Regions
from model.program import Form, Program
from model.semantics.bind import maker
from model.semantics.endian import ByteOrder
from model.semantics.frames import Unreadable
from model.semantics.operation import Branch, Effect, Exit, Goto, Maker, Operation, Straight, Taken

Registers = MutableSequence[Any]  # ints, None where a register holds nothing
Slot = Callable[[Registers], int]
"""Runs one instruction and gives the next slot; `CONTROL` leaves it to the machine, `UNBOUND` to `Code.first`."""

Reads = tuple[int, ...]

CONTROL, UNBOUND = -1, -2
BITS = IntBits(64)
_U32 = (1 << 32) - 1
_makers: dict[ByteOrder, dict[str, Maker[int, bool]]] = {"little": {}, "big": {}}


def _maker(form: InsnForm, order: ByteOrder) -> Maker[int, bool]:
    """The form's, made from the first of its instructions. Raises `Unsupported` where the form has no meaning."""
    known = _makers[order].get(form.name)
    if known is None:
        known = _makers[order][form.name] = maker(BITS, first_of(form), order)
    return known


def first_of(form: InsnForm) -> Insn:
    """The form's first instruction, in the order of its fields' values, 0 before all others."""
    fields = (form.dst, form.src, form.off, form.imm)
    return Insn(form.opcode, *(0 if 0 in values else min(values) for values in fields))


@dataclass(slots=True, eq=False)
class Code:
    """`slots` has one function a slot, and one more behind the last; `base` is the address of slot 0 as code.

    `control` is what the slot does that gave `CONTROL` last.
    """

    program: Program
    memory: Regions
    base: int
    slots: list[Slot] = field(default_factory=list)
    control: Operation[int, bool] = field(default_factory=Exit)
    _starts: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.slots.extend([_never_run] * len(self.program.insns))
        self.slots.append(_off_the_end)
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

    def first(self, slot: int, registers: Registers) -> int:
        """Runs a slot that has no function yet; the second time it keeps the one that is made."""
        run = self._ready(slot)
        self.slots[slot] = run if self.slots[slot] is _run_once else _run_once
        return run(registers)

    def _operation(self, slot: int) -> Operation[int, bool]:
        """Raises `Violation` where the slot holds no valid instruction."""
        insns, insn, high = self.program.insns, self.program.insns[slot], None
        if insn.opcode == WIDE:
            second = insns[slot + 1] if slot + 1 < len(insns) else insn  # which is no second slot
            if second.opcode or second.dst or second.src or second.off:
                raise self._invalid(slot)
            high = second.imm
        form = form_of(insn, loaded=self.program.form is Form.XLATED, high=high)
        if form is None:
            raise self._invalid(slot)
        return _maker(form, self.memory.order)(insn, insn.imm & _U32, high or 0)

    def _invalid(self, slot: int) -> Violation:
        insns = self.program.insns
        if insns[slot].opcode == 0 and slot and insns[slot - 1].opcode == WIDE:
            return Violation("no valid instruction: this is the second slot of a 64-bit load")
        why = why_invalid(insns, slot, loaded=self.program.form is Form.XLATED)
        return Violation(f"no valid instruction: {why}")

    def _ready(self, slot: int) -> Slot:
        operation = self._operation(slot)
        match operation:
            case Straight():
                return _straight(operation, slot + operation.slots, self.memory)
            case Branch():
                return self._branch(operation, slot)
            case Goto(offset):
                return self._goto(slot, slot + 1 + offset)
        return self._leave(operation)

    def _leave(self, operation: Operation[int, bool]) -> Slot:
        def run(registers: Registers) -> int:
            self.control = operation
            return CONTROL

        return run

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
        taken, dst, src, jump, reads = branch
        target = slot + 1 + jump
        if not self._inside(slot, target):
            return self._fork_outside(branch, slot, target)

        def run(
            r: Registers,
            reads: Reads = reads,
            taken: "Taken[int, bool]" = taken,
            dst: int = dst,
            src: int = src,
            following: int = slot + 1,
            target: int = target,
        ) -> int:
            for register in reads:
                if r[register] is None:
                    raise Unreadable(register)
            return target if taken(r, dst, src) else following

        return run

    def _fork_outside(self, branch: Branch[int, bool], slot: int, target: int) -> Slot:
        def run(r: Registers) -> int:
            for register in branch.reads:
                if r[register] is None:
                    raise Unreadable(register)
            return self.goto(slot, target) if branch.taken(r, branch.dst, branch.src) else slot + 1

        return run


def _straight(operation: Straight[int], following: int, memory: Regions) -> Slot:
    """What is bound is in default values: fewer objects a slot, and quicker to reach, than a closure's cells."""
    effect, dst, src, offset, reads, _ = operation
    if len(reads) == 1:

        def one(
            r: Registers,
            only: int = reads[0],
            effect: "Effect[int]" = effect,
            m: Regions = memory,
            dst: int = dst,
            src: Any = src,
            offset: Any = offset,
            after: int = following,
        ) -> int:
            if r[only] is None:
                raise Unreadable(only)
            effect(r, m, dst, src, offset)
            return after

        return one

    def several(
        r: Registers,
        reads: Reads = reads,
        effect: "Effect[int]" = effect,
        m: Regions = memory,
        dst: int = dst,
        src: Any = src,
        offset: Any = offset,
        after: int = following,
    ) -> int:
        for register in reads:
            if r[register] is None:
                raise Unreadable(register)
        effect(r, m, dst, src, offset)
        return after

    return several


def _never_run(registers: Registers) -> int:
    return UNBOUND


def _run_once(registers: Registers) -> int:
    return UNBOUND


def _off_the_end(registers: Registers) -> int:
    raise Violation("the program runs past its last instruction")
