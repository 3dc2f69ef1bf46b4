"""Checks what `check --smt2 DIR` wrote: each formula by a solver that had no part in the verdict, and, with --proofs,
the kept proofs by a small checker that is no solver. A disagreement names the obligation.
"""

import argparse
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from rich.progress import Progress

from model.errors import InputError
from proofs.commands.artefacts import need
from proofs.commands.options import positive_seconds
from proofs.manifest import Manifest, read
from proofs.outcome import Exit
from proofs.recheck import OUTCOMES, Found, of_outcome, recheck, selected
from proofs.report.text import clean, console
from proofs.second_solver import OPTIONS, PACKAGES

SUMMARY = "check proof artefacts by another solver, or a small checker of proofs"
EXAMPLES = """\
examples:
  python -m proofs check --claim all --smt2 out --proof    writes them
  python -m proofs recheck out --solver bitwuzla           needs the extra bitwuzla; cvc5 likewise
  python -m proofs recheck out --proofs                    needs no solver
  python -m proofs recheck out --solver cvc5 --match 'dispatch/*/hash' --timeout 10
"""
SECONDS = 60.0
SLOWEST = 5
SHOWN = 50


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", metavar="DIR", help="what `check --smt2 DIR` wrote")
    parser.add_argument("--solver", choices=tuple(PACKAGES), help="who is asked (z3: as a reader of the files)")
    parser.add_argument("--proofs", action="store_true", help="check the kept proofs")
    parser.add_argument(
        "--jobs", metavar="N", type=_jobs, default=os.cpu_count() or 1, help="processes (default: CPUs)"
    )
    parser.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=positive_seconds,
        default=SECONDS,
        help=f"for one formula or proof; then its process is killed (default: {SECONDS:g})",
    )
    parser.add_argument(
        "--match", metavar="GLOB", help="only obligations whose name, or a path that it begins with, fits GLOB"
    )


def _jobs(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 0 < int(text[:5]) <= 1024:
        raise argparse.ArgumentTypeError(f"expected a number of processes, 1 to 1024, not {text!r}")
    return int(text)


def run(options: argparse.Namespace) -> int:
    if options.solver is None and not options.proofs:
        raise InputError("recheck", "", f"expected --solver ({', '.join(PACKAGES)}), or --proofs, or both")
    if options.solver is not None:
        need("z3" if options.solver == "z3" else options.solver, options.solver)
    directory = Path(options.directory)
    manifest = read(directory)
    found = selected(directory, manifest, options.match)
    with _progress(len({one.task.text for one in found.checked})) as tell:
        recheck(found, options.solver, options.proofs, options.jobs, options.timeout, tell)
    for line in report(found, manifest, options):
        console().print(clean(line), markup=False, soft_wrap=True)
    if of_outcome(found, "disagrees"):
        return Exit.REFUTED
    return Exit.OPEN if of_outcome(found, "open") or not found.checked else Exit.PROVED


def report(found: Found, manifest: Manifest, options: argparse.Namespace) -> Iterator[str]:
    tools = ", ".join(f"{name} {number}" for name, number in manifest.tools.items())
    releases = ", ".join(str(release.get("version", "")) for release in manifest.releases)
    yield f"written by {tools}; Linux {releases}"
    if options.solver is not None:
        yield f"asked: {options.solver} {_version(PACKAGES[options.solver])}, {options.timeout:g} s for one formula"
        for row in OPTIONS:
            if row.solver == options.solver:
                told = ", ".join(f"{name}={value}" for name, value in row.options.items())
                yield f"  with {told} where {row.holding} is in {row.logic}: {row.why}"
    for head, some in (("DISAGREES", of_outcome(found, "disagrees")), ("open", of_outcome(found, "open"))):
        for one in some[:SHOWN]:
            yield f"{head}: {one.entry.name}: {one.told}"
        if len(some) > SHOWN:
            yield f"and {len(some) - SHOWN} more"
    for seconds, name in found.slowest[:SLOWEST]:
        yield f"{seconds:8.2f} s  {name}"
    if found.without:
        yield f"{len(found.without)} without a formula: {found.without[0].name}: {found.without[0].reason}" + (
            f", and {len(found.without) - 1} more" if len(found.without) > 1 else ""
        )
    if found.not_asked:
        yield f"{found.not_asked} without a proof to check: a state is their answer (--solver finds it)"
    agree, disagree, left = (len(of_outcome(found, outcome)) for outcome in OUTCOMES)
    proofs = f", {found.proofs} proofs" if options.proofs else ""
    yield (
        f"{len(found.checked)} obligations, {found.formulas} formulas{proofs}: {agree} agree, {disagree} disagree, "
        f"{left} open"
    )


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "of unknown version"


@contextmanager
def _progress(total: int) -> Iterator[Callable[[str], None]]:
    """A bar on a terminal; nothing in a pipe."""
    out = console()
    if not out.is_terminal:
        yield lambda name: None
        return
    with Progress(console=out, transient=True) as bar:
        task = bar.add_task("formulas", total=total)
        yield lambda name: bar.advance(task)
