"""The kernel's text of an instruction -> the instruction; the inverse of `model.isa.text`.

The rows of `model.isa.forms` are read backwards: text is cut into tokens, registers and numbers become
holes, and the shape that is left names the rows. White space does not count. Where two rows print
alike the opcode in front decides; without it an ordinary instruction goes before one that only
rewrites make, and `r1 = N` is a 64-bit load when N is in hex, a move when it is in decimal, as the kernel
prints them. A bpftool that is older than the kernel prints what it does not know as what it does (`s/=` as
`/=`, `(s8)r2` as `r2`, up to 6.5), which no reader can tell.
"""

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

from model.errors import InputError
from model.isa.codec import why_no_form
from model.isa.forms import IMM
from model.isa.insn import Insn
from model.isa.opcodes import CALL, WIDE, Alu, Call, Class, Imm64, Source, arithmetic
from model.isa.shapes import EXACT, SHAPES, NoText, Number, Row, cut, tokens

Target = Literal["call", "subprogram", "callback", "map", "label"]

LONGEST = 1024
"""Characters of a text; the kernel's are under 200, names included."""


@dataclass(frozen=True, slots=True)
class ParsedInsn:
    """One instruction's text.

    `high` is the second slot's immediate of a wide load (signed, 32 bits), None for one slot. `name` is
    the symbol of a call (None for "unknown"; the address "0x…" where bpftool found no symbol), the
    function of a subprogram or callback, the map of `map[NAME]` (not of `map[id:…]`), or a label.
    `unknown` lists fields that the text does not hold ("imm" of `call f#?`, every field of `BUG_ldx_49`);
    they are 0 in `insn`, and nothing may be concluded from them.
    """

    insn: Insn
    high: int | None = None
    name: str | None = None
    target: Target | None = None
    unknown: frozenset[str] = field(default_factory=frozenset)


_PREFIX = re.compile(r"\(([0-9a-f]{2})\)\s*")
_CALL = re.compile(
    r"call\s+(?:pc\s*(?P<distance>[+-][0-9]{1,10})(?:\#(?P<callee>\S+))?"
    r"|(?P<name>[^\s#]+?)\s*\#(?P<imm>-?[0-9]{1,10}|\?))",
    re.ASCII,
)
_MAP = re.compile(
    r"r(?P<dst>[0-9]{1,2})\s*=\s*map\[(?:(?P<kind>idx?):(?P<number>[0-9]{1,10})|(?P<name>[^\s\]:]+))\]"
    r"(?:(?P<value>\[0\])?\+(?P<high>[0-9]{1,10}))?",
    re.ASCII,
)
_CALLBACK = re.compile(r"r(?P<dst>[0-9]{1,2})\s*=\s*subprog\[(?P<distance>[+-][0-9]{1,10})\]", re.ASCII)
_LABEL = re.compile(r"(?P<jump>.*\b(?:goto|gotol|may_goto))\s+(?P<name>[A-Za-z_.$][\w.$]*)", re.ASCII)
_NO_LABEL = re.compile(r"pc|[rw][0-9]+", re.ASCII)
_CALLEE = re.compile(r"call\s+(?:(?P<imm>-?[0-9]{1,10})|(?P<name>[A-Za-z_.$][\w.$]*))", re.ASCII)
_CALLBACK_NAME = re.compile(r"r(?P<dst>[0-9]{1,2})\s*=\s*subprog\s+(?P<name>[A-Za-z_.$][\w.$]*)", re.ASCII)

_MOVES = (WIDE, arithmetic(Class.ALU64, Alu.MOV, Source.K))
"""The two forms that print as `r1 = N`."""


def _signed(value: int) -> int:
    value &= (1 << 32) - 1
    return value - (1 << 32) if value >> 31 else value


def _bind(row: Row, numbers: list[Number]) -> tuple[dict[str, int], int | None]:
    """The fields that the text holds. Raises `NoText` where a number does not fit its place."""
    fields = dict(row.fixed)
    high: int | None = None
    for hole, (value, in_hex) in zip(row.holes, numbers, strict=True):
        if hole == "dst" or hole == "src":
            if fields.setdefault(hole, value) != value:
                raise NoText("found two registers where it has to be one")
        elif hole == "off":
            if not -0x8000 <= value <= 0x7FFF:
                raise NoText(f"offset {value} does not fit 16 bits")
            fields["off"] = value
        elif hole == "wide":
            if not -(1 << 63) <= value < 1 << 64:
                raise NoText(f"{value} does not fit 64 bits")
            fields["imm"], high = _signed(value), _signed(value >> 32)
        elif isinstance(hole, str):
            if hole == "uimm" and in_hex and 0 <= value < 1 << 32:
                value = _signed(value)
            if not -0x80000000 <= value <= 0x7FFFFFFF:
                raise NoText(f"immediate {value} does not fit 32 bits signed")
            fields["imm"] = value
        elif value != hole:
            raise NoText(f"found {value} in place of {hole}")
    return fields, high


def _complete(row: Row, numbers: list[Number]) -> ParsedInsn:
    form = row.form
    fields, high = _bind(row, numbers)
    dst, src, off, imm = fields["dst"], fields["src"], fields["off"], fields["imm"]
    insn = Insn(form.opcode, dst, src, off, imm)
    if not row.lost and not (dst in form.dst and src in form.src and off in form.off and imm in form.imm):
        raise NoText(why_no_form(insn, loaded=True) or "found a form of another row")
    return ParsedInsn(insn, high, None, None, row.lost)


