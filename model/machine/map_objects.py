"""Maps as objects in the machine's memory: created once, their elements' memory added as they are used."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from model.bits import IntBits
from model.errors import Unsupported
from model.kernel.release import Release
from model.machine.layout import MAPS_BASE, PERCPU_AREAS, PERCPU_DISTANCE, PERCPU_POINTERS, offset
from model.machine.outcome import Violation
from model.machine.regions import GUARD, Region, Regions
from model.maps.create import refusal
from model.maps.errors import NAMES
from model.maps.jhash import jhash
from model.maps.operations import empty_state
from model.maps.state import ARRAY_VALUE, PERCPU, Place, Shape, Site, round_up, store
from model.program import Map, Program

BITS = IntBits(64)
_NARROW = IntBits(32)
MOST_BYTES = 256 << 20
"""Memory of all arrays of a machine."""
MOST_POOL = 1 << 44
HASHES = frozenset({"hash", "percpu_hash", "lru_hash", "lru_percpu_hash", "hash_of_maps", "rhash"})
POOLED = HASHES | {"lpm_trie"}
"""Types with elements in a pool. Operations of others write to values that the program gives, wherever those are."""


@dataclass(slots=True, eq=False)
class Made:
    """A map of the machine: its parameters, its place, its state; `programs` by index, of a program array."""

    map: Map
    shape: Shape
    place: Place[int]
    state: Any
    element_size: int
    elements: set[int] = field(default_factory=set)
    programs: dict[int, Program] = field(default_factory=dict)

    @property
    def address(self) -> int:
        return self.place.base


def per_cpu(pointer: int, cpu: int) -> int:
    """per_cpu_ptr."""
    return (pointer + PERCPU_AREAS + cpu * PERCPU_DISTANCE) & 0xFFFFFFFFFFFFFFFF


@dataclass(slots=True, eq=False)
class MapObjects:
    """All maps of a machine with `cpus` possible CPUs; the program runs on `cpu`."""

    memory: Regions
    release: Release
    cpus: int
    cpu: int
    by_address: dict[int, Made] = field(default_factory=dict)
    _next: int = MAPS_BASE
    _next_percpu: int = PERCPU_POINTERS
    _bytes: int = 0

    def make(self, map_: Map) -> Made:
        """A new, empty map. Raises `Unsupported` for one that is not modelled, or that the kernel does not create."""
        shape = self._shape(map_)
        state = empty_state(shape)
        place, element_size = self._place(shape)
        made = Made(map_, shape, place, state, element_size)
        self.memory.add(Region(f"map {map_.name}", place.base, bytearray(ARRAY_VALUE), writable=False))
        if shape.type in ("array", "percpu_array", "array_of_maps"):
            self._array(made)
        self.by_address[place.base] = made
        return made

    def _shape(self, map_: Map) -> Shape:
        sizes = (map_.key_size, map_.value_size, map_.max_entries)
        if map_.type is None or any(size is None for size in sizes):
            raise Unsupported(f"map {map_.name}, of which the input does not tell type and sizes")
        if map_.type not in self.release.map_types:
            raise Unsupported(f"map {map_.name}: {self.release.name} has no maps of type {map_.type}")
        key_size, value_size, most = (size or 0 for size in sizes)
        shape = Shape(map_.type, key_size, value_size, most, map_.flags or 0, self.release.version, map_.extra)
        errno = refusal(shape)
        if errno:
            raise Unsupported(f"map {map_.name}, which the kernel refuses to create (-{NAMES.get(errno, errno)})")
        return shape

    def _place(self, shape: Shape) -> tuple[Place[int], int]:
        """Addresses for a new map, and the bytes of one of its elements."""
        kind = "struct rhtab_elem.data" if shape.type == "rhash" else "struct htab_elem.key"
        key = offset(self.release, kind)
        value = key + round_up(shape.key_size)
        if shape.type == "lpm_trie":
            key, value = 0, 40 + shape.key_size - 4
        pointers = shape.type in PERCPU or shape.type == "hash_of_maps"
        size = value + (8 if pointers else round_up(shape.value_size))
        ref = offset(self.release, "struct htab_elem.lru_node") + offset(self.release, "struct bpf_lru_node.ref")
        stride = (size + 64 + 63) & ~63
        percpu_stride = round_up(shape.value_size) + 64
        base = self._next
        pool = base + self._room(shape)
        numbers = 1 << 22 if shape.type == "lpm_trie" else shape.max_entries + self.cpus
        self._next = (pool + min(numbers * stride, MOST_POOL) + GUARD + 63) & ~63
        percpu = self._next_percpu
        if shape.percpu:
            self._next_percpu += numbers * percpu_stride + GUARD
        return Place(base, pool, stride, key, value, ref, percpu, percpu_stride), size

    def _room(self, shape: Shape) -> int:
        """Bytes from a map to its pool of elements: the map, an array's values, a guard."""
        values = shape.elem_size * shape.max_entries if "array" in shape.type else 0
        return (ARRAY_VALUE + values + GUARD + 63) & ~63

    def _array(self, made: Made) -> None:
        shape, place = made.shape, made.place
        size = shape.elem_size * shape.max_entries
        areas = round_up(shape.value_size) * shape.max_entries * self.cpus if shape.percpu else 0
        self._bytes += size + areas
        if self._bytes > MOST_BYTES:
            raise Unsupported(f"arrays of more than {MOST_BYTES >> 20} MiB")
        values = bytearray(size)
        name = made.map.name
        if shape.percpu:
            for index in range(shape.max_entries):
                pointer = place.percpu + index * place.percpu_stride
                values[8 * index : 8 * index + 8] = pointer.to_bytes(8, self.memory.order)
                self._areas(f"element {index} of {name}", pointer, shape.value_size)
        pointers = shape.type != "array"
        what = "pointers" if pointers else "values"
        self.memory.add(Region(f"{what} of {name}", place.base + ARRAY_VALUE, values, writable=not pointers))

    def _areas(self, name: str, pointer: int, value_size: int) -> None:
        for cpu in range(self.cpus):
            area = bytearray(round_up(value_size))
            self.memory.add(Region(f"{name} on CPU {cpu}", per_cpu(pointer, cpu), area))

    def element(self, made: Made, number: int) -> None:
        """Makes sure that the memory of element `number` of a hash or trie is there."""
        if number in made.elements:
            return
        made.elements.add(number)
        name = f"element {number} of {made.map.name}"
        self.memory.add(Region(name, made.place.pool + number * made.place.stride, bytearray(made.element_size)))
        if made.shape.percpu:
            self._areas(name, made.place.percpu + number * made.place.percpu_stride, made.shape.value_size)

    def site(self, made: Made) -> Site[int, bool]:
        shape, cpu = made.shape, self.cpu
        return Site(BITS, self.memory, shape, made.place, cpu, self.cpus, _bucket(shape), per_cpu)

    def apply(self, made: Made, outcomes: Any) -> int:
        """The result (64 bits, unsigned) of the outcome that holds; what it does is done."""
        outcome = next(outcome for outcome in outcomes if outcome.guard)
        effect = outcome.effect()
        place = made.place
        for write in effect.writes:
            number = (write.address - place.pool) // place.stride
            if made.shape.type in POOLED and 0 <= write.address - place.pool < MOST_POOL:
                self.element(made, number)
            store(BITS, self.memory, write)
        if effect.state is not None:
            made.state = effect.state
        result: int = outcome.result
        return result

    def at(self, address: int) -> Made:
        made = self.by_address.get(address)
        if made is None:
            raise Violation(f"0x{address:x} is not the address of a map")
        return made


def _bucket(shape: Shape) -> Callable[[int], int]:
    """htab_map_hash and select_bucket for a seed of 0 (BPF_F_ZERO_SEED; else one of the possible orders)."""
    if shape.type not in HASHES or shape.type == "rhash":
        return lambda key: 0
    mask = (1 << (shape.max_entries - 1).bit_length()) - 1
    return lambda key: jhash(_NARROW, key, shape.key_size, 0) & mask
