"""Which maps can be allocated, and which inner maps are let in: literals from the kernel's checks."""

from dataclasses import replace
from typing import Any

import pytest

from model.errors import Unsupported
from model.maps.allocation import Parameters, applies, parameters, rules
from model.maps.templates import compared, copied, let_in, template
from proofs.concrete import IntWorld

SMALL = {"key_size": 4, "value_size": 8, "max_entries": 5, "map_flags": 0, "bypass_spec_v1": 1}
MAX = {"KMALLOC_MAX_SIZE": 4 << 20}  # x86-64 with 4 KiB pages


def allowed(map_type: str, release: str, **changes: int) -> bool:
    """Whether every row of the type holds for a map with `SMALL` and `changes`."""
    world = IntWorld(lambda name, width: 0, MAX)
    words = parameters(world, map_type, "map", SMALL | changes)
    return all(rule.holds(world, words) for rule in rules(map_type, release))


@pytest.mark.parametrize(
    ("map_type", "release", "changes", "allocated"),
    [
        ("array", "6.1", {}, True),
        ("array", "6.1", {"key_size": 8}, False),
        ("array", "6.1", {"value_size": 0}, False),
        ("array", "6.1", {"max_entries": 0}, False),
        ("array", "6.1", {"max_entries": 0xFFFFFFFF}, True),
        ("array", "6.1", {"max_entries": 1, "value_size": 1}, True),
        ("percpu_array", "6.12", {"max_entries": 1, "value_size": 1}, True),
        ("array_of_maps", "6.12", {"max_entries": 1, "value_size": 4}, True),
        ("hash", "6.12", {"max_entries": 1, "key_size": 1, "value_size": 1}, True),
        ("hash", "6.12", {"max_entries": 0}, False),
        ("hash", "6.12", {"value_size": 0}, False),
        ("rhash", "7.3", {"max_entries": 1, "key_size": 1, "value_size": 1}, True),
        ("xskmap", "6.12", {"max_entries": 1, "value_size": 4}, True),
        ("xskmap", "6.12", {"max_entries": 0, "value_size": 4}, False),
        ("array", "6.1", {"max_entries": 0x80000000, "bypass_spec_v1": 0}, True),
        ("array", "6.1", {"max_entries": 0x80000001, "bypass_spec_v1": 0}, False),
        ("array", "6.1", {"bypass_spec_v1": 2}, False),
        ("array", "6.1", {"value_size": 0x7FFFFFFF}, True),
        ("array", "6.1", {"value_size": 0x80000000}, False),
        ("array", "5.10", {"value_size": 4 << 20}, True),
        ("array", "5.10", {"value_size": (4 << 20) + 1}, False),
        ("array", "5.10", {"max_entries": 0x1FFFFDFF}, True),
        ("array", "5.10", {"max_entries": 0x1FFFFE00}, False),
        ("array", "5.10", {"max_entries": 0x10000001, "bypass_spec_v1": 0}, False),
        ("array", "5.10", {"max_entries": 0x10000000, "bypass_spec_v1": 0}, True),
        ("array", "6.1", {"map_flags": 0x1000}, True),
        ("percpu_array", "6.12", {"map_flags": 0x1000}, False),
        ("percpu_array", "6.12", {"value_size": 64 << 10}, True),
        ("percpu_array", "6.12", {"value_size": (64 << 10) + 1}, False),
        ("array_of_maps", "7.3", {"value_size": 4}, True),
        ("array_of_maps", "7.3", {"value_size": 8}, False),
        ("hash", "5.10", {"key_size": 512}, True),
        ("hash", "5.10", {"key_size": 513}, False),
        ("hash", "6.1", {"key_size": 513}, True),
        ("hash", "6.1", {"key_size": (4 << 20) - 57}, True),
        ("hash", "6.1", {"key_size": (4 << 20) - 56}, False),
        ("hash", "6.1", {"max_entries": 0x8000000}, True),  # 2^27 buckets of 16 bytes
        ("hash", "6.1", {"max_entries": 0x8000001}, False),  # 2^28 of them: more than U32_MAX bytes
        ("rhash", "7.3", {"max_entries": 0x80000000}, True),
        ("rhash", "7.3", {"max_entries": 0x80000001}, False),
        ("hash", "6.1", {"key_size": 0}, False),
        ("hash_of_maps", "6.1", {"value_size": 8}, False),
        ("rhash", "7.3", {"key_size": 0xFFFF}, True),
        ("rhash", "7.3", {"key_size": 0x10000}, False),
        ("xskmap", "6.1", {"value_size": 4, "max_entries": 0xFFFFFFFF}, True),
        ("xskmap", "6.1", {"value_size": 8}, False),
        ("xskmap", "5.10", {"value_size": 4, "max_entries": 0x1FFFFDFF}, True),
        ("xskmap", "5.10", {"value_size": 4, "max_entries": 0x1FFFFE00}, False),
    ],
)
def test_rows(map_type: str, release: str, changes: dict[str, int], allocated: bool) -> None:
    assert allowed(map_type, release, **changes) is allocated


