"""Instructions as text and back, against what the kernel's own disassembler printed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from isa_rows import Vector, vectors

from model.errors import InputError
from model.isa.codec import decode
from model.isa.forms import FORMS, IMM, LOADED_FORMS, Form, Values
from model.isa.insn import Insn
from model.isa.parse import ParsedInsn, parse_insn
from model.isa.text import format_insn

LOSSY = {
    "{ZEXT, X, ALU}",
    "{CALL, K, JMP} 1 dumped",
    "{CALL, K, JMP} 2",
    "{IMM, DW, LD} 3",
    "{IMM, DW, LD} 4 dumped",
    "{IMM, DW, LD} 5",
    *(f"{{PROBE_MEM, {size}, LDX}}" for size in ("W", "H", "B", "DW")),
    *(f"{{PROBE_MEMSX, {size}, LDX}}" for size in ("W", "H", "B")),
    *(f"{{PROBE_MEM32, {size}, {klass}}}" for size in ("W", "H", "B", "DW") for klass in ("LDX", "ST", "STX")),
    *(f"{{PROBE_MEM32SX, {size}, LDX}}" for size in ("W", "H", "B")),
}
"""The forms whose text does not hold every bit, even with the opcode in front (docstring of model.isa.text)."""

WITHOUT_OPCODE = {"{TAIL_CALL, K, JMP}"}
"""Those that need the opcode in front: CALL_ARGS prints the same."""


def values(allowed: Values) -> st.SearchStrategy[int]:
    if isinstance(allowed, range):
        return st.sampled_from([allowed[0], allowed[-1]]) | st.integers(0, len(allowed) - 1).map(allowed.__getitem__)
    return st.sampled_from(sorted(allowed))


@st.composite
def instructions(draw: st.DrawFn) -> tuple[Form, Insn, int | None]:
    form = draw(st.sampled_from([form for row in LOADED_FORMS for form in row]))
    fields = [draw(values(allowed)) for allowed in (form.dst, form.src, form.off, form.imm)]
    return form, Insn(form.opcode, *fields), None if form.high is None else draw(values(form.high))


@given(instructions(), st.booleans())
def test_text_reads_back(drawn: tuple[Form, Insn, int | None], prefixed: bool) -> None:
    form, insn, high = drawn
    text = format_insn(insn, high or 0)
    if not prefixed:
        text = text.partition(") ")[2] if text.startswith("(") else text
    parsed = parse_insn(text)
    if form.name in LOSSY or (form.name in WITHOUT_OPCODE and not prefixed):
        return
    assert (parsed.insn, parsed.high, parsed.unknown) == (insn, high, frozenset())


SAMPLES = {
    "{ZEXT, X, ALU}": ("bc11000001000000", "(bc) w1 = w1"),
    "{CALL, K, JMP} 1 dumped": ("85100e0003000000", "(85) call pc+14"),
    "{CALL, K, JMP} 2": ("8520050039300000", "(85) call kernel-function#12345"),
    "{IMM, DW, LD} 3": ("18320000390500000000000000000000", "(18) r2 = 0x539"),
    "{IMM, DW, LD} 4 dumped": ("18420000050000000000000002000000", "(18) r2 = subprog[+5]"),
    "{IMM, DW, LD} 5": ("18520000030000000000000000000000", "(18) r2 = 0x3"),
}


@pytest.mark.parametrize("name", sorted(LOSSY))
def test_lossy_forms_do_lose(name: str) -> None:
    """Every exception is one: the text does not tell the instruction, by silence or by another's text."""
    form = next(form for form in FORMS if form.name == name)
    if name in SAMPLES:
        data, text = SAMPLES[name]
        insn, *second = decode(bytes.fromhex(data))
    else:
        insn, second, text = Insn(form.opcode, 1, 2 if form.src != range(1) else 0, 8), [], form.text
        assert text.startswith("BUG_")
        assert text.endswith(f"{form.opcode:02x}")
    high = second[0].imm if second else 0
    assert format_insn(insn, high) == text
    parsed = parse_insn(text)
    assert parsed.unknown or parsed.insn != insn or parsed.high != high


@pytest.mark.parametrize("vector", vectors(), ids=lambda vector: vector.text)
def test_vectors_print(vector: Vector) -> None:
    insn, *second = decode(vector.data)
    name = vector.name if insn.opcode == 0x85 else None
    assert format_insn(insn, second[0].imm if second else 0, name) == vector.text


ELSEWHERE = {"85100e0003000000", "85200000d2040000", "18420000050000000000000002000000", "bc66000001000000"} | {
    "183200004d0000000000000000000000",
    "18520000030000000000000000000000",
}
"""Vectors of lossy forms that read as another form's."""


