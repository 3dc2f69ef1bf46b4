"""Programs as Linux 6.18 runs them: each direct call held against its map, each inlined lookup recognised."""

import json
from pathlib import Path

import pytest

from model.facts import Assumption
from model.kernel.abi import ABIS
from model.kernel.data import load_release
from model.loaders.detect import load_file
from model.program import Map
from model.rewrite.config import Config
from proofs.check_program import Checked, check
from proofs.claims import Claims
from proofs.outcome import word
from proofs.site import Residual
from proofs.solver import Solver

DUMPS = Path(__file__).resolve().parent.parent / "data" / "dumps"
LIVE = DUMPS / "live"
RELEASE = load_release("6.12")
CLAIMS = Claims(RELEASE, ABIS["x86_64"], Solver())


def checked(path: Path, maps: Path | None, assumptions: tuple[Assumption, ...] = ()) -> Checked:
    found = load_file(str(path), maps=None if maps is None else str(maps), helper_ids=RELEASE.helper_ids)
    return check(found.programs[0], CLAIMS, Config(), assumptions)


def told(found: Checked) -> list[tuple[int, str, str, str | None, str]]:
    return [(s.slot, s.helper, s.decision, s.function, word(s.verdict)) for s in found.sites]


# (dump, its sites as read by eye from the listing)
SITES: list[tuple[str, list[tuple[int, str, str, str | None, str]]]] = [
    (
        "map_calls.use_array",
        [
            (10, "map_lookup_elem", "inlined", None, "proved"),
            (28, "map_update_elem", "direct", "array_map_update_elem", "proved"),
            (34, "map_delete_elem", "direct", "array_map_delete_elem", "proved"),
        ],
    ),
    (
        "map_calls.use_hash",
        [
            (10, "map_lookup_elem", "inlined", None, "proved"),
            (24, "map_update_elem", "direct", "htab_map_update_elem", "proved"),
            (30, "map_delete_elem", "direct", "htab_map_delete_elem", "proved"),
        ],
    ),
    (
        "redirect.to_port",
        [(5, "redirect_map", "direct", "dev_map_redirect", "proved")],
    ),
    (
        "two_maps.same_map",
        [(18, "map_update_elem", "direct", "htab_map_update_elem", "proved")],
    ),
]


@pytest.mark.parametrize(("name", "expected"), SITES)
def test_sites(name: str, expected: list[tuple[int, str, str, str | None, str]]) -> None:
    found = checked(LIVE / f"{name}.txt", LIVE / "maps.json")
    assert told(found) == expected
    assert found.direct is not None
    assert word(found.direct.verdict) == "proved"
    assert found.direct.residual == ()


@pytest.mark.parametrize("name", ["use_array", "use_percpu_array", "use_percpu_hash", "use_lru_hash", "use_hash"])
def test_inlined_lookups_are_recognised(name: str) -> None:
    found = checked(LIVE / f"map_calls.{name}.txt", LIVE / "maps.json")
    assert [(s.decision, word(s.verdict)) for s in found.sites] == [
        ("inlined", "proved"),
        ("direct", "proved"),
        ("direct", "proved"),
    ]


def test_poisoned_sites_are_left_with_their_reason() -> None:
    two = checked(LIVE / "two_maps.two_types.txt", LIVE / "maps.json").sites[0]
    assert (two.decision, two.function) == ("stays", None)
    assert two.reason == "map pointer poisoned: one_hash (hash), one_array (array) reach it"
    assert two.leftover is not None
    assert two.leftover.kind is Residual.NECESSARY
    same = checked(LIVE / "two_maps.same_type.txt", LIVE / "maps.json").sites[0]
    assert same.leftover is not None
    assert same.leftover.kind is Residual.MISSED
    assert word(same.leftover.verdict) == "proved"


def test_an_inner_map_that_is_not_shown() -> None:
    """bpftool shows no inner map: unknown, until the user names it."""
    path = LIVE / "map_in_map.update_inner.txt"
    found = checked(path, LIVE / "maps.json")
    assert [(s.decision, word(s.verdict)) for s in found.sites] == [("inlined", "proved"), ("direct", "unknown")]
    call = found.sites[1].slot
    right = checked(path, LIVE / "maps.json", (Assumption(call, 1, Map("named", "hash")),))
    assert word(right.sites[1].verdict) == "proved"
    wrong = checked(path, LIVE / "maps.json", (Assumption(call, 1, Map("named", "array")),))
    assert word(wrong.sites[1].verdict) == "refuted"


def test_an_inlined_lookup_of_an_inner_map_that_is_not_shown() -> None:
    found = checked(LIVE / "map_in_map.lookup_inner.txt", LIVE / "maps.json")
    assert [(s.helper, s.decision, word(s.verdict)) for s in found.sites] == [
        ("map_lookup_elem", "inlined", "proved"),
        ("map_lookup_elem", "inlined", "unknown"),
    ]


