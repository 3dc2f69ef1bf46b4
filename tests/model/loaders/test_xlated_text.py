"""The line structure of plain dumps: what is read, and what is refused with its line."""

import pytest

from model.errors import InputError
from model.isa.insn import Insn
from model.loaders import xlated
from model.loaders.xlated_rows import function_name, printable
from model.program import Line, Map, MapRef, Program, Subprogram, SymbolRef

BEFORE = """\
; if (rules_map) {
 142: (15) if r4 == 0x0 goto pc+8
 143: (bf) r3 = r10
; bpf_for_each_map_elem(rules_map, process_each_rule, &ctx, 0);
 144: (07) r3 += -24
 145: (bf) r1 = r4
 146: (18) r2 = subprog[+5]
 148: (b7) r4 = 0
 149: (85) call bpf_for_each_map_elem#143680
"""
AFTER = BEFORE.replace("bpf_for_each_map_elem#143680", "bpf_for_each_array_elem#170336")


def load(text: str) -> Program:
    (program,) = xlated.load_text(text, "dump.txt").programs
    return program


@pytest.mark.parametrize(
    ("text", "symbol", "imm"),
    [(BEFORE, "bpf_for_each_map_elem", 143680), (AFTER, "bpf_for_each_array_elem", 170336)],
    ids=["before", "after"],
)
def test_published_fragment(text: str, symbol: str, imm: int) -> None:
    program = load(text)
    assert (program.base, program.fragment, program.hidden, program.subprograms) == (142, True, False, ())
    assert program.insns == (
        Insn(0x15, 4, 0, 8, 0),
        Insn(0xBF, 3, 10),
        Insn(0x07, 3, 0, 0, -24),
        Insn(0xBF, 1, 4),
        Insn(0x18, 2, 4, 0, 5),
        Insn(0),
        Insn(0xB7, 4),
        Insn(0x85, 0, 0, 0, imm),
    )
    assert program.refs == {7: SymbolRef(symbol)}
    assert program.lines[0].text == "if (rules_map) {"
    assert program.lines[2].text == "bpf_for_each_map_elem(rules_map, process_each_rule, &ctx, 0);"


def test_fragment_as_quoted_in_mail() -> None:
    quoted = "".join(f" \t{line} \t\r\n" for line in AFTER.splitlines())
    assert load(quoted).insns == load(AFTER).insns


def test_colours_are_no_text() -> None:
    assert load("\x1b[1;32m 0: (95) exit\x1b[0m\n").insns == (Insn(0x95),)


def test_byte_order_mark_is_no_text() -> None:
    assert load("\ufeff   0: (95) exit\n").insns == (Insn(0x95),)


def test_a_line_separator_in_a_source_line_ends_no_line() -> None:
    assert load("; a\u2028b\x0cc\n   0: (95) exit\n").lines[0].text == "a\ufffdb\ufffdc"


def test_source_line_may_hold_a_place_of_its_own() -> None:
    text = '; puts("[file:x line_num:1 line_col:2]"); [file:a b.c line_num:7 line_col:3]\n 0: (95) exit\n'
    assert load(text).lines == {0: Line("a b.c", 7, 3, 'puts("[file:x line_num:1 line_col:2]");')}


def test_empty_source_line_with_a_place() -> None:
    assert load(";  [file:x.c line_num:4 line_col:0]\n 0: (95) exit\n").lines == {0: Line("x.c", 4, 0, "")}


def test_fragment_with_functions_inside() -> None:
    program = load(" 10: (b7) r0 = 0\n 11: (95) exit\nint rest(void):\n 12: (95) exit\n")
    assert program.subprograms == (Subprogram("part@10", 0, 2), Subprogram("rest", 2, 3))


def test_dump_from_slot_0_that_ends_early_is_a_fragment() -> None:
    for text in ("0: (b7) r0 = 0\n", "0: (15) if r1 == 0x0 goto pc+5\n1: (95) exit\n"):
        program = load(text)
        assert program.fragment
        assert len(program.notes) == 1


def test_targets_outside_of_a_fragment_stay() -> None:
    program = load("5: (85) call pc+40#bpf_prog_0123456789abcdef_f\n6: (05) goto pc-6\n")
    assert program.insns == (Insn(0x85, 0, 1, 0, 40), Insn(0x05, off=-6))


