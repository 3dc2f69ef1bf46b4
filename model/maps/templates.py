"""Inner maps: the template that the verifier sees, and the maps that may stand in its place, as rows.

`bpf_map_meta_alloc` (kernel/bpf/map_in_map.c) copies some members of the map that an outer map is made with; the rest
of the template is zero. A map can be put in later if the type's `map_meta_equal` holds of the template and the map.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from model.bits import B, W
from model.errors import Unsupported
from model.maps.allocation import BPF_F_INNER_MAP, NAMES, WORD, Parameters, applies, bits_of, parameters
from model.world import World

COMMON = ("key_size", "value_size", "max_entries", "map_flags")
OUTER = frozenset({"array_of_maps", "hash_of_maps"})
"""Types that bpf_map_meta_alloc refuses as inner maps ("more than one level")."""


@dataclass(frozen=True, slots=True)
class Copied:
    """What the template of an inner map of `types` has beside the `COMMON` members."""

    types: frozenset[str]
    members: tuple[str, ...]
    since: str = ""
    until: str = ""


# Read in 5.10, 6.1, 6.12 and 7.3; per-CPU arrays came with their inlined lookup (db69718b8efa, 6.10).
COPIED = (
    Copied(frozenset({"array"}), ("bypass_spec_v1", "index_mask"), until="6.1"),
    Copied(frozenset({"array"}), ("bypass_spec_v1", "index_mask", "elem_size"), since="6.1"),
    Copied(frozenset({"percpu_array"}), ("bypass_spec_v1", "index_mask", "elem_size"), since="6.10"),
)


def copied(map_type: str, release: str) -> tuple[str, ...]:
    """The members that the template of an inner map of the type has."""
    rows = [row for row in COPIED if map_type in row.types and applies(row.since, row.until, release)]
    return (*COMMON, *(name for row in rows for name in row.members))


def template(world: World[W, B], members: tuple[str, ...], origin: Parameters[W]) -> Parameters[W]:
    """The template made of the map `origin`, of which it has the `copied` members."""
    words = [getattr(origin, name) if name in members else world.bits(bits_of(name)).const(0) for name in NAMES]
    return Parameters(*words)


@dataclass(frozen=True, slots=True)
class Equal:
    """A `map_meta_equal` function: the members that it compares; those in `unless_inner` only without
    BPF_F_INNER_MAP. The map types are equal in any case."""

    compared: tuple[str, ...]
    source: str
    unless_inner: tuple[str, ...] = ()


_PLAIN = ("key_size", "value_size", "map_flags")
EQUAL: Mapping[str, Equal] = {
    "bpf_map_meta_equal": Equal(_PLAIN, "kernel/bpf/map_in_map.c"),
    "array_map_meta_equal": Equal(_PLAIN, "kernel/bpf/arraymap.c", unless_inner=("max_entries",)),
    "xsk_map_meta_equal": Equal((*_PLAIN, "max_entries"), "net/xdp/xskmap.c"),
}


def compared(function: str) -> tuple[str, ...]:
    """The members that a `map_meta_equal` function compares, some of them only without BPF_F_INNER_MAP."""
    row = EQUAL.get(function)
    return () if row is None else row.compared + row.unless_inner


def let_in(world: World[W, B], function: str, map_type: str, seen: Parameters[W]) -> Parameters[W]:
    """Any map of the type that the `map_meta_equal` operation `function` lets in for the template `seen`.

    Raises `Unsupported` where there is no row for the function.
    """
    row = EQUAL.get(function)
    if row is None:
        raise Unsupported(f"no rule for the inner maps that {function} lets in")
    b = world.bits(WORD)
    given = {name: getattr(seen, name) for name in row.compared}
    free = b.negate(b.eq(b.bvand(seen.map_flags, b.const(BPF_F_INNER_MAP)), b.const(0)))
    for name in row.unless_inner:
        given[name] = b.ite(free, world.fresh(f"map->{name}", WORD), getattr(seen, name))
    return parameters(world, map_type, "map", given)