def _by_shape(text: str, opcode: int | None) -> ParsedInsn:
    shape, numbers = cut(text)
    rows = EXACT.get(shape)
    if rows is None:
        shape, numbers = tokens(text)
        rows = SHAPES.get(shape, [])
    why = "found no such form"
    for row in rows:
        code = row.form.opcode
        if opcode is None:
            if code in _MOVES and len(rows) > 1 and numbers[1][1] != (code == WIDE):
                continue
        elif code != opcode:
            why = f"found opcode 0x{opcode:02x} before the text of 0x{code:02x}"
            continue
        try:
            return _complete(row, numbers)
        except NoText as error:
            why = str(error)
    raise NoText(why)


def _imm(text: str) -> int:
    value = int(text)
    if value not in IMM:
        raise NoText(f"immediate {value} does not fit 32 bits signed")
    return value


def _wide(dst: str, kind: Imm64, imm: int, high: int, name: str | None, target: Target) -> ParsedInsn:
    if high >> 32:
        raise NoText(f"offset {high} does not fit 32 bits")
    insn = Insn(WIDE, int(dst), int(kind), 0, imm)
    why = why_no_form(insn, loaded=True)
    if why is not None:
        raise NoText(why)
    return ParsedInsn(insn, _signed(high), name, target)


def _call(match: re.Match[str]) -> ParsedInsn:
    if match["distance"]:
        insn = Insn(CALL, 0, int(Call.SUBPROGRAM), 0, _imm(match["distance"]))
        return ParsedInsn(insn, None, match["callee"], "subprogram")
    name: str | None = match["name"]
    source = int(Call.KFUNC if name == "kernel-function" else Call.HELPER)
    name = None if name in ("kernel-function", "unknown") else name
    if match["imm"] == "?":
        return ParsedInsn(Insn(CALL, 0, source), None, name, "call", frozenset({"imm"}))
    return ParsedInsn(Insn(CALL, 0, source, 0, _imm(match["imm"])), None, name, "call")


def _map(match: re.Match[str]) -> ParsedInsn:
    indexed = match["kind"] == "idx"
    if match["high"] is None:
        kind = Imm64.MAP_IDX if indexed else Imm64.MAP_FD
    elif indexed == (match["value"] is not None):
        raise NoText("found neither map[id:N][0]+M nor map[idx:N]+M")
    else:
        kind = Imm64.MAP_IDX_VALUE if indexed else Imm64.MAP_VALUE
    number = int(match["number"] or 0)
    if number >> 32:
        raise NoText(f"map {number} does not fit 32 bits")
    unknown = frozenset() if match["number"] else frozenset({"imm"})
    parsed = _wide(match["dst"], kind, _signed(number), int(match["high"] or 0), match["name"], "map")
    return ParsedInsn(parsed.insn, parsed.high, parsed.name, parsed.target, unknown)


def _with_names(text: str) -> ParsedInsn | None:
    """The forms whose text holds a name, as dumps and listings have them."""
    if text.startswith("call"):
        match = _CALL.fullmatch(text)
        return _call(match) if match else None
    if "[" in text:
        if match := _MAP.fullmatch(text):
            return _map(match)
        if match := _CALLBACK.fullmatch(text):
            return _wide(match["dst"], Imm64.FUNC, _imm(match["distance"]), 0, None, "callback")
    return None


def _with_labels(text: str) -> ParsedInsn | None:
    """What people write and no kernel prints: targets by name, `call 2`."""
    if match := _CALLEE.fullmatch(text):
        if match["imm"]:
            return ParsedInsn(Insn(CALL, 0, 0, 0, _imm(match["imm"])), None, None, "call")
        return ParsedInsn(Insn(CALL), None, match["name"], "call", frozenset({"imm"}))
    if match := _CALLBACK_NAME.fullmatch(text):
        parsed = _wide(match["dst"], Imm64.FUNC, 0, 0, match["name"], "callback")
        return ParsedInsn(parsed.insn, 0, parsed.name, parsed.target, frozenset({"imm"}))
    if (match := _LABEL.fullmatch(text)) and not _NO_LABEL.fullmatch(match["name"]):
        parsed = _by_shape(f"{match['jump']} pc+0", None)
        missing = "imm" if match["jump"].endswith("gotol") else "off"
        return ParsedInsn(parsed.insn, None, match["name"], "label", frozenset({missing}))
    return None


@lru_cache(maxsize=1 << 14)
def _parse(text: str, labels: bool) -> ParsedInsn:
    opcode: int | None = None
    if match := _PREFIX.match(text):
        opcode = int(match[1], 16)
        text = text[match.end() :]
    parsed = _with_names(text)
    if parsed is None and labels and ("goto" in text or text.startswith("call") or "subprog" in text):
        parsed = _with_labels(text)
    if parsed is None:
        return _by_shape(text, opcode)
    if opcode not in (None, parsed.insn.opcode):
        raise NoText(f"found opcode 0x{opcode:02x} before the text of 0x{parsed.insn.opcode:02x}")
    return parsed


def parse_insn(text: str, *, labels: bool = False, file: str = "", place: str = "") -> ParsedInsn:
    """One instruction from its text (without index), with or without the opcode in front.

    `labels` also takes what assembly for people has: `goto NAME`, `call NAME`, `call 2`, `subprog NAME`.
    Everything that a kernel from 5.10 to 7.3 prints is read, what only rewrites make included; ask
    `model.isa.codec.check` whether an object may hold it. Raises `InputError` for text that is no instruction.
    """
    text = text.strip()
    if len(text) > LONGEST:
        raise InputError(file, place, f"an instruction of at most {LONGEST} characters, found {len(text)}")
    try:
        return _parse(text, labels)
    except NoText as error:
        raise InputError(file, place, f"an instruction in the kernel's syntax, {error} in {text[:80]!r}") from None
