"""Programs as loaders hand them on: instructions, subprograms, maps, and what the slots name.

Every index is a slot number from the program's first instruction, 0 at the entry; `Program.base` is
only what listings add to it (a fragment of a dump may begin anywhere).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Literal

from model.isa.insn import Insn


@dataclass(frozen=True, slots=True)
class Map:
    """A map as a program sees it; sizes in bytes, `None` where the input does not tell.

    `type` is the kernel's enum name in lower case without `BPF_MAP_TYPE_` ("hash", "lru_percpu_hash",
    "array_of_maps"), `type_number` the raw number where the input has one (an unknown number leaves
    `type` None). `id` is the kernel's map id in dumps. `inner` is the template of a map-in-map.
    `extra` is `map_extra`: a bloom filter's number of hash functions (0: the kernel's own).
    Two `Map` values in one program are two maps of the kernel, even if all fields agree.
    """

    name: str
    type: str | None
    key_size: int | None = None
    value_size: int | None = None
    max_entries: int | None = None
    flags: int | None = None
    id: int | None = None
    inner: "Map | None" = None
    type_number: int | None = None
    pinned: bool = False
    extra: int = 0


@dataclass(frozen=True, slots=True)
class MapRef:
    """A 64-bit load of a map: `maps[map]` itself, or (`offset` given) the address of its value + offset bytes."""

    map: int
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class ExternRef:
    """A slot (64-bit load or call) that names something outside of the object: kept as a named unknown."""

    name: str
    kind: Literal["kconfig", "ksym", "kfunc"]
    weak: bool = False


@dataclass(frozen=True, slots=True)
class SymbolRef:
    """A call or load whose target a dump names by the kernel's symbol ("htab_map_update_elem")."""

    name: str


Ref = MapRef | ExternRef | SymbolRef


@dataclass(frozen=True, slots=True)
class Line:
    """Source position of a slot, from 1, 0 where unknown. Holds from this slot to the next record."""

    file: str
    line: int
    column: int
    text: str


@dataclass(frozen=True, slots=True)
class Subprogram:
    """A function inside the program: slots `start` (inclusive) to `end` (exclusive)."""

    name: str
    start: int
    end: int


class Form(Enum):
    """What the immediate of an ordinary call (source 0) means."""

    OBJECT = "object"  # the helper's id (enum bpf_func_id): not rewritten yet
    XLATED = "xlated"  # function address - __bpf_call_base: as the kernel runs it, rewritten already


@dataclass(frozen=True, slots=True)
class Program:
    """One program with everything that its instructions can reach inside of it.

    `insns` holds the entry function first, then every subprogram and callback that it reaches; calls
    (source 1) and callback addresses (64-bit load, source 4) have `imm` relative to the next slot, as
    the kernel wants them at load. `subprograms` is sorted by `start`, without gaps, entry first (one
    element at least, unless the program is a fragment: `fragment` true, then it may be empty and jumps
    may leave the listing). `refs` tells what the slot of a 64-bit load or call names; for a map load
    `insns[slot].src` is 1 (map) or 2 (map value). `hidden` says that call immediates were withheld
    by the kernel (restricted pointers), so nothing can be said of call targets that have no name.
    `relocated` are the slots whose immediate, offset or access size the loader changes when the program
    is loaded (CO-RE relocations: libbpf 1.x, bpf_core_patch_insn), to numbers that the input does not
    tell. `entries` are the starts of subprograms that the kernel enters on its own, besides the first
    one, with any number in r1 (exception callbacks of 6.7 and later).
    `notes` are the loader's remarks to the user (one line each).
    """

    name: str
    insns: tuple[Insn, ...]
    maps: tuple[Map, ...] = ()
    subprograms: tuple[Subprogram, ...] = ()
    refs: Mapping[int, Ref] = field(default_factory=dict)
    lines: Mapping[int, Line] = field(default_factory=dict)
    form: Form = Form.OBJECT
    section: str = ""
    type: str = ""
    base: int = 0
    fragment: bool = False
    hidden: bool = False
    notes: tuple[str, ...] = ()
    relocated: frozenset[int] = frozenset()
    entries: tuple[int, ...] = ()

    def with_notes(self, *notes: str) -> "Program":
        return replace(self, notes=self.notes + notes)


@dataclass(frozen=True, slots=True)
class Object:
    """What one input file holds. `maps` lists all maps of the file, also those that no program uses."""

    file: str
    programs: tuple[Program, ...]
    maps: tuple[Map, ...] = ()
    license: str = ""
    byteorder: Literal["little", "big"] = "little"
    notes: tuple[str, ...] = ()
