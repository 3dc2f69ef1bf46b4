"""Memory of a run over symbols: a function's own stack frames and context by their bytes, all else by name.

What the verifier has accepted reaches a frame only by r10, and the context only by the register that it came in
(check_mem_access, kernel/bpf/verifier.c, 7.3): no map's value and no kernel structure is there. So two programs that
write the same bytes, in whatever order and at whatever place of their frames, are seen to do the same. Other memory
is `model.memory.Outside`; stores in a row to one object are brought into the order of their offsets.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from model.errors import Unsupported
from model.memory import Outside
from model.semantics.frames import FRAME_SIZE
from proofs.properties.tracked import Tracked, Truth, Word

REGISTER = 64
Byte = tuple[Word[Any], int, int]
"""Byte `index`, the least significant first, of a word of `size` bytes: (word, size, index)."""


@dataclass(frozen=True, slots=True)
class Region:
    """`written` has the bytes that were stored, by offset from the base. The others are what memory `under` has there,
    or, without one, were there at the start: `title` names them.
    """

    title: str
    written: Mapping[int, Byte] = field(default_factory=dict)
    under: Word[Any] | None = None
    size: int | None = None

    def check(self, offset: int) -> None:
        """Raises `Unsupported` for a byte that is not in the region."""
        signed = offset - (1 << REGISTER) if offset >> (REGISTER - 1) else offset
        if self.size is not None and not -self.size <= signed < 0:
            raise Unsupported(f"a run over symbols with an access at r10 {signed:+d}, outside of the stack frame")


@dataclass(frozen=True, slots=True)
class Store:
    """A store that is not part of `Owned.outside` yet."""

    address: Word[Any]
    size: int
    value: Word[Any]


@dataclass(frozen=True, slots=True)
class Owned:
    """A `Memory`. `regions` by the name of the unknown that their addresses count from; `open` are stores to one other
    object since `outside.memory`, by offset, none across another.
    """

    world: Tracked[Any, Any]
    outside: Outside[Word[Any], Truth[Any]]
    regions: Mapping[str, Region]
    open: Mapping[int, Store] = field(default_factory=dict)
    order: Literal["little", "big"] = "little"

    def load(self, address: Word[Any], size: int) -> Word[Any]:
        region = self._region(address)
        if region is not None:
            return joined(self.world, [self._byte(address, region, i) for i in self._indices(size)])
        if self._somewhere(address):
            return self.shown().outside.load(address, size)
        near = self._near(address)
        if near is None:
            return self.closed().outside.load(address, size)
        exact = near.get(address.offset)
        if exact is not None and exact.size == size:
            return exact.value
        if any(_meet(address.offset, size, at, one.size) for at, one in near.items()):
            return self.closed().outside.load(address, size)
        return self.outside.load(address, size)

    def store(self, address: Word[Any], size: int, value: Word[Any]) -> "Owned":
        region = self._region(address)
        if region is not None:
            new = {address.offset + i: (value, size, n) for n, i in enumerate(self._indices(size))}
            for at in new:
                region.check(at)
            changed = replace(region, written={**region.written, **new})
            return replace(self, regions={**self.regions, address.base: changed})
        if self._somewhere(address):
            shown = self.shown()
            outside = shown.outside.store(address, size, value)
            return replace(shown, outside=outside).hidden(outside.memory)
        if not address.base:
            made = self.closed()
            return replace(made, outside=made.outside.store(address, size, value))
        near = self._near(address)
        made = self if near is not None else self.closed()
        kept = dict(made.open)
        for at, one in made.open.items():
            if address.offset <= at and at + one.size <= address.offset + size:
                del kept[at]
            elif _meet(address.offset, size, at, one.size):
                made, kept = made.closed(), {}
                break
        return replace(made, open={**kept, address.offset: Store(address, size, value)})

    def closed(self) -> "Owned":
        """The same memory with every store in `outside`."""
        outside = self.outside
        for _, one in sorted(self.open.items()):
            outside = outside.store(one.address, one.size, one.value)
        return replace(self, outside=outside, open={}) if self.open else self

    def framed(self, base: str) -> "Owned":
        """A function is entered whose frame counts from `base`: nothing that was there before is known."""
        known = self.regions.get(base)
        made = Region(base if known is None else f"{known.title}, again", size=FRAME_SIZE)
        return replace(self, regions={**self.regions, base: made})

    def owns(self, address: Word[Any]) -> bool:
        """Whether the address is in own memory."""
        return self._region(address) is not None or self._somewhere(address)

    def bytes(self, address: Word[Any], size: int) -> list[Byte]:
        """`size` bytes from an address in own memory on."""
        region = self.regions[address.base]
        return [self._byte(address, region, i) for i in range(size)]

    def shown(self) -> "Owned":
        """All own memory as part of the other one: for what may read and write any byte of it."""
        made = self.closed()
        seen: list[tuple[Word[Any], int]] = [(made.outside.memory, REGISTER)]
        places: list[str] = []
        for base, region in sorted(made.regions.items()):
            places.append(f"{base}: {' '.join(str(at) for at in sorted(region.written))}")
            under = region.under if region.under is not None else self.world.fresh(region.title, REGISTER)
            seen += [(under, REGISTER), *((made.byte(base, at), 8) for at in sorted(region.written))]
        memory = self.world.apply(f"with {'; '.join(places)}", REGISTER, seen)
        return replace(made, outside=replace(made.outside, memory=memory))

    def hidden(self, memory: Word[Any]) -> "Owned":
        """Behind that: own memory is what `memory` has there."""
        regions = {base: replace(region, written={}, under=memory) for base, region in self.regions.items()}
        return replace(self, regions=regions)

    def byte(self, base: str, offset: int) -> Word[Any]:
        """8 bits of the region that counts from `base`."""
        return joined(self.world, [self._byte(self._address(base, offset), self.regions[base], 0)])

    def _address(self, base: str, offset: int) -> Word[Any]:
        b = self.world.bits(REGISTER)
        return b.add(self.world.fresh(base, REGISTER), b.const(offset))

    def _indices(self, size: int) -> Sequence[int]:
        """The offsets of a word's bytes, the least significant first."""
        return range(size) if self.order == "little" else range(size - 1, -1, -1)

    def _byte(self, address: Word[Any], region: Region, index: int) -> Byte:
        at = address.offset + index
        region.check(at)
        found = region.written.get(at)
        if found is not None:
            return found
        signed = at - (1 << REGISTER) if at >> (REGISTER - 1) else at
        if region.under is None:
            return self.world.fresh(f"{region.title} {signed:+d}", 8), 1, 0
        place = self._address(address.base, at)
        return self.world.apply("load8", 8, [(place, REGISTER), (region.under, REGISTER)]), 1, 0

    def _region(self, address: Word[Any]) -> Region | None:
        """The own memory that an address is in, at an offset that is known."""
        return self.regions.get(address.base) if address.base else None

    def _somewhere(self, address: Word[Any]) -> bool:
        """Whether the address is in own memory, but it cannot be told which byte of it."""
        if address.base or address.number is not None:
            return False
        return any(name in self.regions for name in self.world.roots(address))

    def _near(self, address: Word[Any]) -> Mapping[int, Store] | None:
        """The open stores, if they are to the object of `address`."""
        if not address.base:
            return {} if not self.open else None
        return self.open if all(one.address.base == address.base for one in self.open.values()) else None


def _meet(at: int, size: int, other: int, length: int) -> bool:
    return at < other + length and other < at + size


def joined(world: Tracked[Any, Any], bytes_: Sequence[Byte]) -> Word[Any]:
    """The word of these bytes, the least significant first: one that was stored whole is that very word."""
    word, size, first = bytes_[0]
    if first == 0 and size == len(bytes_) and all(one == (word, size, i) for i, one in enumerate(bytes_)):
        return word
    parts = list(_parts(world, bytes_))
    low, width = parts[0]
    for high, bits in parts[1:]:
        low, width = world.bits(bits).concat(high, low, width), width + bits
    return low


def _parts(world: Tracked[Any, Any], bytes_: Sequence[Byte]) -> Iterator[tuple[Word[Any], int]]:
    """Bytes in a row of one word as one part of it, with its width in bits."""
    start = 0
    for end in range(1, len(bytes_) + 1):
        word, size, first = bytes_[start]
        if end < len(bytes_) and bytes_[end] == (word, size, first + end - start):
            continue
        bits = world.bits(8 * size)
        yield bits.extract(word, 8 * (first + end - start) - 1, 8 * first), 8 * (end - start)
        start = end
