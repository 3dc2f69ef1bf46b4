"""The kernel with maps: helpers through the map's table, operations by name, inlined lookups on laid-out objects."""

from functools import cache

import pytest

from model.errors import Unsupported
from model.facts import analyse
from model.isa.insn import Insn
from model.kernel.abi import ABIS
from model.kernel.data import load_release
from model.kernel.release import CType, Release
from model.loaders import assembly
from model.machine.layout import link, offset
from model.machine.machine import Machine
from model.machine.maps_kernel import MapsKernel
from model.machine.outcome import Fault, Outcome, Returned
from model.machine.regions import Regions
from model.program import Form, Program
from model.rewrite.config import Config
from model.rewrite.passes import rewrite
from model.rewrite.patch import Reloc


@cache
def release(name: str) -> Release:
    return load_release(name)


def program(text: str, name: str = "6.12") -> Program:
    return assembly.load(text, "test", release(name).helper_ids).programs[0]


def rewritten(before: Program, name: str = "6.12") -> Program:
    kernel = release(name)
    done = rewrite(before, analyse(before, kernel), kernel, Config())
    return link(done.after, done.relocs, kernel)


def value(outcome: Outcome) -> int:
    assert isinstance(outcome, Returned), outcome
    return outcome.value


INNER = """
.map inner array 4 8 2
.map outer {kind} 4 4 3 inner=inner
*(u32 *)(r10 -4) = 1
r1 = map[outer]
r2 = r10
r2 += -4
call map_lookup_elem
if r0 == 0 goto none
r1 = r0
r2 = r10
r2 += -4
call map_lookup_elem
if r0 == 0 goto none
r0 = *(u64 *)(r0 +0)
exit
none:
r0 = 77
exit
"""


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("kind", ["array_of_maps", "hash_of_maps"])
def test_a_lookup_in_a_looked_up_map(kind: str, after: bool) -> None:
    before = program(INNER.format(kind=kind))
    made = rewritten(before) if after else before
    assert len(made.insns) > len(before.insns) or not after
    memory = Regions()
    kernel = MapsKernel(memory, release("6.12"))
    machine = Machine(kernel, memory)
    assert value(machine.run(made)) == 77
    inner, outer = (kernel.map(map_) for map_ in before.maps)
    assert kernel.put_inner(outer, b"\1\0\0\0", inner) == 0
    assert value(machine.run(made)) == 0
    key, word = memory.place("key", b"\1\0\0\0"), memory.place("value", bytes(range(8)))
    assert kernel.operate(inner, "array_map_update_elem", key.base, word.base, 0) == 0
    assert value(machine.run(made)) == 0x0706050403020100


def test_maps_of_maps_that_are_full() -> None:
    made = program(INNER.format(kind="array_of_maps")), program(INNER.format(kind="hash_of_maps"))
    for found in made:
        kernel = MapsKernel(Regions(), release("6.12"))
        inner, outer = (kernel.map(map_) for map_ in found.maps)
        results = [kernel.put_inner(outer, bytes([number, 0, 0, 0]), inner) for number in range(4)]
        assert results == [0, 0, 0, -7]


DELETE = ".map m hash 4 8 2\n*(u32 *)(r10 -4) = 9\nr1 = map[m]\nr2 = r10\nr2 += -4\ncall map_delete_elem\nexit"


def direct_on(abi: str, **options: object) -> int:
    before = program(DELETE, "6.1")
    memory = Regions()
    kernel = MapsKernel(memory, release("6.1"), ABIS[abi], **options)  # type: ignore[arg-type]
    assert value(Machine(kernel, memory).run(before)) == 0xFFFFFFFFFFFFFFFE
    return value(Machine(kernel, memory).run(rewritten(before, "6.1")))


def test_an_int_result_is_left_as_the_abi_leaves_it() -> None:
    """Unspecified upper half on x86-64 and arm64, sign-extended by the callee elsewhere (`model.kernel.abi`)."""
    assert {abi: direct_on(abi) for abi in ("x86_64", "arm64", "riscv64", "s390x")} == {
        "x86_64": 0xFFFFFFFE,
        "arm64": 0xFFFFFFFE,
        "riscv64": 0xFFFFFFFFFFFFFFFE,
        "s390x": 0xFFFFFFFFFFFFFFFE,
    }


def test_the_upper_half_is_the_users_choice() -> None:
    def junk(low: int, ctype: CType) -> int:
        return low | 0xABCD << ctype.bits

    assert direct_on("x86_64", upper=junk) == 0xABCDFFFFFFFE


TAIL = """
.map programs prog_array 4 4 2
r6 = r1
r2 = map[programs]
r3 = 1
call 12
r0 = 5
exit
"""


