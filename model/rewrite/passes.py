"""The rewrite of a whole program: a decision for every site, and all patches put in."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from model.facts import Facts
from model.isa.insn import Insn
from model.kernel.release import Release
from model.program import Form, Program
from model.rewrite.config import Config
from model.rewrite.direct_call import Decision, decide
from model.rewrite.patch import Patch, Reloc, apply

CALL = 0x85


@dataclass(frozen=True, slots=True)
class Rewritten:
    """`decisions` by slot of `before`, ascending; `moved` and `relocs` as in `model.rewrite.patch.Patched`.

    `after` is in the kernel's form: every ordinary call is named in `refs` and has a "call" relocation;
    its immediate is 0 until a kernel tells the function's address.
    """

    before: Program
    after: Program
    decisions: tuple[Decision, ...]
    moved: tuple[int, ...]
    relocs: Mapping[int, Reloc] = field(default_factory=dict)


def rewrite(program: Program, facts: Facts, release: Release, config: Config) -> Rewritten:
    """Direct calls and inlined lookups as the release puts them in; other calls of helpers are only named.

    In a program that is in the kernel's form already, only the helper calls that were left are decided on,
    and every other instruction is as it was. Raises Unsupported where a branch does not reach its target any
    more.
    """
    if program.form is Form.XLATED:
        left = {symbol: name for name, helper in release.helpers.items() for symbol in (f"bpf_{name}", helper.function)}
        decisions = _decisions(facts, release, config, left)
        patches = {decision.slot: decision.patch for decision in decisions if decision.patch is not None}
        patched = apply(program, patches)
        return Rewritten(program, patched.program, decisions, patched.moved, patched.relocs)
    decisions = _decisions(facts, release, config, {name: name for name in release.helpers})
    patches = {decision.slot: decision.patch for decision in decisions if decision.patch is not None}
    symbols = {number: f"bpf_{name}" for name, number in release.helper_ids.items()}
    symbols |= {helper.id: helper.function for helper in release.helpers.values()}
    for slot, insn in enumerate(program.insns):
        if insn.opcode == CALL and insn.src == 0 and slot not in patches:
            patches[slot] = _helper(symbols, insn.imm)
    patched = apply(program, patches)
    after = replace(patched.program, form=Form.XLATED)
    return Rewritten(program, after, decisions, patched.moved, patched.relocs)


def _decisions(facts: Facts, release: Release, config: Config, helpers: Mapping[str, str]) -> tuple[Decision, ...]:
    """A decision for every site whose callee is one of `helpers` (callee -> helper's name).

    Sites that differ in nothing but their place are decided once.
    """
    known: dict[object, Decision] = {}
    decisions = []
    for slot, fact in sorted(facts.sites.items()):
        helper = helpers.get(fact.callee)
        if helper is None:
            continue
        keys = tuple(pointer.key for pointer in fact.pointers)
        told = (fact.unknown, fact.reached, fact.sure_poison, fact.pruned_possible, fact.why_unknown)
        kind = (fact.callee, keys, told)
        found = known.get(kind)
        if found is None:
            found = known[kind] = decide(release, config, helper, fact)
        decisions.append(found if found.slot == slot else replace(found, slot=slot))
    return tuple(decisions)


def _helper(symbols: Mapping[int, str], number: int) -> Patch:
    """The call that stays: the same instruction, its function by name where the release has that helper."""
    return Patch((Insn(CALL),), {0: Reloc("call", symbols.get(number, f"helper#{number}"))})
