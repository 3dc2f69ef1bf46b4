"""The claims of a release beside Dispatch, family by family."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from model.errors import Unsupported
from model.kernel.abi import Abi
from model.kernel.release import Release
from proofs.check_release import matches
from proofs.obligation import NoRule, Obligation, Verdict
from proofs.outcome import worst
from proofs.properties.callback_cases import callback_obligations, callback_types
from proofs.properties.inline_cases import inline_obligations, inline_types
from proofs.properties.rewrite_cases import cases as rewrite_cases
from proofs.properties.rewrite_cases import prefix, rewrite_obligations
from proofs.solver import Result, Solver


@dataclass(frozen=True, slots=True)
class Group:
    """One claim with its parts' results; `hole` where the model has no rule for it."""

    name: str
    results: tuple[Result, ...]
    hole: NoRule | None = None

    @property
    def verdict(self) -> Verdict:
        return self.hole or worst(result.verdict for result in self.results)


Build = Callable[[], list[Obligation]]


def _inline(release: Release, abi: Abi) -> Iterator[tuple[str, Build]]:
    for map_type in [*inline_types(release), *_unread(release, inline_types(release))]:
        name = f"inline/{release.name}/{map_type}/map_lookup_elem"
        unread = release.lookup_hole(map_type, abi.name)
        yield name, partial(_refuse, unread) if unread else partial(inline_obligations, release, abi, map_type)


def _callback(release: Release, abi: Abi) -> Iterator[tuple[str, Build]]:
    """Walks of any length, then those of fewer than 2^31 callbacks; the ABI has no part in them."""
    for map_type in callback_types(release):
        name = f"callback/{release.name}/{map_type}"
        yield name, partial(callback_obligations, release, map_type)
        yield f"{name}/bounded", partial(callback_obligations, release, map_type, bounded=True)
    for map_type in _unread(release, callback_types(release)):
        yield f"callback/{release.name}/{map_type}", partial(_refuse, release.type_hole(map_type))


def _unread(release: Release, listed: Sequence[str]) -> list[str]:
    """Types whose operations were not read: whether they have what the claim is about cannot be told."""
    types = [*release.map_types, *release.lost("type")]
    return [name for name in types if name not in listed and release.type_hole(name)]


def _refuse(unread: str) -> list[Obligation]:
    raise Unsupported(unread)


def _rewrite(release: Release, abi: Abi) -> Iterator[tuple[str, Build]]:
    for case in rewrite_cases(release):
        yield prefix(release, abi, case), partial(rewrite_obligations, release, abi, case)


FAMILIES: Mapping[str, Callable[[Release, Abi], Iterator[tuple[str, Build]]]] = {
    "inline": _inline,
    "callback": _callback,
    "rewrite": _rewrite,
}


def check(family: str, release: Release, abi: Abi, solver: Solver, pattern: str | None = None) -> Iterator[Group]:
    """Every claim of the family that fits `pattern`, in the release's order."""
    for name, build in FAMILIES[family](release, abi):
        try:
            asked = [obligation for obligation in build() if matches(obligation.name, pattern)]
        except Unsupported as hole:
            if matches(name, pattern):
                yield Group(name, (), NoRule(str(hole)))
            continue
        if asked:
            yield Group(name, tuple(solver.decide_all(asked)))
