"""Byte-addressed memory over any words."""

from typing import Protocol, Self, TypeVar

W = TypeVar("W")


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
