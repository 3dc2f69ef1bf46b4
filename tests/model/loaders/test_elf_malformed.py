"""Malformed objects: one line that names file, section, offset and what was expected; never another exception."""

import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from elf_writer import CODE, DATA, GLOBAL, LOCAL, NOBITS, NOTYPE, OBJECT, RELA, Part, Writer
from hypothesis import given, settings
from hypothesis import strategies as st

from model.errors import InputError
from model.loaders.elf import load

OBJECTS = sorted((Path(__file__).parents[2] / "data" / "objects").glob("*.o"))
EXIT = bytes.fromhex("9500000000000000")
CALL = bytes.fromhex("85100000ffffffff")
LOAD = bytes.fromhex("18010000000000000000000000000000")


def refused(data: bytes) -> str:
    with pytest.raises(InputError) as caught:
        load(data, "x.o")
    assert len(str(caught.value).splitlines()) == 1
    return str(caught.value)


def program(code: bytes = EXIT, **symbol: int) -> Writer:
    writer = Writer()
    section = writer.add("tc", code, flags=CODE)
    writer.symbol("main", section, symbol.get("value", 0), symbol.get("size", len(code)))
    return writer


def test_the_smallest_object_loads() -> None:
    assert len(load(program().bytes(), "x.o").programs) == 1


def edited(offset: int, form: str, value: int) -> bytes:
    data = bytearray(program().bytes())
    struct.pack_into("<" + form, data, offset, value)
    return bytes(data)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "x.o: offset 0x0: expected the ELF magic 7f 45 4c 46"),
        (b"\x7fELF\2\1\1", "x.o: offset 0x7: file ends inside the ELF header of 64 bytes"),
        (edited(4, "B", 1), "x.o: offset 0x4: expected ELFCLASS64 in either byte order, found 1, 1"),
        (edited(5, "B", 3), "x.o: offset 0x4: expected ELFCLASS64 in either byte order, found 2, 3"),
        (edited(16, "H", 2), "x.o: offset 0x10: expected a relocatable object (ET_REL), found ET_EXEC"),
        (edited(18, "H", 62), "x.o: offset 0x12: expected machine 247 (EM_BPF) or 0, found EM_X86_64"),
        (
            edited(40, "Q", 1 << 60),
            "x.o: offset 0x1000000000000000: expected section headers inside the file of 0x1e0 bytes",
        ),
        (edited(58, "H", 0), "x.o: offset 0x3a: expected section headers of 64 bytes, found 0"),
        (edited(60, "H", 6), "x.o: offset 0xa0: 6 section headers do not fit into the file"),
        (edited(62, "H", 5), "x.o: offset 0x3e: section names in section 5, but there are 5"),
    ],
)
def test_headers(data: bytes, message: str) -> None:
    assert refused(data) == message


def claims(size: int) -> Writer:
    writer = program()
    writer.add(".data", bytes(8), flags=DATA, size=size)
    return writer


def test_section_of_2_to_the_60_bytes() -> None:
    message = refused(claims(1 << 60).bytes())
    assert (
        message == "x.o: section .data: 0x1000000000000000 bytes at offset 0x48 do not fit into the file of 0x230 bytes"
    )


def test_section_without_contents_of_2_to_the_60_bytes() -> None:
    writer = program()
    writer.add(".bss", b"", NOBITS, DATA, size=1 << 60)
    assert refused(writer.bytes()) == "x.o: section .bss: 0x1000000000000000 bytes of data, expected less than 2 GiB"


def test_sections_that_overlap() -> None:
    writer = claims(16)
    assert refused(writer.bytes()) == "x.o: section .symtab: file offset 0x50 overlaps section .data up to 0x58"


@pytest.mark.parametrize(
    ("value", "size", "message"),
    [
        (0xFFFFFFFFFFFFFFB8, 8, "function main at 0xffffffffffffffb8, 8 bytes, is outside its section of 0x10 bytes"),
        (16, 8, "function main at 0x10, 8 bytes, is outside its section of 0x10 bytes"),
        (8, 16, "function main at 0x8, 16 bytes, is outside its section of 0x10 bytes"),
        (0, 1 << 60, "function main at 0x0, 1152921504606846976 bytes, is outside its section of 0x10 bytes"),
        (4, 8, "function main at 0x4, 8 bytes, is misaligned"),
        (0, 12, "function main at 0x0, 12 bytes, is misaligned"),
    ],
)
def test_function_symbols(value: int, size: int, message: str) -> None:
    assert refused(program(EXIT * 2, value=value, size=size).bytes()) == f"x.o: section tc: {message}"


