"""BLOOM_FILTER (kernel/bpf/bloom_filter.c, 5.16 on; 6.1, 6.12 and 7.3 agree).

What was pushed is found for good; what was not may be found as well. Which values are, depends on the seed: with
BPF_F_ZERO_SEED it is 0 and the model answers as the kernel does; else the kernel draws it, and the model's seed of 0
is one of the possible answers.
"""

from dataclasses import dataclass
from typing import Generic

from model.bits import B, W
from model.errors import Unsupported
from model.maps.errors import EINVAL, ENOENT, EOPNOTSUPP
from model.maps.jhash import jhash
from model.maps.state import Cases, Effect, Outcomes, Shape, Site

HASHES = 5
"""The number of hash functions where map_extra is 0."""
MOST_BITS = 1 << 20


@dataclass(frozen=True, slots=True)
class Bloom(Generic[W]):
    """`bitset` has `size(shape)` bits."""

    bitset: W


def hashes(shape: Shape) -> int:
    return shape.extra or HASHES


def size(shape: Shape) -> int:
    """The number of bits (bloom_map_alloc): max_entries × hashes / 5 × 7, up to a power of two of 64 or more.

    Raises `Unsupported` beyond 2^20 bits.
    """
    bits = shape.max_entries * hashes(shape) // 5 * 7
    if bits > MOST_BITS:
        raise Unsupported(f"a bloom filter of {bits} bits, more than {MOST_BITS}")
    return max(64, 1 << (bits - 1).bit_length())


def _hash(site: Site[W, B], value: W, index: int) -> W:
    """The number of the bit of hash function `index`, at the width of the bitset."""
    narrow, shape = site.bits.at(32), site.shape
    bits = size(shape)
    wide = narrow.bvand(jhash(narrow, value, shape.value_size, narrow.const(index)), narrow.const(bits - 1))
    return narrow.zext(wide, bits)


def push(site: Site[W, B], state: Bloom[W], value: W, flags: W) -> Outcomes[W, B]:
    """bloom_map_push_elem: any flag -EINVAL; else the value's bits are set, however many values there are."""
    b, set_ = site.bits, site.bits.at(size(site.shape))
    cases = Cases(b)
    yield cases.error(b.negate(b.eq(flags, b.const(0))), EINVAL)

    def added() -> Effect[W]:
        word, bitset = site.read(value, site.shape.value_size), state.bitset
        for index in range(hashes(site.shape)):
            bitset = set_.bvor(bitset, set_.shl(set_.const(1), _hash(site, word, index)))
        return Effect((), Bloom(bitset))

    yield cases.otherwise(b.const(0), added)


def peek(site: Site[W, B], state: Bloom[W], value: W) -> Outcomes[W, B]:
    """bloom_map_peek_elem: 0 if all bits of the value at `value` are set, else -ENOENT."""
    b, set_ = site.bits, site.bits.at(size(site.shape))
    cases, word = Cases(b), site.read(value, site.shape.value_size)
    for index in range(hashes(site.shape)):
        bit = set_.bvand(set_.lshr(state.bitset, _hash(site, word, index)), set_.const(1))
        yield cases.error(set_.eq(bit, set_.const(0)), ENOENT)
    yield cases.otherwise(b.const(0))


def lookup(site: Site[W, B], state: Bloom[W], key: W) -> Outcomes[W, B]:
    """bloom_map_lookup_elem: ERR_PTR(-EINVAL)."""
    yield Cases(site.bits).otherwise(site.bits.const(-EINVAL))


def update(site: Site[W, B], state: Bloom[W], key: W, value: W, flags: W) -> Outcomes[W, B]:
    """bloom_map_update_elem: always -EINVAL."""
    yield Cases(site.bits).otherwise(site.bits.const(-EINVAL))


def refused(site: Site[W, B], state: Bloom[W], value: W) -> Outcomes[W, B]:
    """bloom_map_pop_elem, bloom_map_delete_elem: always -EOPNOTSUPP."""
    yield Cases(site.bits).otherwise(site.bits.const(-EOPNOTSUPP))
