"""A kernel's text: an ELF vmlinux (or a core such as /proc/kcore), a bzImage, or the running kernel itself.

Of a file only what is asked for is read. Symbols come from the ELF's symbol table or from a listing (System.map,
/proc/kallsyms); prototypes from its section .BTF.
"""

import io
import platform
import struct
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from model.errors import InputError, ModelError
from model.loaders.bzimage import is_bzimage, unpack
from model.loaders.elf_strings import StringTable
from model.loaders.kernel_btf import KernelTypes, running_types
from model.loaders.kernel_memory import KernelMemory, NotMapped
from model.loaders.kernel_symbols import Symbols, read_symbols
from model.loaders.live import Refused

MACHINES = dict(
    (
        *((62, "x86_64"), (183, "arm64"), (243, "riscv64"), (22, "s390x")),
        *((21, "ppc64le"), (258, "loongarch64"), (8, "mips64"), (43, "sparc64")),
    )
)
"""e_machine -> name as in `model.kernel.abi`."""
KALLSYMS = Path("/proc/kallsyms")
ET_EXEC, ET_DYN, ET_CORE = 2, 3, 4
PT_LOAD, PROGBITS, SYMTAB, STRTAB = 1, 1, 2, 3
SHN_ABS = 0xFFF1
FUNCTION_TYPES = (0, 1, 2, 10)  # STT_NOTYPE, STT_OBJECT, STT_FUNC, STT_GNU_IFUNC
MOST_HEADERS = 4096
MOST_TABLE = 512 << 20  # bytes of a table or section that is read whole
IMAGE = 256 << 20  # bytes of a bzImage
BANNER = 200


