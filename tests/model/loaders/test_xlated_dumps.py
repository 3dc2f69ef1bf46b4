"""Dumps of a program of our own, as bpftool 7.1 printed them on Linux 6.18 (tests/data/dumps, source beside)."""

from pathlib import Path

import pytest

from model.isa.insn import Insn
from model.loaders import map_show, xlated
from model.program import Form, Line, MapRef, Object, Program, Subprogram, SymbolRef

DUMPS = Path(__file__).parents[2] / "data" / "dumps"
WALK = ["walk.txt", "walk.opcodes.txt", "walk.linum.txt", "walk.json", "walk.opcodes.json"]
JUMP = ["jump.txt", "jump.opcodes.txt", "jump.linum.txt", "jump.json", "jump.opcodes.json"]
HIDDEN = ["hidden.txt", "hidden.opcodes.txt", "hidden.json"]
KFUNC_CALLS = {48, 49}  # the text prints them like helper calls: only the bytes have source 2


def load(name: str) -> Object:
    text = (DUMPS / name).read_text()
    maps = map_show.load((DUMPS / "maps.json").read_text(), "maps.json")
    return xlated.load_json(text, name, maps) if name.endswith(".json") else xlated.load_text(text, name, maps)


def one(name: str) -> Program:
    (program,) = load(name).programs
    return program


@pytest.mark.parametrize("name", WALK)
def test_walk_says_the_same_in_every_form(name: str) -> None:
    program = one(name)
    assert program.name == "walk"
    assert program.form is Form.XLATED
    assert (program.base, program.fragment, program.hidden, program.notes) == (0, False, False, ())
    assert program.subprograms == (
        Subprogram("walk", 0, 58),
        Subprogram("add_cell", 58, 67),
        Subprogram("count_entry", 67, 75),
        Subprogram("store", 75, 86),
        Subprogram("forget", 86, 93),
    )
    assert [(one.name, one.type, one.key_size, one.value_size, one.max_entries) for one in program.maps] == [
        ("cells", "array", 4, 8, 4),
        ("table", "hash", 8, 8, 8),
        ("walk.rodata", "array", 4, 8, 1),
        ("walk.data", "array", 4, 32, 1),
        ("recent", "lru_hash", 4, 4, 8),
    ]
    assert program.refs == {
        6: MapRef(0),
        12: SymbolRef("bpf_for_each_array_elem"),
        13: MapRef(1),
        19: SymbolRef("bpf_for_each_hash_elem"),
        20: MapRef(1),
        23: SymbolRef("__htab_map_lookup_elem"),
        28: MapRef(2, 0),
        32: MapRef(3, 0),
        48: SymbolRef("bpf_rcu_read_lock"),
        49: SymbolRef("bpf_rcu_read_unlock"),
        59: MapRef(3, 0),
        68: MapRef(3, 8),
        81: MapRef(4),
        84: SymbolRef("htab_lru_map_update_elem"),
        89: MapRef(4),
        91: SymbolRef("htab_lru_map_delete_elem"),
    }


@pytest.mark.parametrize("name", WALK)
def test_calls_and_callbacks_are_relative_to_the_next_slot(name: str) -> None:
    insns = one(name).insns
    assert insns[8] == Insn(0x18, 2, 4, 0, 58 - 9)
    assert insns[15] == Insn(0x18, 2, 4, 0, 67 - 16)
    assert insns[44] == Insn(0x85, 0, 1, 0, 75 - 45)
    assert insns[51] == Insn(0x85, 0, 1, 0, 86 - 52)
    assert insns[9] == insns[16] == Insn(0)


@pytest.mark.parametrize("names", [WALK, JUMP], ids=["walk", "jump"])
def test_text_and_bytes_differ_only_in_what_the_text_does_not_show(names: list[str]) -> None:
    exact = one(names[-1])
    assert [insn.src for slot, insn in enumerate(exact.insns) if slot in KFUNC_CALLS] == [
        2 if names is WALK else exact.insns[slot].src for slot in sorted(KFUNC_CALLS) if slot < len(exact.insns)
    ]
    for name in names:
        program = one(name)
        differing = {slot for slot, (a, b) in enumerate(zip(program.insns, exact.insns, strict=True)) if a != b}
        assert differing <= (KFUNC_CALLS if names is WALK else set())
        assert (program.subprograms, program.refs, program.maps) == (exact.subprograms, exact.refs, exact.maps)


def test_every_slot_of_the_bytes() -> None:
    """The slots beside calls of subprograms and callbacks, against the bytes of the JSON dump read by hand."""
    insns = one("walk.opcodes.json").insns
    assert len(insns) == 93
    assert insns[0] == Insn(0xBF, 6, 1)
    assert insns[1:3] == (Insn(0x18, 1, 0, 0, 0x23456789), Insn(0, imm=-0x543210FF))
    assert insns[3] == Insn(0x7B, 10, 1, -8)
    assert insns[38] == Insn(0xDB, 4, 3, 0, 0xF1)
    assert insns[47] == Insn(0xC6, 1, 0, 9)
    assert insns[68:70] == (Insn(0x18, 2, 2, 0, insns[32].imm), Insn(0, imm=8))
    assert insns[92] == Insn(0x95)


@pytest.mark.parametrize("name", ["walk.linum.txt", "walk.json"])
def test_source_lines_with_their_place(name: str) -> None:
    lines = one(name).lines
    assert lines[0] == Line("./walk.bpf.c", 44, 0, "int walk(struct xdp_md *ctx)")
    assert lines[6] == Line("./walk.bpf.c", 48, 2, "bpf_for_each_map_elem(&cells, add_cell, &key, 0);")
    assert 1 not in lines


def test_source_lines_without_their_place() -> None:
    assert one("walk.txt").lines[6] == Line("", 0, 0, "bpf_for_each_map_elem(&cells, add_cell, &key, 0);")


@pytest.mark.parametrize("name", HIDDEN)
def test_restricted_pointers_say_cannot_tell(name: str) -> None:
    program = one(name)
    assert program.hidden
    assert program.notes == (
        "the kernel withheld the target of 7 of 7 calls (restricted kernel pointers): what they call cannot be told",
    )
    assert not any(isinstance(ref, SymbolRef) for ref in program.refs.values())
    assert [(sub.name, sub.start) for sub in program.subprograms] == [
        ("walk", 0),
        ("add_cell", 58),
        ("count_entry", 67),
        ("store", 75),
        ("forget", 86),
    ]


@pytest.mark.parametrize("name", ["both.txt", "both.json"])
def test_two_programs_of_one_name(name: str) -> None:
    loaded = load(name)
    assert [(program.name, program.type, len(program.insns)) for program in loaded.programs] == [
        ("jump", "xdp", 36),
        ("jump", "xdp", 36),
    ]
    first, second = loaded.programs
    assert first.refs[20] == SymbolRef("bpf_tail_call")
    assert not first.hidden
    assert {one.id for one in first.maps}.isdisjoint(one.id for one in second.maps)
    assert len(loaded.maps) == 6


def test_maps_are_nameless_without_a_list_of_maps() -> None:
    loaded = xlated.load_text((DUMPS / "jump.txt").read_text(), "jump.txt")
    ids = [one.id for one in loaded.maps]
    assert [(one.name, one.type) for one in loaded.maps] == [(f"map[id:{id}]", None) for id in ids]
