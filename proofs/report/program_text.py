"""What `check FILE` prints: each program's sites, its Direct verdict, what is left, and the summary of all files."""

from collections import Counter
from dataclasses import dataclass, field

from rich.console import Console
from rich.table import Table
from rich.text import Text

from model.kernel.abi import Abi
from model.kernel.release import Release
from model.program import Object
from proofs.cfg import Edge
from proofs.check_program import Checked
from proofs.obligation import Refuted, Verdict
from proofs.outcome import why, word, worst
from proofs.report.evidence import HEAD, counted, timed
from proofs.report.listing import line
from proofs.report.text import STYLES, clean, put, refutation
from proofs.site import Site, described
from proofs.solver import Result

LISTED = 40  # residual branches of one kind that are named one by one


@dataclass(slots=True)
class Tally:
    """Counts over all programs: verdicts for the exit status, sites by (helper, map type, outcome)."""

    verdicts: list[Verdict] = field(default_factory=list)
    sites: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    programs: int = 0
    files: set[str] = field(default_factory=set)

    def add(self, file: str, checked: Checked) -> None:
        self.files.add(file)
        self.programs += 1
        self.verdicts += checked.verdicts()
        for site in checked.sites:
            self.sites[site.helper, ", ".join(sorted(site.types)) or "?", outcome(site)] += 1


def outcome(site: Site) -> str:
    """The summary's column: direct, inlined, missed, necessary, may stay, dead, unclear."""
    if site.decision in ("direct", "inlined", "dead", "may stay"):
        return site.decision
    return site.leftover.kind.value if site.leftover is not None else "unclear"


def file_head(out: Console, found: Object, release: Release, abi: Abi) -> None:
    out.print(
        f"{clean(found.file)}: as Linux {release.version} ({release.name}), {abi.name}", markup=False, soft_wrap=True
    )
    for note in found.notes:
        out.print(f"  note: {clean(note)}", markup=False, soft_wrap=True)


def program_report(out: Console, checked: Checked, *, verbose: bool) -> None:
    program = checked.program
    where = f" in {clean(program.section)}" if program.section else ""
    size = plural(len(program.insns), "instruction")
    count = plural(len(checked.sites), "map-helper call site")
    out.print(
        f"\n{clean(program.name)}{where}: {size}, {count}",
        markup=False,
        soft_wrap=True,
    )
    for note in program.notes:
        out.print(f"  note: {clean(note)}", markup=False, soft_wrap=True)
    if checked.hole:
        out.print(f"  unsupported: {clean(checked.hole)}", markup=False, soft_wrap=True)
        return
    if checked.sites:
        put(out, _sites(checked))
    for site in checked.sites:
        _open_ends(out, checked, site)
    for layout in dict.fromkeys(site.reason for site in checked.sites if site.decision == "inlined" and site.reason):
        out.print(f"  inlined lookups: {clean(layout)}", markup=False, soft_wrap=True)
    _patching(out, checked)
    _direct(out, checked)
    if verbose:
        _obligations(out, checked)


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _sites(checked: Checked) -> Table:
    table = Table(box=None, pad_edge=False, show_header=True, padding=(0, 2, 0, 0))
    for column in ("  at", "helper", "map", "decision", "verdict"):
        table.add_column(column, no_wrap=True)
    for site in checked.sites:
        maps = ", ".join(described(pointer) for pointer in site.maps) or "not shown"
        decided = site.decision
        if site.function and site.decision in ("direct", "inlined"):
            decided += f" {site.function}"
        verdict = word(site.verdict)
        if site.decision == "stays" and site.leftover is not None and verdict == "proved":
            verdict = site.leftover.kind.value  # the call is unchanged: what matters is why its dispatch is left
        at = f"  {checked.program.base + site.slot}"
        table.add_row(
            at, site.helper, Text(clean(maps)), Text(clean(decided)), Text(verdict, style=STYLES.get(verdict, ""))
        )
    return table


def _open_ends(out: Console, checked: Checked, site: Site) -> None:
    """Lines under the table: why a site stays, what is refuted, what is open, and the source line."""
    at = checked.program.base + site.slot
    told: list[str] = []
    if site.leftover is not None:
        told.append(f"{site.decision}: {site.reason}")
        if site.leftover.reason != site.reason:
            told.append(f"{site.leftover.kind.value}: {site.leftover.reason}")
    elif site.decision not in ("direct", "inlined"):
        told.append(f"{site.decision}: {site.reason}")
    if why(site.verdict) and not any(why(site.verdict) in text for text in told):
        told.append(f"{word(site.verdict)}: {why(site.verdict)}")
    told = list(dict.fromkeys(told))
    broken = [result for result in site.results if isinstance(result.verdict, Refuted)]
    told += [*refutation(broken[0]), *_versions(checked, site)] if broken else []
    told += [f"also refuted: {result.obligation.name}" for result in broken[1:]]
    if not told:
        return
    found = site.line
    source = f" ({found.file}:{found.line}: {found.text.strip()})" if found is not None and found.line else ""
    out.print(f"  {at}{clean(source)}", markup=False, soft_wrap=True)
    for text in told:
        out.print(f"    {clean(text)}", markup=False, soft_wrap=True)


