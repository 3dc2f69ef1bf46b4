"""Text for many releases and ABIs: a table of counts, then the refutations by cause, each cause once."""

import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set

from rich.console import Console
from rich.table import Table
from rich.text import Text

from model.kernel.abi import Abi
from model.kernel.release import Release
from proofs.check_matrix import Finding, Group, Square, outside
from proofs.outcome import why, word
from proofs.reachability import Reach, Reached
from proofs.report.evidence import timed
from proofs.report.program_text import plural
from proofs.report.text import clean, put, refutation, short
from proofs.solver import Result

WORDS = ("proved", "refuted", "unknown", "unsupported")
WIDTH = 100  # columns of running text
CELL = 13  # columns of one ABI in the table, at most
HELPER = 15  # columns of a helper's name


def counts(square: Square) -> str:
    """ "14/24/0/0": proved, refuted, unknown, unsupported."""
    tally = Counter(word(entry.verdict) for entry in square.entries)
    return "/".join(str(tally[name]) for name in WORDS)


def matrix_report(
    out: Console, family: str, squares: Sequence[Square], groups: Sequence[Group], *, verbose: bool, seconds: float
) -> None:
    """The whole of one family."""
    releases = tuple({square.release.name: square.release for square in squares}.values())
    abis = tuple({square.abi.name: square.abi for square in squares}.values())
    many = f"{plural(len(releases), 'release')}, {plural(len(abis), 'ABI')}"
    _say(out, f"{family.capitalize()} claims, {many}: {'/'.join(WORDS)}")
    per_table = max(1, min(len(abis), (out.width - 8) // CELL))
    for start in range(0, len(abis), per_table):
        put(out, _table(squares, releases, abis[start : start + per_table]))
    undecided = {(s.release.name, e.map_type, e.helper) for s in squares for e in s.entries if why(e.verdict)}
    for number, group in enumerate(groups, 1):
        for line in group_lines(number, group, releases, abis, undecided, verbose=verbose):
            _say(out, line)
    for line in _open(squares, verbose=verbose):
        _say(out, line)
    if verbose:
        for square in squares:
            for entry in square.entries:
                for result in entry.results:
                    _say(out, timed(result))
    tally = Counter(word(entry.verdict) for square in squares for entry in square.entries)
    _say(out, "")
    parts = len({(r.obligation.claim, r.obligation.part) for s in squares for e in s.entries for r in e.results})
    told = f"{sum(tally.values())} claims in {parts} distinct obligations: "
    _say(out, told + ", ".join(f"{tally[name]} {name}" for name in WORDS) + f" ({seconds:.1f} s)")


def _say(out: Console, line: str) -> None:
    out.print(clean(line), markup=False, soft_wrap=True)


def _table(squares: Sequence[Square], releases: Sequence[Release], abis: Sequence[Abi]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1))
    table.add_column("kernel", no_wrap=True)
    for abi in abis:
        table.add_column(abi.name, no_wrap=True, justify="right")
    cells = {(square.release.name, square.abi.name): counts(square) for square in squares}
    for release in releases:
        table.add_row(Text(release.name), *[cells[release.name, abi.name] for abi in abis])
    return table


def group_lines(
    number: int,
    group: Group,
    releases: Sequence[Release],
    abis: Sequence[Abi],
    undecided: Set[tuple[str, str, str]],
    *,
    verbose: bool,
) -> Iterator[str]:
    """One cause: what, since when and until when, whom it touches, how it is reached, one counterexample.

    `undecided` are (release, map type, helper) of claims that are open: there nothing can be said of the cause.
    """
    cause, findings = group.cause, group.findings
    yield ""
    yield from _wrapped(f"{number}. ", f"{cause.name}: {cause.text}")
    if cause.commits:
        yield from _wrapped("   ", cause.commits)
    shown = {f.release.name for f in findings}
    pairs = {(f.entry.map_type, f.entry.helper) for f in findings}
    open_in = {name for name, *pair in undecided if tuple(pair) in pairs}
    yield from _wrapped("   releases  ", _span(shown, [release.name for release in releases], open_in))
    if strange := outside(group):
        yield from _wrapped("   releases  ", f"not expected by the commits above: {', '.join(strange)}")
    touched = {f.abi.name for f in findings}
    yield from _wrapped("   ABIs      ", ", ".join(a.name for a in abis if a.name in touched))
    tally = Counter(f.reached.reach for f in findings)
    yield f"   refuted   {len(findings)}: " + ", ".join(f"{tally[reach]} {reach.value}" for reach in Reach)
    for key, row in _rows(findings).items():
        yield from _row(key, row, shown, touched)
    if verbose:
        for f in findings:
            name = f"{f.entry.name} ({f.release.name}, {f.abi.name})"
            yield f"   {f.reached.reach.value:<9} {name}: {_evidence(f.reached)}"
    yield "   for example:"
    for line in refutation(_example(findings)):
        yield from _wrapped("     " + " " * (len(line) - len(line.lstrip())), line.lstrip())


def _span(shown: set[str], names: Sequence[str], open_in: Set[str]) -> str:
    """Which of the releases looked at, a run without a gap by its ends; then the ones next to it, and what is open."""
    places = [index for index, name in enumerate(names) if name in shown]
    first, last = places[0], places[-1]
    if len(places) > 2 and len(places) == last - first + 1:
        text = f"{names[first]} to {names[last]} ({len(places)} in a row)"
    else:
        text = ", ".join(names[index] for index in places)
    if first and names[first - 1] not in open_in:
        text += f"; not in {names[first - 1]}"
    if last + 1 < len(names) and names[last + 1] not in open_in:
        text += f"; gone in {names[last + 1]}"
    left = [name for name in names if name in open_in]
    return text + (f"; open in {', '.join(left)}" if left else "")


Key = tuple[str, Reach]


def _rows(findings: Iterable[Finding]) -> dict[Key, list[Finding]]:
    """By helper and reachability."""
    table: dict[Key, list[Finding]] = {}
    for f in findings:
        table.setdefault((f.entry.helper, f.reached.reach), []).append(f)
    return table


def _row(key: Key, findings: Sequence[Finding], releases: set[str], abis: set[str]) -> Iterator[str]:
    """Map types, those of one set of releases and ABIs together, and how one of them is reached."""
    helper, reach = key
    where: dict[str, dict[tuple[str, str], None]] = {}
    for f in findings:
        where.setdefault(f.entry.map_type, {})[f.release.name, f.abi.name] = None
    together: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for map_type, found in where.items():
        together.setdefault(tuple(found), []).append(map_type)
    told = [", ".join(types) + _where(places, releases, abis) for places, types in together.items()]
    yield from _wrapped(f"   {short(helper):<{HELPER - 1}} ", "; ".join(told))
    best = _newest([f for f in findings if not f.reached.taken_over] or findings)
    yield from _wrapped(" " * (3 + HELPER), f"{reach.value}: {best.release.name}: {_evidence(best.reached)}")
    near = {f.release.name: f.reached.taken_over for f in findings if f.reached.taken_over}
    if near and not best.reached.taken_over:
        text = ", ".join(f"{name} as {' and '.join(those)}" for name, those in near.items())
        yield from _wrapped(" " * (3 + HELPER), f"taken over: {text}")


def _where(places: Iterable[tuple[str, str]], releases: set[str], abis: set[str]) -> str:
    """ " (6.1)", " (6.12: arm64; 7.3: arm64, s390x)": which of the cause's releases and ABIs, "" for all of them."""
    on: dict[str, list[str]] = {}
    for release, abi in places:
        on.setdefault(release, []).append(abi)
    if all(set(names) == abis for names in on.values()):
        return "" if set(on) == releases else f" ({', '.join(on)})"
    if set(on) == releases and len({tuple(names) for names in on.values()}) == 1:
        return f" ({', '.join(next(iter(on.values())))})"
    return " (" + "; ".join(f"{release}: {', '.join(names)}" for release, names in on.items()) + ")"


def _evidence(found: Reached) -> str:
    return found.why + (f" (as in {' and '.join(found.taken_over)})" if found.taken_over else "")


def _newest(findings: Sequence[Finding]) -> Finding:
    """The first one of the newest release."""
    return next(f for f in findings if f.release.name == findings[-1].release.name)


def _example(findings: Sequence[Finding]) -> Result:
    """Of a release that gets there by its own source, where there is one; of its parts the first."""
    own = [f for f in findings if f.reached.reach is Reach.REACHABLE and not f.reached.taken_over]
    return _newest(own or findings).results[0]


def _wrapped(head: str, text: str) -> Iterator[str]:
    lines = textwrap.wrap(
        text, WIDTH - len(head), break_long_words=False, break_on_hyphens=False, drop_whitespace=True
    ) or [""]
    yield head + lines[0]
    yield from (" " * len(head) + line for line in lines[1:])


def _open(squares: Iterable[Square], *, verbose: bool) -> Iterator[str]:
    """A line for each reason that leaves claims open, with the first of them; for each claim where `verbose`."""
    names: dict[tuple[str, str], list[str]] = {}
    for square in squares:
        for entry in square.entries:
            if reason := why(entry.verdict):
                names.setdefault((word(entry.verdict), reason), []).append(entry.name)
    if names:
        yield ""
    for (verdict, reason), found in names.items():
        for name in found if verbose else found[:1]:
            more = f" and {len(found) - 1} more" if len(found) > 1 and not verbose else ""
            yield f"{verdict} {name}{more}: {reason}"
