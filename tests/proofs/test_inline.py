"""Inline: the verdict of every type in every release, and that no proof is vacuous. Verdicts are literals."""

from dataclasses import replace

import pytest

from model.errors import Unsupported
from model.kernel.abi import ABIS
from model.kernel.c_body import Unreadable
from model.kernel.data import load_release
from model.kernel.release import MapType, Opaque, Release
from proofs.mutants_inline import with_lookup
from proofs.obligation import NoRule, Obligation, Proved, Refuted, Shown
from proofs.outcome import word, worst
from proofs.properties.inline import DEAD, REACH
from proofs.properties.inline_cases import (
    DEADS,
    can_be_inner,
    inline_claim,
    inline_obligations,
    inline_types,
    map_obligations,
    same_entries,
)
from proofs.properties.products import product_obligations
from proofs.solver import Result, Solver

X86 = ABIS["x86_64"]
RELEASES = {name: load_release(name) for name in ("5.10", "6.1", "6.12", "7.3")}
SOLVER = Solver()

# (release, type) -> the verdict on the map itself, on inner maps ("" where the type can be none), and on both for
# maps of fewer than 2^31 entries.
VERDICTS = {
    ("5.10", "hash"): ("proved", "proved", "proved", "proved"),
    ("5.10", "array"): ("proved", "proved", "proved", "proved"),
    ("5.10", "lru_hash"): ("proved", "proved", "proved", "proved"),
    ("5.10", "array_of_maps"): ("proved", "", "proved", ""),
    ("5.10", "hash_of_maps"): ("proved", "", "proved", ""),
    ("5.10", "xskmap"): ("proved", "proved", "proved", "proved"),
    ("6.1", "hash"): ("proved", "proved", "proved", "proved"),
    ("6.1", "array"): ("refuted", "refuted", "proved", "proved"),
    ("6.1", "lru_hash"): ("proved", "proved", "proved", "proved"),
    ("6.1", "array_of_maps"): ("refuted", "", "proved", ""),
    ("6.1", "hash_of_maps"): ("proved", "", "proved", ""),
    ("6.1", "xskmap"): ("proved", "proved", "proved", "proved"),
    ("6.12", "hash"): ("proved", "proved", "proved", "proved"),
    ("6.12", "array"): ("refuted", "refuted", "proved", "proved"),
    ("6.12", "percpu_hash"): ("proved", "proved", "proved", "proved"),
    ("6.12", "percpu_array"): ("refuted", "refuted", "proved", "refuted"),
    ("6.12", "lru_hash"): ("proved", "proved", "proved", "proved"),
    ("6.12", "array_of_maps"): ("refuted", "", "proved", ""),
    ("6.12", "hash_of_maps"): ("proved", "", "proved", ""),
    ("6.12", "xskmap"): ("proved", "proved", "proved", "proved"),
    ("7.3", "hash"): ("proved", "proved", "proved", "proved"),
    ("7.3", "array"): ("refuted", "refuted", "proved", "proved"),
    ("7.3", "percpu_hash"): ("proved", "proved", "proved", "proved"),
    ("7.3", "percpu_array"): ("refuted", "refuted", "proved", "proved"),
    ("7.3", "lru_hash"): ("proved", "proved", "proved", "proved"),
    ("7.3", "array_of_maps"): ("refuted", "", "proved", ""),
    ("7.3", "hash_of_maps"): ("proved", "", "proved", ""),
    ("7.3", "xskmap"): ("proved", "proved", "proved", "proved"),
    ("7.3", "rhash"): ("proved", "proved", "proved", "proved"),
}


# Claims on arrays take seconds: the quick run has those of the newest release.
SLOW = {("5.10", "array"), ("6.1", "array"), ("6.12", "array")}
ROWS = [pytest.param(*row, id="/".join(row), marks=[pytest.mark.slow] if row in SLOW else []) for row in VERDICTS]


def decided(release: str, map_type: str, *, inner: bool = False, bounded: bool = False) -> list[Result]:
    return list(SOLVER.decide_all(map_obligations(RELEASES[release], X86, map_type, inner=inner, bounded=bounded)))


def verdict(release: str, map_type: str, *, inner: bool = False, bounded: bool = False) -> str:
    if inner and not can_be_inner(RELEASES[release], map_type):
        return ""
    return word(worst(result.verdict for result in decided(release, map_type, inner=inner, bounded=bounded)))


