"""An input on which two programs differ, found by trying and then made small. Deterministic: one seed, bounded tries.

What is tried comes from the programs: the keys that they ask their maps for, the numbers that they compare with; and
from whoever has a guess.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, product
from random import Random

from model.errors import Unsupported
from model.kernel.abi import Abi, Extension
from model.kernel.release import Release
from model.machine.outcome import Fault
from model.machine.outcome import Limit as Overrun
from model.program import Map, Program
from proofs.limit import Limit
from proofs.pair_ends import Parting, Split, alike, differ, parting, parting_of, split
from proofs.pair_packet import LENGTHS, Layout, layout_of
from proofs.pair_run import CONTEXT, PROGRAMS, End, Entry, Input, run, used_maps
from proofs.pair_shrink import smaller

SEED = 1
RANDOM_TRIES = 120
SHRINKS = 400
NUMBERS, FIELDS, KEYS = 48, 6, 32
BUDGET = 600_000
"""Instructions of all runs of one search: some seconds. A run costs RUN more, and one more for BYTES of its maps."""
RUN, BYTES = 200, 64
FILL = 64
"""Elements that are put into a map at most, to have it full."""
WALKED = 3
PLAIN = 7
"""What an element holds where nothing else is wanted."""


@dataclass(frozen=True, slots=True)
class Guess:
    """An input to begin with, and what its elements may hold."""

    given: Input
    values: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Witness:
    """`what` differs (r0, the context, "map N", the end) when both programs are run with `given`; `parts` is the step
    where registers part, `split` the first deed that is not the same.

    `what` is "" where only a register on the way does.
    """

    given: Input
    what: str
    before: End
    after: End
    parts: Parting | None
    split: Split | None = None


@dataclass(slots=True)
class Pair:
    """Two programs to be run with one input; `after` links to the machine's layout already.

    `cut` is how a run first ended of which nothing is said: the program before faults, or one does not end in time.
    """

    before: Program
    after: Program
    release: Release
    abi: Abi
    moved: Sequence[int]
    limit: Limit
    registers: bool = False
    left: int = BUDGET
    cut: str = ""
    maps: Mapping[int, Map] = field(init=False)  # those that either uses
    layout: Layout | None = field(init=False)

    def __post_init__(self) -> None:
        self.layout = layout_of(self.before)
        numbers = sorted({*used_maps(self.before), *used_maps(self.after)})
        known = [*self.before.maps, *self.after.maps[len(self.before.maps) :]]
        self.maps = {number: known[number] for number in numbers}

    def ends(self, given: Input, *, trace: bool = False) -> tuple[End, End]:
        before = run(self.before, self.maps, self.release, self.abi, given, self.layout, trace=trace)
        after = run(self.after, self.maps, self.release, self.abi, given, self.layout, trace=trace)
        self.left -= RUN + before.outcome.steps + after.outcome.steps + before.size // BYTES
        if isinstance(before.outcome, Fault | Overrun):
            self.cut = self.cut or f"the program before: {before.outcome}"
        elif isinstance(after.outcome, Overrun):
            self.cut = self.cut or f"the program after: {after.outcome}"
        return before, after

    def differs(self, given: Input) -> bool:
        """Whether the input is a witness; one that the machine has no meaning for is none, nor is one too many."""
        if self.left <= 0 or self.limit.over:
            return False
        try:
            one, two = self.ends(given, trace=self.registers)
        except Unsupported:
            return False
        return bool(differ(one, two)) or (self.registers and self.parting(one, two) is not None)

    def parting(self, before: End, after: End) -> Parting | None:
        """Where registers part; not told of instructions that only look alike when that is all there is to tell."""
        if len(self.moved) == len(self.before.insns) + 1:
            return parting(before.moments, after.moments, self.moved)
        if self.registers:
            return None
        return parting_of(before.moments, after.moments, alike(self.before.insns, self.after.insns))


def search(pair: Pair, guesses: Sequence[Guess] = (), *, registers: bool = False) -> Witness | None:
    """A small input on which the two differ, None where none was found; where there are guesses, near these.

    What differs is what a user can see at the end; with `registers`, where no such input is found, one on which the
    two differ in a register on the way (`Witness.what` is then ""). Raises `Unsupported` where the machine cannot run
    one of them, whatever the input.
    """
    for deep in (False, True)[: 1 + registers]:
        pair.registers, pair.left = deep, BUDGET
        tried = _guessed(pair, guesses) if guesses else _inputs(pair)
        found = next((given for given in tried if pair.differs(given)), None)
        if found is not None:
            pair.left = BUDGET
            small = _shrunk(pair, found)
            one, two = pair.ends(small, trace=True)
            parts = pair.parting(one, two)
            return Witness(small, differ(one, two), one, two, parts, split(one.events, two.events))
    return None


def _guessed(pair: Pair, guesses: Sequence[Guess]) -> Iterator[Input]:
    """Each guess alone, then with elements at the keys that the programs then ask for, holding each of its values."""
    for guess in guesses:
        keys: list[tuple[int, bytes]] = []
        for given in (guess.given, replace(guess.given, ones=True)):
            yield given
            try:
                ends = pair.ends(given)
            except Unsupported:
                continue
            keys = list(dict.fromkeys([*keys, *ends[0].keys, *ends[1].keys]))[:KEYS]
            for value in (PLAIN, *guess.values):
                for entries in _entries(pair, keys, value, full=value == PLAIN):
                    yield replace(given, entries=entries)


def _inputs(pair: Pair) -> Iterator[Input]:
    """From small to large. Raises `Unsupported` where even the empty input has no run."""
    base = Input(packet=bytes(LENGTHS[0]) if pair.layout is not None else b"")
    before, after = pair.ends(base)
    kinds = [base]
    if pair.abi.result is Extension.NOBODY:
        kinds.append(replace(base, ones=True))  # after all others: compilers leave zeros more often
    keys = list(dict.fromkeys([*before.keys, *after.keys, *_first(pair)]))
    numbers = list(dict.fromkeys([*_numbers(pair, pair.before), *_numbers(pair, pair.after)]))[:NUMBERS]
    fields = list(dict.fromkeys([*_fields(pair.before), *_fields(pair.after)]))[:FIELDS]
    for kind in kinds:
        yield kind
        for entries in _entries(pair, keys, PLAIN):
            yield replace(kind, entries=entries)
    for length in LENGTHS[1:] if pair.layout is not None else ():
        yield replace(base, packet=bytes(length))
    for (at, size), number in product(fields, numbers):
        yield from _placed(pair, base, at, size, number)
    for number in numbers:
        yield replace(base, numbers=(number,))
        for entries in _entries(pair, keys[:2], number, full=False):
            yield replace(base, entries=entries)
    draw = Random(SEED)
    for _ in range(RANDOM_TRIES if pair.left > 0 else 0):
        given = _random(pair, draw, keys, numbers, fields, draw.choice(kinds))
        yield given
        try:
            keys = list(
                dict.fromkeys([*keys, *run(pair.before, pair.maps, pair.release, pair.abi, given, pair.layout).keys])
            )[:KEYS]
        except Unsupported:
            continue


def _first(pair: Pair) -> Iterator[tuple[int, bytes]]:
    """The first keys of each map, which a walk meets though nobody asks for them."""
    for number, one in pair.maps.items():
        for key in range(min(one.max_entries or 0, WALKED)) if one.key_size else ():
            yield number, key.to_bytes(8, "little")[: one.key_size].ljust(one.key_size or 0, b"\0")


def _placed(pair: Pair, given: Input, at: int, size: int, number: int) -> Iterator[Input]:
    """The number in the context, and in the packet, there in either byte order."""
    if pair.layout is None or not pair.layout.holds(at):
        yield replace(given, context=_put(given.context, at, size, number))
    if at + size <= len(given.packet):
        data = _put(given.packet, at, size, number)
        yield replace(given, packet=data)
        if size > 1:
            yield replace(given, packet=data[:at] + data[at : at + size][::-1] + data[at + size :])


def _numbers(pair: Pair, program: Program) -> list[int]:
    """What the program compares with and moves, its maps' sizes, and neighbours: where its branches turn."""
    known = [insn.imm for insn in program.insns if insn.opcode & 7 in (4, 5, 6, 7) and insn.opcode != 0x85]
    known += [pair.maps[number].max_entries or 0 for number in used_maps(program)]
    near = {number + step for number in known for step in (-1, 0, 1)}
    edges = {0, 1, -1, (1 << 31) - 1, 1 << 31, (1 << 32) - 1}
    return sorted({number & ((1 << 64) - 1) for number in near | edges})


