"""What each obligation of a release shows beside its verdict, and claims that are vacuous on purpose."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache

import pytest

from model.bits import B, W
from model.facts import analyse
from model.isa.insn import Insn
from model.kernel.abi import ABIS
from model.kernel.data import load_release
from model.world import World
from proofs import whole
from proofs.check_claims import check as check_claims
from proofs.check_release import check as check_release
from proofs.check_release import release_obligations
from proofs.mutants_callback import walked
from proofs.mutants_whole import CALLS, LOOKUP, rewritten
from proofs.obligation import Claim, NoRule, Obligation, Proved, Refuted
from proofs.properties import callback_user_cases as user
from proofs.properties.dispatch_cases import Pair, rows
from proofs.properties.products import product_obligations
from proofs.report.evidence import Count, counted
from proofs.solver import Result, Solver

X86 = ABIS["x86_64"]


@cache
def decided(release: str, family: str) -> tuple[Result, ...]:
    data, solver = load_release(release), Solver()
    if family == "dispatch":
        return tuple(result for cell in check_release(data, X86, solver) for result in cell.results)
    if family == "products":
        return tuple(solver.decide_all(product_obligations()))
    return tuple(result for group in check_claims(family, data, X86, solver) for result in group.results)


# Claims by release and family, as the README and `check --claim all` count them; obligations follow from these:
# a Dispatch claim has seven parts, one path of the helper and one of the direct call.
DISPATCH = {"7.3": 57, "6.1": 53}


@pytest.mark.parametrize("release", DISPATCH)
def test_dispatch_is_not_vacuous(release: str) -> None:
    found = counted(decided(release, "dispatch"))
    claims, refuted = DISPATCH[release], {"7.3": 0, "6.1": 36}[release]
    assert found == Count(
        obligations=9 * claims,
        satisfiable=9 * claims,
        paths=2 * claims,
        reached=2 * claims,
        dead=0,
        claims=7 * claims,
        noticed=7 * claims - refuted,
        refuted=refuted,
        idle=0,
    )


@pytest.mark.parametrize("family", ["inline", "callback", "products"])
@pytest.mark.parametrize("release", ["7.3", "6.1"])
def test_no_claim_of_a_release_is_vacuous(release: str, family: str) -> None:
    """Every obligation has assumptions that can hold, every path of both sides is taken, every fault is noticed."""
    results = decided(release, family)
    found = counted(results)
    assert found.obligations == found.satisfiable == len({one.obligation.name for one in results}) > 3
    assert found.reached == found.paths
    assert found.dead == found.idle == 0
    assert found.noticed + found.refuted == found.claims
    assert found.refuted == sum(isinstance(one.verdict, Refuted) for one in results)


def test_each_side_of_an_inlined_lookup_has_its_paths() -> None:
    """An array's lookup in C (6.1): one return behind the bounds test, one for NULL. The sequence, for privileged and
    unprivileged maps, with and without a shift: each of the four ways ends in bounds or out of them.
    """
    prefix = "inline/6.1/array/map_lookup_elem/reach/"
    names = [one.obligation.name.removeprefix(prefix) for one in decided("6.1", "inline")]
    taken = [name for name in names if "/map_lookup_elem/" not in name]
    assert sum(name.startswith("operation/") for name in taken) == 2
    assert sum(name.startswith("inlined/") for name in taken) == 8


def whole_count(text: str) -> Count:
    release = load_release("6.12")
    done = rewritten(release, text)
    made = whole.claim(done.before, done.after, release, X86, done.relocs)
    return counted(Solver().decide_all(whole.obligations(made, release, X86)))


def test_whole_programs_are_not_vacuous() -> None:
    """`CALLS`: two paths of the program, two of its callback, on both sides; each path's five parts notice a fault."""
    assert whole_count(CALLS) == Count(32, 32, paths=12, reached=12, dead=0, claims=20, noticed=20, refuted=0, idle=0)


@pytest.mark.parametrize("kind", ["array", "lru_hash"])
def test_walks_with_a_programs_callback_are_not_vacuous(kind: str) -> None:
    """By induction: nine parts of each side, seven of agreement, five of each of two paths; then on a few elements."""
    release = load_release("6.12")
    done = walked(release, kind)
    case = next(user.cases(done, analyse(done.before, release), release, X86))
    found = counted(Solver().decide_all(user.obligations(case, release)))
    assert found == Count(45, 45, paths=10, reached=10, dead=0, claims=35, noticed=35, refuted=0, idle=0)
    for name, claim in user.small_claims(case, done):
        found = counted(Solver().decide_all(user.small_obligations(case, name, claim)))
        assert found.whole
        assert found.noticed == found.claims == (6 if kind == "array" else 8)
        assert found.reached > found.paths // 2


