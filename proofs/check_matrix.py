"""The main job on many releases and ABIs: every claim's verdict, and what the refutations come from."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from model.kernel.abi import Abi
from model.kernel.release import CType, Release
from proofs import check_claims, check_release
from proofs.causes import CAUSES, Cause, Shape, cause_of, known, numbers, shape_of
from proofs.obligation import Refuted, Verdict
from proofs.reachability import Reached, reached
from proofs.solver import Result, Solver


@dataclass(frozen=True, slots=True)
class Entry:
    """One claim: its name without a part, what it is about, its verdict and its parts' results."""

    name: str
    map_type: str
    helper: str
    verdict: Verdict
    results: tuple[Result, ...]


@dataclass(frozen=True, slots=True)
class Square:
    """The claims of one family, release and ABI, in the release's order."""

    release: Release
    abi: Abi
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Finding:
    """A claim refuted by one cause: the parts that show it, and whether the release gets there."""

    release: Release
    abi: Abi
    entry: Entry
    results: tuple[Result, ...]
    reached: Reached


@dataclass(frozen=True, slots=True)
class Group:
    cause: Cause
    findings: tuple[Finding, ...]


def check(
    family: str,
    releases: Sequence[Release],
    abis: Sequence[Abi],
    solver: Solver,
    pattern: str | None = None,
    tell: Callable[[str], None] = lambda text: None,
) -> list[Square]:
    """Every square; `tell` hears of each before it is begun."""
    made = []
    for release in releases:
        for abi in abis:
            tell(f"{family} {release.name} {abi.name}")
            made.append(Square(release, abi, tuple(_entries(family, release, abi, solver, pattern))))
    return made


def _entries(family: str, release: Release, abi: Abi, solver: Solver, pattern: str | None) -> Iterator[Entry]:
    if family == "dispatch":
        return of_cells(release, abi, check_release.check(release, abi, solver, pattern))
    return of_groups(family, check_claims.check(family, release, abi, solver, pattern))


def of_cells(release: Release, abi: Abi, cells: Iterable[check_release.Cell]) -> Iterator[Entry]:
    """The Dispatch claims that were asked for."""
    for cell in cells:
        if cell.verdict is not None:
            name = check_release.prefix(release, abi, cell.row)
            yield Entry(name, cell.row.map_type, cell.row.helper, cell.verdict, cell.results)


def of_groups(family: str, claims: Iterable[check_claims.Group]) -> Iterator[Entry]:
    """What a claim is about: a map type and its helper; or a row of the passes and the instruction."""
    for group in claims:
        parts = group.name.split("/")
        if family == "rewrite":
            yield Entry(group.name, parts[3], parts[4], group.verdict, group.results)
            continue
        helper = "map_lookup_elem" if family == "inline" else "for_each_map_elem"
        yield Entry(group.name, parts[2], helper, group.verdict, group.results)


def groups(
    squares: Iterable[Square], solver: Solver, others: Sequence[Release], rows: tuple[Cause, ...] = CAUSES
) -> list[Group]:
    """The refutations by cause, in the order of `rows`, then those without a row. None is left out.

    `others` are the releases that those without bodies may take over from.
    """
    shapes: dict[tuple[object, str], Shape] = {}
    found: dict[Shape, list[Finding]] = {}
    for square in squares:
        for entry in square.entries:
            parts: dict[Shape, list[Result]] = {}
            for result in entry.results:
                if isinstance(result.verdict, Refuted):
                    key = (result.obligation.claim, result.obligation.part)
                    if key not in shapes:
                        shapes[key] = shape_of(result, _returned(square.release, entry), solver)
                    parts.setdefault(shapes[key], []).append(result)
            for shape, results in parts.items():
                way = reached(shape, square.release, entry.map_type, entry.helper, others)
                found.setdefault(shape, []).append(Finding(square.release, square.abi, entry, tuple(results), way))
    order = [row.shape for row in rows if row.shape in found]
    order += [shape for shape in found if known(shape, rows) is None]
    return [Group(cause_of(shape, rows), tuple(found[shape])) for shape in order]


def _returned(release: Release, entry: Entry) -> CType:
    """The type that the entry's operation returns; void where there is none, or the claim is on no operation."""
    if entry.helper not in release.helpers:
        return CType("void", 0, False)
    function = release.operation(entry.map_type, release.helpers[entry.helper].slot)
    return CType("void", 0, False) if function is None else function.prototype.result


def outside(group: Group) -> tuple[str, ...]:
    """The releases that show the cause although its row says that they should not."""
    names = {f.release.name: f.release for f in group.findings}
    return tuple(name for name, release in names.items() if not group.cause.covers(numbers(release.version)))


def verdicts(squares: Iterable[Square]) -> list[Verdict]:
    return [entry.verdict for square in squares for entry in square.entries]
