"""Text for terminals and pipes. On a pipe: no escape codes, no folding at a width that nobody asked for."""

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from model.kernel.abi import Abi
from model.kernel.release import Release
from proofs.check_claims import Group
from proofs.check_release import Cell
from proofs.obligation import Claim, Refuted, Shown
from proofs.outcome import why, word
from proofs.properties.dispatch_cases import Pair
from proofs.properties.no_operation import NoOperation
from proofs.report.evidence import HEAD, counted, timed
from proofs.solver import Result
from proofs.suggestions import suggestion

PIPE_WIDTH = 160
STYLES = {"proved": "green", "refuted": "bold red", "unknown": "yellow", "unsupported": "yellow"}
NOT_ACCEPTED = "-"
NOT_ASKED = "."


class Output(Console):
    """A console that leaves a closed pipe to the command line: rich would exit with 1, which is a verdict here."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def console() -> Console:
    """Where reports go: standard output, with colours only on a terminal."""
    if sys.stdout.isatty():
        return Output(highlight=False, soft_wrap=False)
    return Output(highlight=False, width=PIPE_WIDTH, force_terminal=False, no_color=True)


def put(out: Console, table: Table) -> None:
    """A table; in a pipe without the blanks that pad its last column."""
    if out.is_terminal:
        out.print(table)
        return
    with out.capture() as captured:
        out.print(table)
    for line in captured.get().splitlines():
        out.print(line.rstrip(), markup=False, soft_wrap=True)


def clean(text: str) -> str:
    """`text` with every control character shown as an escape: input must not steer a terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def short(helper: str) -> str:
    """A column's heading: "map_update_elem" -> "update", "map_lookup_percpu_elem" -> "lookup_percpu"."""
    return helper.removeprefix("map_").removesuffix("_map_elem").removesuffix("_map").removesuffix("_elem")


def matrix(cells: Sequence[Cell]) -> Table:
    """Map type × helper; one word a cell."""
    helpers = list(dict.fromkeys(cell.row.helper for cell in cells))
    table = Table(box=None, pad_edge=False, padding=(0, 1))
    table.add_column("map type", no_wrap=True)
    for helper in helpers:
        table.add_column(short(helper), no_wrap=True)
    by_type: dict[str, list[Text]] = {}
    for cell in cells:
        by_type.setdefault(cell.row.map_type, []).append(_cell(cell))
    for map_type, texts in by_type.items():
        table.add_row(map_type, *texts)
    return table


def _cell(cell: Cell) -> Text:
    match cell.row.pair:
        case Pair.NOT_ACCEPTED:
            return Text(NOT_ACCEPTED, style="dim")
        case Pair.NOT_REWRITTEN:
            return Text(cell.row.pair.value)
        case Pair.CLAIMED | Pair.UNREAD:
            if cell.verdict is None:
                return Text(NOT_ASKED, style="dim")
            text = word(cell.verdict)
            return Text(text, style=STYLES[text])


def counts(cells: Iterable[Cell]) -> str:
    """The summary line's numbers, verdicts first."""
    tally: Counter[str] = Counter()
    for cell in cells:
        if cell.row.pair not in (Pair.CLAIMED, Pair.UNREAD):
            tally[cell.row.pair.value] += 1
        elif cell.verdict is not None:
            tally[word(cell.verdict)] += 1
        else:
            tally["not asked"] += 1
    verdicts = [f"{tally[name]} {name}" for name in ("proved", "refuted", "unknown", "unsupported")]
    others = [f"{tally[name]} {name}" for name in ("not accepted", "not rewritten") if tally[name]]
    if tally["not asked"]:
        others.append(f"{tally['not asked']} left out by --match")
    return ", ".join(verdicts) + ("; " + ", ".join(others) if others else "")


def refutation(result: Result) -> list[str]:
    """Lines that tell one refutation in four parts: reason, place, the values until the two sides part, suggestion."""
    verdict = result.verdict
    assert isinstance(verdict, Refuted)
    lines = [f"refuted {result.obligation.name}", f"  Reason: {reason(result)}"]
    if result.obligation.name.startswith("dispatch/") and not isinstance(result.obligation.claim, NoOperation):
        lines.append("    (the operation's body is not modelled: any result of its type is taken to be possible)")
    lines += [f"  At: {result.obligation.origin}", "  Causal path:"]
    lines += [f"    {shown}" for shown in told(verdict.counterexample.shown)]
    return [*lines, f"  Suggestion: {suggestion(result)}"]


def reason(result: Result) -> str:
    """Why a refuted part fails, in a line; where the values say it all, which part it is."""
    part = result.obligation.part
    head, _, path = part.partition("/")
    where = f"{head}, on the path {path}" if head == "r0" and path else part.replace("_", " ")
    return result.obligation.claim.reason(part) or f"the two sides differ in {where}"


