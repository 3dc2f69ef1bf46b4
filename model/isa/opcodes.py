"""The fields of an opcode: RFC 9669's names, values and order; the kernel's own additions at the end of each enum.

The three low bits are the class. Arithmetic and jump classes: bit 3 is the source, bits 4–7 the code
(section 4). Load and store classes: bits 3–4 are the size, bits 5–7 the mode (section 5).
"""

from enum import IntEnum


class Class(IntEnum):
    """Section 3.3, "Instruction classes"; 3 bits."""

    LD = 0x0
    LDX = 0x1
    ST = 0x2
    STX = 0x3
    ALU = 0x4
    JMP = 0x5
    JMP32 = 0x6
    ALU64 = 0x7


class Source(IntEnum):
    """Section 4; 1 bit."""

    K = 0
    X = 1


class Alu(IntEnum):
    """Section 4.1, "Arithmetic instructions"; 4 bits. SDIV, SMOD and MOVSX are DIV, MOD and MOV with an offset."""

    ADD = 0x0
    SUB = 0x1
    MUL = 0x2
    DIV = 0x3
    OR = 0x4
    AND = 0x5
    LSH = 0x6
    RSH = 0x7
    NEG = 0x8
    MOD = 0x9
    XOR = 0xA
    MOV = 0xB
    ARSH = 0xC
    END = 0xD


class AluOffset(IntEnum):
    """What a non-zero offset of an arithmetic instruction selects (section 4.1; the last two are the kernel's)."""

    SIGNED = 1  # SDIV, SMOD
    MOVSX8 = 8
    MOVSX16 = 16
    MOVSX32 = 32
    ADDR_SPACE_CAST = 1  # MOV (include/uapi/linux/bpf.h)
    ADDR_PERCPU = -1  # MOV (include/linux/filter.h, 6.10 and later), made by rewrites only


class Jmp(IntEnum):
    """Section 4.3, "Jump instructions"; 4 bits."""

    JA = 0x0
    JEQ = 0x1
    JGT = 0x2
    JGE = 0x3
    JSET = 0x4
    JNE = 0x5
    JSGT = 0x6
    JSGE = 0x7
    CALL = 0x8
    EXIT = 0x9
    JLT = 0xA
    JLE = 0xB
    JSLT = 0xC
    JSLE = 0xD
    JCOND = 0xE  # may_goto (include/uapi/linux/bpf.h)
    CALL_ARGS = 0xE  # the interpreter's call of a subprogram, source 1 (include/linux/filter.h)
    TAIL_CALL = 0xF  # (include/linux/filter.h)


class Call(IntEnum):
    """The source field of CALL (section 4.3)."""

    HELPER = 0x0
    SUBPROGRAM = 0x1
    KFUNC = 0x2


class Size(IntEnum):
    """Section 5; 2 bits."""

    W = 0
    H = 1
    B = 2
    DW = 3

    @property
    def bytes(self) -> int:
        return (4, 2, 1, 8)[self]


class Mode(IntEnum):
    """Section 5; 3 bits. From PROBE_MEM on: include/linux/filter.h, made by rewrites only."""

    IMM = 0
    ABS = 1
    IND = 2
    MEM = 3
    MEMSX = 4
    ATOMIC = 6
    PROBE_MEM = 1
    PROBE_MEMSX = 2
    PROBE_MEM32 = 5
    PROBE_MEM32SX = 6
    NOSPEC = 6
    PROBE_ATOMIC = 7


class Atomic(IntEnum):
    """The immediate of an atomic operation (section 5.3; the last two are in include/uapi/linux/bpf.h)."""

    ADD = 0x00
    OR = 0x40
    AND = 0x50
    XOR = 0xA0
    FETCH = 0x01
    XCHG = 0xE1
    CMPXCHG = 0xF1
    LOAD_ACQ = 0x100
    STORE_REL = 0x110


class Imm64(IntEnum):
    """The source field of a 64-bit immediate load (section 5.4), by the kernel's names (BPF_PSEUDO_…)."""

    INTEGER = 0x0
    MAP_FD = 0x1
    MAP_VALUE = 0x2
    BTF_ID = 0x3
    FUNC = 0x4
    MAP_IDX = 0x5
    MAP_IDX_VALUE = 0x6


FRAME_POINTER = 10
"""The highest register a program has; read-only (section 2, "Registers", and check_reg_arg in 7.3)."""

STACK_ARGUMENTS = 11
"""The register that addresses arguments past the fifth (BPF_REG_PARAMS, 7.3); in older kernels the hidden one."""

HIGHEST_HIDDEN = 12
"""The rewrites' own scratch register, BPF_REG_AX: 12 in 7.3, 11 up to 6.18."""


def arithmetic(klass: Class, code: Alu | Jmp, source: Source) -> int:
    """The opcode byte of an arithmetic or jump instruction (RFC 9669, section 4)."""
    return klass | source << 3 | code << 4


def load_store(klass: Class, mode: Mode, size: Size) -> int:
    """The opcode byte of a load or store (RFC 9669, section 5)."""
    return klass | size << 3 | mode << 5


WIDE = load_store(Class.LD, Mode.IMM, Size.DW)
CALL = arithmetic(Class.JMP, Jmp.CALL, Source.K)
EXIT = arithmetic(Class.JMP, Jmp.EXIT, Source.K)
GOTO = arithmetic(Class.JMP, Jmp.JA, Source.K)
GOTOL = arithmetic(Class.JMP32, Jmp.JA, Source.K)
GOTOX = arithmetic(Class.JMP, Jmp.JA, Source.X)
MAY_GOTO = arithmetic(Class.JMP, Jmp.JCOND, Source.K)
