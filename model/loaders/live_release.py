"""The running kernel as a release: what it says of itself, and the nearest shipped release's rows for the rest.

From the kernel: map types and helper ids (enums in BTF), the operations of each type that it creates here (`map->ops`
of a real map, each slot named by kallsyms), their prototypes and the slots' (BTF), offsets (BTF). From the shipped
release, because no running kernel tells them: helpers' bodies, accepted pairs, rewrites, lookup sequences, bodies.
Maps and programs are created, test-run and closed; nothing is attached.
"""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from model.errors import InputError, Unsupported
from model.kernel.nearest import nearest, version_numbers
from model.kernel.release import Function, MapType, OpsTable, Prototype, Release
from model.loaders.kernel_btf import KernelTypes, running_types
from model.loaders.kernel_memory import KernelMemory, NotMapped
from model.loaders.kernel_symbols import Symbols, read_symbols
from model.loaders.live import Refused

KALLSYMS = Path("/proc/kallsyms")
NO_PREALLOC, MMAPABLE = 1, 1 << 10  # BPF_F_NO_PREALLOC, BPF_F_MMAPABLE
TYPES, HELPERS = "BPF_MAP_TYPE_", "BPF_FUNC_"
MOST_TYPES = 256


@dataclass(frozen=True, slots=True)
class Attempt:
    """Parameters with which some type of map can be created: sizes in bytes; `of` says what else it wants."""

    key: int
    value: int
    entries: int
    flags: int = 0
    of: str = ""


# Tried one after the other; a type's operations do not depend on the parameters (find_and_alloc_map, 4.19 to 7.3).
ATTEMPTS = (
    Attempt(4, 4, 1),
    Attempt(4, 4, 1, NO_PREALLOC),  # rhash
    Attempt(4, 4, 1, of="inner"),  # maps of maps
    Attempt(8, 4, 1, NO_PREALLOC),  # lpm_trie
    Attempt(0, 4, 1),  # queue, stack, bloom_filter
    Attempt(4, 8, 1),  # stack_trace
    Attempt(4, 16, 1),  # insn_array
    Attempt(0, 0, os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096),  # ring buffers
    Attempt(0, 0, 1, MMAPABLE),  # arena
    Attempt(16, 4, 0),  # cgroup_storage
    Attempt(4, 4, 0, NO_PREALLOC, of="types"),  # sk_storage, inode_storage, …
)


@dataclass(frozen=True, slots=True)
class Running:
    """The release, the shipped one that its other rows are from, and which facts are whose, one line each."""

    release: Release
    near: Release
    provenance: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Tables:
    """What was read of the operations: types with their tables, tables, and why others have none."""

    types: Mapping[str, MapType]
    ops: Mapping[str, OpsTable]
    holes: Mapping[str, str]


def running() -> Running:
    """Asks the kernel. InputError, in one line, where it does not permit that."""
    if not hasattr(os, "uname") or os.uname().sysname != "Linux":
        raise InputError("--kernel", "running", "expected a running Linux")
    version = os.uname().release
    near = nearest(version)
    types = running_types()
    try:
        with KernelMemory() as memory:
            symbols = read_symbols(KALLSYMS)
            tables = _read(memory, types, symbols, near)
    except (Refused, NotMapped) as refused:
        why = str(refused).splitlines()[0]
        raise InputError("--kernel", "running", f"expected the right to load programs (root): {why}") from None
    except OSError as error:
        raise InputError("--kernel", "running", f"bpf(2) cannot be called: {error.strerror}") from None
    return _build(version, near, types, tables)


def _read(memory: KernelMemory, types: KernelTypes, symbols: Symbols, near: Release) -> _Tables:
    """The table of each map type that can be created. Tables are told apart by address."""
    at, slots = types.offset("bpf_map", "ops"), types.slots("bpf_map_ops")
    if at is None:
        raise InputError(types.file, "BTF", "expected a member ops in struct bpf_map")
    size = types.struct("bpf_map_ops").target
    rows, holes = {}, {}
    tables: dict[int, OpsTable] = {}
    for name, number in _map_types(types, near).items():
        rows[name] = MapType(name, number, None)
        address = _ops(memory, number, at)
        if isinstance(address, str):
            holes[f"type:{name}"] = f"the running kernel does not show its operations: {address}"
            continue
        if address not in tables:
            data = memory.read(address, size)
            symbol = _table_name(address, symbols, near, name, {table.symbol for table in tables.values()})
            named, why = _named(data, slots, symbols, symbol)
            tables[address] = OpsTable(symbol, named, "the running kernel", 0)
            if why:
                holes[f"ops:{symbol}"] = why
        rows[name] = MapType(name, number, tables[address].symbol)
    return _Tables(rows, {table.symbol: table for table in tables.values()}, holes)


def _map_types(types: KernelTypes, near: Release) -> dict[str, int]:
    """Names as the shipped release has them where two enumerators have one number."""
    found: dict[int, str] = {}
    for text, number in types.enumerators("bpf_map_type").items():
        name = text.removeprefix(TYPES).lower()
        if not text.startswith(TYPES) or not 0 < number < MOST_TYPES:
            continue
        if number not in found or name in near.map_types:
            found[number] = name
    return {name: number for number, name in sorted(found.items())}


