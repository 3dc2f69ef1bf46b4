"""Shows that the proofs have teeth: seeds one fault at a time into rows and patches, and demands a refutation.

Prints each fault with the obligation that refuted it, then killed/total. Exit status 1 on a survivor.
"""

import argparse

from rich.table import Table
from rich.text import Text

from model.errors import InputError
from proofs.check_release import matches
from proofs.commands.options import kernel
from proofs.mutant_families import MUTANTS
from proofs.outcome import Exit
from proofs.report.text import console, put
from proofs.solver import Solver
from proofs.trial import trial

SUMMARY = "seed faults and demand that each is refuted"
EXAMPLES = """\
examples:
  python -m proofs mutants                       all, in the newest release
  python -m proofs mutants --match 'patching/*'  those of one claim
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--kernel",
        metavar="RELEASE",
        default="newest",
        help="the release that the faults go into (default: the newest)",
    )
    parser.add_argument("--match", metavar="GLOB", help="only mutants whose name (claim/fault) fits GLOB")


def run(options: argparse.Namespace) -> int:
    release, solver = kernel(options.kernel), Solver()
    chosen = [mutant for mutant in MUTANTS if matches(f"{mutant.family}/{mutant.name}", options.match)]
    if not chosen:
        raise InputError("--match", options.match, "expected a glob that fits a mutant")
    table = Table(box=None, pad_edge=False)
    for column in ("mutant", "fault", "verdict", "refuted by"):
        table.add_column(column, no_wrap=column in ("mutant", "verdict"))
    killed = applied = 0
    for mutant in chosen:
        outcome = trial(mutant, release, solver)
        killed += outcome.killed
        applied += outcome.applies
        word, style = ("killed", "green") if outcome.killed else ("SURVIVED", "bold red")
        if not outcome.applies:
            word, style = "-", "dim"
        table.add_row(f"{mutant.family}/{mutant.name}", mutant.fault, Text(word, style=style), outcome.told)
    out = console()
    put(out, table)
    skipped = f" ({len(chosen) - applied} do not apply to {release.name})" if applied < len(chosen) else ""
    out.print(f"{killed}/{applied} killed{skipped}", markup=False)
    return Exit.PROVED if killed == applied else Exit.REFUTED
