"""What the verifier knows at a call site: which map pointers can be in r1.

The rule is the kernel's (`record_func_map`, kernel/bpf/verifier.c of 6.1 to 7.3): a record belongs to
the call instruction, over all paths and callers, and compares map pointers; a second pointer poisons
it for good. The analysis joins paths where the verifier keeps them apart, so it can name more pointers
than the verifier will see, never fewer; `SiteFact.sure_poison` tells when it surely sees several.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from model.errors import InputError
from model.facts_blocks import End, Graph, build
from model.facts_calls import Callees
from model.facts_context import Context
from model.facts_flow import Flow, Seen
from model.facts_load import unsettled
from model.facts_paths import MERGED, obstacles
from model.facts_replay import Replay
from model.facts_values import BLANK, UNKNOWN, Frame, Key, MapSet, Place, State
from model.kernel.release import Release
from model.program import Form, Map, Program

OUTER = "it may be read through a pointer into the caller's frame"


@dataclass(frozen=True, slots=True)
class MapPointer:
    """A map pointer as the verifier compares them: `key` is its identity (model.facts_values.Key)."""

    key: Key
    map: Map

    @property
    def template(self) -> bool:
        """Whether this is the template of a map of maps (`inner_map_meta`) and no map of the program's own."""
        return self.key[0] == "inner"


@dataclass(frozen=True, slots=True)
class SiteFact:
    """The facts at one call.

    `callee` is the helper's name without `bpf_` in an object, the symbol in a dump ("" if it has none).
    `pointers` are those that may be in r1, in order of discovery; with `unknown`, also something that
    the input does not tell. `reached` false: no path leads here. With several pointers, `sure_poison`
    says that the verifier sees more than one, else `pruned_possible` tells why it may not. `why_unknown`
    says where the unknown may come from, if that can be told.
    """

    slot: int
    callee: str
    pointers: tuple[MapPointer, ...] = ()
    unknown: bool = False
    reached: bool = False
    sure_poison: bool = False
    pruned_possible: str = ""
    why_unknown: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """`sites` by slot, ascending. `callbacks` maps a call's slot to the starts of the subprograms it can call back.

    `reached` has one byte a slot, 1 where a path leads. `notes` are remarks to the user, one line each.
    `watched` tells the same of r1 before other slots, where it was asked for.
    """

    sites: Mapping[int, SiteFact]
    callbacks: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    reached: bytes = b""
    notes: tuple[str, ...] = ()
    watched: Mapping[int, SiteFact] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Assumption:
    """The user's word that register `reg` (0 to 9) holds a pointer to `map` before `slot` executes."""

    slot: int
    reg: int
    map: Map


def analyse(
    program: Program,
    release: Release,
    assumptions: Sequence[Assumption] = (),
    *,
    speculative: bool = False,
    watch: Sequence[int] = (),
) -> Facts:
    """Facts for every ordinary call that is a map helper (in a dump: for every ordinary call).

    `watch` are further slots before which r1 is wanted (where lookups may be inlined in a dump).
    `speculative` follows the branches too that constants decide against, as the verifier does for a
    program without CAP_PERFMON (`sanitize_speculative_path`). Raises InputError on a jump out of the
    program or into a 64-bit load, on an assumption about a slot or register that is not there, and on a
    reference to a map that is not; Unsupported on indirect jumps. Time is about linear in the program.
    """
    if not program.insns:
        return Facts({})
    _check(program, assumptions)
    ctx = Context(unsettled(program), {assumption.map.name: assumption.map for assumption in assumptions})
    graph = build(program, [*(assumption.slot for assumption in assumptions), *watch])
    flow = Flow(ctx, graph, Callees(program, release), speculative)
    for assumption in assumptions:
        known = ctx.one(("assumed", assumption.map.name))
        flow.assumptions.setdefault(assumption.slot, []).append((assumption.reg, known))
    _start(flow, program, graph)
    flow.run()
    lost = _start_lost(flow, program, graph)
    flow.run()
    facts = _facts(flow, program, not (lost or speculative or program.fragment or ctx.imprecise or flow.throws))
    return replace(facts, watched={slot: _watched(flow, slot) for slot in watch}) if watch else facts


