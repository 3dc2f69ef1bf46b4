"""Real objects of compilers. Expected values: llvm-readelf, llvm-objdump and bpftool on the same files."""

import json
from pathlib import Path

import pytest

from model.isa.insn import Insn
from model.loaders.elf import load
from model.loaders.elf_map_types import map_type
from model.program import ExternRef, Line, Map, MapRef, Object, Program, Subprogram

OBJECTS = Path(__file__).parents[2] / "data" / "objects"
RELEASES = Path(__file__).parents[3] / "model" / "kernel" / "releases"


def read(name: str) -> Object:
    return load((OBJECTS / name).read_bytes(), name)


def program(name: str, function: str) -> Program:
    return next(p for p in read(name).programs if p.name == function)


def layout(found: Program) -> list[tuple[str, int, int]]:
    return [(s.name, s.start, s.end) for s in found.subprograms]


# Programs and maps by name: those of libbpf 1.x's own forms as `bpftool gen skeleton` lists them.
COUNTS = {
    "arena_struct_ops.o": (["start", "count"], ["arena", "slow"]),
    "exceptions.o": (["thrower", "thrown_away", "kept_in_the_frame"], ["one_hash", "one_array"]),
    "externs.o": (["ask_kernel"], []),
    "for_each.o": (["sum_array", "sum_hash", "search_all"], ["numbers", "names", "cpu_numbers", "recent"]),
    "gcc.o": (["mixed"], ["second", "first", ".data"]),
    "global_data.o": (["count"], [".data", ".rodata", ".data.tuning", ".bss"]),
    "kernel_config.o": (["version", "option", "symbol"], ["one_hash", "one_array"]),
    "legacy_iproute2.o": (["use_both"], ["template", "holder", "modern"]),
    "legacy_maps.o": (["use_legacy"], ["a_hash", "b_array", "c_outer"]),
    "legacy_sections.o": (["on_open"], ["small", "large"]),
    "map_calls.o": (
        [
            "use_hash",
            "use_array",
            "use_lru_hash",
            "use_percpu_hash",
            "use_percpu_array",
            "use_lru_percpu_hash",
            "use_trie",
            "other_cpu",
        ],
        ["hash", "array", "lru_hash", "percpu_hash", "percpu_array", "lru_percpu_hash", "trie", ".rodata.cst16"],
    ),
    "map_in_map.o": (["update_inner", "lookup_inner"], ["first", "second", "by_index", "by_name"]),
    "odd_sections.o": (["calls_neighbour", "on_request"], []),
    "queue_stack_bloom.o": (["use_queue", "use_stack", "use_bloom"], ["queue", "stack", "bloom"]),
    "redirect.o": (["to_port", "to_hashed_port", "to_cpu", "to_socket"], ["ports", "ports_by_hash", "cpus", "sockets"]),
    "relocated.o": (["field_exists", "enum_value", "two_calls"], ["one_hash", "one_array"]),
    "subprograms.o": (["one_map", "both_maps", "nested"], ["table", "counters"]),
    "text_only.o": (["entry"], []),
    "two_maps.o": (["same_type", "two_types", "same_map"], ["one_array", "other_array", "one_hash"]),
    "untyped.o": (["filter", "second"], ["flows"]),
}
COUNTS |= {
    name.replace(".o", ".bpfeb.o"): COUNTS[name]
    for name in ("for_each.o", "global_data.o", "legacy_maps.o", "map_calls.o")
}


def test_every_object_has_a_row() -> None:
    assert sorted(path.name for path in OBJECTS.glob("*.o")) == sorted(COUNTS)


@pytest.mark.parametrize("name", sorted(COUNTS))
def test_programs_and_maps(name: str) -> None:
    found = read(name)
    assert ([p.name for p in found.programs], [m.name for m in found.maps]) == COUNTS[name]
    assert found.byteorder == ("big" if "bpfeb" in name else "little")
    assert found.license == ("" if name in ("gcc.o", "text_only.o") else "GPL")


