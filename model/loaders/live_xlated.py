"""A loaded program read back: its instructions as the kernel rewrote them, and where each instruction went.

The kernel keeps a program's line records up to date through all its passes (`bpf_adj_linfo`,
`bpf_adj_linfo_after_remove`, kernel/bpf/verifier.c, 5.0 and later). A program that is loaded with a record for each
instruction, numbered in the column, is read back with the places of all of them: what has no record was removed.
"""

import ctypes
import struct
import sys
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace

from model.isa.codec import ByteOrder, decode
from model.isa.insn import Insn
from model.isa.opcodes import WIDE
from model.loaders.kernel_symbols import Symbols
from model.loaders.live import Live, Refused
from model.loaders.live_load import LINE_RECORD
from model.program import Form, MapRef, Program, Ref, Subprogram, SymbolRef

CALL = 0x85
TAIL_CALL = 12
"""BPF_FUNC_tail_call, which dumps show in the place of the opcode that it has (`bpf_insn_prepare_dump`)."""
BASE = "__bpf_call_base"
INFO = 256
LENGTH, INSNS, LINES, LINES_AT, LINE_SIZE = 20, 32, 148, 152, 172
"""Offsets of xlated_prog_len, xlated_prog_insns, nr_line_info, line_info, line_info_rec_size in bpf_prog_info."""
_ORDER: ByteOrder = "little" if sys.byteorder == "little" else "big"


@dataclass(frozen=True, slots=True)
class ReadBack:
    """`moved` has the first slot after of each slot before, and the new length at the end; a slot that was removed has
    that of the next one that is left.
    """

    insns: tuple[Insn, ...]
    moved: tuple[int, ...]
    removed: frozenset[int]


def line_records(insns: Sequence[Insn]) -> bytes:
    """`struct bpf_line_info` for each instruction, its slot as the column (any 32 bits)."""
    second, rows = False, []
    for slot, insn in enumerate(insns):
        if not second:
            rows.append(struct.pack("=IIII", slot, 0, 0, slot))
        second = not second and insn.opcode == WIDE
    return b"".join(rows)


def read_back(live: Live, fd: int, before: Sequence[Insn]) -> ReadBack:
    """Of a program that was loaded with `line_records`. Raises Refused."""
    first = ctypes.create_string_buffer(INFO)
    live.info(fd, first)
    size, count = (struct.unpack_from("=I", first, at)[0] for at in (LENGTH, LINES))
    code, lines = ctypes.create_string_buffer(max(size, 8)), ctypes.create_string_buffer(max(LINE_RECORD * count, 8))
    info = ctypes.create_string_buffer(INFO)
    for at, form, value in (
        *((LENGTH, "=I", size), (INSNS, "=Q", ctypes.addressof(code))),
        *((LINES, "=I", count), (LINES_AT, "=Q", ctypes.addressof(lines)), (LINE_SIZE, "=I", LINE_RECORD)),
    ):
        struct.pack_into(form, info, at, value)
    live.info(fd, info, code, lines)
    if struct.unpack_from("=Q", info, INSNS)[0] == 0:
        raise Refused("read the program back (kernel.kptr_restrict, or no CAP_SYS_ADMIN)", 1)
    insns = decode(code.raw[:size], _ORDER)
    places = {}
    for at in range(0, LINE_RECORD * count, LINE_RECORD):
        place, _, _, slot = struct.unpack_from("=IIII", lines, at)
        places[slot] = place
    return ReadBack(insns, *places_of(before, len(insns), places))


def places_of(before: Sequence[Insn], length: int, places: Mapping[int, int]) -> tuple[tuple[int, ...], frozenset[int]]:
    """`ReadBack.moved` and `removed`; `places` has the slot after of each slot before that a record is left of."""
    moved = [length] * (len(before) + 1)
    removed = set()
    for slot in reversed(range(len(before))):
        if slot in places:
            moved[slot] = places[slot]
        elif slot and slot - 1 in places and before[slot - 1].opcode == WIDE:
            moved[slot] = places[slot - 1] + 1
        else:
            moved[slot] = moved[slot + 1]
            removed.add(slot)
    return tuple(moved), frozenset(removed)


def program(
    before: Program, read: ReadBack, maps: Mapping[int, int], symbols: Symbols, known: Container[str]
) -> Program:
    """The program after. `maps` are the numbers (in `before.maps`) of the kernel's map ids; of several functions at one
    address, one of `known` gives the name. Calls of subprograms and loads of callbacks are as in `before`.
    """
    insns, refs = list(read.insns), dict[int, Ref]()
    base = symbols.places(BASE)
    second = False
    for at, insn in enumerate(read.insns):
        if second:
            second = False
            continue
        second = insn.opcode == WIDE
        if insn.opcode == CALL and insn.src == 1 and insn.off:
            insns[at] = replace(insn, off=0, imm=insn.off)
        elif insn.opcode == WIDE and insn.src == 4 and at + 1 < len(insns):
            insns[at + 1] = Insn(0)
        elif insn.opcode == WIDE and insn.src in (1, 2) and insn.imm in maps and at + 1 < len(insns):
            refs[at] = MapRef(maps[insn.imm], insns[at + 1].imm if insn.src == 2 else None)
            insns[at] = replace(insn, imm=0)
        elif insn.opcode == CALL and insn.src in (0, 2):
            name = _called(insn.imm, base, symbols, known)
            if name:
                refs[at] = SymbolRef(name)
    return replace(
        before,
        insns=tuple(insns),
        refs=refs,
        subprograms=_subprograms(before, read),
        form=Form.XLATED,
        lines={},
        relocated=frozenset(),
        entries=tuple(read.moved[start] for start in before.entries),
    )


def _called(imm: int, base: Sequence[int], symbols: Symbols, known: Container[str]) -> str:
    """The function at __bpf_call_base + imm; "" for what has no name."""
    if imm == TAIL_CALL:  # of helpers; no kernel function begins there
        return "bpf_tail_call"
    names = [name for start in base for name in symbols.names(start + imm)]
    return next((name for name in names if name in known), names[0] if names else "")


def _subprograms(before: Program, read: ReadBack) -> tuple[Subprogram, ...]:
    """Those that are left, each up to the next; code behind the last is of the last."""
    left = [part for part in before.subprograms if read.moved[part.start] < read.moved[part.end]]
    ends = [read.moved[part.start] for part in left[1:]] + [len(read.insns)]
    return tuple(Subprogram(part.name, read.moved[part.start], end) for part, end in zip(left, ends, strict=True))