def _watched(flow: Flow, slot: int) -> SiteFact:
    state = flow.states[flow.graph.at[slot]]
    value = None if state is None else state.get(1)
    if not isinstance(value, MapSet):
        return SiteFact(slot, "", reached=state is not None)
    pointers = tuple(MapPointer(key, flow.ctx.map_of(key)) for key in value.keys)
    return SiteFact(slot, "", pointers, value.unknown, True)


def _check(program: Program, assumptions: Sequence[Assumption]) -> None:
    for assumption in assumptions:
        place = f"assumption about r{assumption.reg} at instruction {assumption.slot}"
        if not 0 <= assumption.slot < len(program.insns):
            raise InputError(program.name, place, f"an instruction from 0 to {len(program.insns) - 1}")
        if not 0 <= assumption.reg <= 9:
            raise InputError(program.name, place, "a register from r0 to r9")
    starts = {sub.start for sub in program.subprograms}
    for start in program.entries:
        if start not in starts or not 0 <= start < len(program.insns):
            raise InputError(program.name, f"entry at instruction {start}", "the start of a subprogram")
    for slot, ref in program.refs.items():
        number = getattr(ref, "map", None)
        if number is not None and not 0 <= number < len(program.maps):
            raise InputError(program.name, f"instruction {slot}", f"a map from 0 to {len(program.maps) - 1}: {number}")


def _unknown_state() -> State:
    state: State = dict.fromkeys(range(10), UNKNOWN)
    return {**state, 10: Frame(0), BLANK: Place.PLAIN}


def _unknown_arguments() -> State:
    state: State = dict.fromkeys(range(1, 6), UNKNOWN)
    return {**state, 10: Frame(0)}


def _start(flow: Flow, program: Program, graph: Graph) -> None:
    """The entries; in a fragment also what nothing inside of it leads to, and what others may call."""
    if not program.fragment:
        flow.enter(0, {1: Place.CONTEXT, 10: Frame(0)})
        for start in program.entries:
            dumped = program.form is Form.XLATED  # where a call that has no target may be what leads here
            flow.enter(graph.at[start], _unknown_arguments() if dumped else {10: Frame(0)})
        return
    entered = {target for block in graph.blocks for target in block.targets}
    functions = {block.function for block in graph.blocks if block.function} | set(graph.addressed)
    for number, block in enumerate(graph.blocks):
        if block.start in functions:
            flow.enter(number, _unknown_arguments())
        elif number == 0 or number not in entered:
            flow.enter(number, _unknown_state())


def _start_lost(flow: Flow, program: Program, graph: Graph) -> bool:
    """Callbacks whose address is taken but that no call could be seen to enter: from any arguments."""
    lost = [graph.at[start] for start in graph.addressed if flow.lost_callback or flow.states[graph.at[start]] is None]
    for number in lost:
        flow.enter(number, _unknown_arguments())
    flow.merged.update(lost)
    return bool(lost)


def _facts(flow: Flow, program: Program, told: bool) -> Facts:
    """`told`: every function was entered from where it is called, so a replay of the paths can be complete."""
    blocks = flow.graph.blocks
    starts = [block.start for block in blocks]
    several = {slot: bisect_right(starts, slot) - 1 for slot, seen in flow.sites.items() if len(seen.keys) > 1}
    labels = obstacles(flow, several.values()) if several else {}
    open_sites = {slot for slot, block in several.items() if _obstacle(flow, flow.sites[slot], labels.get(block))}
    replay = _replay(flow) if open_sites and told else None
    pointers: dict[Key, MapPointer] = {}
    sites: dict[int, SiteFact] = {}
    for slot, insn in enumerate(program.insns):
        if insn.opcode != 0x85 or insn.src != 0:
            continue
        seen = flow.sites.get(slot)
        if seen is None:
            callee = flow.callees.at(slot)
            if callee.site:
                sites[slot] = SiteFact(slot, callee.name)
            continue
        for key in seen.keys:
            if key not in pointers:
                pointers[key] = MapPointer(key, flow.ctx.map_of(key))
        obstacle = _obstacle(flow, seen, labels.get(several.get(slot, -1)))
        found = tuple(pointers[key] for key in seen.keys)
        sure = len(found) > 1 and not obstacle
        outer = seen.unknown and blocks[bisect_right(starts, slot) - 1].function in flow.ctx.outer
        fact = SiteFact(slot, seen.callee.name, found, seen.unknown, True, sure, obstacle, OUTER if outer else "")
        sites[slot] = _replayed(fact, replay) if replay is not None and slot in open_sites else fact
    callbacks = {slot: tuple(starts) for slot, starts in sorted(flow.callbacks.items())}
    return Facts(sites, callbacks, _reached(flow, len(program.insns)), _notes(flow, program))


