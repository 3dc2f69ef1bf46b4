"""The running kernel's memory, read by a program that is loaded and test-run; nothing is attached or written.

`bpf_probe_read_kernel` (5.5 and later; refused under lockdown) copies to the value of an array map, which is read
back. Addresses that are not mapped are an error, not a fault.
"""

import struct
from types import TracebackType
from typing import Self

from model.errors import ModelError
from model.isa.insn import Insn
from model.loaders.live import Live, ProgramType, Refused

CHUNK = 32 << 10  # bytes of one test run, the value's size
ARRAY = 2  # BPF_MAP_TYPE_ARRAY
PROBE_READ_KERNEL = 113  # BPF_FUNC_probe_read_kernel
MAP, VALUE = 1, 2  # BPF_PSEUDO_MAP_FD, BPF_PSEUDO_MAP_VALUE
_ZERO = bytes(4)  # the only key
_CALL = (Insn(0x85, imm=PROBE_READ_KERNEL), Insn(0x95))


class NotMapped(ModelError):
    """An address that the kernel cannot read."""


def _load(register: int, fd: int, kind: int) -> tuple[Insn, Insn]:
    return Insn(0x18, register, kind, 0, fd), Insn(0)


class KernelMemory:
    """Use as a context manager. Raises `Refused` where the kernel does not load the reader."""

    def __init__(self) -> None:
        self.live = Live()
        try:
            self._box = self.live.create_map(ARRAY, 4, CHUNK, 1)
            self._reader = self.live.load(self._any(), ProgramType.SCHED_CLS)
        except BaseException:
            self.live.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.live.close()

    def _any(self) -> tuple[Insn, ...]:
        """Reads the address and the size from the value, and copies to it: r0 is 0, or -EFAULT."""
        return (
            *_load(6, self._box, VALUE),
            *(Insn(0x79, 3, 6, 0), Insn(0x79, 2, 6, 8)),
            *(Insn(0xB7, 0, 0, 0, 1), Insn(0x25, 2, 0, 2, CHUNK)),  # if r2 > CHUNK: out with 1
            *(Insn(0xBF, 1, 6), *_CALL),
        )

    def read(self, address: int, size: int) -> bytes:
        """`size` bytes from a kernel address on. Raises NotMapped."""
        found = bytearray()
        while len(found) < size:
            part = min(CHUNK, size - len(found))
            request = struct.pack("=QQ", address + len(found), part).ljust(CHUNK, b"\0")
            self.live.update(self._box, _ZERO, request)
            if self.live.run(self._reader, data=bytes(64)).result:
                raise NotMapped(f"{part} bytes at {address + len(found):#x} of the running kernel cannot be read")
            found += self._value()[:part]
        return bytes(found)

    def map_object(self, fd: int, size: int) -> bytes:
        """The first `size` bytes of the `struct bpf_map` behind a descriptor. Raises Refused, NotMapped."""
        if not 0 < size <= 512:
            raise ValueError(f"{size} bytes of a map")
        program = (*_load(3, fd, MAP), *_load(1, self._box, VALUE), Insn(0xB7, 2, 0, 0, size), *_CALL)
        loaded = self.live.load(program, ProgramType.SCHED_CLS)
        failed = self.live.run(loaded, data=bytes(64)).result
        self.live.drop(loaded)
        if failed:
            raise NotMapped("the map's own structure cannot be read")
        return self._value()[:size]

    def _value(self) -> bytes:
        value = self.live.lookup(self._box, _ZERO, CHUNK)
        if isinstance(value, int):
            raise Refused("read an array's element", -value)
        return value
