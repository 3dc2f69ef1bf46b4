"""Which map of the program after is which map of the program before: by id, by name, by the order of their loads.

The rewrite neither adds nor removes 64-bit loads of maps, so the loads correspond one by one. Of two dumps of one
object the ids may differ (it was loaded twice) and names may be cut (BPF_OBJ_NAME_LEN, include/uapi/linux/bpf.h);
what may not differ is a name, type or size that both sides tell, and one map here must be one map there.
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
    """

    before: Program
    after: Program
    loads: Mapping[int, int]
    differ: Mapping[int, str]


def paired(before: Program, after: Program) -> Loads:
    """Linear in the programs' lengths."""
    here = [(slot, ref) for slot, ref in sorted(before.refs.items()) if isinstance(ref, MapRef)]
    there = [(slot, ref) for slot, ref in sorted(after.refs.items()) if isinstance(ref, MapRef)]
    numbers: dict[int, int] = {}
    back: dict[int, int] = {}
    loads: dict[int, int] = {}
    differ: dict[int, str] = {}
    maps = list(before.maps)
    for (slot, ref), (at, other) in zip(here, there, strict=False):
        loads[slot] = at
        one, two = maps[ref.map], after.maps[other.map]
        known = numbers.setdefault(ref.map, other.map)
        reason = _differ(before.maps[ref.map], two)
        if known != other.map:
            reason = reason or f"map {one.name} is {after.maps[known].name} at an earlier load and {two.name} here"
        elif back.setdefault(other.map, ref.map) != ref.map:
            reason = reason or f"maps {maps[back[other.map]].name} and {one.name} are both {two.name} after"
        elif ref.offset != other.offset:
            reason = reason or f"byte {ref.offset} of the value of {one.name} is byte {other.offset} after"
        if reason:
            differ[slot] = reason
        else:
            maps[ref.map] = _merged(one, two)
    table = {there: here for here, there in numbers.items()}
    return Loads(replace(before, maps=tuple(maps)), _renumbered(after, tuple(maps), table), loads, differ)


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
