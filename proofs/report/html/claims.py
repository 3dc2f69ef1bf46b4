"""Every record as a row of one table, which the filters work on."""

from collections.abc import Mapping, Sequence

from proofs.report.html.elements import Markup, element, lines
from proofs.report.html.verdicts import badge
from proofs.report.record import Record, Report, Subject

ROWS = 12_000
"""Records that are listed; those that are not proved come first where there are more."""
HEADS = ("verdict", "kernel", "ABI", "map type", "helper", "claim")


def subject(report: Report, record: Record) -> Subject:
    """The record's subject; what the whole report is on where the record does not say."""
    found, setting = record.subject, report.setting
    kernel = found.kernel or (setting.releases[0][0] if len(setting.releases) == 1 else "")
    abi = found.abi or (setting.abis[0] if len(setting.abis) == 1 else "")
    return Subject(kernel, abi, found.maps, found.helper)


def listed(records: Sequence[Record]) -> list[Record]:
    if len(records) <= ROWS:
        return list(records)
    kept = sorted(range(len(records)), key=lambda index: (records[index].verdict == "proved", index))[:ROWS]
    return [records[index] for index in sorted(kept)]


def table(
    report: Report,
    some: Sequence[Record],
    examples: Mapping[str, Sequence[int]],
    anchors: Mapping[str, str],
    *,
    times: bool,
) -> Markup:
    """`examples` and `anchors` are the counterexamples and the places in listings that a record's name has."""
    heads = [*HEADS, "ms"] if times else list(HEADS)
    head = element("thead", element("tr", *(element("th", text, scope="col") for text in heads)))
    rows = (_row(report, record, examples.get(record.name, ()), anchors.get(record.name), times) for record in some)
    return element("table", head, element("tbody", lines(rows)), class_="claims")


def _row(report: Report, record: Record, examples: Sequence[int], anchor: str | None, times: bool) -> Markup:
    about = subject(report, record)
    spent = f"{1000 * sum(part.seconds for part in record.parts):.1f}"
    cells = (about.kernel, about.abi, ", ".join(about.maps), about.helper)
    return element(
        "tr",
        element("td", badge(record.verdict)),
        *(element("td", cell) for cell in cells),
        element("td", *_claim(record, examples, anchor)),
        element("td", spent) if times else None,
        data_v=record.verdict,
    )


def _claim(record: Record, examples: Sequence[int], anchor: str | None) -> list[str | Markup]:
    """The name, where there is a program what was claimed, why it is open or known, and where more is said."""
    told: list[str | Markup] = [element("code", record.name)]
    if not record.subject.kernel:
        told.append(element("div", record.what))
    if record.reason:
        told.append(element("div", record.reason))
    if record.baseline:
        told.append(element("div", f"known: {record.baseline}", class_="known"))
    links = [element("a", f"counterexample {number + 1}", href=f"#c{number}") for number in examples]
    if anchor:
        links.append(element("a", "in the program", href=f"#{anchor}"))
    return told + ([element("div", *_spaced(links), class_="links")] if links else [])


def _spaced(links: Sequence[Markup]) -> list[str | Markup]:
    return [child for link in links for child in (link, " · ")][:-1]
