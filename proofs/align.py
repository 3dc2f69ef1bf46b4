"""The program before and the program after, walked in step: which instruction became which, and where a site was
rewritten. The walk decides nothing: it finds a correspondence, `proofs.equivalence` has it discharged.

Linear: each slot of either program is looked at once (an inlined lookup once for each map that reaches it).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from model.facts import Facts, MapPointer, SiteFact
from model.isa.insn import Insn
from model.kernel.release import Release
from model.program import ExternRef, Form, MapRef, Program, Ref, SymbolRef
from model.rewrite.config import Config
from model.rewrite.lookup import generate
from model.rewrite.patch import Patch, Reloc
from model.rewrite.recognise import Match, match_lookup
from proofs.equiv_maps import Loads
from proofs.symbols import OPERATION

CALL, EXIT, WIDE, JA32 = 0x85, 0x95, 0x18, 0x06
LOOKUP = "map_lookup_elem"
SYNONYMS: Mapping[str, str] = {"bpf_get_prandom_u32": "bpf_user_rnd_u32"}
"""Functions of helpers that are not called as their helper is (`bpf_get_prandom_u32_proto`, kernel/bpf/core.c)."""


class Change(Enum):
    DIRECT = "direct"
    INLINED = "inlined"


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A site that was rewritten: `length` instructions at `after` stand for the call at `slot`.

    `function` is what is called directly. `learned` has what the instructions of an inlined lookup say of the map
    and of the kernel's structures (`model.rewrite.recognise.Match.bound`).
    """

    slot: int
    after: int
    helper: str
    fact: SiteFact
    change: Change
    function: str = ""
    length: int = 1
    learned: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Gap:
    """Where the walk ends: the slots (`after` may be behind the last) and why nothing is known of what is there."""

    slot: int
    after: int
    reason: str


@dataclass(frozen=True, slots=True)
class Alignment:
    """`moved` as `model.rewrite.patch.Patched.moved`, up to the gap where there is one. `program` is the program after
    with the same names and numbers for the same things as before, `functions` the symbol of each helper id.
    """

    moved: tuple[int, ...]
    sites: tuple[Rewritten, ...]
    program: Program
    functions: Mapping[int, str]
    gap: Gap | None = None

    @property
    def patched(self) -> frozenset[int]:
        return frozenset(site.slot for site in self.sites)


