"""`check` without FILE on more than one release or ABI."""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter

from rich.console import Console

from model.errors import InputError
from model.kernel.abi import Abi
from model.kernel.data import available, load_release
from model.kernel.release import Release
from proofs.causes import numbers
from proofs.check_claims import FAMILIES
from proofs.check_matrix import Square, check, groups, verdicts
from proofs.commands.artefacts import keep
from proofs.commands.output import entries, finish, text_out
from proofs.limit import Limit
from proofs.report.matrix import matrix_report
from proofs.report.record import Report, setting, square_records
from proofs.solver import Solver


def run(options: argparse.Namespace, releases: Sequence[Release], abis: Sequence[Abi], limit: Limit) -> int:
    if options.reproduce is not None:
        raise InputError("--reproduce", "", "expected one release and one ABI with it")
    releases = sorted(releases, key=lambda release: numbers(release.version))
    known, out = entries(options), text_out(options)
    solver = Solver(options.timeout, limit)
    report, kept = Report(setting("check", releases, abis)), list[Square]()
    everyone = [*map(load_release, available()), *releases]
    others = list({release.name: release for release in everyone}.values())
    for family in ("dispatch", *FAMILIES) if options.claim == "all" else (options.claim,):
        started = perf_counter()
        with _progress() as tell:
            squares = check(family, releases, abis, solver, options.match, tell)
            causes = groups(squares, solver, others)
        if verdicts(squares):
            if report.records:
                out.print()
            seconds = perf_counter() - started
            matrix_report(out, family, squares, causes, verbose=options.verbose, seconds=seconds)
        report.records += square_records(family, squares)
        kept += squares
    if not report.records:
        raise InputError("--match", str(options.match), "expected a glob that fits an obligation (see --verbose)")
    keep(options, kept, solver)
    return finish(options, report, known, out)


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """A line that tells what is being checked, on a terminal only."""
    if not sys.stderr.isatty():
        yield lambda text: None
        return
    with Console(stderr=True).status("") as line:
        yield lambda text: line.update(text)