@pytest.mark.parametrize("vector", vectors(), ids=lambda vector: vector.text)
def test_vectors_read(vector: Vector) -> None:
    insn, *second = decode(vector.data)
    parsed = parse_insn(vector.text)
    if vector.data.hex() in ELSEWHERE:
        assert (parsed.insn, parsed.high or 0) != (insn, second[0].imm if second else 0)
    elif vector.text.startswith("BUG_"):
        assert parsed.unknown
        assert parsed.insn.opcode == insn.opcode
    else:
        assert (parsed.insn, parsed.high) == (insn, second[0].imm if second else None)
    assert parsed.name == vector.name


CALL = Insn(0x85)


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("call htab_map_update_elem#?", ParsedInsn(CALL, None, "htab_map_update_elem", "call", frozenset({"imm"}))),
        ("call unknown#195896080", ParsedInsn(Insn(0x85, imm=195896080), None, None, "call")),
        ("call 0xffffffff81234560#143680", ParsedInsn(Insn(0x85, imm=143680), None, "0xffffffff81234560", "call")),
        (
            "(85) call bpf_prog_6deef7357e7b4530_f.cold#-9",
            ParsedInsn(Insn(0x85, imm=-9), None, "bpf_prog_6deef7357e7b4530_f.cold", "call"),
        ),
        (
            "call pc+30#bpf_prog_8e7f9de3b8930bc9_store",
            ParsedInsn(Insn(0x85, src=1, imm=30), None, "bpf_prog_8e7f9de3b8930bc9_store", "subprogram"),
        ),
        ("call pc-3", ParsedInsn(Insn(0x85, src=1, imm=-3), None, None, "subprogram")),
        ("r1 = map[counts]", ParsedInsn(Insn(0x18, 1, 1), 0, "counts", "map", frozenset({"imm"}))),
        ("r1 = map[.rodata.str1.1][0]+8", ParsedInsn(Insn(0x18, 1, 2), 8, ".rodata.str1.1", "map", frozenset({"imm"}))),
        ("r1 = map[id:35][0]+4294967295", ParsedInsn(Insn(0x18, 1, 2, 0, 35), -1, None, "map")),
        ("r2 = subprog[-7]", ParsedInsn(Insn(0x18, 2, 4, 0, -7), 0, None, "callback")),
        ("BUG_ldx_49", ParsedInsn(Insn(0x49), None, None, None, frozenset({"dst", "src", "off"}))),
        ("BUG_e3", ParsedInsn(Insn(0xE3), None, None, None, frozenset({"dst", "src", "off", "imm"}))),
        ("BUG_st_c2", ParsedInsn(Insn(0xC2))),
        ("(06) if w0 jmp 0x11170 goto pc+0", ParsedInsn(Insn(0x06, imm=70000))),
        ("if r1 == -1 goto pc+3", ParsedInsn(Insn(0x15, 1, 0, 3, -1))),
        ("if r1 > 0x80000000 goto pc+0", ParsedInsn(Insn(0x25, 1, 0, 0, -(1 << 31)))),
        ("if w1 s> 0xffffffff goto pc+3", ParsedInsn(Insn(0x66, 1, 0, 3, -1))),
        ("r1 = 5", ParsedInsn(Insn(0xB7, 1, 0, 0, 5))),
        ("r1 = 0x5", ParsedInsn(Insn(0x18, 1, 0, 0, 5), 0)),
        ("(b7) r1 = 0x5", ParsedInsn(Insn(0xB7, 1, 0, 0, 5))),
        ("(18) r1 = 5", ParsedInsn(Insn(0x18, 1, 0, 0, 5), 0)),
        ("r1 = 0xffffffffffffffff", ParsedInsn(Insn(0x18, 1, 0, 0, -1), -1)),
        ("r1=*(u64*)(r10 - 8)", ParsedInsn(Insn(0x79, 1, 10, -8))),
        ("  *( u32 * )( r10 + -8 )  =  r1 ", ParsedInsn(Insn(0x63, 10, 1, -8))),
        ("r0 = *(u32 *)skb[r1 + -5]", ParsedInsn(Insn(0x40, 0, 1, 0, -5))),
        ("r0=-r0", ParsedInsn(Insn(0x87))),
        ("r11 = *(u64 *)(r10 -16)", ParsedInsn(Insn(0x79, 11, 10, -16))),
    ],
    ids=str,
)
def test_reads(text: str, parsed: ParsedInsn) -> None:
    assert parse_insn(text) == parsed


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("goto out", ParsedInsn(Insn(0x05), None, "out", "label", frozenset({"off"}))),
        ("gotol out", ParsedInsn(Insn(0x06), None, "out", "label", frozenset({"imm"}))),
        ("may_goto .L1", ParsedInsn(Insn(0xE5), None, ".L1", "label", frozenset({"off"}))),
        ("if r1 s>= 7 goto goto1", ParsedInsn(Insn(0x75, 1, 0, 0, 7), None, "goto1", "label", frozenset({"off"}))),
        ("call bpf_map_update_elem", ParsedInsn(CALL, None, "bpf_map_update_elem", "call", frozenset({"imm"}))),
        ("call 2", ParsedInsn(Insn(0x85, imm=2), None, None, "call")),
        ("r2 = subprog cb", ParsedInsn(Insn(0x18, 2, 4), 0, "cb", "callback", frozenset({"imm"}))),
        ("goto pc-2", ParsedInsn(Insn(0x05, off=-2))),
    ],
    ids=str,
)
def test_labels_on_request(text: str, parsed: ParsedInsn) -> None:
    assert parse_insn(text, labels=True) == parsed