@dataclass(slots=True)
class Walk:
    """One walk; `symbols` and `functions` as in `proofs.claims.Claims`."""

    loads: Loads
    facts: Facts
    release: Release
    config: Config
    symbols: Mapping[str, str]
    functions: Mapping[int, str]
    _moved: list[int] = field(default_factory=list)
    _sites: list[Rewritten] = field(default_factory=list)
    _named: dict[int, str] = field(default_factory=dict)
    _numbers: dict[int, Insn] = field(default_factory=dict)
    _ids: dict[int, str] = field(default_factory=dict)
    _refs: dict[int, Ref] = field(default_factory=dict)

    def run(self) -> Alignment:
        before, after = self.loads.before, self.loads.after
        self._ids = {number: name for name, number in self.release.helper_ids.items()}
        slot = at = 0
        gap = None
        while slot < len(before.insns):
            if at >= len(after.insns):
                gap = Gap(slot, at, "the program after ends here")
                break
            step = self._step(slot, at)
            if isinstance(step, Gap):
                gap = step
                break
            taken, made = step
            self._moved += [at + i for i in range(taken)]
            slot, at = slot + taken, at + made
        if gap is None:
            self._moved.append(at)
            if at < len(after.insns):
                gap = Gap(slot, at, "the program before ends here")
        insns = list(after.insns)
        for place, insn in self._numbers.items():
            insns[place] = insn
        program = replace(after, insns=tuple(insns), refs={**after.refs, **self._refs})
        functions = {**self.functions, **self._named}
        return Alignment(tuple(self._moved), tuple(self._sites), program, functions, gap)

    def _step(self, slot: int, at: int) -> tuple[int, int] | Gap:
        """How many slots of each side correspond here."""
        before, after = self.loads.before, self.loads.after
        insn, now = before.insns[slot], after.insns[at]
        if insn.opcode == WIDE:
            return self._wide(slot, at)
        if insn.opcode == CALL and insn.src == 0:
            return self._call(slot, at)
        if insn.opcode == CALL and insn.src == 2 and now.opcode == CALL and now.src in (0, 2):
            return self._kernel_function(slot, at)
        if insn == now or same_but_distance(insn, now):
            return 1, 1
        return Gap(slot, at, "the instruction is another one after (a change that is not this rewrite's)")

    def _wide(self, slot: int, at: int) -> tuple[int, int] | Gap:
        """A 64-bit load: of the same number, the same map, the same function of the program (`patching` says where)."""
        before, after = self.loads.before, self.loads.after
        insn, now = before.insns[slot], after.insns[at]
        pair = before.insns[slot : slot + 2], after.insns[at : at + 2]
        ref, found = before.refs.get(slot), after.refs.get(at)
        if now.opcode != WIDE or len(pair[0]) < 2 or len(pair[1]) < 2 or insn.dst != now.dst:
            return Gap(slot, at, "the instruction is another one after (a change that is not this rewrite's)")
        if isinstance(ref, MapRef) and isinstance(found, MapRef) and self.loads.loads.get(slot) == at:
            self._numbers |= {at: insn, at + 1: before.insns[slot + 1]}
            return 2, 2
        if (
            isinstance(ref, ExternRef)
            and isinstance(found, ExternRef)
            and (ref.name, ref.kind) == (found.name, found.kind)
        ):
            self._numbers |= {at: insn, at + 1: before.insns[slot + 1]}
            self._refs[at] = ref
            return 2, 2
        same = ref == found and insn.src == now.src and pair[0][1] == pair[1][1]
        if same and (insn.src == 4 or insn == now):
            return 2, 2
        return Gap(slot, at, "the 64-bit load is of something else after")

    def _kernel_function(self, slot: int, at: int) -> tuple[int, int] | Gap:
        """A kfunc call: by name where both sides have one (text of dumps tells no more), else by number."""
        names = [
            ref.name if isinstance(ref := program.refs.get(place), ExternRef | SymbolRef) else ""
            for program, place in ((self.loads.before, slot), (self.loads.after, at))
        ]
        insn = self.loads.before.insns[slot]
        if names[0] != names[1] or (not names[0] and insn != self.loads.after.insns[at]):
            return Gap(slot, at, f"a call of kernel function {names[0] or '?'} is one of {names[1] or '?'} after")
        self._numbers[at] = insn
        if slot in self.loads.before.refs:
            self._refs[at] = self.loads.before.refs[slot]
        return 1, 1

    def _call(self, slot: int, at: int) -> tuple[int, int] | Gap:
        before, after = self.loads.before, self.loads.after
        insn, now = before.insns[slot], after.insns[at]
        symbol, helper = self._callee(before, slot)
        name = self._callee(after, at)[0] if now.opcode == CALL and now.src == 0 else ""
        fact = self.facts.sites.get(slot, SiteFact(slot, helper))
        if name and (name == symbol or SYNONYMS.get(symbol) == name):
            return self._same(slot, at, symbol, name)
        if helper not in self.release.helpers:
            what = f"a call of {symbol or 'a function without a name'}"
            return Gap(slot, at, f"{what} is {_call_text(now, name)} after (a change that is not this rewrite's)")
        if (helper == LOOKUP and self.symbols.get(name) != OPERATION) or name not in self.release.functions:
            inlined = self._inlined(slot, at, fact) if helper == LOOKUP else None
            if inlined is not None:
                self._sites.append(inlined)
                return 1, inlined.length
        if name in self.release.functions and now == replace(insn, imm=now.imm):
            self._sites.append(Rewritten(slot, at, helper, fact, Change.DIRECT, name))
            return 1, 1
        told = "the target is not named" if now.opcode == CALL and not name else _call_text(now, name)
        return Gap(slot, at, f"a call of {symbol} is neither that, nor a map's operation, nor its lookup after: {told}")

    def _callee(self, program: Program, slot: int) -> tuple[str, str]:
        """The symbol that a call reaches and the helper that it is; "" for what is not told."""
        ref = program.refs.get(slot)
        if isinstance(ref, SymbolRef):
            meaning = self.symbols.get(ref.name, "")
            return ref.name, "" if meaning == OPERATION else meaning
        if program.form is Form.OBJECT:
            number = program.insns[slot].imm
            return self.functions.get(number, f"helper#{number}"), self._ids.get(number, "")
        return "", ""

    def _same(self, slot: int, at: int, symbol: str, name: str) -> tuple[int, int]:
        """One and the same function: by its number here, by its name there."""
        before, after = self.loads.before, self.loads.after
        insn = before.insns[slot]
        if slot not in before.refs and at in after.refs:
            self._named[insn.imm] = name
        else:
            self._numbers[at] = insn
        return 1, 1

    def _inlined(self, slot: int, at: int, fact: SiteFact) -> Rewritten | None:
        """The lookup's instructions, if they are those of every map that reaches the call."""
        found: list[Match] = []
        for pointer in fact.pointers:
            match = self._match(at, pointer)
            if match is None or (found and match.length != found[0].length):
                return None
            found.append(match)
        if not found:
            return None
        learned: dict[str, int] = {}
        for match in found:
            for name, value in match.bound.items():
                if learned.setdefault(name, value) != value:
                    return None
        return Rewritten(slot, at, LOOKUP, fact, Change.INLINED, "", found[0].length, learned)

    def _match(self, at: int, pointer: MapPointer) -> Match | None:
        row = self.release.map_types.get(pointer.map.type or "")
        name = self.release.ops[row.ops].slots.get("map_gen_lookup") if row is not None and row.ops else None
        gen = self.release.gen_lookup.get(name or "")
        if gen is None:
            return None
        for config in (self.config, replace(self.config, unprivileged=not self.config.unprivileged)):
            match = match_lookup(self.loads.after, at, gen, pointer.map, config, self.release)
            if isinstance(match, Match):
                return match
        return None