def _fields(program: Program) -> list[tuple[int, int]]:
    """Offset and size of what the program may load of its context: loads through any register but the stack's."""
    sizes = {0x00: 4, 0x08: 2, 0x10: 1, 0x18: 8}
    found = {
        (insn.off, sizes[insn.opcode & 0x18])
        for insn in program.insns
        if insn.opcode & 7 == 1 and insn.src != 10 and 0 <= insn.off <= CONTEXT - 8
    }
    return sorted(found)


def _put(data: bytes, at: int, size: int, number: int) -> bytes:
    return data[:at] + (number & ((1 << 8 * size) - 1)).to_bytes(size, "little") + data[at + size :]


def _value(one: Map, number: int) -> bytes:
    return number.to_bytes(8, "little")[: one.value_size or 0].ljust(one.value_size or 0, b"\0")


def _entries(
    pair: Pair, keys: Sequence[tuple[int, bytes]], value: int, *, full: bool = True
) -> Iterator[tuple[Entry, ...]]:
    """The keys that were asked for, one by one, two by two, all; then (`full`) maps that are full."""
    single = [_entry(pair.maps[number], number, key, value) for number, key in keys]
    there = [entry for entry in single if entry is not None]
    yield from ((entry,) for entry in there)
    yield from combinations(there[:8], 2)
    if len(there) > 2:
        yield tuple(there)
    for number in dict.fromkeys(number for number, _ in keys) if full else ():
        one = pair.maps[number]
        most = one.max_entries or 0
        if 0 < most <= FILL and "array" not in (one.type or ""):
            yield tuple(_others(one, number, most))


