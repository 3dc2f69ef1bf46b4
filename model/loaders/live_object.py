"""Programs of an object, or of assembly text, in the running kernel: made, loaded, read back; nothing is attached."""

import sys
from collections.abc import Container, Mapping
from dataclasses import dataclass, field, replace

from model.errors import InputError, Unsupported
from model.isa.insn import Insn
from model.loaders import live_core
from model.loaders.btf import Kind
from model.loaders.elf import Parts
from model.loaders.kernel_btf import KernelTypes
from model.loaders.kernel_symbols import Symbols
from model.loaders.live import Live, Refused
from model.loaders.live_btf import function_types
from model.loaders.live_externs import resolved, version_code
from model.loaders.live_load import Load
from model.loaders.live_maps import Maps
from model.loaders.live_sections import Section, section_of
from model.loaders.live_types import core_records, for_kernel, function_records
from model.loaders.live_xlated import ReadBack, line_records, program, read_back
from model.program import MapRef, Object, Program, Ref


@dataclass(frozen=True, slots=True)
class Kernel:
    """What the running kernel tells of itself: its types, its symbols, and the numbers of map types by name."""

    types: KernelTypes
    symbols: Symbols
    map_types: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Loaded:
    """`before` is the program as it was loaded (CO-RE relocations done), `after` as it was read back; maps have the
    same numbers in both. `fd` is the loaded program's. `frozen` has the values of maps that nobody can write.
    """

    before: Program
    after: Program
    read: ReadBack
    fd: int
    notes: tuple[str, ...] = ()
    frozen: Mapping[int, bytes] = field(default_factory=dict)