def same_but_distance(insn: Insn, now: Insn) -> bool:
    """Both jump, or both call a function of the program; how far is for `proofs.properties.patching` to say."""
    kind, operation = insn.opcode & 7, insn.opcode & 0xF0
    if insn.opcode == CALL:
        return insn.src == 1 and replace(insn, imm=0) == replace(now, imm=0)
    if kind not in (5, 6) or operation in (0x80, 0x90, 0xF0):
        return False
    if insn.opcode == JA32:
        return replace(insn, imm=0) == replace(now, imm=0)
    return replace(insn, off=0) == replace(now, off=0)


def _call_text(now: Insn, name: str) -> str:
    if now.opcode != CALL:
        return "another instruction"
    return f"a call of {name}" if name else "a call without a name"


def relocated(alignment: Alignment, release: Release, config: Config) -> tuple[Program, dict[int, Reloc]]:
    """The program after with what one build's structures decided left open again, so that another layout can be put in.

    Of an inlined lookup, the instructions are those of the release for the map; the relocations say where offsets go.
    """
    insns = list(alignment.program.insns)
    relocs: dict[int, Reloc] = {}
    for site in alignment.sites:
        if site.change is not Change.INLINED:
            continue
        patch = _patch(site, release, config)
        if patch is None:
            continue
        for index, reloc in patch.relocs.items():
            relocs[site.after + index] = reloc
            insns[site.after + index] = patch.insns[index]
    return replace(alignment.program, insns=tuple(insns)), relocs


def _patch(site: Rewritten, release: Release, config: Config) -> Patch | None:
    pointer = site.fact.pointers[0]
    row = release.map_types[pointer.map.type or ""]
    gen = release.gen_lookup[release.ops[row.ops or ""].slots["map_gen_lookup"]]
    for chosen in (config, replace(config, unprivileged=not config.unprivileged)):
        made = generate(release, chosen, gen, pointer.map)
        if isinstance(made, Patch) and len(made.insns) == site.length:
            return made
    return None


def distances(sites: Sequence[Rewritten]) -> Iterator[tuple[str, int, int]]:
    """What inlined lookups say of the kernel's structures: member, offset, slot after."""
    for site in sites:
        for name, value in site.learned.items():
            if name.startswith("struct "):
                yield name, value, site.after