def grouped(results: Iterable[Result]) -> list[list[Result]]:
    """Refutations, those of one and the same formula together."""
    groups: dict[tuple[Claim, str], list[Result]] = {}
    for result in results:
        if isinstance(result.verdict, Refuted):
            groups.setdefault((result.obligation.claim, result.obligation.part), []).append(result)
    return list(groups.values())


def told(shown: Sequence[Shown]) -> list[Shown]:
    """Of a counterexample's words, those to print: what both sides agree on is left out, r0 excepted."""
    by_label = {word.label: word.value for word in shown}

    def parts(word: Shown) -> bool:
        side, _, label = word.label.partition(": ")
        other = {"helper": "direct", "direct": "helper"}.get(side)
        return other is None or label == "r0" or by_label.get(f"{other}: {label}") != word.value

    return [word for word in shown if parts(word)]


def release_report(
    out: Console, release: Release, abi: Abi, cells: Sequence[Cell], *, verbose: bool, seconds: float
) -> None:
    """Table, refutations, open ones, and (verbose) every obligation with the solver's time for it."""
    out.print(f"Dispatch claims of Linux {release.version} ({release.name}), {abi.name}", markup=False)
    _provenance(out, release)
    put(out, matrix(cells))
    legend = f"{NOT_ACCEPTED} not accepted by the verifier"
    if any(cell.row.pair is Pair.CLAIMED and cell.verdict is None for cell in cells):
        legend += f"   {NOT_ASKED} left out by --match"
    out.print(legend, markup=False)
    if release.gen_lookup:
        out.print(
            "lookup: the claim on a direct call; what is inlined instead is claimed by --claim inline", markup=False
        )
    results = [result for cell in cells for result in cell.results]
    _results(out, results, verbose=verbose)
    for line in open_lines(cells, verbose=verbose):
        out.print(clean(line), markup=False, soft_wrap=True)
    for note in release.unread if verbose else ():
        out.print(clean(f"not read: {note}"), markup=False, soft_wrap=True)
    out.print()
    claims = sum(cell.verdict is not None for cell in cells)
    out.print(
        f"{claims} claims in {len(results)} obligations: {counts(cells)} ({seconds:.1f} s)",
        markup=False,
        soft_wrap=True,
    )


def _provenance(out: Console, release: Release) -> None:
    """Where the release's data comes from, unless it was read from a tree as a whole."""
    if release.provenance:
        out.print(clean(f"from: {release.origin}"), markup=False, soft_wrap=True)


def open_lines(cells: Iterable[Cell], *, verbose: bool) -> Iterator[str]:
    """A line for each reason that leaves pairs open, with the first of them; for each pair where `verbose`."""
    pairs: dict[tuple[str, str], list[str]] = {}
    for cell in cells:
        if cell.verdict is not None and why(cell.verdict):
            name = f"{cell.row.map_type}/{cell.row.helper}"
            pairs.setdefault((word(cell.verdict), why(cell.verdict)), []).append(name)
    for (verdict, reason), names in pairs.items():
        for name in names if verbose else names[:1]:
            more = f" and {len(names) - 1} more" if len(names) > 1 and not verbose else ""
            yield f"{verdict} {name}{more}: {reason}"


def _results(out: Console, results: Sequence[Result], *, verbose: bool) -> None:
    """Every obligation with its time (verbose), then each refutation, those of one formula together."""
    if verbose:
        out.print()
        for line in (HEAD, *map(timed, results)):
            out.print(line, markup=False, soft_wrap=True)
        out.print(str(counted(results)), markup=False, soft_wrap=True)
    for same in grouped(results):
        out.print()
        out.print("\n".join(refutation(same[0])), markup=False, soft_wrap=True)
        for other in same[1:]:
            out.print(f"  also refuted, same values: {other.obligation.name}", markup=False, soft_wrap=True)


def claims_report(
    out: Console, release: Release, abi: Abi, family: str, groups: Sequence[Group], *, verbose: bool, seconds: float
) -> None:
    """One line a claim, refutations, open ones, the count."""
    out.print(f"{family.capitalize()} claims of Linux {release.version} ({release.name}), {abi.name}", markup=False)
    _provenance(out, release)
    table = Table(box=None, pad_edge=False, padding=(0, 1))
    for column in ("claim", "verdict", "obligations"):
        table.add_column(column, no_wrap=True)
    for group in groups:
        text = word(group.verdict)
        table.add_row(group.name, Text(text, style=STYLES[text]), str(len(group.results)))
    put(out, table)
    results = [result for group in groups for result in group.results]
    _results(out, results, verbose=verbose)
    for group in groups:
        if why(group.verdict):
            out.print(f"{word(group.verdict)} {group.name}: {why(group.verdict)}", markup=False, soft_wrap=True)
    tally = Counter(word(group.verdict) for group in groups)
    counted = ", ".join(f"{tally[name]} {name}" for name in STYLES)
    out.print()
    out.print(
        f"{len(groups)} claims in {len(results)} obligations: {counted} ({seconds:.1f} s)",
        markup=False,
        soft_wrap=True,
    )
