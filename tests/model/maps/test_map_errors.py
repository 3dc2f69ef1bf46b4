"""Results and errors of map operations, by hand from the kernel's sources: each error, and which of two comes first."""

from dataclasses import dataclass

import pytest
from map_table import Table, le

from model.maps.operations import OPERATIONS
from model.program import Map

ARRAY = Map("a", "array", 4, 4, 2, 0)
PERCPU_ARRAY = Map("a", "percpu_array", 4, 4, 2, 0)
HASH = Map("h", "hash", 4, 4, 2, 0)
PERCPU_HASH = Map("h", "percpu_hash", 4, 4, 2, 0)
LRU = Map("h", "lru_hash", 4, 4, 64, 0)
LRU_PERCPU = Map("h", "lru_percpu_hash", 4, 4, 64, 0)
RHASH = Map("h", "rhash", 4, 4, 2, 1)
QUEUE, STACK = Map("q", "queue", 0, 4, 2, 0), Map("s", "stack", 0, 4, 2, 0)
BLOOM = Map("b", "bloom_filter", 0, 4, 2, 0)
LPM = Map("t", "lpm_trie", 8, 4, 2, 1)
OK, ENOENT, E2BIG, EEXIST, EINVAL, ENOSPC, EOPNOTSUPP = 0, -2, -7, -17, -22, -28, -95
ANY, NOEXIST, EXIST, LOCK = 0, 1, 2, 4
V = b"abcd"


def ip(text: str, length: int) -> bytes:
    return le(length) + bytes(int(part) for part in text.split("."))


@dataclass(frozen=True, slots=True)
class Row:
    """`first` is done before, each call an operation's suffix with its arguments; then `call` gives `expected`."""

    map: Map
    name: str
    arguments: tuple[bytes | int, ...]
    expected: int
    first: tuple[tuple[str, tuple[bytes | int, ...]], ...] = ()
    release: str = "6.12"


def hash_rows(map_: Map, prefix: str, *, full: bool, release: str = "6.12") -> list[Row]:
    """A hash of `prefix`; with two keys it is full if `full`."""
    update, delete = f"{prefix}_update_elem", f"{prefix}_delete_elem"
    delete = delete.replace("percpu_", "") if "lru" not in prefix else "htab_lru_map_delete_elem"
    one = ((update, (le(1), V, ANY)),)
    two = (*one, (update, (le(2), V, ANY)))
    rows = [
        Row(map_, update, (le(1), V, ANY), OK),
        Row(map_, update, (le(1), V, NOEXIST), OK),
        Row(map_, update, (le(1), V, EXIST), ENOENT),
        Row(map_, update, (le(1), V, ANY), OK, one),
        Row(map_, update, (le(1), V, NOEXIST), EEXIST, one),
        Row(map_, update, (le(1), V, EXIST), OK, one),
        Row(map_, update, (le(1), V, 3), EINVAL, one),
        Row(map_, update, (le(1), V, 1 << 63), EINVAL),
        Row(map_, update, (le(1), V, LOCK), EINVAL),
        Row(map_, update, (le(1), V, LOCK | NOEXIST), EINVAL, one),
        Row(map_, update, (le(1), V, LOCK | EXIST), EINVAL),
        Row(map_, update, (le(3), V, EXIST), ENOENT, two),
        Row(map_, update, (le(3), V, ANY), E2BIG if full else OK, two),
        Row(map_, update, (le(3), V, NOEXIST), E2BIG if full else OK, two),
        Row(map_, update, (le(2), V, ANY), OK, two),
        Row(map_, update, (le(3), V, ANY), OK, (*two, (delete, (le(1),)))),
        Row(map_, delete, (le(1),), ENOENT),
        Row(map_, delete, (le(1),), OK, one),
        Row(map_, delete, (le(1),), ENOENT, (*one, (delete, (le(1),)))),
    ]
    return [Row(r.map, r.name, r.arguments, r.expected, r.first, release) for r in rows]


def array_rows(map_: Map) -> list[Row]:
    update = "array_map_update_elem"
    return [
        Row(map_, update, (le(0), V, ANY), OK),
        Row(map_, update, (le(1), V, EXIST), OK),
        Row(map_, update, (le(1), V, NOEXIST), EEXIST),
        Row(map_, update, (le(2), V, ANY), E2BIG),
        Row(map_, update, (le(2), V, NOEXIST), E2BIG),
        Row(map_, update, (le(0xFFFFFFFF), V, EXIST), E2BIG),
        Row(map_, update, (le(2), V, 3), EINVAL),
        Row(map_, update, (le(0), V, 8), EINVAL),
        Row(map_, update, (le(0), V, 1 << 32), EINVAL),
        Row(map_, update, (le(0), V, LOCK), EINVAL),
        Row(map_, update, (le(2), V, LOCK), E2BIG),
        Row(map_, update, (le(0), V, LOCK | NOEXIST), EEXIST),
        Row(map_, "array_map_delete_elem", (le(0),), EINVAL),
        Row(map_, "array_map_delete_elem", (le(9),), EINVAL),
    ]


