"""uBPF's assembly: each mnemonic against bytes that were assembled by hand from RFC 9669's tables."""

import contextlib

import hypothesis.strategies as st
import pytest
from hypothesis import given

from model.errors import InputError
from model.isa.codec import encode
from model.loaders import ubpf_assembly
from model.loaders.ubpf_assembly import MNEMONICS

# (text, slots as opcode, registers (source high), offset, immediate: hex, little-endian)
ROWS = [
    ("mov %r0, 1", "b700000001000000"),
    ("mov r0, -1", "b7000000ffffffff"),
    ("mov %r0, 0xffffffff", "b7000000ffffffff"),
    ("mov32 %r0, 0xffffffff", "b4000000ffffffff"),
    ("mov64 %r1, %r2", "bf21000000000000"),
    ("add %r0, %r1", "0f10000000000000"),
    ("add32 %r0, 5", "0400000005000000"),
    ("sub %r0, %r1", "1f10000000000000"),
    ("mul32 %r9, %r8", "2c89000000000000"),
    ("div %r0, 4", "3700000004000000"),
    ("sdiv %r0, %r1", "3f10010000000000"),
    ("sdiv32 %r0, -2", "34000100feffffff"),
    ("or %r0, 0x10", "4700000010000000"),
    ("and32 %r0, %r1", "5c10000000000000"),
    ("lsh %r0, 3", "6700000003000000"),
    ("rsh32 %r0, %r1", "7c10000000000000"),
    ("neg %r2", "8702000000000000"),
    ("neg32 %r2", "8402000000000000"),
    ("mod %r0, %r1", "9f10000000000000"),
    ("smod32 %r0, 3", "9400010003000000"),
    ("xor %r0, %r0", "af00000000000000"),
    ("arsh %r0, 5", "c700000005000000"),
    ("movsx8 %r0, %r1", "bf10080000000000"),
    ("movsx864 %r0, %r1", "bf10080000000000"),
    ("movsx832 %r0, %r1", "bc10080000000000"),
    ("movsx1632 %r0, %r1", "bc10100000000000"),
    ("movsx3264 %r0, %r1", "bf10200000000000"),
    ("le16 %r0", "d400000010000000"),
    ("be16 %r0", "dc00000010000000"),
    ("be64 %r7", "dc07000040000000"),
    ("swap16 %r0", "d700000010000000"),
    ("bswap32 %r0", "d700000020000000"),
    ("ja +0", "0500000000000000"),
    ("ja32 +0", "0600000000000000"),
    ("goto +0", "0500000000000000"),
    ("gotol +0", "0600000000000000"),
    ("jeq %r1, 5, +0", "1501000005000000"),
    ("jgt %r1, %r2, +0", "2d21000000000000"),
    ("jge %r1, 0x80000000, +0", "3501000000000080"),
    ("jset32 %r1, 8, +0", "4601000008000000"),
    ("jne %r1, %r2, +0", "5d21000000000000"),
    ("jsgt %r1, -1, +0", "65010000ffffffff"),
    ("jsge32 %r1, %r2, +0", "7e21000000000000"),
    ("jlt %r1, 5, +0", "a501000005000000"),
    ("jle %r1, 5, +0", "b501000005000000"),
    ("jslt32 %r1, 5, +0", "c601000005000000"),
    ("jsle %r1, %r2, +0", "dd21000000000000"),
    ("ldxb %r0, [%r1]", "7110000000000000"),
    ("ldxh %r0, [%r1+2]", "6910020000000000"),
    ("ldxw %r0, [r1-4]", "6110fcff00000000"),
    ("ldxdw %r0, [%r1 + 0x10]", "7910100000000000"),
    ("ldxbsx %r0, [%r1+1]", "9110010000000000"),
    ("ldxhsx %r0, [%r1+1]", "8910010000000000"),
    ("ldxwsx %r0, [%r1+1]", "8110010000000000"),
    ("ldxsw %r0, [%r1+1]", "8110010000000000"),
    ("stb [%r10-1], 0x41", "720affff41000000"),
    ("sth [%r10-2], 1", "6a0afeff01000000"),
    ("stw [%r10-4], 1", "620afcff01000000"),
    ("stdw [%r10-8], -1", "7a0af8ffffffffff"),
    ("stxb [%r1+1], %r2", "7321010000000000"),
    ("stxh [%r1+1], %r2", "6b21010000000000"),
    ("stxw [r10-4], %r1", "631afcff00000000"),
    ("stxdw [%r10-8], %r1", "7b1af8ff00000000"),
    ("lddw %r1, 0x1122334455667788", "18010000887766550000000044332211"),
    ("lddw %r1, -1", "18010000ffffffff00000000ffffffff"),
    ("lock add [%r10-8], %r1", "db1af8ff00000000"),
    ("lock add32 [%r10-8], %r1", "c31af8ff00000000"),
    ("lock or [%r1+8], %r2", "db21080040000000"),
    ("lock and32 [%r1], %r2", "c321000050000000"),
    ("lock xor [%r1], %r2", "db210000a0000000"),
    ("lock fetch_add [%r1], %r2", "db21000001000000"),
    ("lock fetch_or32 [%r1], %r2", "c321000041000000"),
    ("lock fetch_and [%r1], %r2", "db21000051000000"),
    ("lock fetch_xor [%r1], %r2", "db210000a1000000"),
    ("lock xchg [%r1], %r2", "db210000e1000000"),
    ("lock xchg32 [%r1], %r2", "c3210000e1000000"),
    ("lock cmpxchg [%r1], %r2", "db210000f1000000"),
    ("lock cmpxchg32 [%r10-4], %r1", "c31afcfff1000000"),
    ("call 5", "8500000005000000"),
    ("call bpf_ktime_get_ns", "8500000005000000"),
    ("ldabsb 3", "3000000003000000"),
    ("ldindw %r2, 4", "4020000004000000"),
    ("may_goto +0", "e500000000000000"),
    ("exit", "9500000000000000"),
]


