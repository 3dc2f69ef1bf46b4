"""Calls out of the program: helpers, kernel functions, callbacks, tail calls, through a kernel of the test's own."""

from dataclasses import replace

import pytest

from model.errors import Unsupported
from model.isa.insn import Insn
from model.isa.opcodes import Imm64
from model.loaders import assembly
from model.machine.kernel import Function, Running
from model.machine.machine import MAX_TAIL_CALLS, Machine
from model.machine.outcome import Fault, Returned
from model.machine.regions import CONTEXT_BASE, Region
from model.program import ExternRef, Form, MapRef, Program, SymbolRef
from model.semantics.operation import Address

EXIT = Insn(0x95)


def add(machine: Running, arguments: tuple[int, ...]) -> int:
    return arguments[0] + arguments[1]


def nothing(machine: Running, arguments: tuple[int, ...]) -> None:
    return None


def minus_one(machine: Running, arguments: tuple[int, ...]) -> int:
    return -1


def twice(machine: Running, arguments: tuple[int, ...]) -> int:
    return machine.callback(arguments[0], 5) + machine.callback(arguments[0], 6)


class Kernel:
    def __init__(self) -> None:
        self.helpers = {
            1: Function("bpf_add", 2, add),
            2: Function("bpf_nothing", 0, nothing),
            3: Function("bpf_minus_one", 0, minus_one),
            4: Function("bpf_twice", 1, twice),
        }
        self.programs: dict[int, Program] = {}
        self.asked: list[tuple[int, Imm64]] = []
        self.array = 0

    def helper(self, number: int) -> Function | None:
        return self.helpers.get(number)

    def symbol(self, name: str) -> Function | None:
        return next((f for f in self.helpers.values() if f.name == name), None)

    def address(self, program: Program, slot: int, load: Address) -> int | None:
        self.asked.append((slot, load.kind))
        return 0x1234 if isinstance(program.refs.get(slot), MapRef) else None

    def tail_call(self, program_array: int, index: int) -> Program | None:
        assert program_array == self.array
        return self.programs.get(index)

    def this_cpu(self, pointer: int) -> int:
        return pointer + 0x100


def assemble(text: str) -> Program:
    return assembly.load(text, "test", {}).programs[0]


def value(outcome: object) -> int:
    assert isinstance(outcome, Returned), outcome
    return outcome.value


def reason(outcome: object) -> tuple[int, str]:
    assert isinstance(outcome, Fault), outcome
    return outcome.slot, outcome.reason


def test_helpers_by_number_in_an_object() -> None:
    assert value(Machine(Kernel()).run(assemble("r1 = -1\nr2 = 3\ncall 1\nexit"))) == 2
    assert value(Machine(Kernel()).run(assemble("call 3\nexit"))) == 0xFFFFFFFFFFFFFFFF


def test_an_argument_that_holds_nothing() -> None:
    assert reason(Machine(Kernel()).run(assemble("r1 = 1\ncall 1\nexit"))) == (1, "r2 is read but holds nothing")


def test_a_helper_without_a_result_leaves_r0_unreadable() -> None:
    assert reason(Machine(Kernel()).run(assemble("r0 = 1\ncall 2\nexit"))) == (2, "r0 is read but holds nothing")


def test_functions_by_name_after_the_rewrite() -> None:
    program = replace(assemble("r1 = 1\nr2 = 3\ncall 143680\nexit"), form=Form.XLATED, refs={2: SymbolRef("bpf_add")})
    assert value(Machine(Kernel()).run(program)) == 4
    unknown = replace(program, refs={2: SymbolRef("bpf_other")})
    assert reason(Machine(Kernel()).run(unknown)) == (2, "bad call: the kernel that runs this has no bpf_other")
    with pytest.raises(Unsupported, match="143680, whose name is not known"):
        Machine(Kernel()).run(replace(program, refs={}))


def test_kernel_functions_by_name() -> None:
    insns = (Insn(0xB7, 1, imm=1), Insn(0xB7, 2, imm=3), Insn(0x85, 0, 2, 0, 7), EXIT)
    program = Program("kfunc", insns, refs={2: ExternRef("bpf_add", "kfunc")})
    assert value(Machine(Kernel()).run(program)) == 4
    with pytest.raises(Unsupported, match="7, whose name is not known"):
        Machine(Kernel()).run(replace(program, refs={}))


