"""Byte-addressed memory over any words."""

from dataclasses import dataclass, replace
from typing import Generic, Protocol, Self, TypeVar

from model.world import World

W = TypeVar("W")
B = TypeVar("B")


class Memory(Protocol[W]):
    """A value: stores give a new memory. Addresses are 64-bit words, sizes are bytes (1, 2, 4, 8).

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
