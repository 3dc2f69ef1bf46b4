""".BTF.ext: source lines and CO-RE relocations by section (Documentation/bpf/btf.rst, section 4)."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from model.errors import InputError
from model.loaders.btf import Btf, header
from model.program import Line

PLACE = "section .BTF.ext"
_FUNC_INFO, _LINE_INFO, _CORE_RELOCATION = 8, 16, 16


@dataclass(frozen=True, slots=True)
class BtfExt:
    """What .BTF.ext says, by section name, sorted: (slot in the section, its line); slots of CO-RE relocations."""

    lines: dict[str, list[tuple[int, Line]]]
    core: dict[str, list[int]]


def read(data: bytes, btf: Btf, file: str) -> BtfExt:
    """Read all records; InputError where sizes or offsets do not fit. Linear in the section's size."""
    order, (functions, lines, core) = header(data, file, PLACE, "IIIIII")
    for _ in records(data, functions, order, _FUNC_INFO, file):
        pass
    known: dict[tuple[int, ...], Line] = {}
    found: dict[str, dict[int, Line]] = {}
    form = struct.Struct(order + "IIII")
    for name_at, at in records(data, lines, order, _LINE_INFO, file):
        offset, *fields = form.unpack_from(data, at)
        key = tuple(fields)
        if key not in known:
            name, text, place = fields
            known[key] = Line(btf.strings.name(name), place >> 10, place & 1023, btf.strings.name(text).strip())
        found.setdefault(btf.strings.name(name_at), {})[offset // 8] = known[key]
    relocations: dict[str, list[int]] = {}
    for name_at, at in records(data, core, order, _CORE_RELOCATION, file):
        relocations.setdefault(btf.strings.name(name_at), []).append(struct.unpack_from(order + "I", data, at)[0] // 8)
    return BtfExt(
        {name: sorted(rows.items(), key=lambda row: row[0]) for name, rows in found.items()},
        {name: sorted(slots) for name, slots in relocations.items()},
    )


def records(data: bytes, part: tuple[int, int], order: str, least: int, file: str) -> Iterator[tuple[int, int]]:
    """Offset of the section's name in the strings and byte offset, of every record of a part (its bounds)."""
    at, end = part
    if at == end:
        return
    word = struct.Struct(order + "I")
    pair = struct.Struct(order + "II")
    if end - at < 4:
        raise InputError(file, f"{PLACE}+{at:#x}", "expected a record size of 4 bytes")
    size: int = word.unpack_from(data, at)[0]
    if size < least or size % 4:
        raise InputError(
            file, f"{PLACE}+{at:#x}", f"records of {size} bytes, expected {least} or more, a multiple of 4"
        )
    at += 4
    while at < end:
        if end - at < 8:
            raise InputError(file, f"{PLACE}+{at:#x}", "expected a section's name and count of 8 bytes")
        name, count = pair.unpack_from(data, at)
        if count == 0 or count > (end - at - 8) // size:
            raise InputError(file, f"{PLACE}+{at + 4:#x}", f"{count} records of {size} bytes do not fit, or none")
        at += 8
        for _ in range(count):
            yield name, at
            at += size
