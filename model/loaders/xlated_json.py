"""The JSON of `bpftool -j prog dump xlated` (and -jp), with or without `opcodes` and `linum`.

Keys as printed by tools/bpf/bpftool/xlated_dumper.c, `dump_xlated_json` (5.10 to 7.3): an array with an
object for each instruction ("proto", "src", "file", "line_num", "line_col", "disasm", "opcodes"); where several
programs were asked for (prog.c, `do_dump`), an array with an object for each, which has that array as "insns".
"""

from collections.abc import Iterator
from typing import Any

from model.errors import InputError
from model.loaders.json_stream import JsonStream
from model.loaders.xlated_rows import LD_IMM64, Header, Opcodes, Row, function_name, printable
from model.program import Line

_BYTES: dict[Any, int] = {text: byte for byte in range(256) for text in (f"0x{byte:02x}", f"0x{byte:x}")}


def read(text: str, file: str) -> Iterator[Header | Row]:
    """The dump's instructions in order, with a `Header` before each program.

    Raises `InputError` on JSON that is no such dump, named by its path.
    """
    stream = JsonStream(text, file)
    match stream.peek():
        case "[":
            yield from _array(stream)
        case "{":
            yield from _program(stream, "")
        case _:
            stream.fail("expected the JSON of `bpftool -j prog dump xlated`, which starts with '[' or '{'")
    stream.end()


def _array(stream: JsonStream) -> Iterator[Header | Row]:
    """The elements are all instructions of one program, or all programs; the first one decides."""
    programs: bool | None = None
    for number in stream.array("at the start"):
        place = f"[{number}]"
        if stream.peek() != "{":
            stream.fail("expected an object: an instruction or a program")
        if programs is None:
            programs = not _is_insn(stream)
            if not programs:
                yield Header(place)
        if programs:
            yield from _program(stream, place)
        else:
            yield _row(stream.small(), stream.file, place)


def _is_insn(stream: JsonStream) -> bool:
    """Looks at the next object without taking it."""
    start = stream.at
    found, value = stream.try_small()
    stream.at = start
    return found and isinstance(value, dict) and "disasm" in value


def _program(stream: JsonStream, place: str) -> Iterator[Header | Row]:
    """An object with "insns" as its last key, as bpftool prints it (the name comes before)."""
    known: dict[str, Any] = {}
    seen = False
    for key in stream.members("of a program"):
        if key != "insns":
            value = stream.small()
            if key in ("name", "type", "error"):
                known[key] = value
            continue
        if seen:
            raise InputError(stream.file, place, 'expected "insns" once in a program')
        seen = True
        yield Header(place, *(_string(known, name, stream.file, place, number=True) for name in ("name", "type")))
        for number in stream.array("of instructions"):
            here = f"{place}.insns[{number}]".lstrip(".")
            yield _row(stream.small(), stream.file, here)
    if "error" in known:
        raise InputError(stream.file, place, f"bpftool reported an error, no program: {str(known['error'])[:200]!a}")
    if not seen:
        raise InputError(stream.file, place, 'expected "disasm" (an instruction) or "insns" (a program) in the object')


def _string(of: dict[str, Any], key: str, file: str, place: str, number: bool = False) -> str:
    value = of.get(key, "")
    if number and type(value) is int and 0 <= value < 1 << 32:  # a type that bpftool has no name for
        return f"{key} {value}"
    if not isinstance(value, str):
        raise InputError(file, f"{place}.{key}", "expected a string")
    return printable(value)


def _number(of: dict[str, Any], key: str, file: str, place: str) -> int:
    value = of.get(key, 0)
    if type(value) is not int or not 0 <= value < 1 << 32:  # a bool is no number here
        raise InputError(file, f"{place}.{key}", "expected an integer of 32 bits, unsigned")
    return value


def _row(entry: Any, file: str, place: str) -> Row:
    if not isinstance(entry, dict) or not isinstance(entry.get("disasm"), str):
        hint = " (a dump of JITed code has none)" if isinstance(entry, dict) and "operation" in entry else ""
        raise InputError(file, place, f'expected an object with "disasm", the text of an instruction{hint}')
    prototype = _string(entry, "proto", file, place)
    line: Line | None = None
    if "src" in entry or "line_num" in entry:
        number, column = (_number(entry, key, file, place) for key in ("line_num", "line_col"))
        line = Line(_string(entry, "file", file, place), number, column, _string(entry, "src", file, place))
    opcodes = entry.get("opcodes")
    return Row(
        index=None,
        text=entry["disasm"].strip(),
        opcodes=None if opcodes is None else _opcodes(opcodes, file, f"{place}.opcodes"),
        place=place,
        function=function_name(prototype) if prototype else None,
        line=line,
    )


def _opcodes(entry: Any, file: str, place: str) -> Opcodes:
    if not isinstance(entry, dict):
        raise InputError(file, place, 'expected an object with "code", "src_reg", "dst_reg", "off" and "imm"')

    def data(key: str, size: int) -> bytes:
        value = entry.get(key)
        try:
            found = bytes([_BYTES[item] for item in value] if isinstance(value, list) else [_BYTES[value]])
        except (KeyError, TypeError):  # no such text, or no text at all
            found = b""
        if len(found) != size:
            raise InputError(file, f"{place}.{key}", f'expected {size} byte{"s" * (size > 1)} like "0xff"')
        return found

    code = data("code", 1)[0]
    dst, src = data("dst_reg", 1)[0], data("src_reg", 1)[0]
    if dst > 15 or src > 15:
        raise InputError(file, place, "expected registers of 4 bits")
    opcodes = Opcodes(code, (dst, src), data("off", 2), data("imm", 12 if code == LD_IMM64 else 4))
    opcodes.check(file, place)
    return opcodes
