"""User callback, unrolled: maps of a few elements against the specification. Verdicts are literals."""

from collections.abc import Mapping

import pytest

from model.errors import Unsupported
from model.facts import analyse
from model.kernel.abi import ABIS
from model.kernel.data import load_release
from model.loaders import assembly
from model.rewrite.config import Config
from model.rewrite.passes import rewrite
from proofs.outcome import word
from proofs.properties.callback_small import Small
from proofs.properties.callback_user_cases import Case, cases, obligations, small_claims, small_obligations
from proofs.solver import Solver

RELEASES = {name: load_release(name) for name in ("6.1", "6.12", "7.3")}
HEAD = """
.map m {kind} 4 8 {most} flags={flags}
.map seen array 4 8 2
        r1 = map[m]
        r2 = subprog visit
        r3 = 0
        r4 = 0
        call bpf_for_each_map_elem
        r0 = 0
        exit
.func visit
"""
# Each is what a callback does with its element; r6 to r9: map, key, value, context.
SAVE = "r6 = r1\nr7 = r2\nr8 = r3\nr9 = r4\n"
SUM = SAVE + "r1 = *(u64 *)(r8 +0)\nr2 = *(u64 *)(r9 +0)\nr2 += r1\n*(u64 *)(r9 +0) = r2\n"
DELETE = "r1 = r6\nr2 = r7\ncall bpf_map_delete_elem\n"
# The element with the key that is in the context: which one that is, none of the model's paths knows before.
OTHER = SAVE + "r1 = *(u32 *)(r9 +8)\n*(u32 *)(r10 -4) = r1\nr1 = r6\nr2 = r10\nr2 += -4\ncall bpf_map_delete_elem\n"
UPDATE = SAVE + "r1 = r6\nr2 = r7\nr3 = r9\nr4 = 2\ncall bpf_map_update_elem\n"
LOOKUP = (
    SAVE
    + "*(u32 *)(r10 -4) = 1\nr1 = map[seen]\nr2 = r10\nr2 += -4\ncall bpf_map_lookup_elem\n"
    + "if r0 == 0 goto out\nr1 = *(u64 *)(r8 +0)\n*(u64 *)(r0 +0) = r1\nout:\n"
)
ON, STOP = "r0 = 0\nexit\n", "r0 = *(u64 *)(r9 +16)\nexit\n"
BODIES = {
    "sum": SUM + ON,
    "sum and delete": SUM + DELETE + ON,
    "delete and stop": SAVE + DELETE + "r0 = *(u64 *)(r9 +16)\nr0 >>= 32\nexit\n",
    "delete another": OTHER + ON,
    "update": UPDATE + ON,
    "look up": LOOKUP + STOP,
    "store somewhere in the value": "r1 = *(u64 *)(r4 +0)\nr1 &= 7\nr3 += r1\n*(u8 *)(r3 +0) = r1\n" + ON,
    "stop": SUM + "r0 = r1\nexit\n",
}
HASHES = ("hash", "percpu_hash", "lru_hash", "lru_percpu_hash")


def found(kind: str, body: str, name: str = "6.12", most: int = 2, flags: int = 0) -> list[tuple[Case, str, Small]]:
    release = RELEASES[name]
    text = HEAD.format(kind=kind, most=most, flags=flags) + body
    before = assembly.load(text, "small", release.helper_ids).programs[0]
    facts = analyse(before, release)
    done = rewrite(before, facts, release, Config())
    (case,) = cases(done, facts, release, ABIS["x86_64"])
    return [(case, title, claim) for title, claim in small_claims(case, done)]


def verdicts(case: Case, title: str, claim: Small) -> Mapping[str, str]:
    """Of the claim's parts; each side is also reached on some path, and for each path it is known whether."""
    results = list(Solver().decide_all(small_obligations(case, title, claim)))
    assert {word(result.verdict) for result in results if result.obligation.expect != "valid"} == {"proved"}
    return {result.obligation.part: word(result.verdict) for result in results if result.obligation.expect == "valid"}


def parts(kind: str) -> set[str]:
    """An array has the same elements always: nothing to say of them."""
    what = ("ends", "r0", "memory") if "array" in kind else ("ends", "r0", "memory", "elements")
    return {f"{side}/{part}" for side in ("before", "after") for part in what}


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("kind", ["array", "percpu_array", "hash", "percpu_hash"])
def test_two_elements(kind: str, body: str) -> None:
    case, title, claim = next(one for one in found(kind, BODIES[body]) if one[2].count == 2)
    assert title == "2-elements"
    assert verdicts(case, title, claim) == dict.fromkeys(parts(claim.user.before.map_type), "proved")


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("kind", ["array", "hash", "lru_percpu_hash"])
def test_the_induction_says_the_same(kind: str, body: str) -> None:
    case = found(kind, BODIES[body])[0][0]
    solver = Solver()
    assert {word(solver.decide(one).verdict) for one in obligations(case, RELEASES["6.12"])} == {"proved"}


