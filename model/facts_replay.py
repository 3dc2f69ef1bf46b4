"""Path by path, as the verifier goes: for the few calls at which joined paths leave several map pointers.

A replay that ends within its bounds has followed every path that any verifier follows, so a pointer that
it does not see reaches no call. A path on which every branch is decided by constants, or free by a number
that can still be either, is one that every verifier follows: two pointers on such paths are poison.
"""

from dataclasses import dataclass

from model.facts_blocks import Block
from model.facts_calls import Callee, passed, returned
from model.facts_flow import Flow
from model.facts_values import Frame, Key, Late, MapSet, State, Value

MOST_STEPS = 400_000
"""Instructions gone through at most, with three more for each place a block's state has: about a third of a second."""

MOST_FRAMES = 8
"""As the verifier allows (MAX_CALL_FRAMES)."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call that is under way: where it goes on in the caller, with which state, and the caller's own call."""

    start: int
    block: int
    state: State
    number: int
    depth: int
    outer: "Call | None"


class Replay(Flow):
    """Runs paths instead of joined states. `found` maps a call's slot to key -> whether a sure path brings it.

    `complete` says that no path was left out; `blind` are the calls that something unknown reaches.
    """

    def __init__(self, flow: Flow) -> None:
        super().__init__(flow.ctx, flow.graph, flow.callees, False)
        self.assumptions = flow.assumptions
        self.complete = True
        self.found: dict[int, dict[Key, bool]] = {}
        self.blind: set[int] = set()
        self.pending: list[tuple[int, State, Call | None, bool]] = []
        self.visited: dict[tuple[int, int, frozenset[tuple[int, Value]]], bool] = {}
        self.calls: dict[tuple[int, int, int, frozenset[tuple[int, Value]]], Call] = {}
        self.call: Call | None = None
        self.sure = True

    def run(self) -> None:
        """Until every path has been followed, or the bounds are reached."""
        steps = 0
        while self.pending:
            block, state, call, sure = self.pending.pop()
            mark = (block, call.number if call else 0, frozenset(state.items()))
            if self.visited.get(mark, False) or (not sure and mark in self.visited):
                continue
            steps += self.graph.blocks[block].stop - self.graph.blocks[block].start + 3 * len(state)
            if steps > MOST_STEPS:
                self.complete = False
                return
            self.visited[mark] = sure
            self.call, self.sure = call, sure
            self.through(block, self.graph.blocks[block], dict(state))

    def enter(self, block: int, state: State) -> None:
        if block >= 0:
            self.pending.append((block, state, self.call, self.sure))

    def branch(self, block: Block, state: State, slot: int) -> None:
        before = self.sure
        super().branch(block, state, slot)
        self.sure = before

    def close(self, slot: int, late: Late | None) -> None:
        self.sure = False

    def record(self, slot: int, callee: Callee, value: Value | None) -> None:
        keys = self.found.setdefault(slot, {})
        if isinstance(value, MapSet):
            for key in value.keys:
                keys[key] = keys.get(key, False) or (self.sure and len(value.keys) == 1)
            if value.unknown:
                self.blind.add(slot)

    def into(self, number: int, start: int, arguments: State, sure: bool = True) -> None:
        """A callback: a path of its own, that ends with its exit."""
        target = self.graph.at.get(start, -1)
        if target >= 0:
            self.pending.append((target, {**arguments, 10: Frame(0)}, None, self.sure and sure))

    def subprogram(self, number: int, block: Block, state: State) -> None:
        slot = block.stop - 1
        start = slot + 1 + self.ctx.program.insns[slot].imm
        target = self.graph.at.get(start, -1)
        depth = self.call.depth + 1 if self.call else 1
        if target < 0 or depth >= MOST_FRAMES:
            self.complete = False
            return
        outer = self.call
        mark = (start, block.targets[1], outer.number if outer else 0, frozenset(state.items()))
        call = self.calls.get(mark)
        if call is None:
            call = self.calls[mark] = Call(start, block.targets[1], state, len(self.calls) + 1, depth, outer)
        self.pending.append((target, {**passed(state), 10: Frame(0)}, call, self.sure))

    def leave(self, block: Block, state: State) -> None:
        call = self.call
        if call is not None:
            after = dict(call.state)
            self.ctx.function = self.graph.blocks[call.block].function if call.block >= 0 else block.function
            self.back(call.start, after, returned(state))
            if call.block >= 0:
                self.pending.append((call.block, after, call.outer, self.sure))
