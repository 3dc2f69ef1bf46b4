"""Loops turn by turn on ints: what a turn adds, where it goes, what the callback sees. Values by hand."""

from typing import Any

import pytest

from model.errors import Unsupported
from model.kernel.c_body import (
    Address,
    Assign,
    Binary,
    Body,
    Branch,
    Break,
    Declare,
    Goto,
    Integer,
    Invoke,
    Label,
    Leave,
    Local,
    Loop,
    Number,
    Param,
    Pointer,
    Routine,
    Step,
    Void,
)
from model.memory import Outside
from model.semantics.c import Runner
from model.semantics.c_macros import is_err
from model.semantics.c_types import Value, convert
from model.semantics.c_walk import Walker, after_turns, assigned, change, joined, left_by, split, taken
from proofs.concrete import IntWorld

INT, U8, U32, U64 = Integer(32, True), Integer(8, False), Integer(32, False), Integer(64, False)
VISIT = Pointer(Routine(U64, (U64, U64)))
AT, N, STOP = Local("i"), Local("n"), Local("stop")


def one(value: int) -> Number:
    return Number(value, INT)


def add(name: Local, value: int, sign: str = "+") -> Assign:
    return Assign(name, Binary(sign, name, one(value)))


CALL = Assign(STOP, Invoke(Local("visit"), (Address(Local("key")), Binary("*", AT, one(3)))))
LOOP = Loop(
    (Assign(AT, one(0)),),
    (),
    Binary("<", AT, Local("limit")),
    (add(AT, 1),),
    (Assign(Local("key"), AT), add(N, 1), CALL, Branch(STOP, (Goto("out"),), ())),
)
STEPS: tuple[Step, ...] = (
    Declare("i", U32, None),
    Declare("n", U32, one(0)),
    Declare("key", U32, None),
    Declare("stop", U64, None),
    LOOP,
    add(N, 100),
    Label("out"),
    Leave(N),
)
BODY = Body("walk", U64, (Param("visit", VISIT), Param("limit", U32)), STEPS, "f", 1)


def walker(result: int, body: Body = BODY) -> tuple[Walker[int, bool], Any, list[tuple[int, ...]]]:
    """Its callback gives `result`; also the first state (the limit is 5) and what the callback was given."""
    world, seen = IntWorld(lambda name, width: 0x7000 if name == "&key" else 0), list[tuple[int, ...]]()

    def made(arguments: Any, outside: Any) -> Any:
        seen.append((*arguments, outside.load(0x7000, 4)))
        return result, outside

    runner: Runner[int, bool] = Runner(world, {"walk": body}, {}, lambda *_: (None, outside), lambda *row: row[3])
    outside: Any = Outside(world, 1, 2, 3)
    made_: Any = made
    walk = Walker(runner, body, made_)
    return walk, walk.entry([Value(VISIT, 0x9000), Value(INT, 5)], outside), seen


def at_turn(walk: Walker[int, bool], first: Any, i: int, n: int) -> Any:
    done = walk.run(STEPS[:4], first)
    assert done.going is not None
    done = walk.run((Assign(AT, one(i)), Assign(N, one(n))), done.going)
    return done.going


def test_a_turn_that_goes_on() -> None:
    walk, first, seen = walker(0)
    frame = at_turn(walk, first, 4, 7)
    assert walk.holds(LOOP, frame)[0]
    done = walk.run(LOOP.body, frame)
    assert [arguments[:2] for arguments in seen] == [(0x7000, 12)]
    (call,) = done.invoked
    assert call.locals["key"] == (0x7000, Value(U32, 4))
    assert (call.pointer, call.guard) == (0x9000, True)
    assert done.going is not None
    assert (done.going.guard, done.going.locals["n"], done.going.locals["key"]) == (True, Value(U32, 8), None)
    after = walk.run(LOOP.following, done.going).going
    assert after is not None
    assert after.locals["i"] == Value(U32, 5)
    assert not walk.holds(LOOP, after)[0]
    (left,) = walk.out(STEPS[5:], "break", after)
    assert left.value == Value(U64, 108)  # behind the loop's end: 8 + 100


