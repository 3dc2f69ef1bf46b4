"""The lines of `bpftool prog dump xlated` in plain text, or of a fragment of it.

Shapes as printed by tools/bpf/bpftool/xlated_dumper.c, `dump_xlated_plain`, and btf_dumper.c,
`btf_dump_linfo_plain` (5.10 to 7.3): index and instruction; with `opcodes` its bytes on the next line; the
source line as "; text", with `linum` its place behind it; a prototype and ":" where a function starts; and
prog.c, `print_prog_header_plain`, above each of several programs.
"""

import re
from collections.abc import Iterator

from model.errors import InputError
from model.loaders.xlated_rows import Header, Opcodes, Row, function_name, printable
from model.program import Line

MAX_LINE = 1 << 16  # characters
_INSN = re.compile(r"([0-9]{1,10}):[ \t]*((?:\([0-9a-f]{2}\)|BUG_)[^\n]*)")
_BYTES = re.compile(r"[ \t]*[0-9a-f]{2}(?:[ \t]+[0-9a-f]{2})*")
_HEADER = re.compile(r"([0-9]{1,10}): (type [0-9]+|[a-z0-9_]+)  (?:name ([^ ]+)  )?tag [0-9a-f]{16}(?: .*)?")
_LINUM = re.compile(r" ?\[file:(.*) line_num:([0-9]{1,10}) line_col:([0-9]{1,10})\]")
_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def read(text: str, file: str) -> Iterator[Header | Row]:
    """The dump's instructions in order, with a `Header` where the file names a program.

    Raises `InputError` on a line that is none of a dump's.
    """
    index, insn, place = 0, "", ""
    function: str | None = None
    line: Line | None = None
    pending = False  # an instruction whose bytes may follow
    for number, content in _lines(text, file):
        here = f"line {number}"
        if pending and (match := _BYTES.fullmatch(content)):
            yield Row(index, insn, _opcodes(match[0], file, here), place, function, line)
            function, line, pending = None, None, False
            continue
        if pending:
            yield Row(index, insn, None, place, function, line)
            function, line, pending = None, None, False
        bare = content.lstrip(" \t")
        if bare.startswith(";"):
            line = _source(bare[1:])
        elif match := _INSN.fullmatch(bare):
            index, insn, place, pending = int(match[1]), match[2], here, True
        elif match := _HEADER.fullmatch(bare):
            yield Header(here, printable(match[3] or ""), match[2])
        elif bare.endswith(":"):
            function = printable(function_name(bare[:-1]))
        else:
            raise InputError(file, here, f"expected an instruction, its bytes or a source line, found {bare[:60]!a}")
    if pending:
        yield Row(index, insn, None, place, function, line)


def _lines(text: str, file: str) -> Iterator[tuple[int, str]]:
    """Lines that are not blank, by number from 1, without colours and trailing blanks."""
    at, number = 0, 0
    while at < len(text):
        end = text.find("\n", at)
        end = len(text) if end < 0 else end
        number += 1
        if end - at > MAX_LINE:
            raise InputError(file, f"line {number}", f"expected at most {MAX_LINE} characters in a line")
        content = text[at:end]
        if "\x1b" in content:
            content = _ANSI.sub("", content)
        content = content.rstrip(" \t\r")
        if content:
            yield number, content
        at = end + 1


def _opcodes(line: str, file: str, place: str) -> Opcodes:
    data = bytes.fromhex(line.strip())
    if len(data) not in (8, 16):
        raise InputError(file, place, f"expected the 8 or 16 bytes of an instruction, found {len(data)}")
    opcodes = Opcodes(data[0], data[1], data[2:4], data[4:])
    opcodes.check(file, place)
    return opcodes


def _source(text: str) -> Line:
    """The place is the last bracket: the source text before it may hold anything."""
    text = text.strip(" \t")
    at = text.rfind("[file:")
    if at >= 0 and (match := _LINUM.fullmatch(text, max(at - 1, 0)) or _LINUM.fullmatch(text, at)):
        return Line(printable(match[1]), int(match[2]), int(match[3]), printable(text[:at].rstrip()))
    return Line("", 0, 0, printable(text))
