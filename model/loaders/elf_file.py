"""The ELF container of a BPF object: sections, symbols and relocations, every size and index checked.

Sources: the gABI, chapter 4 (object files); Documentation/bpf/llvm_reloc.rst. The file header is read
by pyelftools; tables are unpacked here, because pyelftools trusts their sizes and is slow for each row.
"""

import io
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from elftools.common.exceptions import ELFError
from elftools.construct import ConstructError
from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile
from elftools.elf.enums import ENUM_E_MACHINE

from model.errors import InputError
from model.loaders.elf_strings import StringTable

SHT_NULL, SHT_PROGBITS, SHT_SYMTAB, SHT_STRTAB, SHT_RELA, SHT_NOBITS, SHT_REL = 0, 1, 2, 3, 4, 8, 9
STB_LOCAL, STB_GLOBAL, STB_WEAK = 0, 1, 2
STT_NOTYPE, STT_OBJECT, STT_FUNC, STT_SECTION = 0, 1, 2, 3
SHN_UNDEF, SHN_LORESERVE = 0, 0xFF00

_HEADER_SIZE, _SECTION_SIZE, _SYMBOL_SIZE = 64, 64, 24


@dataclass(frozen=True, slots=True)
class Section:
    """One row of the section header table; `data` is empty for SHT_NOBITS, whose `size` may be anything."""

    index: int
    name: str
    type: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    data: memoryview

    @property
    def executable(self) -> bool:
        return self.type == SHT_PROGBITS and bool(self.flags & SH_FLAGS.SHF_EXECINSTR) and self.size > 0


@dataclass(frozen=True, slots=True)
class Symbol:
    """One row of the symbol table. `name_at` is an offset into the table's strings, `section` the raw st_shndx.

    `hidden` tells of one that other objects do not see (st_other: STV_HIDDEN, STV_INTERNAL).
    """

    name_at: int
    value: int
    size: int
    section: int
    type: int
    binding: int
    hidden: bool = False


@dataclass(frozen=True, slots=True)
class Relocation:
    """`offset` in bytes inside the section that is changed; `addend` None where it is in place (SHT_REL)."""

    offset: int
    type: int
    symbol: int
    addend: int | None


@dataclass(frozen=True, slots=True)
class ElfFile:
    """A BPF object's tables. `relocations` lists the SHT_REL and SHT_RELA sections by the section they change."""

    file: str
    byteorder: Literal["little", "big"]
    sections: tuple[Section, ...]
    symbols: tuple[Symbol, ...]
    strings: StringTable
    relocations: dict[int, list[Section]]

    def error(self, section: Section, offset: int | None, expected: str) -> InputError:
        """An InputError at a byte offset of a section."""
        where = "" if offset is None else f"+{offset:#x}"
        return InputError(self.file, f"section {section.name or section.index}{where}", expected)

    def symbol_name(self, symbol: Symbol) -> str:
        """The symbol's name, or its section's where it has none (section symbols of LLVM)."""
        if symbol.name_at == 0 and 0 < symbol.section < len(self.sections):
            return self.sections[symbol.section].name
        return self.strings.name(symbol.name_at)

    def symbol_values(self, section: Section) -> dict[str, int]:
        """Byte offset of every named symbol in a section, by name."""
        return {
            self.strings.name(symbol.name_at): symbol.value
            for symbol in self.symbols
            if symbol.section == section.index and symbol.type != STT_SECTION
        }

    def relocations_of(self, section: Section) -> Iterator[Relocation]:
        """Every relocation of `section` in file order; InputError for a bad table, offset or symbol index."""
        for table in self.relocations.get(section.index, ()):
            rela = table.type == SHT_RELA
            form = struct.Struct(_order(self.byteorder) + ("QQq" if rela else "QQ"))
            if table.size % form.size:
                raise self.error(table, None, f"expected a multiple of {form.size} bytes, found {table.size:#x}")
            for row, fields in enumerate(form.iter_unpack(table.data)):
                offset, info = fields[:2]
                place = row * form.size
                if offset >= section.size:
                    expected = (
                        f"relocation offset {offset:#x} outside section {section.name} of {section.size:#x} bytes"
                    )
                    raise self.error(table, place, expected)
                if info >> 32 >= len(self.symbols):
                    expected = f"symbol index {info >> 32} outside the table of {len(self.symbols)}"
                    raise self.error(table, place, expected)
                yield Relocation(offset, info & 0xFFFFFFFF, info >> 32, fields[2] if rela else None)


def _order(byteorder: str) -> str:
    return "<" if byteorder == "little" else ">"


def read(data: bytes, file: str) -> ElfFile:
    """Read the tables of a relocatable BPF object; InputError for everything that is not one.

    Time and memory are linear in the file's size: sections are views, names are decoded on demand.
    """
    header = _header(data, file)
    byteorder: Literal["little", "big"] = "little" if header.little_endian else "big"
    sections = _sections(data, file, header, byteorder)
    elf = ElfFile(file, byteorder, sections, (), StringTable(b"", file, "symbol table"), {})
    _refuse_overlaps(elf, len(data))
    symbols, strings = _symbols(elf)
    return ElfFile(file, byteorder, sections, symbols, strings, _relocation_tables(elf))


