"""A map's inlined lookup: what its `map_gen_lookup` puts in the place of the call."""

from dataclasses import dataclass

from model.isa.insn import Insn
from model.kernel.release import GenLookup, Release
from model.program import Map
from model.rewrite.config import Config
from model.rewrite.expressions import Amount, Scope
from model.rewrite.patch import Patch, Reloc
from model.rewrite.sequence import Template, alternatives

FIELDS = {"map.max_entries": "max_entries", "array.index_mask": "index_mask"}
"""Fields that can stand for themselves in an immediate, with the names that relocations have for them."""


@dataclass(frozen=True, slots=True)
class Declined:
    """The function returns -`errno`; "EOPNOTSUPP" means that the call becomes a direct call instead."""

    errno: str


@dataclass(frozen=True, slots=True)
class Undetermined:
    """What the function emits cannot be told; `reason` says for want of what."""

    reason: str


Lookup = Patch | Declined | Undetermined


def generate(release: Release, config: Config, gen: GenLookup, found: Map) -> Lookup:
    """The instructions for `found`.

    Members' offsets that the release does not know become relocations, and so do fields of the map that
    are immediates: a program may set `max_entries` at run time, the instructions are the same ones.
    """
    scope = Scope(release, config, found)
    alternative = next(iter(alternatives(gen.body, scope)))
    if alternative.conditions:
        return Undetermined(f"{gen.function} asks for {alternative.conditions[0][0]}, not known of {found.name}")
    if alternative.unread:
        return Undetermined(f"{gen.function}: the model cannot read {alternative.unread}")
    if alternative.errno:
        return Declined(alternative.errno)
    insns: list[Insn] = []
    relocs: dict[int, Reloc] = {}
    for index, template in enumerate(alternative.templates):
        for term in template.off.terms + tuple(term for term in template.imm.terms if term not in FIELDS):
            return Undetermined(f"{gen.function} uses {term}, not known of {found.name}")
        reloc = _reloc(template)
        if reloc is not None:
            relocs[index] = reloc
        off, imm = stored(template.off, 16), stored(template.imm, 32)
        insns.append(Insn(template.opcode, template.dst, template.src, off, imm))
    return Patch(tuple(insns), relocs)


def stored(amount: Amount, bits: int) -> int:
    """The amount's known part as a signed field of `bits` bits holds it."""
    value = amount.value & (1 << bits) - 1
    return value - (1 << bits) if value >> bits - 1 else value


def _reloc(template: Template) -> Reloc | None:
    if template.call:
        return Reloc("call", template.call)
    if template.off.offsets:
        return Reloc("displacement", " + ".join(template.off.offsets))
    addends = template.imm.offsets + tuple(FIELDS[term] for term in template.imm.terms)
    return Reloc("offset", " + ".join(addends)) if addends else None
