"""The whole page. Its policy (Content-Security-Policy, level 3) allows the one style sheet and script by their hashes,
and nothing from anywhere else.
"""

from base64 import b64encode
from hashlib import sha256
from importlib.resources import files

from proofs.report.html import claims, counterexamples, drawing, programs, summary
from proofs.report.html.elements import Markup, element, joined, lines, shipped
from proofs.report.html.verdicts import symbols
from proofs.report.record import Record, Report

OPEN_CLAIMS = 300
"""Rows of the table of claims that is unfolded at first."""


def as_html(report: Report, version: str, *, times: bool = False) -> str:
    """One file; the same report gives the same bytes. With `times` the solver's time of each record in ms."""
    style, script = _asset("page.css"), _asset("page.js")
    body = element(
        "body", _shapes(), summary.head(report, version), _main(report, times=times), shipped("script", script)
    )
    title = f"bpf-devirt {report.setting.command}"
    page = element("html", _head(title, style, script), body, lang="en")
    return f"<!DOCTYPE html>\n{page.html}\n"


def policy(style: str, script: str) -> str:
    return (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _asset(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


def _head(title: str, style: str, script: str) -> Markup:
    return element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy(style, script)),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("link", rel="icon", href="data:,"),
        element("title", title),
        shipped("style", style),
    )


def _shapes() -> Markup:
    """What the page's pictures refer to."""
    return element("svg", symbols(), element("defs", drawing.ends()), class_="defs", aria_hidden="true")


def _main(report: Report, *, times: bool) -> Markup:
    some = summary.subjects(report)
    listed = claims.listed(report.records)
    bound = programs.bounds(len(report.programs))
    places = programs.anchors(report, bound)
    examples = counterexamples.examples(report.records)
    made = [
        summary.filters(report, some),
        element("section", element("h2", "Summary"), summary.tables(report, some), id="summary"),
        _examples(examples, places),
        _programs(report, bound),
        _claims(report, listed, claims.table(report, listed, counterexamples.numbers(examples), places, times=times)),
    ]
    return element("main", lines(made))


def _examples(examples: list[counterexamples.Example], places: dict[str, str]) -> Markup:
    if not examples:
        return element("section", element("h2", "Counterexamples"), element("p", "None."), id="counterexamples")
    articles = (counterexamples.article(number, one, places) for number, one in enumerate(examples))
    title = element("h2", f"Counterexamples ({len(examples)})")
    return element("section", title, lines(articles), id="counterexamples")


def _programs(report: Report, bound: programs.Bounds) -> Markup:
    if not report.programs:
        return joined(())
    sections = (
        programs.section(number, file, checked, report.helpers, bound)
        for number, (file, checked) in enumerate(report.programs)
    )
    title = element("h2", f"Programs ({len(report.programs)})")
    return element("section", title, lines(sections), id="programs")


def _claims(report: Report, listed: list[Record], table: Markup) -> Markup:
    more = len(report.records) - len(listed)
    note = f"{more} proved or further claims are not listed here; --format json has them all" if more else ""
    return element(
        "section",
        element("h2", f"Claims ({len(report.records)})"),
        element("p", note) if note else None,
        element("details", element("summary", "All claims"), table, open=len(listed) <= OPEN_CLAIMS),
        id="claims",
    )
