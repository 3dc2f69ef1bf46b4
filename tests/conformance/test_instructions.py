"""One suite for every way to run an instruction: a step over ints, a step over terms, the machine.

The expected values are in tests/vectors/, worked out by hand; every row of every table has one.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import pytest
import z3
from instruction_vectors import Vector, load, vectors

from model.bits import IntBits
from model.errors import Unsupported
from model.isa.forms import FORMS, Form
from model.isa.insn import Insn
from model.isa.opcodes import Imm64
from model.isa.parse import parse_insn
from model.loaders import assembly
from model.machine.machine import Machine
from model.machine.outcome import Fault, Returned
from model.machine.regions import CONTEXT_BASE, Region, Regions
from model.memory import Cells
from model.program import Program
from model.semantics import alu, atomic, endian, jump, load_store
from model.semantics.bind import bind
from model.semantics.load_store import Packet
from model.semantics.operation import Address
from model.semantics.step import ENDED, State, step
from proofs.symbolic import TermBits

LITTLE, BIG = vectors("instructions.toml"), vectors("big_endian.toml")
PACKET = load("packet.toml")
PROGRAMS = load("programs.toml")["program"]
BASE = 0x100000000
START = 10


class Around:
    """Surroundings over any words."""

    def __init__(self, bits: Any, order: Literal["little", "big"] = "little") -> None:
        self.bits = bits
        self.order: Literal["little", "big"] = order

    def frame(self, depth: int) -> Any:
        return self.bits.const(0x7000 + 0x1000 * depth)

    def packet(self) -> Packet[Any]:
        return Packet(*map(self.bits.const, (BASE, len(PACKET["packet"]) // 2, 14, 0)))

    def address(self, load: Address) -> Any:
        return self.bits.const((load.kind << 32) + load.imm)

    def this_cpu(self, pointer: Any) -> Any:
        return self.bits.add(pointer, self.bits.const(0x1000))

    def may_goto(self, state: Any) -> Any:
        return self.bits.eq(state.registers[1], self.bits.const(0))


def number(word: Any) -> int:
    return word if isinstance(word, int) else int(z3.simplify(word).as_long())


def true(condition: Any) -> bool:
    return condition if isinstance(condition, bool) else z3.is_true(z3.simplify(condition))


def cells(bits: Any, data: bytes, order: Literal["little", "big"] = "little") -> Cells[Any, Any]:
    byte = bits.at(8)
    written = tuple((bits.const(BASE + i), byte.const(value)) for i, value in enumerate(data))
    return Cells(bits, lambda address: byte.const(0xEE), written, order)


def one_step(bits: Any, state: State[Any, Any], insns: tuple[Insn, ...], around: Around) -> State[Any, Any]:
    """The one successor whose guard holds."""

    def call(*_: Any) -> Any:
        raise AssertionError("no calls here")

    insn, high = insns[0], insns[1].imm if len(insns) > 1 else 0
    imm = bits.at(32).const(insn.imm)
    found = [s for s in step(bits, state, insn, imm, call, high=high, around=around) if true(s.guard)]
    assert len(found) == 1
    return found[0]


def by_step(
    make_bits: Callable[[int], Any], vector: Vector, order: Literal["little", "big"]
) -> tuple[dict[int, int], bytes, int | None]:
    bits = make_bits(64)
    registers: list[Any] = [None] * 13
    for register, value in vector.registers.items():
        registers[register] = bits.const(value)
    for register, offset in vector.pointers.items():
        registers[register] = bits.const(BASE + offset)
    start = State(tuple(registers), cells(bits, vector.memory, order), START, bits.true())
    end = one_step(bits, start, vector.insns, Around(bits, order))
    after = {i: number(word) for i, word in enumerate(end.registers) if word is not None}
    memory: Any = end.memory
    data = bytes(number(memory.load(bits.const(BASE + i), 1)) for i in range(len(vector.memory)))
    return after, data, None if end.slot == ENDED else end.slot - START - 1


def by_machine(
    vector: Vector, order: Literal["little", "big"], *, runs: int = 1
) -> tuple[dict[int, int], bytes, int | None]:
    """The instruction between others that show where it went on: each slot behind it stores its own number and ends.

    What is seen is the last of the runs: in the second a slot's function is kept, in the third it runs again.
    """
    memory = Regions(order)
    region = memory.add(Region("memory", BASE, bytearray(vector.memory)))
    seen: list[dict[int, int | None]] = []
    registers: dict[int, int] = dict(vector.registers)
    registers.update({register: BASE + offset for register, offset in vector.pointers.items()})
    loads: list[Insn] = []
    for register, value in registers.items():
        low, high = value & 0xFFFFFFFF, value >> 32
        loads += [Insn(0x18, register, imm=low - (low >> 31 << 32)), Insn(0, imm=high - (high >> 31 << 32))]
    program = [*loads, Insn(0x05, off=2), Insn(0xB7, 8, imm=1), Insn(0x95), *vector.insns]
    here = len(loads) + 3
    program += [Insn(0x85, imm=9999)] * 8
    machine = Machine(memory=memory, limit=len(registers) + 3, trace=lambda done: seen.append(done.changed))
    whole = Program("vector", tuple(program))
    for _ in range(runs):
        seen.clear()
        region.data[:] = vector.memory
        outcome = machine.run(whole)
    after = dict(registers)
    for changed in seen:
        after.update({register: value for register, value in changed.items() if value is not None})
    if isinstance(outcome, Returned):
        return after, bytes(region.data), None
    assert not isinstance(outcome, Fault) or outcome.slot != here, outcome
    return after, bytes(region.data), outcome.slot - here - 1


WAYS: dict[str, Any] = {
    "ints": partial(by_step, IntBits),
    "terms": partial(by_step, TermBits),
    "machine": by_machine,
    "machine, third run": partial(by_machine, runs=3),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("vector", LITTLE, ids=lambda vector: vector.name)
def test_little_endian(way: str, vector: Vector) -> None:
    check(way, vector, "little")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("vector", BIG, ids=lambda vector: vector.name)
def test_big_endian(way: str, vector: Vector) -> None:
    check(way, vector, "big")


def check(way: str, vector: Vector, order: Literal["little", "big"]) -> None:
    registers, memory, goes = WAYS[way](vector, order)
    base = {register: BASE + offset for register, offset in vector.pointers.items()}
    assert registers == vector.registers | base | vector.changed
    assert memory == vector.memory_after
    assert goes == vector.goes


@pytest.mark.parametrize("make_bits", [IntBits, TermBits])
@pytest.mark.parametrize("row", PACKET["rows"], ids=lambda row: " ".join(row[:2]))
def test_packet_loads(make_bits: Any, row: list[str]) -> None:
    bits, (text, index, expected) = make_bits(64), row
    registers: list[Any] = [None, *[bits.const(1)] * 5, bits.const(BASE), bits.const(int(index, 16)), *[None] * 3]
    start = State(tuple(registers), cells(bits, bytes.fromhex(PACKET["packet"])), START, bits.true())
    end = one_step(bits, start, (parse_insn(text).insn,), Around(bits))
    assert number(end.registers[0]) == (0 if expected == "end" else int(expected, 16))
    assert end.slot == (ENDED if expected == "end" else START + 1)
    assert end.registers[1:6] == (None,) * 5


@pytest.mark.parametrize("row", PACKET["rows"], ids=lambda row: " ".join(row[:2]))
def test_packet_loads_on_the_machine(row: list[str]) -> None:
    text, index, expected = row
    data = bytes.fromhex(PACKET["packet"])
    machine = Machine(context=CONTEXT_BASE, packet=Packet(CONTEXT_BASE, len(data), 14, 0))
    machine.memory.add(Region("packet", CONTEXT_BASE, bytearray(data)))
    value = int(index, 16)
    low, high = value & 0xFFFFFFFF, value >> 32
    wide = (Insn(0x18, 7, imm=low - (low >> 31 << 32)), Insn(0, imm=high - (high >> 31 << 32)))
    mark = (Insn(0xB7, 8, imm=1), Insn(0x67, 8, imm=40), Insn(0x4F, 0, 8), Insn(0x95))
    program = Program("packet", (Insn(0xBF, 6, 1), *wide, parse_insn(text).insn, *mark))
    outcome = machine.run(program, CONTEXT_BASE)
    assert isinstance(outcome, Returned)
    assert outcome.value == (0 if expected == "end" else 1 << 40 | int(expected, 16))


@pytest.mark.parametrize("row", PROGRAMS, ids=lambda row: row["name"])
def test_programs(row: dict[str, Any]) -> None:
    program = assembly.load(row["text"], row["name"], {}).programs[0]
    machine = Machine()
    data = bytes.fromhex(row.get("mem", ""))
    machine.memory.add(Region("memory", CONTEXT_BASE, bytearray(data)))
    outcome = machine.run(program, CONTEXT_BASE, len(data))
    if "fault" in row:
        slot, reason = row["fault"]
        assert isinstance(outcome, Fault)
        assert outcome.slot == slot
        assert reason in outcome.reason
    else:
        assert isinstance(outcome, Returned)
        assert outcome.value == row["r0"]


NOT_MODELLED = {  # form -> why there is no meaning
    "{ADDR_SPACE_CAST 0, 1, X, ALU64}": "arenas",
    "{ADDR_SPACE_CAST 1, 0, X, ALU64}": "arenas",
    "{JA, X, JMP}": "instruction array maps",
    "{MEM, DW, LDX} argument": "arguments on the stack",
    "{MEM, DW, STX} argument": "arguments on the stack",
    "{MEM, DW, ST} argument": "arguments on the stack",
}
ELSEWHERE = {  # form -> the test that has its vector
    "{CALL, K, JMP} 0": test_programs,
    "{CALL, K, JMP} 1": test_programs,
    "{JCOND, K, JMP}": test_programs,
    **{form.name: test_packet_loads for form in FORMS if form.name.startswith(("{ABS", "{IND"))},
}
ASKED = {form.name for form in FORMS if form.name.startswith("{IMM, DW, LD}") and not form.name.endswith("} 0")}
CALLS_OUTSIDE = {"{CALL, K, JMP} 2", "{TAIL_CALL, K, JMP}"}  # tests/model/machine/test_calls.py


def test_every_form_of_an_object_has_a_vector() -> None:
    have = {vector.form for vector in LITTLE} | set(NOT_MODELLED) | set(ELSEWHERE) | ASKED | CALLS_OUTSIDE
    assert {form.name for form in FORMS if not form.loaded} - have == set()


def test_every_row_of_every_table_has_a_vector() -> None:
    used: set[tuple[str, Any]] = set()
    tables: dict[str, list[Any]] = {
        "alu": list(alu.table()),
        "endian": list(endian.table()),
        "jump": list(jump.table()),
        "loads": list(load_store.loads()),
        "atomic": list(atomic.table()),
    }
    for vector in LITTLE:
        insn = vector.insns[0]
        klass = insn.opcode & 7
        if klass in (4, 7) and insn.opcode >> 4 != 0xD:
            used.add(("alu", (insn.opcode & 0xF0, insn.off)))
        elif klass in (4, 7):
            used.add(("endian", (klass, insn.opcode >> 3 & 1)))
        elif klass in (5, 6):
            used.add(("jump", insn.opcode & 0xF0))
        elif klass == 1:
            used.add(("loads", insn.opcode >> 5))
        elif klass == 3 and insn.opcode >> 5 == 6:
            used.add(("atomic", insn.imm & ~1))
    assert {(name, row) for name, table in tables.items() for row in table} - used == set()


def first(form: Form) -> Insn:
    """The form's first instruction, in the order of its fields' values."""
    fields = (form.dst, form.src, form.off, form.imm)
    return Insn(form.opcode, *(0 if 0 in values else min(values) for values in fields))


UNUSUAL = [form for form in FORMS if form.loaded or form.name in NOT_MODELLED]
MEANT = {"{ADDR_PERCPU, X, ALU64}", "{ZEXT, X, ALU}", "{TAIL_CALL, K, JMP}", "{NOSPEC, W, ST}"}


@pytest.mark.parametrize("form", UNUSUAL, ids=lambda form: form.name)
def test_what_has_no_meaning_says_so_by_name(form: Form) -> None:
    bits, insn = IntBits(64), first(form)
    if form.name in MEANT or form.name.endswith("dumped"):
        bind(bits, insn, insn.imm)
    else:
        with pytest.raises(Unsupported) as hole:
            bind(bits, insn, insn.imm)
        assert form.name.partition("}")[0] in str(hole.value)


@pytest.mark.parametrize("make_bits", [IntBits, TermBits])
def test_forms_that_ask_what_is_around(make_bits: Any) -> None:
    bits = make_bits(64)
    start = State(tuple(bits.const(i) for i in range(11)), cells(bits, b""), START, bits.true())
    for kind in Imm64:
        if kind is not Imm64.INTEGER:
            end = one_step(bits, start, (Insn(0x18, 3, kind, 0, 7), Insn(0)), Around(bits))
            assert number(end.registers[3]) == (kind << 32) + 7
            assert end.slot == START + 2
    percpu = one_step(bits, start, (Insn(0xBF, 3, 2, -1),), Around(bits))
    assert number(percpu.registers[3]) == 0x1002
    nothing = one_step(bits, start, (Insn(0xC2),), Around(bits))
    assert [number(word) for word in nothing.registers] == list(range(11))
    moved = one_step(bits, start, (Insn(0xBC, 3, 2, 0, 1),), Around(bits))
    assert number(moved.registers[3]) == 2


@pytest.mark.parametrize("make_bits", [IntBits, TermBits])
def test_calls_in_a_step(make_bits: Any) -> None:
    bits = make_bits(64)
    start = State(tuple(bits.const(i) for i in range(11)), cells(bits, b""), START, bits.true())
    inside = one_step(bits, start, (Insn(0x85, 0, 1, 0, 5),), Around(bits))
    assert inside.slot == START + 6
    assert [None if word is None else number(word) for word in inside.registers] == [
        *[None, 1, 2, 3, 4, 5],
        *[None, None, None, None, 0x8000],
    ]
    back = one_step(bits, inside.put(0, bits.const(77)), (Insn(0x95),), Around(bits))
    assert back.slot == START + 1
    assert [None if word is None else number(word) for word in back.registers] == [
        *[77, None, None, None, None, None],
        *[6, 7, 8, 9, 10],
    ]
    goes_on = one_step(bits, start, (Insn(0xE5, off=3),), Around(bits))
    assert goes_on.slot == START + 1
    jumps = one_step(bits, start.put(1, bits.const(0)), (Insn(0xE5, off=3),), Around(bits))
    assert jumps.slot == START + 5
