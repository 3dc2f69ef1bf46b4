"""What lookups point to, and what becomes of it."""

import pytest
from map_table import Table, le, release

from model.bits import IntBits
from model.errors import Unsupported
from model.machine.outcome import Violation
from model.maps.bloom import size
from model.maps.create import refusal
from model.maps.jhash import jhash
from model.maps.state import Shape
from model.program import Map

A, B, C, D = b"aaaa", b"bbbb", b"cccc", b"dddd"


def test_an_array_element_stays_where_it_is() -> None:
    array = Table(Map("a", "array", 4, 5, 3, 0))
    first = array.find("array_map_lookup_elem", le(0))
    assert array.look("array_map_lookup_elem", le(2)) == bytes(5)
    array.do("array_map_update_elem", le(0), b"hello", 0)
    assert array.at(first) == b"hello"
    assert [array.find("array_map_lookup_elem", le(i)) - first for i in (0, 1, 2)] == [0, 8, 16]
    assert array.find("array_map_lookup_elem", le(3)) == 0
    assert array.find("array_map_lookup_elem", le(0x80000000)) == 0


def test_a_hash_replaces_an_element_that_is_updated() -> None:
    table = Table(Map("h", "hash", 4, 4, 2, 0))
    table.do("htab_map_update_elem", le(1), A, 0)
    old = table.find("htab_map_lookup_elem", le(1))
    table.do("htab_map_update_elem", le(1), B, 0)
    new = table.find("htab_map_lookup_elem", le(1))
    assert old != new
    assert (table.at(old), table.at(new)) == (A, B)
    table.do("htab_map_update_elem", le(1), C, 0)  # the two change places
    assert table.find("htab_map_lookup_elem", le(1)) == old
    assert (table.at(old), table.at(new)) == (C, B)


def test_memory_of_a_deleted_element_shows_the_next_one() -> None:
    table = Table(Map("h", "hash", 4, 4, 4, 0))
    table.do("htab_map_update_elem", le(1), A, 0)
    table.do("htab_map_update_elem", le(2), B, 0)
    old = table.find("htab_map_lookup_elem", le(1))
    table.do("htab_map_delete_elem", le(1))
    assert table.find("htab_map_lookup_elem", le(1)) == 0
    assert table.at(old) == A
    table.do("htab_map_update_elem", le(3), C, 0)
    assert table.find("htab_map_lookup_elem", le(3)) == old
    assert table.at(old) == C


def test_rhash_overwrites_in_place() -> None:
    table = Table(Map("h", "rhash", 4, 4, 2, 1), "7.3")
    table.do("rhtab_map_update_elem", le(1), A, 0)
    address = table.find("rhtab_map_lookup_elem", le(1))
    table.do("rhtab_map_update_elem", le(1), B, 2)
    assert table.find("rhtab_map_lookup_elem", le(1)) == address
    assert table.at(address) == B
    assert address - table.find("rhtab_lookup_elem", le(1)) == 8 + 8


def test_a_key_lies_in_front_of_its_value() -> None:
    """struct htab_elem has its key at 48; 5 bytes of key take 8."""
    table = Table(Map("h", "hash", 5, 4, 2, 0))
    table.do("htab_map_update_elem", b"12345", A, 0)
    element = table.find("__htab_map_lookup_elem", b"12345")
    assert table.find("htab_map_lookup_elem", b"12345") == element + 56
    assert table.memory.read(element + 48, 5) == b"12345"


@pytest.mark.parametrize(("kind", "prefix"), [("percpu_hash", "htab_percpu_map"), ("percpu_array", "array_map")])
def test_each_cpu_has_a_value_of_its_own(kind: str, prefix: str) -> None:
    table = Table(Map("p", kind, 4, 4, 2, 0), cpus=3, cpu=1)
    look = "percpu_array_map" if kind == "percpu_array" else "htab_percpu_map"
    table.do(f"{prefix}_update_elem", le(1), A, 0)
    assert table.look(f"{look}_lookup_elem", le(1)) == A
    on = [table.look(f"{look}_lookup_percpu_elem", le(1), cpu) for cpu in range(3)]
    assert on == [bytes(4), A, bytes(4)]
    assert table.look(f"{look}_lookup_percpu_elem", le(1), 3) is None
    assert table.look(f"{look}_lookup_percpu_elem", le(9), 0) is None


