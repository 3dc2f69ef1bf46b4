"""Map types by their number in the kernel's ABI."""

# enum bpf_map_type, include/uapi/linux/bpf.h (7.3). Numbers are ABI: never reused, only added to.
_NAMES = """unspec hash array prog_array perf_event_array percpu_hash percpu_array stack_trace cgroup_array lru_hash
    lru_percpu_hash lpm_trie array_of_maps hash_of_maps devmap sockmap cpumap xskmap sockhash cgroup_storage
    reuseport_sockarray percpu_cgroup_storage queue stack sk_storage devmap_hash struct_ops ringbuf inode_storage
    task_storage bloom_filter user_ringbuf cgrp_storage arena insn_array rhash"""

MAP_TYPES: tuple[str, ...] = tuple(_NAMES.split())

PERF_EVENT_ARRAY, ARRAY_OF_MAPS, HASH_OF_MAPS, ARENA = 4, 12, 13, 33
NESTED = frozenset({ARRAY_OF_MAPS, HASH_OF_MAPS})


def map_type(number: int) -> str | None:
    """The type's name as `model.program.Map.type` has it; None for a number that 7.3 does not know."""
    return MAP_TYPES[number] if 0 < number < len(MAP_TYPES) else None
