"""What the kernel's passes do to a program besides the rewrite of map-helper calls: rows, and how a row is recognised.

Syntax only, as everything here: a row says which instruction it is about, and which instructions take its place. What
they mean is for a claim to say. Rows are in `other_alu`, `other_memory`, `other_calls`, `other_flow`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from model.isa.insn import Insn
from model.kernel.nearest import version_numbers
from model.program import Program, SymbolRef
from model.rewrite.expressions import Amount
from model.rewrite.lookup import stored
from model.rewrite.sequence import Template

CALL, EXIT, WIDE = 0x85, 0x95, 0x18
AX = 11
"""BPF_REG_AX, which only patches use."""
GOTO, LOW, HIGH, CALLBACK = "goto ", "low &", "high &", "callback"


@dataclass(frozen=True, slots=True)
class At:
    """An instruction of the program before: its slot, itself, what is in the second slot of a 64-bit load (else 0), and
    the helper's name without `bpf_` where it calls one.
    """

    slot: int
    insn: Insn
    high: int = 0
    helper: str = ""


Patch = Sequence[Template]


@dataclass(frozen=True, slots=True)
class Row:
    """A change of one instruction, in releases from `first` to `last` ("" for no end).

    `source` is the kernel's function and where it was read. `patches` gives the sequences that may take the
    instruction's place; for changes that are too many to list, `shape` says whether instructions have their form.
    An unknown in a template is a name: "goto N" is the distance to slot N, "low &S" and "high &S" the halves of a
    symbol's address, "callback" the distance to a function of the program; anything else is learned, and the same
    throughout.
    """

    name: str
    source: str
    first: str
    pattern: Callable[[At], bool]
    patches: Callable[[At], Iterable[Patch]] = lambda at: ()
    shape: Callable[[At, Sequence[Insn]], bool] | None = None
    last: str = ""

    def covers(self, version: str) -> bool:
        asked, last = version_numbers(version), version_numbers(self.last)
        return version_numbers(self.first) <= asked and (not last or asked[: len(last)] <= last)


@dataclass(frozen=True, slots=True)
class Change:
    """`row` at `slot` before: `length` instructions at `at` after. `exact`: by a sequence and not only by its form."""

    row: Row
    slot: int
    at: int
    length: int
    bound: Mapping[str, int] = field(default_factory=dict)
    exact: bool = True


@dataclass(frozen=True, slots=True)
class Kernel:
    """What sequences refer to: where slots went (`model.rewrite.patch.Patched.moved`), addresses by symbol, and the
    slots after where functions of the program start.
    """

    moved: Sequence[int]
    places: Callable[[str], Sequence[int]]
    starts: frozenset[int] = frozenset()


def recognise(rows: Iterable[Row], at: At, after: Program, place: range, kernel: Kernel) -> Change | None:
    """The first of `rows` that makes of the instruction what stands at `place` after."""
    found = after.insns[place.start : place.stop]
    for row in rows:
        if not row.pattern(at):
            continue
        for patch in row.patches(at):
            bound = _match(patch, after, place, kernel)
            if bound is not None:
                return Change(row, at.slot, place.start, len(place), bound)
        if row.shape is not None and row.shape(at, found):
            return Change(row, at.slot, place.start, len(place), exact=False)
    return None


def _match(patch: Patch, after: Program, place: range, kernel: Kernel) -> dict[str, int] | None:
    if len(patch) != len(place):
        return None
    bound: dict[str, int] = {}
    for slot, template in zip(place, patch, strict=True):
        insn = after.insns[slot]
        if (insn.opcode, insn.dst, insn.src) != (template.opcode, template.dst, template.src):
            return None
        if template.call:
            ref = after.refs.get(slot)
            if not isinstance(ref, SymbolRef) or (template.call != "*" and ref.name not in template.call.split("|")):
                return None
        elif not _fits(template.imm, insn.imm, 32, slot, bound, kernel):
            return None
        if not _fits(template.off, insn.off, 16, slot, bound, kernel):
            return None
    return bound if _addresses(bound, kernel) else None


def _fits(amount: Amount, found: int, bits: int, slot: int, bound: dict[str, int], kernel: Kernel) -> bool:
    if not amount.terms:
        return stored(amount, bits) == found
    name = amount.terms[0]
    if name.startswith(GOTO):
        return slot + 1 + found == kernel.moved[int(name.removeprefix(GOTO))]
    if name == CALLBACK:
        bound[name] = slot + 1 + found
        return bound[name] in kernel.starts
    value = found - amount.value
    return bound.setdefault(name, value) == value


def _addresses(bound: Mapping[str, int], kernel: Kernel) -> bool:
    """Each symbol is at its address (a 32-bit one has no high half), unless no address is known of it: kallsyms may
    leave out data.
    """
    for name, value in bound.items():
        if name.startswith(LOW):
            symbol = name.removeprefix(LOW)
            address = bound.get(f"{HIGH}{symbol}", 0) << 32 | value & 0xFFFFFFFF
            bits = (1 << 64) - 1 if f"{HIGH}{symbol}" in bound else (1 << 32) - 1
            places = [place for one in symbol.split("|") for place in kernel.places(one)]
            if places and not any((place ^ address) & bits == 0 for place in places):
                return False
    return True


def insn(opcode: int, dst: int = 0, src: int = 0, off: int | str = 0, imm: int | str = 0) -> Template:
    """A template with numbers, or names for what is not known."""
    return Template(opcode, dst, src, _amount(off), _amount(imm))


def same(found: Insn) -> Template:
    return Template(found.opcode, found.dst, found.src, Amount(found.off), Amount(found.imm))


def call(*names: str) -> Template:
    """A call of one of these functions of the kernel; "*" for any that has a name."""
    return Template(CALL, call="|".join(sorted(names)))


def _amount(value: int | str) -> Amount:
    return Amount(0, (value,)) if isinstance(value, str) else Amount(value)