def _replay(flow: Flow) -> Replay:
    replay = Replay(flow)
    for start in (0, *flow.ctx.program.entries):
        replay.enter(flow.graph.at[start], flow.states[flow.graph.at[start]] or {})
    replay.run()
    return replay


def _replayed(fact: SiteFact, replay: Replay) -> SiteFact:
    """The fact with what following the paths one by one has told."""
    found = replay.found.get(fact.slot, {})
    if sum(found.values()) > 1:
        fact = replace(fact, sure_poison=True, pruned_possible="")
    if not replay.complete or replay.lost_callback:
        return fact
    pointers = tuple(MapPointer(key, replay.ctx.map_of(key)) for key in found)
    reason = fact.pruned_possible if len(pointers) > 1 else ""
    return replace(
        fact,
        pointers=pointers,
        unknown=fact.slot in replay.blind,
        reached=fact.slot in replay.found,
        pruned_possible=reason,
    )


def _obstacle(flow: Flow, seen: Seen, label: int | None) -> str:
    """Why the verifier may see fewer pointers than `seen`; "" where it sees at least two of them, or there is one."""
    if len(seen.keys) < 2:
        return ""
    if label == MERGED:
        return "what a subprogram returns, or whether a callback is called, is not told apart path by path"
    if label is not None:
        at = flow.ctx.program.base + label
        late = flow.closed[label]
        if late is not None:
            return f"the branch at {at} depends on {late.value}, which the verifier knows and this input does not tell"
        return f"the verifier may know which way the branch at {at} goes, path by path"
    if flow.throws:
        return "a path may end in bpf_throw"
    if flow.ctx.imprecise:
        return "a map pointer is stored through a pointer that is not known exactly"
    return "r1 may also hold something that the input does not tell" if seen.unknown else ""


def _reached(flow: Flow, count: int) -> bytes:
    reached = bytearray(count)
    for block, state in zip(flow.graph.blocks, flow.states, strict=True):
        if state is not None:
            reached[block.start : block.stop] = b"\1" * (block.stop - block.start)
    return bytes(reached)


def _notes(flow: Flow, program: Program) -> tuple[str, ...]:
    notes = []
    if program.fragment:
        notes.append("a fragment: registers and stack are unknown where it begins, and jumps into it are not seen")
    cycle = _recursion(flow)
    if cycle is not None:
        notes.append(f"recursion: the function at {program.base + cycle} can call itself; the kernel refuses that")
    if program.form is Form.XLATED and program.hidden:
        notes.append("call targets were withheld when this dump was made: cannot tell which functions are called")
    return tuple(notes)


def _recursion(flow: Flow) -> int | None:
    """Start of a function from which calls (not callbacks) lead back to it."""
    calls: dict[int, list[int]] = {}
    for block in flow.graph.blocks:
        if block.end is End.CALL and block.targets[0] >= 0:
            calls.setdefault(block.function, []).append(flow.graph.blocks[block.targets[0]].start)
    state: dict[int, int] = {}
    for root in calls:
        stack = [(root, iter(calls[root]))] if root not in state else []
        state.setdefault(root, 1)
        while stack:
            function, targets = stack[-1]
            target = next(targets, None)
            if target is None:
                state[function] = 2
                stack.pop()
            elif state.get(target) == 1:
                return target
            elif target not in state:
                state[target] = 1
                stack.append((target, iter(calls.get(target, ()))))
    return None
