"""HASH, PERCPU_HASH, HASH_OF_MAPS and RHASH (kernel/bpf/hashtab.c).

The state tells which elements are in the table, newest first, and which memory is free. The kernel's choice of memory
is followed where a program can see it: a pointer to a value outlives the element, and shows the next one that is put
there. In maps with BPF_F_NO_PREALLOC (and RHASH) that is the allocator's choice and not defined; the model reuses the
memory freed last. Which bucket a key falls in is asked of the site; the order of buckets shows in for_each only.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Generic

from model.bits import B, W
from model.maps.errors import E2BIG, EEXIST, EINVAL, ENOENT
from model.maps.state import (
    BPF_EXIST,
    BPF_F_LOCK,
    BPF_F_NO_PREALLOC,
    BPF_NOEXIST,
    Cases,
    Effect,
    Outcomes,
    Site,
    Write,
    above_exist,
    has,
)


@dataclass(frozen=True, slots=True)
class Entry(Generic[W]):
    """An element in the table: its number (which tells its address), its key (8 × key_size bits), its bucket."""

    number: int
    key: W
    bucket: int


@dataclass(frozen=True, slots=True)
class Hash(Generic[W]):
    """`entries` newest first; `free` numbers of free memory, the next to be used last; `made` numbers were ever used.

    `spare` is the element that a replaced one changes places with (`extra_elems`, preallocated plain hashes), None
    while that is one never used. `left` tells for each number that is not in the table what followed it in its
    bucket when it was taken out (None: nothing): walks that stand on it go on there.
    """

    entries: tuple[Entry[W], ...] = ()
    free: tuple[int, ...] = ()
    made: int = 0
    spare: int | None = None
    left: Mapping[int, int | None] = field(default_factory=dict)

    def without(self, entry: Entry[W]) -> "Hash[W]":
        """hlist_nulls_del_rcu: the element itself still points to its successor."""
        rest = tuple(other for other in self.entries if other.number != entry.number)
        return replace(self, entries=rest, left={**self.left, entry.number: self.after(entry.number)})

    def after(self, number: int) -> int | None:
        """The number of the next older element in the bucket of element `number`."""
        at = next((i for i, entry in enumerate(self.entries) if entry.number == number), None)
        if at is None:
            return self.left.get(number)
        bucket = self.entries[at].bucket
        return next((entry.number for entry in self.entries[at + 1 :] if entry.bucket == bucket), None)

    def fresh(self) -> "tuple[int, Hash[W]]":
        """A number never used."""
        return self.made, replace(self, made=self.made + 1)

    def taken(self) -> "tuple[int, Hash[W]]":
        """A number for a new element: the one freed last, else one never used."""
        return (self.free[-1], replace(self, free=self.free[:-1])) if self.free else self.fresh()

    def released(self, number: int) -> "Hash[W]":
        return replace(self, free=(*self.free, number))

    def added(self, entry: Entry[W]) -> "Hash[W]":
        """hlist_nulls_add_head_rcu: in front of its bucket."""
        return replace(self, entries=(entry, *self.entries))


def preallocated(site: Site[W, B]) -> bool:
    return not site.shape.flags & BPF_F_NO_PREALLOC


def value_address(site: Site[W, B], number: int) -> W:
    """htab_elem_value: behind the key, rounded up to 8 bytes."""
    return site.offset(site.element(number), site.place.value)


def pointer_in(site: Site[W, B], number: int) -> W:
    """htab_elem_get_ptr: the pointer (to per-CPU areas, to an inner map) that the element holds as its value."""
    return site.memory.load(value_address(site, number), 8)


def keyed(site: Site[W, B], state: Hash[W], key: W) -> Iterator[tuple[Entry[W], B]]:
    """Each element with whether it has the key at the address `key`; keys differ, so at most one has."""
    word, keys = site.read(key, site.shape.key_size), site.bits.at(8 * site.shape.key_size)
    for entry in state.entries:
        yield entry, keys.eq(entry.key, word)


def found(site: Site[W, B], state: Hash[W], key: W, result: Callable[[int], W]) -> Outcomes[W, B]:
    """`result` of the number of the element with the key, NULL where there is none."""
    cases = Cases(site.bits)
    for entry, here in keyed(site, state, key):
        yield cases.when(here, result(entry.number))
    yield cases.otherwise(site.bits.const(0))


def lookup_element(site: Site[W, B], state: Hash[W], key: W) -> Outcomes[W, B]:
    """__htab_map_lookup_elem, rhtab_lookup_elem: the address of the element itself, NULL where there is none."""
    return found(site, state, key, site.element)


def lookup(site: Site[W, B], state: Hash[W], key: W) -> Outcomes[W, B]:
    """htab_map_lookup_elem, rhtab_map_lookup_elem: the address of the value, NULL where the key is not.

    The address is good until the element is deleted; a plain hash also replaces an element that is updated by
    another one. Then the memory keeps the old value until it is used again.
    """
    return found(site, state, key, partial(value_address, site))


def lookup_percpu(site: Site[W, B], state: Hash[W], key: W) -> Outcomes[W, B]:
    """htab_percpu_map_lookup_elem: this CPU's area of the value, NULL where the key is not."""
    return found(site, state, key, lambda number: site.this_cpu(pointer_in(site, number)))


