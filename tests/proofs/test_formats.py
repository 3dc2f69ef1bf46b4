"""Formats of reports: valid by their schemas, the same in every run, and clean of what the input would like to do."""

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest
from sarif_pydantic import Sarif

from proofs.cli import main
from proofs.report.json_report import schema

OBJECTS = Path(__file__).resolve().parent.parent / "data" / "objects"
FORMATS = ("json", "junit", "sarif")
BEFORE, AFTER = "before.asm", "after.txt"
PROGRAM = """\
.map names hash 4 8 2
        *(u64 *)(r10 -8) = 258
        r1 = map[names]
        r2 = r10
        r2 += -8
        call bpf_map_delete_elem
        exit
"""
CASES = {
    "proved": ["check", "--kernel", "6.12", "--match", "dispatch/*/hash/*"],
    "refuted": ["check", "--kernel", "6.1", "--claim", "all", "--match", "*/6.1/*hash/map*"],
    "matrix": ["check", "--kernel", "6.1,6.12", "--arch", "x86_64,riscv64", "--match", "dispatch/*/hash/*"],
    "unsupported": ["check", "--kernel", "4.19", "--match", "dispatch/*/sockmap/*"],
    "pair": ["equiv", BEFORE, AFTER, "--kernel", "6.1"],
    "objects": ["check", "--kernel", "6.1", *sorted(map(str, OBJECTS.glob("*.o")))],
}
STATUS = {"proved": 0, "refuted": 1, "matrix": 1, "unsupported": 3, "pair": 1, "objects": 1}


