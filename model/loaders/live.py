"""The running kernel through bpf(2): maps, program loads, test runs. Nothing is attached, nothing outlives its owner.

Numbers and layouts are those of include/uapi/linux/bpf.h (`union bpf_attr`). Every descriptor belongs to a
`Live`, whose end closes them all, however it comes.
"""

import contextlib
import ctypes
import errno
import os
import platform
import struct
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from types import TracebackType
from typing import Self

from model.errors import ModelError
from model.isa.codec import ByteOrder, decode
from model.isa.insn import Insn
from model.loaders.live_btf import function_types
from model.loaders.live_load import Load, packed

SYSCALL_NUMBER = {
    "x86_64": 321,
    "aarch64": 280,
    "riscv64": 280,
    "loongarch64": 280,
    "s390x": 351,
    "ppc64le": 361,
}
"""__NR_bpf by machine."""
LOG_LINES = 12
"""The last lines of the verifier's log that an error shows."""


_ORDER: ByteOrder = "little" if sys.byteorder == "little" else "big"


class Command(IntEnum):
    """enum bpf_cmd."""

    MAP_CREATE = 0
    MAP_LOOKUP_ELEM = 1
    MAP_UPDATE_ELEM = 2
    MAP_DELETE_ELEM = 3
    MAP_GET_NEXT_KEY = 4
    PROG_LOAD = 5
    PROG_TEST_RUN = 10
    PROG_GET_FD_BY_ID = 13
    MAP_GET_FD_BY_ID = 14
    OBJ_GET_INFO_BY_FD = 15
    BTF_LOAD = 18
    MAP_LOOKUP_AND_DELETE_ELEM = 21
    MAP_FREEZE = 22


class ProgramType(IntEnum):
    """enum bpf_prog_type: those that can be test-run."""

    SOCKET_FILTER = 1
    SCHED_CLS = 3
    XDP = 6
    SYSCALL = 31


class Refused(ModelError):
    """The kernel said no: which command, errno, and what the verifier wrote."""

    def __init__(self, what: str, number: int, log: str = "") -> None:
        super().__init__(what, number, log)
        self.what, self.number, self.log = what, number, log

    def __str__(self) -> str:
        text = f"{self.what}: {errno.errorcode.get(self.number, self.number)} ({os.strerror(self.number)})"
        lines = [line for line in self.log.splitlines() if line][-LOG_LINES:]
        return "\n".join([text, *lines])


@dataclass(frozen=True, slots=True)
class Run:
    """One test run: the program's result (32 bits, unsigned), its data and its context after, nanoseconds a run."""

    result: int
    data: bytes
    context: bytes
    duration: int


def _bpf(command: Command, attributes: bytes) -> tuple[int, bytes]:
    """(result or -errno, the attributes after the call)."""
    number = SYSCALL_NUMBER.get(platform.machine())
    if number is None or os.name != "posix" or not hasattr(os, "geteuid"):
        return -errno.ENOSYS, attributes
    buffer = ctypes.create_string_buffer(attributes, len(attributes))
    libc = ctypes.CDLL(None, use_errno=True)
    result = libc.syscall(ctypes.c_long(number), ctypes.c_long(command), buffer, ctypes.c_ulong(len(attributes)))
    return (-ctypes.get_errno() if result < 0 else int(result)), buffer.raw


def _address(buffer: ctypes.Array[ctypes.c_char] | None) -> int:
    return 0 if buffer is None else ctypes.addressof(buffer)


def _buffer(data: bytes) -> ctypes.Array[ctypes.c_char]:
    return ctypes.create_string_buffer(data, max(len(data), 1))


def why_not() -> str | None:
    """Why programs cannot be loaded and test-run here, None if they can: tried with a program of two instructions."""
    if platform.machine() not in SYSCALL_NUMBER:
        return f"no bpf(2) known for {platform.machine()}"
    try:
        with Live() as live:
            live.load((Insn(0xB7), Insn(0x95)), ProgramType.SYSCALL)
            live.run(live.load((Insn(0xB7), Insn(0x95)), ProgramType.SCHED_CLS), data=bytes(64))
    except Refused as refused:
        return f"bpf(2) is not permitted here: {str(refused).splitlines()[0]}"
    except OSError as error:
        return f"bpf(2) cannot be called: {error}"
    return None