@pytest.mark.parametrize("name", sorted(COUNTS))
def test_programs_hold_together(name: str) -> None:
    """As model.program promises: no gaps, calls and callbacks go to starts of subprograms, refs name the rest."""
    for found in read(name).programs:
        assert found.maps == read(name).maps
        starts = [s.start for s in found.subprograms]
        assert starts == [0, *(s.end for s in found.subprograms[:-1])]
        assert found.subprograms[-1].end == len(found.insns)
        for slot, insn in enumerate(found.insns):
            if (insn.opcode, insn.src) in ((0x85, 1), (0x18, 4)):
                assert slot + 1 + insn.imm in starts
            if insn.opcode == 0x18 and insn.src in (1, 2):
                assert isinstance(found.refs[slot], MapRef)
        for slot in found.refs:
            assert found.insns[slot].opcode in (0x18, 0x85)


def test_for_each_links_callbacks_behind_the_entry() -> None:
    found = program("for_each.o", "search_all")
    # bpftool prog dump xlated: the same functions in the same order.
    assert layout(found) == [("search_all", 0, 35), ("first_big", 35, 41), ("forget", 41, 50), ("add", 50, 59)]
    assert found.refs == {5: MapRef(2), 12: MapRef(3), 19: MapRef(1), 26: MapRef(0), 45: MapRef(1)}
    assert found.insns[5:9] == (
        Insn(0x18, 1, 1, 0, 0),
        Insn(0),
        Insn(0x18, 2, 4, 0, 27),  # slot 7 + 1 + 27 = 35
        Insn(0),
    )
    assert (found.section, found.type) == ("tc", "tc")


def test_for_each_big_endian_is_the_same_program() -> None:
    little, big = read("for_each.o"), read("for_each.bpfeb.o")
    assert little.maps == big.maps
    for one, other in zip(little.programs, big.programs, strict=True):
        assert (one.insns, one.refs, one.subprograms) == (other.insns, other.refs, other.subprograms)


def test_subprograms_come_in_order_of_first_reference_depth_first() -> None:
    assert layout(program("subprograms.o", "one_map")) == [("one_map", 0, 6), ("store_twice", 6, 21), ("store", 21, 30)]
    assert layout(program("subprograms.o", "nested")) == [
        ("nested", 0, 17),
        ("outer_step", 17, 26),
        ("inner_step", 26, 32),
        ("average", 32, 37),
        ("limit", 37, 44),
    ]
    # bpftool: slot 7 of the listing is subprog[+9]; slots 13 and 15 call pc+18 and pc+21 (two slots fewer before them).
    nested = program("subprograms.o", "nested")
    assert [(s, i.imm) for s, i in enumerate(nested.insns) if i.opcode == 0x85 and i.src == 1] == [(13, 18), (15, 21)]
    assert nested.insns[7] == Insn(0x18, 2, 4, 0, 9)


def test_subprograms_map_reaches_a_function_from_two_callers() -> None:
    found = program("subprograms.o", "both_maps")
    assert layout(found) == [("both_maps", 0, 17), ("store", 17, 26)]
    assert found.refs == {1: MapRef(0), 7: MapRef(1)}


def test_odd_sections() -> None:
    calls, request = read("odd_sections.o").programs
    assert layout(calls) == [("calls_neighbour", 0, 3), ("helper_here", 3, 8)]
    assert (request.section, request.type) == ("?tc", "tc")


def test_text_only_takes_the_function_that_nobody_calls() -> None:
    (found,) = read("text_only.o").programs
    assert layout(found) == [("entry", 0, 3), ("triple", 3, 6)]
    assert found.insns[1] == Insn(0x85, 0, 1, 0, 1)


def test_untyped_labels() -> None:
    first, second = read("untyped.o").programs
    assert layout(first) == [("filter", 0, 12)]
    assert layout(second) == [("second", 0, 2)]
    assert first.refs == {0: MapRef(0)}


def test_two_maps_meet_at_one_call() -> None:
    found = program("two_maps.o", "two_types")
    assert found.refs == {9: MapRef(0), 12: MapRef(2)}
    assert found.insns[11] == Insn(0x55, found.insns[11].dst, 0, 2, 0)
    assert found.insns[17] == Insn(0x85, imm=2)


