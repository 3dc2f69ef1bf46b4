"""Generated sequences of operations on one map: single ones, many of a kind, pointers that outlive their element."""

from dataclasses import dataclass, replace

from hypothesis import settings
from hypothesis import strategies as st
from map_programs import Case, Op

from model.program import Map

ZERO_SEED, NO_PREALLOC = 64, 1
MOST = 60
"""Operations of one program, those at its end apart."""
ANY_FLAGS = (0, 0, 0, 1, 2, 3, 4, 5, 8, 1 << 16)


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    map: Map
    ops: tuple[str, ...]
    keys: tuple[bytes, ...] = (b"",)
    flags: tuple[int, ...] = ANY_FLAGS
    inside: tuple[str, ...] = ("", "delete")
    longest: int = 14


def words(size: int, *numbers: int) -> tuple[bytes, ...]:
    return tuple(number.to_bytes(size, "little") for number in numbers)


def prefixes(*texts: str) -> tuple[bytes, ...]:
    found = []
    for text in texts:
        address, _, length = text.partition("/")
        found.append(int(length).to_bytes(4, "little") + bytes(int(part) for part in address.split(".")))
    return tuple(found)


READ = ("lookup", "poke", "keep", "again")
HASH = ("update", "update", "update", "delete", *READ, "for_each")
PERCPU = (*HASH, "lookup_percpu")
LPM = prefixes(
    *("0.0.0.0/0", "10.0.0.0/8", "10.1.0.0/16", "10.1.2.0/24", "10.1.2.3/32", "10.1.2.4/32", "10.128.0.0/9"),
    *("11.0.0.0/8", "10.1.2.3/33", "255.255.255.255/31", "10.1.2.3/20", "10.1.2.3/0"),
)
ARRAY = ("update", "update", "delete", *READ, "for_each")
BLOOM, ODD_BLOOM = Map("m", "bloom_filter", 0, 4, 9, ZERO_SEED), Map("m", "bloom_filter", 0, 7, 100, ZERO_SEED)
PUSH = ("push", "push", "push", "pop", "peek")
ROWS = (
    Row("array", Map("m", "array", 4, 8, 3, 0), ARRAY, words(4, 0, 1, 2, 3, 9)),
    Row("array, odd size", Map("m", "array", 4, 5, 2, 0), ("update", *READ), words(4, 0, 1, 2, 1 << 31)),
    Row("percpu_array", Map("m", "percpu_array", 4, 12, 3, 0), (*ARRAY, "lookup_percpu"), words(4, 0, 1, 2, 3)),
    Row("hash", Map("m", "hash", 4, 8, 4, ZERO_SEED), HASH, words(4, *range(6))),
    Row("hash, odd sizes", Map("m", "hash", 5, 3, 5, ZERO_SEED), HASH, words(5, *range(7))),
    Row("hash, long key", Map("m", "hash", 16, 24, 3, ZERO_SEED), HASH, words(16, *range(5))),
    Row("hash, allocated", Map("m", "hash", 8, 8, 4, ZERO_SEED | NO_PREALLOC), HASH, words(8, *range(6)), inside=("",)),
    Row("percpu_hash", Map("m", "percpu_hash", 4, 8, 4, ZERO_SEED), PERCPU, words(4, *range(6))),
    Row("lru_hash", Map("m", "lru_hash", 4, 8, 8, ZERO_SEED), HASH, words(4, *range(12)), longest=30),
    Row("lru_hash, one", Map("m", "lru_hash", 4, 8, 1, ZERO_SEED), HASH, words(4, *range(3)), longest=30),
    Row("lru_percpu_hash", Map("m", "lru_percpu_hash", 4, 8, 8, ZERO_SEED), PERCPU, words(4, *range(12)), longest=30),
    Row("queue", Map("m", "queue", 0, 8, 3, 0), PUSH, longest=20),
    Row("stack", Map("m", "stack", 0, 12, 3, 0), PUSH, longest=20),
    Row("bloom_filter", BLOOM, ("push", "peek", "peek"), flags=(0, 0, 0, 1, 2), longest=30),
    Row("bloom_filter, odd size", ODD_BLOOM, ("push", "peek"), flags=(0,), longest=30),
    Row("bloom_filter, 1 hash", replace(ODD_BLOOM, extra=1), ("push", "peek"), flags=(0,), longest=30),
    Row("bloom_filter, 15 hashes", replace(BLOOM, extra=15), ("push", "peek"), flags=(0,), longest=30),
    Row("lpm_trie", Map("m", "lpm_trie", 8, 8, 4, NO_PREALLOC), ("update", "update", "delete", *READ), LPM, longest=20),
)


def few(count: int) -> int:
    """Examples a row: `count`, and a hundred in the profile `deep`; each is a program of its own."""
    return 100 if settings.default is not None and settings.default.max_examples > 1000 else count


def value_of(row: Row, first: int) -> bytes:
    return bytes([first & 255, *range(1, row.map.value_size or 1)])


@st.composite
def single(draw: st.DrawFn, row: Row) -> list[Op]:
    name = draw(st.sampled_from(row.ops))
    flags = draw(st.sampled_from((0, 0, 0, 1, 1 << 30) if name == "for_each" else row.flags))
    return [Op(name, draw(st.sampled_from(row.keys)), value_of(row, draw(st.integers(0, 255))), flags)]


@st.composite
def many(draw: st.DrawFn, row: Row) -> list[Op]:
    """One operation many times: fills and overfills a map, marks elements of an LRU hash, drains a queue."""
    name = draw(st.sampled_from([name for name in row.ops if name not in ("for_each", "keep", "again")]))
    keys = draw(st.lists(st.sampled_from(row.keys), min_size=3, max_size=12, unique=len(row.keys) > 3))
    first = draw(st.integers(0, 255))
    return [Op(name, key, value_of(row, first + i)) for i, key in enumerate(keys)]


@st.composite
def stale(draw: st.DrawFn, row: Row) -> list[Op]:
    """A pointer to a value, what happens to the element, and what the pointer shows then."""
    key, other = draw(st.sampled_from(row.keys)), draw(st.sampled_from(row.keys))
    change = draw(st.sampled_from([name for name in ("update", "delete") if name in row.ops]))
    more = [
        Op("update", draw(st.sampled_from((key, other))), value_of(row, draw(st.integers(0, 99)))) for _ in range(2)
    ]
    return [
        Op("update", key, value_of(row, 200)),
        Op("keep", key),
        Op(change, key, value_of(row, 201)),
        Op("again"),
        *more,
    ]


@st.composite
def cases(draw: st.DrawFn, row: Row) -> Case:
    choices = [single(row), many(row), many(row)] + ([stale(row)] if "keep" in row.ops else [])
    phases = draw(st.lists(st.one_of(choices), min_size=1, max_size=row.longest // 2))
    ops: list[Op] = []
    kept = walked = False
    for op in (op for phase in phases for op in phase):
        if len(ops) == MOST or (op.name == "keep" and kept) or (op.name == "for_each" and walked):
            continue
        kept, walked = kept or op.name == "keep", walked or op.name == "for_each"
        ops.append(op)
    ops = [op for i, op in enumerate(ops) if op.name != "again" or any(o.name == "keep" for o in ops[:i])]
    ops += [Op("again")] if kept else []
    ops += [Op("for_each")] if "for_each" in row.ops and not walked else []
    ops += [Op("lookup", key) for key in row.keys] if "lookup" in row.ops else []
    return Case(row.map, tuple(ops), draw(st.sampled_from((0, 0, 0, 1, 2))), draw(st.sampled_from(row.inside)))
