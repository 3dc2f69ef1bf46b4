"""Many releases and ABIs at once: counts, causes, and how each refutation is reached."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from model.kernel.abi import ABIS, Abi, Extension
from model.kernel.data import load_release
from model.kernel.release import CType, Release
from proofs.causes import CAUSES, Shape, known
from proofs.check_matrix import Group, check, groups, outside
from proofs.mutants import with_operation, with_prototype
from proofs.outcome import word
from proofs.reachability import Reach, Reached, reached
from proofs.solver import Solver

NAMES = ("5.10", "6.1", "6.12", "7.3")
ALL = [load_release(name) for name in NAMES]
INT, LONG = CType("int", 32, True), CType("long", 64, True)


@pytest.fixture(scope="module")
def solver() -> Solver:
    return Solver()


def grouped(
    solver: Solver, releases: Iterable[Release], abis: Iterable[Abi], family: str = "dispatch", match: str | None = None
) -> dict[str, Group]:
    found = groups(check(family, list(releases), list(abis), solver, match), solver, ALL)
    assert len({group.cause.name for group in found}) == len(found)
    return {group.cause.name: group for group in found}


def where(group: Group) -> set[tuple[str, str]]:
    return {(finding.release.name, finding.abi.name) for finding in group.findings}


def ways(group: Group) -> dict[tuple[str, str, str], Reached]:
    return {(f.release.name, f.entry.map_type, f.entry.helper): f.reached for f in group.findings}


def test_every_refutation_has_its_cause(solver: Solver) -> None:
    """By the commits and the ABIs: int until 6.4, u32 cpu since 5.19, u32 ifindex until 6.2."""
    found = grouped(solver, ALL, ABIS.values())
    extending = ("riscv64", "s390x", "ppc64le", "loongarch64", "mips64", "sparc64")
    assert list(found) == ["int result", "u32 cpu", "u32 ifindex"]
    assert where(found["int result"]) == {(name, abi) for name in ("5.10", "6.1") for abi in ("x86_64", "arm64")}
    assert where(found["u32 cpu"]) == {(name, abi) for name in ("6.1", "6.12", "7.3") for abi in extending}
    assert where(found["u32 ifindex"]) == {("6.1", abi) for abi in extending}
    assert not any(outside(group) for group in found.values())
    # 24 of 5.10 and 36 of 6.1 on two ABIs; three types of per-CPU hash and array; four types that redirect.
    assert [len(group.findings) for group in found.values()] == [120, 54, 24]


def test_what_6_1_reaches(solver: Solver) -> None:
    """arraymap.c:402 returns -EINVAL; __bpf_xdp_redirect_map (filter.h) returns 0 to 4 and no error."""
    found = ways(grouped(solver, ALL, [ABIS["x86_64"]])["int result"])
    reach = {key: way.reach for key, way in found.items()}
    assert {helper for (_, _, helper), way in reach.items() if way is Reach.LATENT} == {"redirect_map"}
    assert {way for (_, _, helper), way in reach.items() if helper == "redirect_map"} == {Reach.LATENT}
    assert Reach.UNCLEAR not in reach.values()
    deleted = found["6.1", "array", "map_delete_elem"]
    assert deleted.why == "array_map_delete_elem returns -EINVAL, kernel/bpf/arraymap.c:402"
    assert "only 0 … 4" in found["6.1", "cpumap", "redirect_map"].why
    assert "include/linux/filter.h:1588" in found["6.1", "cpumap", "redirect_map"].why


def test_any_number_may_be_passed_for_cpu(solver: Solver) -> None:
    found = ways(grouped(solver, [load_release("7.3")], [ABIS["s390x"]])["u32 cpu"])
    assert {way.reach for way in found.values()} == {Reach.REACHABLE}
    assert all("argument 3 of bpf_map_lookup_percpu_elem is ARG_ANYTHING" in way.why for way in found.values())


def test_the_same_formula_is_solved_once(solver: Solver) -> None:
    squares = check("dispatch", ALL, list(ABIS.values()), solver)
    claims = {result.obligation.claim for square in squares for entry in square.entries for result in entry.results}
    assert sum(len(square.entries) for square in squares) == 1608
    assert len(claims) < 60


HASHES = ("hash", "percpu_hash", "lru_hash", "lru_percpu_hash")


def test_walks_have_two_causes(solver: Solver) -> None:
    """All walks returned int until 6.4; arrays count in u32 and have fewer elements than that, hashes count in int and
    may have any number of callbacks.
    """
    found = grouped(solver, [load_release("6.1"), load_release("7.3")], [ABIS["x86_64"]], "callback")
    assert {name: {(f.release.name, f.entry.map_type) for f in group.findings} for name, group in found.items()} == {
        "int count": {("6.1", kind) for kind in ("array", "percpu_array", *HASHES)},
        "int counter": {("7.3", kind) for kind in (*HASHES, "rhash")},
    }
    assert all(f.reached.reach is Reach.REACHABLE for group in found.values() for f in group.findings)
    whys = {f.release.name + f.entry.map_type: f.reached.why for group in found.values() for f in group.findings}
    assert whys["6.1array"].endswith("let a map of 2^31 entries be made")
    walks = "(kernel/bpf/hashtab.c:{}) goes on while its callback deletes and inserts"
    assert whys["6.1hash"] == f"bpf_for_each_hash_elem {walks.format(2177)}"
    assert whys["7.3rhash"] == f"bpf_each_rhash_elem {walks.format(3226)}"


@pytest.mark.slow
def test_inlined_lookups_have_two_causes(solver: Solver) -> None:
    match = "inline/*/percpu_array/*"
    found = grouped(solver, [load_release("6.12"), load_release("7.3")], [ABIS["x86_64"]], "inline", match)
    assert {name: where(group) for name, group in found.items()} == {
        "sign-extended bound": {("6.12", "x86_64"), ("7.3", "x86_64")},
        "template's bound": {("6.12", "x86_64")},
    }
    way = found["template's bound"].findings[0].reached
    assert way.why == "bpf_map_meta_equal does not compare max_entries, kernel/bpf/map_in_map.c:83"


# Seeded faults: each is found by the name of its cause, release, ABI, type or helper.


def test_a_flipped_result_rule_is_found(solver: Solver) -> None:
    flipped = replace(ABIS["riscv64"], result=Extension.NOBODY)
    assert ("6.1", "riscv64") in where(grouped(solver, ALL, [flipped])["int result"])


def test_a_flipped_argument_rule_is_found(solver: Solver) -> None:
    flipped = replace(ABIS["x86_64"], argument=Extension.BY_TYPE)
    assert where(grouped(solver, [load_release("7.3")], [flipped])["u32 cpu"]) == {("7.3", "x86_64")}
    flipped = replace(ABIS["s390x"], argument=Extension.NOBODY)
    assert grouped(solver, [load_release("7.3")], [flipped]) == {}


def with_result(release: Release, function: str, result: CType) -> Release:
    prototype = release.functions[function].prototype
    return with_prototype(release, function, replace(prototype, result=result))


def test_a_long_turned_int_is_outside_of_the_history(solver: Solver) -> None:
    found = grouped(solver, [with_result(load_release("6.12"), "htab_map_update_elem", INT)], [ABIS["x86_64"]])
    assert outside(found["int result"]) == ("6.12",)
    assert {f.entry.name for f in found["int result"].findings} == {
        "dispatch/6.12/x86_64/hash/map_update_elem",
    }


def test_an_int_turned_long_has_no_known_cause(solver: Solver) -> None:
    """The slot is still declared int: the helper cuts the result off, the direct call does not."""
    changed = with_result(load_release("6.1"), "array_map_update_elem", LONG)
    match = "dispatch/6.1/x86_64/array/*"
    found = grouped(solver, [changed], [ABIS["x86_64"]], match=match)
    assert [f.entry.name for f in found["no known cause"].findings] == ["dispatch/6.1/x86_64/array/map_update_elem"]
    assert found["no known cause"].findings[0].reached.reach is Reach.UNCLEAR


@pytest.mark.parametrize("row", [row for row in CAUSES if row.shape.kind in ("result", "argument")])
def test_a_removed_row_hides_nothing(row: object, solver: Solver) -> None:
    squares = check("dispatch", [load_release("6.1")], [ABIS["x86_64"], ABIS["s390x"]], solver)
    every = groups(squares, solver, ALL)
    fewer = groups(squares, solver, ALL, tuple(other for other in CAUSES if other is not row))
    assert [group.cause.name for group in fewer].count("no known cause") == 1
    assert sum(len(g.findings) for g in fewer) == sum(len(g.findings) for g in every) == 36 + 7
    unknown = next(group for group in fewer if group.cause.name == "no known cause")
    assert known(unknown.cause.shape) is row


# Releases without bodies.


def bare(name: str, version: str) -> Release:
    return replace(load_release("6.1"), name=name, version=version, returns={}, checked={})


RESULT = Shape("result", bits=32, signed=True)


@pytest.mark.parametrize(
    ("version", "near"),
    [("5.15.1", ("5.10", "6.1")), ("6.2.1", ("6.1", "6.12")), ("4.19.0", ("5.10", "6.1")), ("8.0", ("6.12", "7.3"))],
)
def test_what_is_taken_over(version: str, near: tuple[str, str]) -> None:
    way = reached(RESULT, bare("x", version), "hash", "map_update_elem", ALL)
    assert (way.reach, way.taken_over) == (Reach.REACHABLE, near)


def test_neighbours_that_do_not_agree_leave_it_unclear() -> None:
    other = load_release("6.12")
    rows = tuple(row for row in other.returns["htab_map_update_elem"] if row.low == 0)
    changed = replace(other, returns={**other.returns, "htab_map_update_elem": rows})
    way = reached(RESULT, bare("x", "6.2"), "hash", "map_update_elem", [load_release("6.1"), changed])
    assert way == Reached(Reach.UNCLEAR, "no body in the data; 6.1: reachable, 6.12: latent")
    alone = reached(RESULT, bare("x", "6.2"), "hash", "map_update_elem", [load_release("6.1")])
    assert alone.reach is Reach.UNCLEAR


def test_a_neighbour_with_another_function_says_nothing() -> None:
    release = with_operation(bare("x", "6.2"), "hash", "map_update_elem", "array_map_update_elem")
    assert reached(RESULT, release, "hash", "map_update_elem", ALL).reach is Reach.UNCLEAR


def test_words_of_a_square(solver: Solver) -> None:
    square = check("dispatch", [load_release("6.1")], [ABIS["x86_64"]], solver)[0]
    words = [word(entry.verdict) for entry in square.entries]
    assert (words.count("proved"), words.count("refuted"), len(words)) == (17, 36, 53)