def test_functions_that_overlap() -> None:
    writer = program(EXIT * 3, size=16)
    writer.symbol("second", 1, 8, 16)
    assert refused(writer.bytes()) == "x.o: section tc+0x8: function second overlaps function main"


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ((0x18, 1, 1), "x.o: section .rel+0x0: relocation offset 0x18 outside section tc of 0x18 bytes"),
        (
            (1 << 63, 1, 1),
            "x.o: section .rel+0x0: relocation offset 0x8000000000000000 outside section tc of 0x18 bytes",
        ),
        ((0, 1, 9), "x.o: section .rel+0x0: symbol index 9 outside the table of 4"),
        ((4, 1, 1), "x.o: section tc+0x4: relocation of type 1: expected type 1, 2, 3, 4 or 10, once for a whole slot"),
        (
            (0, 99, 1),
            "x.o: section tc+0x0: relocation of type 99: expected type 1, 2, 3, 4 or 10, once for a whole slot",
        ),
        ((16, 1, 1), "x.o: section tc+0x10: relocation at opcode 0x95: expected a call or a 64-bit load"),
        ((8, 1, 1), "x.o: section tc+0x8: relocation at opcode 0x00: expected a call or a 64-bit load"),
        ((0, 1, 0), "x.o: section tc+0x0: relocation against a symbol that has neither section nor name"),
        ((0, 1, 2), "x.o: section tc+0x0: symbol common is in no section (0xfff2)"),
        ((0, 1, 3), "x.o: section tc+0x0: symbol far at 0x1000 is outside its section tc"),
    ],
)
def test_relocations(row: tuple[int, int, int], message: str) -> None:
    writer = program(LOAD + EXIT)
    writer.symbol("common", 0xFFF2, kind=OBJECT)
    writer.symbol("far", 1, 0x1000, kind=OBJECT)
    writer.relocate(1, row)
    assert refused(writer.bytes()) == message


def test_relocation_of_one_slot_twice() -> None:
    writer = program(CALL + EXIT)
    writer.relocate(1, (0, 10, 1), (0, 10, 1))
    assert "once for a whole slot" in refused(writer.bytes())


def test_reference_into_a_section_that_holds_nothing_known() -> None:
    writer = program(LOAD + EXIT)
    symbol = writer.symbol("_license", writer.add("license", b"GPL\0", flags=DATA), kind=OBJECT)
    writer.relocate(1, (0, 1, symbol))
    assert (
        refused(writer.bytes()) == "x.o: section tc+0x0: symbol _license in section license is no function, map or data"
    )


def test_call_of_data() -> None:
    writer = program(CALL + EXIT)
    symbol = writer.symbol("number", writer.add(".data", bytes(8), flags=DATA), kind=OBJECT)
    writer.relocate(1, (0, 10, symbol))
    assert refused(writer.bytes()) == "x.o: section tc+0x0: symbol number in section .data is no function"


@pytest.mark.parametrize(
    ("imm", "message"),
    [
        (0x100, "x.o: section tc+0x0: target at tc+0x808 is outside its section of 0x18 bytes"),
        (-2, "x.o: section tc+0x0: target at tc-0x8 is outside its section of 0x18 bytes"),
        (0, "x.o: section tc+0x8: target of a call or callback address: expected the start of a function"),
    ],
)
def test_calls_without_relocation(imm: int, message: str) -> None:
    code = bytes.fromhex("85100000") + struct.pack("<i", imm) + EXIT * 2
    assert refused(program(code).bytes()) == message


@pytest.mark.parametrize(
    ("offset", "place"),
    [(2, "slot 3"), (-2, "slot -1"), (0x7FFF, "slot 32768"), (-0x8000, "slot -32767")],
)
def test_jumps_out_of_the_function(offset: int, place: str) -> None:
    writer = program(struct.pack("<BBhi", 5, 0, offset, 0) + EXIT * 2, size=24)
    writer.parts[0].data += EXIT * 8
    assert f"jump to {place}: expected an instruction of the function's 3 slots" in refused(writer.bytes())


def test_jump_into_a_wide_load() -> None:
    message = refused(program(struct.pack("<BBhi", 5, 0, 1, 0) + LOAD + EXIT).bytes())
    assert message.startswith("x.o: section tc+0x0, function main, slot 0: jump to slot 2")


