"""Where the machine puts kernel objects, and a rewritten program linked against that layout.

Offsets that every build has alike come from the release (`Release.layout`); the others are chosen here.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

from model.errors import Unsupported
from model.kernel.release import Release
from model.maps.state import ARRAY_VALUE
from model.program import Program

MAPS_BASE = 0xFFFF890000000000
"""`struct bpf_map` and elements, from here on up."""
PERCPU_POINTERS = 0x6000000000
"""Per-CPU pointers: no memory is there."""
PERCPU_AREAS = 0xFFFFA00000000000
PERCPU_DISTANCE = 1 << 40
"""A per-CPU pointer p means the memory at p + `PERCPU_AREAS` + cpu × `PERCPU_DISTANCE`."""
CHOSEN: Mapping[str, int] = {
    "struct bpf_array.map": 0,
    "struct bpf_array.value": ARRAY_VALUE,
    "struct bpf_array.pptrs": ARRAY_VALUE,
    "struct bpf_array.ptrs": ARRAY_VALUE,
    "struct htab_elem.key": 48,
    "struct htab_elem.lru_node": 16,
    "struct bpf_lru_node.ref": 19,
    "struct rhtab_elem.data": 8,
}


class Reloc(Protocol):
    """`model.rewrite.patch.Reloc`."""

    @property
    def kind(self) -> str: ...
    @property
    def symbol(self) -> str: ...


def offset(release: Release, member: str) -> int:
    """The offset in bytes of "struct tag.member" in this machine. Raises `Unsupported` where it has none."""
    known = release.layout.get(member, CHOSEN.get(member))
    if known is None:
        raise Unsupported(f"the machine has no layout for {member}")
    return known


def link(program: Program, relocs: Mapping[int, Reloc], release: Release) -> Program:
    """The program after a rewrite with the members' offsets of this machine put in; calls go by name.

    `relocs` as in `model.rewrite.patch.Patched`, by slot. Raises `Unsupported` for a member without a layout.
    """
    insns = list(program.insns)
    for slot, reloc in relocs.items():
        if reloc.kind == "call":
            continue
        amount = sum(offset(release, member) for member in reloc.symbol.split(" + "))
        insn = insns[slot]
        if reloc.kind == "offset":
            insns[slot] = replace(insn, imm=insn.imm + amount)
        else:
            insns[slot] = replace(insn, off=insn.off + amount)
    return replace(program, insns=tuple(insns))
