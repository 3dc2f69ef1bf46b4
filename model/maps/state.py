"""What every map operation shares: the map's parameters, where it lies in memory, and guarded outcomes.

An operation is a function of a `Site` (words, memory, map) and the map's state; it yields `Outcome`s with disjoint
guards, in the order in which the kernel decides. How many elements there are and which memory they occupy is known on
each path; keys, values, flags and addresses are words of any representation. Nothing is changed until an outcome's
`effect` is asked for and applied.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic

from model.bits import B, Bits, W
from model.memory import Memory

BPF_NOEXIST, BPF_EXIST, BPF_F_LOCK = 1, 2, 4
"""Flags of update and push (enum in include/uapi/linux/bpf.h); 0 is BPF_ANY."""
BPF_F_NO_PREALLOC, BPF_F_NO_COMMON_LRU, BPF_F_ZERO_SEED, BPF_F_INNER_MAP = 1, 2, 1 << 6, 1 << 12
"""Flags of map creation."""
PERCPU = frozenset({"percpu_array", "percpu_hash", "lru_percpu_hash"})
LRU = frozenset({"lru_hash", "lru_percpu_hash"})
ARRAY_VALUE = 256
"""Bytes from a map to `struct bpf_array.value` (and pptrs, ptrs: one union): chosen, as each build has its own."""
POINTER = 8


def round_up(size: int) -> int:
    """round_up(size, 8): the distance of values and of what follows a key."""
    return size + 7 & ~7


@dataclass(frozen=True, slots=True)
class Shape:
    """A map's parameters; sizes in bytes. `type` and `extra` as in `model.program.Map`, `release` names the rows.

    No map here has BTF, and so none has a spin lock: with BPF_F_LOCK, operations do what they do without one.
    """

    type: str
    key_size: int
    value_size: int
    max_entries: int
    flags: int
    release: str
    extra: int = 0

    @property
    def percpu(self) -> bool:
        return self.type in PERCPU

    @property
    def elem_size(self) -> int:
        """An array's distance between elements (`array_map_alloc`): values, or pointers to maps or programs."""
        return POINTER if self.percpu or self.type in ("array_of_maps", "prog_array") else round_up(self.value_size)

    @property
    def copied(self) -> int:
        """Bytes that an update copies: of a hash of maps the pointer (fd_htab_map_needs_adjust), else value_size."""
        return POINTER if self.type == "hash_of_maps" else self.value_size

    @property
    def index_mask(self) -> int:
        """(1 << fls_long(max_entries - 1)) - 1 (`array_map_alloc`)."""
        return (1 << (self.max_entries - 1 & 0xFFFFFFFF).bit_length()) - 1


@dataclass(frozen=True, slots=True)
class Place(Generic[W]):
    """Where a map lies. `base` is `struct bpf_map`; element number n of a hash or trie is at pool + n × stride.

    `key`, `value` and `ref` are the offsets of an element's key, value and LRU mark (a byte). The per-CPU pointer of
    element n (hash) or index n (array) is percpu + n × percpu_stride.
    """

    base: W
    pool: W
    stride: int
    key: int
    value: int
    ref: int
    percpu: W
    percpu_stride: int


@dataclass(frozen=True, slots=True)
class Site(Generic[W, B]):
    """What an operation sees. `bits` is at 64 bits; `bucket` gives the hash bucket of a key (8 × key_size bits).

    `per_cpu` moves a per-CPU pointer to the area of a CPU (both 64 bits): per_cpu_ptr; `cpu` is this one, of `cpus`.
    """

    bits: Bits[W, B]
    memory: Memory[W]
    shape: Shape
    place: Place[W]
    cpu: W
    cpus: int
    bucket: Callable[[W], int]
    per_cpu: Callable[[W, W], W]

    def read(self, address: W, size: int) -> W:
        """`size` bytes (1 or more) as a word of 8 × size bits, the lowest address in the lowest bits."""
        word, at = self.memory.load(address, _chunk(size)), _chunk(size)
        while at < size:
            width = _chunk(size - at)
            high = self.memory.load(self.bits.add(address, self.bits.const(at)), width)
            word = self.bits.at(8 * width).concat(high, word, 8 * at)
            at += width
        return word

    def offset(self, address: W, offset: int) -> W:
        return self.bits.add(address, self.bits.const(offset))

    def element(self, number: int) -> W:
        """The address of element `number` of a hash or trie."""
        return self.offset(self.place.pool, number * self.place.stride)

    def this_cpu(self, pointer: W) -> W:
        return self.per_cpu(pointer, self.cpu)


@dataclass(frozen=True, slots=True)
class Write(Generic[W]):
    """`size` bytes stored: `word` has 8 × size bits, as `Site.read` gives them."""

    address: W
    size: int
    word: W


@dataclass(frozen=True, slots=True)
class Effect(Generic[W]):
    """What an operation does: stores, in this order, and the map's new state (None: the old one)."""

    writes: tuple[Write[W], ...] = ()
    state: Any = None


@dataclass(frozen=True, slots=True)
class Outcome(Generic[W, B]):
    """Where `guard` holds, the operation's C value is `result` (64 bits, errors negative) and it does `effect()`."""

    guard: B
    result: W
    effect: Callable[[], Effect[W]]


Outcomes = Iterator[Outcome[W, B]]


def nothing() -> Effect[Any]:
    return Effect()


class Cases(Generic[W, B]):
    """Outcomes in the kernel's order: each holds where its condition does and none before did."""

    def __init__(self, bits: Bits[W, B]) -> None:
        self._bits = bits
        self._rest = bits.true()

    def when(self, condition: B, result: W, effect: Callable[[], Effect[W]] = nothing) -> Outcome[W, B]:
        guard = self._bits.conj(self._rest, condition)
        self._rest = self._bits.conj(self._rest, self._bits.negate(condition))
        return Outcome(guard, result, effect)

    def error(self, condition: B, errno: int) -> Outcome[W, B]:
        return self.when(condition, self._bits.const(-errno))

    def otherwise(self, result: W, effect: Callable[[], Effect[W]] = nothing) -> Outcome[W, B]:
        return Outcome(self._rest, result, effect)


def store(bits: Bits[W, B], memory: Memory[W], write: Write[W]) -> Memory[W]:
    """The memory after `write`, in words of at most 8 bytes."""
    at = 0
    word = bits.at(8 * write.size)
    while at < write.size:
        width = _chunk(write.size - at)
        part = word.extract(write.word, 8 * (at + width) - 1, 8 * at)
        memory = memory.store(bits.add(write.address, bits.const(at)), width, part)
        at += width
    return memory


def has(bits: Bits[W, B], flags: W, flag: int) -> B:
    """flags & flag, as C's truth."""
    return bits.negate(bits.eq(bits.bvand(flags, bits.const(flag)), bits.const(0)))


def above_exist(bits: Bits[W, B], flags: W) -> B:
    """flags > BPF_EXIST, unsigned: a flag that no update knows."""
    return bits.ult(bits.const(BPF_EXIST), flags)


def _chunk(size: int) -> int:
    return next(width for width in (8, 4, 2, 1) if width <= size)