@dataclass(frozen=True, slots=True)
class KernelImage:
    """`reader` gives bytes at an address and raises ModelError where there are none."""

    file: str
    machine: str
    symbols: Symbols
    types: KernelTypes | None
    reader: Callable[[int, int], bytes]

    def read(self, address: int, size: int) -> bytes:
        return self.reader(address, size)

    def names(self, address: int) -> tuple[str, ...]:
        return self.symbols.names(address)

    def around(self, address: int) -> tuple[int, str] | None:
        return self.symbols.around(address)

    def end(self, address: int, limit: int) -> int:
        return self.symbols.end(address, limit)

    def version(self) -> str:
        """From the banner ("6.1.0-50-cloud-amd64"); "" where it is not found."""
        for address in self.symbols.places("linux_banner"):
            try:
                data = self.read(address, self.end(address, BANNER) - address)
            except ModelError:
                return ""
            text = data.split(b"\0")[0].decode("ascii", "replace")
            return text.removeprefix("Linux version ").split(" ")[0] if text.startswith("Linux version ") else ""
        return ""

    def pairs(self, table: str, size: int) -> Iterator[tuple[int, int]]:
        """Rows of `size` bytes between __start_TABLE and __stop_TABLE: where their first two relative numbers lead."""
        starts, stops = self.symbols.places(f"__start_{table}"), self.symbols.places(f"__stop_{table}")
        if not starts or not stops or not 0 < stops[0] - starts[0] <= MOST_TABLE:
            return
        data = self.read(starts[0], (stops[0] - starts[0]) // size * size)
        for at in range(0, len(data), size):
            one, two = struct.unpack_from("<ii", data, at)
            yield starts[0] + at + one, starts[0] + at + 4 + two


class _Elf:
    """An ELF file of 64 bits, little-endian; tables are read as they are needed."""

    def __init__(self, stream: BinaryIO, file: str) -> None:
        self.stream, self.file = stream, file
        self.header = self._header()
        self.sections = self._sections()
        self.ranges = self._ranges()

    def at(self, offset: int, size: int, what: str) -> bytes:
        try:
            self.stream.seek(offset)
            data = self.stream.read(size) if 0 <= size <= MOST_TABLE else b""
        except (OSError, ValueError, OverflowError):
            data = b""
        if len(data) != size:
            raise InputError(self.file, f"offset {offset:#x}", f"expected {size:#x} bytes ({what})")
        return data

    def _header(self) -> tuple[int, ...]:
        data = self.at(0, 64, "an ELF header")
        if data[:4] != b"\x7fELF" or data[4] != 2:
            raise InputError(self.file, "offset 0x0", "expected an ELF file of 64 bits")
        order = ">" if data[5] == 2 else "<"
        fields = struct.unpack_from(order + "HHIQQQIHHHHHH", data, 16)
        self.machine = MACHINES.get(fields[1], f"machine {fields[1]}")
        if order == "<" and fields[0] not in (ET_EXEC, ET_DYN, ET_CORE):
            raise InputError(self.file, "offset 0x10", "expected a linked kernel (vmlinux) or a core, not an object")
        self.foreign = order == ">" or self.machine != "x86_64"
        return fields

    def _rows(self, offset: int, count: int, size: int, form: str, what: str) -> list[tuple[int, ...]]:
        if count == 0 or offset == 0 or self.foreign:
            return []
        if count > MOST_HEADERS or size != struct.calcsize(form):
            raise InputError(self.file, f"offset {offset:#x}", f"expected at most {MOST_HEADERS} {what}s of usual size")
        return list(struct.iter_unpack(form, self.at(offset, count * size, what)))

    def _sections(self) -> list[tuple[int, ...]]:
        """(name, type, flags, address, offset, size, link, info, alignment, entry size)."""
        return self._rows(self.header[5], self.header[11], self.header[10], "<IIQQQQIIQQ", "section header")

    def _ranges(self) -> list[tuple[int, int, int]]:
        """Address, bytes in the file, offset of what is loaded, by address."""
        rows = self._rows(self.header[4], self.header[9], self.header[8], "<IIQQQQQQ", "program header")
        loaded = [(row[3], row[5], row[2]) for row in rows if row[0] == PT_LOAD and row[5]]
        return sorted(loaded)

    def contents(self, row: tuple[int, ...], what: str) -> bytes:
        return self.at(row[4], row[5], what)

    def section(self, name: str) -> tuple[int, ...] | None:
        index = self.header[12]
        if not 0 < index < len(self.sections):
            return None
        names = StringTable(self.contents(self.sections[index], "section names"), self.file, "section names")
        return next((row for row in self.sections if names.name(row[0]) == name and row[1] == PROGBITS), None)

    def read(self, address: int, size: int) -> bytes:
        index = bisect_right(self.ranges, (address, 1 << 64, 0)) - 1
        start, length, offset = self.ranges[index] if index >= 0 else (0, 0, 0)
        if index < 0 or address + size > start + length:
            raise InputError(self.file, f"address {address:#x}", f"expected {size:#x} bytes that are loaded there")
        return self.at(offset + address - start, size, "a part of a segment")

    def symbols(self) -> Symbols | None:
        """None where there is no symbol table."""
        table = next((row for row in self.sections if row[1] == SYMTAB), None)
        if table is None or not 0 < table[6] < len(self.sections) or self.sections[table[6]][1] != STRTAB:
            return None
        data = self.contents(table, "the symbol table")
        if len(data) % 24:
            raise InputError(self.file, "the symbol table", f"expected a multiple of 24 bytes, found {len(data):#x}")
        names = StringTable(self.contents(self.sections[table[6]], "symbol names"), self.file, "symbol names")
        pairs: list[tuple[int, str]] = []
        sizes: dict[int, int] = {}
        for name_at, info, _, section, value, size in struct.iter_unpack("<IBBHQQ", data):
            if section in (0, SHN_ABS) or info & 15 not in FUNCTION_TYPES or not value:
                continue
            name = names.name(name_at)
            if name and not name.startswith((".L", "__pfx_", "__cfi_")):
                pairs.append((value, name))
                sizes[value] = max(size, sizes.get(value, 0))
        return Symbols(pairs, sizes) if pairs else None


@contextmanager
def open_image(path: Path, symbols: Path | None = None) -> Iterator[KernelImage]:
    """InputError for anything that is no kernel image, or has no symbols and is given none."""
    try:
        stream = path.open("rb")
    except OSError as error:
        raise InputError(str(path), "", f"cannot be read: {error.strerror}") from None
    with stream:
        try:
            head = stream.read(1024)
            source: BinaryIO = stream
            if head[:4] != b"\x7fELF":
                if not is_bzimage(head):
                    raise InputError(str(path), "", "expected an ELF vmlinux or a bzImage")
                stream.seek(0)
                source = io.BytesIO(unpack(stream.read(IMAGE), str(path)))
        except OSError as error:
            raise InputError(str(path), "", f"cannot be read: {error.strerror}") from None
        yield _image(_Elf(source, str(path)), None if symbols is None else read_symbols(symbols))


def _image(elf: _Elf, given: Symbols | None) -> KernelImage:
    symbols = given or elf.symbols()
    if symbols is None and not elf.foreign:
        wish = "expected a symbol table, or --symbols with the kernel's System.map or a copy of its /proc/kallsyms"
        raise InputError(elf.file, "", wish)
    row = elf.section(".BTF")
    types = None if row is None or not row[5] else KernelTypes(elf.contents(row, "section .BTF"), elf.file)
    image = KernelImage(elf.file, elf.machine, symbols or Symbols(()), types, elf.read)
    if given is not None and given.places("linux_banner") and not image.version():
        wish = (
            "expected symbols of this image: no banner is where they have linux_banner (KASLR moves a running kernel)"
        )
        raise InputError(elf.file, "--symbols", wish)
    return image


@contextmanager
def running_image() -> Iterator[KernelImage]:
    """The running kernel's text, read by a program that is test-run. InputError where that is not permitted."""
    machine = {"aarch64": "arm64"}.get(platform.machine(), platform.machine())
    types = running_types()
    try:
        with KernelMemory() as memory:
            yield KernelImage("the running kernel", machine, read_symbols(KALLSYMS), types, memory.read)
    except Refused as refused:
        why = str(refused).splitlines()[0]
        raise InputError("--running", "", f"expected the right to load programs (root): {why}") from None


__all__ = ["KernelImage", "NotMapped", "open_image", "running_image"]
