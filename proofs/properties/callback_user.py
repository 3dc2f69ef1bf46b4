"""User callback: one program's walk, with its own callback run over symbols, before and after the rewrite.

The step of the induction of `proofs.properties.callback`, made twice from one state: before, the helper reaches the
operation through `map->ops`, and the callback is the subprogram where the program had it; after, the operation is
called directly and the callback is where the rewrite moved it. Each side's step must be what the release's loop does
(`before/…`, `after/…`), and the two must agree (`agree/…`): the operation is entered with the same arguments, the
callback is made with the same arguments in the same world, and on each of its paths leaves the same r0, memory, kernel
and sequence of callbacks; the walk stops, counts and returns alike. As both start where n callbacks were made, this is
so for any number of elements.

What the callback does to the map is in the world that it leaves. Where a walk goes on then is `…/next`: of a hash at
the successor that was read before the callback, which may have deleted its element (or that successor, whose memory
outlives the walk under RCU); of an RHASH at what follows the key of this element, which ends the walk if it is gone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

from model.bits import B, W
from model.errors import Unsupported
from model.kernel.abi import Extension
from model.kernel.c_body import Integer
from model.maps.allocation import Parameters, bits_of, parameters
from model.memory import Outside
from model.semantics import frames
from model.semantics.call import REGISTER, in_register, widen
from model.semantics.step import State
from model.world import World
from proofs.properties.callback import REACH, Callback
from proofs.properties.callback_c import Turn
from proofs.properties.paths import PATH, path_of, taken
from proofs.properties.planted import faulty_ends, faulty_outside
from proofs.properties.tracked import Tracked, Truth, Word
from proofs.properties.whole import Run, Side, Whole
from proofs.properties.whole_calls import MAP, Calls
from proofs.properties.whole_ends import End, outside_names, same_ends

HELPER = "for_each_map_elem"
STEP = "agree/step"
WAYS = ("stopped", "going-on")
"""Out of a turn: what a program's callback returns decides which there are."""


@dataclass(frozen=True, eq=False)
class User:
    """The claim. `pair` has the programs; `before` and `after` are the walk on each side (equal but for seeded faults).

    `map` is the map's number, `given` what is known of its parameters; `starts` are the slots where the callback begins
    on each side. `function` is the operation that is called directly after, "" where the helper stays. Two claims are
    one only if they are one object.
    """

    pair: Whole
    name: str
    before: Callback
    after: Callback
    map: int
    given: Mapping[str, int]
    starts: tuple[int, int]
    function: str
    fault: Literal["", "world", "step"] = ""

    def __call__(self, world: World[W, B]) -> Mapping[str, B]:
        tracked = Tracked(world)
        sides = [
            _Walk.of(self, self.before, self.pair.before, self.starts[0], direct=False),
            _Walk.of(self, self.after, self.pair.after, self.starts[1], direct=bool(self.function)),
        ]
        parts: dict[str, Truth[B]] = {}
        for walk in sides:
            found = walk(tracked)
            side = walk.side.name
            parts |= {f"{side}/{part}": one for part, one in found.items() if not part.startswith(REACH)}
            parts |= {f"{PATH}{side}/{way}": found[REACH + way] for way in WAYS}
            parts |= taken(tracked, STEP, side, [(end.label, end) for end in walk.seen[0].ends])
        parts |= _agreement(self, tracked, *sides)
        b = tracked.bits(REGISTER)
        return {part: b.condition(condition) for part, condition in parts.items()}

    def reason(self, part: str) -> str:
        bits, last = self.after.result.bits, part.rpartition("/")[2]
        narrow_ = self.function and bits < REGISTER and self.pair.abi.result is Extension.NOBODY
        if narrow_ and part in ("after/flags", "after/count", "after/end", "agree/returned"):
            return f"{self.function} returns {bits} bits: a direct call leaves the rest of r0 unspecified"
        return self.before.reason(last)

    @cached_property
    def _planted(self) -> "dict[str, User]":
        return {}

    def planted(self, part: str) -> "User":
        """The part's own side, or the one after, with an edit of the walk's C, with another world at the callback's
        begin or end, or without a function where the callback's address points.
        """
        side, _, rest = part.partition("/")
        key = STEP if part.startswith(STEP) else part
        if key not in self._planted:
            self._planted[key] = self._with_fault(side, rest)
        return self._planted[key]

    def _with_fault(self, side: str, part: str) -> "User":
        if side == "before":
            return replace(self, before=self.before.planted(part))
        if part in ("address", "entry"):
            after = self.pair.after
            nowhere = replace(after, program=replace(after.program, subprograms=()))
            return replace(self, pair=replace(self.pair, after=nowhere))
        if side == "agree" and part.startswith("step/"):
            return replace(self, fault="step")
        if side == "agree" and part == "world":
            return replace(self, fault="world")
        like = {"arguments": "value", "returned": "count"} if side == "agree" else {}
        return replace(self, after=self.after.planted(like.get(part, part)))

    def function_at(self, side: Side, start: int) -> int | None:
        """The number of the function that begins at slot `start`."""
        found = [number for number, one in enumerate(side.program.subprograms) if one.start == start]
        return found[0] if found else None


