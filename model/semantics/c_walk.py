"""A C function with one loop, or one walk along a list inside of a loop, over any world: turn by turn.

What an induction needs: the function up to its loop, one turn from a state that the induction supposes, and the way
out. Paths that meet again are joined, so the callback (`Invoke`) is one call in a turn. A local whose address is handed
to the callback is stored there when the callback is made, and has no known value behind it.
"""

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic

from model.bits import B, W
from model.errors import Unsupported
from model.kernel.c_body import (
    Address,
    Assign,
    Binary,
    Body,
    Branch,
    Break,
    Continue,
    Declare,
    Each,
    Expr,
    Goto,
    Integer,
    Invoke,
    Label,
    Local,
    Loop,
    Number,
    Pointer,
    Routine,
    Step,
    nodes_of,
    steps_of,
)
from model.memory import Outside
from model.semantics.c import DEPTH, Run, Runner
from model.semantics.c_expr import Expressions
from model.semantics.c_state import Frame, Left, either
from model.semantics.c_types import POINTER, Value, convert, number, size, truth, width
from model.world import World

Made = Callable[[Sequence[W], Outside[W, B]], tuple[W, Outside[W, B]]]
"""The callback: arguments (64 bits each) and the world that it is made in; its result and the world that it leaves."""
LINK = 8  # bytes of a node's link, its first member (include/linux/list_nulls.h)


@dataclass(frozen=True, slots=True)
class Invoked(Generic[W, B]):
    """One call through the function pointer: on which path, with which arguments and result.

    `locals` are the locals whose address is taken: the address, and the value that is there during the call.
    """

    guard: B
    pointer: W
    arguments: tuple[W, ...]
    result: W
    locals: Mapping[str, tuple[W, Value[W]]]


@dataclass(frozen=True, slots=True)
class Done(Generic[W, B]):
    """What statements did: the path that goes on (None where all leave), jumps by name, returns, calls."""

    going: Frame[W, B] | None
    exits: tuple[tuple[str, Frame[W, B]], ...]
    left: tuple[Left[W, B], ...]
    invoked: tuple[Invoked[W, B], ...]


@dataclass(frozen=True, slots=True)
class Split:
    """Statements around the one loop among them."""

    before: tuple[Step, ...]
    loop: Loop | Each
    after: tuple[Step, ...]


def split(steps: tuple[Step, ...], function: str) -> Split:
    """Raises `Unsupported` where there is not exactly one loop."""
    found = [index for index, step in enumerate(steps) if isinstance(step, Loop | Each)]
    if len(found) != 1:
        raise Unsupported(f"{function} has {len(found)} loops side by side where a walk has one")
    loop = steps[found[0]]
    assert isinstance(loop, Loop | Each)
    return Split(steps[: found[0]], loop, steps[found[0] + 1 :])


def assigned(steps: Iterable[Step]) -> set[str]:
    """Locals that statements change."""
    names = set()
    for step in steps_of(tuple(steps)):
        match step:
            case Assign(Local(name), _) | Declare(name, _, _):
                names.add(name)
            case Each():
                names |= {step.entry, step.position}
    return names


def change(name: str, steps: Sequence[Step]) -> int | None:
    """By how much a run of `steps` changes local `name`: the sum of the constants that are added to it.

    None where it is changed in another way, or only on some paths.
    """
    total, seen = 0, 0
    for step in steps:
        match step:
            case Assign(Local(to), Binary("+" | "-" as sign, Local(source), Number(value, _))) if to == source == name:
                total += value if sign == "+" else -value
                seen += 1
    writes = [
        one for one in steps_of(tuple(steps)) if not isinstance(one, Branch | Loop | Each) and name in assigned((one,))
    ]
    return total if len(writes) == seen and seen else None


def joined(world: World[W, B], frames: Sequence[Frame[W, B]]) -> Frame[W, B] | None:
    """One path for several that meet. A local without a value on one of them, or with another type, has none."""
    return functools.reduce(functools.partial(_join, world), frames) if frames else None


