"""Which map of the program after is which map of the program before: by id, by name, by the order of their loads.

Where both sides name all maps, a name is a map. Else: the rewrite neither adds nor removes 64-bit loads of maps, so
the loads correspond one by one. Of two dumps of one object the ids may differ (it was loaded twice) and names may be
cut (BPF_OBJ_NAME_LEN, include/uapi/linux/bpf.h); what may not differ is a name, type or size that both sides tell, and
one map here must be one map there.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from model.program import Map, MapRef, Program

NAME = 15
"""Characters of a map's name that the kernel keeps (BPF_OBJ_NAME_LEN less the zero)."""
TOLD = ("type", "key_size", "value_size", "max_entries")


@dataclass(frozen=True, slots=True)
class Loads:
    """`before` and `after` with maps by one numbering, `before`'s; each map has what either side tells of it.

    `loads` has the load after for each load of a map before; `differ` says at a load (before) how its maps differ.
    `clash` says how a map that both sides name alike is not one map ("" where there is none such).
    """

    before: Program
    after: Program
    loads: Mapping[int, int]
    differ: Mapping[int, str]
    clash: str = ""


def paired(before: Program, after: Program) -> Loads:
    """Linear in the programs' lengths."""
    here = [(slot, ref) for slot, ref in sorted(before.refs.items()) if isinstance(ref, MapRef)]
    there = [(slot, ref) for slot, ref in sorted(after.refs.items()) if isinstance(ref, MapRef)]
    numbers: dict[int, int] = {}
    back: dict[int, int] = {}
    loads: dict[int, int] = {}
    differ: dict[int, str] = {}
    maps = list(before.maps)
    for (slot, ref), (at, found) in zip(here, there, strict=False):
        loads[slot] = at
        one, two = maps[ref.map], after.maps[found.map]
        known = numbers.setdefault(ref.map, found.map)
        reason = _differ(before.maps[ref.map], two)
        if known != found.map:
            reason = reason or f"map {one.name} is {after.maps[known].name} at an earlier load and {two.name} here"
        elif back.setdefault(found.map, ref.map) != ref.map:
            reason = reason or f"maps {maps[back[found.map]].name} and {one.name} are both {two.name} after"
        elif ref.offset != found.offset:
            reason = reason or f"byte {ref.offset} of the value of {one.name} is byte {found.offset} after"
        if reason:
            differ[slot] = reason
        else:
            maps[ref.map] = _merged(one, two)
    table = {other: mine for mine, other in numbers.items()}
    clash = ""
    named = _by_name(before, after)
    if named is not None:
        table = named
        told = [_differ(before.maps[mine], after.maps[other]) for other, mine in named.items()]
        clash = next((reason for reason in told if reason), "")
        for other, mine in named.items():
            maps[mine] = _merged(maps[mine], after.maps[other])
    return Loads(replace(before, maps=tuple(maps)), _renumbered(after, tuple(maps), table), loads, differ, clash)


def _by_name(before: Program, after: Program) -> dict[int, int] | None:
    """The number before of each map that the program after uses; None where names do not tell."""
    here, there = (sorted({ref.map for ref in one.refs.values() if isinstance(ref, MapRef)}) for one in (before, after))
    used = [*(before.maps[number] for number in here), *(after.maps[number] for number in there)]
    if not all(_own(one) for one in used):
        return None
    found: dict[int, int] = {}
    for other in there:
        same = [number for number, one in enumerate(before.maps) if _called(one.name, after.maps[other].name)]
        if len(same) > 1 or set(same) & set(found.values()):
            return None
        if same:
            found[other] = same[0]
    return found


def _renumbered(after: Program, maps: tuple[Map, ...], numbers: Mapping[int, int]) -> Program:
    """The program after with `maps`, and its own behind them where it has more."""
    refs = dict(after.refs)
    extra = list(maps)
    number = dict(numbers)
    for slot, ref in after.refs.items():
        if isinstance(ref, MapRef):
            if ref.map not in number:
                number[ref.map] = len(extra)
                extra.append(after.maps[ref.map])
            refs[slot] = MapRef(number[ref.map], ref.offset)
    return replace(after, maps=tuple(extra), refs=refs)


def _differ(one: Map, two: Map) -> str:
    """How two maps differ in what both sides tell; "" where they may be one."""
    if one.id is not None and one.id == two.id:
        return ""
    for what in TOLD:
        here, there = getattr(one, what), getattr(two, what)
        if here is not None and there is not None and here != there:
            return f"the {what} of map {one.name} is {here}, that of map {two.name} is {there}"
    if _own(one) and _own(two) and not _called(one.name, two.name):
        return f"map {one.name} is map {two.name} after"
    return ""


def _own(one: Map) -> bool:
    """Whether the input names the map, and does not only number it."""
    return not one.name.startswith(("map[id:", "map[idx:", "id:"))


def _called(one: str, two: str) -> bool:
    """One name, perhaps cut; data sections are called by the object's name and their own (bpf_map__init_kern…)."""
    if one[:NAME] == two[:NAME]:
        return True
    return any(long.endswith(short[: NAME - 2]) and short.startswith(".") for long, short in ((one, two), (two, one)))


def _merged(one: Map, two: Map) -> Map:
    told = {what: getattr(two, what) for what in (*TOLD, "flags", "inner", "id") if getattr(one, what) is None}
    told = {what: value for what, value in told.items() if value is not None}
    if not _own(one) and _own(two):
        told["name"] = two.name
    return replace(one, **told) if told else one
