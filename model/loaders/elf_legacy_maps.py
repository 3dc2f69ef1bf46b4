"""Maps defined by records in sections `maps` and `maps/NAME`, as before BTF.

All layouts begin with type, key size, value size, entries, flags (u32 each). Then: nothing (20 bytes,
libbpf 0.x); inner index, NUMA node (24, 28: samples/bpf/bpf_load.c, Linux 4.12 to 5.10); id, pinning,
inner id, inner index (36: iproute2's bpf_elf.h); pinning, namespace (280: gobpf).
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from model.loaders.elf_file import STT_NOTYPE, STT_OBJECT, ElfFile, Section, Symbol
from model.loaders.elf_map_types import NESTED, map_type
from model.program import Map

_LEAST = 16
_IPROUTE2, _GOBPF = 36, 280


@dataclass(frozen=True, slots=True)
class _Record:
    section: Section
    offset: int
    map: Map
    id: int | None
    inner: int | None
    inner_is_id: bool


def legacy_maps(elf: ElfFile, sections: list[Section]) -> Iterator[tuple[Section, int, Map]]:
    """Every map of the sections with its place, by section and offset; inner templates are found."""
    named: dict[int, list[Symbol]] = {section.index: [] for section in sections}
    for symbol in elf.symbols:
        if symbol.section in named and symbol.type in (STT_NOTYPE, STT_OBJECT):
            named[symbol.section].append(symbol)
    records = [record for section in sections for record in _records(elf, section, named[section.index])]
    by_id = {record.id: record.map for record in records if record.id}
    for record in records:
        inner = None
        if record.inner is not None and record.map.type_number in NESTED:
            if record.inner_is_id:
                inner = by_id.get(record.inner)
            elif record.inner < len(records):
                inner = records[record.inner].map
            if inner is not None and inner.type_number in NESTED:
                inner = None
        yield record.section, record.offset, replace(record.map, inner=inner)


def _records(elf: ElfFile, section: Section, symbols: list[Symbol]) -> Iterator[_Record]:
    """Records lie where symbols are; the least distance from one to the next is the size of all."""
    if len(section.data) != section.size:
        raise elf.error(section, None, "expected contents (SHT_PROGBITS)")
    starts: dict[int, Symbol] = {}
    for symbol in sorted(symbols, key=lambda symbol: symbol.value):
        if symbol.value >= section.size:
            expected = (
                f"map {elf.symbol_name(symbol)} at {symbol.value:#x} is outside its section of {section.size:#x} bytes"
            )
            raise elf.error(section, None, expected)
        starts.setdefault(symbol.value, symbol)
    if not starts:
        return
    bounds = [*starts, section.size]
    size = min(after - at for at, after in pairwise(bounds))
    if size < _LEAST:
        raise elf.error(section, bounds[0], f"map records of {size} bytes, expected {_LEAST} or more")
    for start, symbol in starts.items():
        name = elf.symbol_name(symbol)
        count = 1
        if symbol.size > size and symbol.size % size == 0 and symbol.size <= section.size - start:
            count = symbol.size // size  # an array of maps under one symbol
        for index in range(count):
            offset = start + index * size
            yield _record(elf, section, offset, size, name if count == 1 else f"{name}[{index}]")


def _record(elf: ElfFile, section: Section, offset: int, size: int, name: str) -> _Record:
    count = min(size, _IPROUTE2) // 4
    order = "<" if elf.byteorder == "little" else ">"
    fields = list(struct.unpack_from(f"{order}{count}I", section.data, offset))
    fields += [0] * (9 - count)
    number, key_size, value_size, entries, flags = fields[:5]
    if number == 0:
        raise elf.error(section, offset, f"map {name}: expected a type that is not 0")
    pinned = (size == _IPROUTE2 and fields[6] != 0) or (size == _GOBPF and fields[5] != 0)
    found = Map(name, map_type(number), key_size, value_size, entries or None, flags, type_number=number, pinned=pinned)
    if size == _IPROUTE2:
        return _Record(section, offset, found, fields[5], fields[7], True)
    return _Record(section, offset, found, None, fields[5] if size in (24, 28, 32) else None, False)