def _join(world: World[W, B], one: Frame[W, B], other: Frame[W, B]) -> Frame[W, B]:
    values: dict[str, Value[W] | None] = {}
    for name in one.locals.keys() & other.locals.keys():
        mine, its = one.locals[name], other.locals[name]
        values[name] = None
        if mine is not None and its is not None and mine.type == its.type:
            word = mine.word if mine is its else world.bits(width(mine.type)).ite(one.guard, mine.word, its.word)
            values[name] = Value(mine.type, word)
    guard = world.bits(POINTER).disj(one.guard, other.guard)
    outside = one.outside if one.outside is other.outside else either(world, one.guard, one.outside, other.outside)
    return Frame(guard, values, {**one.types, **other.types}, outside)


@dataclass(slots=True)
class Steps(Run[W, B]):
    """A run of some of the function's statements."""

    made: "Made[W, B]"
    exits: list[tuple[str, Frame[W, B]]] = field(default_factory=list)
    calls: list[Invoked[W, B]] = field(default_factory=list)

    def step(self, step: Step, frame: Frame[W, B]) -> list[Frame[W, B]]:
        match step:
            case Break():
                self.exits.append(("break", frame))
                return []
            case Continue():
                self.exits.append(("continue", frame))
                return []
            case Goto(label):
                self.exits.append((label, frame))
                return []
            case Label(_):
                return [frame]
        return Run.step(self, step, frame)

    def branch(
        self, condition: Expr, then: tuple[Step, ...], otherwise: tuple[Step, ...], frame: Frame[W, B]
    ) -> list[Frame[W, B]]:
        together = joined(self.runner.world, Run.branch(self, condition, then, otherwise, frame))
        return [] if together is None else [together]

    def value(self, expr: Expr, frame: Frame[W, B]) -> tuple[Value[W], Frame[W, B]]:
        match expr:
            case Address(Local(name)):
                return Value(Pointer(self.declared(name, frame)), local_address(self.runner.world, name)), frame
            case Local(name) if frame.locals.get(name) is None:
                raise Unsupported(f"{self.body.function}: nothing is known of {name} where it is read in the walk")
        return Expressions.value(self, expr, frame)

    def invoked(self, expr: Invoke, frame: Frame[W, B]) -> tuple[Value[W], Frame[W, B]]:
        world = self.runner.world
        pointer, frame = self.value(expr.pointer, frame)
        kind = pointer.type.to if isinstance(pointer.type, Pointer) else None
        if not isinstance(kind, Routine) or len(kind.params) != len(expr.arguments):
            raise Unsupported(f"{self.body.function}: a call through {pointer.type}")
        words = []
        for argument, target in zip(expr.arguments, kind.params, strict=True):
            value, frame = self.value(argument, frame)
            words.append(convert(world, value, target).word)
        outside, there = frame.outside, {}
        for name in sorted(taken(self.body.steps)):
            held = frame.locals.get(name)
            if held is not None:
                there[name] = local_address(world, name), held
                outside = outside.store(there[name][0], size(held.type), held.word)
        result, after = self.made(words, outside)
        self.calls.append(Invoked(frame.guard, pointer.word, tuple(words), result, there))
        forgotten = dict.fromkeys(there)
        return Value(kind.result, result), replace(frame, locals={**frame.locals, **forgotten}, outside=after)


def local_address(world: World[W, B], name: str) -> W:
    return world.fresh(f"&{name}", POINTER)


def taken(node: object) -> set[str]:
    """Locals whose address is taken. Raises `Unsupported` where that is not among the arguments of a callback."""
    addresses = [one for one in nodes_of(node) if isinstance(one, Address) and isinstance(one.of, Local)]
    handed = [
        inner
        for one in nodes_of(node)
        if isinstance(one, Invoke)
        for inner in nodes_of(one.arguments)
        if isinstance(inner, Address) and isinstance(inner.of, Local)
    ]
    if len(addresses) != len(handed):
        raise Unsupported("a local's address is taken for something else than a callback")
    return {one.of.name for one in addresses if isinstance(one.of, Local)}