def test_a_new_per_cpu_element_is_zero_on_other_cpus() -> None:
    table = Table(Map("p", "percpu_hash", 4, 4, 2, 0))
    table.do("htab_percpu_map_update_elem", le(1), A, 0)
    other = table.find("htab_percpu_map_lookup_percpu_elem", le(1), 1)
    table.memory.write(other, D)
    table.do("htab_percpu_map_update_elem", le(1), B, 0)
    assert table.at(other) == D
    table.do("htab_map_delete_elem", le(1))
    table.do("htab_percpu_map_update_elem", le(2), C, 0)
    assert table.find("htab_percpu_map_lookup_percpu_elem", le(2), 1) == other
    assert table.at(other) == bytes(4)


def taken(table: Table, name: str) -> tuple[int, bytes]:
    return table.do(name, None, b"????"), bytes(table.value.data)


def test_a_queue_gives_the_oldest_a_stack_the_newest() -> None:
    queue, stack = Table(Map("q", "queue", 0, 4, 2, 0)), Table(Map("s", "stack", 0, 4, 2, 0))
    for table in (queue, stack):
        for value in (A, B):
            table.do("queue_stack_map_push_elem", None, value, 0)
        assert table.do("queue_stack_map_push_elem", None, C, 2) == 0  # A, the oldest, makes room
    assert [taken(queue, f"queue_map_{op}_elem") for op in ("peek", "pop", "pop", "pop")] == [
        *((0, B), (0, B), (0, C), (-2, bytes(4)))
    ]
    assert [taken(stack, f"stack_map_{op}_elem") for op in ("peek", "pop", "pop", "pop")] == [
        *((0, C), (0, C), (0, B), (-2, bytes(4)))
    ]


def ip(text: str, length: int) -> bytes:
    return le(length) + bytes(int(part) for part in text.split("."))


def test_the_longest_prefix_wins() -> None:
    trie = Table(Map("t", "lpm_trie", 8, 4, 9, 1))
    for key, value in (
        (ip("10.0.0.0", 8), A),
        (ip("10.1.0.0", 16), B),
        (ip("10.1.128.0", 17), C),
        (ip("1.2.3.4", 0), D),
    ):
        assert trie.do("trie_update_elem", key, value, 0) == 0
    rows = {
        ("10.1.200.1", 32): C,
        ("10.1.127.1", 32): B,
        ("10.1.200.1", 16): B,  # no stored prefix longer than the key's own
        ("10.2.0.0", 32): A,
        ("10.0.0.0", 7): D,
        ("11.0.0.0", 32): D,
        ("0.0.0.0", 0): D,
        ("10.0.0.0", 33): None,
    }
    assert {key: trie.look("trie_lookup_elem", ip(*key)) for key in rows} == rows
    assert trie.do("trie_delete_elem", ip("10.1.255.255", 16)) == 0
    assert trie.look("trie_lookup_elem", ip("10.1.127.1", 32)) == A
    assert trie.look("trie_lookup_elem", ip("10.1.200.1", 32)) == C


def test_a_trie_of_one_byte_of_data() -> None:
    trie = Table(Map("t", "lpm_trie", 5, 4, 9, 1))
    trie.do("trie_update_elem", le(3) + b"\xa0", A, 0)
    assert trie.look("trie_lookup_elem", le(8) + b"\xbf") == A
    assert trie.look("trie_lookup_elem", le(8) + b"\xc0") is None
    assert trie.look("trie_lookup_elem", le(9) + b"\xa0") is None


