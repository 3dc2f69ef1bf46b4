"""The second way of `proofs.equivalence`: the Whole claim's obligations for a pair of programs, and their verdict."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from model.errors import Unsupported
from model.kernel.abi import Abi
from model.kernel.release import Release
from model.machine.layout import Reloc
from model.machine.outcome import Fault
from model.program import Program
from proofs.claims import Claims
from proofs.concrete import IntWorld
from proofs.equivalence import Equivalence, tried
from proofs.limit import NO_LIMIT, Limit
from proofs.obligation import Counterexample, NoRule, Obligation, Proved, Refuted, Unknown, Verdict
from proofs.outcome import worst
from proofs.pair_kernel import WIDTHS
from proofs.pair_packet import LENGTHS, MOST, Layout, layout_of
from proofs.pair_run import CONTEXT, Input
from proofs.pair_search import Guess
from proofs.properties.paths import PATH, REACH, path_of, stated
from proofs.properties.whole import Bound, Side, Whole
from proofs.properties.whole_ends import CONTEXT as CONTEXT_NAME
from proofs.solver import DEFAULT_TIMEOUT, Result, Solver

GUESSES = 6
"""Refuted parts whose values are tried as inputs."""
VALUES = 24


@dataclass(frozen=True, slots=True)
class Second:
    """`raw` is what the solver says of the claim, `verdict` that with a refutation confirmed by a run, or left open.

    `first` is the first way's answer, with the input that such a run had.
    """

    verdict: Verdict
    raw: Verdict
    results: tuple[Result, ...] = ()
    paths: int = 0
    first: Equivalence | None = None


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
    if before.relocated or after.relocated:
        raise Unsupported("a run over symbols of instructions with numbers that are known at load only")
    known = {
        f"struct {name.removeprefix('struct ')}": value for name, value in (layout or {}).items() if " + " not in name
    }
    functions = ((before.name, 0, 0), *_functions(before, after))
    return Whole(release, abi, Side("before", before, {}), Side("after", after, relocs or {}), known, functions)


def _functions(before: Program, after: Program) -> list[tuple[str, int, int]]:
    """The functions that the kernel can call, by pairs: of the same name, else at the same place."""
    here, there = _called(before), _called(after)
    names, others = [name for name, _ in here], [name for name, _ in there]
    if len(set(names)) == len(names) and sorted(names) == sorted(others):
        starts = dict(there)
        return [(name, start, starts[name]) for name, start in here]
    if len(here) != len(there):
        raise Unsupported("a run over symbols of programs with a different number of callbacks")
    return [(name, start, other) for (name, start), (_, other) in zip(here, there, strict=True)]


def _called(program: Program) -> list[tuple[str, int]]:
    """Functions whose address is taken, and those that the kernel enters on its own, by their places."""
    starts = {slot + 1 + insn.imm for slot, insn in enumerate(program.insns) if insn.opcode == 0x18 and insn.src == 4}
    return [(one.name, one.start) for one in program.subprograms if one.start in {*starts, *program.entries}]


def obligations(made: Whole, release: Release, abi: Abi) -> list[Obligation]:
    """One for each part and path: `whole/RELEASE/ABI/FUNCTION/PATH/PART`, and that the paths are taken (`reach/…`,
    `path/…`). Raises `Unsupported`.
    """
    names = made(IntWorld(lambda name, width: 0))
    origin = f"{release.version}: {made.before.program.name} before and after"
    prefix = f"whole/{release.name}/{abi.name}"
    asked = {part: path_of(part) if not part.startswith((REACH, PATH)) else "" for part in names}
    return [stated(prefix, origin, made, part, path) for part, path in asked.items()]


def check(
    answer: Equivalence,
    claims: Claims,
    relocs: Mapping[int, Reloc] | None = None,
    limit: Limit = NO_LIMIT,
    timeout: float = DEFAULT_TIMEOUT,
) -> Second:
    """The second way's answer on the pair of the first."""
    release, abi = claims.release, claims.abi
    layout = {} if relocs is not None else answer.offsets
    try:
        made = claim(answer.before, answer.after, release, abi, relocs, layout)
        results = tuple(_decided(obligations(made, release, abi), limit, timeout))
    except Bound as bound:
        return Second(Unknown(str(bound)), Unknown(str(bound)))
    except Unsupported as hole:
        return Second(NoRule(str(hole)), NoRule(str(hole)))
    raw = worst(_named(result) for result in results)
    paths = len({result.obligation.path for result in results} - {""})
    if isinstance(raw, Proved) and answer.witness is not None and isinstance(answer.witness.after.outcome, Fault):
        return Second(
            Unknown("what is left is the same, but a run faults, of which nothing is claimed"), raw, results, paths
        )
    if not isinstance(raw, Refuted):
        return Second(raw, raw, results, paths)
    if answer.witness is None or not answer.witness.what:
        found = tried(answer, claims, limit, list(_guesses(results, layout_of(answer.before))))
        if found.witness is not None and found.witness.what:
            return Second(raw, raw, results, paths, found)
        broken = next(result for result in results if isinstance(result.verdict, Refuted))
        reason = f"{broken.obligation.name}: what is stored or returned differs if kernel functions may do anything; "
        reason += "no run shows it" if answer.linked is not None else "no run can be made"
        return Second(Unknown(reason), raw, results, paths)
    return Second(raw, raw, results, paths)


