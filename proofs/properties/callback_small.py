"""User callback, unrolled: the walk of a map with few elements, their contents unknown, against a plain specification.

The second way beside the induction of `proofs.properties.callback_user`. The walk is `model.maps.for_each`'s, the
callback the program's own instructions over memory that is known byte by byte; what the callback does to the map is
what `model.maps` says. Three runs from one state: the specification with the callback before; the program before,
through the helper; the program after, directly. The program before must end as the specification does, and the program
after as the one before: r0, the context's memory, the maps' memory and their elements.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

from model.bits import B, W
from model.errors import Unsupported
from model.machine.map_objects import per_cpu
from model.maps.array import Array
from model.maps.for_each import WALKS, At
from model.maps.hash import Entry, Hash
from model.maps.lru import Lru
from model.maps.lru_hash import LruHash
from model.maps.operations import empty_state
from model.maps.state import ARRAY_VALUE, LRU, Shape, round_up
from model.memory import Cells
from model.program import MapRef, Program
from model.semantics.call import REGISTER
from model.world import World
from proofs.properties.callback_user import HELPER, User
from proofs.properties.paths import taken
from proofs.properties.small_ends import either, faulty, same
from proofs.properties.small_run import (
    CONTEXT,
    KEY,
    MAP_STRIDE,
    MAPS,
    MAX_PATHS,
    Left,
    SmallRun,
    Store,
    place_of,
    shape_of,
)
from proofs.properties.tracked import Tracked

MOST_ARRAY, MOST_HASH = 4, 3
"""Elements of the maps that are unrolled."""
MAX_CALLBACKS = 12
"""Of one walk: a hash whose callback deletes and inserts may have callbacks without end."""
SLOT = "map_for_each_callback"
SPREAD = 0x20
"""The distance of buckets where each element has one of its own."""


@dataclass(frozen=True, slots=True)
class Plain:
    """How one side goes about `model.maps.for_each`'s steps: as they are, but for seeded faults.

    An array's first index and the distance to the next; how many bits of the callback's result are looked at; the
    callback's arguments; what a callback counts, and whether the one that stops the walk does.
    """

    start: int = 0
    step: int = 1
    stop_bits: int = 64
    arguments: tuple[str, ...] = ("map", "key", "value", "context", "0")
    counted: int = 1
    count_stop: bool = True


@dataclass(frozen=True, eq=False)
class Small:
    """The claim. `user` has programs and callback; `linked` is the program after with the machine's offsets.

    `count` elements are in the map (an array: all); `apart` tells that each is in a bucket of its own.
    """

    user: User
    linked: Program
    count: int
    apart: bool = False
    before: Plain = Plain()
    after: Plain = Plain()
    faulty: bool = False

    def __call__(self, world: World[W, B]) -> Mapping[str, B]:
        tracked: Any = Tracked(world)
        user, pair, b = self.user, self.user.pair, tracked.bits(REGISTER)
        maps = pair.before.program.maps
        shapes = {number: shape_of(maps[number], pair.release) for number in self._used()}
        run = SmallRun(tracked, pair.release, pair.abi, pair.before.program, "before", shapes, apart=self.apart)
        first = self._start(tracked, run)
        spec = list(_spec(self, run, first))
        before = list(_walk(self, run, self.before, user.starts[0], first, direct=False))
        after_run = replace(run, program=self.linked, side="after", _calls=0)
        after = list(_walk(self, after_run, self.after, user.starts[1], first, direct=bool(user.function)))
        parts: dict[str, Any] = {}
        for side, ends in (("spec", spec), ("before", before), ("after", after)):
            parts |= taken(tracked, "walk", side, [(str(i), end) for i, end in enumerate(ends, 1)])
        made = [faulty(tracked, ends) if self.faulty else ends for ends in (before, after)]
        parts |= same(tracked, "before", spec, made[0]) | same(tracked, "after", before, made[1])
        for side, ends in (("before", before), ("after", after)):
            tracked.show(f"{side}: r0", REGISTER, either(b, [(end.guard, end.r0) for end in ends]))
        return {part: b.condition(condition) for part, condition in parts.items()}

    def reason(self, part: str) -> str:
        return ""

    @cached_property
    def _planted(self) -> "Small":
        return replace(self, faulty=True)

    def planted(self, part: str) -> "Small":
        """Faults at the end of each path of the walk that is held against another."""
        return self._planted

    def _used(self) -> list[int]:
        refs = self.user.pair.before.program.refs.values()
        return sorted({self.user.map, *(ref.map for ref in refs if isinstance(ref, MapRef))})

    @property
    def kind(self) -> str:
        return self.user.before.kind

    @property
    def listed(self) -> bool:
        """Whether elements are in lists whose links the walk follows."""
        return self.kind == "hash"

    @property
    def base(self) -> int:
        """The address of the map that is walked."""
        return MAPS + self.user.map * MAP_STRIDE

    def _start(self, world: Any, run: SmallRun) -> Store:
        """Memory of unknown bytes, pointers of per-CPU maps in it; the elements of the map that is walked."""
        b = world.bits(REGISTER)
        cells: Any = Cells(b, lambda address: world.apply("byte", 8, [(address, 64)]))
        states: dict[int, Any] = {}
        for number, shape in run.shapes.items():
            states[number] = empty_state(shape)
            place = place_of(number, shape, run.release, b.const)
            if shape.percpu and "array" in shape.type and shape.max_entries <= MOST_ARRAY:
                for i in range(shape.max_entries):
                    at = b.add(place.base, b.const(ARRAY_VALUE + 8 * i))
                    cells = cells.store(at, 8, b.add(place.percpu, b.const(i * place.percpu_stride)))
        store = Store(cells, states)
        shape = run.shapes[self.user.map]
        return store if isinstance(states[self.user.map], Array) else self._filled(world, run, shape, store)

    def _filled(self, world: Any, run: SmallRun, shape: Shape, store: Store) -> Store:
        b, keys = world.bits(REGISTER), world.bits(8 * shape.key_size)
        site = run.site(self.user.map, store)
        entries = []
        for number in range(self.count - 1, -1, -1):
            key = site.read(site.offset(site.element(number), site.place.key), shape.key_size)
            entries.append(Entry(number, key, SPREAD * number if self.apart else 0))
            if shape.percpu:
                at = site.offset(site.element(number), site.place.value)
                pointer = b.add(site.place.percpu, b.const(number * site.place.percpu_stride))
                store = store.store(at, 8, pointer)
        for i, one in enumerate(entries):
            for other in entries[:i]:
                world.assume("keys of a table differ", keys.negate(keys.eq(one.key, other.key)))
        state: Any = Hash(tuple(entries), made=self.count)
        if shape.type in LRU:
            free = tuple(range(shape.max_entries - 1, self.count - 1, -1))
            taken = tuple(range(self.count - 1, -1, -1))
            state = LruHash(replace(state, made=shape.max_entries), Lru(free, pending=taken))
        return store.put(self.user.map, state)


def _spec(small: Small, run: SmallRun, store: Store) -> Iterator[Left]:
    """What the walk is to be, as plainly as can be; it stops at the first result that is not 0, and r0 is the
    callbacks made.
    """
    b, start = run.world.bits(REGISTER), small.user.starts[0]
    pending = [(_head(small, store, 0), 0, store, b.true())]
    while pending:
        at, made, store, guard = pending.pop()
        if at is None:
            yield Left(guard, b.const(made), store)
            continue
        _within(made, len(pending))
        then = _table(small, store).after(at) if small.listed else None  # read before the callback
        bucket = _bucket_of(small, store, at)
        key, value, entered = _element(small, run, at, store)
        arguments = [b.const(small.base), key, value, b.const(CONTEXT), b.const(0)]
        for end in run.function(start, arguments, entered, guard):
            zero = b.eq(end.r0, b.const(0))
            stopped, on = b.conj(end.guard, b.negate(zero)), b.conj(end.guard, zero)
            if stopped.known is not False:
                yield Left(stopped, b.const(made + 1), end.store)
            if on.known is not False:
                pending.append((_behind(small, end.store, at, then, bucket), made + 1, end.store, on))


def _within(made: int, pending: int) -> None:
    if made >= MAX_CALLBACKS:
        raise Unsupported(f"a walk with more than {MAX_CALLBACKS} callbacks")
    if pending > MAX_PATHS:
        raise Unsupported(f"a walk with more than {MAX_PATHS} paths")


def _behind(small: Small, store: Store, at: int, then: int | None, bucket: int) -> int | None:
    """Array: the next index. Hash: what followed in the list, else the next list's head. RHASH: what follows in the
    table, nothing if the element is gone.
    """
    if small.kind == "array":
        return at + 1 if at + 1 < small.count else None
    if small.kind == "rhash":
        there = [entry.number for entry in _table(small, store).entries]
        return dict(pairwise(there)).get(at)
    return then if then is not None else _head(small, store, bucket + 1)


def _head(small: Small, store: Store, bucket: int) -> int | None:
    """The newest element of the first list from `bucket` on that has one."""
    if small.kind == "array":
        return 0 if small.count else None
    entries = sorted((e for e in _table(small, store).entries if e.bucket >= bucket), key=lambda entry: entry.bucket)
    return entries[0].number if entries else None


def _bucket_of(small: Small, store: Store, at: int) -> int:
    """Of an element of the walk; where each has a list of its own, that of its number."""
    return SPREAD * at if small.apart else 0


def _table(small: Small, store: Store) -> Hash[Any]:
    state = store.states[small.user.map]
    found: Hash[Any] = state.table if isinstance(state, LruHash) else state
    return found


def _element(small: Small, run: SmallRun, number: int, store: Store) -> tuple[Any, Any, Store]:
    """The addresses of key and value; an array's key is put where for_each has its variable."""
    b, shape = run.world.bits(REGISTER), run.shapes[small.user.map]
    place = place_of(small.user.map, shape, run.release, int)
    area = per_cpu(place.percpu + number * place.percpu_stride, 0)
    if small.kind == "array":
        at = place.base + ARRAY_VALUE + number * round_up(shape.value_size)
        entered = store.store(b.const(KEY), 4, run.world.bits(32).const(number))
        return b.const(KEY), b.const(area if shape.percpu else at), entered
    at = place.pool + number * place.stride
    return b.const(at + place.key), b.const(area if shape.percpu else at + place.value), store