def test_map_definitions() -> None:
    assert read("for_each.o").maps[1] == Map("names", "hash", 8, 8, 16, 0, type_number=1)
    assert read("map_calls.o").maps[6] == Map("trie", "lpm_trie", 8, 8, 64, 1, type_number=11)
    assert read("queue_stack_bloom.o").maps[2] == Map("bloom", "bloom_filter", 0, 8, 8, 0, type_number=30)
    assert [m.type for m in read("redirect.o").maps] == ["devmap", "devmap_hash", "cpumap", "xskmap"]


@pytest.mark.parametrize("path", sorted(RELEASES.glob("*.json")), ids=lambda path: path.name)
def test_map_types_have_the_names_of_the_releases(path: Path) -> None:
    """Extracted from each release's enum bpf_map_type: the ABI has one name for a number."""
    types = json.loads(path.read_text(encoding="utf-8"))["map_types"]
    assert {name: map_type(row["number"]) for name, row in types.items()} == {name: name for name in types}


def test_map_in_map_templates() -> None:
    by_index, by_name = read("map_in_map.o").maps[2:]
    assert by_index == Map(
        "by_index",
        "array_of_maps",
        4,
        4,
        2,
        0,
        inner=Map("by_index.inner", "hash", 4, 8, 8, 0, type_number=1),
        type_number=12,
    )
    assert by_name == Map(
        "by_name",
        "hash_of_maps",
        8,
        4,
        4,
        0,
        inner=Map("by_name.inner", "array", 4, 4, 1, 0, type_number=2),
        type_number=13,
    )


@pytest.mark.parametrize("name", ["legacy_maps.o", "legacy_maps.bpfeb.o"])
def test_legacy_maps_inner_by_index(name: str) -> None:
    hash_map, array, outer = read(name).maps
    assert hash_map == Map("a_hash", "hash", 4, 8, 16, 1, type_number=1)
    assert outer == Map("c_outer", "array_of_maps", 4, 4, 2, 0, inner=array, type_number=12)
    assert read(name).programs[0].refs == {8: MapRef(0), 13: MapRef(1), 17: MapRef(2)}


def test_legacy_maps_inner_by_id_beside_btf_maps() -> None:
    template, holder, modern = read("legacy_iproute2.o").maps
    assert template == Map("template", "lru_hash", 4, 8, 16, 0, type_number=9)
    assert holder == Map("holder", "hash_of_maps", 4, 4, 2, 0, inner=template, type_number=13, pinned=True)
    assert modern == Map("modern", "array", 4, 4, 2, 0, type_number=2, pinned=True)


def test_legacy_one_section_a_map() -> None:
    found = read("legacy_sections.o")
    assert found.maps == (
        Map("small", "array", 4, 4, 2, 0, type_number=2),
        Map("large", "percpu_hash", 8, 16, 100, 0, type_number=5, pinned=True),
    )
    assert found.programs[0].refs == {4: MapRef(1), 19: MapRef(0)}
    assert (found.programs[0].section, found.programs[0].type) == ("kprobe/sys_open", "kprobe")


@pytest.mark.parametrize("name", ["global_data.o", "global_data.bpfeb.o"])
def test_global_data(name: str) -> None:
    found = read(name)
    # As `bpftool map show` prints them: .rodata flags 0x480, the others 0x400.
    assert found.maps == (
        Map(".data", "array", 4, 4, 1, 0x400, type_number=2),
        Map(".rodata", "array", 4, 9, 1, 0x480, type_number=2),
        Map(".data.tuning", "array", 4, 4, 1, 0x400, type_number=2),
        Map(".bss", "array", 4, 68, 1, 0x400, type_number=2),
    )
    # bpftool prog dump xlated: map[id:…][0]+64, [0]+4 and so on, in this order.
    assert found.programs[0].refs == {
        1: MapRef(1, 0),
        7: MapRef(3, 0),
        13: MapRef(2, 0),
        16: MapRef(0, 0),
        21: MapRef(3, 64),
        26: MapRef(1, 4),
        31: MapRef(3, 0),
    }
    assert found.programs[0].insns[21:23] == (Insn(0x18, found.programs[0].insns[21].dst, 2, 0, 0), Insn(0, imm=64))