def test_concatenated_dumps_are_several_programs() -> None:
    loaded = xlated.load_text("0: (95) exit\n\n0: (b7) r0 = 1\n1: (95) exit\n", "dump.txt")
    assert [(program.name, len(program.insns)) for program in loaded.programs] == [("program", 1), ("program#2", 2)]


def test_headers_of_several_programs() -> None:
    text = (
        "7: xdp  name first  tag 0123456789abcdef  gpl run_time_ns 5 run_cnt 1\n0: (95) exit\n\n"
        "8: type 99  tag 0123456789abcdef\n0: (95) exit\n"
    )
    loaded = xlated.load_text(text, "dump.txt")
    assert [(p.name, p.type) for p in loaded.programs] == [("first", "xdp"), ("program#2", "type 99")]


def test_subprograms_without_btf_have_the_names_of_their_symbols() -> None:
    program = load(
        "0: (85) call pc+3#bpf_prog_0123456789abcdef_F\n1: (18) r2 = subprog[+3]\n3: (95) exit\n"
        "4: (95) exit\n5: (95) exit\n"
    )
    assert [(sub.name, sub.start) for sub in program.subprograms] == [("program", 0), ("F", 4), ("subprog@5", 5)]


def test_one_map_loaded_twice_is_one_map() -> None:
    program = xlated.load_text(
        "0: (18) r1 = map[id:35]\n2: (18) r1 = map[id:35][0]+8\n4: (18) r1 = map[id:36]\n6: (95) exit\n",
        "dump.txt",
        {36: Map("cells", "array", id=36)},
    ).programs[0]
    assert program.maps == (Map("map[id:35]", None, id=35), Map("cells", "array", id=36))
    assert program.refs == {0: MapRef(0), 2: MapRef(0, 8), 4: MapRef(1)}
    assert program.insns[2:4] == (Insn(0x18, 1, 2, 0, 35), Insn(0, imm=8))


def test_map_by_index_becomes_a_map() -> None:
    program = load("0: (18) r1 = map[idx:3]+16\n2: (95) exit\n")
    assert program.maps == (Map("map[idx:3]", None),)
    assert program.insns[0].src == 2
    assert program.refs == {0: MapRef(0, 16)}


def test_forms_without_text_are_read_from_their_bytes() -> None:
    """A load that faults softly, 32 bits, as the kernel's disassembler has no text for it."""
    assert load("0: BUG_ldx_a1\n a1 12 08 00 00 00 00 00\n1: (95) exit\n").insns[0] == Insn(0xA1, 2, 1, 8)


@pytest.mark.parametrize(
    ("text", "raw", "insn"),
    [
        ("(bf) r0 = r0", "bf 00 ff ff 00 00 00 00", Insn(0xBF, 0, 0, -1)),  # r0 = &(void __percpu *)(r0)
        ("(bf) r1 = r2", "bf 21 08 00 00 00 00 00", Insn(0xBF, 1, 2, 8)),  # r1 = (s8)r2
        ("(bc) w1 = w2", "bc 21 10 00 00 00 00 00", Insn(0xBC, 1, 2, 16)),  # w1 = (s16)w2
        ("(bf) r1 = r2", "bf 21 01 00 01 00 00 00", Insn(0xBF, 1, 2, 1, 1)),  # r1 = addr_space_cast(r2, 0, 1)
        ("(37) r1 /= -3", "37 01 01 00 fd ff ff ff", Insn(0x37, 1, 0, 1, -3)),  # r1 s/= -3
        ("(9f) r1 %= r2", "9f 21 01 00 00 00 00 00", Insn(0x9F, 1, 2, 1)),  # r1 s%= r2
        ("BUG_alu64_d7", "d7 01 00 00 10 00 00 00", Insn(0xD7, 1, 0, 0, 16)),  # r1 = bswap16 r1
        ("BUG_ldx_91", "91 21 04 00 00 00 00 00", Insn(0x91, 1, 2, 4)),  # r1 = *(s8 *)(r2 +4)
    ],
)
def test_a_bpftool_older_than_the_kernel_shows_less_than_the_bytes(text: str, raw: str, insn: Insn) -> None:
    assert load(f"0: {text}\n {raw}\n1: (95) exit\n").insns[0] == insn


