"""Seeded faults in patches of instructions on numbers: the CallRewrite claim must refute each."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from model.isa.insn import Insn
from model.kernel.abi import ABIS
from model.kernel.release import Release
from proofs.mutants import DoesNotApply, Mutant
from proofs.obligation import Obligation
from proofs.properties.rewrite_cases import ZEXT, Case, cases, rewrite_obligations

Edit = Callable[[Sequence[Insn]], Sequence[Insn]]


def _mutated(release: Release, row: str, name: str, edit: Edit, arch: str) -> list[Obligation]:
    """The claim on the release's patch for the instruction called `name`, with one edit of the patch."""
    found = next((one for one in cases(release) if one.name == name and _named(one) == row), None)
    if found is None:
        raise DoesNotApply(f"{release.name} has no {row} for {name}")
    return rewrite_obligations(release, ABIS[arch], replace(found, after=tuple(edit(found.after))))


def _named(case: Case) -> str:
    return case.row.name if case.row is not None else ""


def at(index: int, **fields: int) -> Edit:
    """Instruction `index` with other fields."""
    return lambda insns: [replace(insn, **fields) if i == index else insn for i, insn in enumerate(insns)]


def only(index: int) -> Edit:
    return lambda insns: [insns[index]]


GUARD, SIGNED, MINUS = "division guard", "signed division guard", "signed division by -1"
ROWS: tuple[tuple[str, str, str, str, Edit, str], ...] = (
    ("no-guard", "the division stands alone", GUARD, "div64", only(3), "x86_64"),
    ("zero-gives-x", "x / 0 leaves x", GUARD, "div64", at(1, opcode=0x05, dst=0, src=0), "x86_64"),
    ("wide-test", "a 32-bit division tests 64 bits of its divisor", GUARD, "div32", at(0, opcode=0x55), "x86_64"),
    ("upper-half-kept", "x % 0 in 32 bits keeps the upper half", GUARD, "mod32", at(3, opcode=0xBF), "x86_64"),
    ("tests-dividend", "the dividend is tested", GUARD, "mod64", at(0, dst=1), "x86_64"),
    ("wrong-way", "the test is the other way round", GUARD, "mod64", at(0, opcode=0x55), "x86_64"),
    ("signed-as-plain", "the divisor's other signs are not seen", SIGNED, "sdiv64", only(7), "x86_64"),
    ("minus-one-missed", "the test takes -1 for an ordinary divisor", SIGNED, "sdiv64", at(1, imm=0), "x86_64"),
    ("not-negated", "x / -1 gives x", SIGNED, "sdiv32", at(5, opcode=0xB7, dst=11), "x86_64"),
    ("zero-divided", "x s/ 0 comes to the division", SIGNED, "smod64", at(3, off=2), "x86_64"),
    ("unsigned-negation", "x / -1 is negated in 64 bits", MINUS, "sdiv32-by-minus-one", at(0, opcode=0x87), "x86_64"),
    ("remainder-kept", "x % -1 gives x", MINUS, "smod64-by-minus-one", at(0, opcode=0xBF, src=1), "x86_64"),
    ("other-register", "another register is extended", ZEXT, "add32", at(1, dst=2, src=2), "x86_64"),
    ("other-source", "another register is copied", ZEXT, "add32", at(1, src=2), "x86_64"),
    ("riscv-zero", "a divider that gives all ones for 0", GUARD, "div64", only(3), "riscv64"),
)
REWRITE_MUTANTS: tuple[Mutant, ...] = tuple(
    Mutant("rewrite", name, fault, partial(_mutated, row=row, name=insn, edit=edit, arch=arch))
    for name, fault, row, insn, edit, arch in ROWS
)
