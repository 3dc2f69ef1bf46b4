"""Expressions of C functions as data (`model.kernel.c_body`), over any world.

A value and what its evaluation did to the world outside; operands are evaluated from left to right (C11 leaves the
order open; in the bodies read no operand's effect is another's input).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Protocol

from model.bits import B, W
from model.errors import Unsupported
from model.kernel.c_body import (
    Address,
    Array,
    Binary,
    Body,
    Call,
    Cast,
    Conditional,
    Container,
    Deref,
    Expr,
    Index,
    Integer,
    Invoke,
    Local,
    Member,
    Null,
    Number,
    Pointer,
    Struct,
    Type,
    Unary,
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
    truth,
    unary,
    width,
)
from model.world import World

MACROS = ("round_up", "roundup", "this_cpu_ptr", "IS_ERR")
Loaded = Callable[[str, str, W, W], W]


class Caller(Protocol[W, B]):
    """What an expression needs of its surroundings; `model.semantics.c.Runner` tells what each is."""

    @property
    def world(self) -> World[W, B]: ...

    @property
    def layout(self) -> Mapping[str, int]: ...
    @property
    def loaded(self) -> "Loaded[W]": ...
    def call(
        self, name: str, arguments: Sequence[Value[W]], outside: Outside[W, B], guard: B, depth: int
    ) -> Left[W, B]: ...


@dataclass(slots=True)
class Expressions(Generic[W, B]):
    """Expressions inside of one function; calls may still be nested `depth` deep."""

    runner: Caller[W, B]
    body: Body
    depth: int

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
            word = self.runner.loaded(*place.member, place.address, word)
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
                value = binary(world, operator, one, other)
                self.inside(value, frame)
                return value, frame
            case Call(_, _):
                result, frame = self.function(expr, frame)
                if result is None:
                    raise Unsupported(f"{self.body.function}: the value of a void function")
                return result, frame
            case Invoke(_, _):
                return self.invoked(expr, frame)

    def invoked(self, expr: Invoke, frame: Frame[W, B]) -> tuple[Value[W], Frame[W, B]]:
        raise Unsupported(f"{self.body.function}: a call through a pointer")

    def inside(self, result: Value[W], frame: Frame[W, B]) -> None:
        """Pointer arithmetic stays inside of its object (C11 6.5.6), which does not lie at NULL (6.3.2.3)."""
        if isinstance(result.type, Pointer):
            b = self.runner.world.bits(POINTER)
            null = b.eq(result.word, b.const(0))
            self.runner.world.assume("no object lies at NULL", b.negate(b.conj(frame.guard, null)))

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
            case "IS_ERR", (_,):
                return macros.is_err(self.runner.world, values[0]), frame
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
