"""Concrete memory: regions of bytes with bounds, at 64-bit addresses that are the same in every run."""

from bisect import bisect_right, insort
from dataclasses import dataclass, field
from typing import Literal

from model.machine.outcome import Violation

STACK_BASE = 0xFFFFC90000000000
"""Behind the entry's stack frame lies the next one's; `STACK_STRIDE` bytes from end to end."""
STACK_STRIDE = 0x2000
CONTEXT_BASE = 0xFFFF888100000000
OBJECT_BASE = 0xFFFF888200000000
"""Where `Regions.place` puts what the kernel allocates: maps, their values."""
CODE_BASE = 0xFFFFFFFFC0000000
"""Addresses of callbacks: no memory is there."""
GUARD = 0x1000
"""Bytes between two regions at least; a pointer below is a null pointer with an offset."""


@dataclass(slots=True, eq=False)
class Region:
    """`data` at the addresses from `base` on. `known` has a 1 for each byte that was written, None where all are."""

    name: str
    base: int
    data: bytearray
    writable: bool = True
    known: bytearray | None = None

    @property
    def end(self) -> int:
        return self.base + len(self.data)


@dataclass(slots=True)
class Regions:
    """A `Memory[int]` that changes in place. `order` is the host's byte order.

    Every access that is not inside of one region, reads a byte that nobody wrote, or writes to a region that
    is read-only, raises `Violation`.
    """

    order: Literal["little", "big"] = "little"
    _regions: list[Region] = field(default_factory=list)
    _bases: list[int] = field(default_factory=list)
    _next: int = OBJECT_BASE
    _last: Region = field(default_factory=lambda: Region("nothing", 0, bytearray()))

    def add(self, region: Region) -> Region:
        """Raises `ValueError` when the region meets another one."""
        index = bisect_right(self._bases, region.base)
        before = self._regions[index - 1] if index else None
        after = self._regions[index] if index < len(self._regions) else None
        if (before and before.end > region.base) or (after and after.base < region.end):
            raise ValueError(f"region {region.name} at 0x{region.base:x} overlaps another")
        insort(self._bases, region.base)
        self._regions.insert(index, region)
        return region

    def place(self, name: str, data: bytes | bytearray, *, writable: bool = True) -> Region:
        """A new region with `data`, at the next free address of the kernel's objects (64-byte aligned)."""
        base = self._next
        self._next += (len(data) + GUARD + 63) & ~63
        return self.add(Region(name, base, bytearray(data), writable))

    def remove(self, region: Region) -> None:
        """Later accesses are out of bounds (freed memory)."""
        index = bisect_right(self._bases, region.base) - 1
        while self._regions[index] is not region:
            index -= 1
        del self._bases[index], self._regions[index]
        self._last = Region("nothing", 0, bytearray())

    def find(self, address: int, size: int) -> Region:
        """The region that holds all `size` bytes at `address`."""
        index = bisect_right(self._bases, address) - 1
        if index >= 0:
            region = self._regions[index]
            if address + size <= region.end:
                self._last = region
                return region
        raise Violation(f"{size} byte{'s' * (size > 1)} at 0x{address:x}: {self._nearest(address)}")

    def _nearest(self, address: int) -> str:
        if address < GUARD:
            return "null pointer" + (f" + {address}" if address else "")
        index = bisect_right(self._bases, address) - 1
        near = self._regions[max(index, 0) : index + 2]
        if not near:
            return "out of bounds: no memory is there"
        closest = min(near, key=lambda region: min(abs(address - region.base), abs(address - region.end)))
        offset = address - closest.base
        if abs(offset) > 1 << 32:
            return "out of bounds: no memory is there"
        return f"out of bounds: offset {offset} in {closest.name} of {len(closest.data)} bytes"

    def load(self, address: int, size: int) -> int:
        region = self._last
        offset = address - region.base
        if offset < 0 or offset + size > len(region.data):
            region = self.find(address, size)
            offset = address - region.base
        if region.known is not None and 0 in region.known[offset : offset + size]:
            raise Violation(f"{size} byte{'s' * (size > 1)} at 0x{address:x}: uninitialised {_place(region, offset)}")
        return int.from_bytes(region.data[offset : offset + size], self.order)

    def store(self, address: int, size: int, value: int) -> "Regions":
        region = self._last
        offset = address - region.base
        if offset < 0 or offset + size > len(region.data):
            region = self.find(address, size)
            offset = address - region.base
        if not region.writable:
            raise Violation(f"{size} byte{'s' * (size > 1)} at 0x{address:x}: {region.name} is read-only")
        region.data[offset : offset + size] = value.to_bytes(size, self.order)
        if region.known is not None:
            region.known[offset : offset + size] = b"\1" * size
        return self

    def read(self, address: int, size: int) -> bytes:
        """`size` bytes (0 or more), as a helper reads its argument. Raises `Violation` like `load`."""
        region = self.find(address, size)
        offset = address - region.base
        if region.known is not None and 0 in region.known[offset : offset + size]:
            raise Violation(f"{size} bytes at 0x{address:x}: uninitialised {_place(region, offset)}")
        return bytes(region.data[offset : offset + size])

    def write(self, address: int, data: bytes) -> None:
        """As a helper writes to its argument. Raises `Violation` like `store`."""
        region = self.find(address, len(data))
        if not region.writable:
            raise Violation(f"{len(data)} bytes at 0x{address:x}: {region.name} is read-only")
        offset = address - region.base
        region.data[offset : offset + len(data)] = data
        if region.known is not None:
            region.known[offset : offset + len(data)] = b"\1" * len(data)


def _place(region: Region, offset: int) -> str:
    """The stack by its distance from r10, other regions by their offset."""
    if region.base >= STACK_BASE:
        return f"{region.name} (r10{offset - len(region.data):+d})"
    return f"{region.name} (offset {offset})"
