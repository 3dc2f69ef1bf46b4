"""One instruction's effect on a `State`: everything but jumps and calls.

Constants follow only the operations that every kernel's verifier follows (`adjust_scalar_min_max_vals`
of 5.4 to 7.3: no division, negation, byte swap or sign-extending move), so that a branch counts as
decided here only where the kernel decides it too.
"""

from collections.abc import Callable

from model.facts_context import KCONFIG, Context, put
from model.facts_memory import SIZES, atomic, load, store_imm, store_reg
from model.facts_values import (
    MASK32,
    MASK64,
    UNKNOWN,
    Frame,
    Fresh,
    Functions,
    Key,
    Late,
    MapSet,
    Place,
    State,
    Storage,
    Value,
    fresh,
    tested,
)
from model.isa.insn import Insn
from model.program import ExternRef, Form, MapRef


def forget(ctx: Context, state: State, insn: Insn, slot: int) -> None:
    """A result of which nothing is known."""
    state.pop(insn.dst, None)


def load_imm64(ctx: Context, state: State, insn: Insn, slot: int) -> None:
    """The 64-bit immediate load by its pseudo source (RFC 9669, 5.4): number, map, value of a map, function."""
    ref = ctx.program.refs.get(slot)
    value: Value | None = None
    if isinstance(ref, MapRef):
        key: Key = ("map", ref.map)
        value = ctx.one(key) if ref.offset is None else Storage((key,))
    elif isinstance(ref, ExternRef):
        value = Storage((KCONFIG,)) if ref.kind == "kconfig" else Late.KSYM
    elif insn.src in (1, 5):
        value = UNKNOWN
    elif insn.src == 4:
        value = Functions((slot + 1 + insn.imm,))
    elif insn.src == 0 and ref is None and slot + 1 < len(ctx.program.insns):
        value = (insn.imm & MASK32) | (ctx.program.insns[slot + 1].imm & MASK32) << 32
    put(state, insn.dst, value)


def move64_imm(ctx: Context, state: State, insn: Insn, slot: int) -> None:
    state[insn.dst] = insn.imm & MASK64


def move32_imm(ctx: Context, state: State, insn: Insn, slot: int) -> None:
    state[insn.dst] = insn.imm & MASK32


def move64_reg(ctx: Context, state: State, insn: Insn, slot: int) -> None:
    """`dst = src`; an offset makes it sign-extend (8, 16, 32), add the CPU's base (-1) or cast (1)."""
    value = state.get(insn.src)
    if insn.off not in (0, -1) or (insn.off and not isinstance(value, Storage)):
        value = None
    put(state, insn.dst, value)


def move32_reg(ctx: Context, state: State, insn: Insn, slot: int) -> None:
    value = state.get(insn.src)
    if insn.off == 0 and isinstance(value, int):
        state[insn.dst] = value & MASK32
    elif insn.off == 0 and isinstance(value, Fresh):
        put(state, insn.dst, value if value.mask <= MASK32 else narrowed(value, 0x50, MASK32, slot, 64))
    elif insn.off == 0 and isinstance(value, Late):
        state[insn.dst] = value
    else:
        state.pop(insn.dst, None)


def arithmetic(ctx: Context, state: State, insn: Insn, slot: int) -> None:
    """ADD SUB MUL OR AND LSH RSH XOR ARSH of either width."""
    opcode = insn.opcode
    right: Value | None = state.get(insn.src) if opcode & 0x08 else insn.imm & MASK64
    left = state.get(insn.dst)
    wide = opcode & 0x07 == 7
    result: Value | None = None
    if isinstance(left, int) and isinstance(right, int):
        result = constant(opcode & 0xF0, left, right, 64 if wide else 32)
    elif isinstance(left, Fresh) and isinstance(right, int):
        result = narrowed(left, opcode & 0xF0, right, slot, 64 if wide else 32)
    elif wide:
        result = pointer_arithmetic(ctx, opcode & 0xF0, left, right)
    if result is None:
        result = left if isinstance(left, Late) else right if isinstance(right, Late) else None
    put(state, insn.dst, result)


def constant(operation: int, left: int, right: int, bits: int) -> int | None:
    """Result, zero-extended to 64 bits; None for a shift by the width or more (unknown to the verifier)."""
    mask = (1 << bits) - 1
    left, right = left & mask, right & mask
    if operation in (0x60, 0x70, 0xC0):
        if right >= bits:
            return None
        if operation == 0x60:
            return left << right & mask
        if operation == 0x70:
            return left >> right
        return (left - (left >> bits - 1 << bits)) >> right & mask
    match operation:
        case 0x00:
            return left + right & mask
        case 0x10:
            return left - right & mask
        case 0x20:
            return left * right & mask
        case 0x40:
            return left | right
        case 0x50:
            return left & right
        case _:
            return left ^ right


