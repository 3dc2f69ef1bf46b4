"""Faults to plant in a side of a claim, for each part that must notice (`proofs.obligation.Claim.planted`)."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from model.kernel.c_body import Binary, Loop
from model.memory import Outside
from proofs import mutants_walk_c as c
from proofs.properties.callback_code import Code
from proofs.properties.whole_ends import End

REGISTER = 64
KEY_FOR_VALUE = c.hands_over(0, 2, 1, 3, 4)
WALK: dict[str, c.Edit] = {
    "flags": c.never("flags"),
    "key": KEY_FOR_VALUE,
    "value": KEY_FOR_VALUE,
    "arguments": c.hands_over(0, 1, 2, 1, 4),
    "stop": c.never("ret"),
    "count": c.counts(2),
    "next": c.one_too_far,
    "end": c.counts(2),
}


def _bound_for_index(node: Any) -> Any:
    """The loop's first test is bound < index: it never begins."""
    match node:
        case Loop(_, _, Binary("<", left, right), _, _):
            return replace(node, condition=Binary("<", right, left))
    return node


def faulty_walk(code: Code, kind: str, part: str) -> Code:
    """The C of a walk with one edit that `part` must notice. Raises `Unsupported` where there is no place for it."""
    edit = WALK.get(part, _bound_for_index)
    if kind == "rhash":
        edit = {"next": c.keeps_the_key, "base": c.returns(1)}.get(part, edit)
    return c.edited(code, edit)


def faulty_ends(world: Any, ends: Sequence[End[Any, Any]]) -> list[End[Any, Any]]:
    """Each path with another r0, a store too many, calls that the kernel remembers; some runs of it never end."""
    b, bit = world.bits(REGISTER), world.bits(1)
    ending = bit.eq(world.fresh("planted: whether it ends", 1), bit.const(1))
    return [
        replace(
            end,
            guard=b.conj(end.guard, ending),
            r0=b.bvxor(end.r0, b.const(1)),
            outside=faulty_outside(world, end.outside),
        )
        for end in ends
    ]


def faulty_outside(world: Any, outside: Any) -> Outside[Any, Any]:
    """Any other world."""
    seen = [(word, REGISTER) for word in (outside.memory, outside.kernel, outside.callbacks)]
    return Outside(world, *(world.apply(f"planted: {what}", REGISTER, seen) for what in ("memory", "kernel", "calls")))
