"""CO-RE relocations: the kernel does them itself (BPF_PROG_LOAD's core_relos, 5.17 and later), and its log says how.

The verifier starts from the instructions as they are then (`check_core_relo`, kernel/bpf/verifier.c;
`bpf_core_patch_insn`, tools/lib/bpf/relo_core.c, 6.12), so what was loaded is what is read here.
"""

import re
from collections.abc import Sequence
from dataclasses import replace

from model.isa.insn import Insn
from model.isa.opcodes import WIDE

LEVEL = 2 | 8
"""BPF_LOG_LEVEL2 (level 1 forgets on success), BPF_LOG_FIXED: the beginning is kept where not all fits."""
LOG_SIZE = 16 << 20
POISON = Insn(0x85, imm=195896080)
"""What the kernel puts where a relocation has no answer (0xbad2310)."""
_PATCHED = re.compile(
    r"relo #\d+: patched insn #(\d+) \((?:ALU/ALU64|LDX/ST/STX|LDIMM64)\) (imm|off|imm64|mem_sz) -?\d+ -> (-?\d+)"
)
_POISONED = re.compile(r"relo #\d+: substituting insn #(\d+) w/ invalid insn")
_SIZES = {1: 0x10, 2: 0x08, 4: 0x00, 8: 0x18}


def relocated(insns: Sequence[Insn], log: str) -> tuple[Insn, ...]:
    """The instructions after all changes that the verifier's log tells, in the log's order."""
    found = list(insns)
    for line in log.splitlines():
        if (poisoned := _POISONED.search(line)) and int(poisoned[1]) < len(found):
            found[int(poisoned[1])] = POISON
        elif (patched := _PATCHED.search(line)) and int(patched[1]) < len(found):
            _patch(found, int(patched[1]), patched[2], int(patched[3]))
    return tuple(found)


def _patch(found: list[Insn], slot: int, what: str, value: int) -> None:
    insn = found[slot]
    if what == "off":
        found[slot] = replace(insn, off=value)
    elif what == "imm":
        found[slot] = replace(insn, imm=value)
    elif what == "mem_sz" and value in _SIZES:
        found[slot] = replace(insn, opcode=insn.opcode & ~0x18 | _SIZES[value])
    elif what == "imm64" and insn.opcode == WIDE and slot + 1 < len(found):
        low, high = value & 0xFFFFFFFF, value >> 32 & 0xFFFFFFFF
        found[slot] = replace(insn, imm=low - (low >> 31 << 32))
        found[slot + 1] = replace(found[slot + 1], imm=high - (high >> 31 << 32))