def _header(data: bytes, file: str) -> ELFFile:
    if data[:4] != b"\x7fELF":
        raise InputError(file, "offset 0x0", "expected the ELF magic 7f 45 4c 46")
    if len(data) < _HEADER_SIZE:
        raise InputError(file, f"offset {len(data):#x}", "file ends inside the ELF header of 64 bytes")
    if data[4] != 2 or data[5] not in (1, 2):
        raise InputError(file, "offset 0x4", f"expected ELFCLASS64 in either byte order, found {data[4]}, {data[5]}")
    try:
        elf = ELFFile(io.BytesIO(data))
        kind, machine, size = elf["e_type"], elf["e_machine"], elf["e_shentsize"]
    except (ELFError, ConstructError, struct.error, ValueError, KeyError, OverflowError) as error:
        raise InputError(file, "ELF header", f"cannot be read: {error}") from error
    if kind != "ET_REL":
        raise InputError(file, "offset 0x10", f"expected a relocatable object (ET_REL), found {kind}")
    # Objects of clang 3.7 and 3.8 have e_machine 0: EM_BPF had no number yet.
    if ENUM_E_MACHINE.get(machine, machine) not in (0, ENUM_E_MACHINE["EM_BPF"]):
        raise InputError(file, "offset 0x12", f"expected machine 247 (EM_BPF) or 0, found {machine}")
    if elf["e_shoff"] and size != _SECTION_SIZE:
        raise InputError(file, "offset 0x3a", f"expected section headers of 64 bytes, found {size}")
    return elf


def _sections(data: bytes, file: str, header: ELFFile, byteorder: str) -> tuple[Section, ...]:
    start: int = header["e_shoff"]
    form = struct.Struct(_order(byteorder) + "IIQQQQIIQQ")
    if start == 0 or start + _SECTION_SIZE > len(data):
        raise InputError(
            file, f"offset {start:#x}", f"expected section headers inside the file of {len(data):#x} bytes"
        )
    first = form.unpack_from(data, start)
    count: int = header["e_shnum"] or first[5]  # gABI: extended numbering
    names_at: int = first[6] if header["e_shstrndx"] == 0xFFFF else header["e_shstrndx"]
    if count > (len(data) - start) // _SECTION_SIZE:
        raise InputError(file, f"offset {start:#x}", f"{count} section headers do not fit into the file")
    rows = list(form.iter_unpack(memoryview(data)[start : start + count * _SECTION_SIZE]))
    if names_at >= len(rows):
        raise InputError(file, "offset 0x3e", f"section names in section {names_at}, but there are {len(rows)}")
    strings = StringTable(bytes(_contents(data, file, names_at, "", rows[names_at])), file, "section names")
    sections = []
    for index, row in enumerate(rows):
        name = strings.name(row[0])
        contents = _contents(data, file, index, name, row)
        sections.append(Section(index, name, row[1], row[2], row[4], row[5], row[6], row[7], contents))
    return tuple(sections)


def _contents(data: bytes, file: str, index: int, name: str, row: tuple[int, ...]) -> memoryview:
    kind, offset, size = row[1], row[4], row[5]
    if kind in (SHT_NULL, SHT_NOBITS):
        return memoryview(b"")
    if offset > len(data) or size > len(data) - offset:
        expected = f"{size:#x} bytes at offset {offset:#x} do not fit into the file of {len(data):#x} bytes"
        raise InputError(file, f"section {name or index}", expected)
    return memoryview(data)[offset : offset + size]


def _refuse_overlaps(elf: ElfFile, length: int) -> None:
    """Sections that share bytes: no tool writes them, and reading one range many times is no longer linear."""
    end, before = 0, None
    for section in sorted((s for s in elf.sections if len(s.data)), key=lambda s: s.offset):
        if section.offset < end and before is not None:
            raise elf.error(
                section, None, f"file offset {section.offset:#x} overlaps section {before.name} up to {end:#x}"
            )
        end, before = section.offset + section.size, section


def _symbols(elf: ElfFile) -> tuple[tuple[Symbol, ...], StringTable]:
    tables = [section for section in elf.sections if section.type == SHT_SYMTAB]
    if not tables:
        return (), StringTable(b"", elf.file, "symbol table")
    table = tables[0]
    if len(tables) > 1:
        raise elf.error(tables[1], None, f"a second symbol table; the first is section {table.index}")
    if table.size % _SYMBOL_SIZE:
        raise elf.error(table, None, f"expected a multiple of 24 bytes, found {table.size:#x}")
    if table.link >= len(elf.sections) or elf.sections[table.link].type != SHT_STRTAB:
        raise elf.error(table, None, f"expected the index of a string table in sh_link, found {table.link}")
    strings = elf.sections[table.link]
    form = struct.Struct(_order(elf.byteorder) + "IBBHQQ")
    symbols = []
    for row, (name_at, info, other, section, value, size) in enumerate(form.iter_unpack(table.data)):
        if len(elf.sections) <= section < SHN_LORESERVE:
            raise elf.error(
                table, row * _SYMBOL_SIZE, f"section index {section} outside the table of {len(elf.sections)}"
            )
        if name_at >= max(strings.size, 1):
            raise elf.error(table, row * _SYMBOL_SIZE, f"name offset {name_at:#x} outside section {strings.name}")
        symbols.append(Symbol(name_at, value, size, section, info & 15, info >> 4, other & 3 in (1, 2)))
    return tuple(symbols), StringTable(bytes(strings.data), elf.file, f"section {strings.name}")


def _relocation_tables(elf: ElfFile) -> dict[int, list[Section]]:
    tables: dict[int, list[Section]] = {}
    for section in elf.sections:
        if section.type in (SHT_REL, SHT_RELA):
            if not 0 < section.info < len(elf.sections):
                raise elf.error(section, None, f"expected the index of a section in sh_info, found {section.info}")
            if section.link >= len(elf.sections) or elf.sections[section.link].type != SHT_SYMTAB:
                raise elf.error(
                    section, None, f"expected the index of the symbol table in sh_link, found {section.link}"
                )
            tables.setdefault(section.info, []).append(section)
    return tables
