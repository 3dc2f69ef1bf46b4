"""The vmlinux inside an x86 bzImage: Documentation/arch/x86/boot.rst, "The Real-Mode Kernel Header", 2.08 and later."""

import bz2
import io
import lzma
import struct
import zlib
from collections.abc import Callable
from importlib import import_module
from typing import Any

from model.errors import InputError, Unsupported

LIMIT = 512 << 20  # bytes of a decompressed kernel
HEADER = 0x250
LZ4_BLOCK = 8 << 20


def is_bzimage(head: bytes) -> bool:
    return len(head) >= HEADER and head[0x202:0x206] == b"HdrS"


def unpack(data: bytes, file: str) -> bytes:
    """InputError where the header or the payload is damaged, Unsupported for a compression that is not read here."""
    (version,) = struct.unpack_from("<H", data, 0x206)
    if version < 0x208:
        raise InputError(file, "offset 0x206", f"expected boot protocol 2.08 or later, found {version:#x}")
    offset, size = struct.unpack_from("<II", data, 0x248)
    start = ((data[0x1F1] or 4) + 1) * 512 + offset
    payload = data[start : start + size]
    if len(payload) != size or size < 16:
        raise InputError(file, "offset 0x248", f"a payload of {size:#x} bytes at {start:#x} does not fit into the file")
    for magic, name, read in _FORMATS:
        if payload.startswith(magic):
            try:
                found = read(payload)
            except (OSError, EOFError, ValueError, lzma.LZMAError, zlib.error, MemoryError) as error:
                raise InputError(file, f"offset {start:#x}", f"the {name} payload is damaged: {error}") from None
            if len(found) > LIMIT:
                raise InputError(file, f"offset {start:#x}", f"expected a kernel of at most {LIMIT >> 20} MiB")
            return found
    raise Unsupported(f"{file}: a kernel that is compressed in another way (it begins with {payload[:4].hex()})")


def _zstd(payload: bytes) -> bytes:
    zstandard = _extra("zstandard")
    try:
        stream = zstandard.ZstdDecompressor(max_window_size=1 << 31).stream_reader(io.BytesIO(payload))
        return bytes(stream.read(LIMIT + 1))
    except zstandard.ZstdError as error:
        raise ValueError(str(error)) from None


def _lz4(payload: bytes) -> bytes:
    """The legacy frame of lz4_Frame_format.md: blocks of up to 8 MiB, each behind its size; then the whole size."""
    block = _extra("lz4.block")
    found, at = bytearray(), 4
    while at + 8 <= len(payload) and len(found) <= LIMIT:
        (size,) = struct.unpack_from("<I", payload, at)
        if not 0 < size <= len(payload) - at - 4:
            raise ValueError(f"a block of {size:#x} bytes at {at:#x}")
        try:
            found += block.decompress(payload[at + 4 : at + 4 + size], uncompressed_size=LZ4_BLOCK)
        except block.LZ4BlockError as error:
            raise ValueError(str(error)) from None
        at += 4 + size
    return bytes(found)


def _extra(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        wish = f"expected {name.partition('.')[0]}, which is not installed: pip install 'bpf-devirt[abi]'"
        raise InputError("abi-check", "", wish) from None


_FORMATS: tuple[tuple[bytes, str, Callable[[bytes], bytes]], ...] = (
    (b"\xfd7zXZ\0", "xz", lambda payload: lzma.LZMADecompressor().decompress(payload, LIMIT + 1)),
    (b"\x28\xb5\x2f\xfd", "zstd", _zstd),
    (b"\x1f\x8b", "gzip", lambda payload: zlib.decompressobj(31).decompress(payload, LIMIT + 1)),
    (b"BZh", "bzip2", lambda payload: bz2.BZ2Decompressor().decompress(payload, LIMIT + 1)),
    (b"\x5d\0\0", "lzma", lambda payload: lzma.LZMADecompressor(lzma.FORMAT_ALONE).decompress(payload, LIMIT + 1)),
    (b"\x02\x21\x4c\x18", "lz4", _lz4),
)