def test_a_path_that_no_run_takes_is_counted() -> None:
    """An inlined lookup in bounds whose result is NULL: a path of the program after that no state takes."""
    found = whole_count(LOOKUP)
    assert (found.paths, found.reached, found.dead) == (9, 8, 1)
    assert (found.claims, found.noticed, found.idle) == (15, 15, 0)
    never = "r0 = 0\nr6 = *(u32 *)(r1 +0)\nr6 &= 1\nif r6 == 2 goto over\nr0 = 1\nover: exit\n"
    found = whole_count(never)
    assert (found.paths, found.reached, found.dead) == (6, 4, 2)
    assert (found.claims, found.noticed, found.idle) == (10, 5, 5)
    assert found.whole


def test_each_path_of_a_patch_is_named() -> None:
    """A patch that skips the call in some states has two ways to its end."""
    release = load_release("7.3")
    row = next(row for row in rows(release) if row.pair is Pair.CLAIMED)
    claim = release_obligations(release, X86, row)[0].claim
    forked = replace(claim, patch=(Insn(0x15, 4, off=0), *claim.patch), relocs=((1, claim.relocs[0][1]),))  # type: ignore[type-var, attr-defined]
    solver = Solver()
    for path in ("reach/direct/1", "reach/direct/2"):
        result = solver.decide(Obligation(path, "", forked, path, expect="reachable"))
        assert (result.verdict, result.evidence.path) == (Proved(), "reached")


@dataclass(frozen=True, slots=True)
class Toy:
    """x + 1 on one side, 1 + x on the other, and what a careless claim may do about it."""

    kind: str = ""
    off: int = 0

    def __call__(self, world: World[W, B]) -> Mapping[str, B]:
        b = world.bits(8)
        x = world.fresh("x", 8)
        one, other = b.add(x, b.const(1)), b.add(b.const(1 + self.off), x)
        if self.kind == "contradiction":
            world.assume("x is small", b.ult(x, b.const(3)))
            world.assume("x is large", b.ult(b.const(3), x))
        if self.kind == "one side":
            other = one
        odd = b.eq(b.bvand(x, b.const(1)), b.const(1))
        both = b.conj(odd, b.negate(odd))
        if self.kind == "assumed away":
            world.assume("x is even", b.negate(odd))
        equal = b.eq(one, other)
        return {
            "equal": b.disj(b.negate(odd), equal) if self.kind == "assumed away" else equal,
            "guarded": b.disj(b.negate(both), equal),
            "reach/both": both,
            "reach/odd": odd,
        }

    def reason(self, part: str) -> str:
        return ""

    def planted(self, part: str) -> Claim:
        return replace(self, off=1)


UNNOTICED = NoRule("a planted fault does not make it fail: the proof is vacuous")
NOWHERE = NoRule("no state under the claim's assumptions gets here: what is proved of it is vacuous")
CONTRADICTION = NoRule("the claim's assumptions contradict each other: a proof would be vacuous")


def obligations(claim: Claim) -> Iterator[Obligation]:
    yield Obligation("equal", "", claim, "equal")
    yield Obligation("guarded", "", claim, "guarded")
    yield Obligation("both", "", claim, "reach/both", expect="reachable")
    yield Obligation("odd", "", claim, "reach/odd", expect="reachable")


def verdicts(claim: Claim) -> dict[str, object]:
    return {one.obligation.name: one.verdict for one in Solver().decide_all(obligations(claim))}


def test_a_part_guarded_by_false_is_vacuous() -> None:
    assert verdicts(Toy()) == {"equal": Proved(), "guarded": UNNOTICED, "both": NOWHERE, "odd": Proved()}


def test_contradicting_assumptions_are_vacuous() -> None:
    assert set(verdicts(Toy("contradiction")).values()) == {CONTRADICTION}


def test_a_claim_that_ignores_a_side_is_vacuous() -> None:
    assert verdicts(Toy("one side"))["equal"] == UNNOTICED


def test_a_path_that_is_assumed_away_is_vacuous() -> None:
    """A program's own path may be dead by its condition, or what is assumed may exclude it: that is told apart."""
    found = verdicts(Toy("assumed away"))
    assert (found["equal"], found["odd"]) == (UNNOTICED, NOWHERE)
    solver = Solver()
    odd, both = (
        solver.decide(Obligation("path", "", Toy("assumed away"), part, expect="path"))
        for part in ("reach/odd", "reach/both")
    )
    assert (odd.verdict, odd.evidence.path) == (Proved(), "excluded")
    assert (both.verdict, both.evidence.path) == (Proved(), "dead")


def test_a_part_that_speaks_of_a_dead_path_says_so() -> None:
    solver = Solver()
    dead = solver.decide(Obligation("guarded", "", Toy(), "guarded", path="reach/both"))
    assert (dead.verdict, dead.evidence.fault) == (Proved(), "dead")
    alive = solver.decide(Obligation("guarded", "", Toy(), "guarded", path="reach/odd"))
    assert alive.verdict == UNNOTICED


def test_a_count_tells_what_is_missing() -> None:
    found = counted(Solver().decide_all(obligations(Toy())))
    assert not found.whole
    assert str(found) == (
        "not vacuous: assumptions satisfiable 3 of 4, paths reached 1 of 2, planted faults noticed 1 of 2"
    )
