"""Two releases' facts about operations compared, one line a difference: what each has that the other has not.

Types are compared by width, sign and being a pointer, not by spelling. Places in the source are no facts.
"""

from collections.abc import Iterator, Mapping

from model.kernel.release import CType, Function, Prototype, Release

SHOWN = 8  # names in one line


def differences(here: Release, there: Release) -> tuple[str, ...]:
    """Map types, tables, slots, prototypes, helper ids and offsets, in this order."""
    return (
        *_types(here, there),
        *_slots(here, there),
        *_operations(here, there),
        *_prototypes(here, there),
        *_numbers("helper id", here.helper_ids, there.helper_ids, there.name),
        *_numbers("offset", here.layout, there.layout, there.name),
        *_sequences(here, there),
    )


def shape(kind: CType) -> tuple[int, bool, bool]:
    return kind.bits, kind.signed and not kind.pointer, kind.pointer


def shapes(prototype: Prototype) -> tuple[tuple[int, bool, bool], ...]:
    return tuple(shape(kind) for kind in (prototype.result, *prototype.params))


def prototype_text(prototype: Prototype) -> str:
    return f"{prototype.result.c} ({', '.join(kind.c for kind in prototype.params) or 'void'})"


def _names(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


def _only(what: str, here: Mapping[str, object], there: Mapping[str, object], near: str) -> Iterator[str]:
    added = [name for name in here if name not in there]
    missing = [name for name in there if name not in here]
    if added:
        yield f"{what}: not in {near}: {_names(added)}"
    if missing:
        yield f"{what}: only in {near}: {_names(missing)}"


def _types(here: Release, there: Release) -> Iterator[str]:
    yield from _only("map type", here.map_types, there.map_types, there.name)
    for name, row in here.map_types.items():
        other = there.map_types.get(name)
        if other is not None and other.number != row.number:
            yield f"map type {name}: number {row.number}, in {there.name} {other.number}"


def _slots(here: Release, there: Release) -> Iterator[str]:
    """A release from a table has the slots that the table lists: that it has no others is no difference."""
    listed = {name: row for name, row in here.slots.items() if name in there.slots} if there.provenance else here.slots
    yield from _only("slot", listed, there.slots, there.name)
    for name, prototype in here.slots.items():
        other = there.slots.get(name)
        if other is not None and shapes(other) != shapes(prototype):
            yield f"slot {name}: {prototype_text(prototype)}, in {there.name} {prototype_text(other)}"


def _operations(here: Release, there: Release) -> Iterator[str]:
    """Types that differ alike share a line. Slots that only one of the two knows are told once, by `_slots`."""
    same: dict[tuple[str, str, str], list[str]] = {}
    for name, row in here.map_types.items():
        other = there.map_types.get(name)
        if row.ops is None or other is None or other.ops is None or here.type_hole(name) or there.type_hole(name):
            continue
        mine, theirs = _functions(here, row.ops), _functions(there, other.ops)
        for slot in dict.fromkeys([*mine, *theirs]):
            pair = (mine.get(slot, "NULL"), theirs.get(slot, "NULL"))
            if slot in here.slots and slot in there.slots and pair[0] != pair[1]:
                same.setdefault((slot, *pair), []).append(name)
    for (slot, mine_, theirs_), names in same.items():
        yield f"operation {slot} of {_names(names)}: {mine_}, in {there.name} {theirs_}"


def _functions(release: Release, table: str) -> dict[str, str]:
    """Slots with functions by their own names: a key of `Release.functions` may name the file, or the table, too."""
    return {slot: key.partition("@")[0] for slot, key in release.ops[table].slots.items()}


def _prototypes(here: Release, there: Release) -> Iterator[str]:
    others: dict[str, list[Function]] = {}
    for function in there.functions.values():
        others.setdefault(function.name, []).append(function)
    for function in here.functions.values():
        found = others.get(function.name, [])
        if found and all(shapes(other.prototype) != shapes(function.prototype) for other in found):
            texts = (prototype_text(function.prototype), prototype_text(found[0].prototype))
            yield f"function {function.name}: {texts[0]}, in {there.name} {texts[1]}"


def _numbers(what: str, here: Mapping[str, int], there: Mapping[str, int], near: str) -> Iterator[str]:
    yield from _only(what, here, there, near)
    for name, number in here.items():
        if there.get(name, number) != number:
            yield f"{what} {name}: {number}, in {near} {there[name]}"


def _sequences(here: Release, there: Release) -> Iterator[str]:
    """Rows of the other release that belong to operations which this one names differently, and so are not used."""
    named = {
        table.slots["map_gen_lookup"]: row.name
        for row in here.map_types.values()
        if row.ops is not None and "map_gen_lookup" in (table := here.ops[row.ops]).slots
    }
    for function, map_type in named.items():
        if function not in there.gen_lookup:
            yield f"lookup sequence of {map_type}: {function} is not in {there.name}; nothing is claimed of it"
