"""Where several map pointers meet: does the verifier surely see more than one of them?

The verifier follows paths; the analysis joins them. A path that the analysis takes is followed by the
verifier too if every branch on it can go both ways for a value that nothing has narrowed (the verifier
is sound). A branch of another kind ("closed") may be decided one way on one path and the other way on
another. What lies before a block through which every path to the call leads, and at which no register
or slot can hold two map pointers, does not matter: whichever way the verifier came there, all of the
pointers at the call come about behind it. But the verifier must surely come to that block: every path to
the program's end leads through it, too. Else a closed branch before it may leave the call unreached.
"""

from collections.abc import Iterable, Sequence

from model.facts_blocks import End, reverse_postorder
from model.facts_flow import Flow
from model.facts_values import MapSet, State

MERGED = -2
"""Label of a block behind a call whose result stands for several callers, or of a callback that may not be called."""


def obstacles(flow: Flow, sites: Iterable[int]) -> dict[int, int]:
    """For each of the blocks `sites`: what keeps the answer open, absent where nothing does.

    That is the slot of a closed branch on the way, or MERGED.
    """
    successors = _edges(flow)
    region = _reaching(successors, sites)
    resets = _resets(flow, successors)
    label: dict[int, int] = {}
    pending: list[int] = []
    for number, targets in enumerate(successors):
        block = flow.graph.blocks[number]
        slot = block.stop - 1
        if block.end is End.BRANCH and slot in flow.closed:
            for target in targets:
                _mark(target, slot, region, resets, label, pending)
    for number in flow.merged:
        if region[number] and number not in label:
            label[number] = MERGED
            pending.append(number)
    while pending:
        number = pending.pop()
        for target in successors[number]:
            _mark(target, label[number], region, resets, label, pending)
    return label


def _mark(target: int, slot: int, region: bytearray, resets: set[int], label: dict[int, int], todo: list[int]) -> None:
    if target >= 0 and region[target] and target not in resets and target not in label:
        label[target] = slot
        todo.append(target)


def _edges(flow: Flow) -> list[Sequence[int]]:
    """Successors of reached blocks: jumps, calls, continuations, callbacks; other ways in hang on block 0."""
    states = flow.states
    successors: list[list[int]] = [
        [target for target in block.targets if target >= 0 and states[target] is not None]
        if states[number] is not None
        else []
        for number, block in enumerate(flow.graph.blocks)
    ]
    for start, callers in flow.callers.items():
        entry = flow.graph.at[start]
        for caller in callers:
            if entry not in successors[caller]:
                successors[caller].append(entry)
    entered = bytearray(len(successors))
    for targets in successors:
        for target in targets:
            entered[target] = 1
    successors[0] += [number for number, state in enumerate(states) if number and state and not entered[number]]
    return list(successors)


def _reaching(successors: Sequence[Sequence[int]], sites: Iterable[int]) -> bytearray:
    """Blocks from which one of `sites` can be reached."""
    predecessors: list[list[int]] = [[] for _ in successors]
    for number, targets in enumerate(successors):
        for target in targets:
            predecessors[target].append(number)
    region = bytearray(len(successors))
    pending = list(sites)
    for number in pending:
        region[number] = 1
    while pending:
        for number in predecessors[pending.pop()]:
            if not region[number]:
                region[number] = 1
                pending.append(number)
    return region


def _resets(flow: Flow, successors: Sequence[Sequence[int]]) -> set[int]:
    """Blocks that every path from the entry to the program's end passes, with one map pointer a place at most.

    In reverse postorder a block that no forward edge jumps over is passed by every path; an exit from
    the entry function, or out of a fragment, is an edge to a place behind all blocks. Callees return to
    their callers, so what jumps over them are the edges from calls to their continuations.
    """
    blocks = flow.graph.blocks
    order = reverse_postorder(successors)
    change = [0] * (len(order) + 1)
    for number, targets in enumerate(successors):
        block = blocks[number]
        places = [order[target] for target in targets]
        leaves = block.end is End.EXIT and block.function == blocks[0].function
        if flow.states[number] is not None and (leaves or any(target < 0 for target in block.targets)):
            places.append(len(order))
        for place in places:
            if order[number] < place:
                change[order[number] + 1] += 1
                change[place] -= 1
    block_at = [0] * len(order)
    for number, position in enumerate(order):
        block_at[position] = number
    resets: set[int] = set()
    covered = 0
    for position, number in enumerate(block_at):
        covered += change[position]
        if not covered and _single(flow.states[number]):
            resets.add(number)
    return resets


def _single(state: State | None) -> bool:
    return all(len(value.keys) < 2 for value in (state or {}).values() if isinstance(value, MapSet))
