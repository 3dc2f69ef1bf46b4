"""A kernel function's own indirect branches, and where their targets came from: an argument, or memory.

All paths of the code as it stands are followed, jump labels both ways and `.cold` parts with their function. A name for
a value is no proof: stack slots are taken to be what was last stored there by the function itself.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from model.errors import ModelError
from model.native.code import (
    ARGUMENTS,
    CALLER_SAVED,
    NAMES,
    RAX,
    RBP,
    RCX,
    RDI,
    RDX,
    RSI,
    RSP,
    Imm,
    Kind,
    Mem,
    Reg,
    Step,
)
from model.native.flow import LIMIT, NO_RETURN, STEPS, Code
from model.native.thunks import thunk, thunk_register

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


@dataclass(frozen=True, slots=True)
class Indirect:
    """`via` is the thunk's name or the instruction; `call` says that the function goes on behind it."""

    address: int
    via: str
    call: bool
    origin: Origin


@dataclass(frozen=True, slots=True)
class Body:
    """What was found in a function, by address; `problems` are what was not read."""

    indirect: tuple[Indirect, ...]
    problems: tuple[str, ...]


@dataclass(slots=True)
class _State:
    regs: list[Origin]
    slots: dict[int, Origin] = field(default_factory=dict)

    def copy(self) -> "_State":
        return _State(list(self.regs), dict(self.slots))

    def merge(self, other: "_State") -> bool:
        """Keep what both say; whether anything was lost."""
        regs = [one if one == two else None for one, two in zip(self.regs, other.regs, strict=True)]
        slots = {at: one for at, one in self.slots.items() if at in other.slots and other.slots[at] == one}
        lost = regs != self.regs or slots != self.slots
        self.regs, self.slots = regs, slots
        return lost


def body(
    code: Code,
    decode: Callable[[bytes, int], Step | None],
    entry: int,
    labels: Mapping[int, int] | None = None,
    steps: int = STEPS,
) -> Body:
    """`labels` are further targets of jump labels, by address. Bounded: `steps` instructions."""
    return _Walk(code, decode, entry, labels or {}).run(steps)


