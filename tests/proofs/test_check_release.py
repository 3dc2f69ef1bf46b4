"""The main job: 6.1 is refuted with the numbers seen on a real 6.1, 6.12 and 7.3 are proved."""

import re
from dataclasses import replace

import pytest

from model.kernel.abi import ABIS
from model.kernel.data import load_release
from model.kernel.release import Release
from model.loaders.assembly import load
from model.rewrite.config import Config
from proofs.check_program import check as check_program
from proofs.check_release import Cell, check, matches
from proofs.claims import Claims
from proofs.obligation import Proved, Refuted
from proofs.outcome import word
from proofs.properties.dispatch import PARTS
from proofs.properties.dispatch_cases import Pair
from proofs.solver import Solver


@pytest.fixture(scope="module")
def solver() -> Solver:
    return Solver()


def cells(release: str, abi: str, solver: Solver) -> dict[tuple[str, str], Cell]:
    found = check(load_release(release), ABIS[abi], solver)
    return {(cell.row.map_type, cell.row.helper): cell for cell in found}


def verdicts(found: dict[tuple[str, str], Cell]) -> dict[tuple[str, str], str]:
    return {key: word(cell.verdict) for key, cell in found.items() if cell.verdict is not None}


@pytest.mark.parametrize("release", ["6.12", "7.3"])
def test_long_operations_are_proved(release: str, solver: Solver) -> None:
    found = verdicts(cells(release, "x86_64", solver))
    assert set(found.values()) == {"proved"}
    assert len(found) == {"6.12": 53, "7.3": 57}[release]  # KERNEL facts: 7.2 added RHASH with four helpers


def test_int_operations_are_refuted(solver: Solver) -> None:
    """Linux 6.1: eight helpers whose operation returns int are refuted, those that return a pointer are proved."""
    found = verdicts(cells("6.1", "x86_64", solver))
    refuted = {helper for (_, helper), verdict in found.items() if verdict == "refuted"}
    proved = {helper for (_, helper), verdict in found.items() if verdict == "proved"}
    assert refuted == {
        "map_update_elem",
        "map_delete_elem",
        "map_push_elem",
        "map_pop_elem",
        "map_peek_elem",
        "redirect_map",
        "for_each_map_elem",
    }
    assert proved == {"map_lookup_elem", "map_lookup_percpu_elem"}


def test_counterexample_of_6_1(solver: Solver) -> None:
    cell = cells("6.1", "x86_64", solver)["hash", "map_update_elem"]
    by_part = {result.obligation.part: result.verdict for result in cell.results}
    assert {part for part, verdict in by_part.items() if isinstance(verdict, Refuted)} == {"r0"}
    verdict = by_part["r0"]
    assert isinstance(verdict, Refuted)
    shown = {word.label: word.value for word in verdict.counterexample.shown}
    assert shown["helper: r0"] == 0xFFFFFFFFFFFFFFEA
    assert shown["direct: r0"] == 0x00000000FFFFFFEA
    text = [str(word) for word in verdict.counterexample.shown]
    assert "helper: r0 = 0xffffffffffffffea (-22)" in text
    assert "direct: r0 = 0x00000000ffffffea (4294967274)" in text


@pytest.mark.parametrize("abi", ["riscv64", "s390x", "ppc64le", "loongarch64", "mips64", "sparc64"])
def test_abis_that_extend_results_prove_int_operations(abi: str, solver: Solver) -> None:
    """Where the callee extends, `int` comes back sign-extended from a direct call too (6.1)."""
    found = verdicts(cells("6.1", abi, solver))
    assert found["hash", "map_update_elem"] == "proved"
    assert found["queue", "map_pop_elem"] == "proved"