@pytest.fixture(autouse=True)
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A program and what 6.1 makes of it, in the current directory."""
    monkeypatch.chdir(tmp_path)
    Path(BEFORE).write_text(PROGRAM, encoding="utf-8")
    assert main(["rewrite", BEFORE, "--kernel", "6.1", "--format", "asm"]) == 0
    Path(AFTER).write_text(capsys.readouterr().out, encoding="utf-8")


def output(capsys: pytest.CaptureFixture[str], case: str, *more: str) -> str:
    assert main([*CASES[case], *more]) == STATUS[case]
    return capsys.readouterr().out


def as_json(text: str) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(text)
    jsonschema.validate(value, schema(), cls=jsonschema.Draft202012Validator)
    return value


@pytest.mark.parametrize("case", CASES)
def test_json_is_valid_and_adds_up(case: str, capsys: pytest.CaptureFixture[str]) -> None:
    value = as_json(output(capsys, case, "--format", "json"))
    names = [record["name"] for record in value["records"]]
    assert names
    assert len(set(names)) == len(names)
    for verdict, count in value["counts"].items():
        assert count == sum(record["verdict"] == verdict for record in value["records"])
    for record in value["records"]:
        refuted = [one for one in record["obligations"] if one["verdict"] == "refuted"]
        if record["family"] != "leftover":  # there a refuted direct call is what makes the dispatch necessary
            assert bool(refuted) == (record["verdict"] == "refuted")
        assert all(one["path"] and one["reason"] and one["suggestion"] for one in refuted)
    assert "milliseconds" not in json.dumps(value)


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(schema())
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"schema": 1}, schema())


@pytest.mark.parametrize("case", CASES)
def test_sarif_is_valid(case: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = output(capsys, case, "--format", "sarif")
    run = Sarif.model_validate_json(text).runs[0]
    rules = [rule.id for rule in run.tool.driver.rules or []]
    for result in run.results or []:
        assert result.rule_id in rules
        assert rules[result.rule_index or 0] == result.rule_id
    value = json.loads(text)
    assert value["version"] == "2.1.0"
    for result in value["runs"][0]["results"]:
        (location,) = result["locations"]
        assert location["physicalLocation"]["region"]["startLine"] >= 1
        assert re.fullmatch(r"[0-9a-f]{64}", result["partialFingerprints"]["obligation/v1"])
        assert result["level"] == ("error" if "\nrefuted " in result["message"]["text"] else "warning")
    assert bool(value["runs"][0]["results"]) == (case != "proved")


def test_sarif_has_the_source_line_where_it_is_known(capsys: pytest.CaptureFixture[str]) -> None:
    results = json.loads(output(capsys, "objects", "--format", "sarif"))["runs"][0]["results"]
    places = [result["locations"][0]["physicalLocation"] for result in results]
    assert any(one["artifactLocation"]["uri"].endswith(".c") and one["region"]["startLine"] > 1 for one in places)


@pytest.mark.parametrize("case", CASES)
def test_junit_counts_what_it_has(case: str, capsys: pytest.CaptureFixture[str]) -> None:
    root = ElementTree.fromstring(output(capsys, case, "--format", "junit"))
    counts = {"failure": 0, "error": 0}
    for suite in root.iter("testsuite"):
        assert int(suite.get("tests", "")) == len(suite.findall("testcase"))
        for kind, attribute in (("failure", "failures"), ("error", "errors")):
            found = len(suite.findall(f"testcase/{kind}"))
            assert int(suite.get(attribute, "")) == found
            counts[kind] += found
    assert bool(counts["failure"]) == (STATUS[case] == 1)
    assert bool(counts["error"]) >= (STATUS[case] == 3)


@pytest.mark.parametrize("form", FORMATS)
def test_two_runs_are_the_same(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert output(capsys, "refuted", "--format", form) == output(capsys, "refuted", "--format", form)


@pytest.mark.parametrize("form", [*FORMATS, "text"])
def test_into_a_file(form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "report"
    printed = output(capsys, "refuted", "--format", form, "-o", str(place))
    assert re.fullmatch(r"\d+ claims: \d+ proved, \d+ refuted, 0 unknown, 0 unsupported\n", printed)
    strip = re.compile(r"\(\d+\.\d s\)")
    assert strip.sub("", place.read_text(encoding="utf-8")) == strip.sub(
        "", output(capsys, "refuted", "--format", form)
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == [AFTER, BEFORE, "report"]


def test_times_are_there_when_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    value = as_json(output(capsys, "proved", "--format", "json", "--times"))
    assert all("milliseconds" in one for record in value["records"] for one in record["obligations"])


def test_quiet_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert output(capsys, "refuted", "--quiet").count("\n") == 1
    assert output(capsys, "objects", "--quiet").count("\n") == 1


HOSTILE = """\
.program <script>alert(1)</script> "><img
.map m hash 4 8 4
r0 = 0
exit
"""


@pytest.mark.parametrize("form", [*FORMATS, "text"])
def test_what_the_input_is_called_stays_text(form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "a\x1b[31mb<script>&.asm"
    place.write_text(".map m hash 4 8 4\nr2 = r10\nr2 += -8\n*(u64 *)(r10 -8) = 0\nr1 = map[m]\n"
                     "call map_delete_elem\nexit\n", encoding="utf-8")  # fmt: skip
    main(["check", "--kernel", "6.1", str(place), "--format", form])
    printed = capsys.readouterr().out
    assert "\x1b" not in printed
    if form == "junit":
        assert "<script>" not in printed
        ElementTree.fromstring(printed)
    elif form != "text":
        json.loads(printed)


@pytest.mark.parametrize("form", [*FORMATS, "html", "text"])
def test_a_file_may_have_any_bytes_in_its_name(form: str, tmp_path: Path) -> None:
    place = tmp_path / "a\udcff.asm"  # the byte 0xff: no UTF-8
    place.write_text(PROGRAM, encoding="utf-8")
    assert main(["check", "--kernel", "6.1", str(place), "--format", form, "-o", str(tmp_path / "report")]) == 1
    text = (tmp_path / "report").read_text(encoding="utf-8")
    assert "a%FF.asm" in text if form == "sarif" else "\\udcff.asm" in text


@pytest.mark.parametrize("place", ["/nowhere/x", "/proc/x"])
def test_a_file_that_cannot_be_written_is_one_line(place: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*CASES["proved"], "--format", "json", "-o", place]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert f"{place}: cannot be written" in captured.err
