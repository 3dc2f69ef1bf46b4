"""The second way of `proofs.equivalence`: the Whole claim's obligations for a pair of programs, and their verdict."""

from collections.abc import Mapping
from dataclasses import dataclass

from model.errors import Unsupported
from model.kernel.abi import Abi
from model.kernel.release import Release
from model.machine.layout import Reloc
from model.program import Program
from proofs.concrete import IntWorld
from proofs.equivalence import Equivalence
from proofs.obligation import NoRule, Obligation, Refuted, Unknown, Verdict
from proofs.outcome import worst
from proofs.properties.whole import Side, Whole
from proofs.solver import Result, Solver


@dataclass(frozen=True, slots=True)
class Second:
    """`raw` is what the solver says of the claim, `verdict` that with a refutation confirmed by a run, or left open."""

    verdict: Verdict
    raw: Verdict
    results: tuple[Result, ...] = ()
    paths: int = 0


def claim(
    before: Program,
    after: Program,
    release: Release,
    abi: Abi,
    relocs: Mapping[int, Reloc] | None = None,
    layout: Mapping[str, int] | None = None,
) -> Whole:
    """The claim on two programs with maps by one numbering. Raises `Unsupported`."""
    if before.fragment or after.fragment:
        raise Unsupported("a run over symbols of a part of a program")
    if len(before.subprograms) != len(after.subprograms):
        raise Unsupported("a run over symbols of programs with a different number of functions")
    addressed = {slot + 1 + insn.imm for slot, insn in enumerate(before.insns) if insn.opcode == 0x18 and insn.src == 4}
    functions = [(before.name, 0, 0)]
    for one, other in zip(before.subprograms, after.subprograms, strict=True):
        if one.start in addressed:
            functions.append((one.name, one.start, other.start))
    known = {
        f"struct {name.removeprefix('struct ')}": value for name, value in (layout or {}).items() if " + " not in name
    }
    return Whole(release, abi, Side("before", before, {}), Side("after", after, relocs or {}), known, tuple(functions))


def obligations(made: Whole, release: Release, abi: Abi) -> list[Obligation]:
    """One for each part and path: `whole/RELEASE/ABI/FUNCTION/PATH/PART`. Raises `Unsupported`."""
    names = made(IntWorld(lambda name, width: 0))
    origin = f"{release.version}: {made.before.program.name} before and after"
    return [Obligation(f"whole/{release.name}/{abi.name}/{part}", origin, made, part) for part in names]


def check(
    answer: Equivalence, release: Release, abi: Abi, solver: Solver, relocs: Mapping[int, Reloc] | None = None
) -> Second:
    """The second way's answer on the pair of the first."""
    layout = {} if relocs is not None else answer.offsets
    try:
        made = claim(answer.before, answer.after, release, abi, relocs, layout)
        results = tuple(solver.decide_all(obligations(made, release, abi)))
    except Unsupported as hole:
        return Second(NoRule(str(hole)), NoRule(str(hole)))
    raw = worst(result.verdict for result in results)
    paths = len({result.obligation.name.rpartition("/")[0] for result in results})
    verdict = raw
    if isinstance(raw, Refuted) and (answer.witness is None or not answer.witness.what):
        verdict = Unknown("the ends differ where memory may be any, but no run was found that shows it")
    return Second(verdict, raw, results, paths)
