"""Where verdicts go: the format, the file, the baseline, and the exit status that follows."""

import argparse
from collections.abc import Callable, Mapping
from io import StringIO
from pathlib import Path

from rich.console import Console

from model.errors import InputError
from proofs import baseline
from proofs.commands.extract import write_whole
from proofs.outcome import Exit
from proofs.report.record import Record, Report
from proofs.report.text import PIPE_WIDTH, clean, console

FORMATS = ("text", "json", "junit", "sarif", "html")


def add_output(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("output")
    group.add_argument("--format", choices=FORMATS, default="text", help="of the report (default: text)")
    group.add_argument("-o", "--output", metavar="FILE", help="where the report goes (default: standard output)")
    group.add_argument("--quiet", action="store_true", help="no report: the exit status, and the last line")
    group.add_argument("--times", action="store_true", help="with the solver's time in JSON, JUnit and HTML")
    known = parser.add_argument_group("known refutations")
    known.add_argument("--baseline", metavar="FILE", help="refutations that do not fail the run (TOML)")
    known.add_argument("--strict-baseline", action="store_true", help="fail on entries that no longer refute")
    known.add_argument("--write-baseline", metavar="FILE", help="write what is refuted as a baseline")


def entries(options: argparse.Namespace) -> tuple[baseline.Known, ...]:
    """Read before anything else is done, so that a bad file leaves nothing half said."""
    if options.strict_baseline and options.baseline is None:
        raise InputError("--strict-baseline", "", "expected --baseline FILE with it")
    return () if options.baseline is None else baseline.read(Path(options.baseline))


def needs_records(options: argparse.Namespace) -> bool:
    """Whether more is asked for than the report for people and its exit status."""
    asked = (options.output, options.baseline, options.write_baseline)
    return options.format != "text" or options.quiet or any(one is not None for one in asked)


def needs_programs(options: argparse.Namespace) -> bool:
    """Whether the report shows listings and graphs."""
    return bool(options.format == "html" and not options.quiet)


def text_out(options: argparse.Namespace) -> Console:
    """The console of the report for people: into the file, or nowhere where another format or no report is wanted."""
    if options.format != "text" or options.quiet:
        return Console(quiet=True)
    if options.output is not None:
        return Console(file=StringIO(), width=PIPE_WIDTH, no_color=True, highlight=False, force_terminal=False)
    return console()


def finish(options: argparse.Namespace, report: Report, known: tuple[baseline.Known, ...], out: Console) -> int:
    """Writes what was asked for and gives the exit status; `out` is `text_out`'s, with the report for people on it."""
    applied = baseline.apply(report.records, known)
    report.records = list(applied.records)
    if options.write_baseline is not None:
        write_whole(Path(options.write_baseline), baseline.written(report.records, known))
    if not options.quiet:
        _report(options, report, out)
    if options.format == "text" or options.output is not None:
        last = console()
        for line in told(report, applied):
            last.print(clean(line), markup=False, soft_wrap=True)
        if options.quiet or options.output is not None:
            last.print(counted(report), markup=False, soft_wrap=True)
    if options.strict_baseline and (applied.stale or applied.unused):
        return Exit.REFUTED
    return status(report)


def told(report: Report, applied: baseline.Applied) -> list[str]:
    """Lines on the baseline: what it let pass, by reason, and what is of no use."""
    by_reason: dict[str, list[Record]] = {}
    for record in report.records:
        if record.baseline:
            by_reason.setdefault(record.baseline, []).append(record)
    lines = [
        f"known: {len(some)} refuted as expected, {some[0].name}{' and others' if some[1:] else ''}: {reason}"
        for reason, some in by_reason.items()
    ]
    lines += [f"baseline: {entry.name} is no longer refuted" for entry in applied.stale]
    return lines + [f"baseline: {entry.name} fits nothing that was checked" for entry in applied.unused]


def counted(report: Report) -> str:
    counts = report.count()
    known = sum(bool(record.baseline) for record in report.records)
    text = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
    return f"{len(report.records)} claims: {text}" + (f" ({known} known)" if known else "")


def status(report: Report) -> int:
    verdicts = {record.verdict for record in report.records if not record.baseline}
    if "refuted" in verdicts:
        return Exit.REFUTED
    return Exit.PROVED if verdicts <= {"proved"} else Exit.OPEN


def _report(options: argparse.Namespace, report: Report, out: Console) -> None:
    from proofs.cli import product_version

    if options.format == "text":
        kept = options.output is not None and isinstance(out.file, StringIO)
        made = out.file.getvalue() if kept else None  # type: ignore[attr-defined]
    else:
        made = FORMATTERS[options.format](report, product_version(), options.times)
    if options.output is not None and made is not None:
        write_whole(Path(options.output), made)
    elif made is not None:
        print(made, end="")


def _json(report: Report, version: str, times: bool) -> str:
    from proofs.report.json_report import as_json

    return as_json(report, version, times=times)


def _junit(report: Report, version: str, times: bool) -> str:
    from proofs.report.junit import as_junit

    return as_junit(report, times=times)


def _sarif(report: Report, version: str, times: bool) -> str:
    from proofs.report.sarif import as_sarif

    return as_sarif(report, version)


def _html(report: Report, version: str, times: bool) -> str:
    from proofs.report.html.page import as_html

    return as_html(report, version, times=times)


FORMATTERS: Mapping[str, Callable[[Report, str, bool], str]] = {
    "json": _json,
    "junit": _junit,
    "sarif": _sarif,
    "html": _html,
}
