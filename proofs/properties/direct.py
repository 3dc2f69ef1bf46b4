"""Direct(program): no dispatch edge is reachable in the program after, but at the sites that are listed.

Read from the program after alone: each call's target, by its symbol or helper id. The list is the
report's; an edge that is not on it refutes the claim. What a direct call does not remove (callbacks, tail
calls) is reported beside it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import networkx as nx

from model.facts import Facts
from model.kernel.release import Release
from model.program import ExternRef, Program, SymbolRef
from proofs.cfg import INDIRECT, Edge, Node, Target, build, edges, reachable
from proofs.obligation import Counterexample, Proved, Refuted, Shown, Unknown, Verdict
from proofs.site import Residual, Site
from proofs.symbols import OPERATION

TAIL_CALL = 0xF5  # BPF_JMP | BPF_TAIL_CALL, made by the kernel of a call of bpf_tail_call


@dataclass(frozen=True, slots=True)
class Indirect:
    """A reachable indirect branch that is no dispatch of a listed site: a callback or a tail call."""

    edge: Edge
    source: str
    target: str


@dataclass(frozen=True, slots=True)
class Direct:
    verdict: Verdict
    residual: tuple[Site, ...]
    others: tuple[Indirect, ...]
    graph: "nx.DiGraph[Node]"


def direct(
    after: Program,
    facts: Facts,
    release: Release,
    names: Mapping[str, str],
    sites: Sequence[Site],
    moved: Sequence[int],
) -> Direct:
    """The claim's verdict on `after`; `moved` maps slots of the analysed program to slots of `after`, `names` is
    what `proofs.symbols.symbols` gives."""

    def to(slot: int) -> int:
        """Where `slot` is after; slots outside of a fragment keep their distance to its end."""
        size = len(moved) - 1
        return moved[slot] if 0 <= slot <= size else slot if slot < 0 else moved[size] + slot - size

    callbacks = {
        _call_slot(after, to(slot)): tuple(to(start) for start in starts) for slot, starts in facts.callbacks.items()
    }
    types = {site.after: site.types for site in sites}
    reached = _reached(facts, moved)
    targets = call_targets(after, release, names, types, callbacks, reached)
    graph = build(after, targets, callbacks)
    live = reachable(graph)
    listed = {site.after: site for site in sites if site.leftover is not None}
    dead = {site.after for site in sites if site.decision == "dead"}
    unlisted: list[int] = []
    others: dict[tuple[Edge, str, str], Indirect] = {}
    for source, target, kind in edges(graph):
        if kind not in INDIRECT or source not in live:
            continue
        if kind is Edge.DISPATCH:
            if source[1] not in listed and source[1] not in dead:
                unlisted.append(int(source[1]))
        else:
            found = Indirect(kind, _name(after, source), _name(after, target))
            others[kind, found.source, found.target] = found
    unknown = [slot for kind, slot in live if kind == "unknown"]
    return Direct(_verdict(after, unlisted, unknown, listed), tuple(listed.values()), tuple(others.values()), graph)


def _verdict(after: Program, unlisted: list[int], unknown: list[int | str], listed: Mapping[int, Site]) -> Verdict:
    if unlisted:
        shown = Shown("a dispatch that is not listed is reachable: slot", 32, min(unlisted))
        return Refuted(Counterexample((shown,), {}, {}))
    if after.hidden:
        return Unknown("call targets are hidden (restricted kernel pointers): cannot tell")
    if unknown:
        slot = min(int(slot) for slot in unknown)
        return Unknown(f"the target of the call at {after.base + slot} is not known")
    unclear = [site for site in listed.values() if site.leftover and site.leftover.kind is Residual.UNCLEAR]
    if unclear:
        return Unknown(f"the dispatch at {after.base + unclear[0].after} cannot be classified")
    return Proved()


def _reached(facts: Facts, moved: Sequence[int]) -> bytes:
    """A byte for each slot of the program after: 1 where a path leads to what it stands for."""
    reached = bytearray(moved[-1])
    for slot, live in enumerate(facts.reached):
        if live:
            reached[moved[slot] : moved[slot + 1]] = b"\1" * (moved[slot + 1] - moved[slot])
    return bytes(reached)


def _call_slot(after: Program, slot: int) -> int:
    """The call instruction of the run that begins at `slot` (a patch may put others before it)."""
    while slot < len(after.insns) - 1 and after.insns[slot].opcode != 0x85:
        slot += 1
    return slot


def _name(program: Program, node: Node) -> str:
    kind, what = node
    if kind not in ("block", "outside"):
        return f"call at {program.base + int(what)}" if kind == "site" else str(what)
    for row in program.subprograms:
        if row.start <= int(what) < row.end:
            return row.name
    return f"instruction {program.base + int(what)}"


def call_targets(
    program: Program,
    release: Release,
    names: Mapping[str, str],
    types: Mapping[int, Sequence[str]],
    callbacks: Mapping[int, tuple[int, ...]],
    reached: bytes,
) -> dict[int, Target]:
    """What each call of a kernel function in `program` reaches, where `reached` has a 1 for its slot.

    `types` are the map types that a site is reached with.
    """
    by_id = {number: name for name, number in release.helper_ids.items()}
    targets: dict[int, Target] = {}
    for slot, insn in enumerate(program.insns):
        if insn.opcode == TAIL_CALL:
            targets[slot] = Target(("helper", "tail_call"), Edge.TAIL_CALL)
        if insn.opcode != 0x85 or insn.src == 1 or not reached[slot]:
            continue
        ref = program.refs.get(slot)
        if insn.src == 2:
            name = ref.name if isinstance(ref, ExternRef | SymbolRef) else f"kfunc#{insn.imm}"
            targets[slot] = Target(("kfunc", name), Edge.HELPER, (), slot in callbacks)
        elif isinstance(ref, SymbolRef):
            targets[slot] = _by_symbol(release, names, slot, ref.name, types.get(slot, ()), slot in callbacks)
        elif insn.imm in by_id:
            targets[slot] = _by_helper(release, slot, by_id[insn.imm], types.get(slot, ()), slot in callbacks)
        else:
            targets[slot] = Target(("unknown", slot), Edge.OPAQUE)
    return targets


def _by_helper(release: Release, slot: int, name: str, types: Sequence[str], calls_back: bool) -> Target:
    helper = release.helpers.get(name)
    if name == "tail_call":
        return Target(("helper", name), Edge.TAIL_CALL)
    if helper is None:
        return Target(("helper", name), Edge.HELPER, (), calls_back)
    operations = [release.operation(map_type, helper.slot) for map_type in types]
    reached = tuple(dict.fromkeys(f.name for f in operations if f is not None)) or (f"map->ops->{helper.slot}",)
    return Target(("site", slot), Edge.SITE, reached, calls_back)


def _by_symbol(
    release: Release, names: Mapping[str, str], slot: int, name: str, types: Sequence[str], calls_back: bool
) -> Target:
    meaning = names.get(name)
    if name.startswith("helper#"):  # an id that the release does not have
        return Target(("unknown", slot), Edge.OPAQUE)
    if meaning == OPERATION:
        return Target(("operation", name), Edge.DIRECT, (), calls_back and name in release.callbacks)
    if meaning is not None:
        return _by_helper(release, slot, meaning, types, calls_back)
    return Target(("helper", name), Edge.HELPER, (), calls_back)
