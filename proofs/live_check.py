"""One program in the running kernel: loaded, read back, compared with the model's rewrite, its equivalence judged."""

from collections.abc import Callable
from dataclasses import dataclass

from model.errors import InputError, Unsupported
from model.facts import analyse
from model.kernel.release import Release
from model.loaders.kernel_btf import KernelTypes
from model.loaders.kernel_symbols import Symbols
from model.loaders.live import Refused
from model.loaders.live_constants import settled
from model.loaders.live_object import Loaded, Session, read_error
from model.program import Program
from model.rewrite.config import Config
from model.rewrite.passes import Rewritten, rewrite
from proofs.cfg import refuse_recursion
from proofs.claims import Claims
from proofs.live_compare import Comparison
from proofs.live_equivalence import Parts, RowClaim, composed
from proofs.live_sites import Judge, LiveSite
from proofs.obligation import NoRule, Verdict
from proofs.outcome import Exit, status


@dataclass(frozen=True, slots=True)
class Answer:
    """What was found of `program`. `refused` says why it could not be loaded, `hole` what the model has no rule for."""

    program: Program
    refused: str = ""
    hole: str = ""
    comparison: Comparison | None = None
    model: Rewritten | None = None
    sites: tuple[LiveSite, ...] = ()
    parts: Parts | None = None

    @property
    def verdict(self) -> Verdict | None:
        """Whether what the kernel did means what was loaded; None for what was not loaded."""
        if self.refused:
            return None
        return self.parts.verdict if self.parts is not None else NoRule(self.hole)

    @property
    def exit(self) -> Exit:
        """A site on which kernel and model differ is a refutation, of the model if of nothing else."""
        if self.verdict is None:
            return Exit.PROVED
        if any(site.agrees is False for site in self.sites):
            return Exit.REFUTED
        return status([self.verdict])


@dataclass(frozen=True, slots=True)
class Asked:
    """What programs are held against."""

    claims: Claims
    rows: RowClaim
    config: Config
    types: KernelTypes
    symbols: Symbols

    @property
    def release(self) -> Release:
        return self.claims.release


def judge(
    session: Session, number: int, asked: Asked, seen: Callable[[Answer, Loaded], None] = lambda answer, loaded: None
) -> Answer:
    """The program `number` of the session's object; `seen` is called while it is loaded, then it is let go of."""
    given = session.found.programs[number]
    try:
        loaded = session.load(number)
    except (Refused, Unsupported, InputError) as error:
        return Answer(given, refused=read_error(error))
    try:
        answer = compared(loaded, asked)
        seen(answer, loaded)
    finally:
        session.live.drop(loaded.fd)
    return answer


def compared(loaded: Loaded, asked: Asked) -> Answer:
    """The answer on a program that was read back."""
    before = loaded.before
    try:
        refuse_recursion(before)
        facts = analyse(settled(before, loaded.frozen), asked.release)
        model = rewrite(before, facts, asked.release, asked.config)
    except Unsupported as hole:
        return Answer(before, hole=str(hole))
    found = Comparison(loaded, facts, asked.release, asked.symbols).run()
    sites = tuple(Judge(found, model, asked.config, asked.types).sites())
    return Answer(before, "", "", found, model, sites, composed(found, sites, asked.claims, asked.rows))
