"""Test files of uBPF and bpf_conformance: sections `-- asm`, `-- raw`, `-- mem`, `-- result`, `-- error` in one text.

A section ends where the next begins; `#` begins a comment in all of them. `-- raw` holds one 64-bit number a
slot (`0x00000001000000b7`, with or without the zeroes in front) or bytes in hex, `-- mem` bytes in hex,
`-- result` the number that r0 must be. `-- error` (whose text is another program's message) says that the program must
not end well. Other sections are passed over.
"""

import re
from dataclasses import dataclass

from model.errors import InputError
from model.loaders.assembly_draft import MOST_CHARACTERS, bounded

_NAME = re.compile(r"[a-z][a-z ]{0,40}", re.ASCII)
_SLOT = re.compile(r"0x[0-9a-fA-F]{1,16}", re.ASCII)
_RESULT = re.compile(r"-?(?:0x[0-9a-f]{1,16}|[0-9]{1,20})", re.ASCII)
_HEX = re.compile(r"(?:0x)?([0-9a-fA-F]+)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Case:
    """`assembly` has a blank line for every line outside of its section, so that line numbers stay.

    `raw` is the program's bytes, little-endian; one of the two is not None. `result` is 64 bits, unsigned.
    `fails` where there is `-- error`, or `-- error pattern`.
    """

    assembly: str | None
    raw: bytes | None
    memory: bytes | None
    result: int | None
    fails: bool = False


def _header(line: str) -> str | None:
    """The name in a line `-- NAME`; None where it is another line."""
    words = line.strip()
    name = words[2:].strip() if words.startswith("--") else ""
    return name if _NAME.fullmatch(name) else None


def looks_like(text: str) -> bool:
    return any(_header(line) is not None for line in text.split("\n"))


def hex_bytes(text: str, file: str, place: str) -> bytes:
    """Bytes in hex, with or without white space, commas, colons or `0x` between them.

    Raises `InputError` where a run of digits is no whole number of bytes or anything else is there.
    """
    out = bytearray()
    for word in re.split(r"[\s,:]+", text.strip()):
        if not word:
            continue
        match = _HEX.fullmatch(word)
        if match is None or len(match[1]) % 2:
            raise InputError(file, place, f"bytes in hex, two digits each, found {word[:40]!r}")
        out += bytes.fromhex(match[1])
    return bytes(out)


def _raw(lines: list[str], file: str) -> bytes:
    words = " ".join(lines).split()
    if words and all(_SLOT.fullmatch(word) for word in words) and any(len(word) > len("0xff") for word in words):
        return b"".join(int(word, 16).to_bytes(8, "little") for word in words)
    return hex_bytes(" ".join(words), file, "section raw")


def _result(lines: list[str], file: str) -> int:
    text = " ".join(lines).strip().lower()
    value = int(text, 16 if "0x" in text else 10) if _RESULT.fullmatch(text) else 1 << 64
    if not -(1 << 63) <= value < 1 << 64:
        raise InputError(file, "section result", f"a number of 64 bits, found {text[:40]!r}")
    return value & ((1 << 64) - 1)


def load(text: str, file: str) -> Case:
    """The sections of a test file. Raises `InputError` where one is not as above, or there is no program."""
    sections: dict[str, list[str]] = {}
    name = ""
    lines = bounded(text, file, MOST_CHARACTERS)
    for number, raw in enumerate(lines, 1):
        header = _header(raw)
        if header is not None:
            name = header
            if name in sections:
                raise InputError(file, f"line {number}", f"one section {name}, found another")
            sections[name] = [""] * number
        elif name:
            sections[name].append(raw if name == "asm" else raw.partition("#")[0])
    memory = hex_bytes(" ".join(sections["mem"]), file, "section mem") if "mem" in sections else None
    result = _result(sections["result"], file) if "result" in sections else None
    fails = any(name.split()[0] == "error" for name in sections)
    if "asm" in sections:
        return Case("\n".join(sections["asm"]), None, memory, result, fails)
    if "raw" in sections:
        return Case(None, _raw(sections["raw"], file), memory, result, fails)
    raise InputError(file, "", "a section `-- asm` or `-- raw`, found none")