def _ops(memory: KernelMemory, kind: int, at: int) -> int | str:
    """`map->ops` of a map of type `kind`, which is created for it, or why there is none."""
    try:
        fd = _create(memory, kind)
        data = memory.map_object(fd, at + 8)
        memory.live.drop(fd)
    except (Refused, NotMapped) as refused:
        lines = [line for line in str(refused).splitlines() if not line.startswith("processed ")]
        return "; ".join(dict.fromkeys((lines[0], lines[-1])))
    return int.from_bytes(data[at:], sys.byteorder)


def _create(memory: KernelMemory, kind: int) -> int:
    """Raises the Refused of the plainest attempt where none is taken."""
    first: Refused | None = None
    for attempt in ATTEMPTS:
        inner = memory.live.create_map(2, 4, 4, 1) if attempt.of == "inner" else 0
        try:
            sizes = (attempt.key, attempt.value, attempt.entries)
            typed = attempt.of == "types"
            return memory.live.create_map(kind, *sizes, flags=attempt.flags, inner=inner, typed=typed)
        except Refused as refused:
            first = first or refused
        finally:
            if inner:
                memory.live.drop(inner)
    assert first is not None
    raise first


def _named(
    data: bytes, slots: Mapping[str, tuple[int, Prototype | None]], symbols: Symbols, table: str
) -> tuple[dict[str, str], str]:
    """The function in each slot that is set, or why the table cannot be trusted.

    A name that several functions have stands with the table's ("cgroup_storage_map_alloc@cgroup_storage_map_ops").
    """
    found = {}
    for slot, (offset, _) in slots.items():
        address = int.from_bytes(data[offset : offset + 8], sys.byteorder)
        if address == 0:
            continue
        names = symbols.names(address)
        if not names:
            return {}, f"no symbol in {KALLSYMS} for what {slot} points to"
        found[slot] = names[0] if len(symbols.places(names[0])) == 1 else f"{names[0]}@{table}"
    return found, ""


def _table_name(address: int, symbols: Symbols, near: Release, map_type: str, taken: set[str]) -> str:
    """Tables are data: kallsyms often leaves them out. Then the shipped release's name, or one made of the type's."""
    row = near.map_types.get(map_type)
    for name in (*symbols.names(address), row.ops if row is not None else None, f"{map_type}_ops"):
        if name is not None and name not in taken:
            return name
    return f"{map_type}_ops@running"


def _build(version: str, near: Release, types: KernelTypes, tables: _Tables) -> Running:
    functions, unread = _functions(types, tables)
    slots = {name: kind for name, (_, kind) in types.slots("bpf_map_ops").items() if kind is not None}
    ids = types.enumerators("bpf_func_id")
    helper_ids = {
        name.removeprefix(HELPERS): number
        for name, number in ids.items()
        if name.startswith(HELPERS) and name not in ("BPF_FUNC_unspec", "BPF_FUNC_MAX_ID") and number > 0
    }
    holes = {key: why for key, why in near.holes.items() if not key.startswith(("type:", "ops:", "slot:"))}
    holes |= {**tables.holes} | {
        f"accepted:{name}/*": f"{near.name}, whose accepted pairs are used, has no map type {name}"
        for name in tables.types
        if name not in near.map_types
    }
    holes |= {
        f"helper:{name}": f"the running kernel has no helper of the name and number that {name} has in {near.name}"
        for name, helper in near.helpers.items()
        if helper_ids.get(name) != helper.id
    }
    numbers = ".".join(str(part) for part in version_numbers(version))
    provenance = _provenance(version, near, tables)
    release = replace(
        near,
        name="running",
        version=numbers,
        origin="; ".join(provenance),
        map_types=tables.types,
        ops=tables.ops,
        functions=functions,
        slots=slots,
        helper_ids=helper_ids,
        layout={key: _layout(key, types, known) for key, known in near.layout.items()},
        meta_equal={
            name: tables.ops[row.ops].slots["map_meta_equal"]
            for name, row in tables.types.items()
            if row.ops is not None and "map_meta_equal" in tables.ops[row.ops].slots
        },
        unread=unread,
        holes=holes,
        provenance={},  # `origin` tells
    )
    return Running(release, near, provenance)


def _functions(types: KernelTypes, tables: _Tables) -> tuple[dict[str, Function], tuple[str, ...]]:
    """Functions in the tables, by symbol; `line` is the number of the type in BTF. What has no prototype is noted."""
    functions, unread = {}, []
    for key in dict.fromkeys(name for table in tables.ops.values() for name in table.slots.values()):
        name = key.partition("@")[0]
        try:
            found = types.function(name)
            if found is None:
                raise Unsupported("it is not there, or twice")
            functions[key] = Function(name, found[1], types.file, found[0])
        except Unsupported as hole:
            unread.append(f"{types.file}: the prototype of {name}: {hole}")
    return functions, tuple(dict.fromkeys(unread))


def _layout(key: str, types: KernelTypes, known: int) -> int:
    struct, _, member = key.removeprefix("struct ").partition(".")
    offset = types.offset(struct, member)
    return known if offset is None else offset


def _provenance(version: str, near: Release, tables: _Tables) -> tuple[str, ...]:
    shown = sum(row.ops is not None for row in tables.types.values())
    return (
        f"running Linux {version} ({os.uname().machine})",
        f"from the kernel (BTF, kallsyms, map->ops of {shown} created maps): map types, operations, their prototypes, "
        "helper ids, offsets, map_meta_equal",
        f"from the data of {near.name} ({near.version}): helpers' bodies, accepted pairs, rewrites, lookup sequences, "
        "lookups' bodies, callbacks, JITs with per-CPU instructions, the limit of a patch",
    )
