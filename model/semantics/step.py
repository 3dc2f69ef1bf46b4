"""One instruction: a state to its guarded successors (RFC 9669, sections 4 and 5)."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar

from model.bits import B, Bits, W
from model.errors import Unsupported
from model.isa.insn import Insn
from model.isa.opcodes import Call as CallKind
from model.memory import Memory
from model.semantics import frames
from model.semantics import load_store as memory_rows
from model.semantics.bind import bind
from model.semantics.bind_memory import CONTEXT
from model.semantics.endian import ByteOrder
from model.semantics.hole import name_of
from model.semantics.load_store import Packet
from model.semantics.operation import (
    Address,
    Branch,
    Exit,
    Goto,
    Invoke,
    MayGoto,
    PacketLoad,
    PerCpu,
    Straight,
)

ENDED = -1
"""The slot of a state whose program has ended: r0 is its result."""


@dataclass(frozen=True, slots=True)
class Caller(Generic[W]):
    """A function that waits for the one it called: its registers, and the slot behind the call."""

    registers: tuple[W, ...]
    slot: int


@dataclass(frozen=True, slots=True)
class State(Generic[W, B]):
    """`registers` holds r0 to r10 (and those of rewrites), 64 bits each, None where a register holds nothing;
    `slot` is the next instruction; `guard` the condition of this path; `callers` the outermost first.
    """

    registers: tuple[W, ...]
    memory: Memory[W]
    slot: int
    guard: B
    callers: tuple[Caller[W], ...] = ()

    def put(self, register: int, word: W) -> "State[W, B]":
        registers = (*self.registers[:register], word, *self.registers[register + 1 :])
        return replace(self, registers=registers, slot=self.slot + 1)


SW = TypeVar("SW")
SB = TypeVar("SB")


class Surroundings(Protocol[SW, SB]):
    """What instructions ask of what is around the program. Words are 64 bits."""

    @property
    def order(self) -> ByteOrder:
        """The host's byte order."""
        ...

    def frame(self, depth: int) -> SW:
        """The address behind the stack frame of the function at `depth` (the entry has 0): its r10."""
        ...

    def packet(self) -> Packet[SW]:
        """The packet of legacy loads."""
        ...

    def address(self, load: Address) -> SW:
        """The address that a 64-bit load stands for."""
        ...

    def this_cpu(self, pointer: SW) -> SW:
        """A per-CPU pointer moved to this CPU's area: an unknown function."""
        ...

    def may_goto(self, state: State[SW, SB]) -> SB:
        """Whether the budget of may_goto is used up, so that it jumps."""
        ...


Call = Callable[[State[W, B], Insn, W], State[W, B]]


def step(
    b: Bits[W, B],
    state: State[W, B],
    insn: Insn,
    imm: W,
    call: "Call[W, B]",
    *,
    high: int = 0,
    around: Surroundings[W, B] | None = None,
) -> "Iterator[State[W, B]]":
    """The successors of `state` under `insn`, one or two, with disjoint guards.

    `b` has width 64. `imm` is the immediate as a word of 32 bits (it may be unknown), `high` the second
    slot's immediate of a wide form; `call` gives the meaning of a call of a helper or kernel function with that
    immediate. Raises `Unsupported` for a form that has no meaning, or none without `around`, and
    `frames.Unreadable` where a register is read that holds nothing.
    """
    operation = bind(b, insn, imm, high=high, order=around.order if around is not None else "little")
    for register in getattr(operation, "reads", ()):
        if state.registers[register] is None:
            raise frames.Unreadable(register)
    match operation:
        case Straight(effect, dst, src, offset, _, slots):
            registers = list(state.registers)
            memory = effect(registers, state.memory, dst, src, offset)
            yield replace(state, registers=tuple(registers), memory=memory, slot=state.slot + slots)
        case Goto(offset):
            yield replace(state, slot=state.slot + 1 + offset)
        case Branch(taken, dst, src, jump):
            yield from _fork(b, state, taken(state.registers, dst, src), jump)
        case Invoke(CallKind.HELPER | CallKind.KFUNC):
            yield call(state, insn, imm)
        case Exit():
            yield _leave(state)
        case _ if around is None:
            raise Unsupported(f"no meaning for {name_of(insn)} without what is around the program")
        case MayGoto(offset):
            yield from _fork(b, state, around.may_goto(state), offset)
        case Invoke(CallKind.SUBPROGRAM, distance):
            yield _enter(state, distance, around)
        case PacketLoad():
            yield from _packet_load(b, state, operation, around)
        case Address(dst):
            yield replace(state.put(dst, around.address(operation)), slot=state.slot + 2)
        case PerCpu(dst, src):
            yield state.put(dst, around.this_cpu(state.registers[src]))
        case _:
            raise Unsupported(f"no meaning for {name_of(insn)} in a step")


def _fork(b: Bits[W, B], state: State[W, B], taken: B, offset: int) -> "Iterator[State[W, B]]":
    """Taken, then not taken."""
    yield replace(state, slot=state.slot + 1 + offset, guard=b.conj(state.guard, taken))
    yield replace(state, slot=state.slot + 1, guard=b.conj(state.guard, b.negate(taken)))


def _enter(state: State[W, B], distance: int, around: Surroundings[W, B]) -> State[W, B]:
    depth = len(state.callers) + 1
    if depth >= frames.MAX_FRAMES:
        raise Unsupported(f"calls are more than {frames.MAX_FRAMES} frames deep")
    registers: Any = tuple(frames.enter(state.registers, around.frame(depth)))
    callers = (*state.callers, Caller(state.registers, state.slot + 1))
    return replace(state, registers=registers, slot=state.slot + 1 + distance, callers=callers)


def _leave(state: State[W, B]) -> State[W, B]:
    if not state.callers:
        return replace(state, slot=ENDED)
    caller = state.callers[-1]
    registers: Any = tuple(frames.leave(caller.registers, state.registers))
    return replace(state, registers=registers, slot=caller.slot, callers=state.callers[:-1])


def _packet_load(
    b: Bits[W, B], state: State[W, B], load: PacketLoad[W], around: Surroundings[W, B]
) -> "Iterator[State[W, B]]":
    """Inside of the packet: the field in r0. Outside: the function ends with r0 = 0."""
    packet = around.packet()
    offset = memory_rows.packet_offset(b, packet, load.offset(state.registers))
    inside = memory_rows.packet_inside(b, packet, offset, load.size)
    word = state.memory.load(b.add(packet.data, offset), load.size)
    scratched: Any = frames.scratch(state.registers)
    after = replace(state, registers=tuple(scratched))
    read = after.put(0, memory_rows.packet_word(b, word, load.size, around.order))
    yield replace(read, guard=b.conj(state.guard, inside))
    yield replace(_leave(after.put(0, b.const(0))), guard=b.conj(state.guard, b.negate(inside)))


__all__ = ["CONTEXT", "ENDED", "Call", "Caller", "State", "Surroundings", "step"]