def test_tail_calls_go_where_the_array_says() -> None:
    caller = program(TAIL)
    callee = Program("callee", (Insn(0xB7, imm=42), Insn(0x95)))
    memory = Regions()
    kernel = MapsKernel(memory, release("6.12"))
    machine = Machine(kernel, memory)
    assert value(machine.run(caller, 0)) == 5
    kernel.map(caller.maps[0]).programs[1] = callee
    assert value(machine.run(caller, 0)) == 42
    kernel.map(caller.maps[0]).programs[7] = callee
    assert value(machine.run(program(TAIL.replace("r3 = 1", "r3 = 7")), 0)) == 5


def test_the_value_of_a_one_element_array() -> None:
    text = ".map m array 4 16 1\nr1 = map[m][0]+8\n*(u64 *)(r1 +0) = 6\nr2 = map[m][0]+0\nr0 = *(u64 *)(r2 +8)\nexit"
    memory = Regions()
    assert value(Machine(MapsKernel(memory, release("6.12")), memory).run(program(text))) == 6
    wrong = program(text.replace("16 1", "16 2"))
    memory = Regions()
    assert isinstance(Machine(MapsKernel(memory, release("6.12")), memory).run(wrong), Fault)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "r1 = 5\nr2 = r10\nr2 += -4\n*(u32 *)(r2 +0) = 0\ncall map_lookup_elem\nexit",
            "0x5 is not the address of a map",
        ),
        (".map m hash 4 8 2\nr1 = map[m]\nr2 = r10\nr2 += -4\ncall map_lookup_elem\nexit", "uninitialised"),
        (".map m hash 4 8 2\nr1 = map[m]\nr2 = 0\ncall map_lookup_elem\nexit", "null pointer"),
        (".map m hash 4 8 2\nr1 = map[m]\n*(u8 *)(r1 +0) = 1\nexit", "map m is read-only"),
        (".map m array 4 8 2\nr1 = map[m]\nr0 = *(u64 *)(r1 +300)\nexit", "out of bounds"),
    ],
)
def test_faults(text: str, reason: str) -> None:
    memory = Regions()
    outcome = Machine(MapsKernel(memory, release("6.12")), memory).run(program(text))
    assert isinstance(outcome, Fault)
    assert reason in outcome.reason


def test_what_the_model_does_not_know() -> None:
    memory = Regions()
    kernel = MapsKernel(memory, release("6.12"))
    with pytest.raises(Unsupported):
        kernel.helper(14)
    with pytest.raises(Unsupported):
        kernel.symbol("tcp_v4_rcv")
    assert kernel.helper(9999) is None
    with pytest.raises(Unsupported):
        offset(release("6.12"), "struct bpf_map.name")


def test_linking_adds_to_what_is_there() -> None:
    before = Program("p", (Insn(0x07, 1, imm=8), Insn(0x71, 1, 0, 2), Insn(0x85)), form=Form.XLATED)
    relocs = {
        0: Reloc("offset", "struct bpf_array.value"),
        1: Reloc("displacement", "struct htab_elem.lru_node + struct bpf_lru_node.ref"),
        2: Reloc("call", "__htab_map_lookup_elem"),
    }
    after = link(before, relocs, release("6.12"))
    assert [(insn.imm, insn.off) for insn in after.insns] == [(264, 0), (0, 37), (0, 0)]


def test_helpers_that_need_no_map_know_the_cpu() -> None:
    memory = Regions()
    kernel = MapsKernel(memory, release("6.12"), cpus=4, cpu=3)
    assert value(Machine(kernel, memory).run(program("call 8\nexit"))) == 3


POP_INTO = """
.map from {kind} 0 8 2
.map to {into}
*(u64 *)(r10 -8) = 4242
r1 = map[from]
r2 = r10
r2 += -8
r3 = 0
call map_push_elem
*(u32 *)(r10 -12) = 0
*(u64 *)(r10 -24) = 1
r1 = map[to]
r2 = r10
r2 += -12
r3 = r10
r3 += -24
r4 = 0
call map_update_elem
r1 = map[to]
r2 = r10
r2 += -12
call map_lookup_elem
if r0 == 0 goto none
r6 = r0
r1 = map[from]
r2 = r6
call map_pop_elem
r0 = *(u64 *)(r6 +0)
none:
exit
"""


@pytest.mark.parametrize("into", ["array 4 8 1", "percpu_array 4 8 1", "hash 4 8 3", "lru_hash 4 8 3"])
@pytest.mark.parametrize("kind", ["queue", "stack"])
def test_a_value_is_popped_into_another_maps_value(kind: str, into: str) -> None:
    """The operation writes where the program says; that is no element of the map that it is done on."""
    before = program(POP_INTO.format(kind=kind, into=into))
    for side in (before, rewritten(before)):
        memory = Regions()
        assert value(Machine(MapsKernel(memory, release("6.12")), memory).run(side, 0)) == 4242
