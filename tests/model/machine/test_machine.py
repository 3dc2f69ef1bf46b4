"""Faults, limits and traces of the machine."""

from typing import Any

import pytest

from model.errors import Unsupported
from model.isa.insn import Insn
from model.loaders import assembly
from model.machine.machine import Machine, Step
from model.machine.outcome import Fault, Limit, Returned
from model.machine.regions import CONTEXT_BASE, Region
from model.program import Form, Program, Subprogram

EXIT = Insn(0x95)


def assemble(text: str) -> Program:
    return assembly.load(text, "test", {}).programs[0]


def test_the_step_limit_is_one_million_and_says_so() -> None:
    outcome = Machine().run(assemble("goto pc-1"))
    assert outcome == Limit("main", 0, "goto pc-1", 1_000_000)
    assert str(outcome) == "step limit: no end after 1,000,000 instructions, next is 0: goto pc-1"


@pytest.mark.parametrize(("limit", "expected"), [(2, Limit("main", 2, "exit", 2)), (3, Returned(1, 3))])
def test_a_program_may_take_all_the_steps_of_its_limit(limit: int, expected: object) -> None:
    assert Machine(limit=limit).run(assemble("r0 = 0\nr0 += 1\nexit")) == expected


def test_a_limit_counts_callees_and_callbacks() -> None:
    outcome = Machine(limit=100).run(assemble("call f\nexit\nf:\ngoto pc-1"))
    assert outcome == Limit("main", 2, "goto pc-1", 100)
    loops = "r1 = 1000\nr2 = subprog f\nr3 = 0\nr4 = 0\ncall 181\nexit\nf:\nr0 = 0\nexit"
    assert isinstance(Machine(limit=100).run(assemble(loops)), Limit)
    assert Machine(limit=2006).run(assemble(loops)) == Returned(1000, 2006)


def test_a_fault_names_the_instruction() -> None:
    outcome = Machine().run(assemble("r1 = 0\nr0 = *(u32 *)(r1 +4)\nexit"))
    assert outcome == Fault("main", 1, "r0 = *(u32 *)(r1 +4)", "4 bytes at 0x4: null pointer + 4", 2)
    assert str(outcome) == "fault at 1: r0 = *(u32 *)(r1 +4): 4 bytes at 0x4: null pointer + 4"


def test_read_only_memory() -> None:
    machine = Machine()
    machine.memory.add(Region("constants", CONTEXT_BASE, bytearray(8), writable=False))
    outcome = machine.run(assemble("*(u8 *)(r1 +0) = 1\nr0 = 0\nexit"), CONTEXT_BASE)
    assert isinstance(outcome, Fault)
    assert outcome.reason == "1 byte at 0xffff888100000000: constants is read-only"


@pytest.mark.parametrize(
    ("insns", "slot", "reason"),
    [
        ((Insn(0x8D), EXIT), 0, "no valid instruction: unknown opcode 0x8d"),
        ((Insn(0x05, off=1), Insn(0x18, 1), Insn(0), EXIT), 2, "no valid instruction: this is the second slot"),
        ((Insn(0x18, 1),), 0, "64-bit load without its second slot"),
        ((Insn(0x05, off=9), EXIT), 0, "jump to 10, outside of the function"),
        ((Insn(0x05, off=-2), EXIT), 0, "jump to -1, outside of the function"),
        ((Insn(0x15, 1, off=9, imm=1), EXIT), 0, "jump to 10, outside of the function"),
        ((Insn(0xB7, 10, imm=1), EXIT), 0, "r10, the frame pointer, is read-only"),
        ((Insn(0x37, 1, off=2, imm=1), EXIT), 0, "no valid instruction"),
        ((Insn(0x85, 0, 1, imm=5), EXIT), 0, "call of slot 6, where no function starts"),
    ],
)
def test_what_no_program_may_do(insns: tuple[Insn, ...], slot: int, reason: str) -> None:
    outcome = Machine().run(Program("bad", insns), 1)
    assert isinstance(outcome, Fault)
    assert (outcome.slot, reason in outcome.reason) == (slot, True), outcome


def test_a_jump_that_is_not_taken_may_lead_anywhere() -> None:
    insns = (Insn(0xB7), Insn(0x15, 0, off=99, imm=1), EXIT)
    assert Machine().run(Program("dead", insns)) == Returned(0, 3)


def test_jumps_stay_in_their_function() -> None:
    insns = (Insn(0x05, off=1), EXIT, Insn(0xB7), EXIT)
    parts = (Subprogram("main", 0, 2), Subprogram("f", 2, 4))
    outcome = Machine().run(Program("main", insns, subprograms=parts))
    assert isinstance(outcome, Fault)
    assert outcome.reason == "jump to 2, outside of the function"


def test_calls_begin_at_functions() -> None:
    insns = (Insn(0x85, 0, 1, imm=2), EXIT, Insn(0xB7), EXIT)
    parts = (Subprogram("main", 0, 2), Subprogram("f", 2, 4))
    outcome = Machine().run(Program("main", insns, subprograms=parts))
    assert isinstance(outcome, Fault)
    assert outcome.reason == "call of slot 3, where no function starts"


def test_what_only_rewrites_make_is_no_instruction_of_an_object() -> None:
    program = Program("nospec", (Insn(0xC2), Insn(0xB7), EXIT))
    assert isinstance(Machine().run(program), Fault)
    assert Machine().run(Program("nospec", program.insns, form=Form.XLATED)) == Returned(0, 3)


def test_a_hole_in_the_model_is_no_fault_of_the_program() -> None:
    with pytest.raises(Unsupported, match="JA, X, JMP"):
        Machine().run(Program("gotox", (Insn(0xB7), Insn(0x0D), EXIT)))


def test_a_trace_tells_each_instruction_and_its_changes() -> None:
    steps: list[Step] = []
    program = assemble("r1 = 5\ncall f\nexit\nf:\nr0 = r1\nr0 += 1\nexit")
    assert Machine(trace=steps.append).run(program) == Returned(6, 6)
    assert [(step.depth, step.slot, step.text, step.changed) for step in steps] == [
        (0, 0, "r1 = 5", {1: 5}),
        (0, 1, "call pc+1", {}),
        (1, 3, "r0 = r1", {0: 5}),
        (1, 4, "r0 += 1", {0: 6}),
        (1, 5, "exit", {}),
        (0, 2, "exit", {}),
    ]


def test_a_traced_run_is_the_same_run() -> None:
    text = "r0 = 0\nr1 = 0\nr0 += 3\nr1 += 1\nif r1 != 0x32 goto pc-3\nexit"
    traced: list[Any] = []
    plain = Machine().run(assemble(text))
    assert Machine(trace=traced.append).run(assemble(text)) == plain == Returned(150, 2 + 3 * 50 + 1)
    assert len(traced) == 153


def test_runs_are_the_same_every_time_and_leave_nothing_behind() -> None:
    machine = Machine()
    program = assemble("*(u64 *)(r10 -8) = 1\nr0 = r10\nexit")
    again = assemble("r0 = *(u64 *)(r10 -8)\nexit")
    first, second = machine.run(program), Machine().run(program)
    assert first == second
    assert isinstance(machine.run(again), Fault)


def test_a_long_program_of_which_little_runs() -> None:
    """Slots are bound when they are first reached: what is behind the exit need not even be valid."""
    insns = (Insn(0xB7), EXIT, *[Insn(0xFF)] * 100_000)
    assert Machine().run(Program("long", insns)) == Returned(0, 2)
