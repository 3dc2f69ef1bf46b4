"""Random instructions: a step over ints, a step over terms, the machine and the running kernel must agree."""

from dataclasses import replace
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings
from instruction_vectors import Vector
from test_instructions import BASE, NOT_MODELLED, WAYS
from test_live import permitted, run_vector

from model.isa.forms import FORMS, Form
from model.isa.insn import Insn
from model.isa.opcodes import Class
from model.loaders.live import Live

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
