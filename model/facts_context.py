"""What the steps of the analysis share: the program, its map pointers, and what callees may have done."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from model.facts_values import Frame, Functions, Key, MapSet, Place, State, Storage, Value
from model.program import Map, Program

KCONFIG: Key = ("kconfig",)


@dataclass(slots=True)
class Context:
    """What steps ask of the program; `leaks` holds the functions that may write a map pointer to a caller's frame.

    `keyed` caches the one-pointer sets, `assumed` the maps that the user named. `imprecise` tells of a
    store of a map pointer that may have gone elsewhere; `outer` are the functions that read a caller's frame.
    """

    program: Program
    assumed: dict[str, Map]
    function: int = 0
    leaks: set[int] = field(default_factory=set)
    imprecise: bool = False
    outer: set[int] = field(default_factory=set)
    keyed: dict[Key, MapSet] = field(default_factory=dict)

    def one(self, key: Key) -> MapSet:
        """The set of this one map pointer."""
        found = self.keyed.get(key)
        if found is None:
            found = self.keyed[key] = MapSet((key,))
        return found

    def map_of(self, key: Key) -> Map:
        """The map (or template) that a key stands for; a template that the input does not show has no type."""
        if key[0] == "map":
            return self.program.maps[int(key[1])]
        if key[0] == "assumed":
            return self.assumed[str(key[1])]
        if key == KCONFIG:
            return Map(".kconfig", "array")
        outer = self.map_of(outer_key(key))
        return outer.inner or Map(f"inner map of {outer.name}", None)

    def inner(self, keys: Sequence[Key]) -> MapSet | None:
        """Templates of those of `keys` that are maps of maps; None when there are none.

        A map of unknown type may be one: then the set is unknown.
        """
        templates: list[Key] = []
        unknown = False
        for key in keys:
            outer = self.map_of(key)
            if outer.type is None:
                unknown = True
            elif outer.type.endswith("_of_maps"):
                templates.append(inner_key(key))
        if len(templates) == 1 and not unknown:
            return self.one(templates[0])
        return MapSet(tuple(dict.fromkeys(templates)), unknown) if templates or unknown else None


def inner_key(outer: Key) -> Key:
    return ("inner", *(outer[1:] if outer[0] == "map" else outer))


def outer_key(inner: Key) -> Key:
    rest = inner[1:]
    return ("map", *rest) if isinstance(rest[0], int) else rest


def is_pointer(value: Value | None) -> bool:
    """Whether a slot that took this value unseen may not count as plain afterwards."""
    return isinstance(value, MapSet | Frame | Functions | Storage) or value is Place.OUTER


def put(state: State, reg: int, value: Value | None) -> None:
    if value is None:
        state.pop(reg, None)
    else:
        state[reg] = value
