"""The text of `python -m proofs rewrite --format asm`: a dump in which no kernel has decided what a build decides.

What stands by name there (a map, a member's offset, a field of the map; a call's number is `#?`) becomes a number for
the dump's loader, and is told beside the program. Nothing of a name is guessed.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from model.loaders import xlated
from model.program import ExternRef, Map, Object, Program

FIRST = 1 << 30
"""Ids for maps that have a name only, above those that a kernel will have given."""
MOST_MAPS = 65_536
_TERM = r"(?:offsetof\(struct \w+, \w+\)|max_entries|index_mask)"
_SUM = re.compile(rf"({_TERM}(?: \+ {_TERM})*)(?: \+ (-?[0-9]{{1,10}}))?", re.ASCII)
_OFFSETOF = re.compile(r"offsetof\((struct \w+), (\w+)\)", re.ASCII)
_INSN = re.compile(r"^[ \t]*([0-9]{1,10}):[ \t]*\(([0-9a-f]{2})\) ", re.ASCII)
_MAP = re.compile(r"map\[(?!id:[0-9]+\]|idx:[0-9]+\])([^\]\n]{1,256})\]")
_EXTERN = re.compile(r"extern\[(kconfig|ksym|kfunc):([^\]\n]{1,256})\]")
_MARKS = re.compile(
    r"^[ \t]*[0-9]{1,10}:[ \t]*\([0-9a-f]{2}\) [^\n]*(?:#\?$|offsetof\(struct |= map\[(?!id:|idx:)|= extern\[)",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Named:
    """As `model.rewrite.patch.Reloc`."""

    kind: Literal["offset", "displacement"]
    symbol: str


@dataclass(frozen=True, slots=True)
class Loaded:
    """`relocs` are by slot, one mapping a program. A variable of the kernel is a reference, its load is of 0."""

    found: Object
    relocs: Sequence[Mapping[int, Named]]


def looks_like(text: str) -> bool:
    """Whether a line of it is one that only the rewrite prints."""
    return _MARKS.search(text) is not None


def load(text: str, file: str, maps: Mapping[int, Map]) -> Loaded:
    """Raises `InputError` as `xlated.load_text` does."""
    names: dict[str, int] = {}
    relocs: list[dict[int, Named]] = []
    externs: list[dict[int, ExternRef]] = []
    lines = [_line(line, names, relocs, externs) for line in text.split("\n")]
    found = xlated.load_text("\n".join(lines), file, maps)
    by_id = {number: name for name, number in names.items()}
    programs = tuple(
        _renamed(program, by_id, externs[index] if index < len(externs) else {})
        for index, program in enumerate(found.programs)
    )
    own: list[Mapping[int, Named]] = []
    for index, program in enumerate(programs):
        table = relocs[index] if index < len(relocs) else {}
        own.append({slot - program.base: named for slot, named in table.items()})
    return Loaded(replace(found, programs=programs, maps=tuple(_named(one, by_id) for one in found.maps)), own)


def _line(line: str, names: dict[str, int], relocs: list[dict[int, Named]], externs: list[dict[int, ExternRef]]) -> str:
    match = _INSN.match(line)
    if match is None:
        return line
    slot = int(match[1])
    if slot == 0 or not relocs:
        relocs.append({})
        externs.append({})
    text = line.rstrip()
    if extern := _EXTERN.search(text):
        kind: Any = extern[1]
        externs[-1][slot] = ExternRef(extern[2], kind)
        text = text[: extern.start()] + "0x0" + text[extern.end() :]
    if text.endswith("#?"):
        text = text[:-1] + "0"
    if len(names) < MOST_MAPS:
        text = _MAP.sub(lambda found: f"map[id:{names.setdefault(found[1], FIRST + len(names))}]", text)
    return _sums(text, match[2], slot, relocs[-1])


def _sums(text: str, opcode: str, slot: int, relocs: dict[int, Named]) -> str:
    found = _SUM.search(text)
    if found is None:
        return text
    load_store = int(opcode, 16) & 7 in (1, 2, 3)
    symbol = _OFFSETOF.sub(r"\1.\2", found[1])
    relocs[slot] = Named("displacement" if load_store else "offset", symbol)
    number = int(found[2] or 0)
    shown = f"0x{number & 0xFFFFFFFF:x}" if int(opcode, 16) & 7 in (5, 6) else str(number)
    return text[: found.start()] + shown + text[found.end() :]


def _named(one: Map, by_id: Mapping[int, str]) -> Map:
    name = by_id.get(one.id if one.id is not None else -1)
    return one if name is None else Map(name, None)


def _renamed(program: Program, by_id: Mapping[int, str], externs: Mapping[int, ExternRef]) -> Program:
    """The program with its maps and variables by name; their loads have 0 where a kernel puts the address."""
    maps = tuple(_named(one, by_id) for one in program.maps)
    insns = list(program.insns)
    for slot, ref in program.refs.items():
        number = getattr(ref, "map", None)
        if number is not None and program.maps[number].id in by_id:
            insns[slot] = replace(insns[slot], imm=0)
    own = {slot - program.base: ref for slot, ref in externs.items()}
    return replace(program, maps=maps, insns=tuple(insns), refs={**program.refs, **own})