CALLBACK = """
r1 = subprog each
r6 = 100
call 4
r0 += r6
exit
each:
r6 = r1
r0 = r6
r0 *= 10
exit
"""


def test_callbacks_run_in_a_frame_of_their_own() -> None:
    assert value(Machine(Kernel()).run(assemble(CALLBACK))) == 210


def test_a_callback_inside_of_a_function_is_a_bad_call() -> None:
    program = assemble(CALLBACK)
    insns = list(program.insns)
    insns[0] = replace(insns[0], imm=insns[0].imm + 1)
    slot, why = reason(Machine(Kernel()).run(replace(program, insns=tuple(insns))))
    assert slot == 3
    assert "where no function of the program starts" in why


def test_what_a_callback_does_wrong_names_its_own_instruction() -> None:
    program = assemble("r1 = subprog each\ncall 4\nexit\neach:\nr0 = r2\nexit")
    assert reason(Machine(Kernel()).run(program)) == (4, "r2 is read but holds nothing")


def test_callbacks_that_call_back_end_at_eight_frames() -> None:
    program = assemble("r1 = subprog each\ncall 4\nexit\neach:\nr1 = subprog each\ncall 4\nexit")
    slot, why = reason(Machine(Kernel()).run(program))
    assert slot == 6
    assert "8 frames" in why


def tail(kernel: Kernel, index: int) -> Program:
    text = f"r6 = 1\nr7 = r1\nr2 = {kernel.array}\nr3 = {index}\ncall 12\nr0 = 77\nexit"
    return assemble(text)


def test_a_tail_call_goes_on_as_the_other_program() -> None:
    kernel = Kernel()
    kernel.programs[3] = assemble("r0 = *(u8 *)(r1 +0)\nexit")
    machine = Machine(kernel)
    machine.memory.add(Region("context", CONTEXT_BASE, bytearray(b"\x2a")))
    assert value(machine.run(tail(kernel, 3), CONTEXT_BASE)) == 42
    assert value(machine.run(tail(kernel, 4), CONTEXT_BASE)) == 77


def test_a_tail_call_hands_over_nothing_but_the_context() -> None:
    kernel = Kernel()
    kernel.programs[3] = assemble("r0 = r6\nexit")
    assert reason(Machine(kernel).run(tail(kernel, 3), 1)) == (0, "r6 is read but holds nothing")


def test_the_index_of_a_tail_call_has_32_bits() -> None:
    kernel = Kernel()
    kernel.programs[0xFFFFFFFF] = assemble("r0 = 5\nexit")
    assert value(Machine(kernel).run(tail(kernel, -1), 1)) == 5


def test_tail_calls_end_after_33() -> None:
    kernel = Kernel()
    kernel.programs[0] = tail(kernel, 0)
    machine = Machine(kernel)
    assert value(machine.run(kernel.programs[0], 1)) == 77
    assert machine.steps == 5 * (MAX_TAIL_CALLS + 1) + 2


def test_the_tail_call_opcode_of_rewritten_programs() -> None:
    kernel = Kernel()
    kernel.programs[1] = assemble("r0 = 9\nexit")
    insns = (Insn(0xB7, 2), Insn(0xB7, 3, imm=1), Insn(0xF5), Insn(0xB7), EXIT)
    assert value(Machine(kernel).run(Program("tail", insns, form=Form.XLATED), 1)) == 9


def test_a_program_that_a_subprogram_tail_calls_returns_to_the_caller() -> None:
    kernel = Kernel()
    kernel.programs[1] = assemble("r0 = 9\nexit")
    program = assemble("r6 = 100\ncall f\nr0 += r6\nexit\nf:\nr2 = 0\nr3 = 1\ncall 12\nr0 = 0\nexit")
    assert value(Machine(kernel).run(program, 1)) == 109


def test_addresses_are_asked_of_the_kernel() -> None:
    kernel = Kernel()
    program = Program("map", (Insn(0x18, 0, 1), Insn(0), EXIT), refs={0: MapRef(0)})
    assert value(Machine(kernel).run(program)) == 0x1234
    assert kernel.asked == [(0, Imm64.MAP_FD)]
    assert reason(Machine(kernel).run(replace(program, refs={})))[0] == 0


def test_per_cpu_addresses_are_asked_of_the_kernel() -> None:
    insns = (Insn(0xB7, 1, imm=0x40), Insn(0xBF, 0, 1, -1), EXIT)
    assert value(Machine(Kernel()).run(Program("percpu", insns, form=Form.XLATED))) == 0x140
