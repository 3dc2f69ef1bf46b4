"""A fuzzing campaign: generated programs, before the rewrite and after it, in front of judges.

model: both sides on the model's machine, with the same maps and inputs. smt: what is proved of the program, against
those runs. kernel: the running kernel loads the program and runs it (root; load, read and test-run only), against the
machine. A failure is made small and kept; the same seed and shards are the same programs.
"""

import argparse
import os
import re
import secrets
from collections.abc import Generator
from contextlib import closing
from fnmatch import fnmatchcase
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from model.errors import InputError
from proofs.commands.options import abi, add_kernel, kernel
from proofs.outcome import Exit
from proofs.report.text import console

if TYPE_CHECKING:
    from gen.campaign import Plan, Tally
    from gen.corpus import Corpus
    from gen.programs import Calls

SUMMARY = "a campaign of generated programs before judges"
EXAMPLES = """\
exit status: 0 nothing failed; 1 a failure; 2 bad usage or bad input; 3 nothing could be judged; 130 interrupted.

examples:
  python -m proofs fuzz --programs 1000
  python -m proofs fuzz --time 10m --jobs 2 --corpus out/          goes on where it was when it is started again
  python -m proofs fuzz --kernel 6.1 --match 'hash/*'              finds the int results
  python -m proofs fuzz --kernel running --judge model,kernel      the running kernel as judge (root)
  python -m proofs fuzz --time 1h --cluster tcp://host:8786        on a Dask cluster (the extra `cluster`)
"""
DEFAULT = 1000
UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


def duration(text: str) -> float:
    found = re.fullmatch(r"(\d{1,7}(?:\.\d{1,3})?)([smh]?)", text)
    if found is None or not 0 < float(found[1]) * UNITS[found[2]] <= 30 * 86400:
        raise argparse.ArgumentTypeError(f"expected a time as 90s, 10m or 1.5h, not {text!r}")
    return float(found[1]) * UNITS[found[2]]


def number(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,19}", text):
        raise argparse.ArgumentTypeError(f"expected a number, not {text!r}")
    return int(text)


def positive(text: str) -> int:
    if not number(text):
        raise argparse.ArgumentTypeError("expected a number above 0")
    return int(text)


def arguments(parser: argparse.ArgumentParser) -> None:
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--time", metavar="TIME", type=duration, help="how long: 90s, 10m, 2h")
    length.add_argument("--programs", metavar="N", type=positive, help=f"how many (default: {DEFAULT})")
    parser.add_argument("--seed", metavar="N", type=number, help="which programs (default: drawn, and printed)")
    parser.add_argument("--jobs", metavar="N", type=positive, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--judge", metavar="NAMES", default="model", help="of model, smt, kernel (default: model)")
    parser.add_argument(
        "--corpus", metavar="DIR", help="where failures and interesting programs are kept, and read from"
    )
    parser.add_argument("--match", metavar="GLOB", help="only calls that fit TYPE/HELPER, or TYPE")
    parser.add_argument("--cluster", metavar="ADDRESS", help="a Dask scheduler's, or local:N")
    add_kernel(parser)


def run(options: argparse.Namespace) -> int:
    from gen.campaign import Plan, Tally
    from gen.corpus import Corpus
    from proofs.commands.campaign_judges import judges
    from proofs.commands.campaign_report import progress, summary

    release, chosen = kernel(options.kernel), abi(options.arch)
    corpus = None if options.corpus is None else Corpus(Path(options.corpus))
    before = corpus.where() if corpus is not None else None
    seed, first = _start(options.seed, before)
    plan = Plan(seed, judges(options.judge, release, chosen), _calls(options.match))
    out, started, found = console(), monotonic(), Tally()
    out.print(f"seed {seed}, shard {first}, Linux {release.version} ({release.name}), {chosen.name}", markup=False)
    interrupted = False
    notes = (f"seed {seed}, Linux {release.name}, {chosen.name}",)
    try:
        _again(plan, corpus, found)
        with progress(out, started) as tell, closing(_shards(plan, options, first, started)) as shards:
            for more in shards:
                found.add(more)
                if corpus is not None:
                    corpus.keep(more, notes)
                    corpus.go_on(seed, _following(first, found.shards))
                tell(found)
    except KeyboardInterrupt:
        interrupted = True
    summary(out, found, monotonic() - started)
    if interrupted:
        out.print("interrupted", markup=False)
    if found.failures:
        return Exit.REFUTED
    return 130 if interrupted else Exit.PROVED if sum(found.judged.values()) else Exit.OPEN


def _start(asked: int | None, before: tuple[int, int] | None) -> tuple[int, int]:
    """The seed and the first shard: a corpus's campaign goes on unless another seed is asked for."""
    if before is not None and asked in (None, before[0]):
        return before
    return (secrets.randbelow(1 << 32) if asked is None else asked), 0


def _following(first: int, done: list[int]) -> int:
    """The first shard that is not done: those behind it may be run again."""
    seen = set(done)
    while first in seen:
        first += 1
    return first


def _calls(pattern: str | None) -> "Calls":
    from gen.programs import EVERY

    if pattern is None:
        return EVERY
    found = {}
    for kind, helpers in EVERY.items():
        fit = tuple(h for h in helpers if fnmatchcase(f"{kind}/{h}", pattern) or fnmatchcase(kind, pattern))
        if fit:
            found[kind] = fit
    if not found:
        raise InputError("--match", pattern[:80], f"expected TYPE/HELPER, with a type of {', '.join(EVERY)}")
    return found


def _again(plan: "Plan", corpus: "Corpus | None", found: "Tally") -> None:
    """The failures that the corpus holds, judged again: those that still fail are failures of this campaign."""
    from gen.campaign import Failure

    if corpus is None:
        return
    bound = {judge.name: judge.bind() for judge in plan.judges}
    for _, case in corpus.failures():
        for name, judge in bound.items():
            seen = judge(case)
            if seen.failure:
                found.fail(Failure(name, seen.failure, case, seen.sites))
                found.failed += 1
                break


def _shards(plan: "Plan", options: argparse.Namespace, first: int, started: float) -> "Generator[Tally]":
    from dataclasses import replace

    from gen.workers import cluster, here, processes

    until = None if options.time is None else started + options.time
    wanted = None if options.time is not None else options.programs or DEFAULT
    shards = None if wanted is None else -(-wanted // plan.size)
    if wanted is not None and shards is not None:
        plan = replace(plan, size=-(-wanted // shards))
    if options.cluster is not None:
        return cluster(plan, options.cluster, first, shards, until)
    if options.jobs == 1 or shards == 1:
        return here(plan, first, shards, until)
    return processes(plan, options.jobs, first, shards, until)
