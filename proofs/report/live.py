"""What `live` prints: of each program its sites, what other passes did, and the verdict; of each file the counts."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from proofs.live_check import Answer
from proofs.live_compare import Comparison
from proofs.live_sites import LiveSite, counts
from proofs.obligation import Proved, Refuted
from proofs.outcome import why, word
from proofs.report.listing import helper_names, line
from proofs.report.program_text import plural
from proofs.report.text import refutation

AGREES = {True: "agrees", False: "DIFFERS", None: "left open by the model"}
ORDER = ("agree", "differ", "open", "removed")
LISTED = 20
"""Instructions that a listing shows at most."""


@dataclass(slots=True)
class Tally:
    """Counts of one file, or of all."""

    programs: Counter[str] = field(default_factory=Counter)
    sites: Counter[str] = field(default_factory=Counter)
    rows: Counter[str] = field(default_factory=Counter)
    strange: int = 0

    def add(self, answer: Answer) -> None:
        verdict = answer.verdict
        self.programs["refused" if verdict is None else word(verdict)] += 1
        self.sites.update(counts(answer.sites))
        if answer.comparison is not None:
            self.rows.update(rows(answer.comparison))
            self.strange += len(answer.comparison.strange)

    def lines(self, what: str) -> Iterator[str]:
        done = sum(self.programs.values())
        verdicts = [f"{self.programs[one]} {one}" for one in ("proved", "refuted", "unknown", "unsupported")]
        yield f"{what}: {plural(done, 'program')}: {', '.join(verdicts)}; {self.programs['refused']} not loaded"
        told = ", ".join(f"{self.sites[one]} {one}" for one in ORDER)
        yield f"  map-helper calls, kernel against model: {told}"
        if self.rows:
            yield f"  other passes: {', '.join(f'{count} {name}' for name, count in sorted(self.rows.items()))}"
        if self.strange:
            yield f"  not understood: {plural(self.strange, 'change')}"


def rows(found: Comparison) -> Counter[str]:
    """Changes of other passes, by their names."""
    names = [change.row.name for change in found.changes] + [gone.row.name for gone in found.removed.values()]
    names += [front.change.row.name for front in found.fronts.values()]
    return Counter([*names, *(["default exception callback"] if found.tail else [])])


def lines(answer: Answer, *, verbose: bool) -> Iterator[str]:
    program = answer.program
    where = f" in {program.section}" if program.section else ""
    if answer.refused:
        yield f"{program.name}{where}: not loaded: {answer.refused}"
        return
    if answer.comparison is None:
        yield f"{program.name}{where}: unsupported: {answer.hole}"
        return
    found, verdict = answer.comparison, answer.verdict
    assert verdict is not None
    after = found.loaded.after
    yield (
        f"{program.name}{where}: {len(program.insns)} instructions, {len(after.insns)} as the kernel runs them; "
        f"{plural(len(answer.sites), 'map-helper call')}: {_counted(answer.sites)}"
    )
    for note in found.loaded.notes:
        yield f"  note: {note}"
    for site in answer.sites:
        if verbose or site.agrees is not True:
            yield from _site(answer, found, site)
    for strange in found.strange:
        yield f"  not understood at {program.base + strange.slot}: {strange.reason}"
        yield from _both(found, strange.slot, strange.place)
    yield f"  {word(verdict)}{': ' if why(verdict) else ''}{why(verdict)}"
    yield from _parts(answer, found, verbose=verbose)


def _counted(sites: Sequence[LiveSite]) -> str:
    table = counts(sites)
    return ", ".join(f"{table[one]} {one}" for one in ORDER if one in table) or "none"


def _site(answer: Answer, found: Comparison, site: LiveSite) -> Iterator[str]:
    told = "" if site.kernel.startswith("removed") else f": {AGREES[site.agrees]}"
    yield f"  {found.loaded.before.base + site.slot}: {site.helper}: model {site.model}; kernel {site.kernel}{told}"
    if site.agrees is False:
        yield "    as the model has it"
        yield from _model(answer, site)
        yield "    as the kernel has it"
        yield from (f"      {line(found.loaded.after, at, {})}" for at in site.place[:LISTED])


def _model(answer: Answer, site: LiveSite) -> Iterator[str]:
    done = answer.model
    if done is None:
        return
    for at in range(done.moved[site.slot], done.moved[site.slot + 1])[:LISTED]:
        yield f"      {line(done.after, at, {}, done.relocs.get(at))}"


def _both(found: Comparison, slot: int, place: range) -> Iterator[str]:
    yield f"    before  {line(found.loaded.before, slot, helper_names(found.release))}"
    for at in place[:LISTED]:
        yield f"    after   {line(found.loaded.after, at, {})}"


def _parts(answer: Answer, found: Comparison, *, verbose: bool) -> Iterator[str]:
    """Each other change by name, with its verdict; claims on sites that are not proved."""
    if answer.parts is None:
        return
    number = rows(found)
    for name, verdict in answer.parts.rows.items():
        if verbose or not isinstance(verdict, Proved):
            yield f"    {number[name]} {name}: {word(verdict)}{_reason(name, why(verdict))}"
    for site in answer.parts.sites:
        if not isinstance(site.verdict, Proved):
            at = found.loaded.before.base + site.slot
            yield f"    {at}: {site.helper}: {word(site.verdict)}: {why(site.verdict)}"
        for result in site.results:
            if isinstance(result.verdict, Refuted):
                yield from (f"      {text}" for text in refutation(result))
                break
    for name, verdict in answer.parts.structure.items():
        if verbose or not isinstance(verdict, Proved):
            yield f"    {name}: {word(verdict)}{_reason(name, why(verdict))}"


def _reason(name: str, reason: str) -> str:
    reason = reason.removeprefix(f"{name}: ")
    return f": {reason}" if reason else ""