def narrowed(left: Fresh, operation: int, right: int, slot: int, bits: int) -> Fresh | None:
    """A fresh scalar after AND, XOR, ADD, SUB or a shift by a constant: what is possible then, or None.

    Only results of which again every value is possible are followed.
    """
    width = (1 << bits) - 1
    right &= width
    if operation in (0x00, 0x10):
        return _moved(left, right if operation == 0x00 else -right & width, slot, width)
    if left.low != 0 or left.high != left.mask or (operation in (0x60, 0x70) and right >= bits):
        return None
    mask = left.mask & width
    match operation:
        case 0x50:
            mask &= right
        case 0x60:
            mask = mask << right & width
        case 0x70:
            mask >>= right
        case 0xA0 if right & ~mask == 0:
            pass
        case _:
            return None
    lost = left.mask.bit_count() - mask.bit_count()
    if not mask or len(left.excluded) >= 1 << lost:
        return None
    return Fresh(left.origin, slot, mask, 0, mask)


def _moved(left: Fresh, step: int, slot: int, width: int) -> Fresh | None:
    """Plus a constant: all values again where there were all, else the interval moved up, if it does not wrap."""
    if left.excluded or not left.dense:
        return None
    if left.low == 0 and left.high == left.mask >= width:
        return Fresh(left.origin, slot, width, 0, width)
    if left.mask > width or left.high + step > width:
        return None
    high = left.high + step
    return Fresh(left.origin, slot, (1 << high.bit_length()) - 1, left.low + step, high)


def pointer_arithmetic(ctx: Context, operation: int, left: Value | None, right: Value | None) -> Value | None:
    """A pointer plus or minus something; anything else that involves a pointer is none afterwards."""
    if operation not in (0x00, 0x10):
        return None
    if operation == 0x00 and (left is None or isinstance(left, int | Fresh | Late)):
        left, right = right, left
    if isinstance(left, Frame):
        if isinstance(right, int) and left.off is not None:
            step = right - (1 << 64) if right >> 63 else right
            off = left.off + step if operation == 0x00 else left.off - step
            return Frame(off, left.sure) if -(1 << 31) <= off <= 1 << 31 else Frame(None, False)
        return Frame(None, False)
    if isinstance(left, MapSet):
        if right == 0 or isinstance(right, Late) or (left.unknown and not left.keys):
            return left  # the verifier takes no other number than 0
        if ctx.program.form is Form.XLATED:
            return UNKNOWN if left.unknown else Storage(left.keys)
        return UNKNOWN if left.unknown else None
    return tested(left) if isinstance(left, Storage) else left if isinstance(left, Place) else None


def load_packet(ctx: Context, state: State, insn: Insn, slot: int) -> None:
    """LD_ABS and LD_IND: a call in disguise, r0 is the packet's data and r1 to r5 are gone."""
    clobber(state)
    state[0] = fresh(slot, (1 << 8 * SIZES[insn.opcode & 0x18]) - 1)


def clobber(state: State) -> None:
    """r0 to r5 hold nothing that may be read."""
    for reg in range(6):
        state.pop(reg, None)


Step = Callable[[Context, State, Insn, int], None]


def _table() -> list[Step | None]:
    """Step by opcode; None where no register or slot of interest changes (jumps and calls are not steps)."""
    table: list[Step | None] = [None] * 256
    for opcode in range(256):
        group = opcode & 0x07
        if group in (4, 7):
            table[opcode] = (
                arithmetic if opcode & 0xF0 in (0, 0x10, 0x20, 0x40, 0x50, 0x60, 0x70, 0xA0, 0xC0) else forget
            )
        elif group in (1, 2, 3):
            mode = opcode & 0xE0
            if group == 1:
                table[opcode] = load if mode == 0x60 else forget
            elif mode == 0x60:
                table[opcode] = store_imm if group == 2 else store_reg
            elif group == 3 and mode == 0xC0:
                table[opcode] = atomic
        elif group == 0 and opcode & 0xE0 in (0x20, 0x40):
            table[opcode] = load_packet
    table[0x18] = load_imm64
    table[0xB7], table[0xB4], table[0xBF], table[0xBC] = move64_imm, move32_imm, move64_reg, move32_reg
    return table


STEPS = _table()