def lookup_on_cpu(site: Site[W, B], state: Hash[W], key: W, cpu: W) -> Outcomes[W, B]:
    """htab_percpu_map_lookup_percpu_elem (5.19 on): the area of CPU `cpu` (32 bits), NULL from nr_cpu_ids on."""
    narrow, cases = site.bits.at(32), Cases(site.bits)
    yield cases.when(narrow.ule(narrow.const(site.cpus), cpu), site.bits.const(0))
    for entry, here in keyed(site, state, key):
        yield cases.when(here, site.per_cpu(pointer_in(site, entry.number), narrow.zext(cpu, 64)))
    yield cases.otherwise(site.bits.const(0))


def lookup_inner(site: Site[W, B], state: Hash[W], key: W) -> Outcomes[W, B]:
    """htab_of_map_lookup_elem: the inner map that the element points to, NULL where the key is not."""
    return found(site, state, key, partial(pointer_in, site))


def filled(site: Site[W, B], number: int, key: W, value: W) -> tuple[Write[W], ...]:
    """Key and value of a new element; in a per-CPU map this CPU's area gets the value, the others zeroes.

    (alloc_htab_elem, pcpu_init_value.)
    """
    shape, b = site.shape, site.bits
    put = Write(site.offset(site.element(number), site.place.key), shape.key_size, key)
    value_word = site.read(value, shape.copied)
    if not shape.percpu:
        return put, Write(value_address(site, number), shape.copied, value_word)
    pointer = site.offset(site.place.percpu, number * site.place.percpu_stride)
    zero = b.at(8 * shape.value_size).const(0)
    areas = [Write(site.per_cpu(pointer, b.const(cpu)), shape.value_size, zero) for cpu in range(site.cpus)]
    here = Write(site.this_cpu(pointer), shape.value_size, value_word)
    return put, Write(value_address(site, number), 8, pointer), *areas, here


def inserted(site: Site[W, B], state: Hash[W], key: W, value: W) -> Effect[W]:
    number, after = state.taken()
    word = site.read(key, site.shape.key_size)
    return Effect(filled(site, number, word, value), after.added(Entry(number, word, site.bucket(word))))


def replaced(site: Site[W, B], state: Hash[W], entry: Entry[W], value: W) -> Effect[W]:
    """A plain hash updates by a new element at the head of the bucket, then takes the old one out.

    Preallocated, the new one is the spare, and the old one becomes the spare; else it is allocated and the old one
    freed (htab_map_update_elem, alloc_htab_elem).
    """
    if preallocated(site):
        number, after = (state.spare, state) if state.spare is not None else state.fresh()
        after = replace(after, spare=entry.number)
    else:
        number, after = state.taken()
    added = after.added(Entry(number, entry.key, entry.bucket)).without(entry)
    if not preallocated(site):
        added = added.released(entry.number)
    return Effect(filled(site, number, entry.key, value), added)


