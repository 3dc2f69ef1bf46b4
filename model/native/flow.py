"""A function's control flow, followed from its entry to every return: what is in rax there, and what became of the
unspecified upper bits of its narrow arguments.

All paths of the code as it stands in the image are followed: jump labels both ways, `.cold` parts with their function,
fixups of faulting instructions with every register unknown, code behind ud2 likewise (a WARN goes on there, a BUG does
not). Alternatives and static calls are as the image has them. Loops end because values are joined (see `values`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Protocol

from model.errors import ModelError
from model.native.code import ARGUMENTS, CALLER_SAVED, RAX, RSP, Imm, Kind, Mem, Reg, Step
from model.native.state import State, read
from model.native.values import ANY, CALL, Atom, Upper, Value, limited, of
from model.native.x86_effects import effect

LIMIT = 64 << 10  # bytes of one function
STEPS = 50_000  # instructions followed for one function, again and again in loops
DEPTH = 3  # callees whose results are followed
RETURNS = (
    *("__x86_return_thunk", "srso_return_thunk", "srso_alias_return_thunk", "retbleed_return_thunk"),
    *("its_return_thunk", "call_depth_return_thunk", "__x86_return_skl"),
)
INDIRECT = ("__x86_indirect_", "__pi___x86_indirect_", "__indirect_")
NO_RETURN = ("__stack_chk_fail", "panic", "fortify_panic", "__fortify_panic", "do_exit", "make_task_dead")
# Called with a convention of their own: they keep the registers, or all but a few.
KEEP = ("__fentry__", "ftrace_caller", "__SCT__preempt_schedule", "preempt_schedule_thunk")
KEEP_MOST = ("pv_ops", "__raw_callee_save_", "__get_user_", "__put_user_", "__sw_hweight", "this_cpu_cmpxchg")


class Code(Protocol):
    """A kernel's text and symbols."""

    def read(self, address: int, size: int) -> bytes: ...

    def names(self, address: int) -> tuple[str, ...]: ...

    def around(self, address: int) -> tuple[int, str] | None: ...

    def end(self, address: int, limit: int) -> int: ...


@dataclass(frozen=True, slots=True)
class Use:
    """The upper bits of parameter `index` (counted from 0) have, or may have, an effect. `place` is an address."""

    index: int
    place: int
    how: str
    sure: bool


@dataclass(frozen=True, slots=True)
class Found:
    """A function's code: what rax holds at its returns, uses of unspecified bits, and why it was not all followed."""

    result: frozenset[Atom]
    uses: tuple[Use, ...]
    problems: tuple[str, ...]


Widths = Callable[[str], tuple[int, ...] | None]
"""Bits of a function's parameters, None where its prototype is not known."""


@dataclass(slots=True)
class Flow:
    """`decode` takes bytes and an address. `labels` are further targets of jump labels, by address; `fixups` where an
    instruction that faults goes on. `indirect` are the widths of what is called indirectly, if that is known.
    """

    code: Code
    decode: Callable[[bytes, int], Step | None]
    widths: Widths
    labels: Mapping[int, int] = field(default_factory=dict)
    fixups: Mapping[int, int] = field(default_factory=dict)
    _results: dict[int, frozenset[Atom]] = field(default_factory=dict)

    def function(
        self, address: int, narrow: tuple[int, ...], indirect: tuple[int, ...] | None = None, *, whole: bool = True
    ) -> Found:
        """`narrow` are the indexes of parameters whose upper half is unspecified; `whole` says that the result has 64
        bits, so that returning such a half is a use of it.
        """
        return _Walk(self, address, narrow, indirect, 0, whole=whole).run()

    def result(self, address: int, depth: int) -> frozenset[Atom]:
        """What a callee leaves in rax; CALL where it is not followed."""
        if address not in self._results:
            if depth >= DEPTH:
                return frozenset({CALL})
            self._results[address] = frozenset({CALL})  # while it is being followed: recursion
            found = _Walk(self, address, (), None, depth + 1).run()
            kept = {atom if atom.upper not in (Upper.PARAM, Upper.STACK) else ANY for atom in found.result}
            self._results[address] = frozenset(kept | {ANY} if found.problems else kept)
        return self._results[address]


