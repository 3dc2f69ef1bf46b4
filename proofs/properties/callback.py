"""Callback(release, map type): what for_each hands to the program's callback, in which order, and what it returns.

By induction over the callbacks made. The base is the loop's first test; the step begins where n callbacks were made and
all returned 0, and is one turn of the loop as the release's C has it (`proofs.properties.callback_c`). What it is to do
is written here. The callback is any function of its arguments and of the world.

An array has as many callbacks as elements. A hash can have any number, however few its entries are: a callback may
delete its element and insert one in a later bucket, or delete the successor and insert that again, whose memory is then
in front of this element.

Array and per-CPU array: callback n gets element n, where n goes from 0 to max_entries - 1. Hashes: bucket by bucket,
along each list; the successor is the one that the list had before the callback, so the callback may delete the element
it is given. RHASH (7.2 on): the next element is asked for by the key of this one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from model.bits import B, W
from model.errors import Unsupported
from model.kernel.c_body import Integer
from model.kernel.release import CType
from model.maps.allocation import ARRAYS, Parameters, Rule, parameters
from model.maps.errors import EINVAL
from model.maps.for_each import flags_refused, going_on
from model.memory import Outside
from model.semantics.c_macros import this_cpu_address
from model.semantics.c_state import offset_of
from model.semantics.c_types import Value, size_of
from model.semantics.c_walk import Invoked
from model.semantics.call import REGISTER, narrow, widen
from model.world import World
from proofs.properties.callback_c import Turn, Turns
from proofs.properties.callback_code import NEXT_KEY, Code
from proofs.properties.inline import index_kept
from proofs.properties.planted import faulty_walk

REACH = "reach/"
PARTS = ("flags", "base", "key", "value", "arguments", "stop", "count", "next", "end")
U32 = CType("u32", 32, False)
PERCPU = frozenset({"percpu_array", "percpu_hash", "lru_percpu_hash"})
KINDS: Mapping[str, Literal["array", "hash", "rhash"]] = {
    "array": "array",
    "percpu_array": "array",
    "hash": "hash",
    "percpu_hash": "hash",
    "lru_hash": "hash",
    "lru_percpu_hash": "hash",
    "rhash": "rhash",
}
"""The map types whose walk has a specification here."""
KEYS = {"hash": ("htab_elem", "key"), "rhash": ("rhtab_elem", "data")}
MAX_ERRNO = 4095  # include/linux/err.h


@dataclass(frozen=True, slots=True)
class Callback:
    """The claim. `code` is the C of the walk, `number` the type's in `enum bpf_map_type`, `result` the operation's
    type; `allocation` bounds the map's parameters. `bounded` leaves walks of 2^31 callbacks or more out. Reachable
    (`REACH`): the way out of the loop behind a callback, and the way on.
    """

    map_type: str
    code: Code
    number: int
    result: CType
    allocation: tuple[Rule, ...]
    bounded: bool = False

    def __call__(self, world: World[W, B]) -> Mapping[str, B]:
        there = self._parameters(world)
        for rule in self.allocation:
            world.assume(rule.source, rule.holds(world, there))
        b = world.bits(REGISTER)
        made = world.fresh("callbacks made", REGISTER)
        if self.kind == "array":
            total = world.bits(32).zext(there.max_entries, REGISTER)
            world.assume("no more callbacks than elements are made", b.ult(made, total))
        if self.bounded:
            world.assume("fewer than 2^31 callbacks are made", b.ult(made, b.const((1 << 31) - 1)))
        turns = self._turns(world, there)
        parts = self._flags(world, turns)
        walk = {"array": self._array, "hash": self._hash, "rhash": self._rhash}[self.kind]
        parts |= walk(world, there, made, turns)
        self._show(world, there, made)
        return parts

    @property
    def kind(self) -> str:
        return KINDS[self.map_type]

    @property
    def percpu(self) -> bool:
        return self.map_type in PERCPU

    def reason(self, part: str) -> str:
        return self.code.too_narrow(self.result, endless=self.kind != "array") if part in ("count", "end") else ""

    def planted(self, part: str) -> "Callback":
        """One edit of the walk's C."""
        return replace(self, code=faulty_walk(self.code, self.kind, part))

    # what all walks share

    def _parameters(self, world: World[W, B]) -> Parameters[W]:
        return parameters(world, self.map_type, "map")

    def _map(self, world: World[W, B]) -> W:
        """The map's address."""
        return world.fresh("map", REGISTER)

    def _identity(self, world: World[W, B]) -> W:
        """The callback's address."""
        return world.fresh("callback", REGISTER)

    def _outside(self, world: World[W, B]) -> Outside[W, B]:
        return Outside(world, *(world.fresh(name, REGISTER) for name in ("memory", "kernel", "callbacks")))

    def _turns(self, world: World[W, B], there: Parameters[W]) -> Turns[W, B]:
        """The C, with the map's members as its allocation set them, whatever else is written."""
        own = self._map(world), self._identity(world), world.fresh("context", REGISTER)
        return Turns.of(
            world, self.code, own, there, self.number, lambda words, before: self._called(world, words, before)
        )

    def _called(
        self, world: World[W, B], arguments: "tuple[W, ...]", before: Outside[W, B]
    ) -> "tuple[W, Outside[W, B]]":
        """The callback: its result and the world that it leaves, any function of its arguments and of the world."""
        seen = [(word, REGISTER) for word in (*arguments, before.memory, before.kernel, before.callbacks)]
        words = [world.apply(f"callback: {what}", REGISTER, seen) for what in ("r0", "memory", "kernel", "callbacks")]
        return words[0], Outside(world, words[1], words[2], words[3])

    def _stepped(self, turn: Turn[W, B], returned: W) -> None:
        """The turn of the induction's step, and what the walk returns where it stops there."""

    def _result(self, world: World[W, B], value: Value[W] | None) -> W:
        """r0 of the call: the operation's result, which the helper converts to u64. 0 where nothing is returned."""
        if value is None:
            return world.bits(REGISTER).const(0)
        if not isinstance(value.type, Integer) or value.type.bits != self.result.bits:
            raise Unsupported(f"{self.code.function} returns {value.type}, not {self.result.c}")
        return self._register(world, value.word)

    def _register(self, world: World[W, B], word: W) -> W:
        return widen(world, word, self.result)

    def _flags(self, world: World[W, B], turns: Turns[W, B]) -> dict[str, B]:
        """Flags other than 0 are -EINVAL, in front of everything."""
        b = world.bits(REGISTER)
        flags = world.fresh("flags", REGISTER)
        entered = turns.entered(flags, self._outside(world))
        guard, value = entered.left
        same = iff(world, guard, flags_refused(b, flags))
        refused = b.eq(self._result(world, value), b.const(-EINVAL))
        reach = {REACH + "refused": guard, REACH + "begun": b.negate(guard)}
        return reach | {"flags": b.conj(same, b.disj(b.negate(guard), refused))}

    def _step(self, world: World[W, B], made: W, turn: Turn[W, B], element: "tuple[B, W]") -> dict[str, B]:
        """A turn with an element; `element` has whether its key is handed over, and the address of its value."""
        b = world.bits(REGISTER)
        call, following = turn.call, b.add(made, b.const(1))
        key, value = element
        guard, left = turn.left
        returned = self._result(world, left)
        self._stepped(turn, returned)
        own = ((0, self._map(world)), (3, world.fresh("context", REGISTER)), (4, b.const(0)))
        kept = [b.eq(call.arguments[at], word) for at, word in own]
        return {
            "key": key,
            "value": b.eq(call.arguments[2], value),
            "arguments": b.conj(call.guard, b.eq(call.pointer, self._identity(world)), *kept),
            "stop": b.conj(iff(world, guard, b.negate(going_on(b, call.result))), b.disj(guard, turn.going.guard)),
            "count": b.disj(b.negate(guard), b.eq(returned, following)),
            REACH + "stopped": guard,
            REACH + "going-on": b.negate(guard),
        }

    def _ended(self, world: World[W, B], turns: Turns[W, B], turn: Turn[W, B], made: W) -> B:
        """Were this turn the last: n + 1 callbacks are counted, and returned behind the loop's end."""
        b = world.bits(REGISTER)
        following = b.add(made, b.const(1))
        _, value = turns.ended(turn.following)
        counted = turns.counts(turn.following, following)
        return b.conj(counted, b.eq(self._result(world, value), following))

    def _first(self, world: World[W, B], turns: Turns[W, B], total: W) -> B:
        """The first test lets the walk begin if there is anything; else it returns 0."""
        b = world.bits(REGISTER)
        first = turns.first(self._outside(world))
        begins = turns.test(first)
        none = b.eq(self._result(world, turns.ended(first)[1]), b.const(0))
        return b.conj(iff(world, begins, b.ult(b.const(0), total)), b.disj(begins, none))

    # arrays

    def _array(self, world: World[W, B], there: Parameters[W], made: W, turns: Turns[W, B]) -> dict[str, B]:
        """Element n; its key is a u32 of the walk's own, with n in it."""
        b, narrow_ = world.bits(REGISTER), world.bits(32)
        total = narrow_.zext(there.max_entries, REGISTER)
        key = narrow(world, made, U32)
        world.assume("lemma: an index in bounds keeps its bits", index_kept(world, key, there))
        before = self._outside(world)
        turn = turns.turn(turns.head(made, made, before))
        nth = b.add(made, b.const(1))
        value = self._element(world, there, narrow_.bvand(key, there.index_mask), before)
        parts = self._step(world, made, turn, (_own_key(world, turn.call, key), value))
        parts["base"] = self._first(world, turns, total)
        another = turns.test(turn.following)
        more = iff(world, another, b.ult(nth, total))
        parts |= {REACH + "another": another, REACH + "last": b.negate(another)}
        parts["next"] = b.conj(more, turns.at_turn(turn.following, nth))
        parts["end"] = self._ended(world, turns, turn, made)
        return parts

    def _element(self, world: World[W, B], there: Parameters[W], index: W, before: Outside[W, B]) -> W:
        """array->value + (u64)elem_size * index; per-CPU, this CPU's area of array->pptrs[index]."""
        b = world.bits(REGISTER)
        wide = world.bits(32).zext(index, REGISTER)
        if self.percpu:
            start = b.add(self._map(world), self._offset(world, "bpf_array", "pptrs"))
            return this_cpu_address(world, before.load(b.add(start, b.mul(wide, b.const(8))), 8))
        start = b.add(self._map(world), self._offset(world, "bpf_array", "value"))
        return b.add(start, b.mul(world.bits(32).zext(there.elem_size, REGISTER), wide))

    def _offset(self, world: World[W, B], struct: str, member: str) -> W:
        return offset_of(world, dict(self.code.layout), struct, member)

    # hashes

    def _listed(self, world: World[W, B], there: Parameters[W], elem: W, before: Outside[W, B]) -> "tuple[W, W]":
        """Key and value of the element at `elem`: the value behind the key, whose size is rounded up to 8; per-CPU,
        this CPU's area of the pointer that is there.
        """
        b = world.bits(REGISTER)
        key = b.add(elem, self._offset(world, *KEYS[self.kind]))
        seven = b.add(world.bits(32).zext(there.key_size, REGISTER), b.const(7))
        value = b.add(key, b.bvand(seven, b.const(~7)))
        return key, this_cpu_address(world, before.load(value, 8)) if self.percpu else value

    def _hash(self, world: World[W, B], there: Parameters[W], made: W, turns: Turns[W, B]) -> dict[str, B]:
        """The list goes on with what followed the element before the callback; behind its end, with the next of
        n_buckets = roundup_pow_of_two(max_entries) buckets, which are 2^31 at most.
        """
        b, narrow_ = world.bits(REGISTER), world.bits(32)
        count, bucket = (narrow_.zext(world.fresh(name, 32), REGISTER) for name in ("n_buckets", "bucket"))
        world.assume("roundup_pow_of_two of at most 2^31", b.ule(count, b.const(1 << 31)))
        world.assume("the list is one of the table's", b.ult(bucket, count))
        before, elem = self._outside(world), world.fresh("elem", REGISTER)
        at = turns.listed(turns.head(bucket, made, before))
        node = b.add(elem, self._offset(world, "htab_elem", "hash_node"))
        turn = turns.visited(at, node)
        key, value = self._listed(world, there, elem, before)
        parts = self._step(world, made, turn, (b.eq(turn.call.arguments[1], key), value))
        heads = before.load(b.add(self._map(world), self._offset(world, "bpf_htab", "buckets")), 8)
        place = b.add(heads, b.mul(bucket, size_of(world, "bucket")))
        nth = b.add(bucket, b.const(1))
        another = turns.test(turn.following)
        parts |= {REACH + "another-bucket": another, REACH + "last-bucket": b.negate(another)}
        parts["base"] = self._first(world, turns, count)
        parts["next"] = b.conj(
            b.eq(at.head, b.add(place, self._offset(world, "bucket", "head"))),
            b.eq(turns.position(turn), before.load(node, 8)),
            iff(world, another, b.ult(nth, count)),
            turns.at_turn(turn.following, nth),
        )
        parts["end"] = self._ended(world, turns, turn, made)
        return parts

    def _rhash(self, world: World[W, B], there: Parameters[W], made: W, turns: Turns[W, B]) -> dict[str, B]:
        """rhashtable_next_key(ht, prev_key): NULL first, then the address of the key at hand. It gives an element, or
        NULL or an error where there is none, which ends the walk.
        """
        b = world.bits(REGISTER)
        table = b.add(self._map(world), self._offset(world, "bpf_rhtab", "ht"))
        elem, none = (world.fresh(name, REGISTER) for name in ("elem", "no element"))
        error = b.const(-MAX_ERRNO)
        world.assume("an element is no NULL and no error", b.conj(b.ult(b.const(0), elem), b.ult(elem, error)))
        world.assume("NULL or an error", b.disj(b.eq(none, b.const(0)), b.ule(error, none)))
        before, previous = self._outside(world), world.fresh("prev_key", REGISTER)
        turn = turns.turn(turns.head(made, made, before, previous), found=elem)
        key, value = self._listed(world, there, elem, before)
        parts = self._step(world, made, turn, (b.eq(turn.call.arguments[1], key), value))
        first = turns.first(before)
        begun = turns.turn(first, found=none)
        guard, value_ = begun.left
        parts["base"] = b.conj(
            b.eq(turns.cursor(first), b.const(0)), guard, b.eq(self._result(world, value_), b.const(0))
        )
        asked = [b.eq(one, other) for one, other in zip(turn.asked[NEXT_KEY], (table, previous), strict=True)]
        parts["next"] = b.conj(*asked, b.eq(turns.cursor(turn.following), key))
        last = turns.turn(turn.following, found=none)
        guard, value_ = last.left
        parts[REACH + "last"] = guard
        following = b.add(made, b.const(1))
        parts["end"] = b.conj(
            turns.counts(turn.following, following),
            b.disj(b.negate(turn.following.guard), guard),
            b.eq(self._result(world, value_), following),
        )
        return parts

    def _show(self, world: World[W, B], there: Parameters[W], made: W) -> None:
        b = world.bits(REGISTER)
        world.show("callbacks made", REGISTER, made)
        for value in (0, 1, (1 << 31) - 1, (1 << 32) - 1):
            world.prefer(b.eq(made, b.const(value)))
        names = ("max_entries", "value_size") if self.map_type in ARRAYS else ("max_entries", "key_size")
        entries = 1 << 31 if self.kind == "array" else 2
        for name in names:
            word = getattr(there, name)
            world.show(f"map->{name}", 32, word)
            world.prefer(world.bits(32).eq(word, world.bits(32).const(entries if name == "max_entries" else 8)))


def _own_key(world: World[W, B], call: Invoked[W, B], key: W) -> B:
    """The second argument is the address of a u32 of the walk's own with `key` in it."""
    b, narrow_ = world.bits(REGISTER), world.bits(32)
    own = [
        b.conj(b.eq(call.arguments[1], address), narrow_.eq(held.word, key))
        for address, held in call.locals.values()
        if isinstance(held.type, Integer) and held.type.bits == 32
    ]
    return b.disj(*own) if own else b.negate(b.true())


def iff(world: World[W, B], one: B, other: B) -> B:
    b = world.bits(1)
    return b.eq(b.ite(one, b.const(1), b.const(0)), b.ite(other, b.const(1), b.const(0)))
