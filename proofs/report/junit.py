"""Reports as JUnit XML: a test suite a family, a test case a record. Unknown and unsupported are errors, not skips."""

from itertools import groupby
from xml.etree import ElementTree

from proofs.report.record import Record, Report
from proofs.report.text import clean


def as_junit(report: Report, *, times: bool = False) -> str:
    """`time` attributes are 0 unless `times`."""
    root = ElementTree.Element("testsuites", name="bpf-devirt")
    for family, some in groupby(sorted(report.records, key=lambda record: record.family), lambda one: one.family):
        records = list(some)
        suite = ElementTree.SubElement(root, "testsuite", name=family, tests=str(len(records)))
        kinds = [_kind(record) for record in records]
        for attribute, kind in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            suite.set(attribute, str(kinds.count(kind)))
        suite.set("time", "0")
        for record, kind in zip(records, kinds, strict=True):
            _case(suite, record, kind, times=times)
    ElementTree.indent(root)
    text: str = ElementTree.tostring(root, encoding="unicode", xml_declaration=True)
    return text + "\n"


def _kind(record: Record) -> str:
    if record.baseline:
        return "skipped"
    return {"proved": "", "refuted": "failure"}.get(record.verdict, "error")


def _case(suite: ElementTree.Element, record: Record, kind: str, *, times: bool) -> None:
    spent = sum(part.seconds for part in record.parts) if times else 0.0
    path, _, last = record.name.rpartition("/")
    case = ElementTree.SubElement(
        suite, "testcase", classname=clean(path.replace("/", ".")), name=clean(last), time=f"{spent:.3f}"
    )
    if record.place is not None and record.place.source:
        case.set("file", clean(record.place.source))
        case.set("line", str(record.place.line))
    if kind:
        message = record.baseline or record.reason or next((part.reason for part in record.refutations), "")
        found = ElementTree.SubElement(case, kind, message=clean(message or record.verdict), type=record.verdict)
        found.text = "\n".join(clean(line) for line in lines(record))


def lines(record: Record) -> list[str]:
    """A record's refutations for a person, each in its four parts."""
    found = [record.what]
    for part in record.refutations:
        found += [f"refuted {part.name}", f"Reason: {part.reason}", f"At: {part.at}", "Causal path:"]
        found += [f"  {word}" for word in part.path]
        found += [f"Suggestion: {part.suggestion}"] if part.suggestion else []
    return found
