"""Bytes <-> instructions, and which instructions are valid.

`decode` and `encode` are inverse to each other on all 2^64 values of a slot: every bit lands in one
field (RFC 9669, section 3.1). Validity is a question of its own, answered from `model.isa.forms`.
"""

import struct
from collections.abc import Sequence
from typing import Literal

from model.errors import InputError
from model.isa.forms import (
    LOADED_FORMS,
    OBJECT_FORMS,
    READ,
    READ_HIDDEN,
    WRITE,
    WRITE_HIDDEN,
    Form,
    Values,
)
from model.isa.insn import Insn
from model.isa.opcodes import WIDE

ByteOrder = Literal["little", "big"]
SLOT = 8
"""Bytes of a slot."""

_CACHE_LIMIT = 1 << 15
_decoded: dict[ByteOrder, dict[bytes, Insn]] = {"little": {}, "big": {}}
_layout = {"little": struct.Struct("<BBhi"), "big": struct.Struct(">BBhi")}
_REGISTERS: tuple[Values, ...] = (READ, WRITE, READ_HIDDEN, WRITE_HIDDEN)
_FIELD_NAMES = {"dst": "destination", "src": "source", "off": "offset", "imm": "immediate"}


def _decode_slot(raw: bytes, byteorder: ByteOrder) -> Insn:
    opcode, registers, off, imm = _layout[byteorder].unpack(raw)
    low, high = registers & 15, registers >> 4
    return Insn(opcode, low, high, off, imm) if byteorder == "little" else Insn(opcode, high, low, off, imm)


def decode(data: bytes, byteorder: ByteOrder = "little", *, file: str = "", place: str = "") -> tuple[Insn, ...]:
    """The slots of `data`, valid or not. On a big-endian machine the register nibbles swap, too (section 3.1).

    Raises `InputError` when `data` is no whole number of slots.
    """
    if len(data) % SLOT:
        raise InputError(file, place, f"instructions in whole slots of {SLOT} bytes, found {len(data)} bytes")
    cache = _decoded[byteorder]
    insns: list[Insn] = []
    append, known = insns.append, cache.get
    for (raw,) in struct.iter_unpack("8s", data):
        insn = known(raw)
        if insn is None:
            insn = _decode_slot(raw, byteorder)
            if len(cache) < _CACHE_LIMIT:
                cache[raw] = insn
        append(insn)
    return tuple(insns)


def encode(insns: Sequence[Insn], byteorder: ByteOrder = "little") -> bytes:
    """The inverse of `decode`. Raises `InputError` for a field that does not fit its width."""
    pack = _layout[byteorder].pack
    out = bytearray()
    for slot, insn in enumerate(insns):
        if not (0 <= insn.dst < 16 and 0 <= insn.src < 16):
            raise InputError("", f"slot {slot}", f"register numbers of 4 bits, found {insn.dst} and {insn.src}")
        little = byteorder == "little"
        registers = insn.src << 4 | insn.dst if little else insn.dst << 4 | insn.src
        try:
            out += pack(insn.opcode, registers, insn.off, insn.imm)
        except struct.error:
            raise InputError("", f"slot {slot}", f"fields that fit their width, found {insn}") from None
    return bytes(out)


def form_of(insn: Insn, *, loaded: bool, high: int | None = None) -> Form | None:
    """The row of `model.isa.forms` that admits the slot, None where it is not valid.

    `high` is the next slot's immediate; without it the second slot of a wide load is not looked at.
    """
    if not 0 <= insn.opcode < 256:
        return None
    for form in (LOADED_FORMS if loaded else OBJECT_FORMS)[insn.opcode]:
        if insn.dst in form.dst and insn.src in form.src and insn.off in form.off and insn.imm in form.imm:
            if high is not None and form.high is not None and high not in form.high:
                continue
            return form
    return None


def _one_of(values: Values) -> str:
    if isinstance(values, range):
        if len(values) == 1:
            return str(values.start)
        step = "" if values.step == 1 else f" in steps of {values.step}"
        return f"{values[0]} to {values[-1]}{step}"
    return " or ".join(str(value) for value in sorted(values)[:20])


