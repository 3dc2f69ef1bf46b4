"""Assembly text for people: labels, names, maps, subprograms, and one line for everything that is wrong."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.errors import InputError
from model.isa.codec import encode
from model.isa.insn import Insn
from model.loaders.assembly import load
from model.program import Form, Line, Map, MapRef, Object, Program, Subprogram

HELPERS = {"map_lookup_elem": 1, "map_update_elem": 2, "for_each_map_elem": 164}


def assemble(text: str) -> Object:
    return load(text, "x.s", HELPERS)


def only(text: str) -> Program:
    (program,) = assemble(text).programs
    return program


WALK = """\
; walk an array
.map rules array 4 8 100
.map all BPF_MAP_TYPE_ARRAY_OF_MAPS 4 4 10 flags=0x80 inner=rules

.program walk tc
    r6 = r1              # keep the context
    r1 = map[rules]
    r2 = subprog each
    r3 = r10
    r4 = 0
    call bpf_for_each_map_elem
    if r0 s< 0 goto out  // an error
    r1 = map[rules][0]+8
    call tally
out: exit
.func tally
    r0 = *(u64 *)(r1 +0)
    exit
.func each
again:
    may_goto done
    goto again
done:
    r0 = 0
    exit
"""


def test_a_program_with_everything() -> None:
    """The bytes are by hand: RFC 9669, sections 3.1, 3.2, 4.1, 4.3, 5.1, 5.4."""
    program = only(WALK)
    assert encode(program.insns).hex(" ", 8).split() == [
        "bf16000000000000",  # 0
        "1811000000000000",  # 1: map by descriptor
        "0000000000000000",
        "184200000b000000",  # 3: 3 + 1 + 11 = 15
        "0000000000000000",
        "bfa3000000000000",  # 5
        "b704000000000000",
        "85000000a4000000",  # 7: helper 164
        "c500030000000000",  # 8: to 12
        "1821000000000000",  # 9: map value
        "0000000008000000",
        "8510000001000000",  # 11: to 13
        "9500000000000000",
        "7910000000000000",  # 13: tally
        "9500000000000000",
        "e500010000000000",  # 15: each
        "0500feff00000000",
        "b700000000000000",
        "9500000000000000",
    ]
    assert program.name == "walk"
    assert program.section == "tc"
    assert program.form is Form.OBJECT
    assert not program.fragment
    assert program.subprograms == (
        Subprogram("walk", 0, 13),
        Subprogram("tally", 13, 15),
        Subprogram("each", 15, 19),
    )
    assert program.refs == {1: MapRef(0), 9: MapRef(0, 8)}
    assert program.lines[3] == Line("x.s", 8, 5, "r2 = subprog each")
    assert program.lines[12] == Line("x.s", 15, 6, "exit")
    assert 2 not in program.lines


def test_maps() -> None:
    rules = Map("rules", "array", 4, 8, 100, 0)
    outer = Map("all", "array_of_maps", 4, 4, 10, 0x80, inner=rules)
    assembled = assemble(WALK)
    assert assembled.maps == (rules, outer)
    assert assembled.programs[0].maps == (rules, outer)


def test_a_listing_with_indexes_and_opcodes() -> None:
    program = only("142: (15) if r4 == 0x0 goto pc+2\n143: (18) r1 = 0x5\n145: (bf) r3 = r10\n146: (95) exit\n")
    assert program.base == 142
    assert program.insns == (Insn(0x15, 4, 0, 2), Insn(0x18, 1, 0, 0, 5), Insn(0), Insn(0xBF, 3, 10), Insn(0x95))
    assert program.name == "main"


def test_numbers_of_calls_need_no_table() -> None:
    text = "call bpf_map_update_elem#2\ncall 3\ncall bpf_new#77\ncall pc+1\nexit\nexit\n"
    program = load(text, "x.s", {}).programs[0]
    assert [insn.imm for insn in program.insns[:4]] == [2, 3, 77, 1]
    assert program.subprograms == (Subprogram("main", 0, 5), Subprogram("subprog_5", 5, 6))


@pytest.mark.parametrize("name", ["map_lookup_elem", "bpf_map_lookup_elem"])
def test_helpers_with_and_without_prefix(name: str) -> None:
    assert only(f"call {name}\nexit").insns[0] == Insn(0x85, imm=1)


def test_a_function_goes_before_a_helper_of_its_name() -> None:
    assert only("call map_lookup_elem\nexit\n.func map_lookup_elem\nexit").insns[0] == Insn(0x85, src=1, imm=1)


def test_a_called_label_is_a_function() -> None:
    assert only("call f\nexit\nf: exit").subprograms == (Subprogram("main", 0, 2), Subprogram("f", 2, 3))


def test_comments_do_not_eat_call_numbers() -> None:
    assert only("# a\n  // b\n;c\ncall bpf_x#7 # d\nexit ; e // f").insns == (Insn(0x85, imm=7), Insn(0x95))


def test_a_map_by_id_is_a_map_of_its_own() -> None:
    assembled = assemble(".map a hash 4 4 1\nr1 = map[id:35]\nr1 = map[id:35]\nr2 = map[id:36][0]+4\nexit")
    assert assembled.maps == (Map("a", "hash", 4, 4, 1, 0), Map("id:35", None, id=35), Map("id:36", None, id=36))
    assert assembled.programs[0].refs == {0: MapRef(1), 2: MapRef(1), 4: MapRef(2, 4)}


def test_labels_are_the_programs_own() -> None:
    first, second = assemble(".program a\ngoto x\nx: exit\n.program b s\nr0 = 0\ngoto x\nx: exit").programs
    assert first.insns[0] == Insn(0x05)
    assert second.insns[1] == Insn(0x05)
    assert second.section == "s"


def test_far_labels() -> None:
    far = "r0 = 1\n" * 32767
    assert only(f"goto x\n{far}x: exit").insns[0] == Insn(0x05, off=32767)
    assert only(f"gotol x\n{far}r0 = 1\nx: exit").insns[0] == Insn(0x06, imm=32768)


WRONG = [
    ("", "instructions, found none"),
    ("; nothing", "instructions, found none"),
    ("r1 = r2 r3", "line 1: an instruction in the kernel's syntax"),
    ("exit\nr1 = r11", "line 2: an instruction that a program may hold"),
    ("nospec", "made by the kernel only"),
    ("BUG_e3", "made by the kernel only"),
    ("call foo\nexit", "line 1: a function or label of the program or a helper, found 'foo'"),
    ("call bpf_map_lookup_elem#7\nexit", "helper bpf_map_lookup_elem with its number 1, found 7"),
    ("call foo#?\nexit", "found 'foo'"),
    ("goto x", "line 1: a label of the program, found 'x'"),
    ("r1 = subprog x\nexit", "a label of the program, found 'x'"),
    ("goto x\n" + "r0 = 1\n" * 32768 + "x: exit", "a label within 16 bits of distance, found 'x' at +32768"),
    ("goto pc+5", "a target inside of the program's 1 slots, found slot 6"),
    ("goto pc-2\nexit", "found slot -1"),
    ("goto x\nexit\nx:", "found slot 2"),
    ("r1 = 0x5\ngoto pc-2", "line 2: an instruction as target, found slot 1, the second half"),
    ("call pc+1\nr1 = 0x5\nexit", "line 1: an instruction as target, found slot 2"),
    ("call pc+0", "found slot 1"),
    ("exit\n.func f\ngoto pc-2\nexit", "line 3: a target inside of function f, found slot 0"),
    ("goto f\nexit\n.func f\nexit", "line 1: a target inside of function main, found slot 2"),
    ("x:\nx: exit", "line 2: a label of its own, found 'x' again"),
    ("r1: exit", "the name of a label, found 'r1'"),
    ("pc: exit", "the name of a label, found 'pc'"),
    ("5: r0 = 0\n7: exit", "line 2: index 6, found 7"),
    ("r0 = 0\n5: exit", "line 2: index 1, found 5"),
    ("r1 = map[q]\nexit", "a map that a .map line defines, found 'q'"),
    ("r1 = map[idx:1]+0\nexit", "a map by name or id, found an index"),
    (".foo", ".map, .program or .func"),
    (".program", ".map, .program or .func"),
    (".func a b", ".map, .program or .func"),
    (".func f\nexit", "the program's own instructions before its first .func"),
    ("exit\n.func f", "instructions after .func f"),
    ("exit\n.func f\nexit\n.func f\nexit", "line 4: a label of its own"),
    (".program a\n.program b\nexit", "line 1: instructions in program 'a', found none"),
    (".program a\nexit\n.program a\nexit", "line 3: a program name of its own"),
    ("exit\n.program a", "line 2: instructions in program 'a', found none"),
    (".program 1a\nexit", "the name of a program"),
    (".map a hash 4 4", ".map NAME TYPE KEY_SIZE VALUE_SIZE MAX_ENTRIES"),
    (".map a hash 4 4 x", "max entries as a number of 32 bits, found 'x'"),
    (".map a hash -4 4 1", "key size as a number of 32 bits"),
    (".map a hash 4 4294967296 1", "value size as a number of 32 bits"),
    (".map a hash 4 4 1 flags=q", "flags as a number"),
    (".map a hash 4 4 1 pinned=1", "flags=N, extra=N or inner=NAME"),
    (".map a hash 4 4 1\n.map a hash 4 4 1", "line 2: a map name of its own"),
    (".map a array_of_maps 4 4 4 inner=b\nexit", "an inner map that a .map line defines, found 'b'"),
    (".map a array_of_maps 4 4 4 inner=a\nexit", "an inner map that holds no maps itself"),
    ("x" * 5000, "at most 4096 characters"),
]


@pytest.mark.parametrize(("text", "expected"), WRONG, ids=lambda text: repr(text[:60]))
def test_wrong_text_is_one_line(text: str, expected: str) -> None:
    with pytest.raises(InputError) as caught:
        assemble(text)
    assert str(caught.value).startswith("x.s: ")
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


def test_too_many_characters() -> None:
    with pytest.raises(InputError, match="at most 67108864 characters"):
        assemble("\n" * ((64 << 20) + 1))


PIECES = WALK.replace("\n", " \n ").split(" ")


def outcome(text: str) -> Object | str:
    try:
        return assemble(text)
    except InputError as error:
        return str(error)


@given(st.text(max_size=80) | st.lists(st.sampled_from(PIECES), max_size=25).map(" ".join))
def test_any_text_ends_in_programs_or_a_refusal(text: str) -> None:
    found = outcome(text)
    if isinstance(found, str):
        assert found.startswith("x.s: ")
        assert "\n" not in found
    else:
        for program in found.programs:
            assert program.subprograms[0].start == 0
            assert program.subprograms[-1].end == len(program.insns)


@given(st.data())
def test_any_changed_character_ends_in_programs_or_a_refusal(data: st.DataObject) -> None:
    position = data.draw(st.integers(0, len(WALK) - 1))
    text = WALK[:position] + data.draw(st.characters()) + WALK[position + data.draw(st.integers(0, 3)) :]
    found = outcome(text)
    assert isinstance(found, Object) or found.startswith("x.s: ")
