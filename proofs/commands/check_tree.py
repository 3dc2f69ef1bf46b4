"""`check --tree TREE`: what a kernel tree changes in the verdicts, beside a release in the data or a release file."""

import argparse
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from model.errors import InputError
from model.kernel.abi import Abi
from model.kernel.extract import extract
from model.kernel.nearest import nearest
from model.kernel.release import Release
from model.kernel.release_facts import compare as compare_facts
from proofs.check_claims import FAMILIES
from proofs.check_matrix import check
from proofs.commands.options import abis, kernel
from proofs.commands.output import entries, finish, text_out
from proofs.compare import FAILS, Change, Compared, compare
from proofs.limit import Limit
from proofs.outcome import Exit
from proofs.report.differences import differences_report
from proofs.report.record import Record, Report, setting, square_records
from proofs.report.text import clean, console
from proofs.solver import Solver

SHOWN = 40
"""Claims of one kind of change that are named."""


def run(options: argparse.Namespace, limit: Limit) -> int:
    """Exit status 0: nothing that was proved is not, nothing new is refuted, or there is nothing to compare with; 1:
    something is; 3: new, and open.
    """
    if options.files or options.reproduce is not None:
        raise InputError("--tree", "", "expected neither FILE nor --reproduce with it")
    known, out, chosen = entries(options), _text_out(options), abis(options.arch)
    release = extract(Path(options.tree))
    base = _against(options.against, release)
    solver = Solver(options.timeout, limit)
    before = [] if base is None else _records(base, chosen, options, solver)
    after = _records(release, chosen, options, solver)
    if not after:
        raise InputError("--match", str(options.match), "expected a glob that fits an obligation (see --verbose)")
    found = compare(before, after)
    report = Report(setting("check --tree", [release], chosen), after)
    for note in release.unread:
        report.notes.append(f"not read: {note}")
    _told(out, options, release, base, found)
    _rows(out, options, release, base)
    finish(options, report, known, out)
    if base is None:
        return Exit.PROVED
    passed = {record.name for record in report.records if record.baseline}
    changes = {one.change for one in found if one.after is None or one.after.name not in passed}
    return Exit.REFUTED if changes & FAILS else Exit.OPEN if Change.NEW_OPEN in changes else Exit.PROVED


def _text_out(options: argparse.Namespace) -> Console:
    """A report for machines that goes into a file leaves room for what changed: a gate's log should name it."""
    apart = options.format != "text" and options.output is not None and not options.quiet
    return console() if apart else text_out(options)


def _against(text: str | None, release: Release) -> Release | None:
    """The release to compare with: the nearest in the data if none is named, none where a named file is not there."""
    if text is None:
        return nearest(release.version)
    if ("/" in text or text.endswith(".json")) and not Path(text).exists():
        return None
    return kernel(text)


def _records(release: Release, abis_: Sequence[Abi], options: argparse.Namespace, solver: Solver) -> list[Record]:
    families = (options.claim,) if options.claim not in (None, "all") else ("dispatch", *FAMILIES)
    found: list[Record] = []
    for family in families:
        found += square_records(family, check(family, [release], abis_, solver, options.match))
    return found


def _told(
    out: Console, options: argparse.Namespace, release: Release, base: Release | None, found: Sequence[Compared]
) -> None:
    beside = (
        f"beside Linux {base.version} ({base.name})"
        if base
        else f"{options.against} is not there, so that nothing can get worse"
    )
    _say(out, f"{options.tree}: Linux {release.version}, {beside}")
    by_change: dict[Change, list[Compared]] = {change: [] for change in Change}
    for one in found:
        by_change[one.change].append(one)
    for change, some in by_change.items():
        if change is Change.SAME or (base is None and change is Change.NEW_PROVED):
            continue
        for one in some[:SHOWN]:
            _say(out, f"{change.value}: {one.name}")
            for line in _why(one) if change in FAILS or options.verbose else ():
                _say(out, f"  {line}")
        if len(some) > SHOWN:
            _say(out, f"{change.value}: and {len(some) - SHOWN} more")
    counts = Counter(one.change for one in found)
    _say(out, f"{len(found)} claims: " + ", ".join(f"{counts[c]} {c.value}" for c in Change if counts[c]))


def _why(one: Compared) -> list[str]:
    after = one.after
    if after is None:
        return []
    lines = [after.reason] if after.reason else []
    for part in after.refutations[:1]:
        lines += [f"Reason: {part.reason}", f"At: {part.at}", "Causal path:", *(f"  {word}" for word in part.path)]
        lines.append(f"Suggestion: {part.suggestion}")
    return lines


def _rows(out: Console, options: argparse.Namespace, release: Release, base: Release | None) -> None:
    if base is None or out.quiet:
        return
    differences = compare_facts(base, release)
    if options.verbose:
        differences_report(out, release, base.name, base, differences)
    else:
        _say(
            out,
            f"rows of the tree: {len(differences.differences)} differ (extract TREE --check {base.name} names them)",
        )


def _say(out: Console, text: str) -> None:
    out.print(clean(text), markup=False, soft_wrap=True)