class _Walk:
    """One function."""

    def __init__(
        self,
        flow: Flow,
        entry: int,
        narrow: tuple[int, ...],
        indirect: tuple[int, ...] | None,
        depth: int,
        *,
        whole: bool = False,
    ) -> None:
        self.flow, self.entry, self.depth, self.indirect, self.whole = flow, entry, depth, indirect, whole
        self.names = flow.code.names(entry)
        self.start = State()
        for index, number in enumerate(ARGUMENTS):
            taint = (index,) if index in narrow else ()
            self.start.regs[number] = of(Atom(Upper.PARAM, index), taint=taint)
        self.start.regs[RSP] = of(Atom(Upper.STACK, 0))
        self.states: dict[int, State] = {}
        self.work: list[int] = []
        self.results: frozenset[Atom] = frozenset()
        self.uses: dict[tuple[int, int], Use] = {}
        self.problems: dict[str, None] = {}
        self.parts: dict[int, bytes] = {}
        self.steps = cache(self._decode)

    def run(self) -> Found:
        self._reach(self.entry, self.start)
        count = 0
        while self.work and count < STEPS:
            count += self._straight(self.work.pop(), STEPS - count)
        if self.work:
            self._problem("too many paths")
        return Found(limited(self.results), tuple(self.uses.values()), tuple(self.problems))

    def _problem(self, text: str) -> None:
        self.problems[text] = None

    def _report(self, index: int, step: Step, how: str, sure: bool) -> None:
        known = self.uses.get((index, step.address))
        if known is None or (sure and not known.sure):
            self.uses[index, step.address] = Use(index, step.address, f"{step.text}: {how}", sure)

    def _reach(self, address: int, state: State) -> None:
        known = self.states.get(address)
        if known is None:
            self.states[address] = state.copy()
        elif not known.merge(state):
            return
        if address not in self.work:
            self.work.append(address)

    def _inside(self, address: int) -> bool:
        """Whether an address belongs to the function: its own text, or a part that the compiler set apart."""
        around = self.flow.code.around(address)
        if around is None:
            return False
        start, name = around
        return start == self.entry or any(name.startswith(f"{own}.cold") for own in self.names)

    def _decode(self, address: int) -> Step | None:
        around = self.flow.code.around(address)
        if around is None or not self._inside(address):
            return None
        start = around[0]
        if start not in self.parts:
            try:
                self.parts[start] = self.flow.code.read(start, self.flow.code.end(start, LIMIT) - start)
            except ModelError as error:
                self._problem(str(error))
                self.parts[start] = b""
        text = self.parts[start][address - start : address - start + 15]
        return self.flow.decode(text, address) if text else None

    def _straight(self, address: int, most: int) -> int:
        """Follow one way until it branches or ends; the number of instructions."""
        state = self.states[address].copy()
        after_call = False
        for count in range(most):
            step = self.steps(address)
            if step is None:
                if not after_call:  # behind the call of a function that does not return, code may end
                    self._problem(f"no instruction at {self.where(address)}")
                return count + 1
            if step.address in self.flow.fixups:
                self._reach_unknown(self.flow.fixups[step.address], state)
            if step.address in self.flow.labels:
                self._go(self.flow.labels[step.address], step, state)
                if step.kind is Kind.JUMP:
                    self._reach(step.next, state)
            if not self._follow(step, state):
                return count + 1
            address, after_call = step.next, step.kind is Kind.CALL
        return most

    def _reach_unknown(self, address: int, state: State) -> None:
        lost = State([Value(frozenset({ANY}), value.taint) for value in state.regs], {}, True)
        lost.regs[RSP] = state.regs[RSP]
        self._reach(address, lost)

    def _follow(self, step: Step, state: State) -> bool:
        """Whether the way goes on behind the instruction."""
        match step.kind:
            case Kind.PLAIN:
                effect(state, step, self._report)
            case Kind.CALL:
                return self._call(step, state)
            case Kind.BRANCH:
                self._go(step.target, step, state)
            case Kind.JUMP:
                self._go(step.target, step, state)
                return False
            case Kind.RETURN:
                self._returned(state.regs[RAX], step)
                return False
            case Kind.STOP:
                return False
            case Kind.TRAP:
                self._reach_unknown(step.next, state)
                return False
        return True

    def _returned(self, value: Value, step: Step) -> None:
        self.results |= value.atoms
        for index in value.taint if self.whole else ():
            self._report(index, step, "returned in 64 bits", True)

    def _go(self, target: int | None, step: Step, state: State) -> None:
        """A jump: inside the function, or a tail call, or the return thunk."""
        if target is not None and self._inside(target):
            self._reach(target, state)
        else:
            names = () if target is None else self.flow.code.names(target)
            if _is(names, RETURNS):
                self._returned(state.regs[RAX], step)
            elif not _is(names, NO_RETURN):
                self._pass(step, state, names)
                self._returned(self._callee(step, target, names), step)

    def _callee(self, step: Step, target: int | None, names: tuple[str, ...]) -> Value:
        """What a call leaves in rax."""
        if target is None or not names or names[0].startswith((*INDIRECT, "__SCT__", "__static_call")):
            if target is not None and not names:
                self._problem(f"{step.text} at {self.where(step.address)} leads to no symbol")
            return of(CALL)
        return Value(self.flow.result(target, self.depth) or frozenset({ANY}))

    def _call(self, step: Step, state: State) -> bool:
        names = () if step.target is None else self.flow.code.names(step.target)
        if names and names[0].startswith(KEEP):
            return True
        if _is(names, NO_RETURN):
            return False
        keeps = names[0] if names else self._memory_name(step)
        self._pass(step, state, names)
        result = self._callee(step, step.target, names)
        most = keeps.startswith(KEEP_MOST)
        for number in CALLER_SAVED:
            kept = state.regs[number].taint if most and number != RAX else frozenset()
            state.regs[number] = Value(frozenset({ANY}), kept)
        state.regs[RAX] = of(ANY) if most else result
        if state.escaped:
            state.slots.clear()
        return True

    def _memory_name(self, step: Step) -> str:
        """The symbol at a rip-relative operand of an indirect call ("pv_ops"), "" for other calls."""
        operand = step.operands[0] if step.operands else None
        if not isinstance(operand, Mem) or operand.plain or operand.index is not None:
            return ""
        around = self.flow.code.around(step.next + operand.disp)
        return around[1] if around else ""

    def _pass(self, step: Step, state: State, names: tuple[str, ...]) -> None:
        """Unspecified bits that a call hands on: the callee's own affair if its parameter is as narrow."""
        if step.operands and not isinstance(step.operands[0], Imm):
            read(state, step.operands[0], 64, step, self._report)
        if step.operands and isinstance(step.operands[0], Reg):
            for index in state.regs[step.operands[0].number].taint:
                self._report(index, step, "called", True)
        indirect = step.target is None or (bool(names) and names[0].startswith(INDIRECT))
        widths = self.indirect if indirect else self.flow.widths(names[0]) if names else None
        for position, number in enumerate(ARGUMENTS):
            for index in state.regs[number].taint:
                if widths is None:
                    self._report(index, step, "perhaps handed on; the callee's parameters are not known", False)
                elif position < len(widths) and widths[position] > 32:
                    self._report(index, step, f"handed on as {widths[position]} bits", True)

    def where(self, address: int) -> str:
        around = self.flow.code.around(address)
        return f"{address:#x}" if around is None else f"{around[1]}+{address - around[0]:#x}"


def _is(names: tuple[str, ...], wanted: tuple[str, ...]) -> bool:
    return any(name in wanted for name in names)