@pytest.mark.parametrize(("code", "slot"), [(b"\xff" * 8, 0), (EXIT + LOAD[:8], 1), (LOAD[:8] + EXIT, 0)])
def test_invalid_instructions(code: bytes, slot: int) -> None:
    assert refused(program(code).bytes()).startswith(f"x.o: section tc, function main, slot {slot}: ")


def test_code_that_is_no_whole_number_of_slots() -> None:
    assert refused(program(EXIT + b"\0", size=8).bytes()).startswith("x.o: section tc: ")


def wrong_link(writer: Writer) -> None:
    writer.relocate(1, (0, 10, 1))
    writer.parts[-1].link = 77


def wrong_info(writer: Writer) -> None:
    writer.relocate(77, (0, 10, 1))


def odd_table(writer: Writer) -> None:
    writer.relocate(1, (0, 10, 1))
    writer.parts[-1].data += b"\0"


def odd_rela(writer: Writer) -> None:
    writer.parts.append(Part(".rela", bytes(16), RELA, link=-1, info=1))


def wrong_section(writer: Writer) -> None:
    writer.symbol("lost", 0x1234)


def wrong_name(writer: Writer) -> None:
    writer.symbols.append(struct.pack("<IBBHQQ", 0x5000, 0, 0, 1, 0, 0))


def second_table(writer: Writer) -> None:
    writer.add(".symtab2", bytes(24), 2)


def odd_symbols(writer: Writer) -> None:
    writer.symbols.append(b"\0")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (wrong_link, "section .rel: expected the index of the symbol table in sh_link, found 77"),
        (wrong_info, "section .rel: expected the index of a section in sh_info, found 77"),
        (odd_table, "section .rel: expected a multiple of 16 bytes, found 0x11"),
        (odd_rela, "section .rela: expected a multiple of 24 bytes, found 0x10"),
        (wrong_section, "section .symtab+0x30: section index 4660 outside the table of 5"),
        (wrong_name, "section .symtab+0x30: name offset 0x5000 outside section .strtab"),
        (second_table, "section .symtab: a second symbol table; the first is section 2"),
        (odd_symbols, "section .symtab: expected a multiple of 24 bytes, found 0x31"),
    ],
)
def test_tables(change: Callable[[Writer], None], message: str) -> None:
    writer = program(CALL + EXIT)
    change(writer)
    assert refused(writer.bytes()) == f"x.o: {message}"


def test_unterminated_names() -> None:
    writer = program()
    writer.strings[-1:] = b"x"
    assert refused(writer.bytes()) == "x.o: section .strtab: string at 0x1 has no NUL within 4096 bytes"


def test_names_that_overlap_without_end() -> None:
    writer = Writer()
    section = writer.add("tc", EXIT * 4000, flags=CODE)
    writer.strings += b"a" * 4000 + b"\0"
    for index in range(4000):
        writer.symbols.append(struct.pack("<IBBHQQ", 1 + index, 0x12, 0, section, index * 8, 8))
    assert (
        refused(writer.bytes())
        == "x.o: section .strtab: strings overlap so much that their sum is over 16 times the table's size"
    )


def test_control_characters_do_not_reach_the_terminal() -> None:
    writer = Writer()
    section = writer.add("tc", EXIT, flags=CODE)
    writer.symbol("a\x1b[31m\r\u2028b", section, 4, 4)
    assert "a\\x1b[31m\\r\\u2028b" in refused(writer.bytes())


@pytest.mark.parametrize(
    ("data", "places", "message"),
    [
        (bytes(12), [0], "section maps+0x0: map records of 12 bytes, expected 16 or more"),
        (bytes(40), [0, 36], "section maps+0x0: map records of 4 bytes, expected 16 or more"),
        (bytes(20), [0], "section maps+0x0: map m0: expected a type that is not 0"),
        (bytes(20), [20], "section maps: map m0 at 0x14 is outside its section of 0x14 bytes"),
        (bytes(20), [1 << 63], "section maps: map m0 at 0x8000000000000000 is outside its section of 0x14 bytes"),
    ],
)
def test_legacy_maps(data: bytes, places: list[int], message: str) -> None:
    writer = program()
    section = writer.add("maps", data, flags=DATA)
    for index, place in enumerate(places):
        writer.symbol(f"m{index}", section, place, kind=NOTYPE)
    assert refused(writer.bytes()) == f"x.o: {message}"


