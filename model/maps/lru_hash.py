"""LRU_HASH and LRU_PERCPU_HASH (kernel/bpf/hashtab.c): hashes that give up elements for new ones.

An update takes a free element before it looks at the key, and taking it may push others out of the table, the key's own
too; so a NOEXIST that is refused can cost an element. Order and choice: `model.maps.lru`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Generic

from model.bits import B, W
from model.maps import hash as table
from model.maps.errors import EEXIST, EINVAL, ENOENT
from model.maps.hash import Entry, Hash, keyed, pointer_in, value_address
from model.maps.lru import Lists, Lru, concrete, rules
from model.maps.state import (
    BPF_EXIST,
    BPF_NOEXIST,
    Cases,
    Effect,
    Outcomes,
    Site,
    Write,
    above_exist,
)


@dataclass(frozen=True, slots=True)
class LruHash(Generic[W]):
    table: Hash[W]
    lru: Lru


def empty(max_entries: int) -> LruHash[W]:
    """bpf_common_lru_populate: all elements on the free list, the last one first."""
    return LruHash(Hash(made=max_entries), Lru(tuple(range(max_entries - 1, -1, -1))))


def _marked(site: Site[W, B], number: int) -> Write[W]:
    """bpf_lru_node_set_ref."""
    return Write(site.offset(site.element(number), site.place.ref), 1, site.bits.at(8).const(1))


def _found(site: Site[W, B], state: LruHash[W], key: W, result: Callable[[int], W]) -> Outcomes[W, B]:
    """As `hash.found`, and the element is marked."""
    cases = Cases(site.bits)
    for entry, here in keyed(site, state.table, key):
        yield cases.when(here, result(entry.number), partial(Effect, (_marked(site, entry.number),)))
    yield cases.otherwise(site.bits.const(0))


def lookup_element(site: Site[W, B], state: LruHash[W], key: W) -> Outcomes[W, B]:
    """__htab_map_lookup_elem: no mark (inlined lookups set it themselves)."""
    return table.lookup_element(site, state.table, key)


def lookup(site: Site[W, B], state: LruHash[W], key: W) -> Outcomes[W, B]:
    """htab_lru_map_lookup_elem: the value's address, NULL where the key is not; marks the element."""
    return _found(site, state, key, partial(value_address, site))


def lookup_unmarked(site: Site[W, B], state: LruHash[W], key: W) -> Outcomes[W, B]:
    """htab_lru_map_lookup_elem_sys: what the system call uses; no mark."""
    return table.lookup(site, state.table, key)


def lookup_percpu(site: Site[W, B], state: LruHash[W], key: W) -> Outcomes[W, B]:
    """htab_lru_percpu_map_lookup_elem: this CPU's area; marks the element."""
    return _found(site, state, key, lambda number: site.this_cpu(pointer_in(site, number)))


def lookup_on_cpu(site: Site[W, B], state: LruHash[W], key: W, cpu: W) -> Outcomes[W, B]:
    """htab_lru_percpu_map_lookup_percpu_elem (5.19 on): NULL from nr_cpu_ids on, else marks the element."""
    narrow, cases = site.bits.at(32), Cases(site.bits)
    yield cases.when(narrow.ule(narrow.const(site.cpus), cpu), site.bits.const(0))
    wide = narrow.zext(cpu, 64)
    for outcome in _found(site, state, key, lambda number: site.per_cpu(pointer_in(site, number), wide)):
        yield cases.when(outcome.guard, outcome.result, outcome.effect)


@dataclass(slots=True)
class _Change(Generic[W, B]):
    """An update or delete under way: the table, the lists, and the marks as they will be."""

    site: Site[W, B]
    table: Hash[W]
    lru: Lru
    marks: dict[int, int] = field(default_factory=dict)

    def _lists(self) -> Lists:
        shape = self.site.shape
        known = rules(shape.max_entries, self.site.cpus, shape.release)
        return Lists(self.lru, known, self._is_marked, self._clear, self._drop)

    def _is_marked(self, number: int) -> bool:
        known = self.marks.get(number)
        if known is None:
            known = concrete(self.site.memory.load(self.site.offset(self.site.element(number), self.site.place.ref), 1))
        return known != 0

    def _clear(self, number: int) -> None:
        self.marks[number] = 0

    def _drop(self, number: int) -> None:
        """htab_lru_map_delete_node."""
        gone = next(entry for entry in self.table.entries if entry.number == number)
        self.table = self.table.without(gone)

    def pop(self) -> int:
        lists = self._lists()
        number = lists.pop()
        self.lru = lists.lru()
        return number

    def pushed(self, number: int) -> "_Change[W, B]":
        """A copy in which `number` is free again."""
        other = replace(self, marks=dict(self.marks))
        lists = other._lists()
        lists.push(number)
        other.lru = lists.lru()
        return other

    def effect(self, *writes: Write[W]) -> Effect[W]:
        site = self.site
        marks = [
            Write(site.offset(site.element(number), site.place.ref), 1, site.bits.at(8).const(mark))
            for number, mark in self.marks.items()
        ]
        return Effect((*marks, *writes), LruHash(self.table, self.lru))