def queue_rows(map_: Map, kind: str) -> list[Row]:
    push = "queue_stack_map_push_elem"
    one = ((push, (V, ANY)),)
    two = (*one, (push, (b"wxyz", ANY)))
    return [
        Row(map_, push, (V, ANY), OK),
        Row(map_, push, (V, EXIST), OK),
        Row(map_, push, (V, NOEXIST), EINVAL),
        Row(map_, push, (V, 3), EINVAL),
        Row(map_, push, (V, LOCK), EINVAL),
        Row(map_, push, (V, 1 << 33), EINVAL),
        Row(map_, push, (V, ANY), E2BIG, two),
        Row(map_, push, (V, EXIST), OK, two),
        Row(map_, push, (V, NOEXIST), EINVAL, two),
        Row(map_, f"{kind}_map_pop_elem", (V,), ENOENT),
        Row(map_, f"{kind}_map_peek_elem", (V,), ENOENT),
        Row(map_, f"{kind}_map_pop_elem", (V,), OK, one),
        Row(map_, f"{kind}_map_pop_elem", (V,), ENOENT, (*one, (f"{kind}_map_pop_elem", (V,)))),
        Row(map_, f"{kind}_map_peek_elem", (V,), OK, (*one, (f"{kind}_map_peek_elem", (V,)))),
        Row(map_, "queue_stack_map_lookup_elem", (V,), 0, one),
        Row(map_, "queue_stack_map_update_elem", (V, V, ANY), EINVAL, one),
        Row(map_, "queue_stack_map_delete_elem", (V,), EINVAL, one),
    ]


def trie_rows(release: str) -> list[Row]:
    update, delete = "trie_update_elem", "trie_delete_elem"
    ten, net = ip("10.0.0.0", 8), ip("10.1.0.0", 16)
    one = ((update, (ten, V, ANY)),)
    two = (*one, (update, (net, V, ANY)))
    old = release == "5.10"
    rows = [
        Row(LPM, update, (ten, V, ANY), OK),
        Row(LPM, update, (ten, V, 3), EINVAL),
        Row(LPM, update, (ten, V, LOCK), EINVAL),
        Row(LPM, update, (ip("10.0.0.0", 33), V, ANY), EINVAL),
        Row(LPM, update, (ten, V, EXIST), OK if old else ENOENT),
        Row(LPM, update, (ten, V, NOEXIST), OK if old else EEXIST, one),
        Row(LPM, update, (ip("10.9.9.9", 8), V, EXIST), OK, one),
        Row(LPM, update, (ten, V, ANY), ENOSPC if old else OK, two),
        Row(LPM, update, (ten, V, NOEXIST), ENOSPC if old else EEXIST, two),
        Row(LPM, update, (ip("10.0.0.0", 9), V, ANY), ENOSPC, two),
        Row(LPM, update, (ip("10.0.0.0", 9), V, EXIST), ENOSPC if old else ENOENT, two),
        Row(LPM, delete, (ten,), ENOENT),
        Row(LPM, delete, (ip("10.0.0.0", 40),), EINVAL),
        Row(LPM, delete, (ip("10.200.0.0", 8),), OK, one),
        Row(LPM, delete, (ip("10.0.0.0", 9),), ENOENT, one),
    ]
    return [Row(r.map, r.name, r.arguments, r.expected, r.first, release) for r in rows]


ROWS = [
    *array_rows(ARRAY),
    *array_rows(PERCPU_ARRAY),
    *hash_rows(HASH, "htab_map", full=True),
    *hash_rows(HASH, "htab_map", full=True, release="5.10"),
    *hash_rows(Map("h", "hash", 4, 4, 2, 1), "htab_map", full=True),
    *hash_rows(PERCPU_HASH, "htab_percpu_map", full=True),
    *hash_rows(LRU, "htab_lru_map", full=False),
    *hash_rows(LRU_PERCPU, "htab_lru_percpu_map", full=False),
    *hash_rows(RHASH, "rhtab_map", full=True, release="7.3"),
    *queue_rows(QUEUE, "queue"),
    *queue_rows(STACK, "stack"),
    *trie_rows("5.10"),
    *trie_rows("6.1"),
    *trie_rows("6.12"),
    Row(BLOOM, "bloom_map_push_elem", (V, ANY), OK),
    Row(BLOOM, "bloom_map_push_elem", (V, NOEXIST), EINVAL),
    Row(BLOOM, "bloom_map_push_elem", (V, EXIST), EINVAL),
    Row(BLOOM, "bloom_map_peek_elem", (V,), ENOENT),
    Row(BLOOM, "bloom_map_peek_elem", (V,), OK, (("bloom_map_push_elem", (V, ANY)),)),
    Row(BLOOM, "bloom_map_pop_elem", (V,), EOPNOTSUPP),
    Row(BLOOM, "bloom_map_delete_elem", (V,), EOPNOTSUPP),
    Row(BLOOM, "bloom_map_lookup_elem", (V,), EINVAL),
    Row(BLOOM, "bloom_map_update_elem", (V, V, ANY), EINVAL),
]


def call(table: Table, name: str, arguments: tuple[bytes | int, ...]) -> int:
    data = [argument for argument in arguments if isinstance(argument, bytes)]
    numbers = [argument for argument in arguments if isinstance(argument, int)]
    if not table.map.key_size and len(data) == 1:
        return table.do(name, None, data[0], *numbers)
    if not table.map.key_size:
        return table.do(name, data[0][:1], data[1], *numbers)
    return table.do(name, data[0], data[1] if len(data) > 1 else None, *numbers)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.release}-{row.map.type}-{row.name}-{row.expected}")
def test_result(row: Row) -> None:
    table = Table(row.map, row.release)
    for name, arguments in row.first:
        call(table, name, arguments)
    assert call(table, row.name, row.arguments) == row.expected


LOOKUPS_ELSEWHERE = {name for name in OPERATIONS if "lookup" in name}


def test_every_operation_has_a_row() -> None:
    assert {row.name for row in ROWS} | LOOKUPS_ELSEWHERE == set(OPERATIONS)
