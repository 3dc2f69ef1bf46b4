"""User callback: programs' own callbacks, by induction, before and after. Verdicts are literals."""

from collections.abc import Mapping

import pytest

from model.errors import Unsupported
from model.facts import analyse
from model.kernel.abi import ABIS
from model.kernel.data import load_release
from model.kernel.release import Release
from model.loaders import assembly
from model.rewrite.config import Config
from model.rewrite.passes import Rewritten, rewrite
from proofs.mutants_callback import WALK
from proofs.obligation import Refuted, Verdict
from proofs.outcome import word
from proofs.properties.callback_user_cases import Case, cases, obligations
from proofs.solver import Solver

RELEASES = {name: load_release(name) for name in ("5.10", "6.1", "6.12", "7.3")}
KINDS = ("array", "percpu_array", "hash", "percpu_hash", "lru_hash", "lru_percpu_hash")
# Up to 6.1 the operation returns an int: r0's upper half is anything after a direct call.
NARROW = {"after/flags", "after/count", "after/end", "agree/returned"}


def made(text: str, release: Release) -> tuple[Rewritten, list[Case]]:
    before = assembly.load(text, "user", release.helper_ids).programs[0]
    facts = analyse(before, release)
    done = rewrite(before, facts, release, Config())
    return done, list(cases(done, facts, release, ABIS["x86_64"]))


def decided(case: Case, release: Release) -> Mapping[str, Verdict]:
    solver = Solver()
    return {one.part: solver.decide(one).verdict for one in obligations(case, release)}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("name", "refuted"), [("6.1", NARROW), ("6.12", set()), ("7.3", set())])
def test_a_callback_that_stores_deletes_and_stops(kind: str, name: str, refuted: set[str]) -> None:
    release = RELEASES[name]
    done, found = made(WALK.format(kind=kind), release)
    assert len(done.after.insns) > len(done.before.insns)
    (case,) = found
    assert case.claim is not None
    assert case.claim.starts[1] > case.claim.starts[0]
    verdicts = decided(case, release)
    assert {part for part, verdict in verdicts.items() if word(verdict) != "proved"} == refuted
    assert {part.split("/")[0] for part in verdicts} == {"before", "after", "agree", "reach", "path"}
    assert {part.split("/")[2] for part in verdicts if part.startswith("agree/step/")} == {"T", "N"}


def test_rhash_since_7_2() -> None:
    case = made(WALK.format(kind="rhash").replace("rhash 4 8 2", "rhash 4 8 2 flags=1"), RELEASES["7.3"])[1][0]
    assert {word(verdict) for verdict in decided(case, RELEASES["7.3"]).values()} == {"proved"}


def test_names() -> None:
    case = made(WALK.format(kind="hash"), RELEASES["6.12"])[1][0]
    names = [one.name for one in obligations(case, RELEASES["6.12"])]
    assert "callback/6.12/hash/user/main/visit/agree/step/T/memory" in names
    assert "callback/6.12/hash/user/main/visit/before/next" in names
    assert len(set(names)) == len(names)


def test_the_counterexample_of_6_1_shows_the_upper_half() -> None:
    case = made(WALK.format(kind="array"), RELEASES["6.1"])[1][0]
    verdict = decided(case, RELEASES["6.1"])["after/count"]
    assert isinstance(verdict, Refuted)
    assert case.claim is not None
    told = "bpf_for_each_array_elem returns 32 bits: a direct call leaves the rest of r0 unspecified"
    assert case.claim.reason("after/count") == told
    assert case.claim.reason("before/count") == "the count of 32 bits (signed) is negative from 2^31 callbacks on"
    assert {shown.label for shown in verdict.counterexample.shown} >= {"callbacks made", "before: r0 of visit"}


TWO = """
.map one array 4 8 4
.map two hash 4 8 4
.map inner array 4 8 4
.map outer array_of_maps 4 4 2 inner=inner
        r6 = *(u32 *)(r1 +0)
        r1 = map[one]
        if r6 == 0 goto go
        r1 = map[two]
go:     r2 = subprog first
        if r6 == 1 goto call
        r2 = subprog second
call:   r3 = 0
        r4 = 0
        call bpf_for_each_map_elem
        r0 = 0
        exit
.func first
        r0 = 0
        exit
.func second
        r0 = *(u32 *)(r3 +0)
        exit
"""


def test_each_map_and_each_callback_has_a_claim_where_the_helper_stays() -> None:
    release = RELEASES["6.12"]
    done, found = made(TWO, release)
    assert {case.prefix for case in found} == {
        f"callback/6.12/{kind}/user/main/{name}" for kind in ("array", "hash") for name in ("first", "second")
    }
    assert all(decision.patch is None for decision in done.decisions)
    for case in found:
        assert case.claim is not None
        assert case.claim.function == ""
        assert {word(verdict) for verdict in decided(case, release).values()} == {"proved"}


HOLES = {
    "more than 64 paths": "\n".join(f"if r7 & {1 << n} goto l{n}\nr0 += 1\nl{n}:" for n in range(8)),
    "more than 4000 instructions": "r8 = 3000\nagain: r8 += -1\nif r8 != 0 goto again",
    "a call of tail_call": "call bpf_tail_call",
}


@pytest.mark.parametrize("hole", HOLES)
def test_what_is_beyond_the_bounds_is_a_hole(hole: str) -> None:
    text = f"""
.map m array 4 8 4
r1 = map[m]
r2 = subprog visit
r3 = 0
r4 = 0
call bpf_for_each_map_elem
r0 = 0
exit
.func visit
r7 = *(u64 *)(r3 +0)
r0 = 0
{HOLES[hole]}
r0 = 0
exit
"""
    case = made(text, RELEASES["6.12"])[1][0]
    with pytest.raises(Unsupported, match=hole):
        obligations(case, RELEASES["6.12"])


def test_programs_without_a_walk_and_releases_without_one() -> None:
    assert made("r0 = 0\nexit", RELEASES["6.12"])[1] == []
    assert made("r0 = 0\nexit", RELEASES["5.10"])[1] == []