def test_maps_in_arrays_of_maps() -> None:
    inner = Map("inner", "array", 4, 4, 1, 0)
    outer = Table(Map("outer", "array_of_maps", 4, 4, 2, 0, inner=inner))
    assert outer.find("array_of_map_lookup_elem", le(1)) == 0
    made = outer.kernel.map(inner)
    outer.kernel.put_inner(outer.made, le(1), made)
    assert outer.find("array_of_map_lookup_elem", le(1)) == made.address
    assert outer.find("array_of_map_lookup_elem", le(2)) == 0


def test_an_lru_hash_gives_up_what_was_not_looked_up() -> None:
    """8 elements on one of 2 CPUs are taken two at a time, so the ninth key costs the two oldest unmarked ones."""
    table = Table(Map("h", "lru_hash", 4, 4, 8, 0))
    for number in range(8):
        assert table.do("htab_lru_map_update_elem", le(number), A, 0) == 0
    assert table.look("htab_lru_map_lookup_elem", le(0)) == A
    assert table.do("htab_lru_map_update_elem", le(8), B, 0) == 0
    there = [n for n in range(9) if table.look("htab_lru_map_lookup_elem_sys", le(n)) is not None]
    assert there == [0, 3, 4, 5, 6, 7, 8]


def test_an_lru_hash_of_6_1_gives_up_all_that_is_unmarked() -> None:
    """The target is 128 there, whatever the map's size."""
    table = Table(Map("h", "lru_hash", 4, 4, 8, 0), "6.1")
    for number in range(9):
        assert table.do("htab_lru_map_update_elem", le(number), A, 0) == 0
    assert [n for n in range(9) if table.look("htab_lru_map_lookup_elem_sys", le(n)) is not None] == [8]


def test_a_refused_update_of_a_full_lru_hash_costs_elements() -> None:
    table = Table(Map("h", "lru_hash", 4, 4, 2, 0))
    table.do("htab_lru_map_update_elem", le(1), A, 0)
    table.do("htab_lru_map_update_elem", le(2), A, 0)
    assert table.do("htab_lru_map_update_elem", le(2), B, 1) == -17
    assert table.look("htab_lru_map_lookup_elem_sys", le(1)) is None


JHASH = {
    (b"T", 0): 0x789C5F5C,
    (b"The", 7): 0x14B3D2D0,
    (b"The ", 14): 0xDDED5A68,
    (b"The q", 21): 0xEC7B6B44,
    (b"The quic", 28): 0x4587D879,
    (b"The quick b", 35): 0x58AC69D4,
    (b"The quick br", 42): 0x94EC2984,
    (b"The quick bro", 49): 0xE3F49E74,
    (b"The quick brown ", 56): 0x3F355B2C,
    (b"The quick brown fox jump", 63): 0xE8078298,
    (b"The quick brown fox jumps", 70): 0xFA62CB59,
}
"""(bytes, seed) -> hash, computed in C with include/linux/jhash.h of 6.12 on a little-endian machine."""


def test_hash_of_bytes() -> None:
    bits = IntBits(32)
    for (data, seed), expected in JHASH.items():
        assert jhash(bits, int.from_bytes(data, "little"), len(data), seed) == expected, data


def test_bits_of_a_bloom_filter() -> None:
    assert [size(Shape("bloom_filter", 0, 4, most, 0, "6.12")) for most in (1, 9, 10, 100, 1000)] == [
        *(64, 64, 128, 1024, 8192)
    ]
    with pytest.raises(Unsupported):
        size(Shape("bloom_filter", 0, 4, 1 << 20, 0, "6.12"))