def _expected(field: str, value: int, forms: list[Form]) -> str:
    """What `field` should have held, over all rows that admit the fields before it."""
    sets: list[Values] = []
    for form in forms:
        values: Values = getattr(form, field)
        if values not in sets:
            sets.append(values)
    if any(values is known for values in sets for known in _REGISTERS):
        if value == READ.stop - 1:
            return "r10, the frame pointer, is read-only"
        return f"no register r{value} here: programs have r0 to r10"
    text = " or ".join(_one_of(values) for values in sets)
    if text == "0":
        return f"reserved {_FIELD_NAMES[field]} is {value}, not 0"
    return f"{_FIELD_NAMES[field]} is {value}, not {text}"


def _name(forms: list[Form]) -> str:
    """The form's name, or where several are left what they have in common."""
    return forms[0].name if len(forms) == 1 else forms[0].name.partition("}")[0] + "}"


def why_no_form(insn: Insn, *, loaded: bool) -> str | None:
    """Which field keeps a single slot from being one of its opcode's forms, None if none does.

    Fields that select the form are looked at first: the source where it is no register, offset, immediate.
    """
    forms = list((LOADED_FORMS if loaded else OBJECT_FORMS)[insn.opcode])
    if not forms:
        if LOADED_FORMS[insn.opcode]:
            name = _name(list(LOADED_FORMS[insn.opcode]))
            return f"opcode 0x{insn.opcode:02x} {name} is made by the kernel only, no program may hold it"
        return f"unknown opcode 0x{insn.opcode:02x}"
    selects = not any(form.src is known for form in forms for known in _REGISTERS)
    for field in ("src", "off", "imm", "dst") if selects else ("off", "imm", "src", "dst"):
        value: int = getattr(insn, field)
        rest = [form for form in forms if value in getattr(form, field)]
        if not rest:
            return f"{_name(forms)}: {_expected(field, value, forms)}"
        forms = rest
    return None


def _why_no_second(second: Insn) -> str | None:
    """The second slot of a wide load has nothing but an immediate (section 3.2)."""
    if second.opcode:
        return f"opcode 0x{second.opcode:02x}, not 0"
    for field in ("dst", "src", "off"):
        if getattr(second, field):
            return f"reserved {_FIELD_NAMES[field]} is {getattr(second, field)}, not 0"
    return None


def why_invalid(insns: Sequence[Insn], slot: int, *, loaded: bool) -> str | None:
    """Why `slot` is no valid instruction, None if it is one; `loaded` admits what only the kernel makes.

    The second slot of a wide load counts as valid where its first slot, one before it, is.
    """
    insn = insns[slot]
    if insn.opcode == 0 and slot and insns[slot - 1].opcode == WIDE:
        why = _why_no_second(insn)
        return None if why is None else f"second slot of a 64-bit load: {why}"
    if insn.opcode != WIDE:
        return why_no_form(insn, loaded=loaded)
    if slot + 1 >= len(insns):
        return "64-bit load without its second slot"
    why = _why_no_second(insns[slot + 1])
    if why is not None:
        return f"second slot of a 64-bit load: {why}"
    why = why_no_form(insn, loaded=loaded)
    if why is not None:
        return why
    high = insns[slot + 1].imm
    if form_of(insn, loaded=loaded, high=high) is None:
        return f"64-bit load of kind {insn.src}: reserved second immediate is {high}, not 0"
    return None


def check(insns: Sequence[Insn], *, loaded: bool, file: str = "", place: str = "") -> None:
    """Raises `InputError` for the first slot that is not valid: its number, its bytes (little-endian), why."""
    table = LOADED_FORMS if loaded else OBJECT_FORMS
    slot, count = 0, len(insns)
    while slot < count:
        insn = insns[slot]
        step = 1
        for form in table[insn.opcode]:
            if insn.dst in form.dst and insn.src in form.src and insn.off in form.off and insn.imm in form.imm:
                break
        else:
            step = 0
        if insn.opcode == WIDE:
            step = 2 if why_invalid(insns, slot, loaded=loaded) is None else 0
        if not step:
            why = why_invalid(insns, slot, loaded=loaded) or "second slot of a 64-bit load without the first"
            where = f"{place}, slot {slot}" if place else f"slot {slot}"
            raise InputError(file, where, f"a valid instruction, found {encode((insn,)).hex(' ')}: {why}")
        slot += step
