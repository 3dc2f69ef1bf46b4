"""One slot of a BPF program: `struct bpf_insn` (include/uapi/linux/bpf.h; RFC 9669, section 3)."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Insn:
    """Eight bytes of program text.

    `opcode` is 8 bits unsigned, `dst` and `src` 4 bits unsigned, `off` 16 bits signed, `imm` 32 bits
    signed (Python ints in exactly these ranges). A 64-bit immediate load takes two slots: the first
    has opcode 0x18 and the low half in `imm`; the second has opcode, registers and offset 0 and the
    high half in `imm` (RFC 9669, section 3.2). Indexes into programs count slots, as jump offsets do.
    """

    opcode: int
    dst: int = 0
    src: int = 0
    off: int = 0
    imm: int = 0