@dataclass(frozen=True, slots=True)
class _Seen:
    """The callback of one step: its arguments, the world that it is called in, its ends."""

    arguments: Sequence[Word[Any]]
    entered: Any
    ends: Sequence[End[Any, Any]]


@dataclass(frozen=True, slots=True)
class _Stepped:
    """The walk's turn, and r0 of the walk where it stops there."""

    turn: Turn[Any, Any]
    returned: Any


@dataclass(frozen=True, slots=True, eq=False)
class _Walk(Callback):
    """One side's walk, with the program's callback in the place of any."""

    user: User = field(kw_only=True)
    side: Side = field(kw_only=True)
    start: int = field(kw_only=True)
    direct: bool = field(kw_only=True)
    seen: list[_Seen] = field(kw_only=True, default_factory=list)
    stepped: list[_Stepped] = field(kw_only=True, default_factory=list)

    @staticmethod
    def of(user: User, walk: Callback, side: Side, start: int, *, direct: bool) -> "_Walk":
        shared = walk.map_type, walk.code, walk.number, walk.result, walk.allocation, walk.bounded
        return _Walk(*shared, user=user, side=side, start=start, direct=direct)

    def _parameters(self, world: World[W, B]) -> Parameters[W]:
        given = {name: world.bits(bits_of(name)).const(value) for name, value in self.user.given.items()}
        return parameters(world, self.map_type, "map", given)

    def _map(self, world: World[W, B]) -> W:
        return world.fresh(f"{MAP}{self.user.map}", REGISTER)

    def _identity(self, world: World[W, B]) -> W:
        """The callback's address: the same on both sides where it is the same function's start."""
        number = self.user.function_at(self.side, self.start)
        other = f"{self.side.name}: &slot {self.start}"
        return world.fresh(other if number is None else f"&function {number}", REGISTER)

    def _register(self, world: World[W, B], word: W) -> W:
        """A direct call leaves the operation's result in r0 as the ABI has it, the helper converts it to u64."""
        if not self.direct:
            return widen(world, word, self.result)
        rule = self.user.pair.abi.result
        return in_register(world, rule, word, self.result, f"{self.side.name}: unspecified bits of the result")

    def _show(self, world: World[W, B], there: Parameters[W], made: W) -> None:
        if self.side.name == "before":  # both sides start from one state
            Callback._show(self, world, there, made)

    def _stepped(self, turn: Turn[Any, Any], returned: Any) -> None:
        self.stepped.append(_Stepped(turn, returned))

    def _called(self, world: Any, arguments: tuple[Any, ...], before: Any) -> tuple[Any, Any]:
        """The callback's instructions on this side, from the registers and the world that the walk hands over."""
        fault = self.user.fault if self.side.name == "after" else ""
        before = faulty_outside(world, before) if fault == "world" else before
        made = [(word, REGISTER) for word in (before.callbacks, self._identity(world), *arguments)]
        entered = replace(before, callbacks=world.apply("callback made", REGISTER, made))
        run: Run[Any, Any] = Run(self.user.pair, world, self.side, self.user.name, ())
        registers: list[Any] = [None] * frames.REGISTERS
        for register, word in zip(frames.ARGUMENTS, arguments, strict=True):
            registers[register] = word
        registers[frames.FRAME_POINTER] = run.frame(0)
        b = world.bits(REGISTER)
        ends = run.follow(State(tuple(registers), entered, self.start, b.true()))
        if not ends:
            raise Unsupported(f"the callback {self.user.name} has no end")
        ends = faulty_ends(world, ends) if fault == "step" else ends
        self.seen.append(_Seen(arguments, before, ends))
        return _joined(world, ends)


