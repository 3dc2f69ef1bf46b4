"""What `run` is given -> a program and its memory: test files, assembly, bytes, hex, objects, dumps."""

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from model.errors import InputError
from model.isa.codec import check, decode
from model.kernel.data import load_release
from model.loaders import conformance, detect, llvm_assembly, ubpf_assembly, xlated
from model.loaders.assembly_draft import functions
from model.program import Object, Program

FORMATS = ("auto", "kernel", "llvm", "ubpf", "hex", "raw")
LONGEST_STDIN = detect.MAX_BYTES
_COMMENT = re.compile(r"(?:#|//|;).*")
_KERNEL = re.compile(
    r"^[ \t]*(?:[0-9]+:|\([0-9a-f]{2}\)\s|\.(?:map|program|func)\b)|\bpc\s*[+-]|\bmap\[|\bsubprog\[|#-?[0-9]+\s*$",
    re.MULTILINE,
)
_IN_BOTH = frozenset({"exit", "call", "goto", "gotol", "may_goto"})
"""Words that begin a statement in the kernel's syntax, too."""
_CALLS_BY_NAME = re.compile(r"\bcall\s+(?:local\s+)?[A-Za-z_]")
_HEX = re.compile(r"[0-9a-fA-FxX\s,:]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class Input:
    """`result` is the r0 that a test file demands; `fails` where it demands that there is none."""

    program: Program
    memory: bytes | None = None
    result: int | None = None
    fails: bool = False


def read(path: str, format: str, name: str | None) -> Input:
    """The program in the file `path` ("-" is stdin); `name` chooses among several. Raises `InputError`."""
    if path == "-":
        data = sys.stdin.buffer.read(LONGEST_STDIN + 1)
        if len(data) > LONGEST_STDIN:
            raise InputError(path, "", f"expected at most {LONGEST_STDIN} bytes")
    else:
        data = detect.read_bytes(path)
    if format == "raw" or (format == "auto" and path.endswith(".bin")):
        return Input(_bytes(data, path))
    if data.startswith(b"\x7fELF"):
        return Input(_chosen(detect.load_bytes(data, path, maps=xlated.NO_MAPS, helper_ids={}), path, name))
    if format == "auto" and b"\0" in data:  # in no text, and in every EXIT, whose offset is 0
        return Input(_bytes(data, path))
    return _text(_decoded(data, path), path, format, name)


def _decoded(data: bytes, file: str) -> str:
    try:
        return data.decode("utf-8").removeprefix("\ufeff").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        expected = "expected text in UTF-8 (bytes of instructions: --format raw)"
        raise InputError(file, f"byte {error.start}", expected) from None


def _bytes(data: bytes, file: str) -> Program:
    insns = decode(data, file=file)
    if not insns:
        raise InputError(file, "", "expected instructions of 8 bytes, found none")
    check(insns, loaded=False, file=file)

    def wrong(slot: int, expected: str) -> InputError:
        return InputError(file, f"slot {slot}", f"expected {expected}")

    return Program("main", insns, subprograms=functions(insns, {}, wrong))


def _text(text: str, file: str, format: str, name: str | None) -> Input:
    if not text.strip():
        raise InputError(file, "", "expected a program, found nothing")
    if format == "hex":
        return Input(_bytes(conformance.hex_bytes(text, file, ""), file))
    if conformance.looks_like(text):
        case = conformance.load(text, file)
        raw, text = case.raw, case.assembly or ""
        program = _assembly(text, file, format, name) if raw is None else _bytes(raw, file)
        return Input(program, case.memory, case.result, case.fails)
    if format == "auto" and _HEX.fullmatch(text) and any(c.isalnum() for c in text):
        return Input(_bytes(conformance.hex_bytes(text, file, ""), file))
    return Input(_assembly(text, file, format, name))


def syntax(text: str) -> str:
    """Whose assembly it is, by the first line that only one of them would read; the kernel's if none is."""
    for raw in text.split("\n"):
        statement = re.sub(r"^(?:\s*[\w.$]+:(?=\s|$))*", "", _COMMENT.sub("", raw)).strip()
        words = statement.lower().split(None, 2)
        if not words or words[0] in _IN_BOTH:
            continue
        if words[0] in ubpf_assembly.MNEMONICS and "=" not in statement and words[:2][-1][:2] != "*(":
            return "ubpf"
        break
    else:
        return "ubpf" if re.search(r"\bcall\s+local\b", text) else "kernel"
    return "llvm" if llvm_assembly.looks_like(text) and not _KERNEL.search(text) else "kernel"


def _assembly(text: str, file: str, format: str, name: str | None) -> Program:
    ids = _helper_ids() if _CALLS_BY_NAME.search(text) else {}
    chosen = syntax(text) if format == "auto" else format
    if chosen == "ubpf":
        return ubpf_assembly.load(text, file, ids)
    if chosen == "llvm":
        return llvm_assembly.load(text, file, ids)
    try:
        found = detect.load_bytes(text.encode(), file, maps=xlated.NO_MAPS, helper_ids=ids)
    except InputError as kernel:
        if format == "kernel" or _KERNEL.search(text):
            raise
        try:
            return llvm_assembly.load(text, file, ids)
        except InputError:
            raise kernel from None
    return _chosen(found, file, name)


def _helper_ids() -> Mapping[str, int]:
    return {name: helper.id for name, helper in load_release("newest").helpers.items()}


def _chosen(found: Object, file: str, name: str | None) -> Program:
    programs = [program for program in found.programs if name is None or program.name == name]
    if len(programs) == 1 and not programs[0].fragment:
        return programs[0]
    if programs and programs[0].fragment:
        raise InputError(file, "", "expected a whole program, found a part of one")
    names = ", ".join(program.name for program in found.programs[:10])
    raise InputError(file, "", f"expected one program (--program NAME), found {names or 'none'}")