def _entry(one: Map, number: int, key: bytes, value: int) -> Entry | None:
    if one.type in ("array_of_maps", "hash_of_maps", "bloom_filter"):
        return None
    if one.type == PROGRAMS:  # each program returns another number
        return Entry(number, key, (0x1000 + int.from_bytes(key, "little")).to_bytes(8, "little"))
    if not one.key_size:
        return Entry(number, b"", _value(one, value))
    if "array" in (one.type or "") and int.from_bytes(key, "little") >= (one.max_entries or 0):
        return None
    return Entry(number, key, _value(one, value))


def _others(one: Map, number: int, most: int) -> Iterator[Entry]:
    for count in range(most):
        key = (0xA000 + count).to_bytes(8, "little")[: one.key_size or 0].ljust(one.key_size or 0)
        entry = _entry(one, number, key, PLAIN)
        if entry is not None:
            yield entry


def _random(
    pair: Pair,
    draw: Random,
    keys: Sequence[tuple[int, bytes]],
    numbers: Sequence[int],
    fields: Sequence[tuple[int, int]],
    kind: Input,
) -> Input:
    for at, size in fields:
        if draw.random() < 0.5:
            kind = draw.choice(list(_placed(pair, kind, at, size, draw.choice(numbers))) or [kind])
    chosen = [key for key in keys if draw.random() < 0.5]
    made = (_entry(pair.maps[number], number, key, draw.choice((PLAIN, *numbers))) for number, key in chosen)
    entries = [entry for entry in made if entry]
    drawn = tuple(draw.choice(numbers) for _ in range(draw.randrange(4)))
    return replace(kind, entries=tuple(entries), numbers=drawn)


def _shrunk(pair: Pair, given: Input) -> Input:
    """The input with as much left out, and as much made zero, as can be while the two still differ."""
    tries = SHRINKS
    again = True
    while again and tries > 0:
        again = False
        for one in smaller(given):
            tries -= 1
            if tries < 0:
                break
            if pair.differs(one):
                given, again = one, True
                break
    return given
