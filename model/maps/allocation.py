"""What a map's parameters can be: the checks of each release's allocation functions, as rows with their source.

A row is a condition on the words of a `Parameters`; a map exists only where the conditions of all of its rows hold.
Memory that a machine may lack is no row (`__bpf_map_area_alloc` asks vmalloc, which compares with the machine's
pages): a claim must hold for the largest machine. Read in 5.10, 6.1, 6.12 and 7.3; a release between two of these
has the rows of the older one.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic

from model.bits import B, W
from model.world import World

WORD = 32  # bits of every parameter but bypass_spec_v1, which is a bool
BPF_F_INNER_MAP = 1 << 12  # include/uapi/linux/bpf.h
U32_MAX = (1 << 32) - 1
MIN_PAGE = 4096  # bytes; no 64-bit architecture has smaller pages
BUCKET = 16
"""Bytes: sizeof(struct bucket) (kernel/bpf/hashtab.c), at least: a pointer and a lock, aligned as the pointer."""
ARRAYS = frozenset({"array", "percpu_array", "array_of_maps"})
HASHES = frozenset({"hash", "lru_hash", "percpu_hash", "lru_percpu_hash", "hash_of_maps", "rhash"})


@dataclass(frozen=True, slots=True)
class Parameters(Generic[W]):
    """Members of a map that lookups use, as words: `struct bpf_map`'s, then `struct bpf_array`'s."""

    key_size: W
    value_size: W
    max_entries: W
    map_flags: W
    bypass_spec_v1: W
    elem_size: W
    index_mask: W


NAMES = tuple(Parameters.__dataclass_fields__)
STRUCTS = {name: "bpf_array" if name in ("elem_size", "index_mask") else "bpf_map" for name in NAMES}


def bits_of(name: str) -> int:
    """Width of a parameter's C type (include/linux/bpf.h)."""
    return 8 if name == "bypass_spec_v1" else WORD


@dataclass(frozen=True, slots=True)
class Rule:
    """`holds` for each map of `types` in releases from `since` on, before `until`; `source` is the function."""

    types: frozenset[str]
    source: str
    holds: Callable[..., Any]
    since: str = ""
    until: str = ""


def _at_least_one(world: World[W, B], word: W) -> B:
    b = world.bits(WORD)
    return b.ule(b.const(1), word)


def _is(world: World[W, B], word: W, value: int) -> B:
    b = world.bits(WORD)
    return b.eq(word, b.const(value))


def _rounded(world: World[W, B], size: W) -> W:
    """round_up(size, 8) of a u32."""
    b = world.bits(WORD)
    return b.add(b.bvor(b.sub(size, b.const(1)), b.const(7)), b.const(1))


def _array_attributes(world: World[W, B], m: Parameters[W]) -> B:
    """max_entries and value_size are not 0, key_size is 4."""
    b = world.bits(WORD)
    return b.conj(_at_least_one(world, m.max_entries), _is(world, m.key_size, 4), _at_least_one(world, m.value_size))


def _no_inner_flag(world: World[W, B], m: Parameters[W]) -> B:
    """BPF_F_INNER_MAP is for plain arrays."""
    b = world.bits(WORD)
    return b.eq(b.bvand(m.map_flags, b.const(BPF_F_INNER_MAP)), b.const(0))


def _kmalloc_max(world: World[W, B]) -> W:
    """KMALLOC_MAX_SIZE (include/linux/slab.h), 64 bits: the largest page block, 1 GiB at most in any configuration."""
    b = world.bits(64)
    word = world.fresh("KMALLOC_MAX_SIZE", 64)
    world.assume("KMALLOC_MAX_SIZE is 1 GiB at most", b.ule(word, b.const(1 << 30)))
    return word


def _value_fits_kmalloc(world: World[W, B], m: Parameters[W]) -> B:
    return world.bits(64).ule(world.bits(WORD).zext(m.value_size, 64), _kmalloc_max(world))


def _value_fits_int(world: World[W, B], m: Parameters[W]) -> B:
    b = world.bits(WORD)
    return b.ule(m.value_size, b.const((1 << 31) - 1))