# Each callback deletes the other of two elements, 6 and 7, and inserts it again, in front of its own: without an end.
ENDLESS = (
    SAVE
    + "r1 = *(u32 *)(r7 +0)\n*(u32 *)(r10 -4) = 6\nif r1 == 7 goto at\n*(u32 *)(r10 -4) = 7\n"
    + "at:\nr1 = r6\nr2 = r10\nr2 += -4\ncall bpf_map_delete_elem\n"
    + "r1 = r6\nr2 = r10\nr2 += -4\nr3 = r9\nr4 = 0\ncall bpf_map_update_elem\n"
)


@pytest.mark.parametrize("kind", ["hash", "percpu_hash"])
def test_a_walk_without_an_end_is_a_hole(kind: str) -> None:
    case, title, claim = next(one for one in found(kind, ENDLESS + ON) if one[2].count == 2 and not one[2].apart)
    with pytest.raises(Unsupported, match="a walk with more than 12 callbacks"):
        small_obligations(case, title, claim)
    solver = Solver()
    assert {word(solver.decide(one).verdict) for one in obligations(case, RELEASES["6.12"])} == {"proved"}


def test_the_elements_that_maps_are_unrolled_to() -> None:
    assert [title for _, title, _ in found("array", BODIES["sum"], most=4)] == ["4-elements"]
    assert found("array", BODIES["sum"], most=5) == []
    titles = ["0-elements", "1-element", "2-elements", "2-elements-apart", "3-elements", "3-elements-apart"]
    assert [title for _, title, _ in found("lru_hash", BODIES["sum"], most=64)] == titles
    rhash = found("rhash", BODIES["sum"], "7.3", flags=1)
    assert [title for _, title, _ in rhash] == ["0-elements", "1-element", "2-elements"]


@pytest.mark.parametrize("kind", HASHES)
def test_three_elements_apart_that_delete_themselves(kind: str) -> None:
    case, title, claim = found(kind, BODIES["sum and delete"], most=3)[-1]
    assert title == "3-elements-apart"
    assert verdicts(case, title, claim) == dict.fromkeys(parts(claim.user.before.map_type), "proved")


def test_three_elements_of_one_list_that_delete_others() -> None:
    """The next one too: it is visited all the same, as its link was read before the callback."""
    case, title, claim = found("hash", BODIES["delete another"], most=3)[-2]
    assert title == "3-elements"
    assert verdicts(case, title, claim) == dict.fromkeys(parts(claim.user.before.map_type), "proved")


@pytest.mark.parametrize("body", ["sum", "sum and delete", "stop"])
def test_rhash(body: str) -> None:
    case, title, claim = found("rhash", BODIES[body], "7.3", flags=1, most=3)[-1]
    assert verdicts(case, title, claim) == dict.fromkeys(parts(claim.user.before.map_type), "proved")


def test_6_1_returns_the_count_in_the_lower_half() -> None:
    case, title, claim = found("array", BODIES["sum"], "6.1")[0]
    found_ = verdicts(case, title, claim)
    assert {part for part, verdict in found_.items() if verdict != "proved"} == {"after/r0"}
    assert found_["after/r0"] == "refuted"


def test_an_update_of_any_key_may_add_an_element_to_the_one_list() -> None:
    body = OTHER.replace("delete", "update").replace("call", "r3 = r9\nr4 = 0\ncall") + ON
    case, title, claim = found("hash", body, most=4)[2]
    assert title == "2-elements"
    assert verdicts(case, title, claim) == dict.fromkeys(parts(claim.user.before.map_type), "proved")


def test_an_inlined_lookup_of_any_index() -> None:
    body = LOOKUP.replace("*(u32 *)(r10 -4) = 1", "r1 = *(u32 *)(r8 +0)\n*(u32 *)(r10 -4) = r1") + ON
    case, title, claim = found("hash", body)[1]
    assert title == "1-element"
    assert verdicts(case, title, claim) == dict.fromkeys(parts(claim.user.before.map_type), "proved")


def test_names() -> None:
    case, title, claim = found("hash", BODIES["sum"])[1]
    names = [one.name for one in small_obligations(case, title, claim)]
    assert names[0] == "callback/6.12/hash/user/main/visit/small/1-element/reach/walk/spec"
    assert "callback/6.12/hash/user/main/visit/small/1-element/before/ends" in names


HOLES = {
    "a call of what is no operation of a map": "call bpf_get_prandom_u32\nr0 = 0\nexit\n",
    "bucket depends on its key": OTHER.replace("delete", "update").replace("call", "r3 = r9\nr4 = 0\ncall") + ON,
    "more than 64 paths": "r1 = *(u64 *)(r3 +0)\nr0 = 0\n"
    + "".join(f"if r1 & {1 << n} goto l{n}\nr0 += 1\nl{n}:\n" for n in range(8))
    + "exit\n",
}


@pytest.mark.parametrize("hole", HOLES)
def test_what_has_no_rule_is_a_hole(hole: str) -> None:
    case, title, claim = next(one for one in found("hash", HOLES[hole], most=4) if one[1] == "2-elements-apart")
    with pytest.raises(Unsupported, match=hole):
        small_obligations(case, title, claim)