def changed(tmp_path: Path, name: str, old: str, new: str) -> Path:
    text = (LIVE / f"{name}.txt").read_text()
    assert old in text
    path = tmp_path / "changed.txt"
    path.write_text("\n".join(line for line in text.replace(old, new).splitlines() if not line.startswith("       ")))
    return path


def test_another_maps_operation_is_refuted(tmp_path: Path) -> None:
    path = changed(tmp_path, "map_calls.use_hash", "call htab_map_update_elem", "call array_map_update_elem")
    site = checked(path, LIVE / "maps.json").sites[1]
    assert (site.decision, site.function, word(site.verdict)) == ("direct", "array_map_update_elem", "refuted")


def test_a_wrong_offset_in_an_inlined_lookup_is_not_proved(tmp_path: Path) -> None:
    """A hash with an 8-byte key: the value is at 48 + 8 behind the element."""
    path = changed(tmp_path, "map_calls.use_hash", "r0 += 56", "r0 += 64")
    site = checked(path, LIVE / "maps.json").sites[0]
    assert site.decision == "inlined"
    assert word(site.verdict) == "unsupported"
    assert "not what release 6.12 inlines for hash (hash)" in getattr(site.verdict, "reason", "")


def test_without_the_maps_types_nothing_is_claimed() -> None:
    found = checked(LIVE / "map_calls.use_hash.txt", None)
    assert "proved" not in {word(site.verdict) for site in found.sites}


def test_an_inlined_lookup_that_two_maps_reach_is_refuted(tmp_path: Path) -> None:
    """`r1` is one of two hashes with other key sizes at one inlined lookup: right for one of them at most."""
    path = tmp_path / "two.txt"
    path.write_text(
        "   0: (bf) r2 = r10\n   1: (07) r2 += -16\n   2: (85) call bpf_user_rnd_u32#1000\n"
        "   3: (18) r1 = map[id:1]\n   5: (15) if r0 == 0x0 goto pc+2\n   6: (18) r1 = map[id:2]\n"
        "   8: (bf) r2 = r10\n   9: (07) r2 += -16\n  10: (85) call __htab_map_lookup_elem#248656\n"
        "  11: (15) if r0 == 0x0 goto pc+1\n  12: (07) r0 += 56\n  13: (b7) r0 = 0\n  14: (95) exit\n"
    )
    maps = tmp_path / "maps.json"
    row = {"type": "hash", "flags": 0, "bytes_value": 8, "max_entries": 4}
    maps.write_text(
        json.dumps([{**row, "id": 1, "name": "a", "bytes_key": 8}, {**row, "id": 2, "name": "b", "bytes_key": 16}])
    )
    site = checked(path, maps).sites[0]
    assert (site.decision, word(site.verdict)) == ("inlined", "refuted")


def test_hidden_targets_cannot_be_told() -> None:
    found = checked(DUMPS / "hidden.txt", DUMPS / "maps.json")
    assert {word(site.verdict) for site in found.sites} == {"unknown"}
    assert found.direct is not None
    assert word(found.direct.verdict) == "unknown"
    assert "cannot tell" in getattr(found.direct.verdict, "reason", "")


ARRAY = """\
   0: (62) *(u32 *)(r10 -4) = 0
   1: (bf) r2 = r10
   2: (07) r2 += -4
   3: (18) r1 = map[id:1]
   5: (07) r1 += {first}
   6: (61) r0 = *(u32 *)(r2 +0)
   7: (35) if r0 >= 0x4 goto pc+3
   8: (67) r0 <<= 3
   9: (0f) r0 += r1
  10: (05) goto pc+1
  11: (b7) r0 = 0
  12: (18) r1 = map[id:1]
  14: (07) r1 += {second}
  15: (61) r0 = *(u32 *)(r2 +0)
  16: (35) if r0 >= 0x4 goto pc+3
  17: (67) r0 <<= 3
  18: (0f) r0 += r1
  19: (05) goto pc+1
  20: (b7) r0 = 0
  21: (b7) r0 = 0
  22: (95) exit
"""


@pytest.mark.parametrize(
    ("first", "second", "verdict"),
    [(312, 312, "proved"), (312, 320, "unknown"), (0, 0, "unknown"), (308, 308, "unknown")],
)
def test_one_kernel_has_one_layout(tmp_path: Path, first: int, second: int, verdict: str) -> None:
    """The offset of an array's elements is read from the dump: it must be one, and one that can be."""
    path = tmp_path / "array.txt"
    path.write_text(ARRAY.format(first=first, second=second))
    maps = tmp_path / "maps.json"
    row = {"id": 1, "type": "array", "name": "a", "flags": 0, "bytes_key": 4, "bytes_value": 8, "max_entries": 4}
    maps.write_text(json.dumps([row]))
    found = checked(path, maps).sites
    assert [(site.decision, word(site.verdict)) for site in found] == [("inlined", verdict)] * 2
    if verdict == "proved":
        assert found[0].reason == "if the offset of struct bpf_array.value = 312"
