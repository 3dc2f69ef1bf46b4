"""What a C function has while it runs: places in memory, paths with their conditions, offsets of members."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Generic

from model.bits import B, W
from model.kernel.c_body import Type
from model.memory import Outside
from model.semantics.c_types import POINTER, Value
from model.world import World

OFFSETS = 1 << 15  # bytes; offsets of members lie below this (the largest structure here has a few hundred)


def offset_of(world: World[W, B], layout: Mapping[str, int], struct: str, member: str) -> W:
    """offsetof(struct tag, member), 64 bits: a number where `layout` has it, else one unknown for all who ask."""
    bits = world.bits(POINTER)
    known = layout.get(f"struct {struct}.{member}")
    if known is not None:
        return bits.const(known)
    word = world.fresh(f"offsetof(struct {struct}, {member})", POINTER)
    world.assume("a member's offset is small", bits.ult(word, bits.const(OFFSETS)))
    return word


@dataclass(frozen=True, slots=True)
class Place(Generic[W]):
    """An object in memory: its type and address, and the member that it is, if any."""

    type: Type
    address: W
    member: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Frame(Generic[W, B]):
    """One path inside of a function: its condition, its locals (None: not initialised), the world outside."""

    guard: B
    locals: Mapping[str, Value[W] | None]
    types: Mapping[str, Type]
    outside: Outside[W, B]


@dataclass(frozen=True, slots=True)
class Left(Generic[W, B]):
    """A path that returned: its condition, value (None for void) and the world outside."""

    guard: B
    value: Value[W] | None
    outside: Outside[W, B]


def either(world: World[W, B], condition: B, one: Outside[W, B], other: Outside[W, B]) -> Outside[W, B]:
    """`one` where `condition` holds, else `other`."""
    pick = functools.partial(world.bits(POINTER).ite, condition)
    return replace(
        one,
        memory=pick(one.memory, other.memory),
        kernel=pick(one.kernel, other.kernel),
        callbacks=pick(one.callbacks, other.callbacks),
    )
