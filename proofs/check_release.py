"""The main job without a file: every Dispatch claim of one release under one ABI."""

from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase

from model.errors import Unsupported
from model.kernel.abi import Abi
from model.kernel.release import Release
from model.rewrite.direct_call import direct_patch
from proofs.obligation import NoRule, Obligation, Verdict
from proofs.outcome import worst
from proofs.properties.dispatch_cases import Pair, Row, claim, obligations, origin, rows
from proofs.properties.no_operation import no_operation
from proofs.solver import Result, Solver


@dataclass(frozen=True, slots=True)
class Cell:
    """One (map type, helper): its row, and the results of its claim's parts (none unless it is claimed)."""

    row: Row
    results: tuple[Result, ...] = ()
    hole: NoRule | None = None

    @property
    def verdict(self) -> Verdict | None:
        """None where there is no claim, or none of its parts was asked for."""
        if self.hole is not None:
            return self.hole
        return worst(result.verdict for result in self.results) if self.results else None


def prefix(release: Release, abi: Abi, row: Row) -> str:
    return f"dispatch/{release.name}/{abi.name}/{row.map_type}/{row.helper}"


def matches(name: str, pattern: str | None) -> bool:
    """Whether an obligation's name, or a path that it begins with, fits the glob `pattern` (None: every name)."""
    if pattern is None:
        return True
    parts = name.split("/")
    return any(fnmatchcase("/".join(parts[:end]), pattern) for end in range(1, len(parts) + 1))


def release_obligations(release: Release, abi: Abi, row: Row) -> list[Obligation]:
    """The parts of one pair's claim. Raises `Unsupported` where the model has no rule for it."""
    slot = release.helpers[row.helper].slot
    rewrite = release.rewrite(row.helper)
    if rewrite is None:
        raise Unsupported(f"release {release.name} has no direct form for {row.helper}")
    if release.operation(row.map_type, slot) is None:
        return no_operation(prefix(release, abi, row), slot, origin(release, row.map_type, row.helper))
    called = release.operation(row.map_type, rewrite.slot)
    if called is None:
        raise Unsupported(f"{row.map_type} has no {rewrite.slot}, which the rewrite calls")
    patch = direct_patch(called.name)
    relocs = {index: reloc.symbol for index, reloc in patch.relocs.items()}
    case = claim(release, abi, row.map_type, row.helper, patch.insns, relocs)
    return obligations(prefix(release, abi, row), case, origin(release, row.map_type, row.helper))


def check(release: Release, abi: Abi, solver: Solver, pattern: str | None = None) -> Iterator[Cell]:
    """Every cell of the table map type × helper, in the release's order; only obligations that fit `pattern`."""
    for row in rows(release):
        if row.pair is Pair.UNREAD:
            wanted = matches(prefix(release, abi, row), pattern)
            yield Cell(row, hole=NoRule(row.reason) if wanted else None)
            continue
        if row.pair is not Pair.CLAIMED:
            yield Cell(row)
            continue
        try:
            asked = [o for o in release_obligations(release, abi, row) if matches(o.name, pattern)]
        except Unsupported as hole:
            wanted = matches(prefix(release, abi, row), pattern)
            yield Cell(row, hole=NoRule(str(hole)) if wanted else None)
            continue
        yield Cell(row, tuple(solver.decide_all(asked)))
