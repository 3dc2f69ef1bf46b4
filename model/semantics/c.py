"""C functions as data (`model.kernel.c_body`) run over any world: one state in, one state out.

Every branch is followed on both sides and joined, so a body with loops has no rule (the data has none). Objects of a
structure are at named offsets: the release's layout where it is known without a build, else an unknown below 2^15.
Loads and stores are single accesses of the object's size (READ_ONCE and WRITE_ONCE, and in effect the others).
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic

from model.bits import B, W
from model.errors import Unsupported
from model.kernel.c_body import (
    Address,
    Array,
    Assign,
    Binary,
    Body,
    Branch,
    Call,
    Cast,
    Check,
    Conditional,
    Container,
    Declare,
    Deref,
    Do,
    Expr,
    Index,
    Integer,
    Leave,
    Local,
    Member,
    Null,
    Number,
    Pointer,
    Step,
    Struct,
    Type,
    Unary,
    Unreadable,
    Void,
)
from model.memory import Outside
from model.semantics import c_macros as macros
from model.semantics.c_state import Frame, Left, Place, either, offset_of
from model.semantics.c_types import (
    POINTER,
    Value,
    binary,
    common,
    convert,
    decayed,
    number,
    size,
    truth,
    unary,
    width,
)
from model.world import World

DEPTH = 16  # calls in one another


Unknown = Callable[[Body, Sequence[Value[W]], Outside[W, B]], tuple[Value[W] | None, Outside[W, B]]]
Loaded = Callable[[str, str, W, W], None]


@dataclass(slots=True)
class Runner(Generic[W, B]):
    """Runs bodies. `unknown` gives the effect of a function known by prototype only; `loaded` hears of each load of a
    member of a structure (tag, member, address, word). `leaves` collects the condition of every `return` met."""

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
        going = _Run(self, body, depth, left).steps(body.steps, [frame])
        if going and not isinstance(body.result, Void):
            raise Unsupported(f"{name} may end without a value")
        left += [Left(rest.guard, None, rest.outside) for rest in going]
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
class _Run(Generic[W, B]):
    """One function on its way; `left` collects the paths that returned."""

    runner: Runner[W, B]
    body: Body
    depth: int
    left: list[Left[W, B]]

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
            case Leave(expr):
                self.leave(expr, frame)
                return []
            case Do(expr):
                return [self.effect(expr, frame)]
            case Check(_):
                return [frame]
            case Unreadable(text, line):
                raise Unsupported(f"{self.body.file}:{line}: {text}")

    def leave(self, expr: Expr | None, frame: Frame[W, B]) -> None:
        value = None
        if expr is not None and not isinstance(self.body.result, Void):
            value, frame = self.value(expr, frame)
            value = convert(self.runner.world, value, self.body.result)
        self.runner.leaves.append((f"{self.body.function}, return {1 + len(self.left)}", frame.guard))
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
            kept = convert(self.runner.world, value, frame.types[target.name])
            return replace(frame, locals={**frame.locals, target.name: kept})
        place, frame = self.place(target, frame)
        stored = convert(self.runner.world, value, place.type)
        return replace(frame, outside=frame.outside.store(place.address, size(place.type), stored.word))

    def effect(self, expr: Expr, frame: Frame[W, B]) -> Frame[W, B]:
        if not isinstance(expr, Call) or expr.function not in self.runner.bodies:
            return self.value(expr, frame)[1]
        return self.function(expr, frame)[1]

    def place(self, expr: Expr, frame: Frame[W, B]) -> tuple[Place[W], Frame[W, B]]:
        world = self.runner.world
        bits = world.bits(POINTER)
        match expr:
            case Deref(pointer):
                value, frame = self.value(pointer, frame)
                return self.pointed(value), frame
            case Index(base, index):
                pointer_value, frame = self.value(base, frame)
                index_value, frame = self.value(index, frame)
                return self.pointed(binary(world, "+", pointer_value, index_value)), frame
            case Member(base, struct, member, kind):
                outer, frame = self.place(base, frame)
                address = bits.add(outer.address, offset_of(world, self.runner.layout, struct, member))
                return Place(kind, address, (struct, member)), frame
        raise Unsupported(f"{self.body.function}: no object: {expr}")

    def pointed(self, value: Value[W]) -> Place[W]:
        if not isinstance(value.type, Pointer):
            raise Unsupported(f"{self.body.function}: no pointer: {value.type}")
        return Place(value.type.to, value.word)

    def load(self, place: Place[W], frame: Frame[W, B]) -> Value[W]:
        if isinstance(place.type, Array):
            return decayed(place.type, place.address)
        word = frame.outside.load(place.address, width(place.type) // 8)
        if place.member is not None:
            self.runner.loaded(*place.member, place.address, word)
        return Value(place.type, word)

    def value(self, expr: Expr, frame: Frame[W, B]) -> tuple[Value[W], Frame[W, B]]:
        world = self.runner.world
        match expr:
            case Number(literal, kind):
                return number(world, literal, kind), frame
            case Null():
                return Value(Pointer(Void()), world.bits(POINTER).const(0)), frame
            case Local(name):
                known = frame.locals.get(name)
                if known is None:
                    raise Unsupported(f"{self.body.function}: {name} is read before it has a value")
                return known, frame
            case Deref(_) | Index(_, _) | Member(_, _, _, _):
                place, frame = self.place(expr, frame)
                return self.load(place, frame), frame
            case Address(of):
                place, frame = self.place(of, frame)
                return Value(Pointer(place.type), place.address), frame
            case Unary(operator, operand):
                value, frame = self.value(operand, frame)
                return unary(world, operator, value), frame
            case Cast(kind, operand):
                value, frame = self.value(operand, frame)
                return convert(world, value, kind), frame
            case Container(pointer, struct, member):
                value, frame = self.value(pointer, frame)
                offset = offset_of(world, self.runner.layout, struct, member)
                return Value(Pointer(Struct(struct)), world.bits(POINTER).sub(value.word, offset)), frame
            case Binary("&&" | "||", _, _) | Conditional(_, _, _):
                return self.choice(expr, frame)
            case Binary(operator, left, right):
                one, frame = self.value(left, frame)
                other, frame = self.value(right, frame)
                return binary(world, operator, one, other), frame
            case Call(_, _):
                result, frame = self.function(expr, frame)
                if result is None:
                    raise Unsupported(f"{self.body.function}: the value of a void function")
                return result, frame

    def choice(self, expr: Binary | Conditional, frame: Frame[W, B]) -> tuple[Value[W], Frame[W, B]]:
        """C11 6.5.13 to 6.5.15: only one of the operands behind the first is evaluated."""
        world = self.runner.world
        b = world.bits(POINTER)
        one, zero = Number(1, Integer(32, True)), Number(0, Integer(32, True))
        match expr:
            case Conditional(condition, then, otherwise):
                pass
            case Binary("&&", condition, right):
                then, otherwise = Unary("!", Unary("!", right)), zero
            case Binary(_, condition, right):
                then, otherwise = one, Unary("!", Unary("!", right))
        decided, frame = self.value(condition, frame)
        taken = truth(world, decided)
        yes, after_yes = self.value(then, replace(frame, guard=b.conj(frame.guard, taken)))
        no, after_no = self.value(otherwise, replace(frame, guard=b.conj(frame.guard, b.negate(taken))))
        kind = _common(yes.type, no.type)
        words = convert(world, yes, kind).word, convert(world, no, kind).word
        value = Value(kind, world.bits(width(kind)).ite(taken, *words))
        return value, replace(frame, outside=either(world, taken, after_yes.outside, after_no.outside))

    def function(self, expr: Call, frame: Frame[W, B]) -> tuple[Value[W] | None, Frame[W, B]]:
        values = []
        for argument in expr.arguments:
            value, frame = self.value(argument, frame)
            values.append(value)
        match expr.function, expr.arguments:
            case "round_up", (_, Number(multiple, _)):
                return macros.round_up(self.runner.world, values[0], multiple), frame
            case "roundup", (_, Number(multiple, _)):
                return macros.roundup(self.runner.world, values[0], multiple), frame
            case "this_cpu_ptr", (_,):
                word = macros.this_cpu_address(self.runner.world, values[0].word)
                return Value(values[0].type, word), frame
        done = self.runner.call(expr.function, values, frame.outside, frame.guard, self.depth - 1)
        return done.value, replace(frame, outside=done.outside)


def _common(one: Type, other: Type) -> Type:
    """The type of a conditional (C11 6.5.15): a pointer's where the other is NULL or `void *`, else common."""
    from_void = Pointer(Void())
    if one == other or (isinstance(one, Pointer) and other == from_void):
        return one
    if isinstance(other, Pointer) and one == from_void:
        return other
    if isinstance(one, Integer) and isinstance(other, Integer):
        return common(one, other)
    raise Unsupported(f"a choice between {one} and {other}")
