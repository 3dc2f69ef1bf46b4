"""The CallRewrite claims of a release: each instruction on numbers that its passes change, and those they do not.

The rows are `model.rewrite.other_alu`'s; what a processor's division leaves undefined is a row here.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from model.errors import Unsupported
from model.isa.insn import Insn
from model.kernel.abi import Abi
from model.kernel.nearest import version_numbers
from model.kernel.release import Release
from model.rewrite.other_alu import ROWS
from model.rewrite.other_passes import At, Patch, Row
from proofs.concrete import IntWorld
from proofs.obligation import Obligation
from proofs.properties.rewrites import PARTS, REACH, Divider, Rewritten

DIVIDERS: Mapping[str, tuple[Divider, str]] = {
    "x86_64": (
        Divider(zero=True, overflow=True),
        "Intel SDM, DIV and IDIV: #DE for 0, and where the quotient does not fit",
    ),
    "arm64": (
        Divider(zero=False, overflow=False),
        "Arm ARM, SDIV and UDIV: by 0 gives 0, the least by -1 itself; no trap",
    ),
    "riscv64": (
        Divider(zero=True, overflow=False),
        "RISC-V ISA, M extension: by 0 gives all ones, the least by -1 itself",
    ),
    "s390x": (Divider(zero=True, overflow=True), "z/Architecture PoP, DIVIDE: fixed-point-divide exception"),
}
"""What the division instructions that JITs use leave undefined, or define otherwise than RFC 9669 (section 4.1)."""
SIGNED_SINCE = (6, 6)
"""Instructions with off = 1: ec0e2da95f72 (6.6)."""
SUBREGISTERS_SINCE = (5, 3)
ZEXT = "explicit zero extension"
"""It stands behind an instruction on half a register that is no division: those are guarded before."""


@dataclass(frozen=True, slots=True)
class Case:
    """`row` is None for an instruction that the release leaves as it is."""

    name: str
    insn: Insn
    row: Row | None
    after: tuple[Insn, ...]


def instructions(release: Release) -> Iterator[tuple[str, Insn]]:
    """Each division by a register, also by itself, each signed one by -1, and two that define half a register."""
    version = version_numbers(release.version)[:2]
    signs = ("", "s") if version >= SIGNED_SINCE else ("",)
    for sign in signs:
        for kind, width in ((7, 64), (4, 32)):
            for operation, code in (("div", 0x30), ("mod", 0x90)):
                off = int(sign == "s")
                yield f"{sign}{operation}{width}", Insn(code | 8 | kind, 1, 2, off)
                yield f"{sign}{operation}{width}-by-itself", Insn(code | 8 | kind, 1, 1, off)
                if sign:
                    yield f"{sign}{operation}{width}-by-minus-one", Insn(code | kind, 1, 0, off, -1)
    if version >= SUBREGISTERS_SINCE:
        yield "add32", Insn(0x0C, 1, 2)
        yield "mov32", Insn(0xBC, 1, 2)


def cases(release: Release) -> Iterator[Case]:
    """The release's rows on each instruction; a division itself where no row is about it."""
    for name, insn in instructions(release):
        found = [
            (row, insns)
            for row in ROWS
            if row.covers(release.version) and row.pattern(At(0, insn)) and (row.name == ZEXT) != divides(insn)
            for patch in row.patches(At(0, insn))
            if (insns := _insns(patch)) is not None
        ]
        for row, insns in found:
            yield Case(name, insn, row, insns)
        if not found and divides(insn):
            yield Case(name, insn, None, (insn,))


def divides(insn: Insn) -> bool:
    return insn.opcode & 0xF0 in (0x30, 0x90) and insn.opcode & 7 in (4, 7)


def _insns(patch: Patch) -> tuple[Insn, ...] | None:
    """None where the patch has a number that only the verifier knows."""
    if not all(one.off.known and one.imm.known for one in patch):
        return None
    return tuple(Insn(one.opcode, one.dst, one.src, one.off.value, one.imm.value) for one in patch)


def rewrite_obligations(release: Release, abi: Abi, case: Case) -> list[Obligation]:
    """Raises `Unsupported` for a division on a processor whose own is not known here."""
    division = divides(case.insn)
    if division and abi.name not in DIVIDERS:
        raise Unsupported(f"what the division of {abi.name} leaves undefined is not known here")
    divider = DIVIDERS[abi.name][0] if division else Divider(zero=False, overflow=False)
    claim = Rewritten(case.insn, case.after, divider)
    where = case.row.source if case.row is not None else "no row: the instruction stays"
    origin = f"{release.version}: {where}" + (f"; {DIVIDERS[abi.name][1]}" if division else "")
    name = prefix(release, abi, case)
    signed = division and case.insn.off == 1
    parts = {"registers", "memory", *(["defined"] if division else []), *(["lemma"] if signed else [])}
    made = [Obligation(f"{name}/{part}", origin, claim, part) for part in PARTS if part in parts]
    return made + [Obligation(f"{name}/{part}", origin, claim, part, expect="path") for part in _paths(claim)]


@lru_cache(maxsize=1024)
def _paths(claim: Rewritten) -> tuple[str, ...]:
    return tuple(part for part in claim(IntWorld(lambda name, width: 0)) if part.startswith(REACH))


def prefix(release: Release, abi: Abi, case: Case) -> str:
    row = case.row.name.replace(" ", "-") if case.row is not None else "as-it-is"
    return f"rewrite/{release.name}/{abi.name}/{row}/{case.name}"