def _decided(asked: Sequence[Obligation], limit: Limit, timeout: float) -> Iterator[Result]:
    """Until the time is over, or who waits for it interrupts: the rest is open."""
    yield from Solver(max(0.001, min(timeout, limit.left)), limit).decide_all(asked)


def _named(result: Result) -> Verdict:
    """The verdict; one that is open says which obligation it is of."""
    verdict, name = result.verdict, result.obligation.name
    return replace(verdict, reason=f"{name}: {verdict.reason}") if isinstance(verdict, Unknown | NoRule) else verdict


def _guesses(results: Sequence[Result], layout: Layout | None) -> Iterator[Guess]:
    """Inputs from the values that refute: of the context, of helpers that give numbers, of what memory holds."""
    refuted = [result.verdict for result in results if isinstance(result.verdict, Refuted)]
    for verdict in refuted[:GUESSES]:
        yield _guess(verdict.counterexample, layout)


def _guess(values: Counterexample, layout: Layout | None) -> Guess:
    context = bytearray(CONTEXT)
    for name, word in values.words.items():
        place = re.fullmatch(rf"{CONTEXT_NAME} \+(\d{{1,4}})", name)
        if place is not None and int(place[1]) < CONTEXT:
            context[int(place[1])] = word
    drawn = (  # in the order of the calls: one call has one entry for both sides
        word for (key, _), word in values.functions.items() if key.endswith(": result") and key[:-8] in WIDTHS
    )
    loaded = dict.fromkeys(word for (key, _), word in values.functions.items() if key.startswith("load"))
    packet = b"" if layout is None else _packet(values, bytes(context), layout)
    return Guess(Input(bytes(context), (), tuple(drawn), packet=packet), tuple(loaded)[:VALUES])


def _packet(values: Counterexample, context: bytes, layout: Layout) -> bytes:
    """What was loaded from where the context says that the packet is."""
    start, end = (int.from_bytes(context[at : at + 4], "little") for at in (layout.data, layout.end))
    packet = bytearray(end - start if 0 <= end - start <= MOST else LENGTHS[0])
    for (key, at), word in values.functions.items():
        size = int(key[4:]) // 8 if key in ("load8", "load16", "load32", "load64") else 0
        if size and 0 <= at[0] - start <= len(packet) - size:
            packet[at[0] - start : at[0] - start + size] = word.to_bytes(size, "little")
    return bytes(packet)


@dataclass(frozen=True, slots=True)
class Answer:
    """Both ways together. `second` is None where it was not asked: the first one was enough."""

    first: Equivalence
    second: Second | None
    verdict: Verdict


def decide(
    first: Equivalence,
    claims: Claims,
    relocs: Mapping[int, Reloc] | None,
    limit: Limit,
    timeout: float,
    *,
    always: bool = False,
) -> Answer:
    """The first way's answer where it is one, else the second's; with `always` both must give it."""
    settled = isinstance(first.verdict, Proved | Refuted)
    if settled and not always:
        return Answer(first, None, first.verdict)
    if limit.over:
        return Answer(first, None, first.verdict if settled else Unknown(limit.reason()))
    try:
        second = check(first, claims, relocs, limit, timeout)
    except KeyboardInterrupt:
        limit.interrupted = True
        return Answer(first, None, first.verdict if settled else Unknown(limit.reason()))
    shown = second.first or first
    if settled:
        return Answer(shown, second, worst([first.verdict, second.verdict]))
    if isinstance(second.verdict, Proved | Refuted):
        return Answer(shown, second, second.verdict)
    return Answer(shown, second, first.verdict)