def test_every_type_with_a_map_gen_lookup_has_a_row() -> None:
    assert {(name, kind) for name, release in RELEASES.items() for kind in inline_types(release)} == set(VERDICTS)


@pytest.mark.parametrize(("release", "map_type"), ROWS)
def test_verdicts(release: str, map_type: str) -> None:
    row = VERDICTS[release, map_type]
    assert (verdict(release, map_type), verdict(release, map_type, inner=True)) == row[:2]
    if "refuted" in row:  # what holds of all maps holds of those with fewer entries
        found = [verdict(release, map_type, inner=inner, bounded=True) for inner in (False, True)]
        assert tuple(found) == row[2:]


@pytest.mark.parametrize(("release", "map_type"), ROWS)
def test_only_results_are_refuted_and_every_path_is_taken(release: str, map_type: str) -> None:
    """Each way through either side is reachable; those that are not are known by name, and proved to be dead."""
    for inner in (False, True) if can_be_inner(RELEASES[release], map_type) else (False,):
        for result in decided(release, map_type, inner=inner):
            part = result.obligation.part
            assert isinstance(result.verdict, Proved) or part.startswith("r0/"), (part, result.verdict)
            assert (result.obligation.expect == "reachable") == part.startswith(REACH)


def parts(release: str, map_type: str) -> list[str]:
    return [one.part for one in map_obligations(RELEASES[release], X86, map_type)]


def test_paths_of_an_array() -> None:
    found = parts("6.12", "array")
    assert len([part for part in found if part.startswith("r0/")]) == 8
    assert len([part for part in found if part.startswith(REACH + "inlined/")]) == 8
    assert [part for part in found if part.startswith(REACH + "declined/")] == [
        "reach/declined/map_flags-&-BPF_F_INNER_MAP"
    ]
    assert [part for part in found if part.startswith(REACH + "operation/")] == [
        "reach/operation/array_map_lookup_elem,-return-1",
        "reach/operation/array_map_lookup_elem,-return-2",
    ]
    assert [
        part for part in found if part in ("callee_saved", "memory", "kernel", "callbacks", "fits", "declines")
    ] == [
        "callee_saved",
        "memory",
        "kernel",
        "callbacks",
        "fits",
        "declines",
    ]


def test_dead_paths_are_counted() -> None:
    assert len([part for part in parts("6.12", "array_of_maps") if part.startswith(DEAD)]) == 6
    assert len([part for part in parts("6.12", "percpu_array") if part.startswith(DEAD)]) == 1
    assert [part for part in parts("6.12", "lru_hash") if part.startswith(DEAD)] == []
    assert set(DEADS) == {"array_of_maps", "percpu_array"}
    dead = next(one for one in map_obligations(RELEASES["7.3"], X86, "array_of_maps") if one.part.startswith(DEAD))
    assert dead.origin.endswith("fd_array_map_alloc_check: value_size is 4, so an element has 8 bytes")


def test_a_dead_path_without_a_row_is_no_proof() -> None:
    claim = replace(inline_claim(RELEASES["7.3"], X86, "array_of_maps"), dead=())
    part = "reach/inlined/bypass_spec_v1,not-is_power_of_2(elem_size)/1"
    found = SOLVER.decide(Obligation("x", "", claim, part, expect="reachable", over="products")).verdict
    assert isinstance(found, NoRule)
    assert "vacuous" in found.reason


def shown(result: Result) -> dict[str, int]:
    assert isinstance(result.verdict, Refuted)
    values: tuple[Shown, ...] = result.verdict.counterexample.shown
    return {one.label: one.value for one in values}


def refuted(release: str, map_type: str, **options: bool) -> list[Result]:
    return [one for one in decided(release, map_type, **options) if isinstance(one.verdict, Refuted)]


@pytest.mark.parametrize(
    ("release", "map_type"),
    [("6.1", "array"), ("6.12", "percpu_array"), ("7.3", "array"), ("7.3", "array_of_maps"), ("7.3", "percpu_array")],
)
def test_an_index_of_half_the_numbers(release: str, map_type: str) -> None:
    """The compare with max_entries has a sign-extended immediate: from 2^31 entries on it never jumps."""
    found = refuted(release, map_type)
    assert found
    for result in found:
        values = shown(result)
        assert (values["map->max_entries"], values["the key's first 4 bytes"]) == (0x80000000, 0x80000000)
        assert values["operation: r0"] == 0
        assert values["inlined: r0"] != 0


