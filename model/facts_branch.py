"""Conditional jumps: which way they go, and whether the verifier surely follows both ways."""

from model.facts_values import MASK32, MASK64, Fresh, MapSet, State, Storage, Value, tested
from model.isa.insn import Insn

JEQ, JGT, JGE, JSET, JNE, JSGT, JSGE = 0x10, 0x20, 0x30, 0x40, 0x50, 0x60, 0x70
JLT, JLE, JSLT, JSLE, JCOND = 0xA0, 0xB0, 0xC0, 0xD0, 0xE0
JMP32 = 6


def decided(state: State, insn: Insn) -> bool | None:
    """Whether the jump is taken, where both operands are constants; None where that is open."""
    opcode = insn.opcode
    operation = opcode & 0xF0
    left = state.get(insn.dst)
    right: Value | None = state.get(insn.src) if opcode & 0x08 else insn.imm & MASK64
    if operation == JCOND or not isinstance(left, int) or not isinstance(right, int):
        return None
    return compare(operation, left, right, 32 if opcode & 0x07 == JMP32 else 64)


def compare(operation: int, left: int, right: int, bits: int) -> bool | None:
    """RFC 9669, 4.3 on constants of 64 bits; `bits` is 32 for the JMP32 class. None for no comparison."""
    mask = (1 << bits) - 1
    a, b = left & mask, right & mask
    sa, sb = a - (a >> bits - 1 << bits), b - (b >> bits - 1 << bits)
    match operation:
        case 0x10:
            return a == b
        case 0x50:
            return a != b
        case 0x20:
            return a > b
        case 0x30:
            return a >= b
        case 0xA0:
            return a < b
        case 0xB0:
            return a <= b
        case 0x40:
            return a & b != 0
        case 0x60:
            return sa > sb
        case 0x70:
            return sa >= sb
        case 0xC0:
            return sa < sb
        case 0xD0:
            return sa <= sb
    return None


def both_ways(state: State, insn: Insn) -> bool:
    """True where each outcome is possible for a value that nothing has narrowed before.

    The verifier is sound, so it follows both. may_goto leaves or stays at its choice.
    """
    opcode = insn.opcode
    operation, is_32 = opcode & 0xF0, opcode & 0x07 == JMP32
    if operation == JCOND:
        return True
    left = state.get(insn.dst)
    right: Value | None = state.get(insn.src) if opcode & 0x08 else insn.imm & MASK64
    if isinstance(left, MapSet | Storage):
        return left.null >= 0 and right == 0 and operation in (JEQ, JNE) and not is_32
    if not isinstance(left, Fresh):
        return False
    mask = left.mask & MASK32 if is_32 else left.mask
    if isinstance(right, Fresh):
        width = right.mask & MASK32 if is_32 else right.mask
        return right.origin != left.origin and width == mask and mask != 0
    return isinstance(right, int) and _splits(operation, mask, right, 32 if is_32 else 64)


def _splits(operation: int, mask: int, right: int, bits: int) -> bool:
    """Whether values with any bits of `mask` fall on both sides of `right`."""
    compared = right & (1 << bits) - 1
    if operation in (JEQ, JNE):
        return mask != 0 and compared & ~mask == 0
    if operation == JSET:
        return mask & compared != 0
    sign = 1 << bits - 1
    signed = operation in (JSGT, JSGE, JSLT, JSLE)
    lowest, highest = 0, mask
    if signed and mask & sign:
        lowest, highest = -sign, mask & ~sign
    if signed and compared & sign:
        compared -= sign << 1
    if operation in (JGT, JLE, JSGT, JSLE):
        return lowest <= compared < highest
    return lowest < compared <= highest


def after_test(state: State, insn: Insn) -> State:
    """The state behind a test: what was tested, and its copies, can be narrowed now."""
    result = state
    operands = (state.get(insn.dst), state.get(insn.src) if insn.opcode & 0x08 else None)
    for operand in operands:
        if isinstance(operand, Fresh):
            result = {
                key: value
                for key, value in result.items()
                if not (isinstance(value, Fresh) and value.origin == operand.origin)
            }
        elif isinstance(operand, MapSet | Storage) and operand.null >= 0:
            result = {
                key: tested(value) if isinstance(value, MapSet | Storage) and value.null == operand.null else value
                for key, value in result.items()
            }
    return result
