"""Maps defined by BTF in section .maps: the types of the variables hold the values.

A variable's type is a struct whose members are pointers: `int (*max_entries)[16]` says 16,
`struct key *key` says the key's type, `values` is an array of pointers to the inner map's struct
(`__uint`, `__type`, `__array` in libbpf's bpf_helpers.h; libbpf 1.x, parse_btf_map_def).
"""

from collections.abc import Iterator
from dataclasses import replace

from model.errors import InputError
from model.loaders.btf import Btf, Kind, Type
from model.loaders.elf_file import ElfFile, Section
from model.loaders.elf_map_types import NESTED, PERF_EVENT_ARRAY, map_type
from model.program import Map

MAP_LIMIT = 65536
"""Maps of one object; the kernel takes 64 for one program (MAX_USED_MAPS)."""


def btf_maps(elf: ElfFile, btf: Btf | None, section: Section) -> Iterator[tuple[int, Map]]:
    """Every map of a .maps section with its byte offset there, in the order of the BTF section's variables."""
    if btf is None or section.name not in btf.datasecs:
        raise elf.error(section, None, f"expected .BTF with a DATASEC {section.name}: it defines the maps")
    if len(section.data) != section.size:
        raise elf.error(section, None, "expected contents (SHT_PROGBITS)")
    places = elf.symbol_values(section)
    definitions = _Definitions(btf)
    seen = 0
    for variable in btf.variables(btf.type(btf.datasecs[section.name])):
        var = btf.type(variable.type)
        if var.kind != Kind.VAR:
            raise btf.error(var.at, f"type {var.id}: expected a VAR in {section.name}, found {var.kind.name}")
        # Compilers leave the offset to the linker, and libbpf takes it from the symbol, too.
        start = places.get(var.name, variable.offset)
        shape, count = btf.resolve(var.target), 1
        if shape.kind == Kind.ARRAY:
            element, count = btf.array(shape)
            shape = btf.resolve(element)
        definition = definitions.of(shape, var.name)
        size = shape.target
        if start > section.size or count * size > section.size - start:
            expected = f"map {var.name} of {count * size:#x} bytes reaches beyond the section's {section.size:#x}"
            raise elf.error(section, start, expected)
        seen += count
        if seen > MAP_LIMIT:
            raise elf.error(section, start, f"expected at most {MAP_LIMIT} maps")
        for index in range(count):
            name = var.name if shape.id == btf.resolve(var.target).id else f"{var.name}[{index}]"
            yield start + index * size, replace(definition, name=name, inner=_named(definition.inner, name))


def _named(inner: Map | None, outer: str) -> Map | None:
    return None if inner is None else replace(inner, name=f"{outer}.inner")


class _Definitions:
    """Definitions by struct type: each struct is read once, however many maps have it."""

    def __init__(self, btf: Btf) -> None:
        self._btf = btf
        self._known: dict[tuple[int, bool], Map] = {}

    def of(self, shape: Type, name: str, inside: bool = False) -> Map:
        """The map that struct `shape` defines; `inside`: as the template of an outer map."""
        if shape.kind != Kind.STRUCT:
            raise self._btf.error(shape.at, f"map {name}: expected a struct that defines it, found {shape.kind.name}")
        key = (shape.id, inside)
        if key not in self._known:
            if shape.target < 8:
                raise self._btf.error(shape.at, f"map {name}: struct of {shape.target} bytes, expected pointers")
            self._known[key] = self._read(shape, name, inside)
        return self._known[key]

    def _read(self, shape: Type, name: str, inside: bool) -> Map:
        btf = self._btf
        numbers: dict[str, int] = {}
        inner, nested = None, False
        for member in btf.members(shape):
            match member.name:
                case "type" | "max_entries" | "map_flags" | "key_size" | "value_size" | "pinning":
                    numbers[member.name] = self._number(member.type, name, member.name)
                case "key" | "value":
                    numbers.setdefault(f"{member.name}_size", btf.size(self._pointee(member.type, name, member.name)))
                case "map_extra":
                    numbers["map_extra"] = self._extra(member.type, name)
                case "values":
                    if inside:
                        raise btf.error(shape.at, f"map {name}: an inner map cannot hold maps")
                    nested, inner = True, self._inner(member.type, name)
                case _:
                    pass  # numa_node and members to come say nothing about what calls mean
        if not numbers.get("type"):
            raise btf.error(shape.at, f"map {name}: expected a member `type` that is not 0")
        number = numbers["type"]
        # 0 entries: set by the loading program, or by libbpf for one entry a CPU (perf_event_array).
        entries = numbers.get("max_entries", 0) or None
        if number == PERF_EVENT_ARRAY:
            numbers.setdefault("key_size", 4)
            numbers.setdefault("value_size", 4)
        if number in NESTED or nested:
            numbers.setdefault("value_size", 4)
        return Map(
            name,
            map_type(number),
            numbers.get("key_size", 0),
            numbers.get("value_size", 0),
            entries,
            numbers.get("map_flags", 0),
            inner=inner,
            type_number=number,
            pinned=bool(numbers.get("pinning", 0)),
            extra=numbers.get("map_extra", 0),
        )

    def _pointee(self, id: int, name: str, member: str) -> int:
        pointer = self._btf.resolve(id)
        if pointer.kind != Kind.PTR:
            raise self._wrong(pointer, name, member, "a pointer")
        return pointer.target

    def _extra(self, id: int, name: str) -> int:
        """A number as elsewhere (`__uint`), or 64 bits as the only element of an enum (`__ulong`)."""
        found = self._btf.resolve(id)
        if found.kind not in (Kind.ENUM, Kind.ENUM64):
            return self._number(id, name, "map_extra")
        values = self._btf.enumerators(found)
        if len(values) != 1:
            raise self._wrong(found, name, "map_extra", "an enum of one element")
        return values[0][1]

    def _number(self, id: int, name: str, member: str) -> int:
        array = self._btf.resolve(self._pointee(id, name, member))
        if array.kind != Kind.ARRAY:
            raise self._wrong(array, name, member, "a pointer to an array whose length is the value")
        return self._btf.array(array)[1]

    def _inner(self, id: int, name: str) -> Map | None:
        array = self._btf.resolve(id)
        if array.kind != Kind.ARRAY:
            raise self._wrong(array, name, "values", "an array of pointers")
        target = self._btf.resolve(self._pointee(self._btf.array(array)[0], name, "values"))
        if target.kind == Kind.FUNC_PROTO:
            return None  # a prog_array with its programs
        return self.of(target, f"{name}.inner", inside=True)

    def _wrong(self, found: Type, name: str, member: str, expected: str) -> InputError:
        return self._btf.error(found.at, f"map {name}, member {member}: expected {expected}, found {found.kind.name}")
