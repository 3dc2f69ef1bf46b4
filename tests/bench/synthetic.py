"""Synthetic BPF objects of any size: straight code, branches, and as many map-helper calls as wanted."""

import struct

from model.isa.codec import encode
from model.isa.insn import Insn

HASH, ARRAY = 1, 2
MAPS = (("table", HASH, 8, 8, 1024), ("numbers", ARRAY, 4, 8, 1024))


# A lookup in five slots: r2 = r10; r2 += -8; r1 = map (two slots); call bpf_map_lookup_elem.
SITE = (Insn(0xBF, 2, 10), Insn(0x07, 2, imm=-8), Insn(0x18, 1, 1), Insn(0), Insn(0x85, imm=1))


# No branch leaves a run of these, so that none lands inside of a site.
FILLER = (
    Insn(0x07, 6, imm=3),
    Insn(0x67, 6, imm=1),
    Insn(0xAF, 6, 7),
    Insn(0x25, 6, off=1, imm=9),
    Insn(0xB7, 7, imm=5),
    Insn(0x57, 6, imm=0xFF),
)


def between(count: int) -> list[Insn]:
    """`count` instructions of plain code."""
    whole, rest = divmod(count, len(FILLER))
    return [*FILLER * whole, *[FILLER[0]] * rest]


def program(size: int, sites: int) -> tuple[list[Insn], dict[int, int]]:
    """`size` instructions with `sites` calls spread evenly; slots of map loads -> index of the map."""
    insns = [Insn(0xB7, 6), Insn(0x7B, 10, 6, -8), Insn(0xB7, 7)]
    loads: dict[int, int] = {}
    gap = max(0, size - len(insns) - 2 - len(SITE) * sites) // max(sites, 1)
    for index in range(sites):
        loads[len(insns) + 2] = index % len(MAPS)
        insns += [*SITE, *between(gap)]
    insns += between(max(0, size - len(insns) - 2))
    return [*insns, Insn(0xB7, 0), Insn(0x95)], loads


def obj(size: int, sites: int) -> bytes:
    """An ELF object (little-endian, legacy `maps` section) with one XDP program."""
    insns, loads = program(size, sites)
    names = b"\0"
    offsets: dict[str, int] = {}
    for name in ("xdp", "maps", ".relxdp", ".symtab", ".strtab", "prog", *(row[0] for row in MAPS)):
        offsets[name] = len(names)
        names += name.encode() + b"\0"
    text = encode(tuple(insns))
    maps = b"".join(struct.pack("<5I", kind, key, value, entries, 0) for _, kind, key, value, entries in MAPS)
    symbols = bytes(24) + struct.pack("<IBBHQQ", offsets["prog"], 0x12, 0, 1, 0, len(text))
    for position, row in enumerate(MAPS):
        symbols += struct.pack("<IBBHQQ", offsets[row[0]], 0x11, 0, 2, 20 * position, 20)
    rel = b"".join(struct.pack("<QQ", 8 * slot, (2 + index) << 32 | 1) for slot, index in loads.items())
    parts = [text, maps, rel, symbols, names]
    starts = [64]
    for part in parts:
        starts.append(starts[-1] + (len(part) + 7 & ~7))
    header = (
        b"\x7fELF\2\1\1" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 1, 247, 1, 0, 0, starts[-1], 0, 64, 0, 0, 64, 6, 5)
    )
    body = b"".join(part + bytes(-len(part) % 8) for part in parts)
    rows = [
        (offsets["xdp"], 1, 6, 0, 0, 8, 0),
        (offsets["maps"], 1, 3, 0, 0, 4, 0),
        (offsets[".relxdp"], 9, 0, 4, 1, 8, 16),
        (offsets[".symtab"], 2, 0, 5, 1, 8, 24),
        (offsets[".strtab"], 3, 0, 0, 0, 1, 0),
    ]
    table = bytes(64)
    for (label, kind, flags, link, info, align, entry), start, part in zip(rows, starts, parts, strict=False):
        table += struct.pack("<IIQQQQIIQQ", label, kind, flags, 0, start, len(part), link, info, align, entry)
    return header + body + table
