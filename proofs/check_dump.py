"""Sites of a program as the kernel runs it: direct calls held against the map in r1, helper calls left explained."""

from collections.abc import Iterator, Sequence

from model.facts import Facts, MapPointer, SiteFact
from model.kernel.release import Release
from model.program import Program, SymbolRef
from model.rewrite.config import Config
from proofs.claims import Answer, Claims, conjunction
from proofs.dump_inline import inlined_sites
from proofs.obligation import Proved, Unknown
from proofs.site import Leftover, Residual, Site, described, leftover
from proofs.symbols import OPERATION


def dump_sites(program: Program, facts: Facts, claims: Claims, config: Config) -> tuple[Site, ...]:
    """A `Site` for every call of a map operation or of a helper that dispatches, and for every inlined lookup.

    `facts` must have watched the candidates for inlined lookups (`proofs.dump_inline.candidates`).
    """
    called = list(_calls(program, facts, claims))
    taken = {site.slot for site in called}
    more = [
        facts.sites[slot] for slot in facts.sites if slot not in taken and claims.called(program, slot) == OPERATION
    ]
    inlined = inlined_sites(program, [*facts.watched.values(), *more], claims, config)
    return tuple(sorted([*called, *inlined], key=lambda site: site.slot))


def _calls(program: Program, facts: Facts, claims: Claims) -> Iterator[Site]:
    for slot, fact in facts.sites.items():
        ref = program.refs.get(slot)
        if not isinstance(ref, SymbolRef):
            if program.hidden:
                yield _hidden(program, slot, fact)
            continue
        meaning = claims.symbols.get(ref.name)
        if meaning is None:
            continue
        if meaning != OPERATION:
            if meaning in claims.release.helpers:
                yield _helper_left(program, slot, fact, claims, meaning)
        elif helpers := _helpers_of(claims.release, ref.name):
            yield _direct_call(slot, fact, claims, ref.name, helpers)


def _hidden(program: Program, slot: int, fact: SiteFact) -> Site:
    reason = "the call's target is hidden (restricted kernel pointers): cannot tell"
    left = Leftover(Residual.UNCLEAR, reason, Unknown(reason))
    return Site(slot, slot, "?", fact.pointers, "unknown", None, reason, Unknown(reason), (), left)


def _helper_left(program: Program, slot: int, fact: SiteFact, claims: Claims, helper: str) -> Site:
    """A helper call that the kernel left: the call itself is what the program meant; the dispatch is residual."""
    if not fact.reached:
        return Site(slot, slot, helper, fact.pointers, "dead", None, "the call is never reached", Proved())
    if fact.unknown or not fact.pointers:
        cause = "the map in r1 is not shown (--assume REG=TYPE names it)"
    elif len(fact.pointers) > 1:
        names = ", ".join(described(pointer) for pointer in fact.pointers)
        cause = f"map pointer poisoned: {names} reach it"
    elif claims.release.rewrite(helper) is None:
        cause = f"release {claims.release.name} does not rewrite {helper}"
    else:
        cause = "one map reaches it: the kernel saw another one too, or the program was not to be JITed"
    left = leftover(claims, helper, fact.pointers, fact.unknown, cause)
    return Site(slot, slot, helper, fact.pointers, "stays", None, cause, Proved(), (), left)


def _helpers_of(release: Release, function: str) -> list[str]:
    """The helpers that a direct call of `function` can stand for, in the rewrite's order."""
    found = []
    for rewrite in release.rewrites:
        if rewrite.helper not in release.helpers:
            continue  # a call of its operations is no site: `check_program.refuse_unseen`
        slot = release.helpers[rewrite.helper].slot
        if any(ops.slots.get(slot) == function for ops in release.ops.values()):
            found.append(rewrite.helper)
    return found


def _direct_call(slot: int, fact: SiteFact, claims: Claims, function: str, helpers: Sequence[str]) -> Site:
    """A direct call in a dump: `function` must be the operation of every map that reaches it."""
    helper = _meant(claims.release, fact.pointers, function, helpers)
    if not fact.reached:
        return Site(slot, slot, helper, fact.pointers, "dead", function, "the call is never reached", Proved())
    verdict, results = _held(claims, fact, helper, function)
    owners = ", ".join(_owners(claims.release, helper, function))
    reason = f"{function} is the {claims.release.helpers[helper].slot} of {owners}"
    return Site(slot, slot, helper, fact.pointers, "direct", function, reason, verdict, results)


def _owners(release: Release, helper: str, function: str) -> list[str]:
    slot = release.helpers[helper].slot
    return [row.name for row in release.map_types.values() if _is(release, row.name, slot, function)]


def _is(release: Release, map_type: str, slot: str, function: str) -> bool:
    operation = release.operation(map_type, slot)
    return operation is not None and operation.name == function


def _meant(release: Release, pointers: Sequence[MapPointer], function: str, helpers: Sequence[str]) -> str:
    """Which of `helpers` the call stands for: one that fits the maps shown, else the first."""
    types = [pointer.map.type for pointer in pointers if pointer.map.type is not None]
    for helper in helpers:
        slot = release.helpers[helper].slot
        if types and all(_is(release, map_type, slot, function) for map_type in types):
            return helper
    return helpers[0]


def _held(claims: Claims, fact: SiteFact, helper: str, function: str) -> Answer:
    known = [pointer.map.type for pointer in fact.pointers if pointer.map.type is not None]
    answers = [claims.direct(map_type, helper, function) for map_type in dict.fromkeys(known)]
    if fact.unknown or len(known) < len(fact.pointers) or not known:
        owners = _owners(claims.release, helper, function)
        reason = (
            f"the map in r1 is not shown: right for {' or '.join(owners)} (--assume r1=TYPE names it; --maps FILE "
            "gives the types of map ids)"
        )
        answers.append((Unknown(reason), ()))
    return conjunction(answers)