JUNK = [
    "",
    " ",
    "(85)",
    "foo",
    "r1",
    "r1 =",
    "r1 = r2 r3",
    "r1 == r2",
    "r99 = 1",
    "r13 = 1",
    "r10 = 1",
    "w1 = (s32)w2",
    "r1 = (s8)w2",
    "r1 = bswap16 r2",
    "r1 = be24 r1",
    "w1 = le16 w1",
    "r1 += 0x80000000",
    "r1 += 2147483648",
    "r1 = 0x10000000000000000",
    "r1 = 99999999999999999999999",
    "r1 = *(u8 *)(r2 +32768)",
    "goto pc+32768",
    "goto pc+",
    "goto 5",
    "goto out",
    "call foo",
    "call 2",
    "call pc+99999999999",
    "call pc",
    "call #2",
    "call foo#",
    "call foo#2147483648",
    "call foo#x",
    "if r1 == w2 goto pc+1",
    "if r1 = r2 goto pc+1",
    "if r1 > 0x1ffffffff goto pc+1",
    "(b7) r1 = r2",
    "(zz) exit",
    "(95) goto pc+1",
    "r1 = map[id:35]+8",
    "r1 = map[idx:3][0]+8",
    "r1 = map[id:4294967296]",
    "r1 = map[id:-1]",
    "r1 = map[x][0]+4294967296",
    "r10 = map[id:1]",
    "r1 = subprog[5]",
    "r1 = addr_space_cast(r1, 0, 2)",
    "BUG_ldx_79",
    "(95) BUG_95",
    "r1 = *(s64 *)(r2 +0)",
    "lock *(u16 *)(r1 +0) += r2",
    "r2 = atomic_xchg((u32 *)(r1 +0), r3)",
    "r10 = atomic_xchg((u32 *)(r1 +0), r10)",
    "r1 = \u0661",
    "exit\nexit",
    "r1 = 5;",
    "exit # done",
    "nospec 1",
    "r" * 5000,
]


@pytest.mark.parametrize("text", JUNK, ids=lambda text: text[:40] or "nothing")
def test_junk_is_refused(text: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_insn(text, file="dump.txt", place="line 7")
    assert str(caught.value).startswith("dump.txt: line 7: an instruction")
    assert "\n" not in str(caught.value)


PIECES = [text for vector in vectors() for text in vector.text.split()]


@given(st.text(max_size=60) | st.lists(st.sampled_from(PIECES), max_size=8).map(" ".join), st.booleans())
def test_any_text_ends_in_an_instruction_or_a_refusal(text: str, labels: bool) -> None:
    try:
        parsed = parse_insn(text, labels=labels)
    except InputError:
        return
    assert 0 <= parsed.insn.opcode < 256
    assert parsed.insn.imm in IMM


def test_calls_by_name() -> None:
    assert format_insn(CALL, name="htab_map_update_elem", number=False) == "(85) call htab_map_update_elem#?"
    assert format_insn(Insn(0x85, imm=170336), name="bpf_for_each_array_elem") == (
        "(85) call bpf_for_each_array_elem#170336"
    )


def test_wide_loads_by_name() -> None:
    assert format_insn(Insn(0x18, 1, 1), name="map[rules]") == "(18) r1 = map[rules]"
    assert format_insn(Insn(0x18, 1, 2), 8, "map[id:35][0]+8") == "(18) r1 = map[id:35][0]+8"


def test_fields_by_name() -> None:
    """What an inlined lookup prints while a structure's layout is not known."""
    array = "offsetof(struct bpf_array, value)"
    assert format_insn(Insn(0x07, 1), imm_name=array) == f"(07) r1 += {array}"
    assert format_insn(Insn(0x61, 0, 1), off_name="offsetof(struct bpf_map, max_entries)") == (
        "(61) r0 = *(u32 *)(r1 +offsetof(struct bpf_map, max_entries))"
    )
    assert format_insn(Insn(0x35, 0, 0, 3), imm_name="max_entries") == "(35) if r0 >= max_entries goto pc+3"


@pytest.mark.parametrize("insn", [Insn(0x00), Insn(0xFF), Insn(0x95, off=1), Insn(0xBF, 1, 2, 7)], ids=str)
def test_invalid_slots_print_and_do_not_read_back(insn: Insn) -> None:
    text = format_insn(insn)
    assert text == f"({insn.opcode:02x}) BUG_{insn.opcode:02x}"
    with pytest.raises(InputError):
        parse_insn(text)
