"""One instruction: a state to its guarded successors (RFC 9669, sections 4 and 5)."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Generic

from model.bits import B, Bits, W
from model.errors import Unsupported
from model.isa.insn import Insn
from model.memory import Memory
from model.semantics import alu, jump

JMP, ALU, JMP32, ALU64 = 5, 4, 6, 7
LDX, ST, STX = 1, 2, 3
SIZES = {0x00: 4, 0x08: 2, 0x10: 1, 0x18: 8}


@dataclass(frozen=True, slots=True)
class State(Generic[W, B]):
    """`registers` holds r0 to r10, 64 bits each; `slot` is the next instruction; `guard` the condition of this path."""

    registers: tuple[W, ...]
    memory: Memory[W]
    slot: int
    guard: B

    def put(self, register: int, word: W) -> "State[W, B]":
        registers = (*self.registers[:register], word, *self.registers[register + 1 :])
        return replace(self, registers=registers, slot=self.slot + 1)


Call = Callable[[State[W, B], Insn, W], State[W, B]]
_ALU = alu.table()
_JUMP = jump.table()


def step(b: Bits[W, B], state: State[W, B], insn: Insn, imm: W, call: "Call[W, B]") -> "Iterator[State[W, B]]":
    """The successors of `state` under `insn`, one or two, with disjoint guards.

    `b` has width 64. `imm` is the immediate as a word of 32 bits (it may be unknown); `call` gives the
    meaning of a call of a kernel function with that immediate. Raises `Unsupported` for rows that are not
    in patches of map lookups and direct calls.
    """
    kind = insn.opcode & 7
    if kind in (ALU, ALU64):
        yield _arithmetic(b, state, insn, imm)
    elif insn.opcode == 0x05:
        yield replace(state, slot=state.slot + 1 + insn.off)
    elif insn.opcode == 0x85 and insn.src == 0:
        yield call(state, insn, imm)
    elif kind in (JMP, JMP32) and insn.opcode & 0xF0 in _JUMP:
        yield from _conditional(b, state, insn, imm)
    elif kind in (LDX, ST, STX) and insn.opcode & 0xE0 == 0x60:
        yield _memory(b, state, insn, imm)
    else:
        raise Unsupported(f"no meaning for opcode 0x{insn.opcode:02x} in a patch")


def _operands(b: Bits[W, B], state: State[W, B], insn: Insn, imm: W, width: int) -> tuple[W, W]:
    dst = state.registers[insn.dst]
    src = state.registers[insn.src] if insn.opcode & 0x08 else b.at(32).sext(imm, 64)
    if width == 64:
        return dst, src
    return b.extract(dst, 31, 0), b.extract(src, 31, 0)


def _arithmetic(b: Bits[W, B], state: State[W, B], insn: Insn, imm: W) -> State[W, B]:
    """ALU and ALU64 (section 4.1); a 32-bit result is zero-extended."""
    width = 64 if insn.opcode & 7 == ALU64 else 32
    row: Any = _ALU.get((insn.opcode & 0xF0, insn.off))
    if row is None:
        raise Unsupported(f"no meaning for opcode 0x{insn.opcode:02x} with offset {insn.off}")
    dst, src = _operands(b, state, insn, imm, width)
    result: W = row(b.at(width), dst, src)
    return state.put(insn.dst, result if width == 64 else b.at(32).zext(result, 64))


def _conditional(b: Bits[W, B], state: State[W, B], insn: Insn, imm: W) -> "Iterator[State[W, B]]":
    """JMP and JMP32 (section 4.3): taken, then not taken."""
    width = 64 if insn.opcode & 7 == JMP else 32
    row: Any = _JUMP[insn.opcode & 0xF0]
    dst, src = _operands(b, state, insn, imm, width)
    taken: B = row(b.at(width), dst, src)
    yield replace(state, slot=state.slot + 1 + insn.off, guard=b.conj(state.guard, taken))
    yield replace(state, slot=state.slot + 1, guard=b.conj(state.guard, b.negate(taken)))


def _memory(b: Bits[W, B], state: State[W, B], insn: Insn, imm: W) -> State[W, B]:
    """MEM loads and stores (section 5.1); a load zero-extends, an immediate store truncates the sign-extended value."""
    size = SIZES[insn.opcode & 0x18]
    offset = b.const(insn.off)
    if insn.opcode & 7 == LDX:
        word = state.memory.load(b.add(state.registers[insn.src], offset), size)
        return state.put(insn.dst, b.at(8 * size).zext(word, 64))
    value = state.registers[insn.src] if insn.opcode & 7 == STX else b.at(32).sext(imm, 64)
    address = b.add(state.registers[insn.dst], offset)
    memory = state.memory.store(address, size, b.extract(value, 8 * size - 1, 0))
    return replace(state, memory=memory, slot=state.slot + 1)
