"""Which maps the kernel creates: the errors of the allocation checks, on numbers (`model.maps.allocation` has the
conditions that proofs assume).

Not checked: permissions, tokens (BPF_F_TOKEN_FD), which NUMA nodes there are, and memory that a machine may lack.
"""

from collections.abc import Mapping

from model.maps.allocation import applies
from model.maps.errors import E2BIG, EINVAL
from model.maps.state import (
    BPF_F_INNER_MAP,
    BPF_F_NO_COMMON_LRU,
    BPF_F_NO_PREALLOC,
    BPF_F_ZERO_SEED,
    LRU,
    PERCPU,
    Shape,
    round_up,
)

ENOTSUPP = 524
KMALLOC_MAX = 4 << 20
"""KMALLOC_MAX_SIZE of x86-64 with pages of 4 KiB."""
PERCPU_UNIT = 32 << 10
"""PCPU_MIN_UNIT_SIZE (include/linux/percpu.h)."""
MOST_BUCKETS = 1 << 27
"""The largest power of two that is at most U32_MAX / sizeof(struct bucket), which has 16 bytes (htab_map_alloc)."""
_ARRAYS = frozenset({"array", "percpu_array", "array_of_maps", "prog_array"})
_HASHES = frozenset({"hash", "percpu_hash", "lru_hash", "lru_percpu_hash", "hash_of_maps", "rhash"})
_U32 = (1 << 32) - 1

# include/uapi/linux/bpf.h
NUMA_NODE, RDONLY, WRONLY, RDONLY_PROG, WRONLY_PROG, MMAPABLE = 1 << 2, 1 << 3, 1 << 4, 1 << 7, 1 << 8, 1 << 10
ACCESS = RDONLY | WRONLY | RDONLY_PROG | WRONLY_PROG
_ARRAY_FLAGS = NUMA_NODE | ACCESS
_HASH_FLAGS = BPF_F_NO_PREALLOC | BPF_F_NO_COMMON_LRU | NUMA_NODE | ACCESS | BPF_F_ZERO_SEED
FLAGS: Mapping[str, int] = {
    "array": _ARRAY_FLAGS | MMAPABLE | BPF_F_INNER_MAP,
    "percpu_array": _ARRAY_FLAGS & ~NUMA_NODE,
    **dict.fromkeys(("array_of_maps", "prog_array"), _ARRAY_FLAGS & ~(RDONLY_PROG | WRONLY_PROG)),
    **dict.fromkeys(_HASHES, _HASH_FLAGS),
    **dict.fromkeys(("queue", "stack"), NUMA_NODE | ACCESS),
    "bloom_filter": NUMA_NODE | BPF_F_ZERO_SEED | ACCESS,
    "lpm_trie": BPF_F_NO_PREALLOC | NUMA_NODE | ACCESS,
}
"""The flags that a type may have: the *_CREATE_FLAG_MASK of its file in kernel/bpf, less what array_map_alloc_check
and fd_array_map_alloc_check refuse of them for all maps of a type (5.10, 6.1, 6.12 and 7.3 agree).
"""


def _flags_refused(shape: Shape) -> bool:
    """Flags that are not the type's, or both RDONLY_PROG and WRONLY_PROG (bpf_map_flags_access_ok): -EINVAL."""
    both = shape.flags & RDONLY_PROG and shape.flags & WRONLY_PROG
    return bool(shape.flags & ~FLAGS.get(shape.type, _U32) or both)


def refusal(shape: Shape) -> int:
    """The errno, positive, with which a map of these parameters is refused; 0 if it is created.

    bpf_get_file_flag (kernel/bpf/syscall.c) comes first: not RDONLY and WRONLY. Few types have a map_extra
    (map_create_alloc).
    """
    if shape.flags & RDONLY and shape.flags & WRONLY:
        return EINVAL
    if shape.extra and shape.type not in ("bloom_filter", "rhash"):
        return EINVAL
    if shape.type in _ARRAYS:
        return _array(shape)
    if shape.type in _HASHES:
        return _hash(shape)
    match shape.type:
        case "queue" | "stack":
            return _queue(shape)
        case "lpm_trie":
            return _trie(shape)
        case "bloom_filter":
            return _bloom(shape)
    return 0


