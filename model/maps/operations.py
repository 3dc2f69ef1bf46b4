"""The behaviour of map operations, by the name of the kernel's function; walks are in `model.maps.for_each`.

What a release's tables name and is not here (devmaps, sockmaps, …) has no rule; see `NOT_MODELLED`.
"""

from collections.abc import Callable, Mapping
from typing import Any

from model.errors import Unsupported
from model.maps import array, bloom, lpm, lru_hash, queue_stack
from model.maps import hash as table
from model.maps.array import Array
from model.maps.bloom import Bloom
from model.maps.hash import Hash
from model.maps.lpm import Trie
from model.maps.lru_hash import LruHash, empty
from model.maps.queue_stack import Queue
from model.maps.state import BPF_F_NO_COMMON_LRU, LRU, Outcome, Shape, Site

Behaviour = Callable[..., Any]
"""Of a site, the map's state and the operation's arguments behind the map, each at the width of its C type; yields
outcomes as `model.maps.state` tells.
"""

OPERATIONS: Mapping[str, Behaviour] = {
    "array_map_lookup_elem": array.lookup,
    "array_map_update_elem": array.update,
    "array_map_delete_elem": array.delete,
    "percpu_array_map_lookup_elem": array.lookup_percpu,
    "percpu_array_map_lookup_percpu_elem": array.lookup_on_cpu,
    "array_of_map_lookup_elem": array.lookup_inner,
    "htab_map_lookup_elem": table.lookup,
    "htab_map_update_elem": table.update,
    "htab_map_delete_elem": table.delete,
    "htab_percpu_map_lookup_elem": table.lookup_percpu,
    "htab_percpu_map_lookup_percpu_elem": table.lookup_on_cpu,
    "htab_percpu_map_update_elem": table.update_percpu,
    "htab_of_map_lookup_elem": table.lookup_inner,
    "htab_lru_map_lookup_elem": lru_hash.lookup,
    "htab_lru_map_lookup_elem_sys": lru_hash.lookup_unmarked,
    "htab_lru_map_update_elem": lru_hash.update,
    "htab_lru_map_delete_elem": lru_hash.delete,
    "htab_lru_percpu_map_lookup_elem": lru_hash.lookup_percpu,
    "htab_lru_percpu_map_lookup_percpu_elem": lru_hash.lookup_on_cpu,
    "htab_lru_percpu_map_update_elem": lru_hash.update_percpu,
    "rhtab_map_lookup_elem": table.lookup,
    "rhtab_map_update_elem": table.update_rhash,
    "rhtab_map_delete_elem": table.delete,
    "rhtab_lookup_elem": table.lookup_element,
    "queue_stack_map_push_elem": queue_stack.push,
    "queue_map_pop_elem": queue_stack.queue_pop,
    "queue_map_peek_elem": queue_stack.queue_peek,
    "stack_map_pop_elem": queue_stack.stack_pop,
    "stack_map_peek_elem": queue_stack.stack_peek,
    "queue_stack_map_lookup_elem": queue_stack.lookup,
    "queue_stack_map_update_elem": queue_stack.update,
    "queue_stack_map_delete_elem": queue_stack.delete,
    "bloom_map_push_elem": bloom.push,
    "bloom_map_peek_elem": bloom.peek,
    "bloom_map_pop_elem": bloom.refused,
    "bloom_map_delete_elem": bloom.refused,
    "bloom_map_lookup_elem": bloom.lookup,
    "bloom_map_update_elem": bloom.update,
    "trie_lookup_elem": lpm.lookup,
    "trie_update_elem": lpm.update,
    "trie_delete_elem": lpm.delete,
}

TYPES = frozenset(
    {
        *("array", "percpu_array", "hash", "percpu_hash", "lru_hash", "lru_percpu_hash", "queue", "stack"),
        *("bloom_filter", "lpm_trie", "array_of_maps", "hash_of_maps", "prog_array", "rhash"),
    }
)
"""The map types that are modelled; operations of the others stay uninterpreted."""


def _element(site: Site[Any, Any], state: Any, key: Any) -> Any:
    """__htab_map_lookup_elem of either kind of hash: what inlined lookups call."""
    lookup = lru_hash.lookup_element if isinstance(state, LruHash) else table.lookup_element
    return lookup(site, state, key)


def operation(name: str) -> Behaviour:
    """Raises `Unsupported` for a function whose behaviour is not modelled."""
    if name == "__htab_map_lookup_elem":
        return _element
    if name not in OPERATIONS:
        raise Unsupported(f"what {name} does to its map is not modelled")
    return OPERATIONS[name]


_STATES = {array: Array, table: Hash, lru_hash: LruHash, queue_stack: Queue, bloom: Bloom, lpm: Trie}


def fits(name: str, shape: Shape, state: Any) -> bool:
    """Whether the function finds in the map the structure that it reads: a call of another type's operation may not."""
    if name in ("bpf_for_each_array_elem", "bpf_for_each_hash_elem"):
        return isinstance(state, Array if "array" in name else Hash | LruHash)
    if name.startswith(("rhtab_", "bpf_each_rhash")) or shape.type == "rhash":
        return shape.type == "rhash" and name.startswith(("rhtab_", "bpf_each_rhash"))
    if name == "__htab_map_lookup_elem":
        return isinstance(state, Hash | LruHash)
    module = operation(name).__module__
    return any(module == room.__name__ and isinstance(state, kind) for room, kind in _STATES.items())


def empty_state(shape: Shape) -> Any:
    """The state of a new map. Raises `Unsupported` for a type, or a kind of LRU, that is not modelled."""
    if shape.type not in TYPES:
        raise Unsupported(f"maps of type {shape.type} are not modelled")
    if shape.type in LRU:
        if shape.flags & BPF_F_NO_COMMON_LRU:
            raise Unsupported("an LRU list per CPU (BPF_F_NO_COMMON_LRU)")
        if shape.max_entries > MOST_LRU:
            raise Unsupported(f"an LRU hash of more than {MOST_LRU} elements")
        return empty(shape.max_entries)
    match shape.type:
        case "queue" | "stack":
            return Queue()
        case "bloom_filter":
            return Bloom(0)
        case "lpm_trie":
            return Trie()
        case "hash" | "percpu_hash" | "hash_of_maps" | "rhash":
            return Hash()
    return Array()


MOST_LRU = 1 << 16

__all__ = ["OPERATIONS", "TYPES", "Outcome", "empty_state", "operation"]
