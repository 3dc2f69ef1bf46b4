"""The claims that sites of programs are made of, each kind proved once and reused for every site."""

from collections.abc import Callable, Sequence

from model.errors import Unsupported
from model.isa.insn import Insn
from model.kernel.abi import Abi
from model.kernel.release import Release
from model.program import Program, SymbolRef
from proofs.obligation import NoRule, Obligation, Refuted, Verdict
from proofs.outcome import worst
from proofs.properties.dispatch_cases import claim, obligations, origin
from proofs.properties.inline_cases import map_obligations, same_entries
from proofs.solver import Result, Solver
from proofs.symbols import helper_functions, symbols

Answer = tuple[Verdict, tuple[Result, ...]]
CALL = (Insn(0x85),)


class Claims:
    """Dispatch and Inline verdicts of one release and ABI, by kind of site."""

    def __init__(self, release: Release, abi: Abi, solver: Solver) -> None:
        self.release = release
        self.abi = abi
        self._solver = solver
        self.symbols = symbols(release)
        self.functions = helper_functions(release)
        self._known: dict[tuple[str, ...], Answer] = {}

    def called(self, program: Program, slot: int) -> str | None:
        """What the symbol named by the call at `slot` is (`proofs.symbols`); None without a name or meaning."""
        ref = program.refs.get(slot)
        return self.symbols.get(ref.name) if isinstance(ref, SymbolRef) else None

    def direct(self, map_type: str, helper: str, function: str) -> Answer:
        """Whether a direct call of `function` means what `helper` means on maps of `map_type`."""

        def build() -> Sequence[Obligation]:
            if unread := self.release.hole(helper, map_type):
                raise Unsupported(unread)
            expected = self.release.operation(map_type, self.release.helpers[helper].slot)
            name = f"dispatch/{self.release.name}/{self.abi.name}/{map_type}/{helper}"
            if expected is not None and expected.name != function:
                name += f"={function}"  # a call that the release's rows do not make
            case = claim(self.release, self.abi, map_type, helper, CALL, {0: function})
            return obligations(name, case, origin(self.release, map_type, helper))

        return self._answer(("direct", map_type, helper, function), build)

    def inline(self, map_type: str, entries: int | None = None, *, inner: bool = False) -> Answer:
        """Whether the release's inlined lookup of `map_type` means what its operation means.

        `entries` is the map's max_entries, None where it is not known. `inner` says that the map is the template of an
        inner map: the claim is on every map that may stand in its place.
        """
        bounded = entries is not None and entries < 1 << 31 and (not inner or same_entries(self.release, map_type))
        key = ("inline", map_type, "inner" if inner else "", "bounded" if bounded else "")

        def build() -> Sequence[Obligation]:
            if unread := self.release.lookup_hole(map_type, self.abi.name):
                raise Unsupported(unread)
            return map_obligations(self.release, self.abi, map_type, inner=inner, bounded=bounded)

        return self._answer(key, build)

    def _answer(self, key: tuple[str, ...], build: Callable[[], Sequence[Obligation]]) -> Answer:
        known = self._known.get(key)
        if known is None:
            try:
                results = tuple(self._solver.decide_all(build()))
                known = worst(result.verdict for result in results), results
            except Unsupported as hole:
                known = NoRule(str(hole)), ()
            self._known[key] = known
        return known


def conjunction(answers: Sequence[Answer]) -> Answer:
    """All of `answers` together: the worst verdict, every result."""
    return worst(verdict for verdict, _ in answers), tuple(result for _, results in answers for result in results)


def refuted(results: Sequence[Result]) -> Result | None:
    """The first refutation among `results`."""
    return next((result for result in results if isinstance(result.verdict, Refuted)), None)
