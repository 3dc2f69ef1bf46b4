"""Loads, stores and atomic operations on a `State`: the stack, and what pointers lead to."""

from model.facts_context import KCONFIG, Context, is_pointer, put
from model.facts_values import (
    BLANK,
    STACK_BYTES,
    UNKNOWN,
    Frame,
    Late,
    MapSet,
    Place,
    State,
    Storage,
    Value,
    fresh,
    join,
)
from model.isa.insn import Insn
from model.program import Form

SIZES = {0x00: 4, 0x08: 2, 0x10: 1, 0x18: 8}
"""Bytes by the size bits of a load's or store's opcode (RFC 9669, 5)."""

ANYWHERE = 1 << 16
"""An offset that no instruction has: a CO-RE relocation sets it, and the size with it."""

RDONLY_PROG = 1 << 7
FETCHES = 0x01
CMPXCHG, LOAD_ACQUIRE, STORE_RELEASE = 0xF1, 0x100, 0x110


def load(ctx: Context, state: State, insn: Insn, slot: int) -> None:
    """`dst = *(size *)(src + off)`."""
    put(state, insn.dst, loaded(ctx, state, insn.src, insn.off, SIZES[insn.opcode & 0x18], slot))


def loaded(ctx: Context, state: State, src: int, off: int, size: int, slot: int) -> Value | None:
    base = state.get(src)
    # Relocated, it may be as narrow as one byte; whatever a byte can hold, the number can.
    narrow = fresh(slot, 0xFF if off == ANYWHERE else (1 << 8 * size) - 1) if size < 8 else None
    if base is None or isinstance(base, Late):
        return narrow
    if isinstance(base, Frame):
        return _load_stack(state, base, off, size)
    if isinstance(base, Storage) and KCONFIG in base.keys:
        return Late.KCONFIG
    if size < 8:
        return narrow if base is Place.CONTEXT or (isinstance(base, Storage) and _writable(ctx, base)) else None
    if base is Place.OUTER:
        ctx.outer.add(ctx.function)
        return UNKNOWN
    if base is Place.CONTEXT or (isinstance(base, MapSet) and base.unknown):
        return UNKNOWN
    if isinstance(base, Storage) and ctx.program.form is Form.XLATED:
        return ctx.inner(base.keys)
    return None


def _writable(ctx: Context, base: Storage) -> bool:
    """False where the verifier may read the value at load time (`bpf_map_is_rdonly`: BPF_F_RDONLY_PROG, frozen)."""
    flags = [ctx.map_of(key).flags for key in base.keys]
    return all(flag is not None and not flag & RDONLY_PROG for flag in flags)


def _load_stack(state: State, base: Frame, off: int, size: int) -> Value | None:
    if off == ANYWHERE:
        return UNKNOWN
    if base.off is None or not base.sure:
        return UNKNOWN if size == 8 else None
    address = base.off + off
    if size < 8 or address % 8 or not -STACK_BYTES <= address <= -8:
        return None
    value = state.get(address)
    if value is None:
        return UNKNOWN if BLANK in state else None
    return None if value is Place.PLAIN else value


def store_reg(ctx: Context, state: State, insn: Insn, slot: int) -> None:
    size = SIZES[insn.opcode & 0x18]
    store(ctx, state, insn.dst, insn.off, size, state.get(insn.src))


def store_imm(ctx: Context, state: State, insn: Insn, slot: int) -> None:
    """A number; only 0 is one that every verifier remembers (STACK_ZERO)."""
    store(ctx, state, insn.dst, insn.off, SIZES[insn.opcode & 0x18], 0 if insn.imm == 0 else None)


def store(ctx: Context, state: State, dst: int, off: int, size: int, value: Value | None) -> None:
    """`*(size *)(dst + off) = value`, wherever in this frame, or a caller's, that can be."""
    base = state.get(dst)
    if isinstance(base, Frame) and base.sure and base.off is not None and off != ANYWHERE:
        address = base.off + off
        if not -STACK_BYTES <= address < 0:
            return
        if size == 8 and address % 8 == 0:
            put_slot(state, address, value)
            return
        for key in range(address & ~7, min(address + size, 0), 8):
            put_slot(state, key, None)
    elif isinstance(base, Frame) or base is Place.OUTER or (isinstance(base, MapSet) and base.unknown):
        if base is not Place.OUTER:
            weaken(state, value if size == 8 or off == ANYWHERE else None)
        if is_pointer(value):
            ctx.leaks.add(ctx.function)
            ctx.imprecise = True


def put_slot(state: State, key: int, value: Value | None) -> None:
    if value is not None:
        state[key] = value
    elif BLANK in state:
        state[key] = Place.PLAIN
    else:
        state.pop(key, None)


def weaken(state: State, value: Value | None, floor: int = -STACK_BYTES) -> None:
    """Some of the slots from `floor` up may have been overwritten by `value`."""
    for key in [key for key in state if floor <= key < 0]:
        joined = join(state[key], value)
        put_slot(state, key, joined)
    if is_pointer(value):
        state[BLANK] = Place.PLAIN


def atomic(ctx: Context, state: State, insn: Insn, slot: int) -> None:
    """Atomic operations (RFC 9669, 5.3), load-acquire and store-release among them."""
    size = SIZES[insn.opcode & 0x18]
    if insn.imm == LOAD_ACQUIRE:
        put(state, insn.dst, loaded(ctx, state, insn.src, insn.off, size, slot))
    elif insn.imm == STORE_RELEASE:
        store(ctx, state, insn.dst, insn.off, size, state.get(insn.src))
    else:
        store(ctx, state, insn.dst, insn.off, size, None)
        if insn.imm == CMPXCHG:
            state.pop(0, None)
        elif insn.imm & FETCHES:
            state.pop(insn.src, None)
