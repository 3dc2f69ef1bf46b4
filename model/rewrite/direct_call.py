"""What becomes of one helper call: the conditions of the pass, in the kernel's order.

`do_misc_fixups`, kernel/bpf/verifier.c of 6.1, and `bpf_do_misc_fixups`, fixups.c of 7.3.
"""

from dataclasses import dataclass
from enum import Enum

from model.facts import MapPointer, SiteFact
from model.isa.insn import Insn
from model.kernel.release import Release
from model.rewrite.config import Config
from model.rewrite.lookup import Declined, Undetermined, generate
from model.rewrite.patch import Patch, Reloc

CALL = Insn(0x85)


class Kind(Enum):
    """`MAY_STAY`: several map pointers reach the call as far as the model sees, the verifier may see one of them."""

    DIRECT = "direct"
    INLINED = "inlined"
    STAYS = "stays"
    MAY_STAY = "may stay"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Decision:
    """`function` is the operation that is called directly, or whose place the inline sequence takes.

    `patch` is what replaces the call (DIRECT and INLINED). `reason` says why the call stays, or why a
    lookup is a direct call and not inlined; "" where there is nothing to say.
    """

    slot: int
    helper: str
    kind: Kind
    function: str | None = None
    patch: Patch | None = None
    reason: str = ""
    pointers: tuple[MapPointer, ...] = ()


def direct_patch(function: str) -> Patch:
    """The direct form: `insn->imm = BPF_CALL_IMM(function)`, everything else of the call as it was."""
    return Patch((CALL,), {0: Reloc("call", function)})


def decide(release: Release, config: Config, helper: str, fact: SiteFact) -> Decision:
    """The decision for the call at `fact.slot` of `helper` (name without `bpf_`)."""
    outcome = _before_map(release, config, helper, fact) or _by_map(release, config, helper, fact)
    kind, reason, function, patch = outcome
    return Decision(fact.slot, helper, kind, function, patch, reason, fact.pointers)


Outcome = tuple[Kind, str, str | None, Patch | None]


def _without(kind: Kind, reason: str) -> Outcome:
    return kind, reason, None, None


def _before_map(release: Release, config: Config, helper: str, fact: SiteFact) -> Outcome | None:
    """What keeps the helper whatever the map's operations are; None where nothing does."""
    if not fact.reached:
        return _without(Kind.STAYS, "call is never reached")
    unread = _unread(release, config, helper, fact)
    if unread:
        return _without(Kind.UNKNOWN, unread)
    refusal = _refused(release, helper, fact)
    if refusal:
        return _without(Kind.STAYS, refusal)
    if not config.jit:
        return _without(Kind.STAYS, "not JITed")
    if release.rewrite(helper) is None:
        return _without(Kind.STAYS, f"release {release.name} does not rewrite {helper}")
    if len(fact.pointers) > 1:
        return _several(fact)
    if fact.unknown:
        why = f": {fact.why_unknown}" if fact.why_unknown else ""
        return _without(Kind.UNKNOWN, f"map in r1 unknown{why}")
    if not fact.pointers:
        return _without(Kind.UNKNOWN, "no map pointer reaches r1: the verifier refuses such a program")
    if fact.pointers[0].map.type is None:
        return _without(Kind.UNKNOWN, f"type of map {fact.pointers[0].map.name} unknown")
    return None


def _unread(release: Release, config: Config, helper: str, fact: SiteFact) -> str:
    """Why the release's data cannot tell what becomes of the call, "" where it can."""
    for pointer in fact.pointers:
        kind = pointer.map.type
        if kind is None:
            continue
        ask = release.lookup_hole(kind, config.arch) if helper == "map_lookup_elem" else release.hole(helper, kind)
        if ask:
            return ask
    return release.rewrite_hole(helper)


def _refused(release: Release, helper: str, fact: SiteFact) -> str:
    """Why the verifier refuses a program with this call, whatever the pass does with it; "" if it does not.

    `check_map_func_compatibility`; for a poisoned for_each `set_map_elem_callback_state`, up to 6.8.
    """
    for pointer in fact.pointers:
        kind = pointer.map.type
        if kind is None:
            continue
        if kind not in release.map_types:
            return f"release {release.name} has no map type {kind}"
        acceptance = release.accepted.get(helper, {}).get(kind)
        if acceptance is not None and not acceptance.accepted:
            return f"verifier refuses {kind} with {helper}"
    poisoned = len(fact.pointers) > 1 and fact.sure_poison
    if poisoned and helper == "for_each_map_elem" and release.poison_for_each == "refused":
        return f"release {release.name} refuses {helper} with several maps: {_names(fact)} reach it"
    return ""


def _several(fact: SiteFact) -> Outcome:
    """Two map pointers or more: the record is poisoned if the verifier sees two of them."""
    if not fact.sure_poison:
        why = f"; {fact.pruned_possible}" if fact.pruned_possible else ""
        return _without(Kind.MAY_STAY, f"map pointer may be poisoned: {_names(fact)} may reach it{why}")
    return _without(Kind.STAYS, f"map pointer poisoned: {_names(fact)} reach it")


def _names(fact: SiteFact) -> str:
    return ", ".join(described(pointer) for pointer in fact.pointers)


def described(pointer: MapPointer) -> str:
    """The map's name; a template is called by its outer map's place where it has no name of its own."""
    return f"template {pointer.map.name}" if pointer.template else pointer.map.name


def _by_map(release: Release, config: Config, helper: str, fact: SiteFact) -> Outcome:
    """One map pointer of known type: inline sequence, or direct call."""
    row = release.rewrite(helper)
    found = fact.pointers[0].map
    assert row is not None
    assert found.type is not None
    operation = release.operation(found.type, row.slot)
    if operation is None:
        return _without(Kind.UNKNOWN, f"map type {found.type} has no {row.slot}")
    declined = ""
    if helper == "map_lookup_elem":
        inlined = _inline(release, config, fact.pointers[0], found.type)
        if isinstance(inlined, Patch):
            return Kind.INLINED, "", operation.name, inlined
        if isinstance(inlined, tuple):
            return inlined
        declined = inlined
    return Kind.DIRECT, declined, operation.name, direct_patch(operation.name)


def _inline(release: Release, config: Config, pointer: MapPointer, kind: str) -> Patch | Outcome | str:
    """The inlined lookup, or why there is none and the call becomes direct ("" for no inline form)."""
    ops = release.map_types[kind].ops
    name = release.ops[ops].slots.get("map_gen_lookup") if ops is not None else None
    if name is None:
        return ""
    gen = release.gen_lookup.get(name)
    if gen is None:
        return _without(Kind.UNKNOWN, f"the release's data has no body of {name}")
    lookup = generate(release, config, gen, pointer.map)
    if isinstance(lookup, Undetermined):
        return _without(Kind.UNKNOWN, lookup.reason)
    if isinstance(lookup, Declined):
        if lookup.errno == "EOPNOTSUPP":
            return f"{name} declines with -EOPNOTSUPP"
        return _without(Kind.STAYS, f"{name} fails with -{lookup.errno}: the load fails")
    if not 0 < len(lookup.insns) < release.insn_buf:
        return _without(Kind.STAYS, f"{name} makes {len(lookup.insns)} instructions: the load fails")
    return lookup
