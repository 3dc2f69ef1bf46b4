"""Boots a release's own kernel under QEMU's software emulation, and holds it against the model (x86-64).

Without FILE: a failing call for each Dispatch claim that one can show: r0 as the model predicts it, before the rewrite
and after it, beside what the kernel leaves without the JIT (which keeps the helper) and with it. With FILE: what the
kernel does with the programs of generated cases, assembly, or objects. Both: the instructions read back, site by site.

The image is a file (--image), or Debian's linux-image-RELEASE…-cloud-amd64, which apt fetches into the user's cache.
The guest has no network and no disk; QEMU needs no root. Needs qemu-system-x86_64 and a C compiler.
"""

import argparse
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter

from rich.console import Console
from rich.table import Table

from model.errors import InputError
from model.kernel.abi import ABIS
from model.kernel.release import Release
from model.loaders.vm import image
from model.loaders.vm.emulator import LIMIT, booted
from model.loaders.vm.guest import Guest
from model.loaders.vm.live import GuestLive
from proofs.check_release import check
from proofs.commands.options import kernel, positive_seconds
from proofs.outcome import Exit
from proofs.report.text import clean, console, put, short
from proofs.solver import Solver
from proofs.vm_claims import Claim, Ran, Shown, claims, ran, rewritten
from proofs.vm_kernel import about, named, switch
from proofs.vm_sites import Read, distances, read

SUMMARY = "a release's own kernel, emulated, held against the model"
EXAMPLES = """\
exit status: 0 the kernel does what the model predicts (also where a claim is refuted); 1 it does something else;
2 bad usage or bad input; 3 something could not be told or be had.

examples:
  python -m proofs vm --kernel 6.1                     what is refuted there, shown by a real 6.1
  python -m proofs vm --kernel 6.1 --match 'dispatch/*/hash/*'
  python -m proofs vm --kernel 6.12 case.asm prog.bpf.o
  python -m proofs vm --kernel 6.1 --image vmlinuz-6.1.0-57-cloud-amd64
"""
AGREES = {True: "yes", False: "NO", None: "not told"}


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", metavar="FILE", nargs="*", help="generated case, assembly text, or BPF object")
    parser.add_argument("--kernel", metavar="RELEASE", default="newest", help="a release in the data (see `list`)")
    parser.add_argument("--image", metavar="VMLINUZ", help="its kernel image (default: Debian's, fetched by apt)")
    parser.add_argument("--match", metavar="GLOB", help="without FILE: only claims whose name fits GLOB")
    parser.add_argument(
        "--limit",
        metavar="SECONDS",
        type=positive_seconds,
        default=LIMIT,
        help=f"for the guest, from its boot to its end (default: {LIMIT:g})",
    )


def run(options: argparse.Namespace) -> int:
    if options.kernel == "running":
        raise InputError("--kernel", "running", "expected a release to boot (`live` asks the running kernel)")
    if options.files and options.match:
        raise InputError("--match", options.match, "expected no FILE with it")
    release = kernel(options.kernel)
    if options.files:
        from proofs.commands.vm_files import read_all, run_all

        cases = read_all(options.files, release)
        with _guest(options, release) as guest:
            return run_all(guest, cases, release, console())
    found, without = claims(check(release, ABIS["x86_64"], Solver(), options.match), release, ABIS["x86_64"])
    if not found:
        raise InputError("--match", str(options.match), "expected a glob that fits a claim which a failing call shows")
    with _guest(options, release) as guest:
        shown = show(guest, found, release)
    return report(console(), shown, without)


@contextmanager
def _guest(options: argparse.Namespace, release: Release) -> Iterator[Guest]:
    path = image.given(options.image) if options.image else image.fetched(release.name)
    started = perf_counter()
    with _ended_in_order(), booted(path, options.limit) as guest:
        told = about(guest, release)
        text = (
            f"Linux {told.version} ({told.build}), booted in {perf_counter() - started:.1f} s; release {release.name}"
        )
        console().print(clean(text), markup=False, soft_wrap=True)
        yield guest


@contextmanager
def _ended_in_order() -> Iterator[None]:
    """SIGTERM is a way out as others are: what was made for the guest is removed."""

    def end(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def show(guest: Guest, found: Sequence[Claim], release: Release) -> list[Shown]:
    """Every program with the JIT and without, then the names of what they call."""
    types = {name: row.number for name, row in release.map_types.items()}
    runs: dict[bool, list[Ran]] = {}
    for jit in (True, False):
        switch(guest, jit=jit)
        runs[jit] = []
        for claim in found:
            with GuestLive(guest) as live:
                runs[jit].append(ran(live, claim.program, types))
    names = named(guest, set().union(*(distances(one.insns) for half in runs.values() for one in half)))
    shown = []
    for claim, with_jit, without in zip(found, runs[True], runs[False], strict=True):
        sites: list[Read] = []
        for one, jit in ((with_jit, True), (without, False)):
            if not one.refused:
                done = rewritten(claim.program, release, ABIS["x86_64"], jit=jit)
                sites += read(done, one.insns, release, names)
        shown.append(Shown(claim, with_jit, without, tuple(sites)))
    return shown


def report(out: Console, shown: Sequence[Shown], without: Sequence[str]) -> int:
    table = Table(box=None, pad_edge=False)
    for column in (
        "map type",
        "helper",
        "claim",
        "before: model",
        "kernel",
        "after: model",
        "kernel",
        "calls",
        "agrees",
    ):
        table.add_column(column, no_wrap=True)
    for one in shown:
        table.add_row(*row(one))
    put(out, table)
    for line in lines(shown, without):
        out.print(clean(line), markup=False, soft_wrap=True)
    agrees = {one.agrees for one in shown}
    return Exit.REFUTED if False in agrees else Exit.OPEN if None in agrees else Exit.PROVED


def row(one: Shown) -> tuple[str, ...]:
    claim = one.claim
    before = "not to be had" if one.before is None else f"0x{one.before:016x}"
    after = "refused" if one.jit.refused else f"0x{one.jit.direct:016x}"
    agreed = sum(site.agrees is True for site in one.sites)
    return (
        *(claim.case.map_type, short(claim.case.failing.helper), claim.verdict),
        *(f"0x{claim.before:016x}", before, f"0x{claim.after:016x}", after),
        *(f"{agreed} of {len(one.sites)}", AGREES[one.agrees]),
    )


def lines(shown: Sequence[Shown], without: Sequence[str]) -> Iterator[str]:
    """Reasons, differences, and the counts."""
    reasons: dict[str, list[str]] = {}
    for one in shown:
        name = f"{one.claim.case.map_type} {short(one.claim.case.failing.helper)}"
        for ran_, what in ((one.jit, "with the JIT"), (one.plain, "without the JIT")):
            if ran_.refused:
                reasons.setdefault(f"refused {what}: {ran_.refused}", []).append(name)
        for site in one.sites:
            if site.agrees is not True:
                yield f"{name}: slot {site.slot}: {site.helper}: model {site.expected}, kernel {site.found}"
    for reason, names in reasons.items():
        yield f"{reason} ({', '.join(names)})"
    refuted = [name.partition(":")[0] for name in without if name.endswith(": refuted")]
    if refuted:
        yield f"refuted, and no call is known that shows it: {', '.join(refuted)}"
    agreed = sum(one.agrees is True for one in shown)
    wrong = [one for one in shown if one.claim.verdict == "refuted" and one.agrees]
    half = sum(one.before is None for one in wrong)
    partly = f", {half} of them after the rewrite only" if half else ""
    yield f"{len(shown)} programs: {agreed} agree; {len(wrong)} refuted claims are shown by this kernel{partly}"
