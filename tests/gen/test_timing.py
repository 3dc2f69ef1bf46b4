"""The benchmark's programs: what the model says of them, and what the running kernel makes of them."""

import re

import pytest

from gen.timing import CALLS, CASES, Case, sites, text
from model.facts import analyse
from model.kernel.data import load_release
from model.loaders import assembly
from model.loaders.live import why_not
from model.rewrite.config import Config
from model.rewrite.passes import rewrite
from proofs.cli import main

RELEASE = load_release("6.12")
NINE = {
    "map_lookup_elem",
    "map_update_elem",
    "map_delete_elem",
    "map_push_elem",
    "map_pop_elem",
    "map_peek_elem",
    "redirect_map",
    "for_each_map_elem",
    "map_lookup_percpu_elem",
}


def test_every_rewritten_helper_is_measured() -> None:
    assert {case.helper for case in CASES} == NINE


def stays(case: Case, form: str) -> list[bool]:
    """For each call of the case's helper, in the order of the program: does the model's rewrite leave it?"""
    before = assembly.load(text(case, form), case.name, RELEASE.helper_ids).programs[0]
    done = rewrite(before, analyse(before, RELEASE), RELEASE, Config())
    found = [decision for decision in done.decisions if decision.helper == case.helper]
    return [decision.patch is None for decision in found]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_two_forms_differ_in_the_calls_that_stay(case: Case) -> None:
    first = [False] * sum(f"call {case.helper}" == line for line in case.first)
    assert stays(case, "direct") == [*first, *[False] * CALLS]
    assert stays(case, "indirect") == [*first, *[True] * CALLS]
    assert stays(case, "empty") == first


def test_calls_of_the_program_itself_are_no_sites() -> None:
    made = assembly.load("call 5\ncall 6\ncall next\nexit\nnext:\nexit\n", "x", {}).programs[0]
    assert sites(made.insns, 0) == [5, 6]
    assert sites(made.insns, 1) == [6]


@pytest.mark.live
def test_the_running_kernel_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    assert main(["bench", "--match", "map_update_elem array", "--rounds", "5"]) == 0
    printed = capsys.readouterr().out
    assert "spectre_v2: " in printed
    assert re.search(r"^map_update_elem array .* / [0-9.]+ +[0-9.]+x +[0-9.]+ to [0-9.]+ ", printed, re.MULTILINE)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["--rounds", "2"], "expected a number of rounds, 3 to 100000, not '2'"),
        (["--rounds", "-1"], "expected"),
        (["--match", "nothing"], "--match: nothing: expected one of map_lookup_elem array, "),
    ],
)
def test_bad_usage(given: list[str], expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        status = main(["bench", *given])
    except SystemExit as left:
        status = int(left.code or 0)
    assert status == 2
    assert expected in capsys.readouterr().err
