"""Objects that no compiler here makes: older, other and odd tools' forms, written row by row."""

import struct

import pytest
from elf_writer import (
    CODE,
    DATA,
    FUNC,
    GLOBAL,
    LOCAL,
    NOBITS,
    NOTYPE,
    OBJECT,
    SECTION,
    WEAK,
    Writer,
    btf,
    btf_type,
)

from model.isa.insn import Insn
from model.loaders.elf import load
from model.program import ExternRef, Map, MapRef, Program

EXIT = "9500000000000000"
MOV = "b700000000000000"  # r0 = 0
LOAD = "18010000{} 0000000000000000"  # r1 = low ll
CALL = "85100000{}"


def words(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}I", *values)


def low(value: int) -> str:
    return struct.pack("<i", value).hex()


def only(writer: Writer) -> Program:
    (found,) = load(writer.bytes(), "x.o").programs
    return found


def test_machine_0_of_very_old_objects() -> None:
    writer = Writer(machine=0)
    writer.symbol("main", writer.code("xdp", EXIT), 0, 8)
    assert only(writer).insns == (Insn(0x95),)


# A call of the function at byte 8 of .text (slot 1): how tools write it.
@pytest.mark.parametrize(
    ("kind", "symbol", "imm", "addend"),
    [
        (10, "function", -1, None),  # LLVM, a global function
        (10, "section", 0, None),  # LLVM, a static function: 8 / 8 - 1
        (2, "function", -1, None),  # older numbering
        (2, "section", 0, None),
        (10, "function", 7, None),  # GCC's assembler: value - 1
        (10, "function", 0, None),  # value / 8 - 1
        (10, "section", -1, 8),  # SHT_RELA
        (10, "function", -1, 0),
        (1, "function", -1, None),
    ],
)
def test_calls_between_sections(kind: int, symbol: str, imm: int, addend: int | None) -> None:
    writer = Writer()
    text = writer.code(".text", EXIT + MOV + EXIT)
    code = writer.code("tc", MOV + CALL.format(low(imm)) + EXIT)
    writer.symbol("first", text, 0, 8, binding=LOCAL)
    symbols = {"section": writer.symbol("", text, kind=SECTION, binding=LOCAL)}
    symbols["function"] = writer.symbol("second", text, 8, 16)
    writer.symbol("main", code, 0, 24)
    writer.relocate(code, (8, kind, symbols[symbol]), addends=None if addend is None else [addend])
    found = only(writer)
    assert [(s.name, s.start, s.end) for s in found.subprograms] == [("main", 0, 3), ("second", 3, 5)]
    assert found.insns[1] == Insn(0x85, 0, 1, 0, 1)


def test_call_in_one_section_needs_no_relocation() -> None:
    writer = Writer()
    code = writer.code("tc", CALL.format(low(1)) + EXIT + MOV + EXIT)
    writer.symbol("main", code, 0, 16)
    writer.symbol("local", code, 16, 16, binding=LOCAL)
    found = only(writer)
    assert [(s.name, s.start, s.end) for s in found.subprograms] == [("main", 0, 2), ("local", 2, 4)]


@pytest.mark.parametrize(("symbol", "imm", "addend"), [("section", 8, None), ("function", 0, None), ("section", 0, 8)])
def test_callback_address(symbol: str, imm: int, addend: int | None) -> None:
    """64-bit load with source 0 against .text with a byte offset, or against the function."""
    writer = Writer()
    text = writer.code(".text", EXIT + MOV + EXIT)
    code = writer.code("tc", LOAD.format(low(imm)) + EXIT)
    symbols = {"section": writer.symbol("", text, kind=SECTION, binding=LOCAL)}
    symbols["function"] = writer.symbol("callback", text, 8, 16, binding=LOCAL)
    writer.symbol("main", code, 0, 24)
    writer.relocate(code, (0, 1, symbols[symbol]), addends=None if addend is None else [addend])
    found = only(writer)
    assert found.insns[:2] == (Insn(0x18, 1, 4, 0, 2), Insn(0))
    assert [(s.name, s.start) for s in found.subprograms] == [("main", 0), ("callback", 3)]


