"""Test files of bpf_conformance: sections and bytes in hex."""

import contextlib

import hypothesis.strategies as st
import pytest
from hypothesis import given

from model.errors import InputError
from model.loaders.conformance import Case, hex_bytes, load, looks_like

FILE = """# Copyright
-- asm
mov %r0, 1
exit
-- mem
aa bb 11 # three of four
cc
-- result
0x1
"""


def test_sections() -> None:
    case = load(FILE, "t.data")
    assert case == Case("\n\nmov %r0, 1\nexit", None, bytes.fromhex("aabb11cc"), 1)
    assert case.assembly is not None
    assert case.assembly.split("\n").index("exit") == FILE.split("\n").index("exit")


def test_memory_in_one_long_line() -> None:
    case = load("-- asm\nexit\n-- mem\n" + "a5 " * 9000 + "\n", "t")
    assert case.memory == b"\xa5" * 9000


def test_raw_programs() -> None:
    slots = load("-- raw\n0x00000005000000b7\n0x0000000000000095\n-- result\n5\n", "t")
    assert slots.raw == bytes.fromhex("b7000000050000009500000000000000")
    assert load("-- raw\n0x5000000b7\n0x95\n", "t").raw == bytes.fromhex("b7000000050000009500000000000000")
    assert load("-- raw\n0xb7 0x00\n", "t").raw == bytes.fromhex("b700")
    assert load("-- raw\nb7 00 00 00 05 00 00 00\n", "t").raw == bytes.fromhex("b700000005000000")
    assert load("-- raw\n0x00000005000000b7\n-- result\n-1\n", "t").result == 0xFFFFFFFFFFFFFFFF


def test_what_is_no_such_file() -> None:
    assert looks_like(FILE)
    assert not looks_like("mov %r0, 1\nexit\n# -- asm")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("-- mem\n00", "t: a section `-- asm` or `-- raw`, found none"),
        ("-- asm\nexit\n-- asm\nexit", "t: line 3: one section asm, found another"),
        ("-- asm\nexit\n-- mem\n0g", "t: section mem: bytes in hex, two digits each, found '0g'"),
        ("-- asm\nexit\n-- result\nfive", "t: section result: a number of 64 bits, found 'five'"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(text: str, message: str) -> None:
    with pytest.raises(InputError) as error:
        load(text, "t")
    assert str(error.value) == message


@pytest.mark.parametrize("text", ["aabbcc", "aa bb cc", "0xaabbcc", "0xaa, 0xbb, 0xcc", "aa:bb:CC\n"])
def test_bytes_in_hex(text: str) -> None:
    assert hex_bytes(text, "t", "") == b"\xaa\xbb\xcc"


@given(
    st.lists(
        st.sampled_from(["-- asm", "-- raw", "-- mem", "-- result", "-- error", "-- x", "00", "0x1", "é", "exit", "#"])
    )
)
def test_any_text_is_a_case_or_an_input_error(lines: list[str]) -> None:
    with contextlib.suppress(InputError):
        load("\n".join(lines), "t")