@dataclass(slots=True)
class Session:
    """One object in a session with the kernel. `parts` is None where the programs are from text.

    `known` are names of functions that are preferred where several stand at one address.
    """

    live: Live
    kernel: Kernel
    found: Object
    parts: Parts | None = None
    known: Container[str] = ()
    type: str = ""
    _maps: Maps | None = None
    _types: int = 0
    _why: str = ""
    _asked: dict[str, int] = field(default_factory=dict)

    def load(self, number: int) -> Loaded:
        """The program `number` of the object. Raises `Refused` with what the kernel says, `Unsupported` with what the
        object alone does not tell, and `InputError`.
        """
        if self.found.byteorder != sys.byteorder:
            raise Unsupported(f"the object is {self.found.byteorder}-endian, the kernel is not")
        maps = self._prepared()
        given = self.found.programs[number]
        row, rest = (Section("", self.type.upper()), "") if self.type else section_of(given.section)
        btf = self.parts.btf if self.parts is not None else None
        outside = resolved(given, btf, maps, self.kernel.types, self.kernel.symbols)
        load = replace(
            Load(_with_maps(outside, maps), self._number("prog", row.type), self.found.license),
            flags=row.flags,
            attach=self._number("attach", row.attach) if row.attach else 0,
            target=self._target(row, rest),
            version=version_code(),
        )
        load, core = self._described(load, outside, number)
        before = self._relocated(outside, load) if core else outside
        fd = self.live.submit(load)
        read = read_back(self.live, fd, load.insns)
        used = sorted({ref.map for ref in before.refs.values() if isinstance(ref, MapRef)})
        ids = {maps.id(one): one for one in used}
        before = replace(before, maps=tuple(maps.maps))
        after = program(before, read, ids, self.kernel.symbols, self.known)
        return Loaded(before, after, read, fd, self._notes(maps), dict(maps.frozen))

    def _notes(self, maps: Maps) -> tuple[str, ...]:
        """Those that were not told with an earlier program."""
        notes, maps.notes = tuple(maps.notes), []
        return notes

    def _prepared(self) -> Maps:
        """Type information and the maps' table, made once."""
        if self._maps is None:
            if self.parts is not None and self.parts.btf is not None and self.found.byteorder == sys.byteorder:
                try:
                    self._types = self.live.load_types(for_kernel(self.parts.elf, self.parts.btf))
                except Refused as refused:
                    self._why = str(refused).replace("\n", "; ")
            self._maps = Maps(self.live, self.found.maps, self.kernel.map_types, self.parts, self._types)
            if self._why:
                self._maps.notes.append(f"the kernel does not take the object's BTF: {self._why}")
        return self._maps

    def _number(self, what: str, name: str) -> int:
        """Of enum bpf_prog_type or bpf_attach_type."""
        prefix = {"prog": "BPF_PROG_TYPE_", "attach": "BPF_"}[what]
        if not self._asked:
            for one in ("prog", "attach"):
                self._asked |= self.kernel.types.enumerators(f"bpf_{one}_type")
        found = self._asked.get(f"{prefix}{name}")
        if found is None:
            raise Unsupported(f"the running kernel has no {prefix}{name}")
        return found

    def _target(self, row: Section, rest: str) -> int:
        """The BTF id of what the program is for; 0 where the type wants none."""
        if row.btf is None:
            return 0
        kind = Kind.TYPEDEF if row.typedef else Kind.FUNC
        found = self.kernel.types.ids(kind, f"{row.btf}{rest}")
        if not found:
            raise Unsupported(f"the kernel's own BTF has no {row.btf}{rest} to attach to")
        return found[0]

    def _described(self, load: Load, given: Program, number: int) -> tuple[Load, bool]:
        """With BTF, a record for each function and each instruction, and the CO-RE relocations."""
        lines = line_records(load.insns)
        places = self.parts.places[number] if self.parts is not None else ()
        records = function_records(self.parts, places) if self.parts is not None and self._types else None
        if self.parts is not None and records is not None:
            core = core_records(self.parts, places)
            return replace(load, types=self._types, functions=records, lines=lines, core=core), bool(core)
        if given.relocated:
            why = self._why or "not every function of the program is in .BTF.ext"
            raise Unsupported(f"CO-RE relocations need the object's BTF in the kernel: {why}")
        data, numbers = function_types([f"f{at}" for at in range(len(given.subprograms))])
        rows = zip(given.subprograms, numbers, strict=True)
        made = b"".join(part.start.to_bytes(4, sys.byteorder) + one.to_bytes(4, sys.byteorder) for part, one in rows)
        return replace(load, types=self.live.load_types(data), functions=made, lines=lines), False

    def _relocated(self, given: Program, load: Load) -> Program:
        log = self.live.log(load, live_core.LEVEL, live_core.LOG_SIZE)
        insns = live_core.relocated(load.insns, log)
        return replace(given, insns=_without_maps(insns, given), relocated=frozenset(), refs=_left(given.refs, insns))


def _with_maps(given: Program, maps: Maps) -> tuple[Insn, ...]:
    insns = list(given.insns)
    for slot, ref in given.refs.items():
        if isinstance(ref, MapRef):
            insns[slot] = replace(insns[slot], imm=maps.fd(ref.map))
    return tuple(insns)


def _without_maps(insns: tuple[Insn, ...], given: Program) -> tuple[Insn, ...]:
    found = list(insns)
    for slot, ref in given.refs.items():
        if isinstance(ref, MapRef):
            found[slot] = given.insns[slot]
    return tuple(found)


def _left(refs: Mapping[int, Ref], insns: tuple[Insn, ...]) -> dict[int, Ref]:
    """What names of instructions still stand for: not those of calls that a relocation put in."""
    return {slot: ref for slot, ref in refs.items() if insns[slot] != live_core.POISON}


def read_error(error: Exception) -> str:
    """In one line, why something could not be loaded: the kernel's last line, or the model's own reason."""
    if isinstance(error, Refused):
        lines = [line for line in error.log.splitlines() if line.strip() and not line.startswith("processed ")]
        return f"{str(error).splitlines()[0]}{': ' if lines else ''}{lines[-1].strip() if lines else ''}"
    return str(error) if isinstance(error, InputError | Unsupported) else repr(error)
