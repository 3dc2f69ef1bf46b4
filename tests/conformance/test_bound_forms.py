"""What a form's first instruction makes is what every instruction of the form makes for itself."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from model.bits import IntBits
from model.errors import Unsupported
from model.isa.codec import form_of
from model.isa.forms import FORMS, Form, Values
from model.isa.insn import Insn
from model.isa.opcodes import Class
from model.machine.code import first_of
from model.machine.regions import Region, Regions
from model.semantics.bind import bind, maker
from model.semantics.operation import Branch, Maker, PacketLoad, Straight

BITS = IntBits(64)
BASE = 0x100000000
MEMORY = (Class.LDX, Class.ST, Class.STX)
DATA = bytes(range(0x70, 0xF0))
REGISTERS = (0xFEDCBA9876543210, 0x80000000FFFFFFFF, 5, 0, 1 << 63, 0x7FFFFFFF, 33, 2**64 - 1, 0x1234, 3, 8, 9, 10)


def some(values: Values) -> list[int]:
    """Ends and middle, and small ones that are valid addresses' offsets."""
    ordered = sorted(values) if isinstance(values, frozenset) else values
    return sorted({ordered[0], ordered[len(ordered) // 2], ordered[-1], *(n for n in (3, 8) if n in ordered)})


def instructions(form: Form) -> Iterator[Insn]:
    fields = (some(values) for values in (form.dst, form.src, form.off, form.imm))
    return (Insn(form.opcode, *values) for values in product(*fields))


def done(operation: Any, insn: Insn, order: Any) -> Any:
    """What the operation does to registers and memory; the register that is read first may be a base."""
    registers: list[Any] = list(REGISTERS)
    if isinstance(operation, Branch):
        taken, dst, src, *rest = operation
        return taken(registers, dst, src), rest
    if isinstance(operation, PacketLoad):
        return operation.offset(registers), operation.size, operation.reads
    if not isinstance(operation, Straight):
        return operation
    if insn.opcode & 7 in MEMORY and operation.reads:
        registers[operation.reads[0]] = BASE + 64 - insn.off & 2**64 - 1
    memory = Regions(order)
    region = memory.add(Region("memory", BASE, bytearray(DATA)))
    effect, dst, src, offset, *rest = operation
    assert effect(registers, memory, dst, src, offset) is memory
    return registers, region.data, rest


def made(make: Maker[int, bool], insn: Insn) -> Any:
    try:
        return make(insn, insn.imm & 0xFFFFFFFF, -7)
    except Unsupported as hole:
        return str(hole)


def maker_or_hole(insn: Insn, order: Any) -> Maker[int, bool]:
    try:
        return maker(BITS, insn, order)
    except Unsupported as hole:
        why = str(hole)

    def holes(insn: Insn, imm: int, high: int) -> Any:
        return why

    return holes


@pytest.mark.parametrize("order", ["little", "big"])
@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_a_form_means_what_each_of_its_instructions_means(form: Form, order: Any) -> None:
    shared = maker_or_hole(first_of(form), order)
    count = 0
    for insn in instructions(form):
        alone = maker_or_hole(insn, order)
        assert done(made(shared, insn), insn, order) == done(made(alone, insn), insn, order), insn
        count += 1
    assert count >= 1


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_the_first_instruction_of_a_form_is_one_of_it(form: Form) -> None:
    found = form_of(first_of(form), loaded=True)
    assert found is not None
    assert found.opcode == form.opcode


def test_operands_differ_where_instructions_do() -> None:
    """Two instructions of one form, by hand: r3 = r3 + 5 and r7 = r7 - 1 over 2^64."""
    make = maker(BITS, Insn(0x07), "little")
    for insn, before, after in ((Insn(0x07, 3, imm=5), 10, 15), (Insn(0x07, 7, imm=-1), 0, 2**64 - 1)):
        operation: Any = make(insn, insn.imm & 0xFFFFFFFF, 0)
        registers = [0] * 11
        registers[insn.dst] = before
        operation.effect(registers, Regions(), operation.dst, operation.src, operation.offset)
        assert registers == [after if register == insn.dst else 0 for register in range(11)]


def test_a_bound_instruction_is_its_own() -> None:
    """A mutant: a maker that keeps the instruction which it was made from is told from one that does not."""
    first, other = Insn(0x07, 0), Insn(0x07, 3, imm=5)
    right: Any = maker(BITS, first, "little")
    kept = bind(BITS, first, 0)
    assert done(right(other, 5, 0), other, "little") != done(kept, other, "little")
    assert done(right(replace(other, dst=0, imm=0), 0, 0), first, "little") == done(kept, first, "little")


# What tells instructions with one opcode apart: the offset of ALU rows, the immediate of byte swaps and of atomics.
TELLS = [
    *((opcode, "off", range(-2, 70)) for opcode in range(256) if opcode & 7 in (Class.ALU, Class.ALU64)),
    *((opcode, "imm", range(-1, 130)) for opcode in (0xD4, 0xDC, 0xD7)),
    *((opcode, "imm", range(-1, 0x120)) for opcode in (0xC3, 0xD3, 0xDB, 0xCB)),
]


def test_what_is_no_form_has_no_meaning() -> None:
    """Opcodes of no form (MEMSX of 8 bytes, 0x99), and values of a field that tells rows apart which no form has."""
    opcodes = {form.opcode for form in FORMS}
    assert 0x99 not in opcodes
    asked = [Insn(opcode) for opcode in range(256) if opcode not in opcodes]
    for opcode, field, values in TELLS:
        known = {value for form in FORMS if form.opcode == opcode for value in values if value in getattr(form, field)}
        asked += [replace(Insn(opcode), **{field: value}) for value in values if value not in known]
    assert len(asked) > 3000
    for insn in asked:
        with pytest.raises(Unsupported):
            bind(BITS, insn, insn.imm & 0xFFFFFFFF)
