"""What a register or an 8-byte stack slot may hold, as far as it matters for the map in r1.

An absent entry of a `State` is a plain value: a scalar of which nothing is known, or nothing that may
be read. It never is a map pointer. Joining a pointer with a plain value keeps the pointer: where the
other path makes use of it, the verifier refuses the whole program, so the pointer is what is left.
"""

from dataclasses import dataclass, replace
from enum import Enum
from types import NoneType
from typing import TypeVar

Key = tuple[str | int, ...]
"""Identity of a map pointer as the verifier compares them (`record_func_map`, kernel/bpf/verifier.c of 6.1).

("map", i) is the program's map i, ("inner", i) the template of the outer map i (`inner_map_meta`, one
for each outer map, however equal they are), ("inner", "assumed", n) that of an assumed map,
("assumed", n) an assumed map and ("kconfig",) the map of the .kconfig variables.
"""


@dataclass(frozen=True, slots=True)
class MapSet:
    """One of the map pointers `keys`, or (`unknown`) something that the input does not tell.

    `null` is the slot of the lookup that it comes from while no test for NULL has been seen, else -1;
    -2 in ANYTHING, which takes in whatever it is joined with.
    """

    keys: tuple[Key, ...] = ()
    unknown: bool = False
    null: int = -1


@dataclass(frozen=True, slots=True)
class Storage:
    """A pointer into the storage of one of the maps `keys` (or NULL): an element, a value, a slot of a table.

    `null` as in MapSet.
    """

    keys: tuple[Key, ...]
    null: int = -1


@dataclass(frozen=True, slots=True)
class Frame:
    """Frame pointer + `off` bytes (None: an offset not known); `sure` false: or some other pointer."""

    off: int | None
    sure: bool = True


@dataclass(frozen=True, slots=True)
class Functions:
    """The address of one of the subprograms that start at these slots."""

    starts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Fresh:
    """A scalar of which every value is possible that the tests on the way have left.

    Those are the numbers of 64 bits, unsigned, with bits of `mask` only, from `low` to `high` (narrower
    than 0 to `mask` only where `mask` is 2^n - 1), without `excluded`. `origin` is the slot where the
    number came from: a test of one value says something of all with its origin. `maker` is the slot that
    made this number out of it; values that agree in everything are copies.
    """

    origin: int
    maker: int
    mask: int
    low: int
    high: int
    excluded: frozenset[int] = frozenset()

    @property
    def dense(self) -> bool:
        return self.mask & self.mask + 1 == 0

    @property
    def count(self) -> int:
        """How many values there are, `excluded` included."""
        return self.high - self.low + 1 if self.dense else 1 << self.mask.bit_count()


def fresh(origin: int, mask: int) -> Fresh:
    """A scalar that nothing has narrowed, as it comes from the slot `origin`."""
    return Fresh(origin, origin, mask, 0, mask)


class Place(Enum):
    """Values without parts: the context, a frame of some caller, a plain value written to the stack."""

    CONTEXT = "context"
    OUTER = "outer"
    PLAIN = "plain"


class Late(Enum):
    """A number that the verifier knows, and the program as it was read does not tell.

    `value` says where it comes from. A test of it may go one way only.
    """

    CORE = "a CO-RE relocation"
    KCONFIG = "a .kconfig variable"
    KSYM = "the address of a kernel symbol"


Value = int | MapSet | Storage | Frame | Functions | Fresh | Place | Late
"""A constant is an int of 64 bits, unsigned."""

State = dict[int, Value]
"""Registers under 0 to 10, stack slots under their offset (-512 to -8, multiples of 8), flags from 99 on."""

LATE = 11
"""A register of the analysis' own: Late.CORE, the operand of what a CO-RE relocation changes."""

BLANK = 99
"""Key of a state: a stack slot that is not listed may hold anything (else: a plain value)."""

Item = TypeVar("Item")
UNKNOWN = MapSet((), True)
ANYTHING = MapSet((), True, -2)
STACK_BYTES = 512
MASK64 = (1 << 64) - 1
MASK32 = (1 << 32) - 1


_CONSTANT = (int, NoneType)
_NUMBER = (int, Fresh, NoneType)


def rank(value: Value | None) -> int:
    """Height in the join's order: of two values of different height the higher one survives."""
    if isinstance(value, MapSet):
        return 5
    if value is Place.OUTER:
        return 4
    if isinstance(value, Frame):
        return 3
    if isinstance(value, Storage):
        return 2
    return 1 if isinstance(value, Functions) else 0


