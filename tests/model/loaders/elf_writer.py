"""Writes relocatable BPF objects row by row, wrong ones too: the tests' own writer, straight from the gABI."""

import struct
from dataclasses import dataclass, field
from typing import Literal

PROGBITS, SYMTAB, STRTAB, RELA, NOBITS, REL = 1, 2, 3, 4, 8, 9
LOCAL, GLOBAL, WEAK = 0, 1, 2
NOTYPE, OBJECT, FUNC, SECTION = 0, 1, 2, 3
CODE, DATA = 6, 3  # SHF_ALLOC with SHF_EXECINSTR, with SHF_WRITE


@dataclass
class Part:
    """A section; `size` where the header shall tell another one than its bytes have."""

    name: str
    data: bytes = b""
    type: int = PROGBITS
    flags: int = 0
    link: int = 0
    info: int = 0
    size: int | None = None


@dataclass
class Writer:
    """Sections get the indexes 1, 2, … in the order of `add`; then come symbol table, strings and section names."""

    order: Literal["<", ">"] = "<"
    machine: int = 247
    parts: list[Part] = field(default_factory=list)
    symbols: list[bytes] = field(default_factory=lambda: [bytes(24)])
    strings: bytearray = field(default_factory=lambda: bytearray(b"\0"))

    def add(self, name: str, data: bytes = b"", kind: int = PROGBITS, flags: int = 0, size: int | None = None) -> int:
        self.parts.append(Part(name, data, kind, flags, size=size))
        return len(self.parts)

    def code(self, name: str, text: str) -> int:
        """An executable section from hexadecimal slots."""
        return self.add(name, bytes.fromhex(text), flags=CODE)

    def symbol(
        self, name: str, section: int, value: int = 0, size: int = 0, kind: int = FUNC, binding: int = GLOBAL
    ) -> int:
        at = 0
        if name:
            at = len(self.strings)
            self.strings += name.encode() + b"\0"
        self.symbols.append(struct.pack(self.order + "IBBHQQ", at, binding << 4 | kind, 0, section, value, size))
        return len(self.symbols) - 1

    def relocate(self, section: int, *rows: tuple[int, int, int], addends: list[int] | None = None) -> None:
        """Rows of (offset, type, symbol); with addends a SHT_RELA section."""
        data = b""
        for index, (offset, kind, symbol) in enumerate(rows):
            data += struct.pack(self.order + "QQ", offset, symbol << 32 | kind)
            if addends is not None:
                data += struct.pack(self.order + "q", addends[index])
        part = Part(".rel", data, REL if addends is None else RELA, link=-1, info=section)
        self.parts.append(part)

    def bytes(self) -> bytes:
        symtab = len(self.parts) + 1
        parts = [
            Part("", b"", 0),
            *self.parts,
            Part(".symtab", b"".join(self.symbols), SYMTAB, link=symtab + 1),
            Part(".strtab", bytes(self.strings), STRTAB),
        ]
        names = bytearray(b"\0")
        parts.append(Part(".shstrtab", b"", STRTAB))
        places = []
        for part in parts:
            places.append(len(names) if part.name else 0)
            names += part.name.encode() + b"\0" if part.name else b""
        parts[-1].data = bytes(names)
        body, headers = bytearray(), bytearray()
        for part, place in zip(parts, places, strict=True):
            link = symtab if part.link == -1 else part.link
            size = len(part.data) if part.size is None else part.size
            row = (place, part.type, part.flags, 0, 64 + len(body), size, link, part.info, 8, 0)
            headers += struct.pack(self.order + "IIQQQQIIQQ", *row)
            body += part.data + bytes(-len(part.data) % 8)
        ident = b"\x7fELF\2" + (b"\1" if self.order == "<" else b"\2") + b"\1" + bytes(9)
        fields = (1, self.machine, 1, 0, 0, 64 + len(body), 0, 64, 0, 0, 64, len(parts), len(parts) - 1)
        return ident + struct.pack(self.order + "HHIQQQIHHHHHH", *fields) + bytes(body) + bytes(headers)


def btf(types: bytes, strings: bytes, order: str = "<") -> bytes:
    """A .BTF section around types and strings (without the first NUL)."""
    text = b"\0" + strings
    return struct.pack(order + "HBBIIIII", 0xEB9F, 1, 0, 24, 0, len(types), len(types), len(text)) + types + text


def btf_type(name: int, kind: int, vlen: int, target: int, *extra: int, order: str = "<") -> bytes:
    """One BTF type: name offset, kind, vlen, size or type, and the words that follow."""
    return struct.pack(order + "III" + "I" * len(extra), name, kind << 24 | vlen, target, *extra)
