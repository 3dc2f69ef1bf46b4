"""Rows for arithmetic: division guards, explicit zero extension, casts between address spaces, speculation masks.

Source: `do_misc_fixups`, kernel/bpf/verifier.c of 5.10, 6.1 and 6.12; `bpf_do_misc_fixups` and
`bpf_opt_subreg_zext_lo32_rnd_hi32`, kernel/bpf/fixups.c of 7.3.
"""

from collections.abc import Iterator

from model.isa.insn import Insn
from model.rewrite.other_passes import AX, At, Patch, Row, insn, same
from model.rewrite.sequence import Template

MISC = "do_misc_fixups (kernel/bpf/verifier.c; bpf_do_misc_fixups, kernel/bpf/fixups.c of 7.3)"
ZEXT = "opt_subreg_zext_lo32_rnd_hi32 (kernel/bpf/verifier.c; kernel/bpf/fixups.c of 7.3)"
ALU, ALU64 = 4, 7
DIV, MOD = 0x30, 0x90
DIVISIONS = {cls | op | 8 for cls in (ALU, ALU64) for op in (DIV, MOD)}
BY_NUMBER = {opcode & ~8 for opcode in DIVISIONS}
ADD64, SUB64, MOV64, MOV32 = 0x0F, 0x1F, 0xBF, 0xBC
ADDR_SPACE_CAST = 1
CMPXCHG = 0xF1


def _wide(found: Insn) -> bool:
    return found.opcode & 7 == ALU64


def _signed(at: At) -> bool:
    return at.insn.opcode in DIVISIONS and at.insn.off == 1


def _plain_guard(at: At) -> Iterator[Patch]:
    """x / 0 = 0, x % 0 = x."""
    found, wide = at.insn, _wide(at.insn)
    jump = 5 if wide else 6
    if found.opcode & 0xF0 == DIV:
        yield insn(jump | 0x50, found.src, off=2), insn(0xAC, found.dst, found.dst), insn(5, off=1), same(found)
    elif wide:
        yield insn(0x15, found.src, off=1), same(found)
    else:
        yield insn(0x16, found.src, off=2), same(found), insn(5, off=1), insn(MOV32, found.dst, found.dst)


def _signed_guard(at: At) -> Iterator[Patch]:
    """Besides: the least number / -1 = itself, x % -1 = 0."""
    found, wide = at.insn, _wide(at.insn)
    jump, alu = (5, ALU64) if wide else (6, ALU)
    head = insn(MOV64, AX, found.src), insn(alu, AX, imm=1)
    if found.opcode & 0xF0 == DIV:
        tests = insn(jump | 0x20, AX, off=4, imm=1), insn(jump | 0x10, AX, off=1)
        yield *head, *tests, insn(alu | 0xB0, found.dst), insn(alu | 0x80, found.dst), insn(5, off=1), same(found)
        return
    tests = insn(jump | 0x20, AX, off=3, imm=1), insn(jump | 0x10, AX, off=3 if wide else 4, imm=1)
    body = *head, *tests, insn(0xB4, found.dst), insn(5, off=1), same(found)
    yield body if wide else (*body, insn(5, off=1), insn(MOV32, found.dst, found.dst))


def _minus_one(at: At) -> Iterator[Patch]:
    found = at.insn
    negate = insn((ALU64 if _wide(found) else ALU) | 0x80, found.dst)
    yield (negate if found.opcode & 0xF0 == DIV else insn(0xB4, found.dst),)


def _sanitised(at: At) -> Iterator[Patch]:
    """`alu_limit` and `alu_state` are the verifier's: which register is the offset, its sign, whether it is known."""
    found = at.insn
    for source in (True, False):
        offset = found.src if source else found.dst
        for negative in (False, True):
            for known in (False, True):
                yield tuple(_masked(found, offset, source, negative, known))


def _masked(found: Insn, offset: int, source: bool, negative: bool, known: bool) -> Iterator[Template]:
    limit = insn(0xB4, AX, imm="alu_limit")
    if known:
        yield limit
    else:
        if negative:
            yield insn(0x27, offset, imm=-1)
        yield from (limit, insn(0x1F, AX, offset), insn(0x4F, AX, offset), insn(0x87, AX))
        yield from (insn(0xC7, AX, imm=63), insn(0x5F, AX, offset))
    if not source:
        yield insn(MOV64, found.dst, found.src)
    opcode = found.opcode ^ (ADD64 ^ SUB64) if negative else found.opcode
    yield insn(opcode, found.dst, AX)
    if source and negative and not known:
        yield insn(0x27, offset, imm=-1)


def _defined(found: Insn) -> int:
    """The register whose lower half an instruction writes (`insn_def_regno`), -1 for none."""
    kind = found.opcode & 7
    if kind in (1, ALU, ALU64):
        return found.dst
    if kind == 3 and found.opcode & 0xE0 == 0xC0 and found.imm & 1:
        return 0 if found.imm == CMPXCHG else found.src
    return -1


def _extended(at: At) -> Iterator[Patch]:
    register = _defined(at.insn)
    if register >= 0:
        yield same(at.insn), insn(MOV32, register, register, imm=1)


ROWS: tuple[Row, ...] = (
    Row("division guard", MISC, "4.19", lambda at: at.insn.opcode in DIVISIONS and at.insn.off == 0, _plain_guard),
    Row("division guard", MISC, "6.6", _signed, _plain_guard, last="6.11"),
    Row("signed division guard", MISC, "6.12", _signed, _signed_guard),
    Row(
        "signed division by -1",
        MISC,
        "6.12",
        lambda at: at.insn.opcode in BY_NUMBER and at.insn.off == 1 and at.insn.imm == -1,
        _minus_one,
    ),
    Row(
        "cast between address spaces",
        MISC,
        "6.9",
        lambda at: at.insn.opcode == MOV64 and at.insn.off == ADDR_SPACE_CAST,
        lambda at: [(insn(MOV32, at.insn.dst, at.insn.src),)],
    ),
    Row("speculation mask", MISC, "4.19", lambda at: at.insn.opcode in (ADD64, SUB64), _sanitised),
    Row("explicit zero extension", ZEXT, "5.3", lambda at: _defined(at.insn) >= 0, _extended),
)