def test_maps_without_btf() -> None:
    writer = program()
    writer.add(".maps", bytes(32), flags=DATA)
    assert refused(writer.bytes()) == "x.o: section .maps: expected .BTF with a DATASEC .maps: it defines the maps"


def test_arena_section_without_arena() -> None:
    writer = program()
    writer.add(".addr_space.1", bytes(8), flags=DATA)
    assert (
        refused(writer.bytes()) == "x.o: section .addr_space.1: expected a map of type arena, which holds this section"
    )


def test_two_sections_of_maps() -> None:
    writer = program()
    writer.add(".maps", bytes(8), flags=DATA)
    writer.add(".maps", bytes(8), flags=DATA)
    assert refused(writer.bytes()) == "x.o: section .maps: expected one section of this name; section 3 is another"


def test_programs_that_share_too_much() -> None:
    """100 programs reach one subprogram of 50,000 instructions: refused before it fills the memory."""
    writer = Writer()
    text = writer.add(".text", EXIT * 50_000, flags=CODE)
    code = writer.add("tc", (CALL + EXIT) * 100, flags=CODE)
    shared = writer.symbol("shared", text, 0, 400_000, binding=LOCAL)
    for index in range(100):
        writer.symbol(f"p{index}", code, 16 * index, 16, binding=GLOBAL)
    writer.relocate(code, *[(16 * index, 10, shared) for index in range(100)])
    message = refused(writer.bytes())
    assert message.startswith("x.o: section tc, function p79: program of 50002 instructions: ")


def attempt(data: bytes) -> None:
    """Whatever the bytes: an object, or an InputError of one line that names the file."""
    message = "x.o: "
    try:
        load(data, "x.o")
    except InputError as error:
        message = str(error)
    assert message.startswith("x.o: ")
    assert len(message.splitlines()) == 1


INTERESTING = [
    0,
    1,
    7,
    8,
    24,
    0x7F,
    0x80,
    0xFF,
    0xFFFF,
    0x7FFFFFFF,
    0xFFFFFFFF,
    1 << 60,
    (1 << 64) - 0x48,
    (1 << 64) - 1,
]
objects = st.sampled_from(OBJECTS).map(Path.read_bytes)


@settings(max_examples=300)
@given(objects, st.lists(st.tuples(st.integers(0, 1 << 16), st.integers(0, 255)), min_size=1, max_size=8))
def test_flipped_bytes(data: bytes, changes: list[tuple[int, int]]) -> None:
    changed = bytearray(data)
    for at, value in changes:
        changed[at % len(data)] = value
    attempt(bytes(changed))


@settings(max_examples=300)
@given(objects, st.integers(0, 1 << 16), st.sampled_from([1, 2, 4, 8]), st.sampled_from(INTERESTING), st.booleans())
def test_extreme_fields(data: bytes, at: int, width: int, value: int, at_end: bool) -> None:
    """Whole fields, half of them in the section headers (at the end of the file)."""
    start = len(data) // 4 * 3 if at_end else 0
    place = start + at % (len(data) - start - 8) // width * width
    field = (value & ((1 << 8 * width) - 1)).to_bytes(width, "little" if data[5] == 1 else "big")
    attempt(data[:place] + field + data[place + width :])


@settings(max_examples=200)
@given(objects, st.integers(0, 1 << 16), st.integers(1, 512))
def test_zeroed_ranges(data: bytes, at: int, size: int) -> None:
    at %= len(data)
    attempt((data[:at] + bytes(size) + data[at + size :])[: len(data)])


@settings(max_examples=200)
@given(objects, st.integers(0, 1 << 16))
def test_truncated(data: bytes, size: int) -> None:
    attempt(data[: size % len(data)])


@pytest.mark.parametrize("path", OBJECTS, ids=lambda path: path.name)
def test_truncated_objects_are_refused(path: Path) -> None:
    """The section headers or names stand at the end: no prefix is an object."""
    data = path.read_bytes()
    for size in {0, 3, 16, 63, 64, len(data) // 2, len(data) - 64, len(data) - 1}:
        refused(data[:size])


@settings(max_examples=200)
@given(st.binary(max_size=300))
def test_any_bytes(data: bytes) -> None:
    attempt(data)
    attempt(b"\x7fELF\2\1\1" + data)
