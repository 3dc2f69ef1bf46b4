"""BTF: values by hand from Documentation/bpf/btf.rst; what GCC and clang write is read in test_elf."""

import struct
from contextlib import suppress

import pytest
from elf_writer import DATA, Writer, btf, btf_type
from hypothesis import given, settings
from hypothesis import strategies as st

from model.errors import InputError
from model.loaders.btf import Btf, Kind, Member, Variable
from model.loaders.elf import load

NAMES = b"int\0point\0x\0y\0.data\0"
INT = btf_type(1, 1, 0, 4, 32)


def refused(data: bytes) -> str:
    with pytest.raises(InputError) as caught:
        Btf(data, "x.o")
    return str(caught.value)


@pytest.mark.parametrize("order", ["<", ">"])
def test_every_kind(order: str) -> None:
    def row(*fields: int) -> bytes:
        return btf_type(*fields, order=order)

    types = [
        row(1, 1, 0, 4, 32),  # 1 int
        row(0, 2, 0, 1),  # 2 int *
        row(0, 3, 0, 0, 1, 1, 6),  # 3 int [6]
        row(5, 4, 2, 8, 11, 1, 0, 13, 1, 32),  # 4 struct point { int x, y; }
        row(0, 5, 1, 4, 11, 1, 0),  # 5 union
        row(0, 6, 1, 4, 11, 9),  # 6 enum
        row(5, 7, 0, 0),  # 7 fwd
        row(5, 8, 0, 9),  # 8 typedef
        row(0, 9, 0, 10),  # 9 volatile
        row(0, 10, 0, 11),  # 10 const
        row(0, 11, 0, 18),  # 11 restrict
        row(5, 12, 1, 13),  # 12 func
        row(0, 13, 2, 1, 11, 1, 0, 0),  # 13 func_proto (int x, ...)
        row(11, 14, 0, 1, 1),  # 14 var int x
        row(15, 15, 1, 4, 14, 0, 4),  # 15 datasec .data
        row(0, 16, 0, 8),  # 16 float of 8 bytes
        row(5, 17, 0, 4, 0xFFFFFFFF),  # 17 decl_tag
        row(5, 18, 0, 4),  # 18 type_tag
        row(0, 19, 1, 8, 11, 1, 2),  # 19 enum64
    ]
    found = Btf(btf(b"".join(types), NAMES, order), "x.o")
    assert len(found) == 20
    assert [found.type(id).kind for id in range(20)] == list(Kind)
    assert found.type(4).name == "point"
    assert found.members(found.type(4)) == [Member("x", 1, 0), Member("y", 1, 32)]
    assert found.array(found.type(3)) == (1, 6)
    assert found.variables(found.type(15)) == [Variable(14, 0, 4)]
    assert found.datasecs == {".data": 15}
    assert (found.linkage(found.type(14)), found.linkage(found.type(12))) == (1, 1)
    assert found.resolve(8).id == 4
    assert [found.size(id) for id in (1, 2, 3, 4, 5, 6, 8, 14, 16, 19)] == [4, 8, 24, 8, 4, 4, 8, 4, 8, 8]


def test_bit_fields_keep_their_size_in_the_upper_byte() -> None:
    types = INT + struct.pack("<III", 5, 1 << 31 | 4 << 24 | 1, 4) + struct.pack("<III", 11, 1, 3 << 24 | 17)
    found = Btf(btf(types, NAMES), "x.o")
    assert found.members(found.type(2)) == [Member("x", 1, 17)]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "x.o: section .BTF: expected a header, found 0 bytes"),
        (b"\x9f\xea" + bytes(30), "x.o: section .BTF: expected the magic 0xeb9f in either byte order, found 9fea"),
        (btf(b"", b"")[:2] + b"\2" + btf(b"", b"")[3:], "x.o: section .BTF+0x2: expected version 1, found 2"),
        (btf(INT, NAMES)[:-4], "x.o: section .BTF+0x10: 0x15 bytes at 0x28 do not fit into the section of 0x39 bytes"),
        (btf(INT[:-5], NAMES), "x.o: section .BTF+0x18: types end inside a type"),
        (btf(INT[:-4], NAMES), "x.o: section .BTF+0x18: type reaches beyond the end of the types"),
        (btf(btf_type(1, 31, 0, 4), NAMES), "x.o: section .BTF+0x18: expected a kind from 1 to 19, found 31"),
        (btf(btf_type(1, 0, 0, 4), NAMES), "x.o: section .BTF+0x18: expected a kind from 1 to 19, found 0"),
        (
            btf(btf_type(99, 16, 0, 4), NAMES),
            "x.o: section .BTF+0x18: name offset 0x63 outside the strings of 0x15 bytes",
        ),
        (btf(INT, b"int"), "x.o: section .BTF+0x28: expected strings that begin and end with NUL"),
        (btf(btf_type(0, 4, 0xFFFF, 4), NAMES), "x.o: section .BTF+0x18: type reaches beyond the end of the types"),
    ],
)
def test_malformed(data: bytes, message: str) -> None:
    assert refused(data) == message


@pytest.mark.parametrize("kind", [8, 9, 10, 11, 18])
def test_cycles_of_modifiers(kind: int) -> None:
    found = Btf(btf(btf_type(5, kind, 0, 2) + btf_type(5, kind, 0, 1), NAMES), "x.o")
    with pytest.raises(InputError, match="type 1: chain of over 32 typedefs and modifiers: a cycle"):
        found.resolve(1)
    with pytest.raises(InputError, match="a cycle"):
        found.size(2)


