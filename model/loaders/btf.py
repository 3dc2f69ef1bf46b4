"""BTF, the kernel's type format: Documentation/bpf/btf.rst; include/uapi/linux/btf.h (6.12, kinds 0 to 19).

Types are located in one pass and decoded on demand, so that the 150,000 types of a kernel cost little.
"""

import struct
from dataclasses import dataclass
from enum import IntEnum

from model.errors import InputError
from model.loaders.elf_strings import StringTable

MAGIC = 0xEB9F
RESOLVE_LIMIT = 32
"""Longest chain of modifiers, typedefs and arrays that is followed; btf_type_size and libbpf stop there too."""


class Kind(IntEnum):
    VOID = 0
    INT = 1
    PTR = 2
    ARRAY = 3
    STRUCT = 4
    UNION = 5
    ENUM = 6
    FWD = 7
    TYPEDEF = 8
    VOLATILE = 9
    CONST = 10
    RESTRICT = 11
    FUNC = 12
    FUNC_PROTO = 13
    VAR = 14
    DATASEC = 15
    FLOAT = 16
    DECL_TAG = 17
    TYPE_TAG = 18
    ENUM64 = 19


# What follows the common 12 bytes: bytes once, and bytes per element of vlen (btf.rst, section 2.2).
_FIXED = {Kind.INT: 4, Kind.ARRAY: 12, Kind.VAR: 4, Kind.DECL_TAG: 4}
_PER_ELEMENT = {Kind.STRUCT: 12, Kind.UNION: 12, Kind.ENUM: 8, Kind.FUNC_PROTO: 8, Kind.DATASEC: 12, Kind.ENUM64: 12}
_SIZED = {Kind.INT, Kind.STRUCT, Kind.UNION, Kind.ENUM, Kind.DATASEC, Kind.FLOAT, Kind.ENUM64}
_TRANSPARENT = {Kind.TYPEDEF, Kind.VOLATILE, Kind.CONST, Kind.RESTRICT, Kind.TYPE_TAG}
_EXTRA = tuple((_FIXED.get(kind, 0), _PER_ELEMENT.get(kind, 0)) for kind in Kind)


