"""The analysis itself: states flow along the blocks until nothing changes.

Every function is analysed once for all its callers together: a call instruction in it sees every
caller's map, as the verifier's record does, which belongs to the instruction. States only ever grow
towards more possibilities, so the loop ends.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

from model.facts_blocks import CALL, LD_IMM64, PSEUDO_FUNC, Block, End, Graph, reverse_postorder
from model.facts_branch import decided, depends, forget_test, fork
from model.facts_calls import (
    Callee,
    Callees,
    callback_arguments,
    kfunc,
    passed,
    reaches_frame,
    result,
    returned,
    surely_called,
)
from model.facts_context import Context
from model.facts_memory import weaken
from model.facts_step import STEPS, clobber
from model.facts_values import (
    LATE,
    UNKNOWN,
    Frame,
    Functions,
    Key,
    Late,
    MapSet,
    State,
    Value,
    join,
    join_states,
    widened,
)

KFUNC = 2
MOST_ROUNDS = 24
"""Rounds of a loop that change its first block's state before the pointers there are widened.

Each map could come to each slot of the stack in a round of its own; that would take too long.
"""


@dataclass(slots=True)
class Seen:
    """What has come to one call so far; `keys` in order of discovery."""

    callee: Callee
    keys: dict[Key, None] = field(default_factory=dict)
    unknown: bool = False


class Flow:
    """States at the start of blocks, and what was seen at calls and branches on the way.

    `closed` are the branches (slots) that the verifier may decide although this analysis does not, with what
    is known at load only and decides them; `throws` tells of calls behind which the verifier may not go on;
    `callers` maps a function's start to the blocks that call it or hand it over as a callback;
    `merged` holds the blocks behind calls whose result stands for several callers, and callbacks that
    may not be called.
    """

    def __init__(self, ctx: Context, graph: Graph, callees: Callees, speculative: bool) -> None:
        self.ctx = ctx
        self.graph = graph
        self.callees = callees
        self.speculative = speculative
        self.states: list[State | None] = [None] * len(graph.blocks)
        self.order = reverse_postorder(self._successors())
        self.block_at = [0] * len(graph.blocks)
        for block, number in enumerate(self.order):
            self.block_at[number] = block
        self.at = 0
        self.rounds = [0] * len(graph.blocks)
        self.queue: list[int] = []
        self.queued = bytearray(len(graph.blocks))
        self.sites: dict[int, Seen] = {}
        self.closed: dict[int, Late | None] = {}
        self.throws = False
        self.returns: dict[int, Value | None] = {}
        self.callers: dict[int, dict[int, None]] = {}
        self.callbacks: dict[int, dict[int, None]] = {}
        self.merged: set[int] = set()
        self.announced: set[int] = set()
        self.lost_callback = False
        self.assumptions: dict[int, list[tuple[int, MapSet]]] = {}

    def _successors(self) -> Sequence[Sequence[int]]:
        """Blocks' targets, and the callbacks whose address a block takes."""
        successors: list[Sequence[int]] = [block.targets for block in self.graph.blocks]
        if self.graph.addressed:
            insns = self.ctx.program.insns
            for number, block in enumerate(self.graph.blocks):
                taken = [
                    self.graph.at.get(slot + 1 + insns[slot].imm, -1)
                    for slot in range(block.start, block.stop)
                    if insns[slot].opcode == LD_IMM64 and insns[slot].src == PSEUDO_FUNC
                ]
                if taken:
                    successors[number] = (*taken, *block.targets)
        return successors

    def enter(self, block: int, state: State) -> None:
        """Control reaches the block's start with `state`, which is shared from now on."""
        if block < 0:
            return
        current = self.states[block]
        if current is None:
            self.states[block] = state
        else:
            joined = join_states(current, state)
            if joined is current:
                return
            if self.order[self.at] >= self.order[block]:
                self.rounds[block] += 1
                if self.rounds[block] > MOST_ROUNDS:
                    joined = widened(joined, current)
            self.states[block] = joined
        self.wake(block)

    def wake(self, block: int) -> None:
        if not self.queued[block]:
            self.queued[block] = 1
            heappush(self.queue, self.order[block])

    def run(self) -> None:
        """Until nothing changes."""
        blocks, block_at, queued = self.graph.blocks, self.block_at, self.queued
        while self.queue:
            number = block_at[heappop(self.queue)]
            queued[number] = 0
            self.through(number, blocks[number], dict(self.states[number] or {}))
            if len(self.ctx.leaks) != len(self.announced):
                self._announce_leaks()

    def through(self, number: int, block: Block, state: State) -> None:
        """From the block's start to where it leads; `state` is the block's own to change."""
        for reg, value in self.assumptions.get(block.start, ()):
            state[reg] = value
        ctx = self.ctx
        if ctx.program.relocated:
            state[LATE] = Late.CORE
        ctx.function = block.function
        self.at = number
        insns = ctx.program.insns
        steps = STEPS
        last = block.stop - 1
        for slot in range(block.start, last):
            insn = insns[slot]
            step = steps[insn.opcode]
            if step is not None:
                step(ctx, state, insn, slot)
            elif insn.opcode == CALL:
                self._call(number, state, slot)
        insn = insns[last]
        if block.end is End.BRANCH:
            self.branch(block, state, last)
        elif block.end is End.CALL:
            self.subprogram(number, block, state)
        elif block.end is End.EXIT:
            self.leave(block, state)
        else:
            step = steps[insn.opcode]
            if step is not None:
                step(ctx, state, insn, last)
            elif insn.opcode == CALL:
                self._call(number, state, last)
            self.enter(block.targets[0], state)

    def branch(self, block: Block, state: State, slot: int) -> None:
        """Both ways, or the one that constants decide."""
        insn = self.ctx.program.insns[slot]
        taken, following = block.targets
        outcome = decided(state, insn)
        if outcome is not None and not self.speculative:
            self.enter(taken if outcome else following, state)
            return
        sides = fork(state, insn) if outcome is None else (state, state)
        if sides is None:
            self.close(slot, depends(state, insn))
            after = forget_test(state, insn)
            sides = (after, after)
        self.enter(taken, sides[0])
        self.enter(following, sides[1])

    def close(self, slot: int, late: Late | None) -> None:
        """The verifier may decide the branch at `slot`, on some path that has come here."""
        self.closed[slot] = self.closed.get(slot) or late

    def _call(self, number: int, state: State, slot: int) -> None:
        """A helper or kernel function: record r1, run callbacks, leave r0 and the frame as they are behind it."""
        insn = self.ctx.program.insns[slot]
        if insn.src == KFUNC:
            callee = kfunc(self.ctx.program, slot)
            self.throws = self.throws or callee.name == "bpf_throw"
        else:
            callee = self.callees.at(slot)
            if callee.site:
                self.record(slot, callee, state.get(1))
        value = result(self.ctx, callee, state, slot)
        self._callbacks(number, callee, state, slot)
        if not callee.reads_only:
            self._written(state)
        clobber(state)
        if value is not None:
            state[0] = value

    def record(self, slot: int, callee: Callee, value: Value | None) -> None:
        """r1 at a call, as `record_func_map` sees it."""
        seen = self.sites.get(slot)
        if seen is None:
            seen = self.sites[slot] = Seen(callee)
        if isinstance(value, MapSet):
            for key in value.keys:
                seen.keys[key] = None
            seen.unknown = seen.unknown or value.unknown

    def _callbacks(self, number: int, callee: Callee, state: State, slot: int) -> None:
        registers = range(1, 6) if callee.callback is None else (callee.callback,)
        for reg in registers:
            value = state.get(reg)
            if isinstance(value, Functions):
                for start in value.starts:
                    self.callbacks.setdefault(slot, {})[start] = None
                    self.into(number, start, callback_arguments(callee, state), surely_called(callee, state))
                    self._leaked(start, state)
                weaken(state, None)
            elif callee.callback is not None:
                self.lost_callback = True
                weaken(state, UNKNOWN)

    def _written(self, state: State) -> None:
        """Numbers in the frame that a helper was given a pointer to may have changed; it writes upwards."""
        for reg in range(1, 6):
            value = state.get(reg)
            if isinstance(value, Frame) and value.off is not None:
                weaken(state, None, value.off & ~7)
            elif isinstance(value, Frame):
                weaken(state, None)

    def into(self, number: int, start: int, arguments: State, sure: bool = True) -> None:
        """A call or callback from block `number` enters the function at `start`; `sure`: in the verifier too."""
        target = self.graph.at.get(start, -1)
        if target < 0:
            return
        if not sure:
            self.merged.add(target)
        self.callers.setdefault(start, {})[number] = None
        self.enter(target, {**arguments, 10: Frame(0)})

    def _leaked(self, start: int, state: State) -> None:
        """A callee that may have stored pointers outside of its frame: every slot here may have changed."""
        if start in self.ctx.leaks or start not in self.graph.at:
            weaken(state, UNKNOWN)
            self.ctx.leaks.add(self.ctx.function)

    def _announce_leaks(self) -> None:
        for function in self.ctx.leaks - self.announced:
            for caller in self.callers.get(function, ()):
                self.wake(caller)
        self.announced = set(self.ctx.leaks)

    def subprogram(self, number: int, block: Block, state: State) -> None:
        """A call of a subprogram; the continuation waits until it returns."""
        slot = block.stop - 1
        start = slot + 1 + self.ctx.program.insns[slot].imm
        self.into(number, start, passed(state))
        if start in self.graph.at and start not in self.returns:
            return
        value = self.returns.get(start, UNKNOWN)
        self.back(start, state, value)
        if isinstance(value, MapSet) and len(value.keys) > 1 and block.targets[1] >= 0:
            self.merged.add(block.targets[1])
        self.enter(block.targets[1], state)

    def back(self, start: int, state: State, value: Value | None) -> None:
        """The caller's state behind a call of the function at `start` that returned `value`."""
        if any(reaches_frame(state.get(reg)) for reg in range(1, 6)):
            self._leaked(start, state)
            weaken(state, None)
        clobber(state)
        if value is not None:
            state[0] = value

    def leave(self, block: Block, state: State) -> None:
        """An exit: what the function returns, for its callers."""
        value = returned(state)
        function = block.function
        if function not in self.returns:
            self.returns[function] = value
        else:
            joined = join(self.returns[function], value)
            if joined is self.returns[function] or joined == self.returns[function]:
                return
            self.returns[function] = joined
        for caller in self.callers.get(function, ()):
            self.wake(caller)
