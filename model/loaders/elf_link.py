"""Link an entry function with everything that it reaches, as libbpf lays programs out.

libbpf 1.x, bpf_object__reloc_code: the entry comes first; a subprogram is appended at its first reference
and its own references follow before the caller's next ones (depth first).
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from model.errors import InputError
from model.isa.insn import Insn
from model.loaders.elf_btf_ext import BtfExt
from model.loaders.elf_functions import Function
from model.loaders.elf_relocations import CALL, PSEUDO_CALL, PSEUDO_FUNC, CodeRef, Target
from model.program import ExternRef, Line, Map, MapRef, Program, Ref, Subprogram

PROGRAM_LIMIT = 1_000_000
"""Instructions that the kernel takes for one program (BPF_COMPLEXITY_LIMIT_INSNS, 5.2+)."""
TOTAL_LIMIT = 4 * PROGRAM_LIMIT
"""Instructions of all programs of one object: subprograms count in each program that reaches them."""

_PSEUDO_MAP, _PSEUDO_MAP_VALUE, _PSEUDO_KFUNC = 1, 2, 2


@dataclass(frozen=True, slots=True)
class Place:
    """Where a function of a program is from: slots `start` to `end` of a section; `base` is its first slot now."""

    section: int
    start: int
    end: int
    base: int


@dataclass(slots=True)
class Linker:
    """`code`, `targets` by section index; `sections` has the sections' names; `info` is None without .BTF.ext.

    `exceptions` has the exception callback of each program that names one. `placed` gets a row a program.
    """

    file: str
    code: Mapping[int, tuple[Insn, ...]]
    targets: Mapping[int, Mapping[int, Target]]
    functions: Mapping[CodeRef, Function]
    sections: Mapping[int, str]
    maps: tuple[Map, ...]
    info: BtfExt | None
    exceptions: Mapping[str, Function] = field(default_factory=dict)
    placed: list[tuple[Place, ...]] = field(default_factory=list)
    _sorted: dict[int, list[int]] = field(default_factory=dict)
    _slots: dict[Function, list[int]] = field(default_factory=dict)
    _callees: dict[Function, list[Function]] = field(default_factory=dict)
    _total: int = 0

    def program(self, entry: Function) -> Program:
        """The program that begins with `entry`; InputError where it is too long."""
        thrown = self.exceptions.get(entry.name)
        bases = self._layout(self.functions[entry.ref], thrown)
        insns: list[Insn] = []
        refs: dict[int, Ref] = {}
        lines: dict[int, Line] = {}
        relocated: list[int] = []
        for function, base in bases.items():
            insns += self.code[function.section][function.start : function.end]
            for slot in self._referring(function):
                self._place(insns, refs, bases, function, slot, base)
            relocated += self._describe(lines, function, base)
        self.placed.append(tuple(Place(f.section, f.start, f.end, base) for f, base in bases.items()))
        section = self.sections[entry.section]
        return Program(
            entry.name,
            tuple(insns),
            self.maps,
            tuple(
                Subprogram(f.name if base else entry.name, base, base + f.end - f.start) for f, base in bases.items()
            ),
            refs,
            lines,
            section=section,
            type=section.lstrip("?").split("/", 1)[0],
            notes=tuple(_notes(refs, len(relocated))),
            relocated=frozenset(relocated),
            entries=() if thrown is None else (bases[thrown],),
        )

    def _layout(self, entry: Function, thrown: Function | None) -> dict[Function, int]:
        """Where each function goes, in slots, in order: the exception callback behind what the entry reaches."""
        bases = {entry: 0}
        length = entry.end - entry.start
        path = [iter([] if thrown is None else [thrown]), iter(self._reached(entry))]
        while path:
            callee = next(path[-1], None)
            if callee is None:
                path.pop()
            elif callee not in bases:
                bases[callee] = length
                length += callee.end - callee.start
                path.append(iter(self._reached(callee)))
        self._total += length
        if length > PROGRAM_LIMIT or self._total > TOTAL_LIMIT:
            expected = (
                f"program of {length} instructions: at most {PROGRAM_LIMIT}, {TOTAL_LIMIT} in all programs together"
            )
            raise InputError(self.file, f"section {self.sections[entry.section]}, function {entry.name}", expected)
        return bases

    def _referring(self, function: Function) -> list[int]:
        """The slots of a function that have a target, in order."""
        found = self._slots.get(function)
        if found is None:
            slots = self._sorted.get(function.section)
            if slots is None:
                slots = self._sorted[function.section] = sorted(self.targets[function.section])
            found = slots[bisect_left(slots, function.start) : bisect_left(slots, function.end)]
            self._slots[function] = found
        return found

    def _reached(self, function: Function) -> list[Function]:
        """The functions that a function refers to, in order of first reference."""
        found = self._callees.get(function)
        if found is None:
            targets = self.targets[function.section]
            rows = (targets[slot] for slot in self._referring(function))
            found = list(dict.fromkeys(self.functions[row] for row in rows if isinstance(row, CodeRef)))
            self._callees[function] = found
        return found

    def _place(
        self,
        insns: list[Insn],
        refs: dict[int, Ref],
        bases: Mapping[Function, int],
        function: Function,
        slot: int,
        base: int,
    ) -> None:
        """Write what the slot refers to into the linked instructions."""
        at = base + slot - function.start
        insn = insns[at]
        target = self.targets[function.section][slot]
        source, low, high = insn.src, insn.imm, None
        match target:
            case CodeRef():
                call = insn.opcode == CALL
                low = bases[self.functions[target]] - at - 1
                source, high = (PSEUDO_CALL, None) if call else (PSEUDO_FUNC, 0)
            case MapRef():
                source = _PSEUDO_MAP if target.offset is None else _PSEUDO_MAP_VALUE
                low, high = 0, target.offset or 0
            case ExternRef() if insn.opcode == CALL:
                source, low = _PSEUDO_KFUNC, 0
            case ExternRef():
                pass
        insns[at] = Insn(insn.opcode, insn.dst, source, insn.off, low)
        if high is not None:
            insns[at + 1] = Insn(0, imm=high)
        if not isinstance(target, CodeRef):
            refs[at] = target

    def _describe(self, lines: dict[int, Line], function: Function, base: int) -> list[int]:
        """Source lines of a function; returns the slots of its CO-RE relocations, one for each."""
        if self.info is None:
            return []
        name = self.sections[function.section]
        rows = self.info.lines.get(name, [])
        first = bisect_left(rows, function.start, key=lambda row: row[0])
        last = bisect_left(rows, function.end, key=lambda row: row[0])
        for slot, line in rows[first:last]:
            lines[base + slot - function.start] = line
        core = self.info.core.get(name, [])
        found = core[bisect_left(core, function.start) : bisect_left(core, function.end)]
        return [base + slot - function.start for slot in found]


def _notes(refs: Mapping[int, Ref], relocations: int) -> Iterator[str]:
    if relocations:
        yield f"{relocations} CO-RE relocations are left as they are: field offsets are those of the compile time"
    for name in sorted({ref.name for ref in refs.values() if isinstance(ref, ExternRef) and ref.weak}):
        yield f"{name} is weak: the kernel may lack it"
