"""The C of a walk, read by an induction: where it begins, one turn from a supposed state, how it ends.

Nothing here says what a walk is to do. The state that a turn begins in is the one that the C reaches after n turns: the
loop's index is n times its step from where it began, a counter (a local that each turn changes by the same amount) n
times that; other locals that the loop changes have no value until a turn gives them one. What is carried from
turn to turn in another way is `Unsupported`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic

from model.bits import B, W
from model.errors import Unsupported
from model.kernel.c_body import Body, Each, Integer, Pointer, Step, Struct
from model.maps.allocation import NAMES, STRUCTS, Parameters
from model.memory import Outside
from model.semantics.c import Runner
from model.semantics.c_state import Frame, Left, offset_of
from model.semantics.c_types import Value
from model.semantics.c_walk import (
    Done,
    Invoked,
    Split,
    Walker,
    after_turns,
    assigned,
    joined,
    left_by,
)
from model.world import World
from proofs.properties.callback_code import NEXT_KEY, Code

ADDRESS = 64  # bits


@dataclass(frozen=True, slots=True)
class Entered(Generic[W, B]):
    """The walk's beginning: the state at the loop's first test, and the paths that return in front of it."""

    going: Frame[W, B] | None
    left: tuple[B, Value[W] | None]


@dataclass(frozen=True, slots=True)
class Listed(Generic[W, B]):
    """In front of an element of a list: the state, and the address of the list's head."""

    frame: Frame[W, B]
    head: W


@dataclass(frozen=True, slots=True)
class Turn(Generic[W, B]):
    """One turn: the callback made in it, the paths that leave the walk, the state behind the body (`going`) and in
    front of the loop's next test (`following`; of a list, equal). `asked` has the arguments of functions elsewhere.
    """

    calls: tuple[Invoked[W, B], ...]
    left: tuple[B, Value[W] | None]
    body: Frame[W, B] | None
    next: Frame[W, B] | None
    asked: Mapping[str, tuple[W, ...]]

    @property
    def call(self) -> Invoked[W, B]:
        if len(self.calls) != 1:
            raise Unsupported(f"{len(self.calls)} calls of the callback in one turn of the walk")
        return self.calls[0]

    @property
    def going(self) -> Frame[W, B]:
        if self.body is None:
            raise Unsupported("a walk that never goes on")
        return self.body

    @property
    def following(self) -> Frame[W, B]:
        if self.next is None:
            raise Unsupported("a walk that never goes on")
        return self.next


Calls = Callable[[tuple[W, ...], Outside[W, B]], tuple[W, Outside[W, B]]]


