"""Reports as SARIF 2.1.0 (OASIS standard), in the shape that code scanning services take.

A result is a record that is not proved. Its location is the source line where line records tell it, else the input
file; a claim on a release has the release file's name as its location.
"""

import json
import os
from hashlib import sha256
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from proofs.report.junit import lines
from proofs.report.record import Record, Report
from proofs.report.text import clean

LEVELS = {"refuted": "error", "unknown": "warning", "unsupported": "warning"}
SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
RULES = {
    "dispatch": "The helper's indirect call and the direct call end in the same state",
    "inline": "The inlined lookup equals the map's operation",
    "callback": "for_each visits the elements, in order, with the arguments and the result that it promises",
    "site": "What the kernel puts in place of a map-helper call means what the call meant",
    "leftover": "A dispatch that is left is necessary, or a direct call would have been equivalent",
    "patching": "After a patch, everything points where it pointed",
    "direct": "No dispatch is reachable but at the listed sites",
    "program": "The model has a rule for the whole program",
    "equivalence": "Two programs mean the same",
}


def as_sarif(report: Report, version: str) -> str:
    shown = [record for record in report.records if record.verdict != "proved"]
    families = sorted({record.family for record in shown})
    value = {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "bpf-devirt",
                        "version": version,
                        "rules": [_rule(family) for family in families],
                    }
                },
                "columnKind": "unicodeCodePoints",
                "results": [_result(record, families.index(record.family)) for record in shown],
            }
        ],
    }
    return json.dumps(value, indent=1, ensure_ascii=True) + "\n"


def _rule(family: str) -> dict[str, Any]:
    text = RULES.get(family, family)
    return {
        "id": f"bpf-devirt/{family}",
        "name": family.capitalize(),
        "shortDescription": {"text": text},
        "fullDescription": {"text": text},
        "defaultConfiguration": {"level": "error"},
    }


def _result(record: Record, rule: int) -> dict[str, Any]:
    said = [clean(line) for line in lines(record)]
    if record.reason:
        said.insert(1, f"{record.verdict}: {clean(record.reason)}")
    value: dict[str, Any] = {
        "ruleId": f"bpf-devirt/{record.family}",
        "ruleIndex": rule,
        "level": "note" if record.baseline else LEVELS[record.verdict],
        "message": {"text": "\n".join(said)},
        "locations": [_location(record)],
        "partialFingerprints": {"obligation/v1": sha256(record.name.encode(errors="surrogatepass")).hexdigest()},
    }
    if record.baseline:
        value["suppressions"] = [{"kind": "external", "justification": clean(record.baseline)}]
    return value


def _location(record: Record) -> dict[str, Any]:
    place = record.place
    file = (
        (place.source or place.file) if place is not None else f"model/kernel/releases/{record.name.split('/')[1]}.json"
    )
    physical: dict[str, Any] = {"artifactLocation": {"uri": _uri(file)}}
    physical["region"] = {"startLine": place.line if place is not None and place.line else 1}
    logical = {"fullyQualifiedName": clean(record.name), "kind": "function"}
    return {"physicalLocation": physical, "logicalLocations": [logical]}


def _uri(file: str) -> str:
    """A relative reference, or file:// for an absolute path (RFC 3986: what is not plain is escaped)."""
    path = PurePath(file).as_posix()
    escaped = quote(os.fsencode(path))
    return f"file://{escaped}" if path.startswith("/") else escaped
