"""Does AFTER mean what BEFORE means? BEFORE is a program as it was loaded, AFTER the same program as the kernel, or
`rewrite --format asm`, made of it, or any other program; each is a BPF ELF object, a `bpftool prog dump xlated`, or
assembly text.

Answers by composition: the two are walked in step, each rewritten map-helper call is held against the claims of its
kind, and everything else must be as it was. Where something is not proved, both programs are run on the model's
machine with inputs that are tried; an input on which they differ is shown, made small. Where that is no answer either,
both programs are run over symbols, all paths at once to a bound: r0, the context, other memory and what the kernel
sees must be the same. Both are taken to be programs that the verifier accepts. --symbolic asks for that run also where
the first way has an answer.
"""

import argparse
from collections.abc import Sequence

from model.facts import Assumption
from model.rewrite.config import Config
from proofs.claims import Claims
from proofs.commands.inputs import add_selection, assumptions, selected
from proofs.commands.options import abi, add_kernel, kernel, positive_seconds
from proofs.commands.output import add_output, entries, finish, text_out
from proofs.equiv_input import Couple, couples, load
from proofs.equivalence import Equivalence, equivalent
from proofs.limit import Limit, interruptible
from proofs.obligation import Unknown
from proofs.report.equivalence import report
from proofs.report.record import Report, pair_record, setting
from proofs.site import Site
from proofs.solver import DEFAULT_TIMEOUT, Solver
from proofs.whole import decide

TIME_LIMIT = 60.0
SUMMARY = "check that two programs, before and after the rewrite, mean the same"
EXAMPLES = """\
exit status: 0 proved; 1 refuted; 2 bad usage or bad input; 3 not refuted, but unknown or unsupported; 130 interrupted.

examples:
  python -m proofs rewrite prog.bpf.o --format asm > after.txt
  python -m proofs equiv prog.bpf.o after.txt               the model's own rewrite
  bpftool prog dump xlated id 7 > after.txt; bpftool map show -j > maps.json
  python -m proofs equiv prog.bpf.o after.txt --maps maps.json --kernel 6.12
  python -m proofs equiv a.asm b.asm --symbolic             also all paths at once (small programs)
  python -m proofs equiv a.asm b.asm --kernel 6.1 --reproduce out/
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("before", metavar="BEFORE", help="the program as it was loaded")
    parser.add_argument("after", metavar="AFTER", help="the program as it runs")
    add_kernel(parser)
    parser.add_argument(
        "--symbolic", action="store_true", help="run both over symbols also where the first way has an answer"
    )
    parser.add_argument("--unprivileged", action="store_true", help="as loaded without CAP_PERFMON/CAP_SYS_ADMIN")
    parser.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=positive_seconds,
        default=DEFAULT_TIMEOUT,
        help=f"the solver's limit for one obligation (default: {DEFAULT_TIMEOUT:g})",
    )
    parser.add_argument(
        "--time-limit",
        metavar="SECONDS",
        type=positive_seconds,
        default=TIME_LIMIT,
        help=f"of the whole run; what is not decided by then is unknown (default: {TIME_LIMIT:g})",
    )
    parser.add_argument(
        "--reproduce", metavar="DIR", help="write programs that show each refuted call on a real kernel into DIR"
    )
    add_output(parser)
    add_selection(parser)


def run(options: argparse.Namespace) -> int:
    limit = Limit(options.time_limit)
    with interruptible(limit):
        status = _run(options, limit)
    return 130 if limit.interrupted else status


def _run(options: argparse.Namespace, limit: Limit) -> int:
    release, chosen = kernel(options.kernel), abi(options.arch)
    known = entries(options)
    config = Config(arch=chosen.name, unprivileged=options.unprivileged)
    before, after = load(options.before, release, options.maps), load(options.after, release, options.maps)
    programs = list(selected(before.found, options))
    pairs = [
        (couple, assumptions(options.assume, couple.before, release))
        for couple in couples(before, after, programs, options.program)
    ]
    claims = Claims(release, chosen, Solver(options.timeout, limit))
    out, made, sites = text_out(options), Report(setting("equiv", [release], [chosen])), list[Site]()
    for couple, assumed in pairs:
        first = _first(couple, claims, config, assumed, limit)
        answer = decide(first, claims, couple.relocs, limit, options.timeout, always=options.symbolic)
        report(out, answer, release, chosen, (options.before, options.after))
        made.records.append(pair_record(answer, (options.before, options.after)))
        sites += answer.first.sites
    if options.reproduce is not None:
        from proofs.reproduce import of_sites, write

        write(options.reproduce, of_sites(sites, release), release, out)
    return finish(options, made, known, out)


def _first(couple: Couple, claims: Claims, config: Config, assumed: Sequence[Assumption], limit: Limit) -> Equivalence:
    """The first way's answer; nothing is known of a pair whose turn does not come."""
    if not limit.over:
        return equivalent(couple.before, couple.after, claims, config, assumed, couple.relocs, limit)
    return Equivalence(couple.before, couple.after, Unknown(limit.reason()))
