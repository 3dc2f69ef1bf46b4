"""Map operations over solver terms: the code that the machine runs on ints, claimed for every key, flag and value."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

from model.maps import array, lpm, queue_stack
from model.maps import hash as table
from model.maps.array import Array
from model.maps.hash import Entry, Hash
from model.maps.lpm import Prefix, Trie
from model.maps.lru import Lru
from model.maps.lru_hash import LruHash, update
from model.maps.queue_stack import Queue
from model.maps.state import Place, Shape, Site
from model.memory import Cells
from model.world import B, W, World
from proofs.concrete import IntWorld
from proofs.obligation import NoRule, Obligation, Proved, Refuted
from proofs.solver import Solver

KEY, VALUE = 0x1000, 0x2000


def site(world: World[W, B], shape: Shape) -> Site[W, B]:
    """A map at 0x10000 with its elements at 0x20000, in memory of unknown content."""
    b = world.bits(64)
    memory = Cells(b, lambda address: world.apply("byte", 8, [(address, 64)]))
    place = Place(b.const(0x10000), b.const(0x20000), 256, 48, 56, 35, b.const(0x40000), 64)
    return Site(b, memory, shape, place, b.const(0), 2, lambda key: 0, lambda pointer, cpu: b.add(pointer, cpu))


@dataclass(frozen=True, slots=True)
class Whole:
    """Exactly one outcome holds, and its result is what `expected` says, in every state."""

    name: str
    outcomes: Callable[[World[Any, Any]], Any]
    expected: Callable[[World[Any, Any]], Any]
    wrong: int = 0  # added to each result in a planted fault, where the first outcome is lost too

    def __call__(self, world: World[W, B]) -> Mapping[str, B]:
        b = world.bits(64)
        outcomes = list(self.outcomes(world))[1 if self.wrong else 0 :]
        ones = [b.ite(outcome.guard, b.const(1), b.const(0)) for outcome in outcomes]
        count, result = b.const(0), b.const(0)
        for one, outcome in zip(ones, outcomes, strict=True):
            count = b.add(count, one)
            result = b.ite(outcome.guard, outcome.result, result)
        return {
            "one": b.eq(count, b.const(1)),
            "result": b.eq(b.add(result, b.const(self.wrong)), self.expected(world)),
        }

    def reason(self, part: str) -> str:
        return ""

    def planted(self, part: str) -> "Whole":
        return replace(self, wrong=1)


HASH = Shape("hash", 4, 4, 3, 0, "6.12")
ARRAY = Shape("array", 4, 12, 1000, 0, "6.12")
TRIE = Shape("lpm_trie", 8, 4, 3, 1, "6.12")
QUEUE = Shape("queue", 0, 8, 2, 0, "6.12")


def words(world: World[Any, Any]) -> tuple[Any, Any, Any, Any]:
    """The key that an operation is given, two that are there, the flags."""
    key = site(world, HASH).memory.load(world.bits(64).const(KEY), 4)
    return key, world.fresh("first", 32), world.fresh("second", 32), world.fresh("flags", 64)


def two(world: World[Any, Any]) -> Hash[Any]:
    _, first, second, _ = words(world)
    world.assume("keys of a table differ", world.bits(32).negate(world.bits(32).eq(first, second)))
    return Hash((Entry(1, second, 0), Entry(0, first, 0)), made=2)


def hash_update(world: World[Any, Any]) -> Any:
    b = world.bits(64)
    return table.update(site(world, HASH), two(world), b.const(KEY), b.const(VALUE), words(world)[3])


def hash_update_expected(world: World[Any, Any]) -> Any:
    """htab_map_update_elem, read again: bad flags, then EEXIST or ENOENT by the key's presence, else 0."""
    b, narrow = world.bits(64), world.bits(32)
    key, first, second, flags = words(world)
    there = b.disj(narrow.eq(key, first), narrow.eq(key, second))
    by_flags = b.ite(b.eq(flags, b.const(1)), b.ite(there, b.const(-17), b.const(0)), b.const(0))
    by_flags = b.ite(b.eq(flags, b.const(2)), b.ite(there, b.const(0), b.const(-2)), by_flags)
    return b.ite(b.ule(flags, b.const(2)), by_flags, b.const(-22))


def hash_lookup_expected(world: World[Any, Any]) -> Any:
    b, narrow = world.bits(64), world.bits(32)
    key, first, second, _ = words(world)
    found = b.ite(narrow.eq(key, second), b.const(0x20000 + 256 + 56), b.const(0))
    return b.ite(narrow.eq(key, first), b.const(0x20000 + 56), found)


