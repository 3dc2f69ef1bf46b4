"""Maps of an object in the running kernel: with their types, first contents and templates (libbpf 1.x,
`bpf_object__create_map`, `bpf_object__populate_internal_map`)."""

import ctypes
import os
import struct
import sys
from collections.abc import Mapping
from dataclasses import replace

from model.errors import Unsupported
from model.loaders.btf import Btf, Kind
from model.loaders.elf import Parts
from model.loaders.live import Command, Live, Refused
from model.program import Map

READ_ONLY = 1 << 7  # BPF_F_RDONLY_PROG
PERF_EVENT_ARRAY, STACK_TRACE = 4, 7
STACK_BYTES = 8 * 127
"""Of a stack trace, where the object leaves it to the program that loads it: PERF_MAX_STACK_DEPTH addresses."""
UNTYPED = frozenset(
    {"perf_event_array", "cgroup_array", "stack_trace", "array_of_maps", "hash_of_maps", "devmap", "devmap_hash"}
    | {"cpumap", "xskmap", "sockmap", "sockhash", "queue", "stack", "prog_array"}
)
"""Types that take no BTF of key and value."""


class Maps:
    """The maps of one object, made when they are asked for. `types` are the numbers of enum bpf_map_type by name.

    `btf` is the descriptor of the object's BTF, 0 where it has none; `notes` says what was chosen for want of a number.
    `frozen` has the values of those that nobody can write any more.
    """

    def __init__(self, live: Live, maps: tuple[Map, ...], types: Mapping[str, int], parts: Parts | None, btf: int):
        self.maps, self.notes = list(maps), list[str]()
        self._live, self._types, self._parts, self._btf = live, types, parts, btf
        self.frozen: dict[int, bytes] = {}
        self._fds: dict[int, int] = {}
        self._ids: dict[int, int] = {}
        self._kinds = _types_of(parts.btf) if parts is not None and parts.btf is not None and btf else {}

    def add(self, found: Map, contents: bytes) -> int:
        """The number of a further map, whose only element is `contents`."""
        number = len(self.maps)
        self.maps.append(found)
        self._made(number, contents)
        return number

    def fd(self, number: int) -> int:
        """Raises `Unsupported` for what cannot be made of the object alone, `Refused`."""
        if number not in self._fds:
            self._made(number, self._contents(number))
        return self._fds[number]

    def id(self, number: int) -> int:
        """The kernel's number of the map."""
        if number not in self._ids:
            self._ids[number] = map_id(self._live, self.fd(number))
        return self._ids[number]

    def _contents(self, number: int) -> bytes:
        if self._parts is None:
            return b""
        homes = [section for section, map_ in self._parts.table.data.items() if map_ == number]
        return b"".join(bytes(self._parts.elf.sections[home].data) for home in homes)

    def _made(self, number: int, contents: bytes) -> None:
        wanted = self._sized(self.maps[number])
        self.maps[number] = wanted
        if wanted.type in ("struct_ops", "arena"):
            raise Unsupported(f"map {wanted.name}: a map of type {wanted.type} needs more than its definition")
        inner = self._create(self._sized(wanted.inner), 0) if wanted.inner is not None else 0
        fd = self._fds[number] = self._create(wanted, inner)
        if contents:
            failed = self._live.update(fd, bytes(wanted.key_size or 0), contents.ljust(wanted.value_size or 0, b"\0"))
            if failed:
                raise Refused(f"fill map {wanted.name}", -failed)
        if (wanted.flags or 0) & READ_ONLY:
            result, _ = self._live.call(Command.MAP_FREEZE, struct.pack("=I", fd))
            if result < 0:
                raise Refused(f"freeze map {wanted.name}", -result)
            if wanted.value_size:
                self.frozen[number] = contents.ljust(wanted.value_size, b"\0")

    def _sized(self, wanted: Map) -> Map:
        """The map with the sizes that a loader sets at run time, where the object has none."""
        if wanted.type_number == STACK_TRACE and not wanted.value_size:
            self.notes.append(f"map {wanted.name}: the value's size is not told, {STACK_BYTES} bytes taken")
            wanted = replace(wanted, key_size=wanted.key_size or 4, value_size=STACK_BYTES)
        if wanted.max_entries or wanted.type in ("sk_storage", "inode_storage", "task_storage", "cgrp_storage"):
            return replace(wanted, max_entries=wanted.max_entries or 0)
        entries = (os.cpu_count() or 1) if wanted.type_number == PERF_EVENT_ARRAY else 1
        self.notes.append(f"map {wanted.name}: the object does not tell max_entries, {entries} taken")
        return replace(wanted, max_entries=entries)

    def _create(self, wanted: Map, inner: int) -> int:
        number = wanted.type_number if wanted.type_number is not None else self._types.get(str(wanted.type))
        if number is None:
            raise Unsupported(f"map {wanted.name}: no number is known of its type {wanted.type}")
        if wanted.key_size is None or wanted.value_size is None or wanted.max_entries is None:
            raise Unsupported(f"map {wanted.name}: its sizes are not known")
        sizes = number, wanted.key_size, wanted.value_size, wanted.max_entries
        key, value = self._kinds.get(wanted.name, (0, 0))
        typed = (self._btf, key, value) if value and wanted.type not in UNTYPED else (0, 0, 0)
        flags = wanted.flags or 0
        try:
            return self._live.create_map(*sizes, flags=flags, inner=inner, extra=wanted.extra, types=typed)
        except Refused:
            if not typed[0]:
                raise
            return self._live.create_map(*sizes, flags=flags, inner=inner, extra=wanted.extra)


def map_id(live: Live, fd: int) -> int:
    """`struct bpf_map_info`, id."""
    info = ctypes.create_string_buffer(128)
    live.info(fd, info)
    return int.from_bytes(info.raw[4:8], sys.byteorder)


def _types_of(btf: Btf) -> dict[str, tuple[int, int]]:
    """BTF ids of key and value by the map's name: from definitions in .maps, and of data sections."""
    found = {
        name: (0, number) for name, number in btf.datasecs.items() if name.startswith((".data", ".rodata", ".bss"))
    }
    for variable in btf.variables(btf.type(btf.datasecs[".maps"])) if ".maps" in btf.datasecs else ():
        one = btf.type(variable.type)
        shape = btf.resolve(one.target)
        if shape.kind is Kind.STRUCT:
            members = {member.name: btf.resolve(member.type) for member in btf.members(shape)}
            ids = [members[name].target if name in members else 0 for name in ("key", "value")]
            found[one.name] = (ids[0], ids[1])
    return found