def assemble(text: str) -> str:
    return encode(ubpf_assembly.load(text, "t.asm", {"ktime_get_ns": 5}).insns).hex()


@pytest.mark.parametrize(("text", "expected"), ROWS)
def test_mnemonics(text: str, expected: str) -> None:
    assert assemble(f"{text}\nexit\n") == expected + "9500000000000000"


def test_no_mnemonic_is_only_in_the_table() -> None:
    """Every mnemonic without its width, or its other spellings, is in a row above."""
    used = {text.split()[0].lower() for text, _ in ROWS}
    stems = {name.rstrip("0123456789") for name in used}
    assert {name for name in MNEMONICS if name.rstrip("0123456789") not in stems} <= {
        *("jal", "ldxsb", "ldxsh", "ldsxb", "ldsxh", "ldsxw"),
        *("ldabsh", "ldabsw", "ldindb", "ldindh"),
        "callx",  # no valid instruction
    }


def test_functions_may_lie_intertwined() -> None:
    program = ubpf_assembly.load("ja main\nf: mov %r0, 5\nexit\nmain: call local f\nexit", "t", {})
    assert program.subprograms == ()


def test_labels_comments_and_calls() -> None:
    text = """
# a comment
start:  mov %r1, 3       # behind an instruction
loop: sub %r1, 1
    jne %r1, 0, loop     // back
    call local double
    ja32 done
double:
    mov %r0, 2 ; two
    exit
done: exit
"""
    assert assemble(text) == (
        "b701000003000000"
        "1701000001000000"
        "5501feff00000000"
        "8510000001000000"
        "0600000002000000"
        "b700000002000000"
        "9500000000000000"
        "9500000000000000"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "t.asm: instructions, found none"),
        ("mov %r0", "t.asm: line 1: 2 operands, found 'mov %r0'"),
        ("\nmov %r11, 1", "t.asm: line 2: a register %r0 to %r10, found 'mov %r11, 1'"),
        ("mov %r10, 1", "found 'mov %r10, 1': {MOV, K, ALU64}: r10, the frame pointer, is read-only"),
        ("mov %r0, 0x100000000", "t.asm: line 1: an immediate of 32 bits, found 'mov %r0, 0x100000000'"),
        ("lddw %r0, 0x11223344556677889", "an immediate of 64 bits"),
        ("ldxw %r0, [%r1+40000]", "memory as [%r1+8], with an offset of 16 bits"),
        ("ldxw %r0, %r1", "memory as [%r1+8]"),
        ("ja nowhere\nexit", "t.asm: line 1: a label that there is, found 'nowhere'"),
        ("a: exit\na: exit", "t.asm: line 2: a label of its own, found 'a' again"),
        ("call nothing\nexit", "a label or helper that there is, found 'nothing'"),
        ("frob %r0\nexit", "t.asm: line 1: a mnemonic of uBPF's assembly, found 'frob %r0'"),
        ("ja +5\nexit", "t.asm: line 1: a target inside of the program's 2 slots, found slot 6"),
        ("lock nand [%r1], %r2", "lock OPERATION [%r1+8], %r2"),
        ("exit 3", "0 operands"),
        ("jeq %r1, 1, 40000", "a distance of 16 bits"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(text: str, message: str) -> None:
    with pytest.raises(InputError) as error:
        assemble(text)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


OPERANDS = st.sampled_from(
    [
        "%r0",
        "%r10",
        "r11",
        "1",
        "-1",
        "0x80000000",
        "[%r1+8]",
        "[r10-8]",
        "[",
        "+1",
        "x",
        "x:",
        ",",
        "local",
        "#",
        "ſ",
        "٣",
    ]
)


@given(st.lists(st.lists(st.one_of(st.sampled_from(sorted(MNEMONICS)), OPERANDS, st.text(max_size=4)), max_size=5)))
def test_any_text_is_a_program_or_an_input_error(lines: list[list[str]]) -> None:
    with contextlib.suppress(InputError):
        ubpf_assembly.load("\n".join(" ".join(line) for line in lines), "t", {})
