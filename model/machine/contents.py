"""What a program's user can see of a map and put into it: its elements by their keys.

Where the kernel keeps an element, and which memory is free, is not part of it: two programs that put the same elements
into a hash in another order leave the same.
"""

from collections.abc import Mapping
from typing import Any

from model.errors import Unsupported
from model.machine.map_objects import Made, per_cpu
from model.machine.maps_kernel import MapsKernel
from model.maps.bloom import Bloom
from model.maps.hash import Hash
from model.maps.lpm import Trie
from model.maps.lru_hash import LruHash
from model.maps.queue_stack import Queue
from model.maps.state import ARRAY_VALUE

Contents = Mapping[bytes, bytes]
"""Value by key; an array has its index as four bytes, a queue or stack the place in it; of CPUs, the program's."""


def visible(kernel: MapsKernel, made: Made) -> Contents:
    shape, memory, order = made.shape, kernel.memory, kernel.memory.order
    state = made.state.table if isinstance(made.state, LruHash) else made.state
    match state:
        case Hash():
            size = shape.key_size
            return {one.key.to_bytes(size, "little"): _element(kernel, made, one.number) for one in state.entries}
        case Queue():
            size = shape.value_size
            values = enumerate(state.values)
            return {number.to_bytes(4, order): value.to_bytes(size, "little") for number, value in values}
        case Trie():
            return {_prefix(one, shape.key_size): _element(kernel, made, one.number) for one in state.prefixes}
        case Bloom():
            bits = state.bitset
            return {b"": bits.to_bytes(max(1, (bits.bit_length() + 7) // 8), "little")}
    if shape.percpu:
        places = [
            per_cpu(made.place.percpu + i * made.place.percpu_stride, kernel.cpu) for i in range(shape.max_entries)
        ]
        return {i.to_bytes(4, order): memory.read(place, shape.value_size) for i, place in enumerate(places)}
    if "array" in shape.type and shape.type != "prog_array":
        return _Array(memory.read(made.address + ARRAY_VALUE, shape.elem_size * shape.max_entries), made, order)
    return {}


def put(kernel: MapsKernel, made: Made, key: bytes, value: bytes) -> int:
    """An element put into the map as by the system call, without flags: 0 or -errno. An empty key pushes.

    Raises `Unsupported` for a type whose operation the model does not have.
    """
    slot = "map_update_elem" if key else "map_push_elem"
    function = kernel.release.operation(made.shape.type, slot)
    if function is None:
        raise Unsupported(f"an element put into a map of type {made.shape.type}")
    places = [kernel.memory.place("a key or value", data) for data in (key, value) if data]
    try:
        return kernel.operate(made, function.name, *(place.base for place in places), 0)
    finally:
        for place in places:
            kernel.memory.remove(place)


def _element(kernel: MapsKernel, made: Made, number: int) -> bytes:
    if made.shape.percpu:
        place = per_cpu(made.place.percpu + number * made.place.percpu_stride, kernel.cpu)
        return kernel.memory.read(place, made.shape.value_size)
    place = made.place.pool + number * made.place.stride + made.place.value
    return kernel.memory.read(place, made.shape.copied)


def _prefix(prefix: Any, key_size: int) -> bytes:
    """A trie's key: its length in bits, then the data from the highest byte on."""
    return bytes(prefix.length.to_bytes(4, "little") + prefix.data.to_bytes(key_size - 4, "big"))


class _Array(Mapping[bytes, bytes]):
    """An array's elements out of its memory: it may have many."""

    def __init__(self, data: bytes, made: Made, order: Any) -> None:
        self._data, self._step, self._size = data, made.shape.elem_size, made.shape.value_size
        self._order = order

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Array) and self._data == other._data

    __hash__ = None  # type: ignore[assignment]

    def __getitem__(self, key: bytes) -> bytes:
        at = int.from_bytes(key, self._order) * self._step
        if not 0 <= at < len(self._data):
            raise KeyError(key)
        return self._data[at : at + self._size]

    def __iter__(self) -> Any:
        return (i.to_bytes(4, self._order) for i in range(len(self._data) // self._step))

    def __len__(self) -> int:
        return len(self._data) // self._step