def test_a_turn_that_leaves() -> None:
    walk, first, _ = walker(1 << 40)
    done = walk.run(LOOP.body, at_turn(walk, first, 0, 0))
    assert done.going is not None
    assert not done.going.guard
    ((name, frame),) = done.exits
    assert name == "out"
    left = walk.out(STEPS[5:], name, frame)
    guard, value = left_by(walk.runner.world, left)
    assert (guard, value) == (True, Value(U64, 1))  # the label is behind the 100


def test_paths_that_meet_keep_what_they_agree_on() -> None:
    walk, first, _ = walker(0)
    yes, no = (walk.run((*STEPS[:4], Assign(N, one(v))), first).going for v in (5, 6))
    assert yes is not None
    assert no is not None
    together = joined(walk.runner.world, [yes, no])
    assert together is not None
    assert together.locals["n"] == Value(U32, 5)
    assert together.locals["i"] is None
    assert joined(walk.runner.world, []) is None


@pytest.mark.parametrize(
    ("steps", "by"),
    [
        ((add(N, 1),), 1),
        ((add(N, 3), CALL, add(N, 1, "-")), 2),
        ((add(AT, 1),), None),
        ((Branch(STOP, (add(N, 1),), ()),), None),
        ((add(N, 1), Branch(STOP, (add(N, 1),), ())), None),
        ((Assign(N, AT),), None),
        ((Assign(N, Binary("*", N, one(2))),), None),
        ((Assign(N, Binary("+", AT, one(1))),), None),
    ],
)
def test_what_a_turn_adds(steps: tuple[Step, ...], by: int | None) -> None:
    assert change("n", steps) == by


def test_counting_wraps_in_the_type() -> None:
    world = IntWorld(lambda name, width: 0)
    assert after_turns(world, Value(U32, 1), 1, 1 << 32) == Value(U32, 1)
    assert after_turns(world, Value(U8, 250), 3, 5) == Value(U8, 9)
    assert after_turns(world, Value(INT, 0), -1, 2) == Value(INT, 0xFFFFFFFE)
    with pytest.raises(Unsupported, match="counting in"):
        after_turns(world, Value(Pointer(Void()), 0), 1, 1)


def test_names() -> None:
    assert assigned((LOOP,)) == {"i", "n", "key", "stop"}
    assert taken(STEPS) == {"key"}
    assert split(STEPS, "walk").after == STEPS[5:]


def test_what_has_no_rule() -> None:
    walk, first, _ = walker(0)
    with pytest.raises(Unsupported, match="2 loops side by side"):
        split((LOOP, LOOP), "walk")
    with pytest.raises(Unsupported, match="is taken for something else"):
        taken((Assign(AT, Address(AT)),))
    with pytest.raises(Unsupported, match="a jump to nowhere"):
        walk.out(STEPS[5:], "nowhere", first)
    with pytest.raises(Unsupported, match="nothing is known of n"):
        walk.run((Leave(N),), first)
    with pytest.raises(Unsupported, match="n is not declared"):
        walk.run((Assign(N, one(1)),), first)
    with pytest.raises(Unsupported, match=r"a loop or a jump \(loop\)"):
        walk.run((LOOP,), first)
    with pytest.raises(Unsupported, match=r"does not only return"):
        walk.out((Break(),), "break", first)


@pytest.mark.parametrize(
    ("pointer", "error"), [(0, 0), (-1, 1), (-22, 1), (-4095, 1), (-4096, 0), (0xFFFF888100000000, 0)]
)
def test_is_err(pointer: int, error: int) -> None:
    """include/linux/err.h: the last 4095 addresses."""
    world = IntWorld(lambda name, width: 0)
    value = convert(world, Value(U64, pointer & ((1 << 64) - 1)), Pointer(Void()))
    assert is_err(world, value) == Value(INT, error)
