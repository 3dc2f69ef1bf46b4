"""One map on its own, its operations called with plain bytes."""

from dataclasses import dataclass, field
from functools import cache

from model.kernel.data import load_release
from model.kernel.release import Release
from model.machine.map_objects import Made
from model.machine.maps_kernel import MapsKernel
from model.machine.regions import Region, Regions
from model.program import Map


@cache
def release(name: str) -> Release:
    return load_release(name)


def le(number: int, size: int = 4) -> bytes:
    return number.to_bytes(size, "little")


@dataclass(slots=True)
class Table:
    """`do` gives the operation's C value, signed; `look` the value that a lookup points to, None for NULL."""

    map: Map
    name: str = "6.12"
    cpus: int = 2
    cpu: int = 0
    memory: Regions = field(default_factory=Regions)
    kernel: MapsKernel = field(init=False)
    made: Made = field(init=False)
    key: Region = field(init=False)
    value: Region = field(init=False)

    def __post_init__(self) -> None:
        self.kernel = MapsKernel(self.memory, release(self.name), cpus=self.cpus, cpu=self.cpu)
        self.made = self.kernel.map(self.map)
        self.key = self.memory.place("key", bytes(self.map.key_size or 1))
        self.value = self.memory.place("value", bytes(self.map.value_size or 1))

    def do(self, name: str, key: bytes | None = None, value: bytes | None = None, *numbers: int) -> int:
        arguments = []
        if key is not None:
            self.key.data[:] = key
            arguments.append(self.key.base)
        if value is not None:
            self.value.data[:] = value
            arguments.append(self.value.base)
        return self.kernel.operate(self.made, name, *arguments, *numbers)

    def find(self, name: str, key: bytes, *numbers: int) -> int:
        """The address that a lookup gives, unsigned."""
        return self.do(name, key, None, *numbers) & 0xFFFFFFFFFFFFFFFF

    def look(self, name: str, key: bytes, *numbers: int) -> bytes | None:
        address = self.find(name, key, *numbers)
        return None if address == 0 else self.at(address)

    def at(self, address: int) -> bytes:
        return self.memory.read(address, self.map.value_size or 0)
