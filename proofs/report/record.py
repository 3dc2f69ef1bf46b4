"""Verdicts as records: what every format but the text for people is made of.

A record is one claim on a release, or one call site or whole-program claim of a program. Its name is a path that sorts
and greps, unique in a report. Reports hold no times unless asked, so that two runs can be compared.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from model.kernel.abi import Abi
from model.kernel.release import Release
from model.program import Line, Object, Program
from proofs.callbacks import Walked
from proofs.check_matrix import Entry, Square
from proofs.check_program import Checked, lines_of
from proofs.obligation import Proved, Refuted, Shown, Verdict
from proofs.outcome import why, word, worst
from proofs.report.text import reason, told
from proofs.site import Site
from proofs.solver import Result
from proofs.suggestions import suggestion
from proofs.whole import Answer


@dataclass(frozen=True, slots=True)
class Part:
    """An obligation of a record. The four parts of a refutation are `reason`, `at`, `path` and `suggestion`."""

    name: str
    verdict: str
    at: str
    reason: str = ""
    path: tuple[Shown, ...] = ()
    suggestion: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Place:
    """Where a record is in its input: `instruction` is a slot as listed; `source` and `line` are from line records."""

    file: str
    program: str = ""
    instruction: int | None = None
    source: str = ""
    line: int = 0
    text: str = ""


@dataclass(frozen=True, slots=True)
class Subject:
    """What a record can be looked up by; "" where it does not apply, or where the whole report is on one of them."""

    kernel: str = ""
    abi: str = ""
    maps: tuple[str, ...] = ()
    helper: str = ""


@dataclass(frozen=True, slots=True)
class Record:
    """`what` says in one line what was claimed; `decision` what becomes of a call site ("direct …"), else "".

    `baseline` is the reason with which a baseline lets a refutation pass, else "" (`proofs.baseline`).
    """

    name: str
    family: str
    verdict: str
    what: str
    reason: str = ""
    decision: str = ""
    place: Place | None = None
    parts: tuple[Part, ...] = ()
    baseline: str = ""
    subject: Subject = Subject()

    @property
    def refutations(self) -> tuple[Part, ...]:
        return tuple(part for part in self.parts if part.verdict == "refuted")


@dataclass(frozen=True, slots=True)
class Setting:
    """What the verdicts are on."""

    releases: tuple[tuple[str, str, str], ...]  # (name, version, origin)
    abis: tuple[str, ...]
    command: str = "check"


@dataclass(slots=True)
class Report:
    """`programs`, with the file of each, are only there for a format that shows listings; `helpers` are their names."""

    setting: Setting
    records: list[Record] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    programs: list[tuple[Object, Checked]] = field(default_factory=list)
    helpers: Mapping[int, str] = field(default_factory=dict)

    def count(self) -> dict[str, int]:
        return {
            verdict: sum(record.verdict == verdict for record in self.records)
            for verdict in ("proved", "refuted", "unknown", "unsupported")
        }


def setting(command: str, releases: Iterable[Release], abis: Iterable[Abi]) -> Setting:
    rows = tuple((release.name, release.version, release.origin) for release in releases)
    return Setting(rows, tuple(abi.name for abi in abis), command)


def part(result: Result) -> Part:
    verdict, obligation = result.verdict, result.obligation
    if not isinstance(verdict, Refuted):
        return Part(obligation.name, word(verdict), obligation.origin, reason=why(verdict), seconds=result.seconds)
    path = tuple(told(verdict.counterexample.shown))
    return Part(obligation.name, "refuted", obligation.origin, reason(result), path, suggestion(result), result.seconds)


def square_records(family: str, squares: Sequence[Square]) -> list[Record]:
    """A record for each claim of the releases."""
    return [
        Record(
            entry.name,
            family,
            word(entry.verdict),
            f"{entry.map_type}, {entry.helper}, Linux {square.release.version}, {square.abi.name}",
            why(entry.verdict),
            parts=tuple(part(result) for result in entry.results),
            subject=_subject(square, entry),
        )
        for square in squares
        for entry in square.entries
    ]


def _subject(square: Square, entry: Entry) -> Subject:
    """Of a claim on a row of the passes the release and the ABI: it is about no map."""
    known = entry.map_type in square.release.map_types
    maps, helper = ((entry.map_type,), entry.helper) if known else ((), "")
    return Subject(square.release.name, square.abi.name, maps, helper)


def program_name(found: Object, program: Program) -> str:
    """What the names of a program's records begin with; those of its sites go on with the slot as listed and helper."""
    return "/".join(filter(None, ("program", found.file.lstrip("/"), program.section, program.name)))


