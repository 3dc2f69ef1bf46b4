"""The main job with a file: one program's call sites, what the release does with each, and the verdicts."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from model.errors import Unsupported
from model.facts import Assumption, Facts, SiteFact, analyse
from model.kernel.data import load_release
from model.kernel.release import Release
from model.program import Form, Line, Program
from model.rewrite.config import Config
from model.rewrite.direct_call import Decision, Kind
from model.rewrite.passes import Rewritten, rewrite
from proofs.cfg import refuse_recursion
from proofs.check_dump import dump_sites
from proofs.claims import Answer, Claims, conjunction
from proofs.dump_inline import candidates
from proofs.obligation import NoRule, Proved, Unknown, Verdict
from proofs.properties import patching
from proofs.properties.direct import Direct, direct
from proofs.site import Leftover, Residual, Site, leftover
from proofs.symbols import OPERATION

CALL = 0x85
POISONED = 195896080  # 0xbad2310, libbpf's mark of a call whose relocation failed


@dataclass(frozen=True, slots=True)
class Checked:
    """What is said of one program. `hole` is set where the model has no rule for the program as a whole."""

    program: Program
    sites: tuple[Site, ...]
    patching: Mapping[str, Verdict]
    direct: Direct | None
    hole: str = ""
    rewritten: Rewritten | None = None

    def verdicts(self) -> Iterator[Verdict]:
        """Every verdict that the exit status depends on."""
        if self.hole:
            yield NoRule(self.hole)
        for site in self.sites:
            yield site.verdict
            if site.leftover is not None:
                yield site.leftover.verdict
        yield from self.patching.values()
        if self.direct is not None:
            yield self.direct.verdict


def check(program: Program, claims: Claims, config: Config, assumptions: Sequence[Assumption] = ()) -> Checked:
    """All verdicts on one program; a hole in the model is part of the answer."""
    try:
        refuse_recursion(program)
        watch = candidates(program) if program.form is Form.XLATED else ()
        facts = analyse(program, claims.release, assumptions, speculative=config.unprivileged, watch=watch)
        if program.form is Form.XLATED:
            refuse_unread(program, facts, claims)
            sites = dump_sites(program, facts, claims, config)
            refuse_unseen(program, facts, claims, sites)
            sites = tuple(_trusted(site, claims.release) for site in sites)
            lines = lines_of(program, [site.slot for site in sites])
            sites = tuple(replace(site, line=lines.get(site.slot)) for site in sites)
            still = range(len(program.insns) + 1)
            graph = direct(program, facts, claims.release, claims.symbols, sites, still)
            return Checked(program, sites, {}, graph)
        refuse_unknown_helpers(program, facts, claims)
        done = rewrite(program, facts, claims.release, config)
        lines = lines_of(program, facts.sites)
        made = (_site(done, facts.sites[d.slot], d, claims, lines.get(d.slot)) for d in done.decisions)
        sites = tuple(_trusted(site, claims.release) for site in made)
        patched = frozenset(d.slot for d in done.decisions if d.patch is not None)
        moves = patching.check(program, done.after, done.moved, patched, claims.functions)
        graph = direct(done.after, facts, claims.release, claims.symbols, sites, done.moved)
        return Checked(program, sites, moves, graph, "", done)
    except Unsupported as hole:
        return Checked(program, (), {}, None, str(hole))


def refuse_unknown_helpers(program: Program, facts: Facts, claims: Claims) -> None:
    """Raises `Unsupported` for a reachable call of a helper that the release does not have, or whose body was not read.

    In dead code such calls are harmless: CO-RE poisons calls there with an id that no kernel has.
    """
    ids = set(claims.release.helper_ids.values())
    numbers = claims.release.helper_ids
    unread = {numbers[name]: why for name, why in _lost(claims.release).items() if name in numbers}
    for slot, insn in enumerate(program.insns):
        if insn.opcode != CALL or insn.src != 0 or not facts.reached[slot]:
            continue
        at = program.base + slot
        if insn.imm == POISONED:
            raise Unsupported(f"the call at {at} is poisoned by an unresolved CO-RE relocation and can be reached")
        if insn.imm not in ids:
            release = claims.release.name
            raise Unsupported(
                f"release {release} has no helper {_named(insn.imm)} (call at {at}): it refuses the program"
            )
        if insn.imm in unread:
            raise Unsupported(_why(at, unread[insn.imm]))


def _lost(release: Release) -> dict[str, str]:
    """Helpers that the release rewrites without their bodies' having been read, with the reason where it has one."""
    lost = [row.helper for row in release.rewrites if row.helper not in release.helpers]
    names = dict.fromkeys([*lost, *release.lost("helper"), *release.lost("rewrite")])
    return {name: release.rewrite_hole(name) for name in names}


def _why(at: int, unread: str) -> str:
    body = f"the body of the helper that is called at {at} was not read from the release's source"
    return f"{body}: {unread}" if unread else body


