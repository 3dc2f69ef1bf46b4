"""LLVM's assembly: expected bytes are those that llvm-mc 19 makes of the same text (-triple bpfel -mcpu=v4)."""

import contextlib

import hypothesis.strategies as st
import pytest
from hypothesis import given

from model.errors import InputError
from model.isa.codec import encode
from model.loaders import llvm_assembly

ROWS = [
    ("r0 = 0xffffffff", "b7000000ffffffff"),
    ("r1 = 0x10", "b701000010000000"),
    ("w3 = 0xffffffff", "b4030000ffffffff"),
    ("r4 = 0x1122334455667788 ll", "18040000887766550000000044332211"),
    ("r5 = -1 ll", "18050000ffffffff00000000ffffffff"),
    ("r0 = be16 r0", "dc00000010000000"),
    ("r0 = bswap64 r0", "d700000040000000"),
    ("r1 = (s8)r2", "bf21080000000000"),
    ("w1 = (s16)w2", "bc21100000000000"),
    ("r0 = *(s8 *)(r1 + 0)", "9110000000000000"),
    ("r0 = *(u8 *)(r1 - 1)", "7110ffff00000000"),
    ("w0 = *(u32 *)(r1 + 0x4)", "6110040000000000"),
    ("*(u32 *)(r10 - 4) = w1", "631afcff00000000"),
    ("*(u64 *)(r10 - 8) = -1", "7a0af8ffffffffff"),
    ("lock *(u64 *)(r1 + 0) += r2", "db21000000000000"),
    ("lock *(u32 *)(r1 + 0) |= w2", "c321000040000000"),
    ("r3 = atomic_fetch_add((u64 *)(r1 + 0), r3)", "db31000001000000"),
    ("w3 = atomic_fetch_xor((u32 *)(r1 + 0), w3)", "c3310000a1000000"),
    ("r3 = xchg_64(r1 + 0, r3)", "db310000e1000000"),
    ("w3 = xchg32_32(r1 + 0, w3)", "c3310000e1000000"),
    ("r0 = cmpxchg_64(r1 + 0, r0, r3)", "db310000f1000000"),
    ("w0 = cmpxchg32_32(r1 + 0, w0, w3)", "c3310000f1000000"),
    ("r0 = *(u8 *)skb[20]", "3000000014000000"),
    ("r0 = *(u16 *)skb[r7]", "4870000000000000"),
    ("goto +0", "0500000000000000"),
    ("if r1 == 5 goto +0x0", "1501000005000000"),
    ("if w1 s< w2 goto end", "ce21000000000000"),
    ("if r1 > 0xffffffff goto end", "25010000ffffffff"),
    ("gotol end", "0600000000000000"),
    ("may_goto +0", "e500000000000000"),
    ("call 5", "8500000005000000"),
    ("r0 s/= r1", "3f10010000000000"),
    ("w0 s%= 5", "9400010005000000"),
    ("w0 = -w0", "8400000000000000"),
    ("r0 s>>= 3", "c700000003000000"),
]


def assemble(text: str) -> str:
    return encode(llvm_assembly.load(text, "t.s", {}).insns).hex()


@pytest.mark.parametrize(("text", "expected"), ROWS)
def test_statements(text: str, expected: str) -> None:
    assert assemble(f"{text}\nend:\nexit\n") == expected + "9500000000000000"


def test_several_statements_in_a_line_directives_and_comments() -> None:
    text = "\t.text\n\t.globl main\nmain: r0 = 1; r0 += 2 # three\n// nothing\n"
    text += "if r0 == 3 goto LBB0_1; r0 = 9\nLBB0_1: exit"
    slots = ("b700000001000000", "0700000002000000", "1500010003000000", "b700000009000000", "9500000000000000")
    assert assemble(text) == "".join(slots)


def test_calls_of_functions_and_their_addresses() -> None:
    text = "r2 = each ll\ncall each\nexit\neach:\nr0 = 0\nexit"
    expected = "1824000003000000000000000000000085100000010000009500000000000000"
    assert assemble(text).startswith(expected.replace("1824000003", "1842000003"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("r0 = 1\nfrob", "t.s: line 2: an instruction in the kernel's syntax"),
        ("r0 = 0x11223344556677889900 ll", "t.s: line 1:"),
        ("goto nowhere; exit", "t.s: line 1: a label that there is, found 'nowhere'"),
        ("r0 = 0x1ffffffff; exit", "t.s: line 1:"),
        ("r11 = 5 ll; exit", "t.s: line 1: a valid instruction"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(text: str, message: str) -> None:
    with pytest.raises(InputError) as error:
        assemble(text)
    assert message in str(error.value)


PARTS = st.sampled_from(
    [
        "r0",
        "w1",
        "r99",
        "=",
        "+=",
        "ll",
        "goto",
        "+1",
        "pc+1",
        "if",
        "*(u64 *)(r1 + 0)",
        "lock",
        "xchg_64(",
        ";",
        "call",
        "x:",
        "٣",
    ]
)


@given(st.lists(st.one_of(PARTS, st.text(max_size=4), st.integers(-(2**65), 2**65).map(str)), max_size=12))
def test_any_text_is_a_program_or_an_input_error(parts: list[str]) -> None:
    with contextlib.suppress(InputError):
        llvm_assembly.load(" ".join(parts), "t", {})