def test_inner_per_cpu_arrays_of_another_size() -> None:
    """6.12 lets per-CPU arrays of any size in for a template, and compares with the template's size."""
    found = [shown(result) for result in refuted("6.12", "percpu_array", inner=True, bounded=True)]
    assert [values["map->max_entries"] < values["template->max_entries"] for values in found] == [False, True] * 2
    assert {values["the key's first 4 bytes"] for values in found} == {1}
    assert (same_entries(RELEASES["6.12"], "percpu_array"), same_entries(RELEASES["7.3"], "percpu_array")) == (
        False,
        True,
    )


def test_products() -> None:
    results = list(SOLVER.decide_all(product_obligations()))
    assert {result.obligation.name: word(result.verdict) for result in results} == {
        "products/shift_is_product": "proved",
        "products/commutes": "proved",
        "products/low_half": "proved",
        "products/monotone": "proved",
    }


def test_no_claim_without_per_cpu_instructions() -> None:
    with pytest.raises(Unsupported, match="declines on s390x: no per-CPU instructions"):
        inline_obligations(RELEASES["7.3"], ABIS["s390x"], "percpu_array")
    assert inline_obligations(RELEASES["7.3"], ABIS["s390x"], "array")


def lost(release: Release, **changes: object) -> Release:
    return replace(release, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("release", "map_type", "said"),
    [
        (RELEASES["7.3"], "lpm_trie", "lpm_trie has no map_gen_lookup in 7.3"),
        (RELEASES["6.1"], "percpu_array", "percpu_array has no map_gen_lookup in 6.1"),
        (RELEASES["6.1"], "no_such_map", "no_such_map has no map_gen_lookup"),
        (lost(RELEASES["6.1"], bodies={}), "hash", "the C of htab_map_lookup_elem was not read"),
        (lost(RELEASES["6.1"], gen_lookup={}), "hash", "htab_map_gen_lookup was not read"),
        (
            lost(RELEASES["6.1"], map_types={"shelf": MapType("shelf", 99, "array_map_ops")}),
            "shelf",
            "no rule for the allocation of shelf",
        ),
        (with_lookup(RELEASES["6.1"], "hash", lambda body: (*body, Opaque("asm", 77))), "hash", "line 77: asm"),
        (
            lost(
                RELEASES["6.1"],
                bodies={
                    **RELEASES["6.1"].bodies,
                    "htab_map_lookup_elem": replace(
                        RELEASES["6.1"].bodies["htab_map_lookup_elem"], steps=(Unreadable("asm volatile", 5),)
                    ),
                },
            ),
            "hash",
            "hashtab.c:5: asm volatile",
        ),
        (lost(RELEASES["6.1"], meta_equal={"hash": "vendor_equal"}), "hash", "vendor_equal lets in"),
    ],
)
def test_what_has_no_rule(release: Release, map_type: str, said: str) -> None:
    with pytest.raises(Unsupported, match=said):
        inline_obligations(release, X86, map_type)


def test_names_are_unique() -> None:
    names = [
        one.name
        for release in RELEASES.values()
        for map_type in inline_types(release)
        for one in inline_obligations(release, X86, map_type)
    ]
    assert len(set(names)) == len(names)
    assert "inline/6.12/hash/map_lookup_elem/inner/r0/always/1" in names
    assert "inline/6.12/array/map_lookup_elem/lemma/index_mask" in names
    assert not any(" " in name for name in names)


@pytest.mark.parametrize(("kind", "same"), [("array", True), ("array_of_maps", True), ("percpu_array", False)])
def test_a_sequence_that_asks_for_no_per_cpu_instructions_is_one_claim_on_every_jit(kind: str, same: bool) -> None:
    """x86_64 has them in 6.12, s390x has not. No function is called, so the ABI makes no difference either."""
    release = load_release("6.12")
    claims = [inline_claim(release, ABIS[name], kind) for name in ("x86_64", "s390x")]
    assert (claims[0] == claims[1]) == same
