"""Slots <-> bytes in both byte orders, and which slots are valid."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from isa_rows import Vector, vectors

from model.errors import InputError
from model.isa.codec import ByteOrder, check, decode, encode, form_of, why_invalid
from model.isa.forms import OBJECT_FORMS
from model.isa.insn import Insn

SLOTS = st.binary(min_size=8, max_size=8)
PROGRAMS = st.lists(SLOTS, max_size=8).map(b"".join)
OPCODES = [opcode for opcode, row in enumerate(OBJECT_FORMS) if row]
LIKELY_SLOTS = st.builds(
    Insn,
    st.sampled_from(OPCODES),
    st.integers(0, 15),
    st.integers(0, 15) | st.sampled_from([0, 1]),
    st.sampled_from([0, 1, 8, 16, 32, -1]) | st.integers(-(1 << 15), (1 << 15) - 1),
    st.sampled_from([0, 1, 16, 32, 64, 0x41, 0xE1, 0xF1, 0x100, 0x110]) | st.integers(-(1 << 31), (1 << 31) - 1),
)


def test_example_of_the_rfc() -> None:
    """RFC 9669, section 3.1: r1 += 0x11223344."""
    insn = Insn(0x07, dst=1, imm=0x11223344)
    assert encode((insn,), "little").hex() == "0701000044332211"
    assert encode((insn,), "big").hex() == "0710000011223344"
    assert decode(bytes.fromhex("0710000011223344"), "big") == (insn,)


@pytest.mark.parametrize(
    ("data", "insn"),
    [
        ("7b1af8ff00000000", Insn(0x7B, 10, 1, -8, 0)),
        ("b7010000ffffffff", Insn(0xB7, 1, 0, 0, -1)),
        ("150200800000ff7f", Insn(0x15, 2, 0, -32768, 0x7FFF0000)),
        ("ffef00c0000000c0", Insn(0xFF, 15, 14, -16384, -(1 << 30))),
    ],
)
def test_fields(data: str, insn: Insn) -> None:
    assert decode(bytes.fromhex(data)) == (insn,)


@given(PROGRAMS, st.sampled_from(["little", "big"]))
def test_every_slot_survives(data: bytes, byteorder: ByteOrder) -> None:
    assert encode(decode(data, byteorder), byteorder) == data


@given(SLOTS)
def test_byte_orders_differ_in_bytes_only(data: bytes) -> None:
    opcode, registers, off, imm = data[:1], data[1], data[2:4], data[4:]
    swapped = opcode + bytes([registers >> 4 | registers << 4 & 0xF0]) + off[::-1] + imm[::-1]
    assert decode(data, "little") == decode(swapped, "big")


@pytest.mark.parametrize("size", [1, 7, 9, 15])
def test_part_of_a_slot(size: int) -> None:
    with pytest.raises(InputError, match=rf"^a\.o: \.text: .*found {size} bytes$"):
        decode(bytes(size), file="a.o", place=".text")


@pytest.mark.parametrize(
    "insn", [Insn(0, dst=16), Insn(0, src=-1), Insn(256), Insn(0, off=1 << 15), Insn(0, imm=1 << 31)]
)
def test_fields_that_do_not_fit(insn: Insn) -> None:
    with pytest.raises(InputError, match="slot 0"):
        encode((insn,))


@pytest.mark.parametrize("vector", vectors(), ids=lambda vector: vector.text)
def test_vectors_are_valid_in_a_dump(vector: Vector) -> None:
    check(decode(vector.data), loaded=True)


INVALID = [
    # past faults: div or mod with off other than 0 or 1; reserved fields not zero
    ("3400020001000000", "offset is 2, not 0 or 1"),
    ("3f21080000000000", "offset is 8, not 0 or 1"),
    ("97030100000000009403ffff00000000", "offset is -1, not 0 or 1"),
    ("0f21010000000000", "reserved offset is 1, not 0"),
    ("0f21000001000000", "reserved immediate is 1, not 0"),
    ("0711000001000000", "reserved source is 1, not 0"),
    # moves: MOVSX is for registers, 32 bits of it for 64-bit moves only
    ("b701080001000000", "reserved offset is 8, not 0"),
    ("bc21200000000000", "{MOV, X, ALU}: offset is 32"),
    ("bf21070000000000", "{MOV, X, ALU64}: offset is 7"),
    ("bf21080001000000", "reserved immediate is 1, not 0"),
    ("bf21010002000000", "immediate is 2, not 1 or 65536"),
    ("bc21010001000000", "{MOV, X, ALU}: offset is 1"),
    # negation, byte swaps
    ("8c10000000000000", "unknown opcode 0x8c"),
    ("8701000001000000", "reserved immediate is 1"),
    ("d401000008000000", "immediate is 8, not 16 or 32 or 64"),
    ("d711000010000000", "reserved source is 1"),
    ("df01000010000000", "unknown opcode 0xdf"),
    # jumps
    ("0500010001000000", "reserved immediate is 1"),
    ("0501010000000000", "reserved destination is 1"),
    ("0600010001000000", "reserved offset is 1"),
    ("0e00000000000000", "unknown opcode 0x0e"),
    ("0d01010000000000", "reserved offset is 1"),
    ("0d11000000000000", "reserved source is 1"),
    ("1511010000000000", "reserved source is 1"),
    ("1d21010001000000", "reserved immediate is 1"),
    ("9500010000000000", "reserved offset is 1"),
    ("9501000000000000", "reserved destination is 1"),
    ("9600000000000000", "unknown opcode 0x96"),
    ("e501010000000000", "reserved destination is 1"),
    ("e500010001000000", "reserved immediate is 1"),
    # calls
    ("8530000001000000", "source is 3, not 0 or 1 or 2"),
    ("8501000001000000", "reserved destination is 1"),
    ("8500010001000000", "reserved offset is 1"),
    ("8520ffff01000000", "offset is -1, not 0 to 32767"),
    ("8d00000001000000", "unknown opcode 0x8d"),
    ("8600000001000000", "unknown opcode 0x86"),
    # loads and stores
    ("6121000001000000", "reserved immediate is 1"),
    ("9921000000000000", "unknown opcode 0x99"),
    ("6211000001000000", "reserved source is 1"),
    ("7b21000001000000", "reserved immediate is 1"),
    ("c321000002000000", "immediate is 2"),
    ("db210000e0000000", "immediate is 224"),
    ("cb21000000000000", "immediate is 0, not 256 or 272"),
    ("3001000000000000", "reserved destination is 1"),
    ("3010000000000000", "reserved source is 1"),
    ("5010010000000000", "reserved offset is 1"),
    ("3800000000000000", "unknown opcode 0x38"),
    # registers
    ("bf0b000000000000", "no register r11"),
    ("bfb0000000000000", "no register r11"),
    ("070f000001000000", "no register r15"),
    ("bf0a000000000000", "r10, the frame pointer, is read-only"),
    ("b40a000001000000", "r10, the frame pointer, is read-only"),
    ("792a000000000000", "r10, the frame pointer, is read-only"),
    ("dba1000001000000", "r10, the frame pointer, is read-only"),
    ("db1a000000010000", "r10, the frame pointer, is read-only"),
    ("79b1040000000000", "no register r11"),
    ("7b1b080000000000", "no register r11"),
    # 64-bit loads
    ("1801000000000000", "without its second slot"),
    ("18010000000000000700000000000000", "second slot of a 64-bit load: opcode 0x07, not 0"),
    ("18010000000000000001000000000000", "second slot of a 64-bit load: reserved destination is 1"),
    ("18010000000000000010000000000000", "second slot of a 64-bit load: reserved source is 1"),
    ("18010000000000000000010000000000", "second slot of a 64-bit load: reserved offset is 1"),
    ("18010100000000000000000000000000", "reserved offset is 1"),
    ("18710000000000000000000000000000", "source is 7"),
    ("180a0000000000000000000000000000", "r10, the frame pointer, is read-only"),
    ("18110000030000000000000001000000", "second immediate is 1"),
    ("18510000030000000000000001000000", "second immediate is 1"),
    ("18410000030000000000000001000000", "second immediate is 1"),
    ("0000000000000000", "unknown opcode 0x00"),
    ("ff00000000000000", "unknown opcode 0xff"),
    # what only the kernel makes
    ("bf21ffff00000000", "{MOV, X, ALU64}: offset is -1"),
    ("bc11000001000000", "reserved immediate is 1"),
    ("2121080000000000", "made by the kernel only"),
    ("c200000000000000", "made by the kernel only"),
    ("f500000000000000", "made by the kernel only"),
    ("e510010000000000", "source is 1"),
    ("8510010002000000", "reserved offset is 1"),
]


@pytest.mark.parametrize(("data", "why"), INVALID, ids=lambda value: value)
def test_invalid_slots(data: str, why: str) -> None:
    insns = decode(bytes.fromhex(data))
    with pytest.raises(InputError) as caught:
        check(insns, loaded=False, file="a.o", place=".text")
    assert why in str(caught.value)
    slot = int(str(caught.value).split("slot ")[1].split(":")[0])
    assert str(caught.value).startswith(f"a.o: .text, slot {slot}: a valid instruction, found ")
    assert bytes.fromhex(data)[8 * slot : 8 * slot + 8].hex(" ") in str(caught.value)


INTERNAL = """
bf21ffff00000000 bc11000001000000 2121080000000000 c200000000000000 f500000000000000 f500000001000000 e510010008000000
8510010002000000 bf3b000000000000 bf3c000000000000 79abf0ff00000000 150b040000000000 170c000001000000 0fb3000000000000
"""


@pytest.mark.parametrize("data", INTERNAL.split())
def test_only_in_a_dump(data: str) -> None:
    insns = decode(bytes.fromhex(data))
    assert why_invalid(insns, 0, loaded=True) is None
    assert why_invalid(insns, 0, loaded=False) is not None


@pytest.mark.parametrize(
    "data", ["bf2d000000000000", "180b0000000000000000000000000000", "dbb1000001000000", "0db0000000000000"]
)
def test_hidden_registers_where_rewrites_have_none(data: str) -> None:
    """r13 is none; loads of 64 bits, atomic operations and gotox never have the scratch register."""
    assert why_invalid(decode(bytes.fromhex(data)), 0, loaded=True) is not None


def test_second_slot_is_valid_by_its_first() -> None:
    insns = decode(bytes.fromhex("18010000443322110000000088776655"))
    assert why_invalid(insns, 0, loaded=False) is None
    assert why_invalid(insns, 1, loaded=False) is None
    assert why_invalid(insns[1:], 0, loaded=False) == "unknown opcode 0x00"
    check(insns, loaded=False)


def test_dumped_callback_has_a_number_in_the_second_slot() -> None:
    insns = decode(bytes.fromhex("18420000050000000000000002000000"))
    assert why_invalid(insns, 0, loaded=True) is None


@given(LIKELY_SLOTS, st.booleans())
def test_check_why_and_form_agree(insn: Insn, loaded: bool) -> None:
    insns = (insn, Insn(0)) if insn.opcode == 0x18 else (insn,)
    why = why_invalid(insns, 0, loaded=loaded)
    assert (form_of(insn, loaded=loaded) is None) == (why is not None)
    if why is None:
        check(insns, loaded=loaded)
        assert decode(encode(insns)) == insns
    else:
        with pytest.raises(InputError):
            check(insns, loaded=loaded)


@given(LIKELY_SLOTS)
def test_what_an_object_may_hold_a_dump_may_hold(insn: Insn) -> None:
    assert form_of(insn, loaded=False) is None or form_of(insn, loaded=True) is not None


@given(PROGRAMS, st.booleans())
def test_check_ends_in_a_verdict(data: bytes, loaded: bool) -> None:
    insns = decode(data)
    reasons = [why_invalid(insns, slot, loaded=loaded) for slot in range(len(insns))]
    try:
        check(insns, loaded=loaded)
    except InputError:
        assert any(reasons)
    else:
        assert not any(reasons)