def join(a: Value | None, b: Value | None) -> Value | None:
    """What holds where either of `a` and `b` holds; `a` itself where `b` adds nothing."""
    if a is b or a == b:
        return a
    if isinstance(a, _NUMBER) and isinstance(b, _CONSTANT):
        return None
    if isinstance(a, MapSet) and isinstance(b, MapSet):
        return union_maps(a, b)
    if isinstance(a, Storage) and isinstance(b, Storage):
        keys = union(a.keys, b.keys)
        return a if keys is a.keys and a.null in (-1, b.null) else Storage(keys)
    if isinstance(a, Frame) and isinstance(b, Frame):
        return _join_frames(a, b)
    if isinstance(a, Functions) and isinstance(b, Functions):
        starts = union(a.starts, b.starts)
        return a if starts is a.starts else Functions(starts)
    if isinstance(a, Fresh) and isinstance(b, Fresh):
        return _join_fresh(a, b)
    high, low = (a, b) if rank(a) >= rank(b) else (b, a)
    if rank(high) == 0:
        return None
    return _dominate(high, low)


def _dominate(high: Value | None, low: Value | None) -> Value | None:
    """`high` joined with a lower value: the lower one leaves a trace only where a store could go astray."""
    points_to_frame = isinstance(low, Frame) or low is Place.OUTER
    if isinstance(high, MapSet):
        return MapSet(high.keys, True) if points_to_frame and not high.unknown else tested(high)
    if high is Place.OUTER and isinstance(low, Frame):
        return UNKNOWN
    if isinstance(high, Frame):
        return Frame(high.off, False) if high.sure else high
    return tested(high) if isinstance(high, Storage) else high


def tested(value: MapSet | Storage) -> MapSet | Storage:
    """The same pointer, no longer one whose first test for NULL is still to come."""
    if value.null < 0:
        return value
    return MapSet(value.keys, value.unknown) if isinstance(value, MapSet) else Storage(value.keys)


def _join_fresh(a: Fresh, b: Fresh) -> Fresh | None:
    """What is possible on both paths; None unless they agree in all but what is excluded."""
    joined = replace(a, excluded=a.excluded | b.excluded)
    if joined != replace(b, excluded=joined.excluded):
        return None
    return a if joined == a else joined


def _join_frames(a: Frame, b: Frame) -> Frame:
    joined = Frame(a.off if a.off == b.off else None, a.sure and b.sure and a.off == b.off)
    return a if joined == a else joined


def union(a: tuple[Item, ...], b: tuple[Item, ...]) -> tuple[Item, ...]:
    """`a` with those of `b` that are not in it behind; `a` itself if there are none."""
    new = tuple(item for item in b if item not in a)
    return a + new if new else a


def union_maps(a: MapSet, b: MapSet) -> MapSet:
    if a.null == -2 or b.null == -2:
        return ANYTHING
    keys = union(a.keys, b.keys)
    if keys is a.keys and (a.unknown or not b.unknown) and a.null in (-1, b.null):
        return a
    return MapSet(keys, a.unknown or b.unknown)


def join_states(a: State, b: State) -> State:
    """What holds where either state does; `a` itself (not a copy) where `b` adds nothing; neither is changed."""
    if a is b or a == b:
        return a
    blank_a, blank_b = BLANK in a, BLANK in b
    changes: dict[int, Value | None] = {}
    for key, value in a.items():
        other = b.get(key)
        if other is value or other == value:
            continue
        if other is None and blank_b and key < 0:
            other = UNKNOWN
        if value is Place.PLAIN and rank(other) == 0:
            continue
        joined = join(value, other)
        if joined is not value and joined != value:
            changes[key] = joined
    for key, value in b.items():
        if key in a:
            continue
        if blank_a and key < 0:
            joined = join(UNKNOWN, value)
            if joined != UNKNOWN:
                changes[key] = joined
        else:
            joined = join(None, value)
            if joined is not None or (blank_b and key < 0):
                changes[key] = joined
    if blank_b and not blank_a:
        changes[BLANK] = Place.PLAIN
    return _with_changes(a, changes) if changes else a


def widened(state: State, before: State) -> State:
    """The state, where pointers that differ from `before` or are several already are given up for ANYTHING."""
    result = dict(state)
    for key, value in state.items():
        if isinstance(value, MapSet | Storage):
            if len(value.keys) > 1 or value != before.get(key):
                result[key] = ANYTHING
        elif isinstance(value, Functions) and len(value.starts) > 1:
            result[key] = ANYTHING
    return result


def _with_changes(a: State, changes: dict[int, Value | None]) -> State:
    result = dict(a)
    for key, value in changes.items():
        if value is not None:
            result[key] = value
        elif key < 0:
            result[key] = Place.PLAIN
        else:
            result.pop(key, None)
    return result
