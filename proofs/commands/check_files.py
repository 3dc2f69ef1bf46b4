"""`check FILE...`: every program of every file, then the summary of all."""

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import Progress

from model.errors import InputError
from model.program import Object
from model.rewrite.config import Config
from proofs.callbacks import Callbacks, callbacks_report
from proofs.check_program import check
from proofs.claims import Claims
from proofs.commands.inputs import assumptions, load, selected
from proofs.commands.options import abi, kernel
from proofs.commands.output import entries, finish, needs_programs, needs_records, text_out
from proofs.limit import Limit
from proofs.obligation import Unknown
from proofs.outcome import Exit, status
from proofs.report.listing import helper_names
from proofs.report.program_text import Tally, file_head, program_report, summary
from proofs.report.record import Report, not_checked, program_records, setting, walk_records
from proofs.reproduce import of_sites, write
from proofs.site import Site
from proofs.solver import Solver


def run(options: argparse.Namespace, limit: Limit) -> int:
    for name in ("match", "claim"):
        if getattr(options, name) not in (None, "dispatch"):
            raise InputError(f"--{name}", "", "expected no FILE with it (--section and --program narrow files)")
    release, chosen = kernel(options.kernel), abi(options.arch)
    config = Config(arch=chosen.name, jit=not options.no_jit, unprivileged=options.unprivileged)
    claims = Claims(release, chosen, Solver(options.timeout, limit))
    callbacks = Callbacks(release, chosen, options.timeout)
    known, out, tally = entries(options), text_out(options), Tally()
    report, wanted = Report(setting("check", [release], [chosen])), needs_records(options)
    report.helpers = helper_names(release)
    # All files are read before the first report, so that a bad one leaves nothing half said.
    objects = [load(path, release, options.maps) for path in options.files]
    programs = [(found, list(selected(found, options))) for found in objects]
    given = [(found, p, assumptions(options.assume, p, release)) for found, some in programs for p in some]
    sites: list[Site] = []
    shown: Object | None = None
    with _progress(len(given), out.is_terminal) as advance:
        for found, program, assumed in given:
            if limit.over:
                break
            checked = check(program, claims, config, assumed)
            done = checked.rewritten if options.callbacks else None
            walks = list(callbacks.check(done, config, assumed)) if done is not None else []
            if found is not shown:
                file_head(out, found, release, chosen)
                shown = found
            program_report(out, checked, verbose=options.verbose)
            callbacks_report(out, program, walks, verbose=options.verbose)
            tally.add(found.file, checked)
            if wanted:
                report.records += [*program_records(found, checked), *walk_records(found, program, walks)]
            if needs_programs(options):
                report.programs.append((found, checked))
            tally.verdicts += [verdict for walk in walks for verdict in walk.refuted]
            sites += checked.sites
            advance()
    if options.reproduce is not None:
        write(options.reproduce, of_sites(sites, release), release, out)
    missing = len(given) - tally.programs
    if missing:
        tally.verdicts.append(Unknown(f"time: {limit.reason()}: {missing} programs not checked"))
        report.records.append(not_checked(missing, limit.reason()))
    summary(out, tally, why=limit.reason() if missing else "", programs=len(given))
    return finish(options, report, known, out) if wanted else Exit(status(tally.verdicts))


@contextmanager
def _progress(total: int, terminal: bool) -> Iterator[Callable[[], None]]:
    """A bar on a terminal when there is more than a moment's work; nothing in a pipe."""
    if not terminal or total < 20:
        yield lambda: None
        return
    with Progress(transient=True) as progress:
        task = progress.add_task("programs", total=total)
        yield lambda: progress.advance(task)