@pytest.mark.parametrize(
    ("symbol", "imm", "addend", "offset"),
    [
        ("section", 24, None, 24),
        ("variable", 0, None, 16),
        ("variable", 4, None, 20),  # inside the variable of 8 bytes
        ("variable", 16, None, 16),  # GCC's assembler: the value is in the instruction already
        ("variable", 20, None, 20),
        ("section", 0, 12, 12),
        ("variable", 99, 4, 20),  # SHT_RELA: what the instruction holds does not count
    ],
)
def test_data_addresses(symbol: str, imm: int, addend: int | None, offset: int) -> None:
    writer = Writer()
    data = writer.add(".data", bytes(32), flags=DATA)
    code = writer.code("tc", LOAD.format(low(imm)) + EXIT)
    symbols = {"section": writer.symbol("", data, kind=SECTION, binding=LOCAL)}
    symbols["variable"] = writer.symbol("variable", data, 16, 8, kind=OBJECT)
    writer.symbol("main", code, 0, 24)
    writer.relocate(code, (0, 1, symbols[symbol]), addends=None if addend is None else [addend])
    found = only(writer)
    assert found.refs == {0: MapRef(0, offset)}
    assert found.insns[:2] == (Insn(0x18, 1, 2, 0, 0), Insn(0, imm=offset))


def test_one_name_in_two_sections() -> None:
    writer = Writer()
    helpers = writer.code(".text", MOV + EXIT)
    one, two = writer.code("tc/one", EXIT), writer.code("tc/two", CALL.format(low(-1)) + EXIT)
    writer.symbol("same", one, 0, 8)
    writer.symbol("same", two, 0, 16)
    writer.relocate(two, (0, 10, writer.symbol("same", helpers, 0, 16, binding=LOCAL)))
    first, second = load(writer.bytes(), "x.o").programs
    assert [(p.name, p.section, len(p.insns)) for p in (first, second)] == [
        ("same", "tc/one", 1),
        ("same", "tc/two", 4),
    ]


def test_names_of_one_range_are_aliases() -> None:
    writer = Writer()
    code = writer.code("tc", MOV + EXIT)
    writer.symbol("strong", code, 0, 16)
    writer.symbol("weak", code, 0, 16, binding=WEAK)
    assert [(p.name, p.subprograms[0].name) for p in load(writer.bytes(), "x.o").programs] == [
        ("strong", "strong"),
        ("weak", "weak"),
    ]


def test_recursion_is_laid_out_once() -> None:
    writer = Writer()
    code = writer.code("tc", CALL.format(low(-1)) + EXIT)
    writer.symbol("main", code, 0, 16)
    found = only(writer)
    assert len(found.insns) == 2
    assert found.insns[0].imm == -1


def test_untyped_code_is_split_at_labels_and_targets_of_calls() -> None:
    writer = Writer()
    code = writer.code("socket", CALL.format(low(2)) + EXIT + MOV + EXIT + MOV + EXIT)
    writer.symbol("LBB0_1", code, 8, kind=NOTYPE, binding=LOCAL)
    writer.symbol("main", code, 0, kind=NOTYPE)
    writer.symbol("inner", code, 24, kind=NOTYPE, binding=LOCAL)
    writer.symbol("end", code, 48, kind=NOTYPE)
    assert [(s.name, s.start, s.end) for s in only(writer).subprograms] == [("main", 0, 3), ("inner", 3, 6)]


def test_code_without_any_symbol_is_one_program() -> None:
    writer = Writer()
    writer.code("socket", MOV + EXIT)
    assert (only(writer).name, len(only(writer).insns)) == ("socket", 2)


def test_text_is_no_program_beside_others_even_if_nobody_calls_it() -> None:
    writer = Writer()
    writer.symbol("unused", writer.code(".text", EXIT), 0, 8)
    writer.symbol("main", writer.code("tc", EXIT), 0, 8)
    assert only(writer).name == "main"


@pytest.mark.parametrize(("binding", "weak"), [(GLOBAL, False), (WEAK, True)])
def test_kernel_function_looks_like_a_subprogram(binding: int, weak: bool) -> None:
    writer = Writer()
    code = writer.code("tc", CALL.format(low(-1)) + EXIT)
    writer.symbol("main", code, 0, 16)
    writer.relocate(code, (0, 10, writer.symbol("bpf_obj_drop_impl", 0, kind=NOTYPE, binding=binding)))
    found = only(writer)
    assert found.insns[0] == Insn(0x85, 0, 2, 0, 0)
    assert found.refs == {0: ExternRef("bpf_obj_drop_impl", "kfunc", weak)}
    assert bool(found.notes) == weak


def test_poisoned_call_stays() -> None:
    writer = Writer()
    code = writer.code("tc", "850000001023ad0b" + EXIT)
    writer.symbol("main", code, 0, 16)
    assert only(writer).insns[0] == Insn(0x85, imm=195896080)


def test_relocation_none_is_nothing() -> None:
    writer = Writer()
    code = writer.code("tc", MOV + EXIT)
    writer.relocate(code, (0, 0, writer.symbol("main", code, 0, 16)), (0, 0, 0))
    assert only(writer).refs == {}