@pytest.mark.parametrize(
    ("shape", "errno"),
    [
        (("array", 4, 4, 1, 0), 0),
        (("array", 8, 4, 1, 0), 22),
        (("array", 4, 0, 1, 0), 22),
        (("array", 4, 4, 0, 0), 22),
        (("array", 4, 1 << 31, 1, 0), 7),
        (("percpu_array", 4, 32769, 1, 0), 7),
        (("percpu_array", 4, 8, 1, 1 << 12), 22),
        (("hash", 0, 4, 1, 0), 22),
        (("hash", 4, 4 << 20, 1, 0), 7),
        (("hash", 4, 4, 1, 2), 22),
        (("hash", 4, 4, 1 << 27, 1), 0),
        (("hash", 4, 4, (1 << 27) + 1, 1), 7),
        (("lru_hash", 4, 4, 1, 1), 524),
        (("rhash", 4, 4, 1, 0), 22),
        (("rhash", 1 << 16, 4, 1, 1), 7),
        (("queue", 4, 4, 1, 0), 22),
        (("queue", 0, 4, 1 << 31, 0), 7),
        (("queue", 0, 4 << 20, 1, 0), 0),
        (("queue", 0, (4 << 20) + 1, 1, 0), 7),
        (("queue", 0, 4, 0x3FFFFFFE, 0), 0),
        (("queue", 0, 4, 0x3FFFFFFF, 0), 7),
        (("lpm_trie", 8, 4, 1, 0), 22),
        (("lpm_trie", 4, 4, 1, 1), 22),
        (("lpm_trie", 261, 4, 1, 1), 22),
        (("bloom_filter", 4, 4, 1, 0), 22),
        (("hash_of_maps", 4, 8, 1, 0), 22),
        (("array", 4, 4, 1, 1 << 10), 0),
        (("array", 4, 4, 1, 1), 22),
        (("array", 4, 4, 1, 1 << 11), 22),
        (("array", 4, 4, 1, 1 << 7 | 1 << 8), 22),
        (("array_of_maps", 4, 4, 1, 1 << 7), 22),
        (("percpu_array", 4, 4, 1, 1 << 2), 22),
        (("percpu_array", 4, 40000, 1, 1 << 3 | 1 << 4), 22),
        (("hash", 4, 4, 1, 1 << 10), 22),
        (("lru_hash", 4, 4, 1, 1 << 1 | 1 << 2), 22),
        (("rhash", 4, 4, 1, 1 | 1 << 10), 22),
        (("queue", 0, 4, 1, 1), 22),
        (("lpm_trie", 8, 4, 1, 1 | 1 << 6), 22),
        (("bloom_filter", 0, 4, 1, 1), 22),
        (("bloom_filter", 1, (4 << 20) + 1, 1, 0), 7),
    ],
)
def test_creation(shape: tuple[str, int, int, int, int], errno: int) -> None:
    assert refusal(Shape(*shape, "7.3")) == errno


@pytest.mark.parametrize(
    ("kind", "extra", "errno"),
    [("bloom_filter", 15, 0), ("bloom_filter", 16, 22), ("hash", 1, 22), ("rhash", 1, 0), ("rhash", 2, 22)],
)
def test_creation_with_map_extra(kind: str, extra: int, errno: int) -> None:
    key_size = 0 if kind == "bloom_filter" else 4
    assert refusal(Shape(kind, key_size, 4, 1, int(kind == "rhash"), "7.3", extra)) == errno


def test_maps_that_are_not_modelled() -> None:
    for map_ in (Map("d", "devmap", 4, 4, 1, 0), Map("u", None), Map("l", "lru_hash", 4, 4, 8, 2)):
        with pytest.raises(Unsupported):
            Table(map_)
    with pytest.raises(Unsupported):
        Table(Map("big", "array", 4, 1 << 20, 1 << 20, 0))


def test_reading_past_an_element_is_a_fault() -> None:
    table = Table(Map("h", "hash", 4, 4, 2, 0))
    table.do("htab_map_update_elem", le(1), A, 0)
    address = table.find("htab_map_lookup_elem", le(1))
    assert table.memory.read(address, 8) == A + bytes(4)  # rounded up
    with pytest.raises(Violation):
        table.memory.read(address, 9)
    assert release("6.12").layout["struct htab_elem.key"] == 48
