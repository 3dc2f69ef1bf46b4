"""Inlined lookups in a dump: are these instructions what a `map_gen_lookup` makes for this map?"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from model.isa.insn import Insn
from model.kernel.release import GenLookup, Release
from model.program import Map, Program, SymbolRef
from model.rewrite.config import Config
from model.rewrite.expressions import Amount, Scope
from model.rewrite.lookup import stored
from model.rewrite.sequence import Alternative, Template, alternatives


@dataclass(frozen=True, slots=True)
class Match:
    """The sequence is `length` instructions from the slot on.

    `bound` has what was learned: the text of an unknown ("struct bpf_array.value", "map.max_entries", or a
    sum of unknowns joined by " + ") with its value; `conditions` the outcomes that were taken for
    conditions which the input does not decide.
    """

    length: int
    bound: Mapping[str, int] = field(default_factory=dict)
    conditions: tuple[tuple[str, bool], ...] = ()


@dataclass(frozen=True, slots=True)
class Mismatch:
    """`reason` names the first instruction that differs, counted in slots of the program, and how."""

    reason: str
    slot: int


def match_lookup(
    program: Program, slot: int, gen: GenLookup, found: Map | None, config: Config, release: Release
) -> Match | Mismatch:
    """Match against every form that what is known of the map leaves open; the closest miss is reported.

    Whatever the map's type and sizes (and the release's layout) determine must be so in the program;
    what they leave open must have one value throughout.
    """
    scope = Scope(release, config, found)
    nearest = Mismatch(f"{gen.function} makes no instructions for this map", slot)
    for alternative in alternatives(gen.body, scope):
        outcome = _match(program, slot, gen, alternative)
        if isinstance(outcome, Match):
            return outcome
        if outcome.slot > nearest.slot or nearest.reason.endswith("no instructions for this map"):
            nearest = outcome
    return nearest


def _match(program: Program, slot: int, gen: GenLookup, alternative: Alternative) -> Match | Mismatch:
    if alternative.unread:
        return Mismatch(f"{gen.function}: the model cannot read {alternative.unread}", slot)
    if alternative.errno:
        return Mismatch(f"{gen.function} declines with -{alternative.errno}: a direct call was expected", slot)
    bound: dict[str, int] = {}
    for index, template in enumerate(alternative.templates):
        at = slot + index
        if at >= len(program.insns):
            return Mismatch(f"the program ends before the sequence of {gen.function} does", at)
        difference = _compare(program, at, template, bound)
        if difference:
            return Mismatch(f"instruction {program.base + at}: {difference} ({gen.function})", at)
    if not alternative.templates:
        return Mismatch(f"{gen.function} makes no instructions for this map", slot)
    return Match(len(alternative.templates), bound, alternative.conditions)


def _compare(program: Program, slot: int, template: Template, bound: dict[str, int]) -> str:
    """How the instruction differs from the template, "" if it does not; fills `bound`."""
    insn: Insn = program.insns[slot]
    if insn.opcode != template.opcode:
        return f"opcode 0x{template.opcode:02x} expected, found 0x{insn.opcode:02x}"
    if (insn.dst, insn.src) != (template.dst, template.src):
        return f"registers r{template.dst}, r{template.src} expected, found r{insn.dst}, r{insn.src}"
    if template.call:
        ref = program.refs.get(slot)
        name = ref.name if isinstance(ref, SymbolRef) else ""
        if name == template.call:
            return ""
        return f"call of {template.call} expected, found {name or 'a call without a name'}"
    return _bind(template.off, insn.off, 16, "offset", bound) or _bind(template.imm, insn.imm, 32, "immediate", bound)


def _bind(amount: Amount, found: int, bits: int, what: str, bound: dict[str, int]) -> str:
    """`found` must be the amount; an unknown part of it is learned, or must be what was learned before."""
    names = amount.offsets + amount.terms
    if not names:
        expected = stored(amount, bits)
        return "" if expected == found else f"{what} {expected} expected, found {found}"
    name = " + ".join(names)
    value = (found - amount.value) & (1 << bits) - 1
    if bound.setdefault(name, value) == value:
        return ""
    return f"{what} with {name} = {bound[name]} expected, found {value}"
