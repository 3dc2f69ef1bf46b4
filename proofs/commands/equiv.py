"""Does AFTER mean what BEFORE means? BEFORE is a program as it was loaded, AFTER the same program as the kernel, or
`rewrite --format asm`, made of it; each is a BPF ELF object, a `bpftool prog dump xlated`, or assembly text.

Answers by composition: the two are walked in step, each rewritten map-helper call is held against the claims of its
kind, and everything else must be as it was. What other passes of the kernel changed is not understood: unknown. Where
something is not proved, both programs are run on the model's machine with inputs that are tried; an input on which
they differ is shown, made small. --symbolic asks a second way, which knows nothing of the first: both programs run
over symbols, all paths at once, for small programs.
"""

import argparse

from model.rewrite.config import Config
from proofs.claims import Claims
from proofs.commands.inputs import add_selection, assumptions, selected
from proofs.commands.options import abi, add_kernel, kernel, positive_seconds
from proofs.equiv_input import couples, load
from proofs.equivalence import equivalent
from proofs.obligation import Verdict
from proofs.outcome import Exit, status
from proofs.report.equivalence import report, symbolic_report
from proofs.report.text import console
from proofs.site import Site
from proofs.solver import DEFAULT_TIMEOUT, Solver

SUMMARY = "check that two programs, before and after the rewrite, mean the same"
EXAMPLES = """\
exit status: 0 proved; 1 refuted; 2 bad usage or bad input; 3 not refuted, but unknown or unsupported.

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
        "--symbolic", action="store_true", help="also run both over symbols, to a bound (small programs)"
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
        "--reproduce", metavar="DIR", help="write programs that show each refuted call on a real kernel into DIR"
    )
    add_selection(parser)


def run(options: argparse.Namespace) -> int:
    release, chosen = kernel(options.kernel), abi(options.arch)
    config = Config(arch=chosen.name, unprivileged=options.unprivileged)
    before, after = load(options.before, release, options.maps), load(options.after, release, options.maps)
    programs = list(selected(before.found, options))
    pairs = [
        (couple, assumptions(options.assume, couple.before, release))
        for couple in couples(before, after, programs, options.program)
    ]
    solver = Solver(options.timeout)
    claims = Claims(release, chosen, solver)
    out, verdicts, sites = console(), list[Verdict](), list[Site]()
    for couple, assumed in pairs:
        answer = equivalent(couple.before, couple.after, claims, config, assumed, couple.relocs)
        report(out, answer, release, chosen, (options.before, options.after))
        verdicts.append(answer.verdict)
        sites += answer.sites
        if options.symbolic:
            from proofs.whole import check as check_whole

            second = check_whole(answer, release, chosen, solver, couple.relocs)
            symbolic_report(out, answer, second)
            verdicts.append(second.verdict)
    if options.reproduce is not None:
        from proofs.reproduce import of_sites, write

        write(options.reproduce, of_sites(sites, release), release, out)
    return Exit(status(verdicts))