def legacy(data: bytes, *places: int, name: str = "maps") -> Writer:
    writer = Writer()
    section = writer.add(name, data, flags=DATA)
    for index, place in enumerate(places):
        writer.symbol(f"m{index}", section, place, kind=OBJECT)
    writer.symbol("main", writer.code("tc", EXIT), 0, 8)
    return writer


@pytest.mark.parametrize("rest", [0, 4, 8, 12])
def test_legacy_records_have_the_distance_of_their_symbols(rest: int) -> None:
    """A size that is no multiple of the record: the last record has the size of the others."""
    data = words(1, 4, 8, 16, 1) + words(2, 4, 4, 5, 0) + b"\xff" * rest
    assert load(legacy(data, 0, 20).bytes(), "x.o").maps == (
        Map("m0", "hash", 4, 8, 16, 1, type_number=1),
        Map("m1", "array", 4, 4, 5, 0, type_number=2),
    )


def test_legacy_record_of_16_bytes_has_no_flags() -> None:
    assert load(legacy(words(2, 4, 4, 5), 0).bytes(), "x.o").maps == (Map("m0", "array", 4, 4, 5, 0, type_number=2),)


def test_legacy_unknown_type_keeps_its_number() -> None:
    (found,) = load(legacy(words(99, 4, 4, 5, 0), 0).bytes(), "x.o").maps
    assert (found.type, found.type_number) == (None, 99)


def test_legacy_inner_index_out_of_range_is_no_template() -> None:
    data = words(12, 4, 4, 5, 0, 7) + words(13, 4, 4, 5, 0, 0)
    assert [m.inner for m in load(legacy(data, 0, 24).bytes(), "x.o").maps] == [None, None]


def test_legacy_array_of_maps_under_one_symbol() -> None:
    writer = Writer()
    section = writer.add("maps", words(1, 4, 8, 16, 0) + words(2, 4, 4, 5, 0) + words(2, 4, 4, 6, 0), flags=DATA)
    writer.symbol("first", section, 0, 20, kind=OBJECT)
    pair = writer.symbol("pair", section, 20, 40, kind=OBJECT)
    code = writer.code("tc", LOAD.format(low(0)) + LOAD.format(low(20)) + EXIT)
    writer.symbol("main", code, 0, 40)
    writer.relocate(code, (0, 1, pair), (16, 1, pair))
    found = load(writer.bytes(), "x.o")
    assert [(m.name, m.max_entries) for m in found.maps] == [("first", 16), ("pair[0]", 5), ("pair[1]", 6)]
    assert found.programs[0].refs == {0: MapRef(1), 2: MapRef(2)}


def test_static_legacy_map_by_section_symbol() -> None:
    writer = Writer()
    section = writer.add("maps", words(1, 4, 8, 16, 0) + words(2, 4, 4, 5, 0), flags=DATA)
    for index in range(2):
        writer.symbol(f"m{index}", section, 20 * index, 20, kind=OBJECT, binding=LOCAL)
    code = writer.code("tc", LOAD.format(low(20)) + EXIT)
    writer.symbol("main", code, 0, 24)
    writer.relocate(code, (0, 1, writer.symbol("", section, kind=SECTION, binding=LOCAL)))
    assert only(writer).refs == {0: MapRef(1)}