def update(site: Site[W, B], state: LruHash[W], key: W, value: W, flags: W) -> Outcomes[W, B]:
    """htab_lru_map_update_elem: flags from 3 on (F_LOCK too) -EINVAL; then an element is taken, and key and value are
    put there; then the key is there and NOEXIST -EEXIST, it is not and EXIST -ENOENT. An old element is replaced, and
    the new one marked. (-ENOMEM needs a second CPU.)
    """
    b = site.bits
    cases = Cases(b)
    yield cases.error(above_exist(b, flags), EINVAL)
    word = site.read(key, site.shape.key_size)
    change = _Change(site, state.table, state.lru)
    number = change.pop()
    new = Entry(number, word, site.bucket(word))
    put = table.filled(site, number, word, value)

    def back() -> Effect[W]:
        return change.pushed(number).effect(*put)

    def replaced(old: Entry[W]) -> Effect[W]:
        other = replace(change, table=change.table.added(new).without(old)).pushed(old.number)
        return other.effect(*put, _marked(site, number))

    for entry, here in keyed(site, change.table, key):
        yield cases.when(b.conj(here, b.eq(flags, b.const(BPF_NOEXIST))), b.const(-EEXIST), back)
        yield cases.when(here, b.const(0), partial(replaced, entry))
    yield cases.when(b.eq(flags, b.const(BPF_EXIST)), b.const(-ENOENT), back)
    yield cases.otherwise(b.const(0), lambda: replace(change, table=change.table.added(new)).effect(*put))


def update_percpu(site: Site[W, B], state: LruHash[W], key: W, value: W, flags: W) -> Outcomes[W, B]:
    """htab_lru_percpu_map_update_elem: as `update`, but with EXIST no element is taken, and an old element is kept,
    overwritten on this CPU and marked. An element that is taken gets the key at once (prealloc_lru_pop), also where it
    is given back: a walk that stands on it sees that.
    """
    b = site.bits
    exist = b.eq(flags, b.const(BPF_EXIST))
    cases = Cases(b)
    yield cases.error(above_exist(b, flags), EINVAL)

    def kept(change: _Change[W, B], entry: Entry[W], *first: Write[W]) -> Effect[W]:
        written = table.overwritten(site, change.table, entry, value).writes
        return change.effect(*first, _marked(site, entry.number), *written)

    def taken() -> Write[W]:
        return Write(site.offset(site.element(number), site.place.key), site.shape.key_size, word)

    def back() -> Effect[W]:
        return change.pushed(number).effect(taken())

    def kept_and_back(entry: Entry[W]) -> Effect[W]:
        return kept(change.pushed(number), entry, taken())

    before = _Change(site, state.table, state.lru)
    for entry, here in keyed(site, state.table, key):
        yield cases.when(b.conj(exist, here), b.const(0), partial(kept, before, entry))
    yield cases.error(exist, ENOENT)
    word = site.read(key, site.shape.key_size)
    change = _Change(site, state.table, state.lru)
    number = change.pop()
    new = Entry(number, word, site.bucket(word))
    for entry, here in keyed(site, change.table, key):
        yield cases.when(b.conj(here, b.eq(flags, b.const(BPF_NOEXIST))), b.const(-EEXIST), back)
        yield cases.when(here, b.const(0), partial(kept_and_back, entry))
    after = replace(change, table=change.table.added(new))
    yield cases.otherwise(b.const(0), lambda: after.effect(*table.filled(site, number, word, value)))


def delete(site: Site[W, B], state: LruHash[W], key: W) -> Outcomes[W, B]:
    """htab_lru_map_delete_elem: -ENOENT where the key is not."""
    cases = Cases(site.bits)

    def freed(entry: Entry[W]) -> Effect[W]:
        return _Change(site, state.table.without(entry), state.lru).pushed(entry.number).effect()

    for entry, here in keyed(site, state.table, key):
        yield cases.when(here, site.bits.const(0), partial(freed, entry))
    yield cases.otherwise(site.bits.const(-ENOENT))