def test_cycle_of_arrays() -> None:
    found = Btf(btf(btf_type(0, 3, 0, 0, 1, 1, 2), NAMES), "x.o")
    with pytest.raises(InputError, match="type 1: over 32 arrays of arrays: a cycle"):
        found.size(1)


def test_sizes_of_4_gib_and_types_without_size() -> None:
    found = Btf(btf(INT + btf_type(0, 3, 0, 0, 1, 1, 1 << 31) + btf_type(5, 7, 0, 0), NAMES), "x.o")
    with pytest.raises(InputError, match="type 2: 0x200000000 bytes, expected less than 4 GiB"):
        found.size(2)
    for id in (0, 3):
        with pytest.raises(InputError, match=f"type {id}: expected a type with a size"):
            found.size(id)
    with pytest.raises(InputError, match="type id 4 outside of 0 to 3"):
        found.type(4)


# A variable `m` of .maps, one member. Types: 1 int, 2 the member's, 3 what that refers to, 4 struct, 5 variable.
MAP_NAMES = b"int\0type\0values\0m\0.maps\0"


@pytest.mark.parametrize(
    ("second", "third", "member", "message"),
    [
        ((0, 2, 0, 3), (0, 3, 0, 0, 1, 1, 0), 5, "+0x4c: map m: expected a member `type` that is not 0"),
        (
            (0, 2, 0, 3),
            (0, 2, 0, 2),
            5,
            "+0x34: map m, member type: expected a pointer to an array whose length is the value, found PTR",
        ),
        (
            (0, 8, 0, 2),
            (0, 3, 0, 0, 1, 1, 2),
            5,
            "+0x28: type 2: chain of over 32 typedefs and modifiers: a cycle",
        ),
        ((0, 2, 0, 99), (0, 3, 0, 0, 1, 1, 2), 5, ": type id 99 outside of 0 to 6"),
        (
            (0, 2, 0, 3),
            (0, 3, 0, 0, 1, 1, 2),
            10,
            "+0x28: map m, member values: expected an array of pointers, found PTR",
        ),
        ((0, 3, 0, 0, 3, 1, 0), (0, 2, 0, 4), 10, "+0x4c: map m.inner: an inner map cannot hold maps"),
    ],
)
def test_malformed_map_definitions(second: tuple[int, ...], third: tuple[int, ...], member: int, message: str) -> None:
    types = INT + btf_type(*second) + btf_type(*third) + btf_type(0, 4, 1, 8, member, 2, 0)
    types += btf_type(17, 14, 0, 4, 1) + btf_type(19, 15, 1, 8, 5, 0, 8)
    writer = Writer()
    writer.add(".maps", bytes(8), flags=DATA)
    writer.add(".BTF", btf(types, MAP_NAMES))
    with pytest.raises(InputError) as caught:
        load(writer.bytes(), "x.o")
    assert str(caught.value) == f"x.o: section .BTF{message}"


def test_map_larger_than_its_section() -> None:
    types = INT + btf_type(0, 2, 0, 3) + btf_type(0, 3, 0, 0, 1, 1, 2) + btf_type(0, 4, 1, 0x7FFFFFFF, 5, 2, 0)
    types += btf_type(17, 14, 0, 4, 1) + btf_type(19, 15, 1, 8, 5, 0, 8)
    writer = Writer()
    writer.add(".maps", bytes(8), flags=DATA)
    writer.add(".BTF", btf(types, MAP_NAMES))
    with pytest.raises(InputError, match=r"map m of 0x7fffffff bytes reaches beyond the section's 0x8"):
        load(writer.bytes(), "x.o")


def extension(line_size: int, count: int, section: int = 1) -> bytes:
    part = struct.pack("<III", line_size, section, count) + struct.pack("<IIII", 0, 1, 1, 7 << 10 | 3)
    return struct.pack("<HBBIIIIIII", 0xEB9F, 1, 0, 32, 0, 0, 0, len(part), 0, 0) + part


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (extension(12, 1), "section .BTF.ext+0x20: records of 12 bytes, expected 16 or more, a multiple of 4"),
        (extension(18, 1), "section .BTF.ext+0x20: records of 18 bytes, expected 16 or more, a multiple of 4"),
        (extension(16, 2), "section .BTF.ext+0x28: 2 records of 16 bytes do not fit, or none"),
        (extension(16, 0), "section .BTF.ext+0x28: 0 records of 16 bytes do not fit, or none"),
        (extension(16, 1, 77), "section .BTF strings: string offset 0x4d outside the table of 0x4 bytes"),
    ],
)
def test_malformed_line_information(data: bytes, message: str) -> None:
    writer = Writer()
    writer.add(".BTF", btf(b"", b"tc\0"))
    writer.add(".BTF.ext", data)
    with pytest.raises(InputError) as caught:
        load(writer.bytes(), "x.o")
    assert str(caught.value) == f"x.o: {message}"


@settings(max_examples=200)
@given(st.binary(max_size=200), st.binary(max_size=40))
def test_any_types(types: bytes, strings: bytes) -> None:
    """Whatever the bytes: every type can be asked for, or an InputError tells why not."""
    try:
        found = Btf(btf(types, strings + b"\0"), "x.o")
    except InputError:
        return
    for id in range(len(found)):
        for question in (found.type, found.resolve, found.size):
            with suppress(InputError):
                question(id)
