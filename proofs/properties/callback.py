"""Callback(release, map type): what for_each hands to the program's callback, in which order, and what it returns.

By induction over the callbacks made. The base is the loop's first test; the step begins where n callbacks were made and
all returned 0, and is one run of the loop's body. The C of the loops is a row (`Loop`): their statements are the same
in every release read, what differs are types. The callback is any function of its arguments and of the world.

Array and per-CPU array (bpf_for_each_array_elem, kernel/bpf/arraymap.c): callback n gets element n, where n goes from 0
to max_entries − 1. Hashes (bpf_for_each_hash_elem, kernel/bpf/hashtab.c): bucket by bucket, along each list; the
successor is the one that the list had before the callback, so the callback may delete the element it is given. RHASH
(bpf_each_rhash_elem, kernel/bpf/hashtab.c, 7.2 on): the next element is asked for by the key of this one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from model.bits import B, W
from model.kernel.release import CType
from model.maps.allocation import ARRAYS, Parameters, Rule, parameters
from model.maps.errors import EINVAL
from model.maps.for_each import flags_refused, going_on
from model.memory import Outside
from model.semantics.c_macros import this_cpu_address
from model.semantics.call import REGISTER, narrow, widen
from model.world import World
from proofs.properties.inline import index_kept

REACH = "reach/"
PARTS = ("flags", "base", "key", "value", "arguments", "stop", "count", "next", "end")
U32 = CType("u32", 32, False)
INT = CType("int", 32, True)
HLIST_NULLS = 1  # the low bit of a list's end mark (include/linux/list_nulls.h)


@dataclass(frozen=True, slots=True)
class Loop:
    """The C of one walk. `result` is the operation's type, `counter` that of `num_elems`, `index` that of `i`.

    The other fields are as the source has them, and are what a seeded fault changes: where `i` begins, by how much it
    moves, whether it may reach its bound (`inclusive`); how many bits of flags and of the callback's result are looked
    at; the callback's arguments; how far `ahead` of `i` the value is; what is `counted`, and whether the last callback
    is (`count_stop`); (lists) whether the successor is read before the callback, whether the key's size is `rounded`;
    (per-CPU) whether the value is this CPU's (`here`).
    """

    kind: Literal["array", "hash", "rhash"]
    result: CType
    counter: CType
    index: CType
    start: int = 0
    step: int = 1
    inclusive: bool = False
    flags_bits: int = 64
    stop_bits: int = 64
    arguments: tuple[str, ...] = ("map", "key", "value", "context", "0")
    ahead: int = 0
    counted: int = 1
    count_stop: bool = True
    successor_first: bool = True
    rounded: bool = True
    here: bool = True


@dataclass(frozen=True, slots=True)
class Callback:
    """The claim. `allocation` bounds the map's parameters; `key` is the offset of the key in an element of a list.

    `bounded` leaves walks of 2^31 callbacks or more out. Reachable (`REACH`): the way out of the loop behind a
    callback, and the way on.
    """

    map_type: str
    loop: Loop
    allocation: tuple[Rule, ...]
    percpu: bool
    key: int = 0
    bounded: bool = False

    def __call__(self, world: World[W, B]) -> Mapping[str, B]:
        there = self._parameters(world)
        for rule in self.allocation:
            world.assume(rule.source, rule.holds(world, there))
        b = world.bits(REGISTER)
        made = world.fresh("callbacks made", REGISTER)
        total = world.bits(32).zext(there.max_entries, REGISTER)
        world.assume("no more callbacks than elements are made", b.ult(made, total))
        if self.bounded:
            world.assume("fewer than 2^31 callbacks are made", b.ult(made, b.const((1 << 31) - 1)))
        before = Outside(world, world.fresh("memory", 64), world.fresh("kernel", 64), world.fresh("callbacks", 64))
        parts = self._flags(world)
        parts |= self._array(world, there, made, before) if self.loop.kind == "array" else {}
        parts |= self._listed(world, there, made, before) if self.loop.kind != "array" else {}
        self._show(world, there, made)
        return parts

    def reason(self, part: str) -> str:
        counter, result = self.loop.counter, self.loop.result
        narrowest = counter if counter.signed else result
        if part in ("count", "end") and narrowest.signed and narrowest.bits < REGISTER:
            return f"the count of {narrowest.bits} bits (signed) is negative from 2^{narrowest.bits - 1} callbacks on"
        return ""

    # what all walks share

    def _parameters(self, world: World[W, B]) -> Parameters[W]:
        return parameters(world, self.map_type, "map")

    def _map(self, world: World[W, B]) -> W:
        """The map's address."""
        return world.fresh("map", REGISTER)

    def _flags(self, world: World[W, B]) -> dict[str, B]:
        """`if (flags != 0) return -EINVAL`, in front of everything."""
        b, bits = world.bits(REGISTER), world.bits(self.loop.flags_bits)
        flags = world.fresh("flags", REGISTER)
        refused = b.negate(bits.eq(b.extract(flags, self.loop.flags_bits - 1, 0), bits.const(0)))
        same = _iff(world, refused, flags_refused(b, flags))
        return {"flags": b.conj(same, b.eq(self._returned(world, INT, -EINVAL), b.const(-EINVAL)))}

    def _returned(self, world: World[W, B], ctype: CType, value: int | W) -> W:
        """`return value`, of type `ctype`: converted to the operation's result, and by the helper to u64."""
        word = world.bits(ctype.bits).const(value) if isinstance(value, int) else value
        wide = widen(world, word, ctype)
        return widen(world, narrow(world, wide, self.loop.result), self.loop.result)

    def _called(
        self, world: World[W, B], handed: Mapping[str, W], before: Outside[W, B]
    ) -> tuple[Sequence[W], W, Outside[W, B]]:
        """callback_fn(…): its five arguments as handed over, its result, the world that it leaves."""
        arguments = [handed[name] for name in self.loop.arguments]
        seen = [(word, REGISTER) for word in (*arguments, before.memory, before.kernel, before.callbacks)]
        words = [world.apply(f"callback: {what}", REGISTER, seen) for what in ("r0", "memory", "kernel", "callbacks")]
        return arguments, words[0], Outside(world, words[1], words[2], words[3])

    def _counted(self, world: World[W, B], made: W, result: W) -> tuple[B, W, W]:
        """Whether the loop is left at `if (ret) break`, what is returned then, and num_elems for the next turn."""
        b, bits = world.bits(REGISTER), world.bits(self.loop.counter.bits)
        stopped = b.negate(b.true())  # where no bit is looked at
        if self.loop.stop_bits:
            looked_at = world.bits(self.loop.stop_bits)
            stopped = b.negate(looked_at.eq(b.extract(result, self.loop.stop_bits - 1, 0), looked_at.const(0)))
        before = narrow(world, made, self.loop.counter)
        after = bits.add(before, bits.const(self.loop.counted))
        at_stop = after if self.loop.count_stop else before
        return stopped, self._returned(world, self.loop.counter, at_stop), after

    def _common(
        self,
        world: World[W, B],
        made: W,
        arguments: Sequence[W],
        wanted: Mapping[str, W],
        result: W,
    ) -> dict[str, B]:
        b = world.bits(REGISTER)
        following = b.add(made, b.const(1))
        stopped, returned, after = self._counted(world, made, result)
        ended = self._returned(world, self.loop.counter, after)
        kept = world.bits(self.loop.counter.bits).eq(after, narrow(world, following, self.loop.counter))
        return {
            "key": b.eq(arguments[1], wanted["key"]),
            "value": b.eq(arguments[2], wanted["value"]),
            "arguments": b.conj(*[b.eq(arguments[i], wanted[n]) for i, n in ((0, "map"), (3, "context"), (4, "0"))]),
            "stop": _iff(world, stopped, b.negate(going_on(b, result))),
            "count": b.disj(b.negate(stopped), b.eq(returned, following)),
            "end": b.conj(kept, b.eq(ended, following)),
            REACH + "stopped": stopped,
            REACH + "going-on": b.negate(stopped),
        }

    def _handed(self, world: World[W, B], key: W, value: W) -> dict[str, W]:
        fixed = {"map": self._map(world), "context": world.fresh("context", REGISTER)}
        return fixed | {"key": key, "value": value, "0": world.bits(REGISTER).const(0)}

    # arrays

    def _array(self, world: World[W, B], there: Parameters[W], made: W, before: Outside[W, B]) -> dict[str, B]:
        """for (i = 0; i < map->max_entries; i++), `key = i` in front of each callback."""
        b, bits, loop = world.bits(REGISTER), world.bits(self.loop.index.bits), self.loop
        total = world.bits(32).zext(there.max_entries, REGISTER)
        first = bits.const(loop.start)
        index = bits.add(narrow(world, made, loop.index), first)
        following = bits.add(index, bits.const(loop.step))
        key = narrow(world, made, U32)
        world.assume("lemma: an index in bounds keeps its bits", index_kept(world, key, there))
        local = world.fresh("&key", REGISTER)
        entered = before.store(local, 4, bits.zext(index, 32))
        handed = self._handed(
            world, local, self._element(world, there, bits.add(index, bits.const(loop.ahead)), before)
        )
        wanted = handed | {"value": self._element(world, there, world.bits(32).bvand(key, there.index_mask), before)}
        if not self.loop.here:
            handed["value"] = self._pointer(world, there, index, before)
        arguments, result, _ = self._called(world, handed, entered)
        parts = self._common(world, made, arguments, wanted, result)
        nth = b.add(made, b.const(1))
        more = _iff(world, self._inside(world, following, there), b.ult(nth, total))
        parts["key"] = b.conj(parts["key"], bits.eq(index, narrow(world, made, loop.index)))
        parts["base"] = b.conj(
            _iff(world, self._inside(world, first, there), b.ult(b.const(0), total)),
            bits.eq(first, bits.const(0)),
        )
        parts["next"] = b.conj(more, bits.eq(following, narrow(world, nth, loop.index)))
        return parts

    def _inside(self, world: World[W, B], index: W, there: Parameters[W]) -> B:
        bits = world.bits(32)
        word = world.bits(self.loop.index.bits).zext(index, 32)
        return bits.ule(word, there.max_entries) if self.loop.inclusive else bits.ult(word, there.max_entries)

    def _pointer(self, world: World[W, B], there: Parameters[W], index: W, before: Outside[W, B]) -> W:
        """array->value + (u64)elem_size * index, or array->pptrs[index]."""
        b = world.bits(REGISTER)
        start = b.add(self._map(world), world.fresh("offsetof(struct bpf_array, value)", REGISTER))
        wide = world.bits(32).zext(world.bits(self.loop.index.bits).zext(index, 32), REGISTER)
        if self.percpu:
            return before.load(b.add(start, b.mul(b.const(8), wide)), 8)
        return b.add(start, b.mul(world.bits(32).zext(there.elem_size, REGISTER), wide))

    def _element(self, world: World[W, B], there: Parameters[W], index: W, before: Outside[W, B]) -> W:
        pointer = self._pointer(world, there, index, before)
        return this_cpu_address(world, pointer) if self.percpu else pointer

    # hashes

    def _listed(self, world: World[W, B], there: Parameters[W], made: W, before: Outside[W, B]) -> dict[str, B]:
        """The element at hand is `elem`; the lists' links are loads of the word at their elements' beginning."""
        b = world.bits(REGISTER)
        elem = world.fresh("elem", REGISTER)
        key = b.add(elem, b.const(self.key))
        size = world.bits(32)
        rounded = size.add(size.bvor(size.sub(there.key_size, size.const(1)), size.const(7)), size.const(1))
        value = b.add(key, size.zext(rounded if self.loop.rounded else there.key_size, REGISTER))
        handed = self._handed(world, key, self._area(world, value, before, here=self.loop.here))
        seven = b.add(size.zext(there.key_size, REGISTER), b.const(7))
        place = b.add(key, b.bvand(seven, b.const(~7)))
        wanted = handed | {"value": self._area(world, place, before, here=True)}
        arguments, result, outside = self._called(world, handed, before)
        parts = self._common(world, made, arguments, wanted, result)
        if self.loop.kind == "rhash":
            return parts | self._asked(world, key, before)
        return parts | self._linked(world, there, elem, before, outside)

    def _area(self, world: World[W, B], value: W, before: Outside[W, B], *, here: bool) -> W:
        """The value's address; per-CPU, this CPU's area of the pointer that is there."""
        if not self.percpu:
            return value
        pointer = before.load(value, 8)
        return this_cpu_address(world, pointer) if here else pointer

    def _linked(
        self, world: World[W, B], there: Parameters[W], elem: W, before: Outside[W, B], outside: Outside[W, B]
    ) -> dict[str, B]:
        """The list goes on with what followed `elem` before the callback; behind its end, with bucket i + 1 of
        n_buckets = roundup_pow_of_two(max_entries), which is 2^31 at most.
        """
        b, bits = world.bits(REGISTER), world.bits(self.loop.index.bits)
        followed = before.load(elem, 8)
        following = followed if self.loop.successor_first else outside.load(elem, 8)
        count, bucket = world.fresh("n_buckets", 32), world.fresh("bucket", 32)
        narrow_ = world.bits(32)
        world.assume("roundup_pow_of_two of at most 2^31", narrow_.ule(count, narrow_.const(1 << 31)))
        world.assume("the list is one of the table's", narrow_.ult(bucket, count))
        nth = bits.add(bucket, bits.const(self.loop.step))
        more = narrow_.ule(nth, count) if self.loop.inclusive else narrow_.ult(nth, count)
        exact = b.ult(b.add(narrow_.zext(bucket, REGISTER), b.const(1)), narrow_.zext(count, REGISTER))
        step = b.eq(narrow_.zext(nth, REGISTER), b.add(narrow_.zext(bucket, REGISTER), b.const(1)))
        first = bits.const(self.loop.start)
        return {
            "base": b.conj(bits.eq(first, bits.const(0)), narrow_.ult(first, count)),
            "next": b.conj(b.eq(following, followed), _iff(world, more, exact), step),
        }

    def _asked(self, world: World[W, B], key: W, before: Outside[W, B]) -> dict[str, B]:
        """rhashtable_next_key(ht, prev_key): NULL first, then the address of the key at hand."""
        b = world.bits(REGISTER)
        first = b.const(0 if self.loop.start == 0 else 1)
        following = key if self.loop.step == 1 else b.const(0)
        return {"base": b.eq(first, b.const(0)), "next": b.eq(following, key)}

    def _show(self, world: World[W, B], there: Parameters[W], made: W) -> None:
        b = world.bits(REGISTER)
        world.show("callbacks made", REGISTER, made)
        for value in (0, 1, (1 << 31) - 1):
            world.prefer(b.eq(made, b.const(value)))
        names = ("max_entries", "value_size") if self.map_type in ARRAYS else ("max_entries", "key_size")
        for name in names:
            word = getattr(there, name)
            world.show(f"map->{name}", 32, word)
            world.prefer(world.bits(32).eq(word, world.bits(32).const(1 << 31 if name == "max_entries" else 8)))


def _iff(world: World[W, B], one: B, other: B) -> B:
    b = world.bits(1)
    return b.eq(b.ite(one, b.const(1), b.const(0)), b.ite(other, b.const(1), b.const(0)))
