"""A campaign as it goes: a table on a terminal, a plain line now and then in a pipe, a summary at the end."""

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from gen.campaign import Tally
from proofs.report.text import clean, put, short

EVERY = 10.0
"""Seconds between two lines in a pipe."""
SHOWN = 5
"""Failures that a summary shows."""
COLUMNS = ("direct", "inlined", "stays", "other")


def coverage(found: Tally) -> Table:
    """Sites by map type × helper × what became of the call."""
    table = Table(box=None, pad_edge=False)
    table.add_column("map type × helper", no_wrap=True)
    for column in COLUMNS:
        table.add_column(column, justify="right")
    rows: dict[str, Counter[str]] = {}
    for (types, helper, kind), count in found.sites.items():
        rows.setdefault(f"{types} {short(helper)}", Counter())[kind if kind in COLUMNS else "other"] += count
    for name in sorted(rows):
        table.add_row(clean(name), *(str(rows[name][column] or "-") for column in COLUMNS))
    return table


def line(found: Tally, seconds: float) -> str:
    refused = sum(found.refused.values())
    rate = found.programs / seconds if seconds > 0 else 0.0
    return (
        f"{found.programs} programs, {rate:.0f}/s, {refused} refused, {len(found.sites)} kinds of site, "
        f"{found.failed} failures, {seconds:.0f} s"
    )


@contextmanager
def progress(out: Console, started: float) -> Iterator[Callable[[Tally], None]]:
    """Tell it the tally whenever it has grown."""
    if out.is_terminal:
        with Live(console=out, refresh_per_second=4, transient=True) as live:
            yield lambda found: live.update(Group(Text(line(found, monotonic() - started)), coverage(found)))
        return
    last = started

    def tell(found: Tally) -> None:
        nonlocal last
        if monotonic() - last >= EVERY:
            last = monotonic()
            out.print(line(found, last - started), markup=False, soft_wrap=True)
            sys.stdout.flush()

    yield tell


def summary(out: Console, found: Tally, seconds: float) -> None:
    """Coverage, where the time went, what was refused and why, the failures, and the totals last."""
    put(out, coverage(found))
    out.print()
    spent = sum(found.seconds.values()) or 1.0
    shares = ", ".join(
        f"{name} {share / spent:.0%}" for name, share in sorted(found.seconds.items(), key=lambda one: -one[1])
    )
    out.print(f"time: {shares}", markup=False, soft_wrap=True)
    for name, count in sorted(found.judged.items()):
        out.print(f"{name}: judged {count} of {found.programs} ({count / max(1, found.programs):.1%})", markup=False)
    for (judge, reason), count in found.refused.most_common(12):
        out.print(f"  refused {count}: {judge}: {clean(reason)}", markup=False, soft_wrap=True)
    for name, failure in sorted(found.failures.items())[:SHOWN]:
        out.print(f"\nfailure {name}", markup=False)
        for part in failure.why.splitlines():
            out.print(f"  {clean(part)}", markup=False, soft_wrap=True)
        for part in failure.case.text.splitlines():
            out.print(f"    {clean(part)}", markup=False, soft_wrap=True)
    if len(found.failures) > SHOWN:
        out.print(f"\nand {len(found.failures) - SHOWN} more kinds (--corpus keeps them all)", markup=False)
    out.print(f"\n{line(found, seconds)}", markup=False, soft_wrap=True)
