"""What the slots of an executable section name: maps, places in data, functions, externs.

Relocation types (Documentation/bpf/llvm_reloc.rst): R_BPF_64_64 (1) on 64-bit loads, R_BPF_64_32 (10) on
calls. Objects of older or other tools number them otherwise (2 and 3 among them), so the instruction
decides, as in libbpf. Addends are in place (SHT_REL) or explicit (SHT_RELA).
"""

from dataclasses import dataclass

from model.isa.insn import Insn
from model.loaders.btf import Btf
from model.loaders.elf_file import (
    SHN_LORESERVE,
    SHN_UNDEF,
    STB_WEAK,
    STT_SECTION,
    ElfFile,
    Relocation,
    Section,
    Symbol,
)
from model.loaders.elf_maps import MapTable
from model.program import ExternRef, MapRef

LD_IMM64, CALL = 0x18, 0x85
PSEUDO_CALL, PSEUDO_FUNC = 1, 4
_NONE, _LAST_TYPE = 0, 10


@dataclass(frozen=True, slots=True)
class CodeRef:
    """A slot of an executable section as target: of a call, or as a callback's address."""

    section: int
    slot: int


Target = CodeRef | MapRef | ExternRef


@dataclass(frozen=True, slots=True)
class Resolver:
    """Finds targets. `from_gcc`: the assembler of GCC's objects adds a symbol's value to the addend in place."""

    elf: ElfFile
    maps: MapTable
    kconfig: frozenset[str]
    from_gcc: bool

    def targets(self, section: Section, insns: tuple[Insn, ...]) -> dict[int, Target]:
        """The target of every slot of `section` that has one, by slot; InputError where it cannot be one."""
        found: dict[int, Target] = {}
        for relocation in self.elf.relocations_of(section):
            if relocation.type == _NONE:
                continue
            slot, rest = divmod(relocation.offset, 8)
            if rest or relocation.type > _LAST_TYPE or slot in found:
                expected = (
                    f"relocation of type {relocation.type}: expected type 1, 2, 3, 4 or 10, once for a whole slot"
                )
                raise self.elf.error(section, relocation.offset, expected)
            found[slot] = self._resolve(section, relocation, insns[slot])
        for slot, insn in enumerate(insns):
            call = insn.opcode == CALL and insn.src == PSEUDO_CALL
            if (call or (insn.opcode == LD_IMM64 and insn.src == PSEUDO_FUNC)) and slot not in found:
                found[slot] = self._code(section, slot * 8, section.index, (slot + 1 + insn.imm) * 8)
        return found

    def _resolve(self, section: Section, relocation: Relocation, insn: Insn) -> Target:
        at = relocation.offset
        if insn.opcode not in (CALL, LD_IMM64):
            raise self.elf.error(
                section, at, f"relocation at opcode {insn.opcode:#04x}: expected a call or a 64-bit load"
            )
        symbol = self.elf.symbols[relocation.symbol]
        name = self.elf.symbol_name(symbol)
        if symbol.section == SHN_UNDEF:
            return self._extern(section, at, symbol, name, insn)
        if symbol.section >= SHN_LORESERVE:
            raise self.elf.error(section, at, f"symbol {name} is in no section ({symbol.section:#x})")
        home = self.elf.sections[symbol.section]
        if symbol.value > home.size:
            raise self.elf.error(section, at, f"symbol {name} at {symbol.value:#x} is outside its section {home.name}")
        addend = self._addend(symbol, relocation, insn)
        if home.executable:
            return self._code(section, at, home.index, symbol.value + addend)
        found = self.maps.find(home.index, symbol.value + addend)
        if found is None and home.index not in self.maps.data:
            found = self.maps.find(home.index, symbol.value)
        if found is None or insn.opcode == CALL:
            expected = f"symbol {name} in section {home.name} is no function" + (
                "" if insn.opcode == CALL else ", map or data"
            )
            raise self.elf.error(section, at, expected)
        return found

    def _addend(self, symbol: Symbol, relocation: Relocation, insn: Insn) -> int:
        """The addend in bytes. A call in place holds (bytes / 8) - 1, a load holds bytes."""
        if relocation.addend:
            return relocation.addend
        value = symbol.value
        if insn.opcode == CALL:
            # To a global symbol, GCC's assembler writes value - 1, in bytes; LLVM writes -1.
            if symbol.type != STT_SECTION and insn.imm + 1 in (0, value, value // 8):
                return 0
            return (insn.imm + 1) * 8
        if symbol.type == STT_SECTION or value == 0:
            return insn.imm
        if insn.imm >= value and (self.from_gcc or symbol.size <= insn.imm <= value + symbol.size):
            return insn.imm - value
        return insn.imm

    def _code(self, section: Section, at: int, home: int, target: int) -> CodeRef:
        size = self.elf.sections[home].size
        if not 0 <= target < size or target % 8:
            name = self.elf.sections[home].name
            where = "misaligned" if target % 8 else f"outside its section of {size:#x} bytes"
            raise self.elf.error(section, at, f"target at {name}{target:+#x} is {where}")
        return CodeRef(home, target // 8)

    def _extern(self, section: Section, at: int, symbol: Symbol, name: str, insn: Insn) -> ExternRef:
        if not name:
            raise self.elf.error(section, at, "relocation against a symbol that has neither section nor name")
        weak = symbol.binding == STB_WEAK
        if insn.opcode == CALL:
            return ExternRef(name, "kfunc", weak)
        return ExternRef(name, "kconfig" if name in self.kconfig else "ksym", weak)


def resolver(elf: ElfFile, btf: Btf | None, maps: MapTable) -> Resolver:
    """A resolver that knows the object's .kconfig variables (BTF's DATASEC) and its compiler."""
    names: frozenset[str] = frozenset()
    if btf is not None and ".kconfig" in btf.datasecs:
        rows = btf.variables(btf.type(btf.datasecs[".kconfig"]))
        names = frozenset(btf.type(row.type).name for row in rows)
    comments = (section for section in elf.sections if section.name == ".comment")
    return Resolver(elf, maps, names, any(b"GCC: " in bytes(section.data[:4096]) for section in comments))
