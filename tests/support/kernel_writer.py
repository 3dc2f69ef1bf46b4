"""Writes the least ELF kernel and the least bzImage around it: the tests' own writer, from the gABI and boot.rst."""

import struct
from collections.abc import Mapping

TEXT = 0xFFFFFFFF81000000
PAGE = 0x1000


def kernel(
    functions: Mapping[str, bytes],
    *,
    version: str = "6.1.0-test",
    machine: int = 62,
    kind: int = 2,
    btf: bytes = b"",
    symtab: bool = True,
) -> bytes:
    """An ELF file with `functions` at TEXT, one after the other, and a banner behind them."""
    text, places = bytearray(), {}
    for name, code in {**functions, "linux_banner": f"Linux version {version} (test)\n\0".encode()}.items():
        places[name] = (TEXT + len(text), len(code))
        text += code + b"\xcc" * (-len(code) % 32)
    text += bytes(256)
    names = b"\0" + b"".join(name.encode() + b"\0" for name in places)
    symbols, at = bytes(24), 1
    for name, (address, size) in places.items():
        symbols += struct.pack("<IBBHQQ", at, 0x12, 0, 1, address, size)
        at += len(name) + 1
    sections = [("", 0, b"", 0), (".text", 1, bytes(text), 0), (".BTF", 1, btf, 0)]
    if symtab:
        sections += [(".symtab", 2, symbols, 4), (".strtab", 3, names, 0)]
    titles = b"\0" + b"".join(name.encode() + b"\0" for name, *_ in sections) + b".shstrtab\0"
    sections.append((".shstrtab", 3, titles, 0))
    body, headers = bytearray(PAGE), b""
    for name, type_, data, link in sections:
        place = titles.find(b"\0" + name.encode() + b"\0") + 1 if name else 0
        address = TEXT if name == ".text" else 0
        headers += struct.pack("<IIQQQQIIQQ", place, type_, 0, address, len(body), len(data), link, 0, 1, 0)
        body += data
    program = struct.pack("<IIQQQQQQ", 1, 5, PAGE, TEXT, TEXT, len(text), len(text), PAGE)
    body[64 : 64 + len(program)] = program
    fields = (kind, machine, 1, TEXT, 64, len(body), 0, 64, 56, 1, 64, len(sections), len(sections) - 1)
    body[:64] = b"\x7fELF\2\1\1" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", *fields)
    return bytes(body) + headers


def system_map(functions: Mapping[str, bytes]) -> str:
    """The listing of a `kernel` of the same functions."""
    lines, address = [], TEXT
    for name, code in {**functions, "linux_banner": b""}.items():
        lines.append(f"{address:016x} T {name}")
        address += len(code) + -len(code) % 32
    return "\n".join(lines) + "\n"


def bzimage(payload: bytes) -> bytes:
    """A boot sector, three sectors of set-up code, 16 bytes in front of the payload, and four behind it."""
    head = bytearray(4 * 512)
    head[0x1F1] = 3
    head[0x202:0x208] = b"HdrS" + struct.pack("<H", 0x20F)
    struct.pack_into("<II", head, 0x248, 16, len(payload))
    return bytes(head) + bytes(16) + payload + bytes(4)