def _versions(checked: Checked, site: Site) -> list[str]:
    """The call's lines before the rewrite and after it; nothing of a program that is as the kernel runs it."""
    done = checked.rewritten
    if done is None:
        return []
    names = {done.before.insns[site.slot].imm: site.helper}
    places = range(done.moved[site.slot], done.moved[site.slot + 1])
    after = [line(done.after, place, {}, done.relocs.get(place)) for place in places]
    return [f"  before {line(done.before, site.slot, names)}", *(f"  after  {text}" for text in after)]


def _patching(out: Console, checked: Checked) -> None:
    if not checked.patching:
        out.print("  Patching: nothing to compare (the input is as the kernel runs it)", markup=False)
        return
    verdict = worst(checked.patching.values())
    out.print(f"  Patching: {word(verdict)}", markup=False)
    for part, found in checked.patching.items():
        if isinstance(found, Refuted):
            values = ", ".join(str(shown) for shown in found.counterexample.shown)
            out.print(f"    refuted {part}: {clean(values)}", markup=False, soft_wrap=True)


def _direct(out: Console, checked: Checked) -> None:
    direct = checked.direct
    if direct is None:
        return
    kinds = Counter(outcome(site) for site in direct.residual)
    residual = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    text = f"  Direct: {word(direct.verdict)}"
    text += f"; residual dispatches: {residual}" if residual else "; no residual dispatch"
    if why(direct.verdict):
        text += f" ({why(direct.verdict)})"
    out.print(clean(text), markup=False, soft_wrap=True)
    for other in direct.others[:LISTED]:
        where = " in the callee" if other.edge is Edge.CALLBACK else ""
        line = f"    residual indirect branch{where} ({other.edge.value}): {other.source} -> {other.target}"
        out.print(clean(line), markup=False, soft_wrap=True)
    if len(direct.others) > LISTED:
        out.print(f"    … and {len(direct.others) - LISTED} more", markup=False)


def _obligations(out: Console, checked: Checked) -> None:
    by_name: dict[str, Result] = {}
    for site in checked.sites:
        more = site.leftover.results if site.leftover is not None else ()
        for result in (*site.results, *more):
            by_name.setdefault(result.obligation.name, result)
    results = list(by_name.values())
    for told in (HEAD, *map(timed, results), str(counted(results))) if results else ():
        out.print(f"  {told}", markup=False, soft_wrap=True)


def summary(out: Console, tally: Tally, *, why: str, programs: int) -> None:
    """Sites by helper, map type and outcome; then one line of verdicts. `why` says what ended the run too early."""
    columns = ("direct", "inlined", "missed", "necessary", "may stay", "unclear", "dead")
    used = [
        c for c in columns if c in ("direct", "inlined", "missed", "necessary") or any(k[2] == c for k in tally.sites)
    ]
    out.print()
    if tally.sites:
        table = Table(box=None, pad_edge=False)
        for column in ("helper", "map type"):
            table.add_column(column, no_wrap=True)
        for column in used:
            table.add_column(column, justify="right", no_wrap=True)
        for helper, types in sorted({key[:2] for key in tally.sites}):
            table.add_row(helper, types, *[str(tally.sites[helper, types, column]) for column in used])
        totals = Counter[str]()
        for (_, _, column), count in tally.sites.items():
            totals[column] += count
        table.add_row("all", "", *[str(totals[column]) for column in used])
        put(out, table)
    verdicts = Counter(word(verdict) for verdict in tally.verdicts)
    counted = ", ".join(f"{verdicts[name]} {name}" for name in ("proved", "refuted", "unknown", "unsupported"))
    missing = f" ({why}: {plural(programs - tally.programs, 'program')} not checked)" if why else ""
    sites = plural(sum(tally.sites.values()), "site")
    line = f"{plural(tally.programs, 'program')} in {plural(len(tally.files), 'file')}, {sites}: {counted}{missing}"
    out.print(line, markup=False, soft_wrap=True)
