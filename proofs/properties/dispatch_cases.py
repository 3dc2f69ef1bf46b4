"""The Dispatch claims of a release: which pairs there are, and each pair's claim from the release's rows."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from model.errors import Unsupported
from model.isa.insn import Insn
from model.kernel.abi import Abi
from model.kernel.release import CType, Prototype, Release
from model.semantics.call import Callee
from proofs.obligation import Obligation
from proofs.properties.dispatch import PARTS, Dispatch, HelperBody


class Pair(Enum):
    """What there is to say of (map type, helper) before any proof."""

    CLAIMED = "claimed"
    NOT_ACCEPTED = "not accepted"  # the verifier refuses the call
    NOT_REWRITTEN = "not rewritten"  # accepted, but the release leaves the helper call
    NO_OPERATION = "no operation"  # accepted and rewritten, but the slot is NULL
    UNREAD = "unread"  # rewritten, but the release's data lacks the helper, or what the verifier says of the pair


@dataclass(frozen=True, slots=True)
class Row:
    """One (map type, helper) of a release."""

    map_type: str
    helper: str
    pair: Pair
    reason: str


def rows(release: Release) -> Iterator[Row]:
    """Every map type with every helper that dispatches through `map->ops`, in the release's order."""
    lost = [row.helper for row in release.rewrites if row.helper not in release.helpers]
    for map_type in release.map_types.values():
        for name in lost:
            yield Row(map_type.name, name, Pair.UNREAD, f"the body of helper {name} was not read")
        for helper in release.helpers.values():
            accepted = release.accepted.get(helper.name, {}).get(map_type.name)
            if accepted is None:
                yield Row(map_type.name, helper.name, Pair.UNREAD, "whether the verifier accepts it was not read")
            elif not accepted.accepted:
                yield Row(map_type.name, helper.name, Pair.NOT_ACCEPTED, accepted.reason)
            elif release.rewrite(helper.name) is None:
                reason = f"release {release.name} has no direct form for {helper.name}"
                yield Row(map_type.name, helper.name, Pair.NOT_REWRITTEN, reason)
            elif release.operation(map_type.name, helper.slot) is None:
                yield Row(map_type.name, helper.name, Pair.NO_OPERATION, f"{helper.slot} is NULL")
            else:
                yield Row(map_type.name, helper.name, Pair.CLAIMED, accepted.condition)


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
    return Dispatch(
        abi=replace(abi, name="", document="", evidence="", jit=replace(abi.jit, source="")),
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
    """The claim's parts, each an obligation of its own: `prefix/part`."""
    return [Obligation(f"{prefix}/{part}", origin, dispatch, part) for part in PARTS]


def origin(release: Release, map_type: str, helper: str) -> str:
    """Where the three sides of the claim stand in the release's source."""
    row = release.helpers[helper]
    places = [f"{release.version}: helper {row.function} {row.file}:{row.line}"]
    function = release.operation(map_type, row.slot)
    if function is not None:
        places.append(f"operation {function.name} {function.file}:{function.line}")
    rewrite = release.rewrite(helper)
    if rewrite is not None:
        places.append(f"rewrite {rewrite.function} {rewrite.file}:{rewrite.line}")
    return ", ".join(places)
