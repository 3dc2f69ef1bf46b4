"""C functions as data (`model.kernel.c_body`) run over any world: one state in, one state out.

Every branch is followed on both sides and joined, so a body with loops has no rule here: `model.semantics.c_walk` runs
one turn of them. Objects of a structure are at named offsets: the release's layout where it is known without a build,
else an unknown below 2^15. Loads and stores are single accesses of the object's size (READ_ONCE and WRITE_ONCE, and in
effect the others).
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic

from model.bits import B, W
from model.errors import Unsupported
from model.kernel.c_body import (
    Assign,
    Body,
    Branch,
    Call,
    Check,
    Declare,
    Do,
    Expr,
    Leave,
    Local,
    Step,
    Type,
    Unreadable,
    Void,
    steps_of,
)
from model.memory import Outside
from model.semantics.c_expr import MACROS, Expressions, Loaded
from model.semantics.c_state import Frame, Left, either
from model.semantics.c_types import (
    POINTER,
    Value,
    convert,
    size,
    truth,
    width,
)
from model.world import World

DEPTH = 16  # calls in one another


Unknown = Callable[[Body, Sequence[Value[W]], Outside[W, B]], tuple[Value[W] | None, Outside[W, B]]]


@dataclass(slots=True)
class Runner(Generic[W, B]):
    """Runs bodies. `unknown` gives the effect of a function known by prototype only, `loaded` what a load of a member
    of a structure gives (tag, member, address, the word in memory). `leaves` collects the condition of every path at
    its return statement or its end; a statement that several paths reach is there several times."""

    world: World[W, B]
    bodies: Mapping[str, Body]
    layout: Mapping[str, int]
    unknown: "Unknown[W, B]"
    loaded: "Loaded[W]"
    leaves: list[tuple[str, B]] = field(default_factory=list)

    def call(
        self, name: str, arguments: Sequence[Value[W]], outside: Outside[W, B], guard: B, depth: int = DEPTH
    ) -> Left[W, B]:
        """The call of function `name`; arguments are converted as if by assignment (C11 6.5.2.2)."""
        body = self.bodies.get(name)
        if body is None:
            raise Unsupported(f"no body was read for the C function {name}")
        if depth == 0 or len(arguments) != len(body.params):
            raise Unsupported(f"a call of {name} with {len(arguments)} arguments, or nested too deeply")
        values = [convert(self.world, v, p.type) for v, p in zip(arguments, body.params, strict=True)]
        if body.steps is None:
            result, after = self.unknown(body, values, outside)
            return Left(guard, result, after)
        names = [param.name for param in body.params]
        frame = Frame(
            guard,
            dict(zip(names, values, strict=True)),
            {param.name: param.type for param in body.params},
            outside,
        )
        left: list[Left[W, B]] = []
        found = [step for step in steps_of(body.steps) if isinstance(step, Leave)]
        returns = {id(step): 1 + index for index, step in enumerate(found)}
        going = Run(self, body, depth, left, self.leaves, returns).steps(body.steps, [frame])
        if going and not isinstance(body.result, Void):
            raise Unsupported(f"{name} may end without a value")
        for rest in going:
            self.leaves.append((f"{name}, end {1 + len(left)}", rest.guard))
            left.append(Left(rest.guard, None, rest.outside))
        return functools.reduce(lambda one, other: self._join(other, one), left)

    def _join(self, one: Left[W, B], other: Left[W, B]) -> Left[W, B]:
        """`one` where its condition holds, else `other`."""
        b = self.world.bits(POINTER)
        value = None
        if one.value is not None and other.value is not None:
            bits = self.world.bits(width(one.value.type))
            value = Value(one.value.type, bits.ite(one.guard, one.value.word, other.value.word))
        return Left(b.disj(one.guard, other.guard), value, either(self.world, one.guard, one.outside, other.outside))


@dataclass(slots=True)
class Run(Expressions[W, B]):
    """One function on its way; `left` collects the paths that returned, `returns` numbers its return statements."""

    left: list[Left[W, B]]
    leaves: list[tuple[str, B]]
    returns: Mapping[int, int]

    def steps(self, steps: tuple[Step, ...], frames: list[Frame[W, B]]) -> list[Frame[W, B]]:
        """The paths that are still going behind `steps`."""
        for step in steps:
            frames = [after for frame in frames for after in self.step(step, frame)]
        return frames

    def step(self, step: Step, frame: Frame[W, B]) -> list[Frame[W, B]]:
        match step:
            case Declare(name, kind, initial):
                value = None
                if initial is not None:
                    value, frame = self.value(initial, frame)
                    value = convert(self.runner.world, value, kind)
                return [
                    replace(frame, locals={**frame.locals, name: value}, types={**frame.types, name: kind}),
                ]
            case Assign(target, expr):
                return [self.assign(target, expr, frame)]
            case Branch(condition, then, otherwise):
                return self.branch(condition, then, otherwise, frame)
            case Leave(_):
                self.leave(step, frame)
                return []
            case Do(expr):
                return [self.effect(expr, frame)]
            case Check(_):
                return [frame]
            case Unreadable(text, line):
                raise Unsupported(f"{self.body.file}:{line}: {text}")
        raise Unsupported(f"{self.body.function}: a loop or a jump ({type(step).__name__.lower()})")

    def leave(self, step: Leave, frame: Frame[W, B]) -> None:
        value, expr = None, step.value
        if expr is not None and not isinstance(self.body.result, Void):
            value, frame = self.value(expr, frame)
            value = convert(self.runner.world, value, self.body.result)
        self.leaves.append((f"{self.body.function}, return {self.returns[id(step)]}", frame.guard))
        self.left.append(Left(frame.guard, value, frame.outside))

    def branch(
        self, condition: Expr, then: tuple[Step, ...], otherwise: tuple[Step, ...], frame: Frame[W, B]
    ) -> list[Frame[W, B]]:
        value, frame = self.value(condition, frame)
        b = self.runner.world.bits(POINTER)
        taken = truth(self.runner.world, value)
        yes = self.steps(then, [replace(frame, guard=b.conj(frame.guard, taken))])
        no = self.steps(otherwise, [replace(frame, guard=b.conj(frame.guard, b.negate(taken)))])
        return yes + no

    def assign(self, target: Expr, expr: Expr, frame: Frame[W, B]) -> Frame[W, B]:
        value, frame = self.value(expr, frame)
        if isinstance(target, Local):
            kept = convert(self.runner.world, value, self.declared(target.name, frame))
            return replace(frame, locals={**frame.locals, target.name: kept})
        place, frame = self.place(target, frame)
        stored = convert(self.runner.world, value, place.type)
        return replace(frame, outside=frame.outside.store(place.address, size(place.type), stored.word))

    def declared(self, name: str, frame: Frame[W, B]) -> Type:
        if name not in frame.types:
            raise Unsupported(f"{self.body.function}: {name} is not declared")
        return frame.types[name]

    def effect(self, expr: Expr, frame: Frame[W, B]) -> Frame[W, B]:
        if not isinstance(expr, Call) or expr.function in MACROS:
            return self.value(expr, frame)[1]
        return self.function(expr, frame)[1]
