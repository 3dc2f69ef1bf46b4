"""Without FILE: every Dispatch claim of a release, for each map type and helper that the verifier accepts together.
With FILE: the map-helper call sites of each program in it, what the release does with each, and the verdicts.

FILE is a BPF ELF object, a `bpftool prog dump xlated` (text, or JSON from -j; with or without opcodes), or
assembly text in the kernel's syntax.
"""

import argparse
from time import perf_counter

from model.errors import InputError
from proofs.check_claims import FAMILIES
from proofs.check_claims import check as check_claims
from proofs.check_matrix import Square, of_cells, of_groups
from proofs.check_release import check as check_release
from proofs.commands.artefacts import add_artefacts, keep, ready
from proofs.commands.inputs import add_selection
from proofs.commands.options import abis, add_kernel, kernels, positive_seconds
from proofs.commands.output import add_output, entries, finish, text_out
from proofs.limit import Limit, interruptible
from proofs.report.record import Report, setting, square_records
from proofs.report.text import claims_report, console, release_report
from proofs.solver import DEFAULT_TIMEOUT, Solver

SUMMARY = "check a kernel release, or programs in files"
EXAMPLES = """\
examples:
  python -m proofs check                                 the newest release, x86-64
  python -m proofs check --kernel 6.1 --match 'dispatch/*/hash/*' --verbose
  python -m proofs check --kernel all --arch all         every release and ABI; refutations by cause
  python -m proofs check --kernel 6.12 prog.bpf.o        an object, as Linux 6.12 would rewrite it
  bpftool prog dump xlated id 7 > p.txt; bpftool map show -j > m.json
  python -m proofs check --maps m.json p.txt             a program as the kernel runs it
  python -m proofs check --kernel 6.1 --reproduce out/   programs that show each refutation
  python -m proofs check --tree linux --against 6.12     what a patched tree changes: a gate
  python -m proofs check --assume 142:r4=array part.txt  a fragment whose map in r4 is not shown
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", metavar="FILE", nargs="*", help="BPF object, bpftool dump, or assembly text")
    add_kernel(parser, several=True)
    parser.add_argument(
        "--match", metavar="GLOB", help="only obligations whose name, or a path that it begins with, fits GLOB"
    )
    parser.add_argument(
        "--claim",
        choices=("dispatch", *FAMILIES, "all"),
        help="which claims of the release (default: dispatch; with --tree all)",
    )
    parser.add_argument(
        "--verbose", action="store_true", help="each obligation: the solver's time in ms, why it is not vacuous"
    )
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
        help="of the whole run; what is not decided by then is unknown (default: none)",
    )
    parser.add_argument(
        "--reproduce", metavar="DIR", help="write programs that show each refuted claim on a real kernel"
    )
    add_output(parser)
    add_artefacts(parser)
    tree = parser.add_argument_group("a kernel tree")
    tree.add_argument("--tree", metavar="TREE", help="what a kernel source tree changes in the verdicts (all claims)")
    tree.add_argument(
        "--against", metavar="RELEASE", help="a release, or a release file (default: the nearest; one may be missing)"
    )
    files = parser.add_argument_group("with FILE")
    add_selection(files)
    files.add_argument("--unprivileged", action="store_true", help="as loaded without CAP_PERFMON/CAP_SYS_ADMIN")
    files.add_argument(
        "--callbacks", action="store_true", help="also the walks of for_each with the program's own callbacks"
    )
    files.add_argument("--no-jit", action="store_true", help="as loaded with net.core.bpf_jit_enable=0")


def run(options: argparse.Namespace) -> int:
    limit = Limit(options.time_limit)
    with interruptible(limit):
        status = _run(options, limit)
    return 130 if limit.interrupted else status


def _run(options: argparse.Namespace, limit: Limit) -> int:
    if options.against is not None and options.tree is None:
        raise InputError("--against", "", "expected --tree TREE with it")
    ready(options)
    if options.tree is not None:
        from proofs.commands.check_tree import run as run_tree

        return run_tree(options, limit)
    options.claim = options.claim or "dispatch"
    if options.files:
        from proofs.commands.check_files import run as run_files

        return run_files(options, limit)
    given = [
        name
        for name in ("maps", "section", "program", "assume", "unprivileged", "no_jit", "callbacks")
        if getattr(options, name)
    ]
    if given:
        raise InputError(f"--{given[0].replace('_', '-')}", "", "expected a FILE to check with it")
    releases, chosens = kernels(options.kernel), abis(options.arch)
    if len(releases) * len(chosens) > 1:
        from proofs.commands.check_matrix import run as run_matrix

        return run_matrix(options, releases, chosens, limit)
    release, chosen = releases[0], chosens[0]
    known, out = entries(options), text_out(options)
    solver = Solver(options.timeout, limit)
    report = Report(setting("check", [release], [chosen]))
    squares: list[Square] = []
    for family in ("dispatch", *FAMILIES) if options.claim == "all" else (options.claim,):
        started = perf_counter()
        if family == "dispatch":
            cells = list(check_release(release, chosen, solver, options.match))
            square = Square(release, chosen, tuple(of_cells(release, chosen, cells)))
            if square.entries:
                seconds = perf_counter() - started
                release_report(out, release, chosen, cells, verbose=options.verbose, seconds=seconds)
        else:
            groups = list(check_claims(family, release, chosen, solver, options.match))
            square = Square(release, chosen, tuple(of_groups(family, groups)))
            if square.entries:
                seconds = perf_counter() - started
                claims_report(out, release, chosen, family, groups, verbose=options.verbose, seconds=seconds)
        squares.append(square)
        report.records += square_records(family, [square])
    if not report.records:
        raise InputError("--match", str(options.match), "expected a glob that fits an obligation (see --verbose)")
    if options.reproduce is not None:
        from proofs.reproduce import write_all

        results = [result for square in squares for entry in square.entries for result in entry.results]
        write_all(options.reproduce, results, release, console())
    keep(options, squares, solver)
    return finish(options, report, known, out)
