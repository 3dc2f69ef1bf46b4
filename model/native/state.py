"""Registers and stack slots of a function on one of its paths, and what reads and writes of operands do to them."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from model.native.code import RBP, REGISTERS, RSP, Imm, Mem, Operand, Reg, Step
from model.native.values import (
    ANY,
    FULL,
    MASK,
    SMALL,
    UNKNOWN,
    ZERO,
    Atom,
    Upper,
    Value,
    constant,
    join,
    low32,
    of,
    partly,
    single,
)

Report = Callable[[int, Step, str, bool], None]
"""Called with a narrow parameter, the instruction, how its upper bits are used, and whether that is sure."""


@dataclass(slots=True)
class State:
    """`slots` by distance from the stack pointer at entry: width in bits and value. `escaped`: a stack address is
    somewhere else than in rsp and rbp, so that other code and other stores may write any slot.
    """

    regs: list[Value] = field(default_factory=lambda: [UNKNOWN] * REGISTERS)
    slots: dict[int, tuple[int, Value]] = field(default_factory=dict)
    escaped: bool = False

    def copy(self) -> "State":
        return State(list(self.regs), dict(self.slots), self.escaped)

    def merge(self, other: "State") -> bool:
        """Join `other` into this one; whether anything changed."""
        regs = [join(one, two) for one, two in zip(self.regs, other.regs, strict=True)]
        slots = {
            at: (bits, join(value, other.slots[at][1]))
            for at, (bits, value) in self.slots.items()
            if at in other.slots and other.slots[at][0] == bits
        }
        escaped = self.escaped or other.escaped
        changed = regs != self.regs or slots != self.slots or escaped != self.escaped
        self.regs, self.slots, self.escaped = regs, slots, escaped
        return changed


def of_width(bits: int) -> Value:
    """An unknown value that was written in `bits` bits."""
    return of(FULL if bits == 64 else ZERO if bits == 32 else SMALL)


def place(state: State, memory: Mem, step: Step, report: Report) -> int | None:
    """The stack slot that an operand means, None for other memory; an address uses all bits of its registers."""
    for number in (memory.base, memory.index):
        for parameter in () if number is None else state.regs[number].taint:
            report(parameter, step, "used in an address", True)
    if memory.base is None or memory.index is not None or not memory.plain:
        return None
    base = single(state.regs[memory.base], Upper.STACK)
    return None if base is None else base + memory.disp


def read(state: State, operand: Operand, bits: int, step: Step, report: Report) -> Value:
    """An operand's value; one of less than 64 bits has a zero upper half and no unspecified bits."""
    match operand:
        case Reg(number, 64):
            return state.regs[number]
        case Reg(number, 32):
            return low32(state.regs[number])
        case Reg(_, width):
            return of_width(width)
        case Imm(value):
            return constant(value & (MASK >> (64 - bits)), step.address)
        case Mem():
            return _load(state, operand, step, report)
    return UNKNOWN


def _load(state: State, memory: Mem, step: Step, report: Report) -> Value:
    at = place(state, memory, step, report)
    if at is None:
        return of_width(memory.bits)
    bits, value = state.slots.get(at, (0, UNKNOWN))
    if bits < memory.bits:
        return of(ANY) if memory.bits == 64 else of_width(memory.bits)
    return value if memory.bits == 64 else low32(value) if memory.bits == 32 else of_width(memory.bits)


def write(state: State, operand: Operand, value: Value, step: Step, report: Report) -> None:
    match operand:
        case Reg(number, 64):
            if number not in (RSP, RBP) and any(atom.upper is Upper.STACK for atom in value.atoms):
                state.escaped = True
            state.regs[number] = value
        case Reg(number, 32):
            state.regs[number] = low32(value)
        case Reg(number, _):
            state.regs[number] = partly(state.regs[number])
        case Mem():
            _store(state, operand, value, step, report)


def _store(state: State, memory: Mem, value: Value, step: Step, report: Report) -> None:
    at = place(state, memory, step, report)
    on_stack = memory.base in (RSP, RBP) or (
        memory.base is not None and any(atom.upper is Upper.STACK for atom in state.regs[memory.base].atoms)
    )
    if at is None:
        if state.escaped or on_stack:
            state.slots.clear()
        for parameter in value.taint if memory.bits == 64 else ():
            report(parameter, step, "stored in 64 bits", True)
        return
    put(state, at, memory.bits, value)


def put(state: State, at: int, bits: int, value: Value) -> None:
    for other, (width, _) in list(state.slots.items()):
        if other < at + bits // 8 and at < other + width // 8:
            del state.slots[other]
    if any(atom.upper is Upper.STACK for atom in value.atoms):
        state.escaped = True
    state.slots[at] = (bits, value)


def moved(value: Value, distance: int) -> Value:
    """`value` plus a constant: a stack address stays one."""
    atoms = frozenset(
        replace(atom, number=atom.number + distance) if atom.upper is Upper.STACK else Atom(Upper.FULL)
        for atom in value.atoms
    )
    return Value(atoms, value.taint)