@pytest.mark.parametrize(
    ("entries", "mask"),
    [(1, 0), (2, 1), (3, 3), (4, 3), (5, 7), (0x80000000, 0x7FFFFFFF), (0x80000001, 0xFFFFFFFF)],
)
def test_index_mask_and_elem_size(entries: int, mask: int) -> None:
    words = parameters(
        IntWorld(lambda name, width: 0), "array", "map", SMALL | {"max_entries": entries, "value_size": 9}
    )
    assert (words.index_mask, words.elem_size) == (mask, 16)


def test_releases_in_order() -> None:
    assert applies("6.1", "", "6.12")
    assert not applies("6.10", "", "6.9")
    assert applies("", "6.1", "5.10")
    assert not applies("", "6.1", "6.1")


ORIGIN: Parameters[int] = Parameters(4, 8, 5, 0, 1, 8, 7)


@pytest.mark.parametrize(
    ("map_type", "release", "kept"),
    [
        ("array", "5.10", ORIGIN),  # map_gen_lookup rounds value_size itself; elem_size is zero
        ("array", "6.1", ORIGIN),
        ("percpu_array", "6.1", replace(ORIGIN, bypass_spec_v1=0, elem_size=0, index_mask=0)),
        ("percpu_array", "6.12", ORIGIN),
        ("hash", "7.3", replace(ORIGIN, bypass_spec_v1=0, elem_size=0, index_mask=0)),
    ],
)
def test_templates(map_type: str, release: str, kept: Parameters[int]) -> None:
    expected = replace(kept, elem_size=0) if release == "5.10" else kept
    assert template(IntWorld(lambda name, width: 0), copied(map_type, release), ORIGIN) == expected


@pytest.mark.parametrize(
    ("function", "flags", "entries"),
    [
        ("bpf_map_meta_equal", 0, 99),
        ("array_map_meta_equal", 0, 5),
        ("array_map_meta_equal", 0x1000, 99),
        ("xsk_map_meta_equal", 0x1000, 5),
    ],
)
def test_entries_of_inner_maps(function: str, flags: int, entries: int) -> None:
    """The template has 5 entries; a map of 99 would be drawn where the function does not compare them."""
    draw: Any = lambda name, width: 99 if name == "map->max_entries" else 1  # noqa: E731
    seen = replace(ORIGIN, map_flags=flags)
    words = let_in(IntWorld(draw), function, "hash", seen)
    assert (words.max_entries, words.key_size, words.value_size, words.map_flags) == (entries, 4, 8, flags)


def test_an_unknown_comparison_has_no_rule() -> None:
    with pytest.raises(Unsupported, match="vendor_meta_equal"):
        let_in(IntWorld(lambda name, width: 0), "vendor_meta_equal", "hash", ORIGIN)
    assert compared("vendor_meta_equal") == ()
    assert "max_entries" in compared("array_map_meta_equal")
    assert "max_entries" not in compared("bpf_map_meta_equal")
