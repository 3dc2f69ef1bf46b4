"""An input on which two programs differ, found by trying and then made small. Deterministic: one seed, bounded tries.

What is tried comes from the programs: the keys that they ask their maps for, the numbers that they compare with.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from random import Random

from model.errors import Unsupported
from model.kernel.abi import Abi, Extension
from model.kernel.release import Release
from model.program import Map, Program
from proofs.pair_run import CONTEXT, End, Entry, Input, Parting, differ, parting, run, used_maps

SEED = 1
RANDOM_TRIES = 120
SHRINKS = 400
NUMBERS, FIELDS = 48, 6
BUDGET = 600_000
"""Instructions of all runs of one search: some seconds. A run costs RUN more, and one more for BYTES of its maps."""
RUN, BYTES = 200, 64
FILL = 64
"""Elements that are put into a map at most, to have it full."""


@dataclass(frozen=True, slots=True)
class Witness:
    """`what` differs (r0, the context, "map N") when both programs are run with `given`; `parts` tells where.

    `what` is "" where only a register on the way does.
    """

    given: Input
    what: str
    before: End
    after: End
    parts: Parting | None


@dataclass(slots=True)
class Pair:
    """Two programs to be run with one input; `after` links to the machine's layout already."""

    before: Program
    after: Program
    release: Release
    abi: Abi
    maps: Sequence[int]
    moved: Sequence[int]
    registers: bool = False
    left: int = BUDGET

    def ends(self, given: Input, *, trace: bool = False) -> tuple[End, End]:
        before = run(self.before, self.maps, self.release, self.abi, given, trace=trace)
        after = run(self.after, self.maps, self.release, self.abi, given, trace=trace)
        self.left -= RUN + before.outcome.steps + after.outcome.steps + before.size // BYTES
        return before, after

    def differs(self, given: Input) -> bool:
        """Whether the input is a witness; one that the machine has no meaning for is none, nor is one too many."""
        if self.left <= 0:
            return False
        try:
            one, two = self.ends(given, trace=self.registers)
        except Unsupported:
            return False
        return bool(differ(one, two)) or (self.registers and self.parting(one, two) is not None)

    def parting(self, before: End, after: End) -> Parting | None:
        if len(self.moved) != len(self.before.insns) + 1:
            return None
        return parting(before.moments, after.moments, self.moved)


def search(
    before: Program, after: Program, release: Release, abi: Abi, moved: Sequence[int], *, registers: bool
) -> Witness | None:
    """A small input on which the two differ, None where none was found.

    What differs is what a user can see at the end; with `registers`, where no such input is found, one on which the
    two differ in a register on the way (`Witness.what` is then ""). Raises `Unsupported` where the machine cannot run
    one of them, whatever the input.
    """
    pair = Pair(before, after, release, abi, sorted({*used_maps(before), *used_maps(after)}), moved)
    for deep in (False, True)[: 1 + registers]:
        pair.registers, pair.left = deep, BUDGET
        found = next((given for given in _inputs(pair) if pair.differs(given)), None)
        if found is not None:
            pair.left = BUDGET
            small = _shrunk(pair, found)
            one, two = pair.ends(small, trace=True)
            return Witness(small, differ(one, two), one, two, pair.parting(one, two))
    return None


def _inputs(pair: Pair) -> Iterator[Input]:
    """From small to large. Raises `Unsupported` where even the empty input has no run."""
    base = Input()
    before, after = pair.ends(base)
    kinds = [base]
    if pair.abi.result is Extension.NOBODY:
        kinds.append(replace(base, ones=True))  # after all others: compilers leave zeros more often
    keys = list(dict.fromkeys(before.keys + after.keys))
    numbers, fields = _numbers(pair.before), _fields(pair.before)
    for kind in kinds:
        yield kind
        for entries in _entries(pair.before.maps, keys):
            yield replace(kind, entries=entries)
    for (at, size), number in product(fields, numbers):
        yield replace(base, context=_put(base.context, at, size, number))
    draw = Random(SEED)
    for _ in range(RANDOM_TRIES if pair.left > 0 else 0):
        given = _random(pair, draw, keys, numbers, fields, draw.choice(kinds))
        yield given
        try:
            keys = list(dict.fromkeys([*keys, *run(pair.before, pair.maps, pair.release, pair.abi, given).keys]))[:32]
        except Unsupported:
            continue


