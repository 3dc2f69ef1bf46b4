"""A kernel function's own indirect branches, and where their targets came from: an argument, or memory.

All paths of the code as it stands are followed, jump labels both ways and `.cold` parts with their function.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from model.errors import ModelError
from model.native.code import ARGUMENTS, CALLER_SAVED, NAMES, RSP, Kind, Step
from model.native.flow import LIMIT, NO_RETURN, STEPS, Code
from model.native.origin_state import Argument, Origin, OriginState, Stack, effect, value_of
from model.native.thunks import thunk, thunk_register


@dataclass(frozen=True, slots=True)
class Indirect:
    """`via` is the thunk's name or the instruction; `call` says that the function goes on behind it."""

    address: int
    via: str
    call: bool
    origin: Origin


@dataclass(frozen=True, slots=True)
class Body:
    """What was found in a function, by address; `problems` are what was not read."""

    indirect: tuple[Indirect, ...]
    problems: tuple[str, ...]


def body(
    code: Code,
    decode: Callable[[bytes, int], Step | None],
    entry: int,
    labels: Mapping[int, int] | None = None,
    steps: int = STEPS,
) -> Body:
    """`labels` are further targets of jump labels, by address. Bounded: `steps` instructions."""
    return _Walk(code, decode, entry, labels or {}).run(steps)


class _Walk:
    def __init__(
        self, code: Code, decode: Callable[[bytes, int], Step | None], entry: int, labels: Mapping[int, int]
    ) -> None:
        self.code, self.decode, self.entry, self.labels = code, decode, entry, labels
        self.names = code.names(entry)
        self.states: dict[int, OriginState] = {}
        self.work: list[int] = []
        self.parts: dict[int, bytes] = {}
        self.readable = True
        self.found: dict[int, Indirect] = {}
        self.problems: dict[str, None] = {}

    def run(self, most: int) -> Body:
        start = OriginState([None] * len(NAMES))
        for index, number in enumerate(ARGUMENTS):
            start.regs[number] = Argument(index)
        start.regs[RSP] = Stack(0)
        self._reach(self.entry, start)
        while self.work and most > 0:
            address, after_call = self.work.pop(), False
            state = self.states[address].copy()
            while most > 0:
                most -= 1
                step = self._step(address)
                if step is None:
                    if (
                        not after_call and self.readable
                    ):  # behind the call of a function that does not return, code may end
                        self.problems[f"no instruction at {address:#x}"] = None
                    break
                if step.address in self.labels:
                    self._reach(self.labels[step.address], state)
                if not self._follow(step, state):
                    break
                address, after_call = step.next, step.kind is Kind.CALL
        if self.work or most <= 0:
            self.problems["too many paths"] = None
        return Body(tuple(self.found[address] for address in sorted(self.found)), tuple(self.problems))

    def _reach(self, address: int, state: OriginState) -> None:
        known = self.states.get(address)
        if known is None:
            self.states[address] = state.copy()
        elif not known.merge(state):
            return
        if address not in self.work:
            self.work.append(address)

    def _inside(self, address: int) -> bool:
        around = self.code.around(address)
        return around is not None and (
            around[0] == self.entry or any(around[1].startswith(f"{own}.cold") for own in self.names)
        )

    def _step(self, address: int) -> Step | None:
        around = self.code.around(address)
        if around is None or not self._inside(address):
            return None
        start = around[0]
        if start not in self.parts:
            try:
                self.parts[start] = self.code.read(start, self.code.end(start, LIMIT) - start)
            except ModelError as error:
                self.problems[str(error)] = None
                self.parts[start], self.readable = b"", False
        text = self.parts[start][address - start : address - start + 15]
        return self.decode(text, address) if text else None

    def _follow(self, step: Step, state: OriginState) -> bool:
        """Whether the way goes on behind the instruction."""
        match step.kind:
            case Kind.PLAIN:
                effect(step, state)
            case Kind.CALL:
                return self._call(step, state)
            case Kind.BRANCH | Kind.JUMP:
                self._branch(step, state)
                return step.kind is Kind.BRANCH
            case Kind.RETURN | Kind.STOP:
                return False
        return True

    def _call(self, step: Step, state: OriginState) -> bool:
        names = () if step.target is None else self.code.names(step.target)
        self._note(step, names, state, call=True)
        if any(name in NO_RETURN for name in names):
            return False
        if not any(name.startswith("__fentry__") for name in names):
            for number in CALLER_SAVED:
                state.regs[number] = None
        return True

    def _branch(self, step: Step, state: OriginState) -> None:
        if step.target is not None and self._inside(step.target):
            self._reach(step.target, state)
        else:
            self._note(step, () if step.target is None else self.code.names(step.target), state, call=False)

    def _note(self, step: Step, names: tuple[str, ...], state: OriginState, *, call: bool) -> None:
        if step.target is None:
            name, origin = step.text, value_of(step.operands[0], state) if step.operands else None
        else:
            name = thunk(names)
            number = thunk_register(name)
            origin = None if number is None else state.regs[number]
        if name:
            known = self.found.get(step.address)
            same = known is None or known.origin == origin
            self.found[step.address] = Indirect(step.address, name, call, origin if same else None)
