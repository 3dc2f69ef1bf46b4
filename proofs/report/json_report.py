"""Reports as JSON, by the schema `report-1.json` beside this module. Words are hex strings: JSON has no 64 bits."""

import json
from importlib.resources import files
from typing import Any

from proofs.report.record import Part, Record, Report

SCHEMA = 1


def schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of `as_json`'s output."""
    text = files("proofs.report").joinpath(f"report-{SCHEMA}.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def as_json(report: Report, version: str, *, times: bool = False) -> str:
    value = {
        "schema": SCHEMA,
        "tool": {"name": "bpf-devirt", "version": version},
        "command": report.setting.command,
        "releases": [
            {"name": name, "version": number, "origin": origin} for name, number, origin in report.setting.releases
        ],
        "abis": list(report.setting.abis),
        "counts": report.count(),
        "records": [_record(record, times=times) for record in report.records],
        "notes": list(report.notes),
    }
    return json.dumps(value, indent=1, ensure_ascii=True) + "\n"


def _record(record: Record, *, times: bool) -> dict[str, Any]:
    value: dict[str, Any] = {
        "name": record.name,
        "family": record.family,
        "verdict": record.verdict,
        "what": record.what,
        "reason": record.reason,
    }
    if record.decision:
        value["decision"] = record.decision
    if record.baseline:
        value["baseline"] = record.baseline
    if record.place is not None:
        place = record.place
        value["place"] = {
            "file": place.file,
            "program": place.program,
            "instruction": place.instruction,
            "source": place.source,
            "line": place.line,
            "text": place.text,
        }
    value["obligations"] = [_part(part, times=times) for part in record.parts]
    return value


def _part(part: Part, *, times: bool) -> dict[str, Any]:
    value: dict[str, Any] = {"name": part.name, "verdict": part.verdict, "at": part.at, "reason": part.reason}
    if part.verdict == "refuted":
        value["path"] = [
            {"label": word.label, "bits": word.width, "value": f"0x{word.value:0{(word.width + 3) // 4}x}"}
            for word in part.path
        ]
        value["suggestion"] = part.suggestion
    if times:
        value["milliseconds"] = round(1000 * part.seconds, 1)
    return value