def spoken_of(part: str) -> str:
    """The path that a part of the claim speaks of; "" where it speaks of all."""
    if part.startswith(STEP):
        return path_of(part)
    side, _, what = part.partition("/")
    way = {"stop": "stopped", "count": "stopped", "returned": "stopped", "next": "going-on"}.get(what)
    if way is None or (side, what) == ("agree", "count"):
        return ""
    return f"{PATH}{'before' if side == 'agree' else side}/{way}"


def _joined(world: Any, ends: Sequence[End[Any, Any]]) -> tuple[Any, Any]:
    """r0 and the world outside behind whichever path is taken."""
    b = world.bits(REGISTER)
    r0, names = ends[-1].r0, outside_names(ends[-1])
    for end in ends[-2::-1]:
        r0 = b.ite(end.guard, end.r0, r0)
        names = tuple(b.ite(end.guard, one, other) for one, other in zip(outside_names(end), names, strict=True))
    return r0, Outside(world, *names)


def _agreement(user: User, world: Tracked[W, B], before: _Walk, after: _Walk) -> dict[str, Truth[B]]:
    """The two steps, one against the other."""
    b = world.bits(REGISTER)
    one, two = before.seen[0], after.seen[0]
    number = user.function_at(after.side, after.start)
    right = number is not None and number == user.function_at(before.side, before.start)
    world.show("the callback's slot before", 32, world.bits(32).const(before.start))
    world.show("the callback's slot after", 32, world.bits(32).const(after.start))
    parts = {
        "agree/address": b.true() if right else b.negate(b.true()),
        "agree/entry": _entry(user, world, before, after),
        "agree/arguments": b.conj(*(b.eq(x, y) for x, y in zip(one.arguments, two.arguments, strict=True))),
        "agree/world": b.conj(
            b.eq(one.entered.memory, two.entered.memory), b.eq(one.entered.kernel, two.entered.kernel)
        ),
    }
    parts |= same_ends(world, STEP, one.ends, two.ends)
    (r0, _), (other, _) = _joined(world, one.ends), _joined(world, two.ends)
    (mine, returned), (its, given) = ((walk.stepped[0].turn, walk.stepped[0].returned) for walk in (before, after))
    stopped, halted = mine.left[0], its.left[0]
    parts["agree/stop"] = b.disj(b.conj(stopped, halted), b.conj(b.negate(stopped), b.negate(halted)))
    parts["agree/returned"] = b.disj(b.negate(stopped), b.eq(returned, given))
    parts["agree/count"] = _counted_alike(world, before, after)
    for side, result, back in (("before", r0, returned), ("after", other, given)):
        world.show(f"{side}: r0 of {user.name}", REGISTER, result)
        world.show(f"{side}: r0 of the walk where it stops now", REGISTER, back)
    return parts


def _counted_alike(world: Any, before: _Walk, after: _Walk) -> Any:
    """Where the walk goes on, both sides have counted as much."""
    b, names = world.bits(REGISTER), [[name for name, _ in walk.code.counters] for walk in (before, after)]
    if names[0] != names[1]:
        return b.negate(b.true())
    same = []
    for name in names[0]:
        one, other = (walk.stepped[0].turn.going.locals[name] for walk in (before, after))
        if one is None or other is None or not isinstance(one.type, Integer) or one.type != other.type:
            return b.negate(b.true())
        same.append(world.bits(one.type.bits).eq(one.word, other.word))
    return b.conj(*same)


def _entry(user: User, world: Tracked[W, B], before: _Walk, after: _Walk) -> Truth[B]:
    """The operation gets the same map, callback, context and flags, from the helper and by the direct call."""
    b = world.bits(REGISTER)
    pair, seen = user.pair, []
    outside: Any = Outside(world, *(world.fresh(name, REGISTER) for name in ("memory", "kernel", "callbacks")))
    for walk in (before, after):
        calls = Calls(
            world, pair.release, pair.abi, walk.side.program.maps, pair.release.layout, f"{walk.side.name}, site"
        )
        words = {"map": walk._map(world), "callback": walk._identity(world)}
        names = ("map", "callback", "context", "flags", "r5")
        registers: Any = [words.get(name) or world.fresh(name, REGISTER) for name in names]
        if walk.direct:
            left = calls.direct(user.function, registers, outside, b.true())
        else:
            left = calls.helper(HELPER, registers, outside, b.true())
        seen.append(left.seen)
    return b.conj(*(b.eq(one, other) for one, other in zip(*seen, strict=True)))
