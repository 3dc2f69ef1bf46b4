"""A program before and a program after, as a whole: the same meaning, by composition.

The correspondence that `proofs.align` finds is discharged part by part: each rewritten site by the claims of its kind
(Dispatch, Inline: proved once, reused for every site), everything else by `proofs.properties.patching`. That is a
bisimulation: at every instruction before, the state is the same as where it went to after. What other passes of the
kernel do to a program is not understood, and never proved. Where not all is proved, both programs are run on inputs
that are tried: a difference that shows is the answer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from model.errors import Unsupported
from model.facts import Assumption, analyse
from model.machine.layout import Reloc, link
from model.machine.outcome import Returned
from model.program import Form, Line, Program
from model.rewrite.config import Config
from proofs.align import Alignment, Change, Gap, Rewritten, Walk, distances, relocated
from proofs.cfg import refuse_recursion
from proofs.check_program import lines_of
from proofs.claims import Answer, Claims
from proofs.equiv_maps import Loads, paired
from proofs.limit import NO_LIMIT, Limit
from proofs.obligation import Counterexample, NoRule, Proved, Refuted, Shown, Unknown, Verdict
from proofs.outcome import worst
from proofs.pair_search import Guess, Pair, Witness, search
from proofs.properties import patching
from proofs.site import Site, described


@dataclass(frozen=True, slots=True)
class Equivalence:
    """The answer. `before` and `after` have maps by one numbering; `parts` are the structure's verdicts by name.

    `witness` is an input on which the two differ; `untried` says why none could be looked for. `offsets` are the
    members' offsets that inlined lookups of a dump have, taken as they are (a build decides them). `linked` is the
    program after as the machine can run it, where it can.
    """

    before: Program
    after: Program
    verdict: Verdict
    sites: tuple[Site, ...] = ()
    parts: Mapping[str, Verdict] = field(default_factory=dict)
    moved: tuple[int, ...] = ()
    gap: Gap | None = None
    witness: Witness | None = None
    untried: str = ""
    offsets: Mapping[str, int] = field(default_factory=dict)
    linked: Program | None = None

    @property
    def at(self) -> tuple[int, int] | None:
        """Where the two part, or where the walk did not go on: slots before and after."""
        if self.witness is not None and self.witness.parts is not None:
            return self.witness.parts.slot, self.witness.parts.after
        broken = [site for site in self.sites if isinstance(site.verdict, Refuted)]
        if broken:
            return broken[0].slot, broken[0].after
        return None if self.gap is None else (self.gap.slot, self.gap.after)


def equivalent(
    before: Program,
    after: Program,
    claims: Claims,
    config: Config,
    assumptions: Sequence[Assumption] = (),
    relocs: Mapping[int, Reloc] | None = None,
    limit: Limit = NO_LIMIT,
) -> Equivalence:
    """Whether `after` means what `before` means. Linear in their lengths, but for the search of a witness.

    `relocs` (by slot after) say which immediates are offsets that no build has decided yet; None for a program that
    a kernel has. A hole in the model is part of the answer.
    """
    loads = paired(before, after)
    try:
        refuse_recursion(loads.before)
        refuse_recursion(loads.after)
        facts = analyse(loads.before, claims.release, assumptions, speculative=config.unprivileged)
        walk = Walk(loads, facts, claims.release, config, claims.symbols, claims.functions)
        found = walk.run()
        lines = lines_of(before, [site.slot for site in found.sites])
        sites = tuple(claimed(site, claims, lines.get(site.slot)) for site in found.sites)
        parts = _structure(loads.before, found)
        parts |= _maps(loads, found, facts.reached)
        offsets, clash = _offsets(found)
        if clash:
            parts["layout"] = Unknown(clash)
    except Unsupported as hole:
        return Equivalence(loads.before, loads.after, NoRule(str(hole)))
    verdict = worst([*(site.verdict for site in sites), *parts.values()])
    answer = Equivalence(loads.before, found.program, verdict, sites, parts, found.moved, found.gap, offsets=offsets)
    if isinstance(verdict, Proved):
        return answer
    try:
        if loads.clash:
            raise Unsupported(f"a run of two programs with different maps: {loads.clash}")
        answer = replace(answer, linked=_linked(answer, found, claims, config, relocs))
    except Unsupported as hole:
        return replace(answer, untried=str(hole))
    return tried(answer, claims, limit)


def tried(answer: Equivalence, claims: Claims, limit: Limit, guesses: Sequence[Guess] = ()) -> Equivalence:
    """The answer with what running both programs shows; `guesses` are inputs to begin with."""
    if answer.linked is None:
        return answer
    registers = any(isinstance(site.verdict, Refuted) for site in answer.sites) and not guesses
    pair = Pair(answer.before, answer.linked, claims.release, claims.abi, answer.moved, limit)
    try:
        witness = search(pair, guesses, registers=registers)
    except Unsupported as hole:
        return replace(answer, untried=str(hole), linked=None)
    if witness is None:
        cut = f"; nothing is said of runs that are cut short ({pair.cut})" if pair.cut else ""
        return replace(answer, untried=f"on no input that was tried do the two differ{limit.note()}{cut}")
    return replace(answer, witness=witness, untried="", verdict=Refuted(Counterexample(_shown(witness), {}, {})))


def _linked(
    answer: Equivalence, found: Alignment, claims: Claims, config: Config, relocs: Mapping[int, Reloc] | None
) -> Program:
    """The program after with the machine's layout in the place of the build's. Raises `Unsupported`."""
    if answer.before.fragment or answer.after.fragment:
        raise Unsupported("a run of a part of a program")
    if relocs is not None:
        return link(answer.after, relocs, claims.release)
    if answer.before.form is not Form.OBJECT:
        raise Unsupported("a run of a program before that a kernel has rewritten already")
    if found.gap is not None and answer.after.form is not Form.OBJECT:
        raise Unsupported("a run of a program of which not every inlined lookup was recognised")
    program, left = relocated(found, claims.release, config)
    return link(program, left, claims.release)


def _shown(witness: Witness) -> tuple[Shown, ...]:
    parts = witness.parts
    if not witness.what and parts is not None and parts.register is not None:
        both = zip(("before", "after"), parts.values, strict=True)
        return tuple(Shown(f"{side}: r{parts.register}", 64, value) for side, value in both)
    ends = (("before", witness.before.outcome), ("after", witness.after.outcome))
    return tuple(Shown(f"{side}: r0", 64, end.value) for side, end in ends if isinstance(end, Returned))


def claimed(site: Rewritten, claims: Claims, line: Line | None) -> Site:
    """The claims on a rewritten call: one for each map that reaches it."""
    fact = site.fact
    answers: list[Answer] = []
    for pointer in fact.pointers:
        kind = pointer.map.type
        if kind is None:
            answers.append((Unknown(f"the type of {described(pointer)} is not told (--maps FILE, --assume)"), ()))
        elif site.change is Change.DIRECT:
            answers.append(claims.direct(kind, site.helper, site.function))
        else:
            answers.append(claims.inline(kind, pointer.map.max_entries, inner=pointer.template))
    if fact.unknown or not fact.pointers:
        answers.append((Unknown("the map in r1 is not shown (--assume [INDEX:]r1=TYPE names it)"), ()))
    open_ends = [name for name in site.learned if not name.startswith("struct ")]
    if open_ends:
        answers.append(
            (Unknown(f"whether {open_ends[0]} is {site.learned[open_ends[0]]} is not told (--maps FILE)"), ())
        )
    verdict = worst(answer[0] for answer in answers) if fact.reached else Proved()
    results = {result.obligation.name: result for _, some in answers if fact.reached for result in some}
    decision = site.change.value if fact.reached else "dead"
    reason = "" if fact.reached else "the call is never reached"
    function = site.function or None
    return Site(
        site.slot,
        site.after,
        site.helper,
        fact.pointers,
        decision,
        function,
        reason,
        verdict,
        tuple(results.values()),
        None,
        line,
    )


def _structure(before: Program, found: Alignment) -> dict[str, Verdict]:
    """Patching's parts. What it refutes is a difference that a run may or may not show: the same code can be reached
    on another way, and what is pointed at may never be used.
    """
    if found.gap is not None:
        gap = found.gap
        return {"correspondence": Unknown(f"at {before.base + gap.slot}: {gap.reason}")}
    bare = replace(before, lines={})
    after = replace(found.program, lines={})
    verdicts = patching.check(bare, after, found.moved, found.patched, found.functions)
    return {part: _open(part, verdict) for part, verdict in verdicts.items() if part != "lines"}


def _open(part: str, verdict: Verdict) -> Verdict:
    if not isinstance(verdict, Refuted):
        return verdict
    first, *rest = verdict.counterexample.shown
    where = "; ".join([f"{first.label} {_signed(first.value)}", *[f"{s.label} {_signed(s.value)}" for s in rest]])
    return Unknown(f"{part} does not point where it pointed: {where}")


def _signed(value: int) -> int:
    return value - (1 << 32) if value >> 31 else value


def _maps(loads: Loads, found: Alignment, reached: bytes) -> dict[str, Verdict]:
    """Loads of other maps, as far as the walk came and where a path leads. Behind a gap the loads may have another
    order.
    """
    for slot, reason in sorted(loads.differ.items()):
        if slot < len(found.moved) and (not reached or reached[slot]):
            if found.gap is not None:
                return {"maps": Unknown(f"{reason}: the load at slot {loads.before.base + slot}")}
            shown = Shown(f"{reason}: the load at slot", 32, loads.before.base + slot)
            return {"maps": Refuted(Counterexample((shown,), {}, {}))}
    return {"maps": Proved()}


def _offsets(found: Alignment) -> tuple[dict[str, int], str]:
    """What inlined lookups say of the kernel's structures; one build has one layout."""
    table: dict[str, int] = {}
    for name, value, after in distances(found.sites):
        if table.setdefault(name, value) != value:
            return table, f"offset of {name}: {table[name]} at one inlined lookup, {value} at {after} after"
    return table, ""