@dataclass(frozen=True, slots=True)
class Walker(Generic[W, B]):
    """The function `body` in pieces."""

    runner: Runner[W, B]
    body: Body
    made: "Made[W, B]"

    def _run(self) -> Steps[W, B]:
        returns = {id(step): 1 for step in steps_of(self.body.steps or ())}
        return Steps(self.runner, self.body, DEPTH, [], [], returns, self.made)

    def run(self, steps: tuple[Step, ...], frame: Frame[W, B]) -> Done[W, B]:
        run = self._run()
        going = joined(self.runner.world, run.steps(steps, [frame]))
        return Done(going, tuple(run.exits), tuple(run.left), tuple(run.calls))

    def value(self, expr: Expr, frame: Frame[W, B]) -> Value[W]:
        return self._run().value(expr, frame)[0]

    def holds(self, loop: Loop, frame: Frame[W, B]) -> tuple[B, Frame[W, B]]:
        """The loop's test in the state `frame`, and the state behind it."""
        done = self.run(loop.before, frame)
        if done.going is None or done.exits or done.left or done.invoked:
            raise Unsupported(f"{self.body.function}: a test that does more than assign")
        if loop.condition is None:
            return self.runner.world.bits(POINTER).true(), done.going
        return truth(self.runner.world, self.value(loop.condition, done.going)), done.going

    def entry(self, arguments: Sequence[Value[W]], outside: Outside[W, B]) -> Frame[W, B]:
        """The function's first state; arguments are converted as if by assignment (C11 6.5.2.2)."""
        world, params = self.runner.world, self.body.params
        if len(params) != len(arguments):
            raise Unsupported(f"{self.body.function} with {len(params)} parameters")
        values = {p.name: convert(world, v, p.type) for v, p in zip(arguments, params, strict=True)}
        return Frame(world.bits(POINTER).true(), values, {p.name: p.type for p in params}, outside)

    def out(self, after: tuple[Step, ...], name: str, frame: Frame[W, B]) -> tuple[Left[W, B], ...]:
        """The paths from a jump out of the loop, or its end, to the function's end. Raises `Unsupported`."""
        if name != "break":
            if Label(name) not in after:
                raise Unsupported(f"{self.body.function}: a jump to {name}, which is not behind the loop")
            after = after[after.index(Label(name)) :]
        done = self.run(after, frame)
        if done.going is not None or done.exits or done.invoked:
            raise Unsupported(f"{self.body.function}: what is behind the loop does not only return")
        return done.left


def left_by(world: World[W, B], left: Sequence[Left[W, B]]) -> tuple[B, Value[W] | None]:
    """The condition that one of the paths is taken, and the value that it returns. No paths: never, and no value."""
    b = world.bits(POINTER)
    guard, value = b.negate(b.true()), None
    for one in left:
        if one.value is None:
            raise Unsupported("a walk that returns nothing")
        bits = world.bits(width(one.value.type))
        word = one.value.word if value is None else bits.ite(one.guard, one.value.word, value.word)
        guard, value = b.disj(guard, one.guard), Value(one.value.type, word)
    return guard, value


def after_turns(world: World[W, B], first: Value[W], step: int, turns: W) -> Value[W]:
    """first + step × turns (64 bits), in the type of `first`."""
    if not isinstance(first.type, Integer):
        raise Unsupported(f"counting in {first.type}")
    bits = world.bits(first.type.bits)
    passed = world.bits(POINTER).extract(turns, first.type.bits - 1, 0)
    by = number(world, step, first.type).word
    return Value(first.type, bits.add(first.word, passed if step == 1 else bits.mul(by, passed)))