@dataclass(frozen=True, slots=True)
class Turns(Generic[W, B]):
    """`code` over `world`, for the map, callback and context in `own`; `called` is what the callback does."""

    world: World[W, B]
    code: Code
    own: tuple[W, W, W]
    members: Mapping[tuple[str, str], W]
    called: "Calls[W, B]"

    @staticmethod
    def of(
        world: World[W, B], code: Code, own: tuple[W, W, W], there: Parameters[W], number: int, called: "Calls[W, B]"
    ) -> "Turns[W, B]":
        members = {(STRUCTS[name], name): getattr(there, name) for name in NAMES}
        members["bpf_map", "map_type"] = world.bits(32).const(number)
        members["bpf_htab", "n_buckets"] = world.fresh("n_buckets", 32)
        return Turns(world, code, own, members, called)

    def _loaded(self, struct: str, member: str, address: W, word: W) -> W:
        """The map's members are what its allocation set, whatever else is written."""
        known = self.members.get((struct, member))
        if known is None:
            return word
        b = self.world.bits(ADDRESS)
        home = b.add(self.own[0], offset_of(self.world, dict(self.code.layout), struct, member))
        bits = self.world.bits(8 if member == "bypass_spec_v1" else 32)
        return bits.ite(b.eq(address, home), known, word)

    def _walker(self, found: W | None = None, asked: "dict[str, tuple[W, ...]] | None" = None) -> Walker[W, B]:
        def unknown(
            body: Body, values: Sequence[Value[W]], outside: Outside[W, B]
        ) -> tuple[Value[W] | None, Outside[W, B]]:
            if body.function != NEXT_KEY or found is None or asked is None:
                raise Unsupported(f"a call of {body.function}, whose body is in another file")
            asked[NEXT_KEY] = tuple(value.word for value in values)
            return Value(body.result, found), outside

        bodies = {body.function: body for body in self.code.bodies}
        runner = Runner(self.world, bodies, dict(self.code.layout), unknown, self._loaded)
        return Walker(runner, self.code.body, lambda words, outside: self.called(tuple(words), outside))

    def entered(self, flags: W, before: Outside[W, B]) -> Entered[W, B]:
        """The walk's call, up to the loop's first test."""
        params = self.code.body.params
        if len(params) != 4 or not isinstance(params[3].type, Integer):
            raise Unsupported(f"{self.code.function} with other parameters than a walk's")
        kinds = Pointer(Struct("bpf_map")), params[1].type, params[2].type, Integer(ADDRESS, False)
        values = [Value(kind, word) for kind, word in zip(kinds, (*self.own, flags), strict=True)]
        walker, parts = self._walker(), self.code.whole
        done = walker.run(parts.before + self.code.outer.first, walker.entry(values, before))
        if done.exits or done.invoked:
            raise Unsupported(f"{self.code.function} does more than return or begin in front of its loop")
        return Entered(done.going, left_by(self.world, done.left))

    def first(self, before: Outside[W, B]) -> Frame[W, B]:
        """The state at the loop's first test, with flags 0."""
        b = self.world.bits(ADDRESS)
        going = self.entered(b.const(0), before).going
        if going is None:
            raise Unsupported(f"{self.code.function} never comes to its loop")
        return replace(going, guard=b.true())

    def head(self, turn: W, made: W, before: Outside[W, B], cursor: W | None = None) -> Frame[W, B]:
        """The state at the loop's test, where `turn` turns and `made` callbacks were made, in the world `before`."""
        first, code = self.first(before), self.code
        names: dict[str, Value[W] | None] = dict.fromkeys(assigned((code.outer,)) - assigned(code.outer.first))
        names |= dict.fromkeys(assigned(code.outer.first) & assigned(code.outer.body + code.outer.following))
        for role, by in code.counters:
            names[role] = after_turns(self.world, _known(first, role), by, made)
        if code.index is not None:
            names[code.index[0]] = after_turns(self.world, _known(first, code.index[0]), code.index[1], turn)
        if code.cursor is not None and cursor is not None:
            names[code.cursor] = Value(_known(first, code.cursor).type, cursor)
        return replace(first, locals={**first.locals, **names}, outside=before)

    def test(self, frame: Frame[W, B]) -> B:
        return self._walker().holds(self.code.outer, frame)[0]

    def ended(self, frame: Frame[W, B]) -> tuple[B, Value[W] | None]:
        """What is returned from this state where the loop ends."""
        return left_by(self.world, self._walker().out(self.code.whole.after, "break", frame))

    def turn(self, frame: Frame[W, B], found: W | None = None) -> Turn[W, B]:
        """One turn of the loop from its test in the state `frame`; `found` is what functions elsewhere answer."""
        b, asked = self.world.bits(ADDRESS), dict[str, tuple[W, ...]]()
        walker, loop = self._walker(found, asked), self.code.outer
        holds, frame = walker.holds(loop, frame)
        frame, over = replace(frame, guard=holds), replace(frame, guard=b.negate(holds))
        done = walker.run(loop.body, frame)
        left = [*done.left, *walker.out(self.code.whole.after, "break", over)]
        going, away = self._sorted(walker, done, self.code.whole.after, "break")
        return Turn(done.invoked, left_by(self.world, [*left, *away]), going, self._followed(walker, going), asked)

    def _followed(self, walker: Walker[W, B], going: Frame[W, B] | None) -> Frame[W, B] | None:
        return None if going is None else walker.run(self.code.outer.following, going).going

    def _sorted(
        self, walker: Walker[W, B], done: Done[W, B], after: tuple[Step, ...], ends: str
    ) -> tuple[Frame[W, B] | None, list[Left[W, B]]]:
        """Where a body's paths go: on to the next turn, or out of the walk (`ends` and jumps)."""
        on = [frame for name, frame in done.exits if name == "continue"]
        on += [] if done.going is None else [done.going]
        out = [
            one
            for name, frame in done.exits
            if name not in ("continue", "") and (name != "break" or ends == "break")
            for one in walker.out(after, name, frame)
        ]
        return joined(self.world, on), out

    # walks along lists

    def listed(self, frame: Frame[W, B]) -> Listed[W, B]:
        """In front of an element of the list of the turn that begins in the state `frame`."""
        inner, walker = self._inner(), self._walker()
        done = walker.run(inner.before, frame)
        if done.going is None or done.exits or done.left or done.invoked:
            raise Unsupported(f"{self.code.function} does more than find a list in front of it")
        loop = self._each()
        head = walker.value(loop.head, done.going).word
        changed = assigned((loop,)) - {name for name, _ in self.code.counters}
        return Listed(replace(done.going, locals={**done.going.locals, **dict.fromkeys(changed)}), head)

    def visited(self, at: Listed[W, B], node: W) -> Turn[W, B]:
        """The turn of the list at `node`."""
        b, loop, walker = self.world.bits(ADDRESS), self._each(), self._walker()
        offset = offset_of(self.world, dict(self.code.layout), loop.struct, loop.member)
        entry = Value(Pointer(Struct(loop.struct)), b.sub(node, offset))
        link = at.frame.outside.load(node, ADDRESS // 8) if loop.early else node
        kind = at.frame.types.get(loop.position)
        if not isinstance(kind, Pointer):
            raise Unsupported(f"{self.code.function}: {loop.position} is no pointer to a list's node")
        here: dict[str, Value[W] | None] = {loop.entry: entry, loop.position: Value(kind, link)}
        done = walker.run(loop.body, replace(at.frame, locals={**at.frame.locals, **here}))
        going, away = self._sorted(walker, done, self.code.whole.after, "")
        return Turn(done.invoked, left_by(self.world, [*done.left, *away]), going, self._behind(walker, going), {})

    def position(self, turn: Turn[W, B]) -> W:
        """The node that the list goes on with."""
        loop, frame = self._each(), turn.going
        word = _known(frame, loop.position).word
        return word if loop.early else frame.outside.load(word, ADDRESS // 8)

    def _behind(self, walker: Walker[W, B], frame: Frame[W, B] | None) -> Frame[W, B] | None:
        """At the outer loop's next test, were the list to end behind this turn."""
        if frame is None:
            return None
        done = walker.run(self._inner().after, frame)
        if done.exits or done.left or done.invoked:
            raise Unsupported(f"{self.code.function} does more than go on behind a list")
        return self._followed(walker, done.going)

    def _inner(self) -> Split:
        inner = self.code.inner
        if inner is None:
            raise Unsupported(f"{self.code.function} does not walk along lists")
        return inner

    def _each(self) -> Each:
        loop = self._inner().loop
        if not isinstance(loop, Each):
            raise Unsupported(f"{self.code.function} does not walk along lists")
        return loop

    # what a state has

    def counts(self, frame: Frame[W, B], made: W) -> B:
        """The counters are what `made` turns make of them."""
        return self.world.bits(ADDRESS).conj(*(self._is(frame, role, made) for role in self.code.counters))

    def at_turn(self, frame: Frame[W, B], turn: W) -> B:
        """The index is what `turn` turns make of it."""
        return self._is(frame, self.code.index, turn)

    def cursor(self, frame: Frame[W, B]) -> W:
        name = self.code.cursor
        if name is None:
            raise Unsupported(f"{self.code.function} does not ask for the next key by one local")
        return _known(frame, name).word

    def _is(self, frame: Frame[W, B], role: tuple[str, int] | None, count: W) -> B:
        if role is None:
            return self.world.bits(ADDRESS).true()
        first = self.first(frame.outside)
        wanted, found = after_turns(self.world, _known(first, role[0]), role[1], count), _known(frame, role[0])
        bits = self.world.bits(wanted.type.bits if isinstance(wanted.type, Integer) else ADDRESS)
        return bits.eq(wanted.word, found.word)


def _known(frame: Frame[W, B], name: str) -> Value[W]:
    value = frame.locals.get(name)
    if value is None:
        raise Unsupported(f"{name} has no known value where a turn begins or ends")
    return value
