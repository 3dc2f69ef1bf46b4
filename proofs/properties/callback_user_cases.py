"""The User callback claims of a program: one for each for_each site, map that reaches it and callback it is given."""

from collections.abc import Iterator
from dataclasses import dataclass

from model.errors import Unsupported
from model.facts import Facts, MapPointer
from model.isa.opcodes import Imm64
from model.kernel.abi import Abi
from model.kernel.release import Release
from model.machine.layout import link
from model.program import Form, Program
from model.rewrite.passes import Rewritten
from proofs.concrete import IntWorld
from proofs.obligation import Obligation
from proofs.properties.callback import KINDS
from proofs.properties.callback_cases import SLOT, callback_claim
from proofs.properties.callback_small import MOST_ARRAY, MOST_HASH, Small
from proofs.properties.callback_user import HELPER, User, spoken_of
from proofs.properties.paths import stated
from proofs.properties.whole import Side, Whole

WIDE = 0x18


@dataclass(frozen=True, slots=True)
class Case:
    """The claim for one site, map and callback; `hole` where there is none. `prefix` begins its obligations' names."""

    slot: int
    prefix: str
    claim: User | None
    hole: str = ""


def cases(done: Rewritten, facts: Facts, release: Release, abi: Abi) -> Iterator[Case]:
    """In the order of the sites in the program before. Sites that nothing reaches have none."""
    before = done.before
    pair = Whole(release, abi, Side("before", before, {}), Side("after", done.after, done.relocs), {}, ())
    if before.form is not Form.OBJECT:
        return
    functions = {decision.slot: decision.function for decision in done.decisions if decision.patch is not None}
    for slot, fact in facts.sites.items():
        if fact.callee != HELPER or not fact.reached:
            continue
        starts = facts.callbacks.get(slot, ())
        shown = not fact.unknown and fact.pointers and starts
        if not shown:
            yield Case(slot, f"callback/{release.name}/?/user/{before.name}", None, "map or callback is not shown")
            continue
        for pointer in fact.pointers:
            for start in starts:
                name = next(one.name for one in before.subprograms if one.start == start)
                prefix = f"callback/{release.name}/{pointer.map.type or '?'}/user/{before.name}/{name}"
                try:
                    claim = _claim(done, pair, pointer, start, name, functions.get(slot) or "")
                    yield Case(slot, prefix, claim)
                except Unsupported as hole:
                    yield Case(slot, prefix, None, str(hole))


def _claim(done: Rewritten, pair: Whole, pointer: MapPointer, start: int, name: str, function: str) -> User:
    """Raises `Unsupported` for a map type without a walk."""
    held, number = pointer.map, pointer.key[1]
    if pointer.key[0] != "map" or not isinstance(number, int):
        raise Unsupported("a walk over a map that is not the program's own")
    if held.type is None:
        raise Unsupported(f"map {held.name}, of which the input does not tell the type")
    # An array's size bounds its walk. A hash's does not: beyond 2^31 callbacks is what the release's own claim is for.
    walk = callback_claim(pair.release, held.type, bounded=KINDS.get(held.type) != "array")
    number = next(number for number, one in enumerate(done.before.maps) if one is held)
    given = {"max_entries": held.max_entries, "key_size": held.key_size, "value_size": held.value_size}
    known = {key: value for key, value in given.items() if value}
    starts = start, moved_callback(done.before, done.after, done.moved, start)
    return User(pair, name, walk, walk, number, known, starts, function)


def moved_callback(before: Program, after: Program, moved: tuple[int, ...], start: int) -> int:
    """Where the program after has the callback's address: at every load of it, or at the first that went wrong."""
    found = moved[start]
    for slot, insn in enumerate(before.insns):
        if insn.opcode == WIDE and insn.src == Imm64.FUNC and slot + 1 + insn.imm == start:
            at = moved[slot]
            found = at + 1 + after.insns[at].imm
            if found != moved[start]:
                break
    return found


def small_claims(case: Case, done: Rewritten) -> Iterator[tuple[str, Small]]:
    """The claims on maps with few elements, by name: `3-elements`, and of hashes `3-elements-apart`.

    An array has the elements that it was made with: none where they are more than `MOST_ARRAY`.
    """
    claim = case.claim
    if claim is None:
        return
    held, release = done.before.maps[claim.map], claim.pair.release
    linked = link(done.after, done.relocs, release)
    most = held.max_entries or 0
    if claim.before.kind == "array":
        if 0 < most <= MOST_ARRAY:
            yield _elements(most), Small(claim, linked, most)
        return
    for count in range(min(most, MOST_HASH) + 1):
        yield _elements(count), Small(claim, linked, count)
        if count > 1 and claim.before.kind == "hash":
            yield f"{_elements(count)}-apart", Small(claim, linked, count, apart=True)


def _elements(count: int) -> str:
    return f"{count}-element{'' if count == 1 else 's'}"


def small_obligations(case: Case, name: str, claim: Small) -> list[Obligation]:
    """`callback/RELEASE/MAP TYPE/user/PROGRAM/CALLBACK/small/NAME/PART`. Raises `Unsupported`."""
    release = claim.user.pair.release
    origin = f"{release.version}: {claim.user.name} on a map of {claim.count} elements"
    parts = claim(IntWorld(lambda name, width: 0))
    return [stated(f"{case.prefix}/small/{name}", origin, claim, part) for part in parts]


def obligations(case: Case, release: Release) -> list[Obligation]:
    """The claim's parts: `callback/RELEASE/MAP TYPE/user/PROGRAM/CALLBACK/PART`. Raises `Unsupported`."""
    claim = case.claim
    if claim is None:
        raise Unsupported(case.hole)
    function = release.operation(claim.before.map_type, SLOT)
    name = "" if function is None else f"{function.name} {function.file}:{function.line} with "
    origin = f"{release.version}: {name}{claim.name} of {claim.pair.before.program.name}"
    parts = claim(IntWorld(lambda name, width: 0))
    return [stated(case.prefix, origin, claim, part, spoken_of(part), "products") for part in parts]