def array_lookup_expected(world: World[Any, Any]) -> Any:
    b, narrow = world.bits(64), world.bits(32)
    key = words(world)[0]
    place = b.add(b.const(0x10000 + 256), b.mul(b.const(16), narrow.zext(key, 64)))
    return b.ite(narrow.ult(key, narrow.const(1000)), place, b.const(0))


def push_expected(world: World[Any, Any]) -> Any:
    b = world.bits(64)
    flags = words(world)[3]
    full = b.ite(b.eq(flags, b.const(2)), b.const(0), b.const(-22))
    return b.ite(b.eq(flags, b.const(0)), b.const(-7), full)


def trie_of(world: World[Any, Any]) -> Trie[Any]:
    """10.0.0.0/8 as element 0, a /16 of unknown bits as element 1."""
    b = world.bits(32)
    return Trie((Prefix(0, b.const(8), b.const(0x0A000000)), Prefix(1, b.const(16), world.fresh("net", 32))), 2)


def trie_expected(world: World[Any, Any]) -> Any:
    """By masks: the /16 if the key has 16 bits or more and the same ones, else the /8."""
    b, narrow = world.bits(64), world.bits(32)
    memory = site(world, TRIE).memory
    length = memory.load(b.const(KEY), 4)
    data = narrow.const(0)
    for i in range(4):
        byte = world.bits(8).zext(memory.load(b.const(KEY + 4 + i), 1), 32)
        data = narrow.bvor(narrow.shl(data, narrow.const(8)), byte)

    def same(net: Any, mask: int) -> Any:
        return narrow.eq(narrow.bvand(narrow.bvxor(net, data), narrow.const(mask)), narrow.const(0))

    long = narrow.conj(narrow.ule(narrow.const(16), length), same(world.fresh("net", 32), 0xFFFF0000))
    short = narrow.conj(narrow.ule(narrow.const(8), length), same(narrow.const(0x0A000000), 0xFF000000))
    found = b.ite(long, b.const(0x20000 + 256 + 56), b.ite(short, b.const(0x20000 + 56), b.const(0)))
    return b.ite(narrow.ule(length, narrow.const(32)), found, b.const(0))


CLAIMS = (
    Whole("hash update", hash_update, hash_update_expected),
    Whole(
        "hash lookup",
        lambda world: table.lookup(site(world, HASH), two(world), world.bits(64).const(KEY)),
        hash_lookup_expected,
    ),
    Whole(
        "array lookup",
        lambda world: array.lookup(site(world, ARRAY), Array(), world.bits(64).const(KEY)),
        array_lookup_expected,
    ),
    Whole(
        "push on a full queue",
        lambda world: queue_stack.push(
            site(world, QUEUE),
            Queue((world.fresh("a", 64), world.fresh("b", 64))),
            world.bits(64).const(VALUE),
            words(world)[3],
        ),
        push_expected,
    ),
    Whole(
        "longest prefix",
        lambda world: lpm.lookup(site(world, TRIE), trie_of(world), world.bits(64).const(KEY)),
        trie_expected,
    ),
)
SOLVER = Solver()


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.name)
@pytest.mark.parametrize("part", ["one", "result"])
def test_operations_over_terms(claim: Whole, part: str) -> None:
    assert SOLVER.decide(Obligation(claim.name, "", claim, part)).verdict == Proved()


def test_a_wrong_expectation_is_refuted() -> None:
    wrong = Whole("wrong", hash_update, lambda world: world.bits(64).const(0))
    assert isinstance(SOLVER.decide(Obligation("wrong", "", wrong, "result")).verdict, Refuted)


def test_an_lru_hash_is_for_ints_only() -> None:
    """Which element goes is read from marks in memory: over terms that has no rule, over ints it has."""

    @dataclass(frozen=True, slots=True)
    class Update:
        def __call__(self, world: World[W, B]) -> Mapping[str, B]:
            b = world.bits(64)
            lru = Shape("lru_hash", 4, 4, 1, 0, "6.12")
            state: LruHash[W] = LruHash(Hash((Entry(0, world.fresh("there", 32), 0),), made=1), Lru((), (0,)))
            outcomes = update(site(world, lru), state, b.const(KEY), b.const(VALUE), b.const(0))
            return {"any": b.disj(*[outcome.guard for outcome in outcomes])}

        def reason(self, part: str) -> str:
            return ""

        def planted(self, part: str) -> "Update":
            return self

    verdict = SOLVER.decide(Obligation("lru", "", Update(), "any")).verdict
    assert isinstance(verdict, NoRule)
    assert "followed on ints only" in verdict.reason
    assert Update()(IntWorld(lambda name, width: 0)) == {"any": True}