@dataclass(frozen=True, slots=True)
class Type:
    """The common part of a type. `target` is its size in bytes or the type it refers to; `at` its byte offset."""

    id: int
    kind: Kind
    name: str
    vlen: int
    flag: bool
    target: int
    at: int


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a struct or union; `offset` in bits."""

    name: str
    type: int
    offset: int


@dataclass(frozen=True, slots=True)
class Variable:
    """An element of a DATASEC: the VAR's (or extern FUNC's) type id, offset and size in bytes."""

    type: int
    offset: int
    size: int


class Btf:
    """The types of one object, numbered from 1; 0 is void. `tags` are the ids of its DECL_TAGs."""

    __slots__ = (
        "_at",
        "_data",
        "_file",
        "_order",
        "_place",
        "_resolved",
        "_sizes",
        "_types",
        "datasecs",
        "strings",
        "tags",
    )

    def __init__(self, data: bytes, file: str, place: str = "section .BTF") -> None:
        """Locate all types; InputError for a header, length, kind or string offset that does not fit."""
        self._file = file
        self._place = place
        self._data = data
        self._order, (types, strings) = header(data, file, place, "IIII")
        type_at, type_end = types
        self._data = data[:type_end]
        self.strings = StringTable(data[strings[0] : strings[1]], file, f"{place} strings")
        if strings[0] == strings[1] or data[strings[0]] or data[strings[1] - 1]:
            raise self.error(strings[0], "expected strings that begin and end with NUL")
        self.datasecs: dict[str, int] = {}
        self.tags: list[int] = []
        self._types: dict[int, Type] = {}
        self._resolved: dict[int, Type] = {}
        self._sizes: dict[int, int] = {}
        self._at = self._locate(type_at, type_end)

    def _locate(self, at: int, end: int) -> list[int]:
        common = struct.Struct(self._order + "II")
        places = [0]
        last_kind = max(Kind)
        while at < end:
            if at + 12 > end:
                raise self.error(at, "types end inside a type")
            name, info = common.unpack_from(self._data, at)
            kind = info >> 24 & 31
            if kind > last_kind or kind == 0:
                raise self.error(at, f"expected a kind from 1 to {int(last_kind)}, found {kind}")
            if name >= len(self.strings):
                raise self.error(at, f"name offset {name:#x} outside the strings of {len(self.strings):#x} bytes")
            once, each = _EXTRA[kind]
            if kind == Kind.DATASEC:
                self.datasecs.setdefault(self.strings.name(name), len(places))
            elif kind == Kind.DECL_TAG:
                self.tags.append(len(places))
            places.append(at)
            at += 12 + once + each * (info & 0xFFFF)
        if at != end:
            raise self.error(places[-1], "type reaches beyond the end of the types")
        return places

    def __len__(self) -> int:
        """Number of types, void included: ids are below it."""
        return len(self._at)

    def type(self, id: int) -> Type:
        """The type `id`; InputError where there is none."""
        known = self._types.get(id)
        if known is not None:
            return known
        if not 0 <= id < len(self._at):
            raise self.error(None, f"type id {id} outside of 0 to {len(self._at) - 1}")
        if id == 0:
            return Type(0, Kind.VOID, "void", 0, False, 0, 0)
        at = self._at[id]
        name, info, target = struct.unpack_from(self._order + "III", self._data, at)
        found = Type(id, Kind(info >> 24 & 31), self.strings.name(name), info & 0xFFFF, bool(info >> 31), target, at)
        self._types[id] = found
        return found

    def resolve(self, id: int) -> Type:
        """Skip typedefs and modifiers; InputError after RESOLVE_LIMIT of them (a cycle, as a rule)."""
        found = self._resolved.get(id) or self.type(id)
        for _ in range(RESOLVE_LIMIT):
            if found.kind not in _TRANSPARENT:
                self._resolved[id] = found
                return found
            found = self.type(found.target)
        raise self.error(self._at[id], f"type {id}: chain of over {RESOLVE_LIMIT} typedefs and modifiers: a cycle")

    def size(self, id: int) -> int:
        """Size in bytes, 8 for pointers; InputError for a type without size, a cycle of arrays, or 4 GiB and more."""
        if id in self._sizes:
            return self._sizes[id]
        count, at = 1, id
        for _ in range(RESOLVE_LIMIT):
            found = self.resolve(at)
            if found.kind == Kind.ARRAY:
                at, elements = self.array(found)
                count *= elements
                continue
            if found.kind == Kind.VAR:
                at = found.target
                continue
            if found.kind != Kind.PTR and found.kind not in _SIZED:
                raise self.error(found.at, f"type {found.id}: expected a type with a size, found {found.kind.name}")
            size = count * (8 if found.kind == Kind.PTR else found.target)
            if size > 0xFFFFFFFF:
                raise self.error(found.at, f"type {id}: {size:#x} bytes, expected less than 4 GiB")
            self._sizes[id] = size
            return size
        raise self.error(self._at[id], f"type {id}: over {RESOLVE_LIMIT} arrays of arrays: a cycle")

    def array(self, found: Type) -> tuple[int, int]:
        """Element type and number of elements of an ARRAY."""
        element, _, count = struct.unpack_from(self._order + "III", self._data, found.at + 12)
        return element, count

    def members(self, found: Type) -> list[Member]:
        """Members of a STRUCT or UNION, in order."""
        return [
            Member(self.strings.name(name), type, offset & 0xFFFFFF if found.flag else offset)
            for name, type, offset in self._elements(found, "III")
        ]

    def parameters(self, found: Type) -> list[tuple[str, int]]:
        """Name and type id of each parameter of a FUNC_PROTO; a last one of type 0 without name is `...`."""
        return [(self.strings.name(name), type) for name, type in self._elements(found, "II")]

    def enumerators(self, found: Type) -> list[tuple[str, int]]:
        """Name and value of each element of an ENUM (32 bits, signed) or ENUM64 (unsigned)."""
        if found.kind == Kind.ENUM64:
            return [(self.strings.name(name), high << 32 | low) for name, low, high in self._elements(found, "III")]
        return [(self.strings.name(name), value) for name, value in self._elements(found, "Ii")]

    def integer(self, found: Type) -> tuple[int, bool]:
        """Width in bits and signedness of an INT."""
        word: int = struct.unpack_from(self._order + "I", self._data, found.at + 12)[0]
        return word & 0xFF, bool(word >> 24 & 1)

    def variables(self, found: Type) -> list[Variable]:
        """Elements of a DATASEC, in order."""
        return [Variable(type, offset, size) for type, offset, size in self._elements(found, "III")]

    def linkage(self, found: Type) -> int:
        """0 static, 1 global, 2 extern: of a VAR, or of a FUNC (there in vlen)."""
        if found.kind == Kind.FUNC:
            return found.vlen
        linkage: int = struct.unpack_from(self._order + "I", self._data, found.at + 12)[0]
        return linkage

    def component(self, found: Type) -> int:
        """Which member or parameter a DECL_TAG is of, -1 for the type itself."""
        index: int = struct.unpack_from(self._order + "i", self._data, found.at + 12)[0]
        return index

    def _elements(self, found: Type, form: str) -> list[tuple[int, ...]]:
        row = struct.Struct(self._order + form)
        at = found.at + 12
        return list(row.iter_unpack(self._data[at : at + found.vlen * row.size]))

    def error(self, at: int | None, expected: str) -> InputError:
        """An InputError at a byte offset of the section."""
        return InputError(self._file, self._place if at is None else f"{self._place}+{at:#x}", expected)


def header(data: bytes, file: str, place: str, parts: str) -> tuple[str, list[tuple[int, int]]]:
    """Byte order and the bounds of each part (an offset and a length) of .BTF or .BTF.ext, checked.

    Both begin with magic, version, flags and hdr_len; part offsets count from the header's end (btf.rst,
    sections 2 and 4). `parts` has one "I" a field; fields behind hdr_len are 0, as older writers leave them out.
    """
    if len(data) < 8:
        raise InputError(file, place, f"expected a header, found {len(data)} bytes")
    order = "<" if data[:2] == b"\x9f\xeb" else ">"
    magic, version, _, length = struct.unpack_from(order + "HBBI", data)
    if magic != MAGIC:
        raise InputError(file, place, f"expected the magic 0x{MAGIC:x} in either byte order, found {data[:2].hex()}")
    if version != 1:
        raise InputError(file, f"{place}+0x2", f"expected version 1, found {version}")
    if not 24 <= length <= len(data):
        raise InputError(file, f"{place}+0x4", f"header of {length:#x} bytes, expected 24 to {len(data):#x}")
    present = min(len(parts), (length - 8) // 4)
    fields = list(struct.unpack_from(order + parts[:present], data, 8)) + [0] * (len(parts) - present)
    bounds = []
    for index in range(0, len(fields), 2):
        start, size = length + fields[index], fields[index + 1]
        if fields[index] % 4 and size and index == 0:
            raise InputError(file, f"{place}+{8 + 4 * index:#x}", f"offset {fields[index]:#x} is not a multiple of 4")
        if start > len(data) or size > len(data) - start:
            expected = f"{size:#x} bytes at {start:#x} do not fit into the section of {len(data):#x} bytes"
            raise InputError(file, f"{place}+{8 + 4 * index:#x}", expected)
        bounds.append((start, start + size))
    return order, bounds
