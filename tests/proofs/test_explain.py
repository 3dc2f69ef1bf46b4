"""explain: every part of every claim has its sentence; statements and assumptions are told."""

import re

import pytest

from proofs.cli import main
from proofs.explain import MODULES, PARTS, explained, says, statement


@pytest.mark.parametrize("pattern", ["dispatch/7.3/x86_64/*", "inline/7.3/*", "callback/7.3/*", "callback/6.1/*"])
def test_every_obligation_is_said_in_words(pattern: str) -> None:
    found = list(explained(pattern))
    assert len(found) > 50
    assert [one.obligation.name for one in found if not one.says] == []


def test_every_sentence_is_of_use() -> None:
    names = [
        one.obligation.name
        for family in ("dispatch", "inline", "callback", "rewrite")
        for one in explained(f"{family}/7.3/*")
    ]
    names += [one.obligation.name for one in explained("inline/6.1/*")]
    unused = [pattern for pattern, _ in PARTS if not any(re.fullmatch(pattern, name) for name in names)]
    assert unused == []
    assert says("dispatch/7.3/x86_64/hash/map_update_elem/r0") == "all 64 bits of r0 are the same behind both calls"
    assert says("nothing") == ""


@pytest.mark.parametrize("family", MODULES)
def test_each_family_has_its_statement(family: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", family]) == 0
    assert capsys.readouterr().out == statement(family) + "\n"
    assert len(statement(family)) > 200


def test_one_obligation(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "callback/6.12/hash/count"]) == 0
    printed = capsys.readouterr().out
    assert "\ncallback/6.12/hash/count\n  says: what is returned is the number of callbacks that were made\n" in printed
    assert "  assumes: htab_map_alloc_check, kernel/bpf/hashtab.c\n" in printed
    assert "callback/6.12/hash/end" not in printed


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("nothing", "expected a family (dispatch, inline, "),
        ("dispatch/9.9/x", "expected FAMILY/RELEASE/"),
        ("dispatch/6.1/zz", "expected the name of an obligation"),
        ("direct/6.1/zz", "expected the name of an obligation"),
    ],
)
def test_what_is_none_is_one_line(name: str, expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", name]) == 2
    said = capsys.readouterr().err
    assert expected in said
    assert said.count("\n") == 1
