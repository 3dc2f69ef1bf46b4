"""Slots that run for the first, second and third time: the same faults, limits and traces; what stays in memory."""

import tracemalloc
from itertools import product

import pytest

from model.errors import Unsupported
from model.isa.codec import why_invalid
from model.isa.forms import FORMS
from model.isa.insn import Insn
from model.isa.opcodes import WIDE
from model.loaders import assembly
from model.machine.code import first_of
from model.machine.machine import Machine, Step
from model.machine.outcome import Fault, Limit, Outcome, Returned
from model.machine.regions import CONTEXT_BASE, Region
from model.program import Form, Program

MOV_R0, EXIT = Insn(0xB7), Insn(0x95)


def run(text: str, size: int = 0, *, limit: int = 1000) -> Outcome:
    machine = Machine(limit=limit)
    if size:
        machine.memory.add(Region("memory", CONTEXT_BASE, bytearray(size)))
    return machine.run(assembly.load(text, "test", {}).programs[0], CONTEXT_BASE)


@pytest.mark.parametrize("rounds", [1, 2, 3, 4])
def test_a_fault_names_the_instruction_in_every_round(rounds: int) -> None:
    walk = "r0 = 0\nr0 += 1\n*(u8 *)(r1 +0) = 7\nr1 += 1\ngoto pc-4"
    outcome = run(walk, rounds)
    assert isinstance(outcome, Fault)
    assert (outcome.slot, outcome.text, outcome.steps) == (2, "*(u8 *)(r1 +0) = 7", 1 + 4 * rounds + 2)
    assert f"offset {rounds} in memory of {rounds} bytes" in outcome.reason


@pytest.mark.parametrize("read", ["r0 = r3", "if r3 == 0x1 goto pc+0", "*(u64 *)(r1 +0) = r3", "r0 = *(u8 *)(r3 +0)"])
def test_a_register_that_a_call_empties_between_two_rounds(read: str) -> None:
    outcome = run(f"r3 = r1\nr6 = r1\n{read}\ncall 5\nr1 = r6\ngoto pc-4", 8)
    assert isinstance(outcome, Fault)
    assert (outcome.slot, outcome.reason, outcome.steps) == (2, "r3 is read but holds nothing", 7)


@pytest.mark.parametrize("limit", range(1, 12))
def test_a_limit_is_exact_in_every_round(limit: int) -> None:
    outcome = run("r0 = 0\nr0 += 1\nif r0 != 0x63 goto pc-2\nexit", limit=limit)
    assert isinstance(outcome, Limit)
    assert (outcome.slot, outcome.steps) == (limit if limit < 3 else 1 + (limit - 1) % 2, limit)


def test_a_limit_is_exact_in_code_that_runs_once() -> None:
    program = Program("long", (MOV_R0, *[Insn(0x07, 0, imm=1)] * 50_000, EXIT))
    assert Machine(limit=50_000).run(program) == Limit("long", 50_000, "r0 += 1", 50_000)
    assert Machine(limit=50_001).run(program) == Limit("long", 50_001, "exit", 50_001)
    assert Machine(limit=50_002).run(program) == Returned(50_000, 50_002)


def test_a_trace_of_three_rounds() -> None:
    steps: list[Step] = []
    program = assembly.load("r0 = 3\nr0 += -1\nif r0 != 0x0 goto pc-2\nexit", "test", {}).programs[0]
    assert Machine(trace=steps.append).run(program) == Returned(0, 8)
    assert [(step.slot, step.text, step.changed) for step in steps] == [
        (0, "r0 = 3", {0: 3}),
        (1, "r0 += -1", {0: 2}),
        (2, "if r0 != 0x0 goto pc-2", {}),
        (1, "r0 += -1", {0: 1}),
        (2, "if r0 != 0x0 goto pc-2", {}),
        (1, "r0 += -1", {0: 0}),
        (2, "if r0 != 0x0 goto pc-2", {}),
        (3, "exit", {}),
    ]


def test_registers_of_the_function_that_runs() -> None:
    seen: list[tuple[int | None, ...]] = []
    machine = Machine(trace=lambda step: seen.append(machine.registers[:3]))
    program = assembly.load("r0 = 1\nr2 = 9\ncall f\nexit\nf:\nr0 = r2\nexit", "test", {}).programs[0]
    assert machine.registers == ()
    assert machine.run(program, 5) == Returned(9, 6)
    assert seen == [(1, 5, None), (1, 5, 9), (1, 5, 9), (9, 5, 9), (9, 5, 9), (9, None, None)]
    assert machine.registers == ()


def test_a_hole_is_one_in_every_run() -> None:
    machine, program = Machine(), Program("gotox", (MOV_R0, Insn(0x0D), EXIT))
    for _ in range(3):
        with pytest.raises(Unsupported, match="JA, X, JMP"):
            machine.run(program)


SECONDS = (Insn(0), Insn(0, imm=7), Insn(0, 1), Insn(0, src=1), Insn(0, off=1), Insn(7), None)


@pytest.mark.parametrize("form", [Form.OBJECT, Form.XLATED])
def test_what_is_no_valid_instruction_is_a_fault_and_nothing_else_is(form: Form) -> None:
    """Each form's first instruction with one field changed; wide ones with each second slot, and none."""
    loaded, judged = form is Form.XLATED, 0
    for row in FORMS:
        insn = first_of(row)
        for dst, src, off, imm in product((insn.dst, 10, 11), (insn.src, 9), (insn.off, 1), (insn.imm, 1)):
            changed = Insn(row.opcode, dst, src, off, imm)
            for second in SECONDS if row.opcode == WIDE else (EXIT,):
                insns = (changed,) if second is None else (changed, second, EXIT)
                why = why_invalid(insns, 0, loaded=loaded)
                try:
                    outcome = Machine(limit=1).run(Program("one", insns, form=form), 1)
                except Unsupported:
                    assert why is None
                    continue
                invalid = isinstance(outcome, Fault) and outcome.reason.startswith("no valid instruction")
                assert invalid == (why is not None), changed
                if isinstance(outcome, Fault) and invalid:
                    assert outcome.reason == f"no valid instruction: {why}"
                judged += invalid
    assert judged > 1000


@pytest.mark.parametrize("insn", [Insn(0x07, 0, imm=1), Insn(0x15), Insn(0x85, imm=7)], ids=["add", "jump", "call"])
def test_code_that_runs_once_leaves_nothing_behind(insn: Insn) -> None:
    program, machine = Program("long", (MOV_R0, *[insn] * 10_000, EXIT)), Machine(limit=30_000)
    if insn.opcode == 0x85:  # get_prandom_u32
        program = Program("long", (*[insn] * 10_000, EXIT))
    machine.run(Program("small", (MOV_R0, insn, EXIT)))
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        assert isinstance(machine.run(program), Returned)
        kept = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert kept < 20 * len(program.insns)  # bytes: a list has 8 a slot, a function over 100
