"""Any input file: read with bounds, told apart by what it holds, handed to its loader.

An ELF object starts with its magic (gABI, chapter 4); JSON with a bracket or brace (RFC 8259); a dump in plain
text has lines of a slot number and an opcode in parentheses (`model.loaders.xlated_text`); the rest is assembly.
"""

import os
import re
import stat
from collections.abc import Mapping

from model.errors import InputError
from model.loaders import assembly, elf, map_show, rewritten, xlated
from model.program import Map, Object

MAX_BYTES = 1 << 28  # 256 MiB; larger than any object or dump of a program that the kernel accepts
_C_SOURCE = re.compile(r"^[ \t]*#[ \t]*include\b", re.MULTILINE)
_DUMP_LINE = re.compile(r"^(?:\x1b\[[0-9;]*m|[ \t])*[0-9]{1,10}:[ \t]*\([0-9a-f]{2}\) ", re.MULTILINE)
_OTHER_DUMPS = (
    (re.compile(r"\A\s*digraph \""), "the graph that bpftool draws with `visual`"),
    (re.compile(r"(?m)^bpf_prog_[0-9a-f]{16}[^\n]*:$"), "a dump of JITed machine code"),
)


def load_file(path: str, *, maps: str | None = None, helper_ids: Mapping[str, int]) -> Object:
    """What the file holds; `maps` is a file of `bpftool -j map show`, which tells the maps of a dump.

    Raises `InputError` for what cannot be read (only regular files are) and from the loaders.
    """
    known = map_show.load(_text(read_bytes(maps), maps), maps) if maps is not None else xlated.NO_MAPS
    return load_bytes(read_bytes(path), path, maps=known, helper_ids=helper_ids)


def load_bytes(data: bytes, file: str, *, maps: Mapping[int, Map], helper_ids: Mapping[str, int]) -> Object:
    """`load_file` without the file; `file` is only the name in messages."""
    if data.startswith(b"\x7fELF"):
        return elf.load(data, file)
    if not data.strip():
        raise InputError(file, "", "expected an ELF object, a dump or assembly, found an empty file")
    text = _text(data, file)
    if text.lstrip()[:1] in ("[", "{"):
        return xlated.load_json(text, file, maps)
    if rewritten.looks_like(text):
        return rewritten.load(text, file, maps).found
    if _DUMP_LINE.search(text):
        return xlated.load_text(text, file, maps)
    for pattern, name in _OTHER_DUMPS:
        if pattern.search(text):
            raise InputError(file, "", f"expected the dump of `bpftool prog dump xlated`, found {name}")
    if _C_SOURCE.search(text):
        how = "compile it with `clang -target bpf -g -O2 -c`"
        raise InputError(file, "", f"expected an ELF object, a dump or assembly, found C source: {how}")
    return assembly.load(text, file, helper_ids)


def read_bytes(path: str) -> bytes:
    """The bytes of a regular file of at most `MAX_BYTES`. Does not wait for a FIFO's writer."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0))
    except OSError as error:
        raise InputError(path, "", f"expected a file that can be read: {error.strerror}") from None
    except ValueError:
        raise InputError(ascii(path), "", "expected a file name without a zero byte") from None
    try:
        mode = os.fstat(handle).st_mode
        if not stat.S_ISREG(mode):
            raise InputError(path, "", f"expected a regular file, found {_kind(mode)}")
        with open(handle, "rb", closefd=False) as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise InputError(path, "", f"expected a file that can be read: {error.strerror}") from None
    finally:
        os.close(handle)
    if len(data) > MAX_BYTES:
        raise InputError(path, "", f"expected at most {MAX_BYTES} bytes")
    return data


def _kind(mode: int) -> str:
    kinds = (
        (stat.S_ISDIR, "a directory"),
        (stat.S_ISFIFO, "a FIFO"),
        (stat.S_ISCHR, "a character device"),
        (stat.S_ISBLK, "a block device"),
        (stat.S_ISSOCK, "a socket"),
    )
    return next((name for test, name in kinds if test(mode)), "something else")


def _text(data: bytes, file: str) -> str:
    try:
        return data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        expected = f"expected an ELF object, or text in UTF-8: {error.reason}"
        raise InputError(file, f"byte {error.start}", expected) from None
