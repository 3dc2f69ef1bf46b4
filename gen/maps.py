"""Maps of every type that the machine runs, with legal parameters, and what they hold before a run.

Hash maps have BPF_F_ZERO_SEED, so that the order of a walk is the same wherever a program runs.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from hypothesis import strategies as st

from model.program import Map

NO_PREALLOC, ZERO_SEED = 1, 64  # include/uapi/linux/bpf.h
LPM_MASK = 32


@dataclass(frozen=True, slots=True)
class Row:
    """A map type: the sizes in bytes and flags that its maps have here, and the helpers that may be called on it."""

    keys: tuple[int, ...]
    values: tuple[int, ...]
    most: tuple[int, ...]
    calls: tuple[str, ...]
    flags: tuple[int, ...] = (0,)
    inner: bool = False


LOOKUP, UPDATE, DELETE, FOR_EACH = "map_lookup_elem", "map_update_elem", "map_delete_elem", "for_each_map_elem"
PUSH, POP, PEEK, PERCPU = "map_push_elem", "map_pop_elem", "map_peek_elem", "map_lookup_percpu_elem"
KEYED = (LOOKUP, UPDATE, DELETE, FOR_EACH)
SIZES = (1, 4, 5, 8, 12, 16, 24)
FEW = (1, 2, 3, 4, 5, 8)
ROWS: Mapping[str, Row] = {
    "array": Row((4,), SIZES, FEW, KEYED),
    "percpu_array": Row((4,), SIZES, FEW, (*KEYED, PERCPU)),
    "hash": Row((1, 4, 5, 8, 16), SIZES, FEW, KEYED, (ZERO_SEED, ZERO_SEED, ZERO_SEED | NO_PREALLOC)),
    "percpu_hash": Row((1, 4, 8, 16), SIZES, FEW, (*KEYED, PERCPU), (ZERO_SEED,)),
    "lru_hash": Row((4, 8), SIZES, FEW, KEYED, (ZERO_SEED,)),
    "lru_percpu_hash": Row((4, 8), SIZES, FEW, (*KEYED, PERCPU), (ZERO_SEED,)),
    "queue": Row((0,), SIZES, FEW, (PUSH, POP, PEEK)),
    "stack": Row((0,), SIZES, FEW, (PUSH, POP, PEEK)),
    "bloom_filter": Row((0,), SIZES, FEW, (PUSH, PEEK), (ZERO_SEED,)),
    "lpm_trie": Row((8,), SIZES, FEW, (LOOKUP, UPDATE, DELETE), (NO_PREALLOC,)),
    "array_of_maps": Row((4,), (4,), (1, 2, 3), (LOOKUP,), inner=True),
    "hash_of_maps": Row((4, 8), (4,), (1, 2, 3), (LOOKUP,), (ZERO_SEED,), inner=True),
}
INNER = ("array", "hash", "percpu_array", "lru_hash", "array", "hash")
"""Types of templates: those that matter to the rewrite more often."""


@st.composite
def maps(draw: st.DrawFn, name: str, kinds: tuple[str, ...] = tuple(ROWS)) -> Map:
    """A map called `name` of one of `kinds`; a map-in-map has a template `NAME_inner`, of the same parameters."""
    kind = draw(st.sampled_from(kinds))
    row = ROWS[kind]
    sizes = (draw(st.sampled_from(choices)) for choices in (row.keys, row.values, row.most))
    inner = draw(maps(f"{name}_inner", INNER)) if row.inner else None
    key_size, value_size, most = sizes
    return Map(name, kind, key_size, value_size, most, draw(st.sampled_from(row.flags)), inner=inner)


def lines(map_: Map) -> list[str]:
    """The `.map` directives, a template's first."""
    before = lines(map_.inner) if map_.inner else []
    inner = f" inner={map_.inner.name}" if map_.inner else ""
    sizes = f"{map_.key_size} {map_.value_size} {map_.max_entries}"
    return [*before, f".map {map_.name} {map_.type} {sizes} flags={map_.flags}{inner}"]


def key(map_: Map, number: int) -> bytes:
    """The key with this number; small numbers are indexes of arrays, and prefixes of one another in a trie."""
    size = map_.key_size or 0
    if map_.type == "lpm_trie":
        return (number * 5 % (LPM_MASK + 1)).to_bytes(4, "little") + bytes([10, number & 1, 0, number])[: size - 4]
    return number.to_bytes(max(size, 4), "little")[:size]


@dataclass(frozen=True, slots=True)
class Entry:
    """An element that the map of this name holds before the run; queues, stacks and filters have no key."""

    map: str
    key: bytes
    value: bytes


@st.composite
def contents(draw: st.DrawFn, map_: Map) -> list[Entry]:
    """Up to as many elements as the map takes; maps-in-map and per-CPU maps begin empty."""
    if map_.inner is not None or "percpu" in str(map_.type):
        return []
    keys = draw(st.lists(st.integers(0, 5), max_size=map_.max_entries or 0, unique=True))
    if map_.type == "array":
        keys = [n for n in keys if n < (map_.max_entries or 0)]
    size = map_.value_size or 0
    return [Entry(map_.name, key(map_, n), bytes([n + 1, *range(1, size)])[:size]) for n in keys]