@pytest.mark.parametrize(
    ("abi", "verdict"),
    [("x86_64", "proved"), ("arm64", "proved"), ("riscv64", "refuted"), ("s390x", "refuted"), ("ppc64le", "refuted")],
)
def test_narrow_cpu_argument(abi: str, verdict: str, solver: Solver) -> None:
    """`u32 cpu` of lookup_percpu: BPF hands over r3 as it is, which some ABIs forbid."""
    cell = cells("7.3", abi, solver)["percpu_array", "map_lookup_percpu_elem"]
    assert cell.verdict is not None
    assert word(cell.verdict) == verdict
    if verdict == "refuted":
        parts = {result.obligation.part for result in cell.results if isinstance(result.verdict, Refuted)}
        assert "arguments" in parts


def test_every_part_is_an_obligation_of_its_own(solver: Solver) -> None:
    cell = cells("6.12", "x86_64", solver)["lru_hash", "map_delete_elem"]
    names, paths = [result.obligation.name for result in cell.results], ("reach/helper", "reach/direct/1")
    assert names == [f"dispatch/6.12/x86_64/lru_hash/map_delete_elem/{part}" for part in (*PARTS, *paths)]
    assert all(isinstance(result.verdict, Proved) for result in cell.results)
    assert re.search(r"hashtab\.c:\d+", cell.results[0].obligation.origin)


def test_pairs_without_a_claim(solver: Solver) -> None:
    found = cells("6.12", "x86_64", solver)
    assert found["queue", "map_lookup_elem"].row.pair is Pair.NOT_ACCEPTED
    assert found["hash", "map_push_elem"].row.pair is Pair.NOT_ACCEPTED
    release = load_release("6.12")
    rows = tuple(row for row in release.rewrites if row.helper != "redirect_map")
    without = {
        (c.row.map_type, c.row.helper): c for c in check(replace(release, rewrites=rows), ABIS["x86_64"], solver)
    }
    assert without["devmap", "redirect_map"].row.pair is Pair.NOT_REWRITTEN
    assert without["hash", "map_update_elem"].row.pair is Pair.CLAIMED


def test_matching() -> None:
    name = "dispatch/6.1/x86_64/hash/map_update_elem/r0"
    assert matches(name, None)
    assert matches(name, "dispatch/*/hash/*")
    assert matches(name, "dispatch/6.1/x86_64/hash/map_update_elem")
    assert matches(name, "*/r0")
    assert not matches(name, "dispatch/6.12/*")
    assert not matches(name, "hash")


def without_helper(name: str) -> Release:
    release = load_release("6.12")
    helpers = {key: row for key, row in release.helpers.items() if key != name}
    return replace(release, helpers=helpers)


def test_a_rewrite_whose_helper_was_not_read_is_unsupported(solver: Solver) -> None:
    """A hole in the data never shrinks the table: the pairs are there, and not proved."""
    release = without_helper("map_lookup_elem")
    found = list(check(release, ABIS["x86_64"], solver))
    lost = [cell for cell in found if cell.row.helper == "map_lookup_elem"]
    assert {word(cell.verdict) for cell in lost if cell.verdict is not None} == {"unsupported"}
    assert len(lost) == len(release.map_types)


@pytest.mark.parametrize(
    ("release", "helper", "expected"),
    [
        (without_helper("map_update_elem"), 2, "the body of the helper that is called at 1 was not read"),
        (load_release("5.10"), 164, "release 5.10 has no helper 164 (bpf_for_each_map_elem) (call at 1)"),
        (load_release("6.12"), 195896080, "the call at 1 is poisoned by an unresolved CO-RE relocation"),
    ],
)
def test_a_reachable_call_without_a_row_is_a_hole(release: Release, helper: int, expected: str, solver: Solver) -> None:
    claims = Claims(release, ABIS["x86_64"], solver)
    program = load(f"r1 = 0\ncall {helper}\nexit\n", "t", release.helper_ids).programs[0]
    assert expected in check_program(program, claims, Config()).hole
    dead = load(f"r0 = 0\nexit\ncall {helper}\nexit\n", "t", release.helper_ids).programs[0]
    harmless = check_program(dead, claims, Config())
    assert harmless.hole == ""
    assert {word(verdict) for verdict in harmless.verdicts()} == {"proved"}
