"""BPF objects: what libbpf 1.x accepts, from ELF bytes to linked programs.

Order of work: the container (elf_file), types (btf, elf_btf_ext), maps (elf_maps), what each slot names
(elf_relocations), functions (elf_functions), and programs with what they reach (elf_link).
"""

from collections.abc import Iterator
from dataclasses import dataclass

from model.errors import InputError
from model.isa import codec
from model.isa.insn import Insn
from model.isa.opcodes import WIDE, Class, Jmp
from model.loaders import elf_btf_ext, elf_exceptions, elf_file, elf_functions, elf_maps, elf_relocations
from model.loaders.btf import Btf
from model.loaders.elf_btf_ext import BtfExt
from model.loaders.elf_file import ElfFile, Section
from model.loaders.elf_functions import Function
from model.loaders.elf_link import Linker, Place
from model.loaders.elf_maps import MapTable
from model.loaders.elf_relocations import CodeRef
from model.program import Object

_LICENSE_LIMIT = 128


@dataclass(frozen=True, slots=True)
class Parts:
    """An object with what loading it into a kernel needs besides; `places` has the functions of each program."""

    found: Object
    elf: ElfFile
    btf: Btf | None
    table: MapTable
    places: tuple[tuple[Place, ...], ...]


def load(data: bytes, file: str) -> Object:
    """`parts` without what only a kernel asks for."""
    return parts(data, file).found


def parts(data: bytes, file: str) -> Parts:
    """Read a relocatable BPF object; `file` is its name in messages.

    Programs come in the file's order of sections and functions. All of them share `maps`, so that a
    map's index is the same in every program. Raises InputError for whatever libbpf or the kernel would
    refuse in the container, the BTF, map definitions, symbols and relocations. Linear in the size of
    file and result.
    """
    elf = elf_file.read(data, file)
    btf, info = _types(elf)
    table = elf_maps.collect(elf, btf)
    code = {section.index: section for section in elf.sections if section.executable}
    insns = {index: _decode(elf, section) for index, section in code.items()}
    resolver = elf_relocations.resolver(elf, btf, table)
    targets = {index: resolver.targets(section, insns[index]) for index, section in code.items()}
    called = {target for rows in targets.values() for target in rows.values() if isinstance(target, CodeRef)}
    functions = elf_functions.find(elf, code.values(), called)
    starts: dict[CodeRef, Function] = {}
    for function in functions:
        starts.setdefault(function.ref, function)  # several names of one range: aliases
    for function in starts.values():
        _check(elf, function, insns[function.section])
    names = {index: section.name for index, section in code.items()}
    exceptions = elf_exceptions.callbacks(btf, functions)
    linker = Linker(file, insns, targets, starts, names, tuple(table.maps), info, exceptions)
    programs = tuple(linker.program(function) for function in functions if function.entry)
    found = Object(file, programs, linker.maps, _license(elf), elf.byteorder, tuple(_notes(info)))
    return Parts(found, elf, btf, table, tuple(linker.placed))


def _types(elf: ElfFile) -> tuple[Btf | None, BtfExt | None]:
    found = {section.name: section for section in elf.sections if section.name in (".BTF", ".BTF.ext") and section.size}
    if ".BTF" not in found:
        return None, None
    btf = Btf(bytes(found[".BTF"].data), elf.file)
    if ".BTF.ext" not in found:
        return btf, None
    return btf, elf_btf_ext.read(bytes(found[".BTF.ext"].data), btf, elf.file)


def _decode(elf: ElfFile, section: Section) -> tuple[Insn, ...]:
    return codec.decode(bytes(section.data), elf.byteorder, file=elf.file, place=f"section {section.name}")


def _check(elf: ElfFile, function: Function, insns: tuple[Insn, ...]) -> None:
    """Valid instructions only, and jumps that stay in their function (check_subprogs, kernel/bpf/verifier.c)."""
    section = elf.sections[function.section].name
    body = insns[function.start : function.end]
    codec.check(body, loaded=False, file=elf.file, place=f"section {section}, function {function.name}")
    for slot, insn in enumerate(body):
        offset = _jump(insn)
        if offset is None:
            continue
        target = slot + 1 + offset
        if not 0 <= target < len(body) or (target and body[target - 1].opcode == WIDE):
            place = f"section {section}+{(function.start + slot) * 8:#x}, function {function.name}, slot {slot}"
            raise InputError(
                elf.file, place, f"jump to slot {target}: expected an instruction of the function's {len(body)} slots"
            )


def _jump(insn: Insn) -> int | None:
    """How far a jump goes, in slots from the next one; None for everything else (RFC 9669, section 4.3)."""
    if insn.opcode & 7 not in (Class.JMP, Class.JMP32) or insn.opcode >> 4 in (Jmp.CALL, Jmp.EXIT):
        return None
    return insn.imm if insn.opcode == Class.JMP32 | Jmp.JA << 4 else insn.off


def _license(elf: ElfFile) -> str:
    for section in elf.sections:
        if section.name == "license":
            return bytes(section.data[:_LICENSE_LIMIT]).split(b"\0")[0].decode("utf-8", "backslashreplace")
    return ""


def _notes(info: BtfExt | None) -> Iterator[str]:
    count = sum(len(rows) for rows in info.core.values()) if info else 0
    if count:
        yield f"{count} CO-RE relocations are left as they are: field offsets are those of the compile time"
