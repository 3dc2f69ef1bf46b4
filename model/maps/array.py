"""ARRAY, PERCPU_ARRAY and the lookup of ARRAY_OF_MAPS (kernel/bpf/arraymap.c; 5.10, 6.1, 6.12 and 7.3 agree)."""

from dataclasses import dataclass

from model.bits import B, W
from model.maps.errors import E2BIG, EEXIST, EINVAL
from model.maps.state import (
    ARRAY_VALUE,
    BPF_F_LOCK,
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
class Array:
    """Elements are there from creation to the end: an array's state is its memory."""


def element(site: Site[W, B], index: W) -> W:
    """array->value + (u64)elem_size * (index & index_mask), 64 bits, for a u32 `index` of 32 bits.

    (array_map_lookup_elem. In a per-CPU array, and in one of maps, this is where the element's pointer is.)
    """
    b, narrow, shape = site.bits, site.bits.at(32), site.shape
    masked = narrow.zext(narrow.bvand(index, narrow.const(shape.index_mask)), 64)
    return b.add(site.offset(site.place.base, ARRAY_VALUE), b.mul(b.const(shape.elem_size), masked))


def _inside(site: Site[W, B], key: W) -> tuple[B, W]:
    """Whether the u32 at `key` is below max_entries, and that index, or 0 where it is not."""
    narrow = site.bits.at(32)
    index = site.memory.load(key, 4)
    inside = narrow.ult(index, narrow.const(site.shape.max_entries))
    return inside, narrow.ite(inside, index, narrow.const(0))


def lookup(site: Site[W, B], state: Array, key: W) -> Outcomes[W, B]:
    """array_map_lookup_elem: the element's address, NULL from max_entries on. An element stays where it is for good."""
    cases, (inside, index) = Cases(site.bits), _inside(site, key)
    yield cases.when(inside, element(site, index))
    yield cases.otherwise(site.bits.const(0))


def lookup_percpu(site: Site[W, B], state: Array, key: W) -> Outcomes[W, B]:
    """percpu_array_map_lookup_elem: this CPU's area of the element, NULL from max_entries on."""
    cases, (inside, index) = Cases(site.bits), _inside(site, key)
    yield cases.when(inside, site.this_cpu(site.memory.load(element(site, index), 8)))
    yield cases.otherwise(site.bits.const(0))


def lookup_on_cpu(site: Site[W, B], state: Array, key: W, cpu: W) -> Outcomes[W, B]:
    """percpu_array_map_lookup_percpu_elem (5.19 on): the area of the CPU `cpu` (u32, 32 bits), NULL from nr_cpu_ids on,
    whatever the key.
    """
    narrow = site.bits.at(32)
    cases, (inside, index) = Cases(site.bits), _inside(site, key)
    yield cases.when(narrow.ule(narrow.const(site.cpus), cpu), site.bits.const(0))
    yield cases.when(inside, site.per_cpu(site.memory.load(element(site, index), 8), site.bits.at(32).zext(cpu, 64)))
    yield cases.otherwise(site.bits.const(0))


def update(site: Site[W, B], state: Array, key: W, value: W, flags: W) -> Outcomes[W, B]:
    """array_map_update_elem: value_size bytes copied into the element, of this CPU in a per-CPU array.

    In this order: flags other than ANY, NOEXIST, EXIST and F_LOCK give -EINVAL; an index from max_entries on -E2BIG;
    NOEXIST (every element exists) -EEXIST; F_LOCK, as there is no spin lock, -EINVAL.
    """
    b, size = site.bits, site.shape.value_size
    cases, (inside, index) = Cases(b), _inside(site, key)
    yield cases.error(above_exist(b, b.bvand(flags, b.const(~BPF_F_LOCK))), EINVAL)
    yield cases.error(b.negate(inside), E2BIG)
    yield cases.error(has(b, flags, BPF_NOEXIST), EEXIST)
    yield cases.error(has(b, flags, BPF_F_LOCK), EINVAL)

    def copy() -> Effect[W]:
        to = element(site, index)
        if site.shape.percpu:
            to = site.this_cpu(site.memory.load(to, 8))
        return Effect((Write(to, size, site.read(value, size)),))

    yield cases.otherwise(b.const(0), copy)


def delete(site: Site[W, B], state: Array, key: W) -> Outcomes[W, B]:
    """array_map_delete_elem: always -EINVAL."""
    yield Cases(site.bits).otherwise(site.bits.const(-EINVAL))


def lookup_inner(site: Site[W, B], state: Array, key: W) -> Outcomes[W, B]:
    """array_of_map_lookup_elem: the inner map that the element points to, NULL where there is none."""
    cases, (inside, index) = Cases(site.bits), _inside(site, key)
    yield cases.when(inside, site.memory.load(element(site, index), 8))
    yield cases.otherwise(site.bits.const(0))
