"""Kernel images as files: written by the tests, and damaged."""

import bz2
import gzip
import lzma
import struct
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kernel_writer import TEXT, bzimage, kernel, system_map

from model.errors import InputError, Unsupported
from model.loaders.kernel_image import open_image

FUNCTIONS = {"one": b"\x31\xc0\xc3", "two": b"\xb8\xea\xff\xff\xff\xc3" * 8}


def write(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / "vmlinux"
    path.write_bytes(data)
    return path


def test_an_elf_kernel(tmp_path: Path) -> None:
    with open_image(write(tmp_path, kernel(FUNCTIONS))) as image:
        assert (image.machine, image.version(), image.types) == ("x86_64", "6.1.0-test", None)
        assert image.symbols.places("two") == (TEXT + 32,)
        assert image.end(TEXT + 32, 1 << 16) == TEXT + 32 + 48
        assert image.read(TEXT, 3) == b"\x31\xc0\xc3"
        assert image.around(TEXT + 40) == (TEXT + 32, "two")
        with pytest.raises(InputError, match="bytes that are loaded there"):
            image.read(TEXT + (1 << 20), 1)
        with pytest.raises(InputError, match="bytes that are loaded there"):
            image.read(TEXT - 1, 2)


def lz4(data: bytes) -> bytes:
    block = pytest.importorskip("lz4.block").compress(data, store_size=False)
    return b"\x02\x21\x4c\x18" + struct.pack("<I", len(block)) + bytes(block) + struct.pack("<I", len(data))


def zstd(data: bytes) -> bytes:
    return bytes(pytest.importorskip("zstandard").compress(data))


@pytest.mark.parametrize(
    "pack", [gzip.compress, lzma.compress, bz2.compress, lz4, zstd], ids=lambda pack: pack.__name__
)
def test_a_bzimage(tmp_path: Path, pack: "type[bytes]") -> None:
    symbols = tmp_path / "System.map"
    symbols.write_text(system_map(FUNCTIONS))
    with open_image(write(tmp_path, bzimage(pack(kernel(FUNCTIONS, symtab=False)))), symbols) as image:
        assert image.version() == "6.1.0-test"
        assert image.read(image.symbols.places("one")[0], 3) == b"\x31\xc0\xc3"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "expected an ELF vmlinux or a bzImage"),
        (b"MZ" + bytes(2000), "expected an ELF vmlinux or a bzImage"),
        (b"\x7fELF", "offset 0x0: expected 0x40 bytes"),
        (b"\x7fELF\1" + bytes(100), "expected an ELF file of 64 bits"),
        (kernel(FUNCTIONS, kind=1), "expected a linked kernel"),
        (kernel(FUNCTIONS, symtab=False), "expected a symbol table, or --symbols"),
        (kernel(FUNCTIONS)[:-64], "section header"),
        (kernel(FUNCTIONS, btf=b"junk" * 4), "section .BTF"),
        (bzimage(gzip.compress(b"no kernel" * 99)), "expected an ELF file of 64 bits"),
        (bzimage(gzip.compress(kernel(FUNCTIONS))[:20]), "expected 0x40 bytes"),
        (bzimage(b"\x1f\x8b" + b"junk" * 20), "the gzip payload is damaged"),
        (bzimage(b"\xfd7zXZ\0" + b"junk" * 20), "the xz payload is damaged"),
        (bzimage(gzip.compress(kernel(FUNCTIONS)))[:2100], "does not fit into the file"),
    ],
)
def test_other_files(tmp_path: Path, data: bytes, message: str) -> None:
    with pytest.raises(InputError, match=message), open_image(write(tmp_path, data)):
        pass


@pytest.mark.parametrize("magic", [b"\x02\x21\x4c\x18", b"\x28\xb5\x2f\xfd"])
def test_damaged_payloads_of_extras(tmp_path: Path, magic: bytes) -> None:
    pytest.importorskip("lz4.block")
    pytest.importorskip("zstandard")
    path = write(tmp_path, bzimage(magic + b"junk" * 20))
    with pytest.raises(InputError, match="payload is damaged"), open_image(path):
        pass


def test_a_compression_without_a_reader(tmp_path: Path) -> None:
    path = write(tmp_path, bzimage(b"\x89LZO" + bytes(100)))
    with pytest.raises(Unsupported, match="it begins with 894c5a4f"), open_image(path):
        pass


@pytest.mark.parametrize(("module", "pack"), [("lz4.block", b"\x02\x21\x4c\x18"), ("zstandard", b"\x28\xb5\x2f\xfd")])
def test_an_extra_that_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, pack: bytes) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    path = write(tmp_path, bzimage(pack + bytes(100)))
    with pytest.raises(InputError, match=r"which is not installed: pip install 'bpf-devirt\[abi\]'"), open_image(path):
        pass


def test_symbols_of_another_kernel(tmp_path: Path) -> None:
    symbols = tmp_path / "System.map"
    symbols.write_text(system_map({"longer": bytes(500), **FUNCTIONS}))
    path = write(tmp_path, kernel(FUNCTIONS))
    with pytest.raises(InputError, match="expected symbols of this image"), open_image(path, symbols):
        pass


def test_machines_are_named(tmp_path: Path) -> None:
    with open_image(write(tmp_path, kernel(FUNCTIONS, machine=183))) as image:
        assert image.machine == "arm64"
    with open_image(write(tmp_path, kernel(FUNCTIONS, machine=4711))) as image:
        assert image.machine == "machine 4711"


GOOD = kernel(FUNCTIONS, btf=b"")
PLACES = [*range(64), *range(64, 120), *range(len(GOOD) - 6 * 64, len(GOOD))]


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=st.lists(st.tuples(st.sampled_from(PLACES), st.integers(0, 255)), min_size=1, max_size=6))
def test_damaged_headers(tmp_path: Path, changes: list[tuple[int, int]]) -> None:
    data = bytearray(GOOD)
    for place, byte in changes:
        data[place] = byte
    try:
        with open_image(write(tmp_path, bytes(data))) as image:
            image.read(TEXT, 3)
    except (InputError, Unsupported):
        pass
