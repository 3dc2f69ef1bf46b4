"""An object's BTF as the kernel takes it, and which of its functions stand where in a program.

Compilers leave sizes and offsets of data sections to the linker, and names of what is outside of the object in
sections that are none (libbpf 1.x: `btf_fixup_datasec`, `bpf_object__collect_externs`, `btf_fixup_btf`).
"""

import struct
from collections.abc import Iterator, Sequence

from model.loaders import elf_btf_ext
from model.loaders.btf import Btf, Kind, Type, header
from model.loaders.elf import Parts
from model.loaders.elf_file import STB_LOCAL, ElfFile
from model.loaders.elf_link import Place
from model.loaders.live_load import CORE_RECORD

EXTERNS = (".ksyms", ".kconfig")
GLOBAL = 1
_INT = struct.pack("=III", Kind.INT << 24, 4, 1 << 24 | 32)
NAME = "extern_of_object"
"""The variable that stands for every function outside of the object: DATASECs hold variables only."""


def for_kernel(elf: ElfFile, btf: Btf) -> bytes:
    """The section .BTF with every size and offset in it. InputError where they are more than it holds."""
    section = next(one for one in elf.sections if one.name == ".BTF" and one.size)
    draft = _Draft(bytes(section.data), elf, btf)
    for name, number in btf.datasecs.items():
        if name in EXTERNS:
            draft.externs(btf.type(number))
        else:
            draft.section(btf.type(number), name)
    draft.hide()
    return draft.done()


class _Draft:
    """The bytes while they are changed. `added` are types that come behind the others."""

    def __init__(self, data: bytes, elf: ElfFile, btf: Btf) -> None:
        self.data, self.elf, self.btf = bytearray(data), elf, btf
        self.added, self.strings = bytearray(), bytearray()
        self.numbers: tuple[int, int] | None = None

    def section(self, found: Type, name: str) -> None:
        """Size of the section, offsets of its variables by their symbols, in order."""
        home = next((one for one in self.elf.sections if one.name == name), None)
        if home is None:
            return
        places = self.elf.symbol_values(home)
        rows = [(places.get(self.btf.type(v.type).name, v.offset), v) for v in self.btf.variables(found)]
        last = max([home.size, *(offset for offset, _ in rows)])
        if last >= 1 << 32:
            raise self.elf.error(home, None, f"expected less than 4 GiB, found a size or a variable at {last:#x}")
        self._rows(found, [(v.type, offset, v.size) for offset, v in sorted(rows, key=lambda row: row[0])], home.size)

    def _rows(self, found: Type, rows: Sequence[tuple[int, int, int]], size: int) -> None:
        struct.pack_into("=I", self.data, found.at + 8, size)
        for number, row in enumerate(rows):
            struct.pack_into("=III", self.data, found.at + 12 + 12 * number, *row)

    def externs(self, found: Type) -> None:
        """Variables and functions of the kernel: each a variable of 4 bytes, one behind the other."""
        integer, variable = self._extern()
        rows = []
        for number, row in enumerate(self.btf.variables(found)):
            one = self.btf.type(row.type)
            if one.kind is Kind.FUNC:
                self._linkage(one, GLOBAL)
                for at, (name, kind) in enumerate(self.btf.parameters(self.btf.type(one.target))):
                    if kind and not name:
                        struct.pack_into("=I", self.data, self.btf.type(one.target).at + 12 + 8 * at, self._name())
                rows.append((variable, 4 * number, 4))
            else:
                struct.pack_into("=II", self.data, one.at + 8, integer, GLOBAL)
                rows.append((row.type, 4 * number, 4))
        self._rows(found, rows, 4 * len(rows))

    def _extern(self) -> tuple[int, int]:
        if self.numbers is None:
            self.numbers = len(self.btf), len(self.btf) + 1
            self.strings += NAME.encode() + b"\0"
            self.added += struct.pack("=I", self._name()) + _INT
            self.added += struct.pack("=IIII", self._name(), Kind.VAR << 24, self.numbers[0], GLOBAL)
        return self.numbers

    def _name(self) -> int:
        return len(self.btf.strings)

    def _linkage(self, found: Type, linkage: int) -> None:
        struct.pack_into("=I", self.data, found.at + 4, Kind.FUNC << 24 | linkage)

    def hide(self) -> None:
        """Global functions that no other object sees are verified where they are called, like static ones."""
        hidden = {
            self.elf.strings.name(one.name_at)
            for one in self.elf.symbols
            if one.hidden and one.binding != STB_LOCAL and one.section
        }
        for number in range(1, len(self.btf) if hidden else 0):
            found = self.btf.type(number)
            if found.kind is Kind.FUNC and self.btf.linkage(found) == GLOBAL and found.name in hidden:
                self._linkage(found, 0)

    def done(self) -> bytes:
        _, ((types, end), (strings, last)) = header(bytes(self.data), self.elf.file, "section .BTF", "IIII")
        rest = bytes(self.data[types:end] + self.added), bytes(self.data[strings:last] + self.strings)
        sizes = (0, len(rest[0]), len(rest[0]), len(rest[1]))
        return struct.pack("=HBBIIIII", 0xEB9F, 1, 0, 24, *sizes) + b"".join(rest)


def function_records(parts: Parts, places: Sequence[Place]) -> bytes | None:
    """`struct bpf_func_info` for each function of a program; None where the object does not tell of one of them."""
    found = {(name, row[0] // 8): row[1] for name, row in _records(parts, 0, "II")}
    records = b""
    for place in places:
        number = found.get((parts.elf.sections[place.section].name, place.start))
        if number is None:
            return None
        records += struct.pack("=II", place.base, number)
    return records


def core_records(parts: Parts, places: Sequence[Place]) -> bytes:
    """`struct bpf_core_relo` for each CO-RE relocation in a program, offsets in bytes of the program."""
    by_name: dict[str, list[Place]] = {}
    for place in places:
        by_name.setdefault(parts.elf.sections[place.section].name, []).append(place)
    records = []
    for name, (offset, *rest) in _records(parts, 2, "IIII"):
        for place in by_name.get(name, ()):
            if place.start <= offset // 8 < place.end:
                records.append((offset + 8 * (place.base - place.start), *rest))
    assert CORE_RECORD == 16
    return b"".join(struct.pack("=IIII", *row) for row in sorted(records))


def _records(parts: Parts, number: int, form: str) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Section's name and fields of each record of a part of .BTF.ext: 0 functions, 1 lines, 2 relocations."""
    section = next((one for one in parts.elf.sections if one.name == ".BTF.ext" and one.size), None)
    if section is None or parts.btf is None:
        return
    data = bytes(section.data)
    order, bounds = header(data, parts.elf.file, elf_btf_ext.PLACE, "IIIIII")
    shape = struct.Struct(order + form)
    for name, at in elf_btf_ext.records(data, bounds[number], order, shape.size, parts.elf.file):
        yield parts.btf.strings.name(name), shape.unpack_from(data, at)
