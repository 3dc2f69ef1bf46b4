"""The fields of an opcode against RFC 9669's example bytes and tables."""

import pytest

from model.isa.opcodes import Alu, Atomic, Class, Jmp, Mode, Size, Source, arithmetic, load_store


@pytest.mark.parametrize(
    ("klass", "code", "source", "opcode"),
    [
        (Class.ALU64, Alu.ADD, Source.K, 0x07),  # section 3.1's example
        (Class.ALU, Alu.XOR, Source.X, 0xAC),
        (Class.ALU64, Alu.END, Source.K, 0xD7),
        (Class.JMP, Jmp.CALL, Source.K, 0x85),
        (Class.JMP, Jmp.EXIT, Source.K, 0x95),
        (Class.JMP32, Jmp.JA, Source.K, 0x06),
        (Class.JMP32, Jmp.JSLE, Source.X, 0xDE),
    ],
)
def test_arithmetic_and_jump(klass: Class, code: Alu | Jmp, source: Source, opcode: int) -> None:
    assert arithmetic(klass, code, source) == opcode


@pytest.mark.parametrize(
    ("klass", "mode", "size", "opcode"),
    [
        (Class.LD, Mode.IMM, Size.DW, 0x18),
        (Class.LD, Mode.ABS, Size.H, 0x28),
        (Class.LD, Mode.IND, Size.B, 0x50),
        (Class.LDX, Mode.MEM, Size.DW, 0x79),
        (Class.LDX, Mode.MEMSX, Size.B, 0x91),
        (Class.ST, Mode.MEM, Size.W, 0x62),
        (Class.STX, Mode.MEM, Size.B, 0x73),
        (Class.STX, Mode.ATOMIC, Size.W, 0xC3),
        (Class.STX, Mode.ATOMIC, Size.DW, 0xDB),
    ],
)
def test_load_and_store(klass: Class, mode: Mode, size: Size, opcode: int) -> None:
    assert load_store(klass, mode, size) == opcode


def test_sizes_are_bytes() -> None:
    assert [(size.name, size.bytes) for size in Size] == [("W", 4), ("H", 2), ("B", 1), ("DW", 8)]


def test_exchanges_fetch() -> None:
    assert Atomic.XCHG == 0xE0 | 0x01
    assert Atomic.CMPXCHG == 0xF0 | 0x01
