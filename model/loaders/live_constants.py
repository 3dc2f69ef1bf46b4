"""Loads from maps that nobody can write any more (`.rodata`, `.kconfig`): the verifier takes them for their values.

`check_mem_access` and `bpf_map_direct_read`, kernel/bpf/verifier.c (5.5 to 6.18): a map with BPF_F_RDONLY_PROG that was
frozen, at an offset that is known. Here: where the address is made in the same block.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from model.isa.insn import Insn
from model.isa.opcodes import WIDE
from model.program import MapRef, Program

CALL, EXIT, MOV64, ADD64, JA32 = 0x85, 0x95, 0xBF, 0x07, 0x06
MEM, MEMSX = 0x61, 0x81
SIZES = {0x00: 4, 0x08: 2, 0x10: 1, 0x18: 8}


def settled(program: Program, contents: Mapping[int, bytes]) -> Program:
    """The program with such loads as moves of their values, where a move of 32 bits is enough; nothing moves.

    `contents` are the values of frozen maps by the map's number. For the facts of a program, never for its rewrite.
    """
    if not contents:
        return program
    insns = list(program.insns)
    joins = set(_joins(program))
    known: dict[int, tuple[int, int]] = {}
    for slot, insn in enumerate(program.insns):
        if slot in joins:
            known = {}
        kind, ref = insn.opcode & 7, program.refs.get(slot)
        if insn.opcode == WIDE and isinstance(ref, MapRef) and ref.offset is not None and ref.map in contents:
            known[insn.dst] = ref.map, ref.offset
        elif insn.opcode == MOV64 and insn.off == 0 and insn.src in known:
            known[insn.dst] = known[insn.src]
        elif insn.opcode == ADD64 and insn.dst in known:
            known[insn.dst] = known[insn.dst][0], known[insn.dst][1] + insn.imm
        elif kind == 1 and insn.src in known:
            insns[slot] = _moved(insn, contents[known[insn.src][0]], known[insn.src][1] + insn.off)
            known.pop(insn.dst, None)
        elif kind in (0, 1, 4, 7):
            known.pop(insn.dst, None)
        elif kind == 3:  # an atomic operation may fetch, into its source or r0
            known.pop(insn.src, None)
            known.pop(0, None)
        elif insn.opcode == CALL:
            known = {register: place for register, place in known.items() if register > 5}
    return replace(program, insns=tuple(insns))


def _moved(insn: Insn, data: bytes, offset: int) -> Insn:
    """The move that leaves what the load leaves; the load itself where there is none."""
    size = SIZES[insn.opcode & 0x18]
    mode = insn.opcode & 0xE7
    if mode not in (MEM, MEMSX) or not 0 <= offset <= len(data) - size:
        return insn
    value = int.from_bytes(data[offset : offset + size], "little", signed=mode == MEMSX)
    if -(1 << 31) <= value < 1 << 31:
        return Insn(0xB7, insn.dst, imm=value)
    return Insn(0xB4, insn.dst, imm=value - (1 << 32)) if 0 <= value < 1 << 32 else insn


def _joins(program: Program) -> Iterator[int]:
    """Where a block begins that something else than the slot before may lead to."""
    for slot, insn in enumerate(program.insns):
        if insn.opcode & 7 in (5, 6) and insn.opcode & 0xF0 not in (0x80, 0x90):
            yield slot + 1 + (insn.imm if insn.opcode == JA32 else insn.off)
    for part in program.subprograms:
        yield part.start
