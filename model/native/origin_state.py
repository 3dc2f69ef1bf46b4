"""Where a register's value came from: an argument, memory, the stack; and what one x86-64 instruction makes of it.

Only whole values of 64 bits are told. An instruction without a rule leaves what it may write untold (Intel SDM, volume
2). Stack slots are taken to be what the function itself last stored there: a name for a value is no proof.
"""

from dataclasses import dataclass, field

from model.native.code import RAX, RBP, RCX, RDI, RDX, RSI, RSP, Imm, Mem, Reg, Step

DEEP = 4
"""Loads in a row that are told apart."""
READS = frozenset(("cmp", "test", "bt", "push", "nop", "endbr64", "lfence", "mfence", "sfence", "pause", "int3"))
IMPLICIT = (RAX, RCX, RDX, RSI, RDI)


@dataclass(frozen=True, slots=True)
class Argument:
    """`index` from 0."""

    index: int


@dataclass(frozen=True, slots=True)
class Loaded:
    base: "Origin"
    disp: int


@dataclass(frozen=True, slots=True)
class Stack:
    """An address on the stack, by its distance from the stack pointer at entry."""

    at: int


Origin = Argument | Loaded | Stack | None


@dataclass(slots=True)
class OriginState:
    regs: list[Origin]
    slots: dict[int, Origin] = field(default_factory=dict)

    def copy(self) -> "OriginState":
        return OriginState(list(self.regs), dict(self.slots))

    def merge(self, other: "OriginState") -> bool:
        """Keep what both say; whether anything was lost."""
        regs = [one if one == two else None for one, two in zip(self.regs, other.regs, strict=True)]
        slots = {at: one for at, one in self.slots.items() if at in other.slots and other.slots[at] == one}
        lost = regs != self.regs or slots != self.slots
        self.regs, self.slots = regs, slots
        return lost


def _slot(memory: Mem, state: OriginState) -> int | None:
    base = state.regs[memory.base] if memory.base is not None and memory.index is None and memory.plain else None
    return base.at + memory.disp if isinstance(base, Stack) else None


def value_of(operand: object, state: OriginState) -> Origin:
    """Of an operand that is read in 64 bits."""
    if isinstance(operand, Reg):
        return state.regs[operand.number]
    if not isinstance(operand, Mem) or operand.bits != 64:
        return None
    slot = _slot(operand, state)
    if slot is not None:
        return state.slots.get(slot)
    if operand.base is None or operand.index is not None or not operand.plain:
        return None
    base = state.regs[operand.base]
    return None if base is None or _depth(base) >= DEEP else Loaded(base, operand.disp)


def _depth(origin: Origin) -> int:
    return 1 + _depth(origin.base) if isinstance(origin, Loaded) else 0


def effect(step: Step, state: OriginState) -> None:
    target = step.operands[0] if step.operands else None
    if step.name == "push":
        _moved(state, -8)
        if isinstance(state.regs[RSP], Stack):
            _store(state, state.regs[RSP], value_of(target, state))
    elif step.name == "pop":
        value = value_of(Mem(RSP, None, 0, 64, True), state)
        _moved(state, 8)
        _set(state, target, value)
    elif step.name == "leave":
        state.regs[RSP] = state.regs[RBP]
        state.regs[RBP] = value_of(Mem(RSP, None, 0, 64, True), state)
        _moved(state, 8)
    elif step.name == "mov":
        _move(step, state)
    elif step.name in ("add", "sub") and target == Reg(RSP, 64) and isinstance(step.operands[1], Imm):
        distance = step.operands[1].value
        distance -= distance >> 63 << 64
        _moved(state, distance if step.name == "add" else -distance)
    elif step.name == "lea" and isinstance(step.operands[1], Mem):
        slot = _slot(step.operands[1], state)
        _set(state, target, None if slot is None else Stack(slot))
    elif step.name not in READS and not step.name.startswith("prefetch"):
        _unknown(step, state)


def _moved(state: OriginState, distance: int) -> None:
    top = state.regs[RSP]
    state.regs[RSP] = Stack(top.at + distance) if isinstance(top, Stack) else None


def _store(state: OriginState, place: Origin, value: Origin) -> None:
    if isinstance(place, Stack):
        state.slots[place.at] = value


def _set(state: OriginState, target: object, value: Origin) -> None:
    if isinstance(target, Reg):
        state.regs[target.number] = value if target.bits == 64 else None


def _move(step: Step, state: OriginState) -> None:
    target, source = step.operands
    if isinstance(target, Mem):
        slot = _slot(target, state)
        if slot is not None:
            for at in [at for at in state.slots if slot - 8 < at < slot + max(target.bits // 8, 1)]:
                del state.slots[at]
            _store(state, Stack(slot) if target.bits == 64 else None, value_of(source, state))
    else:
        _set(state, target, value_of(source, state))


def _unknown(step: Step, state: OriginState) -> None:
    """An instruction without a rule: what it may write is not known."""
    for operand in step.operands:
        if isinstance(operand, Reg):
            state.regs[operand.number] = None
        elif isinstance(operand, Mem) and (slot := _slot(operand, state)) is not None:
            state.slots.pop(slot, None)
    for number in (
        IMPLICIT if len(step.operands) < 2 or step.name.startswith(("rep", "movs", "stos", "cmpxchg")) else ()
    ):
        state.regs[number] = None