def refuse_unread(program: Program, facts: Facts, claims: Claims) -> None:
    """Raises `Unsupported` for a reachable helper call, in the kernel's form, whose body was not read."""
    lost = _lost(claims.release)
    for slot in facts.sites if lost else ():
        name = claims.called(program, slot)
        if name in lost and facts.reached[slot]:
            raise Unsupported(_why(program.base + slot, lost[name]))


def refuse_unseen(program: Program, facts: Facts, claims: Claims, sites: Sequence[Site]) -> None:
    """Raises `Unsupported` for a call of an operation that is no site, where a rewrite was not read: it may be its."""
    holes = claims.release.holes
    reasons = [why for key, why in holes.items() if key.startswith(("helper:", "rewrite:", "slot:"))]
    reasons += [f"the body of helper {name} was not read" for name in _lost(claims.release)]
    if not reasons:
        return
    known = {site.slot for site in sites}
    for slot in facts.sites:
        if claims.called(program, slot) == OPERATION and slot not in known and facts.reached[slot]:
            raise Unsupported(f"call at {program.base + slot}: {reasons[0]}")


def _trusted(site: Site, release: Release) -> Site:
    """The site; unsupported where the release's data cannot tell what becomes of it."""
    known = [pointer.map.type for pointer in site.maps if pointer.map.type is not None]
    unread = next(filter(None, (release.hole(site.helper, kind) for kind in known)), "")
    unread = unread or release.rewrite_hole(site.helper)
    if not unread or site.decision == "dead":
        return site
    left = None if site.leftover is None else Leftover(Residual.UNCLEAR, unread, NoRule(unread))
    return replace(site, verdict=NoRule(unread), leftover=left)


def _named(helper: int) -> str:
    """A helper's number, with the name that the newest release gives it."""
    names = {number: name for name, number in load_release("newest").helper_ids.items()}
    return f"{helper} (bpf_{names[helper]})" if helper in names else str(helper)


def lines_of(program: Program, slots: Iterable[int]) -> dict[int, Line]:
    """The line record that holds at each of `slots` (ascending): its own, or the nearest before it."""
    found: dict[int, Line] = {}
    records = sorted(program.lines.items())
    position, line = 0, None
    for slot in slots:
        while position < len(records) and records[position][0] <= slot:
            line = records[position][1]
            position += 1
        if line is not None:
            found[slot] = line
    return found


def _site(done: Rewritten, fact: SiteFact, decision: Decision, claims: Claims, line: Line | None) -> Site:
    left: Leftover | None = None
    results: Answer
    match decision.kind:
        case Kind.DIRECT:
            word, results = "direct", _direct(claims, decision, fact)
        case Kind.INLINED:
            word, results = "inlined", _inlined(claims, fact)
        case Kind.STAYS:
            word, results = "stays", (Proved(), ())
            left = leftover(claims, decision.helper, fact.pointers, fact.unknown, decision.reason)
        case Kind.MAY_STAY:
            word, results = "may stay", _either(claims, decision, fact)
            left = leftover(claims, decision.helper, fact.pointers, fact.unknown, decision.reason)
        case Kind.UNKNOWN:
            word, results = "unknown", (Unknown(decision.reason), ())
            left = Leftover(Residual.UNCLEAR, decision.reason, Unknown(decision.reason))
    if not fact.reached:
        word, results, left = "dead", (Proved(), ()), None
    return Site(
        slot=decision.slot,
        after=done.moved[decision.slot],
        helper=decision.helper,
        maps=tuple(fact.pointers),
        decision=word,
        function=decision.function,
        reason=decision.reason,
        verdict=results[0],
        results=results[1],
        leftover=left,
        line=line,
    )


def _types(fact: SiteFact) -> list[str]:
    return list(dict.fromkeys(pointer.map.type for pointer in fact.pointers if pointer.map.type is not None))


def _direct(claims: Claims, decision: Decision, fact: SiteFact) -> Answer:
    """The chosen function against the operation of every map that reaches the call."""
    function = decision.function
    if function is None:
        return NoRule("a direct call of nothing"), ()
    return conjunction([claims.direct(map_type, decision.helper, function) for map_type in _types(fact)])


def _inlined(claims: Claims, fact: SiteFact) -> Answer:
    """The sequence against the operation of every map that reaches the call."""
    return conjunction(
        [
            claims.inline(pointer.map.type, pointer.map.max_entries, inner=pointer.template)
            for pointer in fact.pointers
            if pointer.map.type is not None
        ]
    )


def _either(claims: Claims, decision: Decision, fact: SiteFact) -> Answer:
    """Whichever of the maps the kernel records, if it records one: its own form must be equivalent for that map."""
    answers: list[Answer] = []
    release: Release = claims.release
    for map_type in _types(fact):
        rewrite_row = release.rewrite(decision.helper)
        function = None if rewrite_row is None else release.operation(map_type, rewrite_row.slot)
        if function is not None:
            answers.append(claims.direct(map_type, decision.helper, function.name))
    return conjunction(answers) if answers else (Unknown(decision.reason), ())