def _walk(small: Small, run: SmallRun, plain: Plain, start: int, store: Store, *, direct: bool) -> Iterator[Left]:
    """for_each on one side: `model.maps.for_each`'s steps around the callback at `start`."""
    user, b = small.user, run.world.bits(REGISTER)
    shape = run.shapes[user.map]
    function = run.release.operation(shape.type, SLOT)
    if function is None:
        raise Unsupported(f"{shape.type} has no {SLOT}")
    walk, helper = WALKS[function.name], run.release.helpers[HELPER]

    def result(count: int) -> Any:
        way = {} if direct else {"slot": SLOT, "helper": helper}
        return run.returned(b.const(count * plain.counted), function.prototype.result, **way)  # type: ignore[arg-type]

    first = walk.first(run.site(user.map, store), store.states[user.map])
    if first is not None and small.kind == "array":
        first = At(plain.start)
    pending: list[tuple[At | None, int, Store, Any]] = [(first, 0, store, b.true())]
    ended = 0
    while pending:
        at, made, store, guard = pending.pop()
        if at is None:
            ended += 1
            yield Left(guard, result(made), store)
            continue
        _within(made, len(pending) + ended)
        for end in _visited(small, run, plain, start, walk.visit, at, store, guard):
            bits = run.world.bits(plain.stop_bits or 1)
            on = (
                bits.eq(b.extract(end.r0, (plain.stop_bits or 1) - 1, 0), bits.const(0))
                if plain.stop_bits
                else b.true()
            )
            stopped = b.conj(end.guard, b.negate(on))
            if stopped.known is not False:
                ended += 1
                yield Left(stopped, result(made + (1 if plain.count_stop else 0)), end.store)
            there = run.site(user.map, end.store), end.store.states[user.map]
            following = walk.following(*there, At(at.number + plain.step - 1) if small.kind == "array" else at)
            pending.append((following, made + 1, end.store, b.conj(end.guard, on)))
        pending = [one for one in pending if one[3].known is not False]


def _visited(
    small: Small, run: SmallRun, plain: Plain, start: int, visit: Callable[..., Any], at: At, store: Store, guard: Any
) -> list[Left]:
    """One callback."""
    b = run.world.bits(REGISTER)
    site = run.site(small.user.map, store)
    given = visit(site, store.states[small.user.map], at)
    key = given.key
    if key is None:
        key, store = b.const(KEY), store.store(b.const(KEY), 4, given.index)
    words = {"map": site.place.base, "key": key, "value": given.value, "context": b.const(CONTEXT), "0": b.const(0)}
    return run.function(start, [words[name] for name in plain.arguments], store, guard)
