"""The Dispatch claims of a release: which pairs there are, and each pair's claim from the release's rows."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

from model.errors import Unsupported
from model.isa.insn import Insn
from model.kernel.abi import Abi
from model.kernel.release import CType, Prototype, Release, place
from model.semantics.call import Callee
from proofs.concrete import IntWorld
from proofs.obligation import Obligation
from proofs.properties.dispatch import PARTS, REACH, Dispatch, HelperBody

BOOL = ("bool", "_Bool")


class Pair(Enum):
    """What there is to say of (map type, helper) before any proof."""

    CLAIMED = "claimed"
    NOT_ACCEPTED = "not accepted"  # the verifier refuses the call
    NOT_REWRITTEN = "not rewritten"  # accepted, but the release leaves the helper call
    UNREAD = "unread"  # what decides on the pair was not read (`Release.hole`), or the release's data lacks it


@dataclass(frozen=True, slots=True)
class Row:
    """One (map type, helper) of a release."""

    map_type: str
    helper: str
    pair: Pair
    reason: str


def rows(release: Release) -> Iterator[Row]:
    """Every map type with every helper that dispatches through `map->ops`, in the release's order.

    Types and helpers that only a hole of the release knows come too: nothing disappears for not being read.
    """
    lost = [row.helper for row in release.rewrites if row.helper not in release.helpers]
    lost = list(dict.fromkeys([*lost, *release.lost("helper"), *release.lost("rewrite")]))
    for map_type in [*release.map_types, *release.lost("type")]:
        for name in lost:
            why = release.rewrite_hole(name) or f"the body of helper {name} was not read"
            yield Row(map_type, name, Pair.UNREAD, why)
        for name in release.helpers:
            yield _row(release, map_type, name)


def _row(release: Release, map_type: str, helper: str) -> Row:
    accepted = release.accepted.get(helper, {}).get(map_type)
    unread = release.acceptance_hole(helper, map_type)
    if accepted is None or unread:
        why = unread or release.type_hole(map_type) or "whether the verifier accepts it was not read"
        return Row(map_type, helper, Pair.UNREAD, why)
    if not accepted.accepted:
        return Row(map_type, helper, Pair.NOT_ACCEPTED, accepted.reason)
    if unread := release.hole(helper, map_type):
        return Row(map_type, helper, Pair.UNREAD, unread)
    if release.rewrite(helper) is None:
        return Row(map_type, helper, Pair.NOT_REWRITTEN, f"release {release.name} has no direct form for {helper}")
    return Row(map_type, helper, Pair.CLAIMED, accepted.condition)


def claim(
    release: Release,
    abi: Abi,
    map_type: str,
    helper: str,
    patch: Sequence[Insn],
    relocs: Mapping[int, str],
) -> Dispatch:
    """Dispatch(release, abi, map_type, helper) where the rewrite puts `patch` in place of the helper call.

    `relocs` gives the symbol that each call in `patch` reaches. Raises `Unsupported` where a symbol's
    prototype is not in the release's data.
    """
    row = release.helpers[helper]
    rewrite = release.rewrite(helper)
    expected = release.operation(map_type, row.slot)
    if expected is None:
        raise Unsupported(f"{map_type} has no {row.slot}")
    slots = [row.slot] + ([rewrite.slot] if rewrite is not None else [])
    table = []
    for slot in dict.fromkeys(slots):
        function = release.operation(map_type, slot)
        if function is not None:
            table.append((slot, function.name))
    symbols = dict.fromkeys([expected.name, *[symbol for _, symbol in table], *relocs.values()])
    for symbol in symbols:
        if symbol not in release.functions:
            raise Unsupported(f"the release's data has no prototype of {symbol}")
    names = {symbol: f"f{i}" for i, symbol in enumerate(symbols)}
    crossed = [*(release.slots[slot] for slot in slots), *(release.functions[symbol].prototype for symbol in symbols)]
    converted = [*row.params, *([row.result_cast] if row.result_cast else [])]
    if any(kind.c in BOOL for kind in (*converted, *(k for one in crossed for k in (one.result, *one.params)))):
        raise Unsupported(f"{helper}: a conversion to bool, which is no truncation (C11 6.3.1.2), has no rule")
    return Dispatch(
        abi=abi.rules([param for one in crossed for param in one.params], [one.result for one in crossed]),
        helper=HelperBody(
            tuple(_shape(param) for param in row.params),
            row.slot,
            row.arguments,
            None if row.result_cast is None else _shape(row.result_cast),
        ),
        table=tuple((slot, names[symbol]) for slot, symbol in table),
        declared=tuple((slot, _signature(release.slots[slot])) for slot in dict.fromkeys(slots)),
        functions=tuple(Callee(names[s], _signature(release.functions[s].prototype)) for s in symbols),
        expected=names[expected.name],
        patch=tuple(patch),
        relocs=tuple(sorted((index, names[symbol]) for index, symbol in relocs.items())),
    )


def _shape(ctype: CType) -> CType:
    """What a claim depends on: the type's width and sign, not its spelling."""
    return CType("", ctype.bits, ctype.signed, ctype.pointer)


def _signature(prototype: Prototype) -> Prototype:
    return Prototype(_shape(prototype.result), tuple(_shape(param) for param in prototype.params))


def obligations(prefix: str, dispatch: Dispatch, origin: str) -> list[Obligation]:
    """The claim's parts, each an obligation of its own: `prefix/part`. Raises `Unsupported`."""
    made = [Obligation(f"{prefix}/{part}", origin, dispatch, part) for part in PARTS]
    paths = _paths(dispatch)
    return made + [Obligation(f"{prefix}/{part}", origin, dispatch, part, expect="reachable") for part in paths]


@lru_cache(maxsize=4096)  # the matrix asks for a few claims again and again
def _paths(dispatch: Dispatch) -> tuple[str, ...]:
    return tuple(part for part in dispatch(IntWorld(lambda name, width: 0)) if part.startswith(REACH))


def origin(release: Release, map_type: str, helper: str) -> str:
    """Where the three sides of the claim stand in the release's source."""
    row = release.helpers[helper]
    places = [f"{release.version}: helper {row.function} {place(row.file, row.line)}"]
    function = release.operation(map_type, row.slot)
    if function is not None:
        places.append(f"operation {function.name} {function.file}:{function.line}")
    rewrite = release.rewrite(helper)
    if rewrite is not None:
        places.append(f"rewrite {rewrite.function} {place(rewrite.file, rewrite.line)}")
    return ", ".join(places)
