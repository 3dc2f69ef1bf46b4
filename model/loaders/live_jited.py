"""A loaded program's machine code, as the kernel hands it out (struct bpf_prog_info; include/uapi/linux/bpf.h)."""

import ctypes
import struct

from model.errors import Unsupported
from model.loaders.live import Command, Live, Refused

INFO = 256
LENGTH, INSNS, SYMBOLS, LENGTHS, SYMBOLS_AT, LENGTHS_AT = 16, 24, 104, 108, 112, 120
"""Offsets of jited_prog_len, jited_prog_insns, nr_jited_ksyms, nr_jited_func_lens, jited_ksyms, jited_func_lens."""
MOST_CODE = 256 << 20
MOST_PARTS = 4096
"""More than BPF_MAX_SUBPROGS and its exception callback (257)."""


def jited(live: Live, fd: int) -> tuple[tuple[int, bytes], ...]:
    """Address and code of each function of the program behind `fd`, in the order of its instructions.

    Raises `Unsupported` where the program runs without machine code or the kernel does not show it, `Refused`.
    """
    info = bytes(INFO)
    first = _ask(live, fd, info)
    size, symbols, lengths = (struct.unpack_from("=I", first, at)[0] for at in (LENGTH, SYMBOLS, LENGTHS))
    if not size:
        raise Unsupported("the program is not JITed (net.core.bpf_jit_enable, or the kernel hides it)")
    if size > MOST_CODE or not 0 < symbols == lengths <= MOST_PARTS:
        raise Unsupported(f"{size} bytes of machine code in {symbols} functions with {lengths} lengths")
    code = ctypes.create_string_buffer(size)
    places, sizes = ctypes.create_string_buffer(8 * symbols), ctypes.create_string_buffer(4 * lengths)
    request = bytearray(info)
    for at, form, value in (
        *((LENGTH, "=I", size), (INSNS, "=Q", ctypes.addressof(code))),
        *((SYMBOLS, "=I", symbols), (SYMBOLS_AT, "=Q", ctypes.addressof(places))),
        *((LENGTHS, "=I", lengths), (LENGTHS_AT, "=Q", ctypes.addressof(sizes))),
    ):
        struct.pack_into(form, request, at, value)
    told = _ask(live, fd, bytes(request), code, places, sizes)
    if any(struct.unpack_from("=Q", told, at)[0] == 0 for at in (INSNS, SYMBOLS_AT, LENGTHS_AT)):
        raise Unsupported("the kernel does not show machine code here (kernel.kptr_restrict, or no CAP_SYSLOG)")
    again = tuple(struct.unpack_from("=I", told, at)[0] for at in (LENGTH, SYMBOLS, LENGTHS))
    if again != (size, symbols, lengths):
        raise Unsupported("the machine code changed while it was read")
    return parts(code.raw, struct.unpack(f"={symbols}Q", places.raw), struct.unpack(f"={lengths}I", sizes.raw))


def parts(code: bytes, places: tuple[int, ...], sizes: tuple[int, ...]) -> tuple[tuple[int, bytes], ...]:
    """Raises `Unsupported` where the lengths do not add up to the code's."""
    if sum(sizes) != len(code) or len(places) != len(sizes) or not all(sizes):
        raise Unsupported(f"functions of {sum(sizes)} bytes in machine code of {len(code)}")
    found, at = [], 0
    for place, size in zip(places, sizes, strict=True):
        found.append((place, code[at : at + size]))
        at += size
    return tuple(found)


def _ask(live: Live, fd: int, info: bytes, *buffers: ctypes.Array[ctypes.c_char]) -> bytes:
    held = ctypes.create_string_buffer(info, len(info))
    attributes = struct.pack("=IIQ", fd, len(info), ctypes.addressof(held))
    result, _ = live.call(Command.OBJ_GET_INFO_BY_FD, attributes, held, *buffers)
    if result < 0:
        raise Refused("read the machine code back", -result)
    return held.raw
