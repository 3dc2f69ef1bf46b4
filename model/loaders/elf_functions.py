"""Functions in executable sections: where they begin and end, and which of them are programs."""

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from model.loaders.elf_file import STB_LOCAL, STT_FUNC, STT_NOTYPE, ElfFile, Section, Symbol
from model.loaders.elf_relocations import CodeRef


@dataclass(frozen=True, slots=True, eq=False)
class Function:
    """Slots `start` to `end` (exclusive) of a section; `entry` says that it is a program of its own.

    `local` tells of a static one. Compared by identity: there is one value for a symbol, and linking looks
    it up very often.
    """

    name: str
    section: int
    start: int
    end: int
    entry: bool
    local: bool = False

    @property
    def ref(self) -> CodeRef:
        return CodeRef(self.section, self.start)


@dataclass(frozen=True, slots=True)
class _Start:
    name: str
    at: int
    end: int | None
    local: bool


def find(elf: ElfFile, code: Iterable[Section], targets: set[CodeRef]) -> list[Function]:
    """All functions, by section and start; `targets` are the slots that calls and addresses name.

    Programs are the functions outside of .text, but for local ones that others refer to; if there is
    none, those of .text that no other function refers to (libbpf 1.x: prog_is_subprog). InputError
    where symbols do not fit into their section or overlap.
    """
    sections = {section.index: section for section in code}
    symbols: dict[int, list[Symbol]] = {index: [] for index in sections}
    for symbol in elf.symbols:
        if symbol.section in sections and symbol.type in (STT_FUNC, STT_NOTYPE):
            symbols[symbol.section].append(symbol)
    called: dict[int, set[int]] = {index: set() for index in sections}
    for target in targets:
        called[target.section].add(target.slot)
    starts = {i: _starts(elf, section, symbols[i], called[i]) for i, section in sections.items()}
    outside = any(_is_entry(start, called[i]) for i in starts if sections[i].name != ".text" for start in starts[i])
    found = []
    for index, section in sections.items():
        text = section.name == ".text"
        rows = starts[index]
        whole = text and not outside and all(start.at in called[index] for start in rows)
        ends = _ends(rows, section.size // 8)
        for start, end in zip(rows, ends, strict=True):
            if text:
                entry = not outside and (start.at not in called[index] or (whole and not start.local))
            else:
                entry = _is_entry(start, called[index])
            found.append(Function(start.name, index, start.at, end, entry, start.local))
    return found


def _is_entry(start: _Start, called: set[int]) -> bool:
    return not (start.local and start.at in called)


def _starts(elf: ElfFile, section: Section, symbols: list[Symbol], called: set[int]) -> list[_Start]:
    """Where functions begin, sorted: typed symbols; in the gaps between them global labels and targets of calls.

    Objects of old compilers have no types: a program is a global label, and local labels (LBB0_1) are
    targets of jumps.
    """
    typed = sorted(
        (_start(elf, section, s) for s in symbols if s.type == STT_FUNC), key=lambda row: (row.at, row.end or 0)
    )
    _refuse_overlaps(elf, section, typed)
    taken = {row.at for row in typed}
    covers = [(row.at, row.end or row.at + 1) for row in typed]
    labels: list[_Start] = []
    local: dict[int, str] = {}
    for symbol in symbols:
        if symbol.type != STT_NOTYPE:
            continue
        if symbol.binding == STB_LOCAL:
            if symbol.value // 8 in called:
                local.setdefault(symbol.value, elf.symbol_name(symbol))
        elif symbol.value != section.size:  # a label behind the last instruction marks the end
            labels.append(_start(elf, section, symbol))
    for row in labels:
        if row.at not in taken and not _inside(covers, row.at):
            taken.add(row.at)
            typed.append(_Start(row.name, row.at, None, False))
    for slot in called - taken:
        if _inside(covers, slot):
            raise elf.error(section, slot * 8, "target of a call or callback address: expected the start of a function")
        taken.add(slot)
        typed.append(_Start(local.get(slot * 8, f"{section.name}+{slot * 8:#x}"), slot, None, True))
    if not typed:
        typed.append(_Start(section.name, 0, None, False))
    return sorted(typed, key=lambda row: (row.at, row.end or 0))


def _inside(covers: list[tuple[int, int]], slot: int) -> bool:
    index = bisect_right(covers, (slot, 1 << 64)) - 1
    return index >= 0 and covers[index][0] <= slot < covers[index][1]


def _start(elf: ElfFile, section: Section, symbol: Symbol) -> _Start:
    name = elf.symbol_name(symbol)
    if symbol.value >= section.size or symbol.size > section.size - symbol.value:
        where = f"outside its section of {section.size:#x} bytes"
        expected = f"function {name} at {symbol.value:#x}, {symbol.size} bytes, is {where}"
        raise elf.error(section, None, expected)
    if symbol.value % 8 or symbol.size % 8:
        raise elf.error(section, None, f"function {name} at {symbol.value:#x}, {symbol.size} bytes, is misaligned")
    at, size = symbol.value // 8, symbol.size // 8
    return _Start(name, at, at + size if size else None, symbol.binding == STB_LOCAL)


def _refuse_overlaps(elf: ElfFile, section: Section, rows: list[_Start]) -> None:
    """Two names for one range are fine (aliases); ranges that overlap otherwise are not functions."""
    for before, row in pairwise(rows):
        alias = before.at == row.at and before.end == row.end
        if before.end is not None and row.at < before.end and not alias:
            raise elf.error(section, row.at * 8, f"function {row.name} overlaps function {before.name}")


def _ends(rows: list[_Start], size: int) -> list[int]:
    ends: list[int] = []
    following = size
    for index in range(len(rows) - 1, -1, -1):
        row = rows[index]
        ends.append(following if row.end is None else row.end)
        if index and rows[index - 1].at != row.at:
            following = row.at
    return ends[::-1]
