"""Rows for loads and stores: contexts, memory that may fault, packets, speculation barriers.

Source: `convert_ctx_accesses`, kernel/bpf/verifier.c of 5.10, 6.1, 6.12; kernel/bpf/fixups.c of 7.3; `bpf_gen_ld_abs`,
net/core/filter.c. What a context's member becomes is the program type's (`convert_ctx_access`), a few hundred
sequences: they are known by their form, and no claim rests on it.
"""

from collections.abc import Iterator, Sequence

from model.isa.insn import Insn
from model.rewrite.other_alu import MISC
from model.rewrite.other_passes import AX, EXIT, At, Patch, Row, insn, same

CONTEXT = "convert_ctx_accesses (kernel/bpf/verifier.c; bpf_convert_ctx_accesses, kernel/bpf/fixups.c of 7.3)"
PROBE_MEM, PROBE_MEMSX, MEM, MEMSX, PROBE_MEM32, PROBE_ATOMIC = 0x20, 0x40, 0x60, 0x80, 0xA0, 0xE0
NOSPEC = 0xC2
LDX, ST, STX = 1, 2, 3
MOST = 32
"""INSN_BUF_SIZE: instructions of a patch."""


def _load(at: At) -> bool:
    return at.insn.opcode & 7 == LDX and at.insn.opcode & 0xE0 in (MEM, MEMSX)


def _memory(at: At) -> bool:
    return at.insn.opcode & 7 in (LDX, ST, STX) and at.insn.opcode & 0xE0 in (MEM, MEMSX)


def _probed(at: At) -> Iterator[Patch]:
    """`BPF_PROBE_MEM` is shown as BPF_MEM by `bpf_insn_prepare_dump`; the check of the address is 6.12's and later."""
    found = at.insn
    modes = (PROBE_MEM, PROBE_MEMSX) if found.opcode & 0xE0 == MEM else (PROBE_MEMSX,)
    for mode in (*modes, found.opcode & 0xE0):
        load = insn(found.opcode & 0x1F | mode, found.dst, found.src, found.off)
        if mode != found.opcode & 0xE0:
            yield (load,)
        add = (insn(0x07, AX, imm=found.off),) if found.off else ()
        shift = insn(0x77, AX, imm=32), insn(0xB5, AX, off=2, imm="uaddress_limit")
        yield insn(0xBF, AX, found.src), *add, *shift, load, insn(5, off=1), insn(0xB7, found.dst)


def _arena(at: At) -> Iterator[Patch]:
    found = at.insn
    mode = PROBE_MEM32 if found.opcode & 0xE0 in (MEM, MEMSX) else PROBE_ATOMIC
    yield (insn(found.opcode & 0x1F | mode, found.dst, found.src, found.off, found.imm),)


def _straight(at: At, found: Sequence[Insn], registers: frozenset[int]) -> bool:
    """Loads, arithmetic and stores that end where they began, with jumps forward inside; writes only `registers`,
    or others that are loaded back from where they were saved.
    """
    if not 0 < len(found) <= MOST:
        return False
    saved = {one.src for one in found if one.opcode & 7 == STX}
    for number, one in enumerate(found):
        kind = one.opcode & 7
        if kind in (5, 6):
            if one.opcode & 0xF0 in (0x80, 0x90) or not 0 <= one.off < len(found) - number:
                return False
        elif kind == 0 or (kind in (LDX, 4, 7) and one.dst not in registers and one.dst not in saved):
            return False
    return True


def _context(at: At, found: Sequence[Insn]) -> bool:
    """A load of a member: the register is written last; a store: something is stored through the same register."""
    if _load(at):
        written = [one.dst for one in found if one.opcode & 7 in (LDX, 4, 7)]
        return at.insn.dst in written and _straight(at, found, frozenset({at.insn.dst, AX}))
    return any(one.opcode & 7 in (ST, STX) for one in found) and _straight(at, found, frozenset({AX}))


def _packet(at: At, found: Sequence[Insn]) -> bool:
    """LD_ABS and LD_IND: a call of the helper that reads the packet, or a fast way; a short packet ends the program."""
    calls = [one for one in found if one.opcode == 0x85]
    return 0 < len(found) <= MOST and len(calls) == 1 and sum(one.opcode == EXIT for one in found) <= 1


ROWS: tuple[Row, ...] = (
    Row("load that may fault", CONTEXT, "5.5", _load, _probed),
    Row("memory of an arena", CONTEXT, "6.9", lambda at: at.insn.opcode & 7 in (LDX, ST, STX), _arena),
    Row(
        "speculation barrier",
        CONTEXT,
        "5.13",
        lambda at: True,
        lambda at: [(same(at.insn), insn(NOSPEC)), (insn(NOSPEC), same(at.insn))],
    ),
    Row("packet load", MISC, "4.19", lambda at: at.insn.opcode & 0xE7 in (0x20, 0x40), shape=_packet),
    Row("context access", CONTEXT, "4.19", _memory, shape=_context),
)