def definition(number: int, *, pinning: int = 0) -> bytes:
    """BTF ids 1 to 8: int, then what it takes for struct 8 to say type = number, max_entries = 3 and pinning."""
    names = {"int": 1, "type": 5, "max_entries": 10, "pinning": 22, "outer": 30, ".maps": 36}
    types = btf_type(names["int"], 1, 0, 4, 32)
    for value in (number, 3, pinning):
        array = btf_type(0, 3, 0, 0, 1, 1, value)
        types += array + btf_type(0, 2, 0, (len(types) - 16) // 28 * 2 + 2)
    types += btf_type(0, 4, 3, 24, names["type"], 3, 0, names["max_entries"], 5, 64, names["pinning"], 7, 128)
    return types


STRINGS = b"int\0type\0max_entries\0pinning\0outer\0.maps\0"


def test_array_of_maps_of_one_shape_in_btf() -> None:
    """Sixteen maps under one variable: each is a map of its own; a pinning value that is neither 0 nor 1."""
    types = definition(27, pinning=2) + btf_type(0, 3, 0, 0, 8, 1, 16)  # 9: struct 8 [16]
    types += btf_type(30, 14, 0, 9, 1) + btf_type(36, 15, 1, 0, 10, 0, 384)
    writer = Writer()
    section = writer.add(".maps", bytes(384), flags=DATA)
    writer.add(".BTF", btf(types, STRINGS))
    symbol = writer.symbol("outer", section, 0, 384, kind=OBJECT)
    code = writer.code("tc", LOAD.format(low(0)) + LOAD.format(low(15 * 24)) + EXIT)
    writer.symbol("main", code, 0, 40)
    writer.relocate(code, (0, 1, symbol), (16, 1, symbol))
    found = load(writer.bytes(), "x.o")
    assert [m.name for m in found.maps] == [f"outer[{index}]" for index in range(16)]
    assert found.maps[15] == Map("outer[15]", "ringbuf", 0, 0, 3, 0, type_number=27, pinned=True)
    assert found.programs[0].refs == {0: MapRef(0), 2: MapRef(15)}


EXTRA = {
    "__uint": btf_type(0, 3, 0, 0, 1, 1, 3) + btf_type(0, 2, 0, 6),
    "__ulong, 32 bits": btf_type(0, 6, 1, 4, 0, 3) + btf_type(0, 8, 0, 6),
    "__ulong, 64 bits": btf_type(0, 19, 1, 8, 0, 3, 0) + btf_type(0, 8, 0, 6),
}


@pytest.mark.parametrize("form", EXTRA)
def test_map_extra_in_btf(form: str) -> None:
    """6: an array of 3 elements or an enum of value 3; 7: a pointer to it, or it as a typedef."""
    types = btf_type(1, 1, 0, 4, 32)
    for value in (30, 3):
        types += btf_type(0, 3, 0, 0, 1, 1, value) + btf_type(0, 2, 0, (len(types) - 16) // 28 * 2 + 2)
    types += EXTRA[form] + btf_type(0, 4, 3, 24, 5, 3, 0, 10, 5, 64, len(STRINGS) + 1, 7, 128)
    types += btf_type(30, 14, 0, 8, 1) + btf_type(36, 15, 1, 0, 9, 0, 24)
    writer = Writer()
    section = writer.add(".maps", bytes(24), flags=DATA)
    writer.add(".BTF", btf(types, STRINGS + b"map_extra\0"))
    symbol = writer.symbol("outer", section, 0, 24, kind=OBJECT)
    code = writer.code("tc", LOAD.format(low(0)) + EXIT)
    writer.symbol("main", code, 0, 24)
    writer.relocate(code, (0, 1, symbol))
    assert load(writer.bytes(), "x.o").maps == (Map("outer", "bloom_filter", 0, 0, 3, 0, type_number=30, extra=3),)


def test_btf_maps_lie_where_their_symbols_are() -> None:
    types = definition(2) + btf_type(30, 14, 0, 8, 1) + btf_type(36, 15, 1, 0, 9, 0, 24)
    writer = Writer()
    section = writer.add(".maps", bytes(48), flags=DATA)
    writer.add(".BTF", btf(types, STRINGS))
    symbol = writer.symbol("outer", section, 24, 24, kind=OBJECT)
    code = writer.code("tc", LOAD.format(low(0)) + EXIT)
    writer.symbol("main", code, 0, 24)
    writer.relocate(code, (0, 1, symbol))
    found = load(writer.bytes(), "x.o")
    assert found.maps == (Map("outer", "array", 0, 0, 3, 0, type_number=2),)
    assert found.programs[0].refs == {0: MapRef(0)}


def test_bss_of_a_gigabyte_costs_nothing() -> None:
    writer = Writer()
    writer.add(".bss", b"", NOBITS, DATA, size=1 << 30)
    writer.symbol("main", writer.code("tc", EXIT), 0, 8)
    assert load(writer.bytes(), "x.o").maps == (Map(".bss", "array", 4, 1 << 30, 1, 0, type_number=2),)


def test_strings_of_rodata_and_empty_sections() -> None:
    writer = Writer()
    writer.add(".rodata.str1.1", b"a\0")
    writer.add(".data", b"")
    writer.symbol("main", writer.code("tc", EXIT), 0, 8)
    assert load(writer.bytes(), "x.o").maps == (Map(".rodata.str1.1", "array", 4, 2, 1, 0x80, type_number=2),)


def test_many_instructions_in_one_file() -> None:
    """78,000 instructions and 3,900 map references, 10 MB: one program (linear; about a quarter of a second)."""
    block = LOAD.format(low(0)) + MOV * 18
    writer = Writer()
    section = writer.add("maps", words(1, 4, 8, 16, 0), flags=DATA)
    symbol = writer.symbol("m", section, 0, 20, kind=OBJECT)
    code = writer.add("tc", bytes.fromhex(block) * 3899 + bytes.fromhex(MOV * 19 + EXIT), flags=CODE)
    writer.symbol("main", code, 0, 78000 * 8, kind=FUNC)
    writer.relocate(code, *[(index * 160, 1, symbol) for index in range(3899)])
    writer.add(".debug_info", bytes(9_400_000))
    found = only(writer)
    assert (len(found.insns), len(found.refs)) == (78000, 3899)
