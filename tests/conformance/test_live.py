"""The same vectors on the running kernel: loaded, test-run, unloaded. Skipped where bpf(2) is not permitted."""

from collections.abc import Iterator
from dataclasses import replace
from struct import pack, unpack
from typing import Any

import pytest
from instruction_vectors import Vector, load, vectors

from model.isa.insn import Insn
from model.isa.opcodes import CALL, GOTO, GOTOL, WIDE
from model.isa.parse import parse_insn
from model.loaders import assembly
from model.loaders.live import Live, ProgramType, Refused, why_not

ARRAY = 2
MEMORY, BEFORE, AFTER, MARK, SIZE = 0, 64, 160, 256, 264
VALUE = 9  # the register that holds the address of the map's value
EXIT = Insn(0x95)
VECTORS = vectors("instructions.toml")
PACKET = load("packet.toml")
PROGRAMS = [row for row in load("programs.toml")["program"] if "r0" in row and row.get("live", True)]

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def permitted() -> None:
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)


@pytest.fixture
def live(permitted: None) -> Iterator[Live]:
    with Live() as session:
        yield session


def wide(register: int, value: int, source: int = 0) -> list[Insn]:
    halves = [half - (half >> 31 << 32) for half in (value & 0xFFFFFFFF, value >> 32)]
    return [Insn(WIDE, register, source, imm=halves[0]), Insn(0, imm=halves[1])]


def around(vector: Vector, value: int) -> list[Insn]:
    """The vector's registers are read from the map, so that the verifier does not know them, and written back to it."""
    insns = wide(VALUE, value, source=2)
    insns += [Insn(0x79, register, VALUE, BEFORE + 8 * register) for register in vector.registers]
    for register, offset in vector.pointers.items():
        insns += [Insn(0xBF, register, VALUE), Insn(0x07, register, imm=offset)]
    insn = vector.insns[0]
    if vector.goes is None:
        return [*insns, insn]
    insns.append(Insn(0x7A, VALUE, off=MARK, imm=2))
    if insn.opcode in (GOTO, GOTOL):  # the kernel wants a way to every instruction, if only on paper
        insns.append(Insn(0x15, VALUE, off=1))
    if insn.opcode & 7 in (5, 6):  # taken: the fall-through's mark is not written
        insns.append(replace(insn, imm=1) if insn.opcode == GOTOL else replace(insn, off=1))
    else:
        insns += vector.insns
    insns.append(Insn(0x7A, VALUE, off=MARK, imm=1))
    known = (vector.registers.keys() - vector.pointers.keys()) | vector.changed.keys()
    insns += [Insn(0x7B, VALUE, register, AFTER + 8 * register) for register in known]
    return [*insns, Insn(0xB7), EXIT]


def run_vector(live: Live, vector: Vector) -> None:
    """Runs the instruction there; what it changed and where it went must be what the vector says."""
    value = live.create_map(ARRAY, 4, SIZE, 1)
    held = bytearray(SIZE)
    held[MEMORY : MEMORY + len(vector.memory)] = vector.memory
    for register, word in vector.registers.items():
        held[BEFORE + 8 * register : BEFORE + 8 * register + 8] = pack("=Q", word)
    assert live.update(value, bytes(4), bytes(held)) == 0
    run = live.run(live.load(around(vector, value)), data=bytes(64))
    if vector.goes is None:
        assert run.result == vector.registers[0]
        return
    after = live.lookup(value, bytes(4), SIZE)
    assert isinstance(after, bytes)
    known = (vector.registers.keys() - vector.pointers.keys()) | vector.changed.keys()
    found = {i: unpack("=Q", after[AFTER + 8 * i : AFTER + 8 * i + 8])[0] for i in known}
    assert found == vector.registers | vector.changed
    assert after[MEMORY : MEMORY + len(vector.memory)] == vector.memory_after
    jumps = vector.insns[0].opcode & 7 in (5, 6) and (vector.goes != 0 or vector.insns[0].opcode == GOTO)
    assert unpack("=Q", after[MARK:])[0] == (2 if jumps else 1)


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector.name)
def test_instruction(live: Live, vector: Vector) -> None:
    run_vector(live, vector)


@pytest.mark.parametrize("row", PACKET["rows"], ids=lambda row: " ".join(row[:2]))
def test_packet_load(live: Live, row: list[str]) -> None:
    text, index, expected = row
    value = live.create_map(ARRAY, 4, 16, 1)
    store = [Insn(0x7B, VALUE, 0, 0), Insn(0x7A, VALUE, off=8, imm=1), Insn(0xB7), EXIT]
    insns = [Insn(0xBF, 6, 1), *wide(VALUE, value, source=2), *wide(7, int(index, 16)), parse_insn(text).insn, *store]
    run = live.run(live.load(insns, ProgramType.SCHED_CLS), data=bytes.fromhex(PACKET["packet"]))
    after = live.lookup(value, bytes(4), 16)
    assert isinstance(after, bytes)
    assert run.result == 0
    assert unpack("=QQ", after) == ((0, 0) if expected == "end" else (int(expected, 16), 1))


def as_callee(insns: tuple[Insn, ...], value: int) -> list[Insn]:
    """The program as a function of another one that puts its 64 bits of r0 into the map and ends with 0."""
    rest = [*wide(1, value, source=2), Insn(0x7B, 1, 0, 0), Insn(0xB7), EXIT]
    return [Insn(CALL, 0, 1, imm=len(rest)), *rest, *insns]


@pytest.mark.parametrize("row", [row for row in PROGRAMS if "mem" not in row], ids=lambda row: row["name"])
def test_program(live: Live, row: dict[str, Any]) -> None:
    program = assembly.load(row["text"], row["name"], {}).programs[0]
    value = live.create_map(ARRAY, 4, 8, 1)
    insns = as_callee(program.insns, value)
    moved = len(insns) - len(program.insns)
    functions = {0: "main", moved: "entry"}
    functions |= {moved + part.start: part.name for part in program.subprograms if part.start}
    live.run(live.load(insns, functions=functions), data=bytes(64))
    after = live.lookup(value, bytes(4), 8)
    assert isinstance(after, bytes)
    assert unpack("=Q", after)[0] == row.get("live_r0", row["r0"])


def test_a_refusal_shows_the_verifiers_last_words(live: Live) -> None:
    with pytest.raises(Refused) as refused:
        live.load((Insn(0xBF, 0, 3), EXIT))
    assert "R3 !read_ok" in str(refused.value)


def test_nothing_stays_open(permitted: None) -> None:
    with Live() as session:
        fd = session.create_map(ARRAY, 4, 8, 1)
    with pytest.raises(Refused), Live() as session:
        session.run(fd, data=bytes(64))