def test_gcc_writes_symbol_values_into_the_instructions() -> None:
    (found,) = read("gcc.o").programs
    assert layout(found) == [("mixed", 0, 22), ("step", 22, 24), ("square", 24, 31), ("shifted", 31, 37)]
    # `second` is at 0 in section maps, `first` at 20; `before` at 80 in .data, `values` at 0.
    assert found.refs == {5: MapRef(0), 10: MapRef(1), 26: MapRef(2, 80), 31: MapRef(2, 0)}


def test_arena_variables_and_struct_ops() -> None:
    found = read("arena_struct_ops.o")
    assert found.maps == (
        Map("arena", "arena", 0, 0, 10, 1024, type_number=33),
        Map("slow", "struct_ops", 4, None, 1, 0, type_number=26),
    )
    # llvm-readelf: last at 0 and counter at 4 in .addr_space.1.
    assert [p.refs for p in found.programs] == [{0: MapRef(0, 0)}, {0: MapRef(0, 4)}]


def test_externs_stay_named() -> None:
    (found,) = read("externs.o").programs
    assert found.refs == {
        0: ExternRef("__bpf_call_base", "ksym"),
        2: ExternRef("missing_variable", "ksym", weak=True),
        6: ExternRef("CONFIG_HZ", "kconfig"),
        9: ExternRef("LINUX_KERNEL_VERSION", "kconfig"),
        16: ExternRef("bpf_rcu_read_lock", "kfunc"),
        17: ExternRef("bpf_rcu_read_unlock", "kfunc"),
        18: ExternRef("bpf_get_no_such_thing", "ksym", weak=True),
        22: ExternRef("bpf_get_no_such_thing", "kfunc", weak=True),
    }
    assert found.insns[16] == Insn(0x85, 0, 2, 0, 0)
    assert found.insns[6] == Insn(0x18, found.insns[6].dst)
    assert found.notes == (
        "bpf_get_no_such_thing is weak: the kernel may lack it",
        "missing_variable is weak: the kernel may lack it",
    )


def test_relocated_slots_are_told() -> None:
    """llvm-objdump -dr: CO-RE records at 0x0, 0x88 (slot 17 of the section, 0 of the function) and 0x148 (41, 4)."""
    found = {p.name: (p.relocated, p.insns[min(p.relocated)].opcode) for p in read("relocated.o").programs}
    assert found == {
        "field_exists": (frozenset({0}), 0xB7),
        "enum_value": (frozenset({0}), 0x18),
        "two_calls": (frozenset({4}), 0xB7),
    }
    assert {p.notes for p in read("relocated.o").programs} == {
        ("1 CO-RE relocations are left as they are: field offsets are those of the compile time",)
    }
    assert not any(p.relocated for p in read("externs.o").programs)


def test_an_exception_callback_comes_last_with_what_it_reaches() -> None:
    thrower, thrown_away, kept = read("exceptions.o").programs
    # `count` is there already when the callback's turn comes.
    assert layout(thrower) == [("thrower", 0, 9), ("count", 9, 19), ("caught", 19, 34)]
    assert thrower.entries == (19,)
    assert thrower.insns[32] == Insn(0x85, 0, 1, 0, -24)  # 33 - 24 = 9
    assert (thrown_away.entries, kept.entries) == ((), ())
    assert [s.name for s in kept.subprograms] == ["kept_in_the_frame", "each"]


def test_source_lines() -> None:
    found = program("for_each.o", "sum_array")
    # llvm-objdump --line-numbers on the object before llvm-strip: line 64 for the call, 40 where the callback begins.
    assert found.lines[5] == Line("./for_each.c", 64, 2, "bpf_for_each_map_elem(&numbers, add, &sum, 0);")
    assert found.lines[16].text == "sum->total += *value;"
    assert found.lines[16].line == 40


def test_subprogram_values_are_plain() -> None:
    assert read("text_only.o").programs[0].subprograms[1] == Subprogram("triple", 3, 6)
