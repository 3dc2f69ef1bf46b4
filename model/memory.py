"""Byte-addressed memory over any words."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, Literal, Protocol, Self, TypeVar

from model.bits import Bits
from model.world import World

W = TypeVar("W")
B = TypeVar("B")


class Memory(Protocol[W]):
    """A value: stores give a new memory. Addresses are 64-bit words, sizes are bytes (1, 2, 4, 8).

    Where the old memory is never used again, a store may change it in place and give it back.
    Loads and stores are in the host's byte order (RFC 9669, section 5.1), so a word stored is the word
    loaded back at the same address and size.
    """

    def load(self, address: W, size: int) -> W:
        """The word of 8 × size bits at `address`."""
        ...

    def store(self, address: W, size: int, value: W) -> Self:
        """The memory with `value` (8 × size bits) at `address`."""
        ...


@dataclass(frozen=True, slots=True)
class Outside(Generic[W, B]):
    """Everything outside of the registers, with unknown content: a `Memory` of unknown functions.

    Three 64-bit names stand for what memory holds, for the rest of the kernel's state, and for the
    callbacks that were made so far. A store gives a name that depends on address, size and value, so two
    memories are known to be equal only if the same stores made them in the same order.
    """

    world: World[W, B]
    memory: W
    kernel: W
    callbacks: W

    def load(self, address: W, size: int) -> W:
        return self.world.apply(f"load{8 * size}", 8 * size, [(address, 64), (self.memory, 64)])

    def store(self, address: W, size: int, value: W) -> "Outside[W, B]":
        arguments = [(self.memory, 64), (address, 64), (value, 8 * size)]
        return replace(self, memory=self.world.apply(f"store{8 * size}", 64, arguments))


@dataclass(frozen=True, slots=True)
class Cells(Generic[W, B]):
    """Bytes, one by one, over any words: a `Memory` that knows which bytes a load sees.

    `initial` gives the byte (8 bits) that an address held at first; `written` the stores since, newest first,
    as (address, byte). Addresses may be unknown: a load compares them with every store, so its size grows
    with the number of stores. `order` is the host's byte order.
    """

    bits: Bits[W, B]  # at 64 bits
    initial: Callable[[W], W]
    written: tuple[tuple[W, W], ...] = ()
    order: Literal["little", "big"] = "little"

    def _byte(self, address: W) -> W:
        byte = self.initial(address)
        for at, value in reversed(self.written):
            byte = self.bits.at(8).ite(self.bits.eq(at, address), value, byte)
        return byte

    def _places(self, address: W, size: int) -> list[W]:
        """The addresses of the bytes, the least significant first."""
        places = [self.bits.add(address, self.bits.const(i)) for i in range(size)]
        return places if self.order == "little" else places[::-1]

    def load(self, address: W, size: int) -> W:
        places = self._places(address, size)
        word = self._byte(places[0])
        for i, place in enumerate(places[1:], 1):
            word = self.bits.at(8).concat(self._byte(place), word, 8 * i)
        return word

    def store(self, address: W, size: int, value: W) -> "Cells[W, B]":
        word = self.bits.at(8 * size)
        places = self._places(address, size)
        bytes_ = tuple((place, word.extract(value, 8 * i + 7, 8 * i)) for i, place in enumerate(places))
        return replace(self, written=bytes_ + self.written)
