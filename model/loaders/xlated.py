"""Programs as the kernel gives them back: the dumps of `bpftool prog dump xlated`, in text and JSON.

Reading order: `xlated_text` and `xlated_json` (lines, objects -> rows), `xlated_decode` (a row -> instructions),
this module (rows -> listings), `xlated_calls` and `xlated_program` (a listing -> a program).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType

from model.errors import InputError
from model.loaders import xlated_json, xlated_text
from model.loaders.xlated_decode import Decoded, Decoder, byte_order
from model.loaders.xlated_program import build
from model.loaders.xlated_rows import LD_IMM64, MAX_PROGRAMS, MAX_SLOTS, Header, Listing, Row
from model.program import Map, Object, Program

NO_MAPS: Mapping[int, Map] = MappingProxyType({})
_MOV64 = 0xBF
_Read = Callable[[str, str], Iterator[Header | Row]]


def load_text(text: str, file: str, maps: Mapping[int, Map] = NO_MAPS) -> Object:
    """The programs of a dump in plain text, or of a fragment of one, which may begin at any slot.

    `maps` (by id, from `map_show.load`) tells what the dump does not: type and sizes. Raises `InputError` on a
    line that no dump has, on slots out of order, and where an instruction's text and bytes disagree.
    """
    return _load(xlated_text.read, text, file, maps)


def load_json(text: str, file: str, maps: Mapping[int, Map] = NO_MAPS) -> Object:
    """The same for `bpftool -j` (-jp): one program, or an array of them."""
    return _load(xlated_json.read, text, file, maps)


def _load(read: _Read, text: str, file: str, maps: Mapping[int, Map]) -> Object:
    text = text.removeprefix("\ufeff")
    decoder = Decoder(file, byte_order(read(text, file), file))
    programs: list[Program] = []
    for listing in _listings(read(text, file), decoder, file):
        if len(programs) == MAX_PROGRAMS:
            raise InputError(file, listing.header.place, f"expected at most {MAX_PROGRAMS} programs in a file")
        programs.append(build(listing, file, maps, len(programs)))
    if not programs:
        raise InputError(file, "", "expected at least one instruction in the dump")
    return Object(file, tuple(programs), maps=_all_maps(programs), byteorder=decoder.order)


def _listings(rows: Iterable[Header | Row], decoder: Decoder, file: str) -> Iterator[Listing]:
    """One for each program: it begins at a header, and where the slots start again from 0."""
    listing = Listing(Header(""))
    total = 0
    for row in rows:
        if isinstance(row, Header):
            if listing.insns:
                yield listing
            listing = Listing(row)
            continue
        slot = len(listing.insns)
        if row.index is not None and row.index != listing.base + slot:
            if row.index == 0 and slot:
                yield listing
                listing = Listing(Header(row.place))
                slot = 0
            elif slot:
                expected = f"expected slot {listing.base + slot} after the one before, found {row.index}"
                raise InputError(file, row.place, expected)
            else:
                listing.base = row.index
        decoded = decoder.decode(row)
        total += len(decoded.insns)
        if max(total, listing.base) > MAX_SLOTS:
            raise InputError(file, row.place, f"expected at most {MAX_SLOTS} slots in a file")
        _add(listing, slot, row, decoded)
    if listing.insns:
        yield listing


def _add(listing: Listing, slot: int, row: Row, decoded: Decoded) -> None:
    insns = decoded.insns
    listing.insns.extend(insns)
    if insns[0].opcode & 6 == 4 or insns[0].opcode == LD_IMM64:
        listing.places[slot] = row.place
    if decoded.name:
        listing.names[slot] = decoded.name
    if decoded.blind:
        listing.blind.add(slot)
    if row.opcodes is None and insns[0].opcode == _MOV64 and insns[0].dst == insns[0].src:
        listing.doubtful.append(slot)
    if row.function:
        listing.functions[slot] = row.function
    if row.line:
        listing.lines[slot] = row.line


def _all_maps(programs: Iterable[Program]) -> tuple[Map, ...]:
    by_name: dict[tuple[int | None, str], Map] = {}
    for program in programs:
        for one in program.maps:
            by_name.setdefault((one.id, one.name), one)
    return tuple(by_name.values())