def overwritten(site: Site[W, B], state: Hash[W], entry: Entry[W], value: W) -> Effect[W]:
    """value_size bytes into the value in place, of this CPU in a per-CPU map (pcpu_copy_value)."""
    to = value_address(site, entry.number)
    if site.shape.percpu:
        to = site.this_cpu(pointer_in(site, entry.number))
    return Effect((Write(to, site.shape.value_size, site.read(value, site.shape.value_size)),))


Existing = Callable[[Site[W, B], Hash[W], Entry[W], W], Effect[W]]


def changed(
    site: Site[W, B], cases: Cases[W, B], state: Hash[W], key: W, value: W, flags: W, existing: Existing[W, B]
) -> Outcomes[W, B]:
    """What updates decide once the flags are known: the key is there and NOEXIST -EEXIST; it is not and EXIST -ENOENT;
    the key is new and there are max_entries already -E2BIG. `existing` changes an element that is there.
    """
    b = site.bits
    for entry, here in keyed(site, state, key):
        yield cases.error(b.conj(here, b.eq(flags, b.const(BPF_NOEXIST))), EEXIST)
        yield cases.when(here, b.const(0), partial(existing, site, state, entry, value))
    yield cases.error(b.eq(flags, b.const(BPF_EXIST)), ENOENT)
    if len(state.entries) >= site.shape.max_entries:
        yield cases.otherwise(b.const(-E2BIG))
    else:
        yield cases.otherwise(b.const(0), partial(inserted, site, state, key, value))


def _lockable(site: Site[W, B], cases: Cases[W, B], flags: W) -> Outcomes[W, B]:
    """Flags other than ANY, NOEXIST, EXIST and F_LOCK: -EINVAL; then F_LOCK, as there is no spin lock: -EINVAL."""
    b = site.bits
    yield cases.error(above_exist(b, b.bvand(flags, b.const(~BPF_F_LOCK))), EINVAL)
    yield cases.error(has(b, flags, BPF_F_LOCK), EINVAL)


def update(site: Site[W, B], state: Hash[W], key: W, value: W, flags: W) -> Outcomes[W, B]:
    """htab_map_update_elem: the errors of `_lockable`, then those of `changed`; an old element is replaced."""
    cases = Cases(site.bits)
    yield from _lockable(site, cases, flags)
    yield from changed(site, cases, state, key, value, flags, replaced)


def update_percpu(site: Site[W, B], state: Hash[W], key: W, value: W, flags: W) -> Outcomes[W, B]:
    """htab_percpu_map_update_elem: flags from 3 on (F_LOCK too) -EINVAL, then as `changed`; an old element is kept."""
    cases = Cases(site.bits)
    yield cases.error(above_exist(site.bits, flags), EINVAL)
    yield from changed(site, cases, state, key, value, flags, overwritten)


def update_rhash(site: Site[W, B], state: Hash[W], key: W, value: W, flags: W) -> Outcomes[W, B]:
    """rhtab_map_update_elem (7.2 on): the errors of `update` in its order, but an old element is kept."""
    cases = Cases(site.bits)
    yield from _lockable(site, cases, flags)
    yield from changed(site, cases, state, key, value, flags, overwritten)


def delete(site: Site[W, B], state: Hash[W], key: W) -> Outcomes[W, B]:
    """htab_map_delete_elem, rhtab_map_delete_elem: -ENOENT where the key is not. The value's memory stays as it is."""
    cases = Cases(site.bits)
    for entry, here in keyed(site, state, key):
        yield cases.when(here, site.bits.const(0), partial(_deleted, state, entry))
    yield cases.otherwise(site.bits.const(-ENOENT))


def _deleted(state: Hash[W], entry: Entry[W]) -> Effect[W]:
    return Effect((), state.without(entry).released(entry.number))
