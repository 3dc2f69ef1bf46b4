"""Callback: the verdict of every walk in every release, and that no proof is vacuous. Verdicts are literals."""

import pytest

from model.errors import Unsupported
from model.kernel.data import load_release
from proofs.obligation import Refuted
from proofs.outcome import word
from proofs.properties.callback import KINDS, PARTS, REACH
from proofs.properties.callback_cases import callback_claim, callback_obligations, callback_types
from proofs.solver import Result, Solver

RELEASES = {name: load_release(name) for name in ("5.10", "6.1", "6.12", "7.3")}
SOLVER = Solver()
COUNTED = {"count", "end"}

# Parts that are refuted when a walk may have 2^31 callbacks: an `int` result (6.1), an `int` num_elems (RHASH; the
# other hashes have too few elements for that).
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
    **{(release, kind): NONE for release in ("6.1", "6.12", "7.3") for kind in HASHES},
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
        made = next(shown for shown in verdict.counterexample.shown if shown.label == "callbacks made")
        assert made.value >= 0x7FFFFFFF


def test_why_the_count_can_fail() -> None:
    claim = callback_claim(RELEASES["7.3"], "rhash")
    assert claim.reason("count") == "the count of 32 bits (signed) is negative from 2^31 callbacks on"
    assert callback_claim(RELEASES["6.1"], "array").reason("end").startswith("the count of 32 bits (signed)")
    assert callback_claim(RELEASES["6.12"], "array").reason("count") == ""


def test_types_without_a_walk() -> None:
    for release, kind in (("5.10", "array"), ("6.12", "queue"), ("6.12", "rhash")):
        with pytest.raises(Unsupported):
            callback_claim(RELEASES[release], kind)
