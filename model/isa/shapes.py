"""The shapes of instruction text: what is left of it when registers and numbers are taken out.

Built from the rows of `model.isa.forms`, so that what is printed is what is read.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from model.isa.forms import LOADED_FORMS, ZERO, Form, Values
from model.isa.opcodes import CALL, WIDE


class NoText(Exception):
    """Why a text is no instruction; `parse_insn` makes an `InputError` of it (and errors are not cached)."""


_TOKEN = re.compile(
    r"""\s*(?:
      (?P<number>(?:\+\s*-|[+-])?\s*(?:0x[0-9a-fA-F]{1,16}|[0-9]{1,20})(?!\w))
    | (?P<register>[rw][0-9]{1,2}(?!\w))
    | (?P<sign>s(?:>>=|[<>]=?|[/%]=)|<<=|>>=|[-+*/%|&^=!<>]=|[-+*&<>=()\[\],])
    | (?P<word>[A-Za-z_]\w*)
    )\s*""",
    re.ASCII | re.VERBOSE,
)
_HOLE = re.compile(
    r"(?<!\w)([rw])([0-9]{1,2})(?!\w)|([+-](?:0x[0-9a-f]{1,16}|[0-9]{1,20})|(?<!\w)(?:0x[0-9a-f]{1,16}|[0-9]{1,20}))(?!\w)",
    re.ASCII,
)
Shape = tuple[str | None, ...]
_HOLES = {90: "dst", 91: "src", 90001: "off", 90002: "imm", 90003: "uimm", 90004: "wide"}
"""Stand-ins for the fields, so that the rows' own texts go through the tokenizer once."""


Number = tuple[int, bool]
"""A hole's value, and whether it stood there in hex."""


def tokens(text: str) -> tuple[Shape, list[Number]]:
    """The text's shape and its numbers, however it is spaced."""
    shape: list[str | None] = []
    numbers: list[Number] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise NoText(f"found {text[position : position + 20]!r}")
        position = match.end()
        token = match[0].strip()
        match match.lastgroup:
            case "number":
                digits = re.sub(r"[+\s]", "", token)
                numbers.append((int(digits, 16), True) if "0x" in digits else (int(digits), False))
                shape.append("N")
            case "register":
                numbers.append((int(token[1:]), False))
                shape.append("R" if token[0] == "r" else "W")
            case _:
                shape.append(token)
    return tuple(shape), numbers


def cut(text: str) -> tuple[Shape, list[Number]]:
    """Like `tokens`, three times as fast, for text that is spaced as the kernel spaces it."""
    parts = _HOLE.split(text)
    numbers = [
        (int(register or number), False) if register or "0x" not in number else (int(number, 16), True)
        for register, number in zip(parts[2::4], parts[3::4], strict=True)
    ]
    return tuple(parts[0::4] + parts[1::4]), numbers


@dataclass(frozen=True, slots=True)
class Row:
    """One text of a form.

    `holes` tells what stands in each hole: a field's name, or a number that must be there. `fixed` has the
    fields that the text need not hold, `lost` names those that it should but does not (0 in `fixed`).
    """

    form: Form
    holes: tuple[str | int, ...]
    fixed: Mapping[str, int]
    lost: frozenset[str]


def _row(form: Form, numbers: list[Number]) -> Row:
    holes = tuple(_HOLES.get(value, value) for value, _ in numbers)
    told = {"imm" if hole in ("uimm", "wide") else hole for hole in holes}
    fixed, lost = {}, set()
    for name in ("dst", "src", "off", "imm"):
        values: Values = getattr(form, name)
        if name not in told:
            fixed[name] = min(values) if len(values) == 1 else 0
            if len(values) > 1:
                lost.add(name)
    return Row(form, holes, fixed, frozenset(lost))


def _texts() -> Iterator[tuple[Form, str]]:
    """What every form but calls and named loads prints, its fields replaced by their stand-ins."""
    silent: dict[str, list[Form]] = {}
    forms = [form for row in LOADED_FORMS for form in row if form.opcode != CALL]
    for form in sorted(forms, key=lambda form: (form.loaded, form.opcode == WIDE and form.src != ZERO)):
        for text in (form.text, *form.also):
            if text.startswith("BUG_"):
                silent.setdefault(text, []).append(form)
            elif "map[" not in text and "subprog[" not in text:
                imm = "+90002" if "pc{imm}" in text else "90002"
                yield form, text.format(dst=90, src=91, off="+90001", imm=imm, uimm="90003", wide="90004")
    for text, like in silent.items():  # the opcode is all that is told; rows of one opcode differ in imm
        imms = {value for form in like for value in (form.imm[:2] if isinstance(form.imm, range) else form.imm)}
        yield replace(like[0], imm=frozenset(imms)), text


def _shapes(cut: Callable[[str], tuple[Shape, list[Number]]]) -> dict[Shape, list[Row]]:
    table: dict[Shape, list[Row]] = {}
    for form, text in _texts():
        shape, numbers = cut(text)
        table.setdefault(shape, []).append(_row(form, numbers))
    return table


EXACT = _shapes(cut)
SHAPES = _shapes(tokens)