def _value_fits_unit(world: World[W, B], m: Parameters[W]) -> B:
    """round_up(value_size, 8) <= PCPU_MIN_UNIT_SIZE: 32 KiB, or a page where that is more (64 KiB)."""
    b = world.bits(WORD)
    return b.ule(_rounded(world, m.value_size), b.const(64 << 10))


def index_mask(world: World[W, B], max_entries: W) -> W:
    """(1 << fls_long(max_entries - 1)) - 1: all bits from the highest of max_entries - 1 down."""
    b = world.bits(WORD)
    mask = b.sub(max_entries, b.const(1))
    for distance in (1, 2, 4, 8, 16):
        mask = b.bvor(mask, b.lshr(mask, b.const(distance)))
    return mask


def parameters(world: World[W, B], map_type: str, whose: str, given: Mapping[str, W] | None = None) -> Parameters[W]:
    """The parameters of a map of the type: arbitrary words, or those of `given`, and what follows from them.

    array_map_alloc (kernel/bpf/arraymap.c, all releases read) computes elem_size and index_mask.
    """
    known = given or {}
    words = {name: world.fresh(f"{whose}->{name}", bits_of(name)) for name in NAMES if name not in known}
    words |= known
    if map_type in ARRAYS:
        words["elem_size"] = _rounded(world, words["value_size"])
        words["index_mask"] = index_mask(world, words["max_entries"])
    return Parameters(**words)


def _entries(world: World[W, B], m: Parameters[W]) -> W:
    """The elements that are allocated: index_mask + 1 (as u32) unless speculation is no concern."""
    b, flag = world.bits(WORD), world.bits(8)
    bypass = flag.eq(m.bypass_spec_v1, flag.const(1))
    return b.ite(bypass, m.max_entries, b.add(m.index_mask, b.const(1)))


def _no_overflow(world: World[W, B], m: Parameters[W]) -> B:
    """index_mask + 1 is not below max_entries."""
    return world.bits(WORD).ule(m.max_entries, _entries(world, m))


def _bool(world: World[W, B], m: Parameters[W]) -> B:
    flag = world.bits(8)
    return flag.ule(m.bypass_spec_v1, flag.const(1))


def _array_charge(world: World[W, B], m: Parameters[W]) -> B:
    """Up to 5.10 a map's bytes are charged first: fewer than U32_MAX - PAGE_SIZE."""
    narrow, b = world.bits(WORD), world.bits(64)
    size = b.mul(narrow.zext(_entries(world, m), 64), narrow.zext(m.elem_size, 64))
    return b.ult(size, b.const(U32_MAX - MIN_PAGE))


def _xsk_charge(world: World[W, B], m: Parameters[W]) -> B:
    """struct_size: a pointer of 8 bytes an entry."""
    b = world.bits(64)
    size = b.mul(world.bits(WORD).zext(m.max_entries, 64), b.const(8))
    return b.ult(size, b.const(U32_MAX - MIN_PAGE))


def _hash_attributes(world: World[W, B], m: Parameters[W]) -> B:
    b = world.bits(WORD)
    return b.conj(*[_at_least_one(world, word) for word in (m.max_entries, m.key_size, m.value_size)])


def _hash_entries(world: World[W, B], m: Parameters[W]) -> B:
    b = world.bits(WORD)
    return b.ule(m.max_entries, b.const(1 << 31))


def _buckets(world: World[W, B], m: Parameters[W]) -> B:
    """n_buckets = roundup_pow_of_two(max_entries) <= U32_MAX / sizeof(struct bucket): max_entries is 2^27 at most."""
    b = world.bits(WORD)
    most = U32_MAX // BUCKET
    return b.ule(m.max_entries, b.const(1 << (most.bit_length() - 1)))


def _key_on_stack(world: World[W, B], m: Parameters[W]) -> B:
    """key_size <= MAX_BPF_STACK, 512 bytes."""
    b = world.bits(WORD)
    return b.ule(m.key_size, b.const(512))


