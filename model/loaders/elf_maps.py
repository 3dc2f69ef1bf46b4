"""All maps of an object, and which of them a place in a section means."""

from dataclasses import dataclass, field

from model.loaders.btf import Btf, Kind
from model.loaders.elf_btf_maps import btf_maps
from model.loaders.elf_file import SHT_NOBITS, SHT_PROGBITS, ElfFile, Section
from model.loaders.elf_legacy_maps import legacy_maps
from model.loaders.elf_map_types import ARENA
from model.program import Map, MapRef

ARENA_SECTION = ".addr_space.1"
_STRUCT_OPS = frozenset({".struct_ops", ".struct_ops.link", "?.struct_ops", "?.struct_ops.link"})
_READ_ONLY, _MMAPABLE = 0x80, 0x400  # BPF_F_RDONLY_PROG, BPF_F_MMAPABLE
_VALUE_LIMIT = 0x7FFFFFFF


@dataclass(slots=True)
class MapTable:
    """The maps, in the order legacy, BTF, data sections, struct_ops; `definitions` by (section index, offset).

    `data` tells which map holds the bytes of a section, `mapped` which data sections user space can map.
    """

    maps: list[Map] = field(default_factory=list)
    definitions: dict[tuple[int, int], int] = field(default_factory=dict)
    data: dict[int, int] = field(default_factory=dict)
    mapped: dict[str, bool] = field(default_factory=dict)

    def add(self, section: Section, offset: int, found: Map) -> None:
        """A map that is defined at a place; a second definition of one place changes nothing."""
        if (section.index, offset) not in self.definitions:
            self.definitions[section.index, offset] = len(self.maps)
            self.maps.append(found)

    def find(self, section: int, offset: int) -> MapRef | None:
        """What a 64-bit load of the address section + offset means: a map, a place in a value, or nothing."""
        if section in self.data:
            return MapRef(self.data[section], offset) if -(1 << 31) <= offset < 1 << 31 else None
        index = self.definitions.get((section, offset))
        return None if index is None else MapRef(index)


def collect(elf: ElfFile, btf: Btf | None) -> MapTable:
    """Find all maps; InputError for a definition that does not fit."""
    table = MapTable()
    _refuse_twins(elf)
    legacy = [
        s for s in elf.sections if (s.name == "maps" or s.name.startswith("maps/")) and s.size and not s.executable
    ]
    for section, offset, found in legacy_maps(elf, [s for s in legacy if s.type in (SHT_PROGBITS, SHT_NOBITS)]):
        table.add(section, offset, found)
    for section in elf.sections:
        if section.name == ".maps" and section.type in (SHT_PROGBITS, SHT_NOBITS) and section.size:
            for offset, found in btf_maps(elf, btf, section):
                table.add(section, offset, found)
            for _ in elf.relocations_of(section):
                pass  # what maps hold at first (`values`): checked, of no meaning to calls
    for section in elf.sections:
        if is_data(section):
            _add_data(elf, btf, table, section)
        elif section.name in _STRUCT_OPS and section.size:
            _add_struct_ops(elf, btf, table, section)
    return table


def _refuse_twins(elf: ElfFile) -> None:
    """BTF knows sections by name only: a second one with definitions cannot be meant."""
    seen = set()
    for section in elf.sections:
        if section.name == ".maps" or section.name in _STRUCT_OPS:
            if section.name in seen:
                raise elf.error(section, None, f"expected one section of this name; section {section.index} is another")
            seen.add(section.name)


def is_data(section: Section) -> bool:
    """The sections that libbpf makes data maps of (1.x, bpf_object__elf_collect), and the arena's."""
    names = (".data", ".rodata", ".bss")
    named = section.name in (*names, ARENA_SECTION) or section.name.startswith(tuple(f"{name}." for name in names))
    return named and section.type in (SHT_PROGBITS, SHT_NOBITS) and section.size > 0 and not section.executable


def _add_data(elf: ElfFile, btf: Btf | None, table: MapTable, section: Section) -> None:
    if section.size > _VALUE_LIMIT:
        raise elf.error(section, None, f"{section.size:#x} bytes of data, expected less than 2 GiB")
    if section.name == ARENA_SECTION:
        arena = next((index for index, found in enumerate(table.maps) if found.type_number == ARENA), None)
        if arena is None:
            raise elf.error(section, None, "expected a map of type arena, which holds this section")
        table.data[section.index] = arena
        return
    flags = _READ_ONLY if section.name.startswith(".rodata") else 0
    if section.name not in table.mapped:
        table.mapped[section.name] = _has_global(btf, section.name)
    if table.mapped[section.name]:
        flags |= _MMAPABLE
    table.data[section.index] = len(table.maps)
    table.maps.append(Map(section.name, "array", 4, section.size, 1, flags, type_number=2))


def _has_global(btf: Btf | None, name: str) -> bool:
    """Only sections with a variable that user space can see are mapped there (libbpf 1.x, map_is_mmapable)."""
    if btf is None or name not in btf.datasecs:
        return False
    types = [btf.type(variable.type) for variable in btf.variables(btf.type(btf.datasecs[name]))]
    return any(found.kind == Kind.VAR and btf.linkage(found) != 0 for found in types)


def _add_struct_ops(elf: ElfFile, btf: Btf | None, table: MapTable, section: Section) -> None:
    """One map for each variable; the kernel's type behind it, and so the value's size, is not in the object."""
    if btf is None or section.name not in btf.datasecs:
        return
    places = elf.symbol_values(section)
    for variable in btf.variables(btf.type(btf.datasecs[section.name])):
        name = btf.type(variable.type).name
        found = Map(name, "struct_ops", 4, None, 1, 0, type_number=26)
        table.add(section, places.get(name, variable.offset), found)