class Live:
    """A session with the kernel, as a context manager. Maps and programs are given by descriptor.

    Element operations return 0 or a negative errno, as the kernel's functions do; everything else raises `Refused`.
    """

    def __init__(self) -> None:
        self._open: list[int] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def call(self, command: Command, attributes: bytes, *buffers: ctypes.Array[ctypes.c_char]) -> tuple[int, bytes]:
        """(result or -errno, the attributes after the call); `buffers`: those whose addresses they hold."""
        return _bpf(command, attributes)

    def shut(self, fd: int) -> None:
        os.close(fd)

    def close(self) -> None:
        while self._open:
            with contextlib.suppress(OSError):
                self.shut(self._open.pop())

    def drop(self, fd: int) -> None:
        """Close one descriptor before the end."""
        self._open.remove(fd)
        self.shut(fd)

    def _own(self, what: str, result: int, log: str = "") -> int:
        if result < 0:
            raise Refused(what, -result, log)
        self._open.append(result)
        return result

    def create_map(
        self,
        kind: int,
        key_size: int,
        value_size: int,
        max_entries: int,
        *,
        flags: int = 0,
        inner: int = 0,
        extra: int = 0,
        typed: bool = False,
        types: tuple[int, int, int] = (0, 0, 0),
    ) -> int:
        """`kind` is enum bpf_map_type, sizes are bytes, `inner` the descriptor of a map-in-map's template.

        `extra` is map_extra. `typed` says that key and value are `int` (4 bytes each): local storage wants that;
        `types` are the descriptor of BTF and the numbers there of the key's and the value's type.
        """
        attributes = struct.pack("=6I20x", kind, key_size, value_size, max_entries, flags, inner)
        if typed:
            types = (self._types({0: "none"})[0], 1, 1)
        if types[0]:  # map_ifindex, btf_fd, btf_key_type_id, btf_value_type_id
            attributes = attributes.ljust(44, b"\0") + struct.pack("=4I", 0, *types)
        if extra:
            attributes = attributes.ljust(64, b"\0") + struct.pack("=Q", extra)
        return self._own(f"create a map of type {kind}", self.call(Command.MAP_CREATE, attributes)[0])

    def _element(self, command: Command, fd: int, key: bytes, value: bytes, flags: int) -> tuple[int, bytes]:
        held, out = _buffer(key), _buffer(value)
        attributes = struct.pack("=I4xQQQ", fd, _address(held) if key else 0, _address(out) if value else 0, flags)
        result, _ = self.call(command, attributes, held, out)
        return result, out.raw[: len(value)]

    def update(self, fd: int, key: bytes, value: bytes, flags: int = 0) -> int:
        return self._element(Command.MAP_UPDATE_ELEM, fd, key, value, flags)[0]

    def delete(self, fd: int, key: bytes) -> int:
        return self._element(Command.MAP_DELETE_ELEM, fd, key, b"", 0)[0]

    def lookup(self, fd: int, key: bytes, size: int, flags: int = 0) -> bytes | int:
        """The value of `size` bytes (all CPUs' values for per-CPU maps), or a negative errno."""
        result, value = self._element(Command.MAP_LOOKUP_ELEM, fd, key, bytes(size), flags)
        return value if result == 0 else result

    def take(self, fd: int, key: bytes, size: int) -> bytes | int:
        """Lookup and delete in one (queues and stacks: an empty key)."""
        result, value = self._element(Command.MAP_LOOKUP_AND_DELETE_ELEM, fd, key, bytes(size), 0)
        return value if result == 0 else result

    def keys(self, fd: int, size: int, limit: int = 1 << 20) -> list[bytes]:
        """All keys of `size` bytes, in the map's order."""
        found: list[bytes] = []
        key = b""
        while len(found) < limit:
            result, following = self._element(Command.MAP_GET_NEXT_KEY, fd, key, bytes(size), 0)
            if result:
                break
            found.append(following)
            key = following
        return found

    def load(
        self,
        insns: Sequence[Insn],
        kind: ProgramType = ProgramType.SOCKET_FILTER,
        *,
        functions: Mapping[int, str] | None = None,
        flags: int = 0,
        license: str = "GPL",
    ) -> int:
        """Loads a program. Map loads have descriptors in `imm`.

        `functions` names the function that starts at each slot, slot 0 among them: needed when the
        program loads the address of a callback, because the kernel then wants type information.
        """
        types, records = (0, b"") if functions is None else self._types(functions)
        sleepable = 1 << 4 if kind is ProgramType.SYSCALL else 0  # BPF_F_SLEEPABLE, demanded of this type
        return self.submit(
            Load(insns, kind, license, flags=flags | sleepable, types=types if records else 0, functions=records)
        )

    def submit(self, load: Load) -> int:
        """The descriptor of a program that is loaded as `load` says."""
        attributes, log, buffers = packed(load, _ORDER, 1)
        result, _ = self.call(Command.PROG_LOAD, attributes, *buffers)
        if result == -errno.ENOSPC:  # the log did not fit
            attributes, _, buffers = packed(load, _ORDER, 0)
            result, _ = self.call(Command.PROG_LOAD, attributes, *buffers)
        return self._own("load the program", result, log.value.decode(errors="replace"))

    def log(self, load: Load, level: int, size: int) -> str:
        """What the verifier writes at a log level (BPF_LOG_LEVEL1, …) of a program that is loaded and let go of,
        or refused: the first `size` bytes of it.
        """
        attributes, log, buffers = packed(load, _ORDER, level, size)
        result, _ = self.call(Command.PROG_LOAD, attributes, *buffers)
        if result >= 0:
            self.shut(result)
        return log.value.decode(errors="replace")

    def load_types(self, data: bytes) -> int:
        """The descriptor of BTF that is given to the kernel."""
        held, log = _buffer(data), ctypes.create_string_buffer(1 << 20)
        attributes = struct.pack("=QQIII4x", _address(held), 0, len(data), 0, 0)
        result, _ = self.call(Command.BTF_LOAD, attributes, held)
        if result < 0:  # again, to be told why
            attributes = struct.pack("=QQIII4x", _address(held), _address(log), len(data), len(log), 1)
            self.call(Command.BTF_LOAD, attributes, held, log)
        return self._own("load type information", result, log.value.decode(errors="replace"))

    def _types(self, functions: Mapping[int, str]) -> tuple[int, bytes]:
        """The descriptor of type information for `functions`, and the records that say where each starts."""
        data, numbers = function_types([functions[slot] for slot in sorted(functions)])
        types = self.load_types(data)
        return types, b"".join(
            struct.pack("=II", slot, number) for slot, number in zip(sorted(functions), numbers, strict=True)
        )

    def run(self, fd: int, *, data: bytes = b"", context: bytes = b"", repeat: int = 0) -> Run:
        """BPF_PROG_TEST_RUN with `data` as the packet (14 bytes at least) or, for SYSCALL, `context` as the context."""
        given, room = _buffer(data), _buffer(bytes(len(data) + 256))
        around = _buffer(context)
        attributes = struct.pack(
            "=IIIIQQIIIIQQIII4x",
            *(fd, 0, len(data), len(room) if data else 0),
            *(_address(given) if data else 0, _address(room) if data else 0, repeat, 0),
            *(len(context), 0, _address(around) if context else 0, 0, 0, 0, 0),
        )
        result, after = self.call(Command.PROG_TEST_RUN, attributes, given, room, around)
        if result < 0:
            raise Refused("test-run the program", -result)
        _, value, _, size = struct.unpack_from("=IIII", after)
        (duration,) = struct.unpack_from("=I", after, 36)
        return Run(value, room.raw[:size] if data else b"", around.raw[: len(context)], duration)

    def xlated(self, fd: int) -> tuple[Insn, ...]:
        """The program as the kernel rewrote it (struct bpf_prog_info, xlated_prog_insns)."""
        info = ctypes.create_string_buffer(256)
        self.info(fd, info)
        (size,) = struct.unpack_from("=I", info, 20)
        code = ctypes.create_string_buffer(max(size, 8))
        again = ctypes.create_string_buffer(256)
        struct.pack_into("=I", again, 20, size)
        struct.pack_into("=Q", again, 32, _address(code))
        self.info(fd, again, code)
        return decode(code.raw[:size], _ORDER)

    def info(self, fd: int, info: ctypes.Array[ctypes.c_char], *buffers: ctypes.Array[ctypes.c_char]) -> None:
        """BPF_OBJ_GET_INFO_BY_FD of a program, map or BTF into `info`; `buffers`: those that it points to."""
        attributes = struct.pack("=IIQ", fd, len(info), _address(info))
        result, _ = self.call(Command.OBJ_GET_INFO_BY_FD, attributes, info, *buffers)
        if result < 0:
            raise Refused("ask the kernel of what it holds", -result)
