"""Random instructions: a step over ints, a step over terms, the machine and the running kernel must agree."""

from dataclasses import replace
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings
from instruction_vectors import Vector
from test_instructions import BASE, NOT_MODELLED, WAYS
from test_live import AFTER, ARRAY, BEFORE, EXIT, SIZE, VALUE, permitted, run_vector, wide

from model.isa.forms import FORMS, Form
from model.isa.insn import Insn
from model.isa.opcodes import Class
from model.loaders.live import Live
from model.machine.kernel import Bare
from model.machine.machine import Machine
from model.machine.outcome import Returned
from model.program import Program
from model.semantics.operation import Address

__all__ = ["permitted"]

FREE = (0, 2, 3, 6)
EDGES = [0, 1, 2, 7, 31, 32, 33, 63, 64, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF]
WIDE_EDGES = [*EDGES, 1 << 32, 1 << 63, (1 << 63) - 1, (1 << 64) - 1, (1 << 64) - (1 << 31), 0xDEADBEEFCAFEBABE]
WORDS = st.one_of(st.sampled_from(WIDE_EDGES), st.integers(0, (1 << 64) - 1))
IMMEDIATES = st.one_of(
    st.sampled_from([edge - (edge >> 31 << 32) for edge in EDGES]), st.integers(-(1 << 31), (1 << 31) - 1)
)
CHOSEN = [
    form
    for form in FORMS
    if not form.loaded
    and form.name not in NOT_MODELLED
    and not form.name.startswith(("{CALL", "{EXIT", "{JCOND", "{JA", "{IMM", "{ABS", "{IND"))
]


def immediate(draw: st.DrawFn, form: Form) -> int:
    """An immediate that the form allows and the kernel's verifier takes: no division by 0, no shift too far."""
    if len(form.imm) < 100:
        return draw(st.sampled_from(sorted(form.imm)))
    klass, code = form.opcode & 7, form.opcode >> 4
    if klass in (Class.ALU, Class.ALU64) and code in (0x6, 0x7, 0xC):
        return draw(st.integers(0, 31 if klass == Class.ALU else 63))
    if klass in (Class.ALU, Class.ALU64) and code in (0x3, 0x9):
        return draw(IMMEDIATES.filter(bool))
    return draw(IMMEDIATES)


@st.composite
def instructions(draw: st.DrawFn) -> Vector:
    """An instruction with what is before it; what is after it is the model's to say."""
    form = draw(st.sampled_from(CHOSEN))
    klass = form.opcode & 7
    dst = draw(st.sampled_from(FREE)) if len(form.dst) > 1 else 0
    src = draw(st.sampled_from(FREE)) if len(form.src) > 1 else 0
    off = min(form.off, key=abs) if len(form.off) < 100 else 2
    pointers: dict[int, int] = {}
    if klass in (Class.LDX, Class.ST, Class.STX):
        pointers = {1: 8}
        size = {0x00: 4, 0x08: 2, 0x10: 1, 0x18: 8}[form.opcode & 0x18]
        off = size * draw(st.integers(-8 // size, 8 // size))
        reads_memory = klass == Class.LDX or form.name.endswith("LOAD_ACQ")
        dst, src = (dst, 1) if reads_memory else (1, src)
    insn = Insn(form.opcode, dst, src, off, immediate(draw, form))
    registers = {register: draw(WORDS) for register in FREE}
    memory = draw(st.binary(min_size=24, max_size=24))
    return Vector(str(insn), (insn,), registers, pointers, memory, {}, memory, 0)


class OneValue(Bare):
    """A kernel in which every address is that of one map's value."""

    def __init__(self, base: int) -> None:
        self.base = base

    def address(self, program: Program, slot: int, load: Address) -> int:
        return self.base


@st.composite
def bodies(draw: st.DrawFn) -> list[Insn]:
    """Instructions over r0, r2, r3, r6 and 24 bytes at r1 - 8; jumps go forward, at most behind the last one."""
    insns = [vector.insns[0] for vector in draw(st.lists(instructions(), min_size=1, max_size=40))]
    for slot, insn in enumerate(insns):
        if insn.opcode & 7 in (Class.JMP, Class.JMP32):
            insns[slot] = replace(insn, off=draw(st.integers(0, min(5, len(insns) - slot - 1))))
    return insns


def harness(body: list[Insn], value: int) -> tuple[Insn, ...]:
    """`body` between reading its registers from the map `value` and writing them back."""
    insns = [*wide(VALUE, value, source=2), Insn(0xBF, 1, VALUE), Insn(0x07, 1, imm=8)]
    insns += [Insn(0x79, register, VALUE, BEFORE + 8 * register) for register in FREE]
    insns += body
    insns += [Insn(0x7B, VALUE, register, AFTER + 8 * register) for register in FREE]
    return (*insns, Insn(0xB7), EXIT)


def after(way: Any, before: Vector) -> Vector:
    registers, memory, goes = way(before, "little")
    changed = {i: word for i, word in registers.items() if i not in (1, 7, 8) and before.registers[i] != word}
    assert registers.get(1, BASE + 8) == BASE + 8
    return replace(before, changed=changed, memory_after=memory, goes=goes)


@given(instructions())
def test_every_way_to_run_gives_the_same(before: Vector) -> None:
    results = [after(way, before) for way in WAYS.values()]
    assert results[0] == results[1] == results[2]


@pytest.mark.live
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(before=instructions())
def test_the_running_kernel_gives_what_the_model_gives(permitted: None, before: Vector) -> None:
    with Live() as live:
        run_vector(live, after(WAYS["ints"], before))


@pytest.mark.live
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=bodies(), held=st.binary(min_size=SIZE, max_size=SIZE))
def test_the_running_kernel_ends_where_the_machine_ends(permitted: None, body: list[Insn], held: bytes) -> None:
    machine = Machine()
    region = machine.memory.place("value", held)
    machine.kernel = OneValue(region.base)
    with Live() as live:
        value = live.create_map(ARRAY, 4, SIZE, 1)
        insns = harness(body, value)
        outcome = machine.run(Program("random", insns))
        assert isinstance(outcome, Returned), outcome
        assert live.update(value, bytes(4), held) == 0
        live.run(live.load(insns), data=bytes(64))
        assert live.lookup(value, bytes(4), SIZE) == bytes(region.data)