def _array(shape: Shape) -> int:
    """array_map_alloc_check, fd_array_map_alloc_check (kernel/bpf/arraymap.c, 6.12)."""
    if shape.type in ("array_of_maps", "prog_array") and shape.value_size != 4:
        return EINVAL
    if not shape.max_entries or shape.key_size != 4 or not shape.value_size or _flags_refused(shape):
        return EINVAL
    if shape.value_size > _U32 >> 1 or (shape.percpu and round_up(shape.value_size) > PERCPU_UNIT):
        return E2BIG
    return 0


def _hash(shape: Shape) -> int:
    """htab_map_alloc_check, htab_map_alloc, rhtab_map_alloc_check (kernel/bpf/hashtab.c, 6.12 and 7.3)."""
    if shape.type == "rhash":
        if not shape.flags & BPF_F_NO_PREALLOC or shape.flags & BPF_F_ZERO_SEED:
            return EINVAL
        if shape.key_size > 0xFFFF or shape.extra > 0xFFFF:
            return E2BIG
        if shape.extra > shape.max_entries:
            return EINVAL
    if shape.type == "hash_of_maps" and shape.value_size != 4:
        return EINVAL
    if _flags_refused(shape) or (shape.flags & BPF_F_NO_COMMON_LRU and shape.type not in LRU):
        return EINVAL
    if shape.type in LRU and shape.flags & BPF_F_NO_PREALLOC:
        return ENOTSUPP
    if shape.flags & NUMA_NODE and (shape.type in PERCPU or shape.flags & BPF_F_NO_COMMON_LRU):
        return EINVAL
    if not shape.max_entries or not shape.key_size or not shape.value_size:
        return EINVAL
    if shape.key_size + shape.value_size >= KMALLOC_MAX - 48:
        return E2BIG
    if shape.type in PERCPU and round_up(shape.value_size) > PERCPU_UNIT:
        return E2BIG
    return E2BIG if shape.max_entries > (1 << 31 if shape.type == "rhash" else MOST_BUCKETS) else 0


def _queue(shape: Shape) -> int:
    """queue_stack_map_alloc_check (kernel/bpf/queue_stack_maps.c).

    The bound on all values together is in the 6.12 and 7.3 read, not in 5.10 and 6.1, nor in a running 6.18.44.
    """
    if not shape.max_entries or shape.key_size or not shape.value_size or _flags_refused(shape):
        return EINVAL
    bounded = applies("6.12", "", shape.release)
    return E2BIG if shape.value_size > KMALLOC_MAX or (bounded and shape.max_entries >= _U32 // shape.value_size) else 0


def _trie(shape: Shape) -> int:
    """trie_alloc (kernel/bpf/lpm_trie.c, 6.12): 1 to 256 bytes of data, and never preallocated."""
    fits = 5 <= shape.key_size <= 260 and 0 < shape.value_size <= KMALLOC_MAX - 256 - 40
    minded = shape.flags & BPF_F_NO_PREALLOC and not _flags_refused(shape)
    return 0 if fits and shape.max_entries and minded else EINVAL


def _bloom(shape: Shape) -> int:
    """bloom_map_alloc_check, bloom_map_alloc (kernel/bpf/bloom_filter.c, 6.1 to 7.3); map_extra is 15 at most."""
    if shape.value_size > KMALLOC_MAX:
        return E2BIG
    sizes = shape.max_entries and shape.value_size and not shape.key_size
    return 0 if sizes and not shape.extra & ~15 and not _flags_refused(shape) else EINVAL
