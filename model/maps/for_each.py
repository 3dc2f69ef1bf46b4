"""map_for_each_callback: which elements, in which order, with which arguments (5.13 on).

A walk is written as its single steps, so that a machine can run the callback in between and a proof can go by
induction: `first` and `following` say where the walk stands, `visit` what the callback is given, `going_on` what its
result decides. A callback may change the map; where the walk goes on then is asked of the state after the callback.

This is the machine's walk, the same in every release. Whether a release's own C walks like this is what the Callback
claims prove of its bodies (`model.kernel.extract_walk`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic

from model.bits import B, Bits, W
from model.maps.array import Array, element
from model.maps.hash import Hash, pointer_in, value_address
from model.maps.lru_hash import LruHash
from model.maps.state import Site


@dataclass(frozen=True, slots=True)
class Visit(Generic[W]):
    """What a callback is given beside map and context: the addresses of key and value (64 bits).

    A walk through an array has a u32 of its own for the key: `key` is None then, and `index` its value (32 bits).
    """

    value: W
    key: W | None = None
    index: W | None = None


@dataclass(frozen=True, slots=True)
class At:
    """Where a walk stands: element (or index) `number`; `then` is the element behind it where that was read before
    the callback ran; `bucket` the bucket of a hash.
    """

    number: int
    bucket: int = 0
    then: int | None = None


def flags_refused(bits: Bits[W, B], flags: W) -> B:
    """Flags other than 0: -EINVAL before anything else, in every type."""
    return bits.negate(bits.eq(flags, bits.const(0)))


def going_on(bits: Bits[W, B], result: W) -> B:
    """The callback's result, all 64 bits, is 0; the walk's value is the number of callbacks made, this one too."""
    return bits.eq(result, bits.const(0))


@dataclass(frozen=True, slots=True)
class Walk:
    """One type's walk. `first` and `following` give None where it ends."""

    first: Callable[[Site[Any, Any], Any], At | None]
    following: Callable[[Site[Any, Any], Any, At], At | None]
    visit: Callable[[Site[Any, Any], Any, At], Visit[Any]]


def _array_first(site: Site[W, B], state: Array) -> At | None:
    return At(0)


def _array_following(site: Site[W, B], state: Array, at: At) -> At | None:
    return At(at.number + 1) if at.number + 1 < site.shape.max_entries else None


def _array_visit(site: Site[W, B], state: Array, at: At) -> Visit[W]:
    """The element, in a per-CPU array this CPU's area of it; a u32 copy of the index (bpf_for_each_array_elem)."""
    index = site.bits.at(32).const(at.number)
    address = element(site, index)
    if site.shape.percpu:
        address = site.this_cpu(site.memory.load(address, 8))
    return Visit(address, index=index)


ARRAY = Walk(_array_first, _array_following, _array_visit)
"""bpf_for_each_array_elem (arraymap.c, 6.1, 6.12, 7.3): i = 0 … max_entries − 1."""


def _table(state: Hash[W] | LruHash[W]) -> Hash[W]:
    return state.table if isinstance(state, LruHash) else state


def _bucket_from(state: Hash[W] | LruHash[W], bucket: int) -> At | None:
    """The head of the first bucket, from `bucket` on, that is not empty."""
    table = _table(state)
    buckets = [entry.bucket for entry in table.entries if entry.bucket >= bucket]
    if not buckets:
        return None
    lowest = min(buckets)
    number = next(entry.number for entry in table.entries if entry.bucket == lowest)
    return At(number, lowest, table.after(number))


def _hash_first(site: Site[W, B], state: Hash[W] | LruHash[W]) -> At | None:
    return _bucket_from(state, 0)


def _hash_following(site: Site[W, B], state: Hash[W] | LruHash[W], at: At) -> At | None:
    """The successor was read before the callback (hlist_nulls_for_each_entry_safe), so an element deleted in the
    meantime is still visited, and one added to this bucket is not.
    """
    if at.then is None:
        return _bucket_from(state, at.bucket + 1)
    return At(at.then, at.bucket, _table(state).after(at.then))


def _hash_visit(site: Site[W, B], state: Hash[W] | LruHash[W], at: At) -> Visit[W]:
    """Key and value in place; in a per-CPU map this CPU's area of the value."""
    value = value_address(site, at.number)
    if site.shape.percpu:
        value = site.this_cpu(pointer_in(site, at.number))
    return Visit(value, site.offset(site.element(at.number), site.place.key))


HASH = Walk(_hash_first, _hash_following, _hash_visit)
"""bpf_for_each_hash_elem (hashtab.c, 6.1, 6.12, 7.3): buckets in order, the newest element of a bucket first.

Which bucket a key is in depends on a random seed, unless the map has BPF_F_ZERO_SEED: only then is the order defined,
and the model's is the kernel's.
"""


def _rhash_first(site: Site[W, B], state: Hash[W]) -> At | None:
    return At(state.entries[0].number) if state.entries else None


def _rhash_following(site: Site[W, B], state: Hash[W], at: At) -> At | None:
    """The next element is looked for by the key of this one: the walk ends where that was deleted."""
    numbers = [entry.number for entry in state.entries]
    if at.number not in numbers:
        return None
    here = numbers.index(at.number) + 1
    return At(numbers[here]) if here < len(numbers) else None


RHASH = Walk(_rhash_first, _rhash_following, _hash_visit)
"""bpf_each_rhash_elem (hashtab.c, 7.2 on). The seed is always random and the table grows: the order is not defined;
the model takes the newest first. Elements that the callback adds may or may not be visited: here they are not.
"""

WALKS = {"bpf_for_each_array_elem": ARRAY, "bpf_for_each_hash_elem": HASH, "bpf_each_rhash_elem": RHASH}
"""By the name of the operation in the release's tables."""