def program_records(found: Object, checked: Checked) -> list[Record]:
    """A record for each call site, for what is left of a dispatch, for Patching and for Direct."""
    program = checked.program
    where = Place(found.file, program.name)
    base = program_name(found, program)
    if checked.hole:
        return [Record(base, "program", "unsupported", "the program as a whole", checked.hole, place=where)]
    records = [record for site in checked.sites for record in _site(base, where, program.base, site)]
    records += [
        _plain(f"{base}/patching/{name}", "patching", f"Patching: {name}", verdict, where)
        for name, verdict in checked.patching.items()
    ]
    if checked.direct is not None:
        what = "Direct: no dispatch is reachable but at the listed sites"
        records.append(_plain(f"{base}/direct", "direct", what, checked.direct.verdict, where))
    return records


def walk_records(found: Object, program: Program, walks: Sequence[Walked]) -> list[Record]:
    """A record for each walk with the program's own callback that is decided; what is open is a note of the text."""
    records = []
    for walk in walks:
        verdict = worst([walk.verdict, *(verdict for _, verdict in walk.small)])
        if isinstance(verdict, Proved | Refuted):
            place = Place(found.file, program.name, program.base + walk.slot)
            what = "for_each with the program's own callback"
            parts = tuple(part(result) for result in walk.results)
            about = Subject(helper="for_each_map_elem")
            records.append(Record(walk.name, "callback", word(verdict), what, place=place, parts=parts, subject=about))
    return records


def pair_record(answer: Answer, files: tuple[str, str]) -> Record:
    """The record of one pair of programs. A refuted one has the two results, and the calls that are to blame."""
    first = answer.first
    name = "/".join(("equiv", files[0].lstrip("/"), files[1].lstrip("/"), first.before.name))
    place, at = Place(files[0], first.before.name), first.at
    if at is not None:
        place = _line(replace(place, instruction=first.before.base + at[0]), lines_of(first.before, [at[0]]).get(at[0]))
    parts: list[Part] = []
    if isinstance(answer.verdict, Refuted):
        where = f"instruction {place.instruction} of {first.before.name}" if at is not None else first.before.name
        what = first.witness.what if first.witness is not None else ""
        said = f"the two programs differ in {what or 'what they do on the way'}"
        wish = "undo the change of the program after at this place"
        parts.append(Part(name, "refuted", where, said, tuple(answer.verdict.counterexample.shown), wish))
    second = answer.second.results if answer.second is not None else ()
    results = {id(r): r for r in (*(result for site in first.sites for result in site.results), *second)}
    parts += [part(result) for result in results.values()]
    what = f"{files[1]} means what {files[0]} means"
    return Record(name, "equivalence", word(answer.verdict), what, why(answer.verdict), "", place, tuple(parts))


def not_checked(programs: int, why: str) -> Record:
    """What stands for the programs that a run did not come to."""
    return Record("program/not-checked", "program", "unknown", f"{programs} programs", f"time: {why}")


def _plain(name: str, family: str, what: str, verdict: Verdict, where: Place) -> Record:
    parts: tuple[Part, ...] = ()
    if isinstance(verdict, Refuted):
        path = verdict.counterexample.shown
        parts = (Part(name, "refuted", f"{where.program} in {where.file}", what, path),)
    return Record(name, family, word(verdict), what, why(verdict), place=where, parts=parts)


def _site(base: str, where: Place, first: int, site: Site) -> list[Record]:
    at = first + site.slot
    place = _line(Place(where.file, where.program, at), site.line)
    maps = ", ".join(site.types) or "unknown map"
    decision = f"{site.decision} {site.function}" if site.function else site.decision
    name = f"{base}/{at}/{site.helper}"
    parts = tuple(part(result) for result in site.results)
    what = f"{site.helper} on {maps}: {decision}"
    reason, about = why(site.verdict) or site.reason, Subject(maps=site.types, helper=site.helper)
    records = [
        Record(name, "site", word(site.verdict), what, reason, decision, place, parts, subject=about),
    ]
    left = site.leftover
    if left is not None:
        what = f"{site.helper} on {maps}: dispatch left, {left.kind.value}"
        more = tuple(part(result) for result in left.results)
        kind, verdict = left.kind.value, word(left.verdict)
        records.append(
            Record(f"{name}/dispatch", "leftover", verdict, what, left.reason, kind, place, more, subject=about)
        )
    return records


def _line(place: Place, line: Line | None) -> Place:
    if line is None or not line.line:
        return place
    return Place(place.file, place.program, place.instruction, line.file, line.line, line.text.strip())
