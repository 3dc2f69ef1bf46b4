"""Conditional jumps: which way they go, and whether the verifier surely follows both ways."""

from dataclasses import replace

from model.facts_values import MASK32, MASK64, Fresh, Late, MapSet, State, Storage, Value, fresh, tested
from model.isa.insn import Insn

JEQ, JGT, JGE, JSET, JNE, JSGT, JSGE = 0x10, 0x20, 0x30, 0x40, 0x50, 0x60, 0x70
JLT, JLE, JSLT, JSLE, JCOND = 0xA0, 0xB0, 0xC0, 0xD0, 0xE0
JMP32 = 6
MOST_EXCLUDED = 16
"""Numbers that are remembered as excluded by tests for equality."""


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


def depends(state: State, insn: Insn) -> Late | None:
    """Which number that is known at load only the jump tests, if any."""
    for operand in (state.get(insn.dst), state.get(insn.src) if insn.opcode & 0x08 else None):
        if isinstance(operand, Late):
            return operand
    return None


def fork(state: State, insn: Insn) -> tuple[State, State] | None:
    """The states where the jump is taken and where not, if each is possible on every path that comes here.

    The verifier is sound, so it follows both then. None where it may know better than the state does.
    """
    opcode = insn.opcode
    operation, bits = opcode & 0xF0, 32 if opcode & 0x07 == JMP32 else 64
    if operation == JCOND:
        return state, state
    left = state.get(insn.dst)
    right: Value | None = state.get(insn.src) if opcode & 0x08 else insn.imm & MASK64
    if isinstance(left, MapSet | Storage):
        if left.null < 0 or right != 0 or operation not in (JEQ, JNE) or bits == 32:
            return None
        after = forget_test(state, insn)
        return after, after
    if not isinstance(left, Fresh):
        return None
    if isinstance(right, Fresh):
        if right.origin == left.origin or right.mask != left.mask or touched(left) or touched(right):
            return None
        after = forget_test(state, insn)
        return after, after
    sides = split(left, operation, right, bits) if isinstance(right, int) else None
    if sides is None:
        return None
    return _narrowed(state, insn.dst, left, sides[0]), _narrowed(state, insn.dst, left, sides[1])


def _narrowed(state: State, reg: int, before: Fresh, now: Value | None) -> State:
    """The state with `reg` and its copies as a test left them.

    A copy of a number that an equality told is not taken as known: verifiers differ in which they link.
    """
    result = dict(state)
    for key, value in state.items():
        if isinstance(value, Fresh) and value.origin == before.origin:
            if now is not None and (key == reg or (value == before and isinstance(now, Fresh))):
                result[key] = now
            else:
                del result[key]
    return result


def touched(value: Fresh) -> bool:
    return value.low != 0 or value.high != value.mask or bool(value.excluded)


Sides = tuple[Value | None, Value | None]


def split(value: Fresh, operation: int, right: int, bits: int) -> Sides | None:
    """What `value` can be where the comparison with the constant holds, and where not; None if one cannot be.

    A side is None where it is not followed further.
    """
    if bits == 32 and value.mask > MASK32:
        if touched(value) or value.mask & MASK32 == 0:
            return None
        return (None, None) if split(fresh(value.origin, value.mask & MASK32), operation, right, 32) else None
    right &= (1 << bits) - 1
    if operation in (JEQ, JNE):
        return _split_equal(value, operation, right, bits)
    if operation == JSET:
        return _split_bits(value, right)
    sign = 1 << bits - 1
    if operation in (JSGT, JSGE, JSLT, JSLE):
        if value.mask & sign:
            return _split_signed(value, operation, right - (right >> bits - 1 << bits), sign)
        if right & sign:
            return None
    upper_taken = operation in (JGT, JGE, JSGT, JSGE)
    last = right - 1 if operation in (JGE, JLT, JSGE, JSLT) else right
    below, above = last - value.low + 1, value.high - last
    if min(below, above) <= len(value.excluded) or (value.excluded and not value.dense):
        return None
    if not value.dense:
        return None, None
    lower, upper = replace(value, high=last), replace(value, low=last + 1)
    return (upper, lower) if upper_taken else (lower, upper)


def _split_equal(value: Fresh, operation: int, right: int, bits: int) -> Sides | None:
    possible = right & ~value.mask == 0 and value.low <= right <= value.high and right not in value.excluded
    if not possible or value.count <= len(value.excluded) + 1:
        return None
    equal = right if bits == 64 else None
    other = None
    if len(value.excluded) < MOST_EXCLUDED:
        excluded = value.excluded | {right}
        other = Fresh(value.origin, value.maker, value.mask, value.low, value.high, excluded)
    return (equal, other) if operation == JEQ else (other, equal)


def _split_bits(value: Fresh, right: int) -> Sides | None:
    """JSET: some bit of `right` is set, or none."""
    without = 1 << (value.mask & ~right).bit_count()
    if value.low != 0 or value.high != value.mask:
        return None
    return (None, None) if min(without, value.count - without) > len(value.excluded) else None


def _split_signed(value: Fresh, operation: int, right: int, sign: int) -> Sides | None:
    """A signed comparison of values of either sign; `right` is signed here."""
    lowest, highest = -sign, value.mask & ~sign
    last = right - 1 if operation in (JSGE, JSLT) else right
    return (None, None) if not touched(value) and lowest <= last < highest else None


def forget_test(state: State, insn: Insn) -> State:
    """The state behind a test of which nothing is concluded: what was tested, and its copies, can be narrowed now."""
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
