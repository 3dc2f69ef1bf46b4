"""Callback: the verdict of every walk in every release, and that no proof is vacuous. Verdicts are literals."""

from dataclasses import replace

import pytest

from model.errors import Unsupported
from model.kernel.c_body import Integer
from model.kernel.data import load_release
from proofs.mutants_walk_c import declared, edited
from proofs.obligation import Refuted
from proofs.outcome import word
from proofs.properties.callback import KINDS, PARTS, REACH
from proofs.properties.callback_cases import callback_claim, callback_obligations, callback_types, obligations_of
from proofs.solver import Result, Solver

RELEASES = {name: load_release(name) for name in ("5.10", "6.1", "6.12", "7.3")}
SOLVER = Solver()
COUNTED = {"count", "end"}

# Parts that are refuted when a walk may have 2^31 callbacks: an `int` result (6.1), an `int` num_elems (all hashes, of
# as few elements as any: their callbacks may delete and insert). Arrays count in u32 and have fewer than 2^32 elements.
HASHES = ("hash", "percpu_hash", "lru_hash", "lru_percpu_hash")
PATHS = {
    "array": ("refused", "begun", "stopped", "going-on", "another", "last"),
    "hash": ("refused", "begun", "stopped", "going-on", "another-bucket", "last-bucket"),
    "rhash": ("refused", "begun", "stopped", "going-on", "last"),
}
"""Of the C by the kind of the walk: flags refused or not, a callback's stop or none, another turn behind it or none."""
NONE: set[str] = set()
REFUTED = {
    ("6.1", "array"): COUNTED,
    ("6.1", "percpu_array"): COUNTED,
    ("6.12", "array"): NONE,
    ("6.12", "percpu_array"): NONE,
    ("7.3", "array"): NONE,
    ("7.3", "percpu_array"): NONE,
    ("7.3", "rhash"): COUNTED,
    **{(release, kind): COUNTED for release in ("6.1", "6.12", "7.3") for kind in HASHES},
}


def decided(release: str, map_type: str, *, bounded: bool) -> list[Result]:
    return list(SOLVER.decide_all(callback_obligations(RELEASES[release], map_type, bounded=bounded)))


def test_every_walk_has_a_claim() -> None:
    assert {(name, kind) for name, release in RELEASES.items() for kind in callback_types(release)} == set(REFUTED)


@pytest.mark.parametrize(("release", "kind"), REFUTED)
def test_walks_of_fewer_than_2_31_callbacks_are_proved(release: str, kind: str) -> None:
    results = decided(release, kind, bounded=True)
    paths = [f"{REACH}{path}" for path in PATHS[KINDS[kind]]]
    verdicts = {result.obligation.part: word(result.verdict) for result in results}
    assert verdicts == dict.fromkeys([*PARTS, *paths], "proved")
    assert {result.obligation.expect for result in results if result.obligation.part.startswith(REACH)} == {"reachable"}
    assert all(result.obligation.name.startswith(f"callback/{release}/{kind}/bounded/") for result in results)


@pytest.mark.parametrize(("release", "kind"), REFUTED)
def test_the_count_at_the_edge(release: str, kind: str) -> None:
    verdicts = {result.obligation.part: result.verdict for result in decided(release, kind, bounded=False)}
    assert {part for part, verdict in verdicts.items() if word(verdict) != "proved"} == REFUTED[release, kind]
    for part in REFUTED[release, kind]:
        verdict = verdicts[part]
        assert isinstance(verdict, Refuted)
        shown = {one.label: one.value for one in verdict.counterexample.shown}
        assert shown["callbacks made"] == 0x7FFFFFFF
        assert shown["map->max_entries"] == (0x80000000 if "array" in kind else 2)


def test_why_the_count_can_fail() -> None:
    told = "the count of 32 bits (signed) is negative from 2^31 callbacks on"
    more = ": a callback that deletes and inserts may be followed by any number"
    for release, kind in (("7.3", "rhash"), ("6.12", "hash"), ("6.1", "lru_percpu_hash")):
        assert callback_claim(RELEASES[release], kind).reason("count") == told + more
    assert callback_claim(RELEASES["6.1"], "array").reason("count") == told
    assert callback_claim(RELEASES["6.1"], "array").reason("end").startswith("the count of 32 bits (signed)")
    assert callback_claim(RELEASES["6.12"], "array").reason("count") == ""


@pytest.mark.parametrize("kind", ["hash", "rhash"])
@pytest.mark.parametrize(
    ("bits", "signed", "refuted", "made"),
    [(64, False, NONE, 0), (64, True, NONE, 0), (32, False, COUNTED, 0xFFFFFFFF), (16, True, COUNTED, 0x7FFF)],
)
def test_a_walk_of_any_length_needs_a_count_of_64_bits(
    kind: str, bits: int, signed: bool, refuted: set[str], made: int
) -> None:
    """The C of 7.3, whose walks return long, with another type of num_elems."""
    claim = callback_claim(RELEASES["7.3"], kind)
    claim = replace(claim, code=edited(claim.code, declared("num_elems", Integer(bits, signed))))
    results = list(SOLVER.decide_all(obligations_of("x", claim, "x")))
    assert {one.obligation.part for one in results if word(one.verdict) != "proved"} == refuted
    told = f"is 0 again after 2^{bits} callbacks" if not signed else f"is negative from 2^{bits - 1} callbacks on"
    for one in results:
        if isinstance(one.verdict, Refuted):
            assert one.verdict.counterexample.shown[0].value >= made
            assert told in claim.reason(one.obligation.part)


def test_types_without_a_walk() -> None:
    for release, kind in (("5.10", "array"), ("6.12", "queue"), ("6.12", "rhash")):
        with pytest.raises(Unsupported):
            callback_claim(RELEASES[release], kind)
