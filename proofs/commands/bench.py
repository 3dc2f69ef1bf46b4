"""The published benchmark on the running kernel (root): what a call costs before the rewrite and after it.

Each helper is called on the same map in two programs of the same instructions; in one of them the call is poisoned by
a second map that never reaches it, so that the kernel leaves the dispatch. Programs are loaded and test-run, nothing is
attached. Times are the thread's CPU time, the forms run in turn; a ratio belongs to two neighbours in time.
"""

import argparse
import os
import platform
import re
import sys
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

from gen.timing import Case, Measured, chosen, measure
from model.errors import InputError
from model.kernel.data import load_release
from model.loaders.kernel_symbols import read_symbols
from model.loaders.live import Live, Refused, why_not
from proofs.outcome import Exit
from proofs.report.text import console, put

SUMMARY = "measure the helpers on the running kernel, direct against indirect"
EXAMPLES = """\
examples:
  python -m proofs bench                          all of them, a few seconds each
  python -m proofs bench --match 'map_update*'    some
  python -m proofs bench --rounds 501             for a quieter median
"""
STATE = (
    ("spectre_v2", "/sys/devices/system/cpu/vulnerabilities/spectre_v2"),
    ("retbleed", "/sys/devices/system/cpu/vulnerabilities/retbleed"),
    ("bpf_jit_enable", "/proc/sys/net/core/bpf_jit_enable"),
    ("bpf_jit_harden", "/proc/sys/net/core/bpf_jit_harden"),
)


def rounds(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,6}", text) or not 3 <= int(text) <= 100_000:
        raise argparse.ArgumentTypeError(f"expected a number of rounds, 3 to 100000, not {text!r}")
    return int(text)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--match", metavar="GLOB", default="*", help="only these helpers (or 'HELPER TYPE')")
    parser.add_argument("--rounds", metavar="N", type=rounds, default=101, help="pairs of measurements (default: 101)")


def run(options: argparse.Namespace) -> int:
    cases = chosen(options.match, fnmatchcase)
    reason = why_not()
    if reason is not None:
        raise InputError("bench", "", reason)
    out = console()
    out.print(f"Linux {platform.release()}, {platform.machine()}, {model_name()}", markup=False)
    for name, path in STATE:
        out.print(f"  {name}: {line(Path(path))}", markup=False)
    done: list[Measured] = []
    table = Table(box=None, pad_edge=False)
    for column in ("helper and map type", "after", "before / after ns", "ratio", "quartiles", "published"):
        table.add_column(column, no_wrap=True)
    try:
        for case, found in track(
            _measured(cases, options.rounds),
            "cases",
            total=len(cases),
            console=Console(stderr=True),
            transient=True,
            disable=not sys.stderr.isatty(),
        ):
            table.add_row(*row(case, found))
            if isinstance(found, Measured):
                done.append(found)
    except KeyboardInterrupt:
        put(out, table)
        out.print(f"interrupted: {len(done)} of {len(cases)} measured", markup=False)
        return Exit.OPEN
    put(out, table)
    out.print(
        "\nbefore: through map->ops; after: as the kernel rewrote it. Medians of thread CPU time a call, without what "
        "the program around costs;\nthe ratio is the median of the ratios of pairs measured side by side. Absolute "
        "times of a shared machine are noise.",
        markup=False,
    )
    return Exit.PROVED if len(done) == len(cases) and all(found.removed for found in done) else Exit.OPEN


def _measured(cases: list[Case], count: int) -> Iterator[tuple[Case, Measured | str]]:
    release = load_release("newest")
    types = {name: row.number for name, row in release.map_types.items()}
    for case in cases:
        with Live() as live:
            try:
                yield case, measure(live, case, count, release.helper_ids, types) or "too short to be measured"
            except Refused as refused:
                yield case, str(refused).splitlines()[0]


def row(case: Case, found: Measured | str) -> tuple[str, ...]:
    if isinstance(found, str):
        return (case.name, "-", "-", "-", found, case.published or "-")
    low, middle, high = found.quartiles
    after = "still the helper" if not found.removed else "inlined" if found.target is None else callee(found.target)
    times = f"{found.before:7.1f} / {found.after:.1f}"
    return (case.name, after, times, f"{middle:.2f}x", f"{low:.2f} to {high:.2f}", case.published or "-")


def callee(imm: int) -> str:
    """The name of __bpf_call_base + imm, where /proc/kallsyms shows addresses."""
    try:
        symbols = read_symbols(Path("/proc/kallsyms"))
    except InputError:
        return "direct"
    names = [name for base in symbols.places("__bpf_call_base") for name in symbols.names(base + imm)]
    return names[0] if names else "direct"


def line(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()[:160] or "empty"
    except OSError as error:
        return f"not readable ({os.strerror(error.errno or 0)})"


def model_name() -> str:
    found = re.search(r"model name\s*:\s*(.+)", line_of("/proc/cpuinfo"))
    return found[1].strip() if found else "processor not named"


def line_of(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")[:65536]
    except OSError:
        return ""
