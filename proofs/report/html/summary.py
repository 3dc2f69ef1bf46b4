"""The head of the page: what was checked, the filters, and the tables of counts."""

from collections import Counter
from collections.abc import Iterable, Sequence
from urllib.parse import quote

from proofs.report.html.claims import subject
from proofs.report.html.elements import Markup, element, joined, lines
from proofs.report.html.verdicts import VERDICTS, tally
from proofs.report.record import Record, Report, Subject
from proofs.report.text import clean

FILTERS = (("filter", "Verdict"), ("kernel", "Kernel"), ("abi", "ABI"), ("map", "Map type"), ("helper", "Helper"))
"""Keys of the fragment, and their labels, in the order of the columns of the table of claims."""


def head(report: Report, version: str) -> Markup:
    setting = report.setting
    kernels = ", ".join(f"{name} ({number})" for name, number, _ in setting.releases)
    known = sum(bool(record.baseline) for record in report.records)
    told = f", {known} refuted as the baseline says" if known else ""
    made = [
        element("h1", f"bpf-devirt {setting.command}"),
        element("p", tally(report.count()), f" of {len(report.records)} claims{told}", class_="total"),
        element(
            "dl",
            *(
                element("div", element("dt", name), element("dd", text or "none"))
                for name, text in (("Linux", kernels), ("ABI", ", ".join(setting.abis)), ("Version", version))
            ),
        ),
    ]
    origins = [(name, origin) for name, _, origin in setting.releases if origin]
    if origins:
        items = (element("li", f"{name}: {origin}") for name, origin in origins)
        made.append(element("details", element("summary", "Where the releases' data is from"), element("ul", *items)))
    if report.notes:
        notes = element("ul", *(element("li", note) for note in report.notes))
        made.append(element("details", element("summary", f"Notes ({len(report.notes)})"), notes, open=True))
    return element("header", *made)


def subjects(report: Report) -> list[tuple[Record, Subject]]:
    return [(record, subject(report, record)) for record in report.records]


def filters(report: Report, some: Iterable[tuple[Record, Subject]]) -> Markup:
    """The form, which the script shows: without it there is nothing that it could do."""
    abouts = [about for _, about in some]
    values = {
        "filter": VERDICTS,
        "kernel": [name for name, *_ in report.setting.releases],
        "abi": report.setting.abis,
        "map": sorted({kind for about in abouts for kind in about.maps}),
        "helper": sorted({about.helper for about in abouts} - {""}),
    }
    fields = [_select(key, label, values[key]) for key, label in FILTERS]
    search = element("input", type="search", id="f-text", name="text", autocomplete="off")
    fields.append(element("label", element("span", "Text"), search))
    fields.append(element("button", "Clear", type="reset"))
    told = element("output", "", id="shown", aria_live="polite")
    return element("form", *fields, told, id="filters", role="search", aria_label="Filters", hidden=True)


def _select(key: str, label: str, values: Sequence[str]) -> Markup:
    options = (element("option", value, value=value) for value in dict.fromkeys(values))
    select = element("select", element("option", "all", value=""), *options, id=f"f-{key}", name=key)
    return element("label", element("span", label), select)


def tables(report: Report, some: Sequence[tuple[Record, Subject]]) -> Markup:
    """Kernel × ABI where there are several, then map type × helper; a record with several map types counts for each."""
    kernels = [name for name, *_ in report.setting.releases]
    made: list[Markup] = []
    if len(kernels) * len(report.setting.abis) > 1:
        pairs = [(about.kernel, about.abi, record.verdict) for record, about in some]
        made.append(_grid("Claims by kernel and ABI", ("kernel", "abi"), kernels, report.setting.abis, pairs))
    pairs = [(kind, about.helper, record.verdict) for record, about in some if about.helper for kind in about.maps]
    types = list(dict.fromkeys(kind for kind, *_ in pairs))
    helpers = list(dict.fromkeys(helper for _, helper, _ in pairs))
    if types:
        made.append(_grid("Claims by map type and helper", ("map", "helper"), types, helpers, pairs))
    return joined(made)


def _grid(
    title: str,
    keys: tuple[str, str],
    rows: Sequence[str],
    columns: Sequence[str],
    counted: Iterable[tuple[str, str, str]],
) -> Markup:
    counts: dict[tuple[str, str], Counter[str]] = {}
    for row, column, verdict in counted:
        counts.setdefault((row, column), Counter())[verdict] += 1
    head = element("tr", element("th", keys[0], scope="col"), *(element("th", one, scope="col") for one in columns))
    body = lines(
        element(
            "tr",
            element("th", row, scope="row"),
            *(_cell(keys, row, column, counts.get((row, column), Counter())) for column in columns),
        )
        for row in dict.fromkeys(rows)
    )
    table = element(
        "table",
        element("caption", title),
        element("thead", head),
        element("tbody", body),
        class_="grid",
        data_rows=keys[0],
        data_columns=keys[1],
    )
    return element("div", table, class_="scroll", tabindex=0, role="group", aria_label=title)


def _cell(keys: tuple[str, str], row: str, column: str, counts: Counter[str]) -> Markup:
    """The counts as a link that sets the filters to this row and column."""
    if not counts:
        return element("td", "–")
    link = f"#{keys[0]}={quote(clean(row))}&{keys[1]}={quote(clean(column))}"
    return element("td", element("a", tally(counts), href=link), data_r=row, data_c=column)
