"""The Dispatch claim on ints: what z3 proves, random values never break; what it refutes, they find."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.kernel.abi import ABIS
from model.kernel.data import load_release
from proofs.check_release import release_obligations
from proofs.concrete import IntWorld, replays
from proofs.obligation import Claim, Counterexample, Refuted
from proofs.properties.dispatch_cases import Pair, rows
from proofs.solver import Solver


def claims(release_name: str, abi: str) -> dict[str, Claim]:
    release = load_release(release_name)
    found = {}
    for row in rows(release):
        if row.pair is Pair.CLAIMED:
            found[f"{row.map_type}/{row.helper}"] = release_obligations(release, ABIS[abi], row)[0].claim
    return found


PROVED = claims("6.12", "x86_64")
REFUTED = claims("6.1", "x86_64")


def sample(claim: Claim, seed: int) -> tuple[dict[str, bool], list[str]]:
    source = random.Random(seed)
    edges = [0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFEA, 0xFFFFFFFFFFFFFFEA]

    def draw(name: str, width: int) -> int:
        return source.choice(edges) if source.random() < 0.4 else source.getrandbits(width)

    world = IntWorld(draw)
    return dict(claim(world)), world.violated


@given(st.sampled_from(sorted(PROVED)), st.integers(0, 2**32))
def test_random_ints_never_break_a_proved_claim(name: str, seed: int) -> None:
    parts, violated = sample(PROVED[name], seed)
    if not violated:
        assert all(parts.values()), parts


@pytest.mark.parametrize("name", ["hash/map_update_elem", "queue/map_pop_elem", "array/for_each_map_elem"])
def test_random_ints_find_what_is_refuted(name: str) -> None:
    runs = [sample(REFUTED[name], seed) for seed in range(200)]
    held = [parts for parts, violated in runs if not violated]
    assert len(held) > 100, "the assumptions must not exclude almost everything"
    assert any(not parts["r0"] for parts in held)
    assert all(value for parts in held for part, value in parts.items() if part != "r0")


def test_a_counterexample_replays_only_where_it_holds() -> None:
    release = load_release("6.1")
    row = next(row for row in rows(release) if (row.map_type, row.helper) == ("hash", "map_delete_elem"))
    obligation = next(o for o in release_obligations(release, ABIS["x86_64"], row) if o.part == "r0")
    verdict = Solver().decide(obligation).verdict
    assert isinstance(verdict, Refuted)
    assert replays(obligation.claim, "r0", verdict.counterexample)
    assert not replays(obligation.claim, "kernel", verdict.counterexample)
    changed = dict.fromkeys(verdict.counterexample.words, 0)
    assert not replays(obligation.claim, "r0", Counterexample((), changed, {}))
