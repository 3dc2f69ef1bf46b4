"""What an object asks of the kernel by name: configuration values, variables and functions (libbpf 1.x,
`bpf_object__resolve_externs`)."""

import gzip
import platform
import re
import struct
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from model.errors import InputError, Unsupported
from model.isa.insn import Insn
from model.isa.opcodes import WIDE
from model.loaders.btf import Btf, Kind
from model.loaders.kernel_btf import KernelTypes
from model.loaders.kernel_symbols import Symbols
from model.loaders.live_maps import Maps
from model.program import ExternRef, Map, MapRef, Program, Ref

CONFIG = (Path("/proc/config.gz"), Path(f"/boot/config-{platform.release()}"))
CONFIG_LIMIT = 16 << 20
MAP_VALUE, BTF_ID, KFUNC = 2, 3, 2
NO_FUNCTION = 2002000000
"""What libbpf calls in the place of a weak function that the kernel does not have."""
KNOWN = {"LINUX_HAS_BPF_COOKIE": 1, "LINUX_HAS_SYSCALL_WRAPPER": 1}
"""Virtual values of libbpf; on kernels of 5.15 and later both hold (x86-64, arm64, s390x, riscv64)."""
WORDS = {"y": 1, "m": 2, "n": 0}


def resolved(program: Program, btf: Btf | None, maps: Maps, types: KernelTypes, symbols: Symbols) -> Program:
    """The program with everything outside of it that is no map put in. Raises `Unsupported` where something is missing.

    A name stays in `refs` where an instruction means something of the kernel.
    """
    insns, refs = list(program.insns), dict(program.refs)
    values = _Config(btf, maps)
    for slot, ref in program.refs.items():
        if not isinstance(ref, ExternRef):
            continue
        match ref.kind:
            case "kconfig":
                number, offset = values.place(ref)
                insns[slot] = replace(insns[slot], src=MAP_VALUE, imm=0)
                insns[slot + 1] = replace(insns[slot + 1], imm=offset)
                refs[slot] = MapRef(number, offset)
            case "kfunc":
                insns[slot] = _kfunc(insns[slot], ref, types, slot)
                if insns[slot].src == 0:
                    del refs[slot]
            case "ksym":
                _ksym(insns, refs, slot, ref, btf, types, symbols)
    return replace(program, insns=tuple(insns), refs=refs, maps=tuple(maps.maps))


def _kfunc(insn: Insn, ref: ExternRef, types: KernelTypes, slot: int) -> Insn:
    found = types.ids(Kind.FUNC, ref.name.partition("___")[0])
    if found:
        return replace(insn, src=KFUNC, off=0, imm=found[0])
    if not ref.weak:
        raise Unsupported(f"the kernel's own BTF has no function {ref.name} (modules are not searched)")
    return Insn(insn.opcode, imm=NO_FUNCTION + slot)


def _ksym(
    insns: list[Insn],
    refs: dict[int, Ref],
    slot: int,
    ref: ExternRef,
    btf: Btf | None,
    types: KernelTypes,
    symbols: Symbols,
) -> None:
    """A variable by its BTF id where the object gives it a type, else its address."""
    name = ref.name.partition("___")[0]
    kind = _kind(btf, ref.name)
    ids = types.ids(Kind.FUNC, name) if kind is Kind.FUNC else types.ids(Kind.VAR, name)
    places = symbols.places(name)
    if kind is not Kind.VOID and ids:
        source, address = BTF_ID, ids[0]
    elif kind is Kind.VOID and len(places) == 1:
        source, address = 0, places[0]
    elif ref.weak:
        source, address = 0, 0
        del refs[slot]
    else:
        raise Unsupported(f"the kernel has no variable {ref.name}, or several")
    low, high = address & 0xFFFFFFFF, address >> 32
    insns[slot] = Insn(WIDE, insns[slot].dst, source, 0, low - (low >> 31 << 32))
    insns[slot + 1] = Insn(0, imm=high - (high >> 31 << 32))


def _kind(btf: Btf | None, name: str) -> Kind:
    """VOID for a variable without a type (`extern const void NAME __ksym`), else VAR or FUNC."""
    for one, kind in _externs(btf, ".ksyms"):
        if one == name:
            return kind
    return Kind.VOID


def _externs(btf: Btf | None, section: str) -> Iterator[tuple[str, Kind]]:
    if btf is None or section not in btf.datasecs:
        return
    for row in btf.variables(btf.type(btf.datasecs[section])):
        found = btf.type(row.type)
        void = found.kind is Kind.VAR and btf.resolve(found.target).kind is Kind.VOID
        yield found.name, Kind.VOID if void else found.kind


class _Config:
    """The values of .kconfig: a map that is made when the first of them is asked for."""

    def __init__(self, btf: Btf | None, maps: Maps) -> None:
        self._btf, self._maps = btf, maps
        self._number = next((at for at, one in enumerate(maps.maps) if one.name == ".kconfig"), -1)

    def place(self, ref: ExternRef) -> tuple[int, int]:
        """The map's number and the byte offset there."""
        offsets, contents = self._laid_out()
        if ref.name not in offsets:
            raise Unsupported(f"the object's BTF does not tell the type of {ref.name}")
        if self._number < 0:
            shape = Map(".kconfig", "array", 4, len(contents), 1, 1 << 7, type_number=2)
            self._number = self._maps.add(shape, contents)
        return self._number, offsets[ref.name]

    def _laid_out(self) -> tuple[dict[str, int], bytes]:
        offsets, contents = dict[str, int](), b""
        btf = self._btf
        if btf is None or ".kconfig" not in btf.datasecs:
            return offsets, contents
        for row in btf.variables(btf.type(btf.datasecs[".kconfig"])):
            found = btf.type(row.type)
            size = btf.size(found.target)
            contents += bytes(-len(contents) % min(max(size, 1), 8))
            offsets[found.name] = len(contents)
            contents += _value(found.name, size)
        return offsets, contents


def _value(name: str, size: int) -> bytes:
    if name == "LINUX_KERNEL_VERSION":
        return version_code().to_bytes(size, "little")
    if name in KNOWN:
        return KNOWN[name].to_bytes(size, "little")
    text = configuration().get(name, "0")
    if text.startswith('"'):
        return text.strip('"').encode()[: size - 1].ljust(size, b"\0")
    try:
        number = WORDS[text] if text in WORDS else int(text, 0)
    except ValueError:
        raise Unsupported(f"the kernel's configuration has {name}={text[:40]}: no number") from None
    return struct.pack("=Q", number & (1 << 64) - 1)[:size].ljust(size, b"\0")


def version_code() -> int:
    """LINUX_VERSION_CODE of the running kernel: a byte each for the first three numbers, 255 at most."""
    numbers = [int(text) for text in re.findall(r"\d+", platform.release())[:3]]
    major, minor, patch = [*numbers, 0, 0, 0][:3]
    return major << 16 | minor << 8 | min(patch, 255)


def configuration() -> dict[str, str]:
    """The kernel's configuration. Raises InputError where it shows none."""
    for path in CONFIG:
        try:
            data = path.read_bytes()[:CONFIG_LIMIT]
            text = gzip.decompress(data) if path.suffix == ".gz" else data
        except (OSError, EOFError, zlib.error):
            continue
        lines = text[:CONFIG_LIMIT].decode("utf-8", "replace").splitlines()
        return dict(line.split("=", 1) for line in lines if line.startswith("CONFIG_") and "=" in line)
    raise InputError("the running kernel", str(CONFIG[0]), "expected its configuration, which the object asks for")