def _element_fits_kmalloc(world: World[W, B], m: Parameters[W]) -> B:
    """(u64)key_size + value_size < KMALLOC_MAX_SIZE - sizeof(struct htab_elem), which has 48 bytes or more."""
    narrow, b = world.bits(WORD), world.bits(64)
    size = b.add(narrow.zext(m.key_size, 64), narrow.zext(m.value_size, 64))
    return b.ult(b.add(size, b.const(48)), _kmalloc_max(world))


def _key_u16(world: World[W, B], m: Parameters[W]) -> B:
    b = world.bits(WORD)
    return b.ule(m.key_size, b.const(0xFFFF))


def _file_descriptors(world: World[W, B], m: Parameters[W]) -> B:
    return _is(world, m.value_size, 4)


def _xsk_attributes(world: World[W, B], m: Parameters[W]) -> B:
    b = world.bits(WORD)
    sizes = [_is(world, word, 4) for word in (m.key_size, m.value_size)]
    return b.conj(_at_least_one(world, m.max_entries), *sizes)


_OUTER = frozenset({"array_of_maps", "hash_of_maps"})
_PERCPU = frozenset({"percpu_array", "percpu_hash", "lru_percpu_hash"})
_XSK = frozenset({"xskmap"})

RULES = (
    Rule(ARRAYS, "array_map_alloc_check, kernel/bpf/arraymap.c", _array_attributes),
    Rule(ARRAYS - {"array"}, "array_map_alloc_check, kernel/bpf/arraymap.c", _no_inner_flag),
    Rule(ARRAYS, "array_map_alloc_check, kernel/bpf/arraymap.c", _value_fits_kmalloc, until="6.1"),
    Rule(ARRAYS, "array_map_alloc_check, kernel/bpf/arraymap.c", _value_fits_int, since="6.1"),
    Rule(_PERCPU, "array_map_alloc_check and htab_map_alloc_check, kernel/bpf", _value_fits_unit, since="6.1"),
    Rule(_OUTER, "fd_array_map_alloc_check and fd_htab_map_alloc_check, kernel/bpf", _file_descriptors),
    Rule(ARRAYS, "array_map_alloc, kernel/bpf/arraymap.c", _bool),
    Rule(ARRAYS, "array_map_alloc, kernel/bpf/arraymap.c", _no_overflow),
    Rule(ARRAYS - {"percpu_array"}, "bpf_map_charge_init, kernel/bpf/syscall.c", _array_charge, until="6.1"),
    Rule(HASHES, "htab_map_alloc_check, kernel/bpf/hashtab.c", _hash_attributes),
    Rule(HASHES, "htab_map_alloc and rhtab_map_alloc, kernel/bpf/hashtab.c", _hash_entries),
    Rule(HASHES - {"rhash"}, "htab_map_alloc, kernel/bpf/hashtab.c", _buckets),
    Rule(HASHES, "htab_map_alloc_check, kernel/bpf/hashtab.c", _key_on_stack, until="6.1"),
    Rule(HASHES, "htab_map_alloc_check, kernel/bpf/hashtab.c", _value_fits_kmalloc, until="6.1"),
    Rule(HASHES, "htab_map_alloc_check, kernel/bpf/hashtab.c", _element_fits_kmalloc, since="6.1"),
    Rule(frozenset({"rhash"}), "rhtab_map_alloc_check, kernel/bpf/hashtab.c", _key_u16),
    Rule(_XSK, "xsk_map_alloc, net/xdp/xskmap.c", _xsk_attributes),
    Rule(_XSK, "bpf_map_charge_init, kernel/bpf/syscall.c", _xsk_charge, until="6.1"),
)
TYPES = ARRAYS | HASHES | _XSK
"""The map types whose allocation has been read."""


def version(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split(".") if part.isdecimal())


def applies(since: str, until: str, release: str) -> bool:
    """Whether `release` ("6.12") lies in the span; an empty bound is none."""
    asked = version(release)
    return (not since or version(since) <= asked) and (not until or asked < version(until))


def rules(map_type: str, release: str) -> Iterator[Rule]:
    return (row for row in RULES if map_type in row.types and applies(row.since, row.until, release))