@pytest.mark.parametrize(
    "raw",
    [
        "bf 21 07 00 00 00 00 00",  # no such offset
        "37 01 02 00 fd ff ff ff",
        "bf 31 08 00 00 00 00 00",  # another register
        "bf 21 08 00 01 00 00 00",  # an immediate where there is none
    ],
)
def test_older_text_does_not_excuse_bytes_that_are_no_instruction(raw: str) -> None:
    text = "(37) r1 /= -3" if raw.startswith("37") else "(bf) r1 = r2"
    with pytest.raises(InputError, match=r"dump.txt: line 1: expected bytes that agree"):
        load(f"0: {text}\n {raw}\n1: (95) exit\n")


def test_a_move_to_itself_without_bytes_is_remarked() -> None:
    assert load("7: (bf) r0 = r0\n8: (95) exit\n").notes == (
        "slot 7 moves a register to itself: a bpftool older than the kernel prints a per-CPU address so; "
        "a dump with `opcodes` would tell",
    )
    assert load("7: (bf) r0 = r0\n bf 00 00 00 00 00 00 00\n8: (95) exit\n").notes == ()


def test_wide_value_is_split() -> None:
    assert load("0: (18) r1 = 0xffff888012345678\n2: (95) exit\n").insns[:2] == (
        Insn(0x18, 1, 0, 0, 0x12345678),
        Insn(0, imm=-30592),
    )


@pytest.mark.parametrize(
    ("text", "place", "part"),
    [
        ("", "", "at least one instruction"),
        ("; only a source line\n", "", "at least one instruction"),
        ("0: (95) exit\n2: (95) exit\n", "line 2", "expected slot 1"),
        ("0: (18) r1 = 0x0\n1: (95) exit\n", "line 2", "expected slot 2"),
        ("5: (95) exit\n5: (95) exit\n", "line 2", "expected slot 6"),
        ("0: (95) exit\nnonsense\n", "line 2", "found 'nonsense'"),
        ("0: (95) leave\n", "line 1", "instruction"),
        ("0: (96) exit\n", "line 1", "0x96"),
        ("0: BUG_ldx_49\n1: (95) exit\n", "line 1", "opcodes"),
        ("0: (95) exit\n 95 00 00 00\n", "line 2", "8 or 16 bytes"),
        ("0: (95) exit\n 95 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00\n", "line 2", "16 bytes for opcode 0x18"),
        ("0: (18) r1 = 0x0\n 18 01 00 00 00 00 00 00\n", "line 2", "found one slot"),
        ("0: (18) r1 = 0x0\n 18 01 00 00 00 00 00 00 01 00 00 00 00 00 00 00\n", "line 2", "expected zero"),
        ("0: (b7) r0 = 1\n b7 00 00 00 02 00 00 00\n1: (95) exit\n", "line 1", "(b7) r0 = 2"),
        ("0: (b7) r0 = 1\n b7 00 01 00 01 00 00 00\n1: (95) exit\n", "line 1", "agree"),
        ("0: (85) call f#7\n 85 10 00 00 07 00 00 00\n1: (95) exit\n", "line 1", "agree"),
        ("0: (05) goto pc-2\n", "line 1", "from slot 0 on"),
        ("0: (85) call pc-9#f\n1: (95) exit\n", "line 1", "from slot 0 on"),
        ("0: (05) goto pc+1\n1: (18) r1 = 0x0\n3: (95) exit\n", "line 1", "second half"),
        ("4294967295: (95) exit\n", "line 1", "at most"),
        ("; " + "x" * 70000 + "\n0: (95) exit\n", "line 1", "characters"),
    ],
)
def test_refusals_name_the_line(text: str, place: str, part: str) -> None:
    with pytest.raises(InputError) as caught:
        xlated.load_text(text, "dump.txt")
    assert (caught.value.file, caught.value.place) == ("dump.txt", place)
    assert part in caught.value.expected


@pytest.mark.parametrize(
    ("prototype", "name"),
    [
        ("int prog(struct xdp_md * ctx)", "prog"),
        ("long add_cell(struct bpf_map * map, void (*)(int ) f)", "add_cell"),
        ("void (int )* pick(struct sk_buff * skb)", "pick"),
        ("struct rule * find(void)", "find"),
        ("subprog walk", "walk"),
        ("", ""),
    ],
)
def test_function_name(prototype: str, name: str) -> None:
    assert function_name(prototype) == name


def test_printable_replaces_what_a_terminal_would_obey() -> None:
    assert printable("a\tb\x1b[2J\ud800é") == "a b\ufffd[2J\ufffdé"