class _Walk:
    def __init__(
        self, code: Code, decode: Callable[[bytes, int], Step | None], entry: int, labels: Mapping[int, int]
    ) -> None:
        self.code, self.decode, self.entry, self.labels = code, decode, entry, labels
        self.names = code.names(entry)
        self.states: dict[int, _State] = {}
        self.work: list[int] = []
        self.parts: dict[int, tuple[int, bytes]] = {}
        self.found: dict[int, Indirect] = {}
        self.problems: dict[str, None] = {}

    def run(self, most: int) -> Body:
        start = _State([None] * len(NAMES))
        for index, number in enumerate(ARGUMENTS):
            start.regs[number] = Argument(index)
        start.regs[RSP] = Stack(0)
        self._reach(self.entry, start)
        while self.work and most > 0:
            address, after_call = self.work.pop(), False
            state = self.states[address].copy()
            while most > 0:
                most -= 1
                step = self._step(address)
                if step is None:
                    if not after_call:  # behind the call of a function that does not return, code may end
                        self.problems[f"no instruction at {address:#x}"] = None
                    break
                if step.address in self.labels:
                    self._reach(self.labels[step.address], state)
                if not self._follow(step, state):
                    break
                address, after_call = step.next, step.kind is Kind.CALL
        if self.work or most <= 0:
            self.problems["too many paths"] = None
        return Body(tuple(self.found[address] for address in sorted(self.found)), tuple(self.problems))

    def _reach(self, address: int, state: _State) -> None:
        known = self.states.get(address)
        if known is None:
            self.states[address] = state.copy()
        elif not known.merge(state):
            return
        if address not in self.work:
            self.work.append(address)

    def _inside(self, address: int) -> bool:
        around = self.code.around(address)
        return around is not None and (
            around[0] == self.entry or any(around[1].startswith(f"{own}.cold") for own in self.names)
        )

    def _step(self, address: int) -> Step | None:
        around = self.code.around(address)
        if around is None or not self._inside(address):
            return None
        start = around[0]
        if start not in self.parts:
            try:
                self.parts[start] = (start, self.code.read(start, self.code.end(start, LIMIT) - start))
            except ModelError as error:
                self.problems[str(error)] = None
                self.parts[start] = (start, b"")
        text = self.parts[start][1][address - start : address - start + 15]
        return self.decode(text, address) if text else None

    def _follow(self, step: Step, state: _State) -> bool:
        """Whether the way goes on behind the instruction."""
        match step.kind:
            case Kind.PLAIN:
                _effect(step, state)
            case Kind.CALL:
                return self._call(step, state)
            case Kind.BRANCH | Kind.JUMP:
                self._branch(step, state)
                return step.kind is Kind.BRANCH
            case Kind.RETURN | Kind.STOP:
                return False
        return True

    def _call(self, step: Step, state: _State) -> bool:
        names = () if step.target is None else self.code.names(step.target)
        self._note(step, names, state, call=True)
        if any(name in NO_RETURN for name in names):
            return False
        if not any(name.startswith("__fentry__") for name in names):
            for number in CALLER_SAVED:
                state.regs[number] = None
        return True

    def _branch(self, step: Step, state: _State) -> None:
        if step.target is not None and self._inside(step.target):
            self._reach(step.target, state)
        else:
            self._note(step, () if step.target is None else self.code.names(step.target), state, call=False)

    def _note(self, step: Step, names: tuple[str, ...], state: _State, *, call: bool) -> None:
        if step.target is None:
            name, origin = step.text, _value(step.operands[0], state) if step.operands else None
        else:
            name = thunk(names)
            number = thunk_register(name)
            origin = None if number is None else state.regs[number]
        if name:
            known = self.found.get(step.address)
            same = known is None or known.origin == origin
            self.found[step.address] = Indirect(step.address, name, call, origin if same else None)


def _slot(memory: Mem, state: _State) -> int | None:
    base = state.regs[memory.base] if memory.base is not None and memory.index is None and memory.plain else None
    return base.at + memory.disp if isinstance(base, Stack) else None


def _value(operand: object, state: _State) -> Origin:
    """Of an operand that is read in 64 bits."""
    if isinstance(operand, Reg):
        return state.regs[operand.number] if operand.bits == 64 else None
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


def _effect(step: Step, state: _State) -> None:
    target = step.operands[0] if step.operands else None
    if step.name == "push":
        _moved(state, -8)
        if isinstance(state.regs[RSP], Stack):
            _store(state, state.regs[RSP], _value(target, state))
    elif step.name == "pop":
        value = _value(Mem(RSP, None, 0, 64, True), state)
        _moved(state, 8)
        _set(state, target, value)
    elif step.name == "leave":
        state.regs[RSP] = state.regs[RBP]
        state.regs[RBP] = _value(Mem(RSP, None, 0, 64, True), state)
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


def _moved(state: _State, distance: int) -> None:
    top = state.regs[RSP]
    state.regs[RSP] = Stack(top.at + distance) if isinstance(top, Stack) else None


def _store(state: _State, place: Origin, value: Origin) -> None:
    if isinstance(place, Stack):
        state.slots[place.at] = value


def _set(state: _State, target: object, value: Origin) -> None:
    if isinstance(target, Reg):
        state.regs[target.number] = value if target.bits == 64 else None


def _move(step: Step, state: _State) -> None:
    target, source = step.operands
    if isinstance(target, Mem):
        slot = _slot(target, state)
        if slot is not None:
            for at in [at for at in state.slots if slot - 8 < at < slot + max(target.bits // 8, 1)]:
                del state.slots[at]
            _store(state, Stack(slot) if target.bits == 64 else None, _value(source, state))
    else:
        _set(state, target, _value(source, state))


def _unknown(step: Step, state: _State) -> None:
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
