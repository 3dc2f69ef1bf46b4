"""CallRewrite on numbers: what each release's guards do, and where a division is left that traps."""

import pytest

from model.isa.insn import Insn
from model.kernel.abi import ABIS
from model.kernel.data import available, load_release
from model.kernel.nearest import version_numbers
from proofs.mutants_rewrite import REWRITE_MUTANTS
from proofs.obligation import NoRule, Proved, Refuted, Shown
from proofs.outcome import word, worst
from proofs.properties.rewrite_cases import DIVIDERS, cases, divides, rewrite_obligations
from proofs.properties.rewrites import Divider, Rewritten
from proofs.solver import Solver
from proofs.trial import trial

SOLVER = Solver()
WAYS = ("", "-by-minus-one")
OVERFLOW = {f"s{operation}{width}{way}" for operation in ("div", "mod") for width in (32, 64) for way in WAYS}


def verdicts(name: str, arch: str) -> dict[str, str]:
    release = load_release(name)
    found = {}
    for case in cases(release):
        results = SOLVER.decide_all(rewrite_obligations(release, ABIS[arch], case))
        found[case.name] = word(worst(result.verdict for result in results))
    return found


@pytest.mark.parametrize("name", available())
def test_signed_divisions_overflow_from_6_6_up_to_6_11(name: str) -> None:
    """7dd34d7b7dcf (6.12) guards the least number divided by -1, which x86 traps on; ec0e2da95f72 (6.6) has it not."""
    version = version_numbers(name)
    found = verdicts(name, "x86_64")
    refuted = {one for one, verdict in found.items() if verdict == "refuted"}
    assert refuted == (OVERFLOW if (6, 6) <= version < (6, 12) else set())
    assert set(found.values()) <= {"proved", "refuted"}
    assert any(one.startswith("s") for one in found) == (version >= (6, 6))


@pytest.mark.parametrize(("arch", "refuted"), [("s390x", OVERFLOW), ("arm64", set()), ("riscv64", set())])
def test_other_dividers(arch: str, refuted: set[str]) -> None:
    assert {one for one, verdict in verdicts("6.10", arch).items() if verdict == "refuted"} == refuted
    assert set(verdicts("7.3", arch).values()) == {"proved"}


def test_the_smallest_input() -> None:
    """-2^31 s/ -1 in 32 bits: the instruction leaves 0x80000000, the processor traps."""
    release = load_release("6.10")
    (case,) = [case for case in cases(release) if case.name == "sdiv32"]
    obligations = rewrite_obligations(release, ABIS["x86_64"], case)
    (one,) = [obligation for obligation in obligations if obligation.part == "defined"]
    verdict = SOLVER.decide(one).verdict
    assert isinstance(verdict, Refuted)
    assert verdict.counterexample.shown[:3] == (
        Shown("r1", 64, 0x80000000),
        Shown("r2", 64, 0xFFFFFFFFFFFFFFFF),
        Shown("before: r1", 64, 0x80000000),
    )


def test_a_division_on_a_processor_that_is_not_known_is_unsupported() -> None:
    from proofs.check_claims import check

    groups = list(check("rewrite", load_release("7.3"), ABIS["mips64"], SOLVER))
    kinds = {group.name.rpartition("/")[2]: type(group.verdict) for group in groups}
    assert kinds["div64"] is NoRule
    assert kinds["add32"] is Proved
    assert set(DIVIDERS) < set(ABIS)


def test_guards_as_they_are_listed() -> None:
    """Instruction for instruction, from do_misc_fixups of 6.12: x / y in 64 bits, and x s% y in 32."""
    made = {case.name: case.after for case in cases(load_release("6.12"))}
    assert made["div64"] == (
        Insn(0x55, 2, 0, 2, 0),
        Insn(0xAC, 1, 1),
        Insn(0x05, 0, 0, 1),
        Insn(0x3F, 1, 2),
    )
    assert made["smod32-by-minus-one"] == (Insn(0xB4, 1, 0, 0, 0),)
    assert len(made["smod32"]) == 9


def test_a_division_without_a_guard_is_refuted() -> None:
    bare = Rewritten(Insn(0x3F, 1, 2), (Insn(0x3F, 1, 2),), Divider(zero=True, overflow=True))
    from proofs.obligation import Obligation

    assert isinstance(SOLVER.decide(Obligation("x/defined", "", bare, "defined")).verdict, Refuted)
    assert isinstance(SOLVER.decide(Obligation("x/registers", "", bare, "registers")).verdict, Proved)
    assert divides(Insn(0x94, 1))
    assert not divides(Insn(0x85))


@pytest.mark.parametrize("mutant", REWRITE_MUTANTS, ids=lambda mutant: mutant.name)
def test_seeded_faults(mutant: object) -> None:
    outcome = trial(mutant, load_release("7.3"), SOLVER)  # type: ignore[arg-type]
    assert outcome.killed, outcome.told