def _numbers(program: Program) -> list[int]:
    """What the program compares with and moves, its maps' sizes, and neighbours: where its branches turn."""
    known = [insn.imm for insn in program.insns if insn.opcode & 7 in (4, 5, 6, 7) and insn.opcode != 0x85]
    known += [program.maps[number].max_entries or 0 for number in used_maps(program)]
    near = {number + step for number in known for step in (-1, 0, 1)}
    edges = {0, 1, -1, (1 << 31) - 1, 1 << 31, (1 << 32) - 1}
    return sorted({number & ((1 << 64) - 1) for number in near | edges})[:NUMBERS]


def _fields(program: Program) -> list[tuple[int, int]]:
    """Offset and size of what the program may load of its context: loads through any register but the stack's."""
    sizes = {0x00: 4, 0x08: 2, 0x10: 1, 0x18: 8}
    found = {
        (insn.off, sizes[insn.opcode & 0x18])
        for insn in program.insns
        if insn.opcode & 7 == 1 and insn.src != 10 and 0 <= insn.off <= CONTEXT - 8
    }
    return sorted(found)[:FIELDS]


def _put(data: bytes, at: int, size: int, number: int) -> bytes:
    return data[:at] + (number & ((1 << 8 * size) - 1)).to_bytes(size, "little") + data[at + size :]


def _value(one: Map, number: int) -> bytes:
    return number.to_bytes(8, "little")[: one.value_size or 0].ljust(one.value_size or 0, b"\0")


def _entries(maps: Sequence[Map], keys: Sequence[tuple[int, bytes]]) -> Iterator[tuple[Entry, ...]]:
    """The keys that were asked for, one by one, two by two, all; then maps that are full."""
    single = [_entry(maps, number, key) for number, key in keys]
    there = [entry for entry in single if entry is not None]
    yield from ((entry,) for entry in there)
    yield from combinations(there[:8], 2)
    for number in dict.fromkeys(number for number, _ in keys):
        one = maps[number]
        most = one.max_entries or 0
        if 0 < most <= FILL and "array" not in (one.type or ""):
            yield tuple(_others(maps, number, most))


def _entry(maps: Sequence[Map], number: int, key: bytes) -> Entry | None:
    one = maps[number]
    if one.type in ("array_of_maps", "hash_of_maps", "bloom_filter"):
        return None
    if not one.key_size:
        return Entry(number, b"", _value(one, 7))
    if "array" in (one.type or "") and int.from_bytes(key, "little") >= (one.max_entries or 0):
        return None
    return Entry(number, key, _value(one, 7))


def _others(maps: Sequence[Map], number: int, most: int) -> Iterator[Entry]:
    for count in range(most):
        key = (0xA000 + count).to_bytes(8, "little")[: maps[number].key_size or 0].ljust(maps[number].key_size or 0)
        entry = _entry(maps, number, key)
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
    context = kind.context
    for at, size in fields:
        if draw.random() < 0.5:
            context = _put(context, at, size, draw.choice(numbers))
    chosen = [key for key in keys if draw.random() < 0.5]
    entries = [entry for entry in (_entry(pair.before.maps, number, key) for number, key in chosen) if entry]
    drawn = tuple(draw.choice(numbers) for _ in range(draw.randrange(4)))
    return replace(kind, context=context, entries=tuple(entries), numbers=drawn)


def _shrunk(pair: Pair, given: Input) -> Input:
    """The input with as much left out, and as much made zero, as can be while the two still differ."""
    tries = SHRINKS
    again = True
    while again and tries > 0:
        again = False
        for smaller in _smaller(given):
            tries -= 1
            if tries < 0:
                break
            if pair.differs(smaller):
                given, again = smaller, True
                break
    return given


def _smaller(given: Input) -> Iterator[Input]:
    """Inputs that are a little simpler, the boldest first."""
    if given.ones:
        yield replace(given, ones=False)
    for index in range(len(given.entries)):
        yield replace(given, entries=given.entries[:index] + given.entries[index + 1 :])
    if given.numbers:
        yield replace(given, numbers=given.numbers[:-1])
    for index, number in enumerate(given.numbers):
        for less in (0, 1, number // 2):
            if less < number:
                yield replace(given, numbers=(*given.numbers[:index], less, *given.numbers[index + 1 :]))
    size = len(given.context)
    while size:
        for at in range(0, len(given.context), size):
            if any(given.context[at : at + size]):
                yield replace(given, context=given.context[:at] + bytes(size) + given.context[at + size :])
        size //= 4
    for index, entry in enumerate(given.entries):
        if any(entry.value):
            plain = replace(entry, value=bytes(len(entry.value)))
            yield replace(given, entries=(*given.entries[:index], plain, *given.entries[index + 1 :]))
