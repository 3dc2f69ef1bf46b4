"""Rows for control flow: code that the verifier proves dead, branches that it knows, loops that it bounds, prologues.

Source: `opt_hard_wire_dead_code_branches`, `opt_remove_dead_code`, `opt_remove_nops`, `sanitize_dead_code`,
`remove_fastcall_spills_fills`, `do_misc_fixups`, kernel/bpf/verifier.c of 5.10, 6.1 and 6.12; kernel/bpf/fixups.c of
7.3; `bpf_unclone_prologue`, net/core/filter.c.
"""

from collections.abc import Iterator, Sequence

from model.isa.insn import Insn
from model.rewrite.other_alu import MISC
from model.rewrite.other_passes import AX, EXIT, GOTO, WIDE, At, Patch, Row, call, insn

DEAD_CODE = "opt_remove_dead_code, sanitize_dead_code (kernel/bpf/verifier.c; kernel/bpf/fixups.c of 7.3)"
BRANCHES = "opt_hard_wire_dead_code_branches (kernel/bpf/verifier.c; kernel/bpf/fixups.c of 7.3)"
NOPS = "opt_remove_nops (kernel/bpf/verifier.c; kernel/bpf/fixups.c of 7.3)"
SPILLS = "remove_fastcall_spills_fills (kernel/bpf/verifier.c; kernel/bpf/fixups.c of 7.3)"
PROLOGUE = "gen_prologue (bpf_unclone_prologue, net/core/filter.c), in convert_ctx_accesses"
SYMBOL = "check_pseudo_btf_id (kernel/bpf/verifier.c)"
JA, JCOND, LDX_DW, STX_DW, ST_DW = 0x05, 0xE5, 0x79, 0x7B, 0x7A
FRAME = 10
TIMED = "arch_bpf_timed_may_goto"


def conditional(found: Insn) -> bool:
    return found.opcode & 7 in (5, 6) and found.opcode & 0xF0 not in (0x00, 0x80, 0x90, 0xE0)


def target(at: At) -> str:
    return f"{GOTO}{at.slot + 1 + at.insn.off}"


def _known(at: At) -> Iterator[Patch]:
    """Always taken, or never."""
    yield (insn(JA, off=target(at)),)
    yield (insn(JA),)


def _may_goto(at: At) -> Iterator[Patch]:
    """A counter in the frame, behind the deepest slot of the program's own; with a clock where the JIT has it."""
    load, out, less = insn(LDX_DW, AX, FRAME, off="count"), insn(0x15, AX, off=target(at)), insn(0x17, AX, imm=1)
    store = insn(STX_DW, FRAME, AX, off="count")
    yield load, out, less, store
    yield load, out, less, insn(0x55, AX, off=2), insn(0xB7, AX, imm="count"), call(TIMED), store


def _symbol(at: At) -> Iterator[Patch]:
    """The address of a variable of the kernel, by its BTF id before."""
    yield insn(WIDE, at.insn.dst, imm="address, low"), insn(0, imm="address, high")


DEAD = Row("dead code removed", DEAD_CODE, "5.1", lambda at: True)
"""Unprivileged programs keep dead code, as jumps to themselves."""
KNOWN_REMOVED = Row("known branch removed", f"{BRANCHES}, {NOPS}", "5.1", lambda at: conditional(at.insn))
NEXT = Row("jump to the next instruction removed", NOPS, "5.1", lambda at: at.insn.opcode in (JA, 0x06, JCOND))
SPILL = Row(
    "spill or fill around a call removed",
    SPILLS,
    "6.12",
    lambda at: (
        (at.insn.opcode == STX_DW and at.insn.dst == FRAME) or (at.insn.opcode == LDX_DW and at.insn.src == FRAME)
    ),
)
EXCEPTION = Row("default exception callback", MISC, "6.7", lambda at: True)
ENDS = (Insn(0xBF, 0, 1), Insn(EXIT))
"""What is put behind a program that throws and has no callback of its own."""

ROWS: tuple[Row, ...] = (
    Row("known branch", BRANCHES, "5.1", lambda at: conditional(at.insn), _known),
    Row("bounded may_goto", MISC, "6.9", lambda at: at.insn.opcode == JCOND, _may_goto),
    Row("address of a kernel symbol", SYMBOL, "5.10", lambda at: at.insn.opcode == WIDE and at.insn.src == 3, _symbol),
    Row("dead code in place", DEAD_CODE, "4.19", lambda at: True, lambda at: [(insn(JA, off=-1),)]),
)


def _unclone(at: At, found: Sequence[Insn]) -> bool:
    """A packet that is written to is made the program's own first; the context comes back in r1."""
    ends = found[-1] == Insn(0xBF, 1, 6) if found else False
    return ends and sum(one.opcode == 0x85 for one in found) == 1 and sum(one.opcode == EXIT for one in found) <= 1


PREFIXES: tuple[Row, ...] = (
    Row(
        "counter of may_goto",
        MISC,
        "6.9",
        lambda at: True,
        lambda at: [
            (insn(ST_DW, FRAME, off="count", imm=8 << 20),),
            (insn(ST_DW, FRAME, off="count", imm=0xFFFF), insn(ST_DW, FRAME, off="start")),
        ],
    ),
    Row("prologue", PROLOGUE, "4.19", lambda at: True, shape=_unclone),
)
"""What is put in front of a function's first instruction. Behind the counters jumps go on, in front of the others."""
