"""The judge of campaigns that has a solver: what is proved of a program must be what its runs show."""

from collections.abc import Callable
from dataclasses import dataclass

from gen.campaign import Judge, Seen
from gen.judges import SIDES, Model, Running, bench, sites, told
from gen.oracles import differences, on_machine
from gen.programs import Generated
from model.errors import InputError, Unsupported
from model.kernel.abi import Abi
from model.kernel.release import Release
from model.loaders.live import why_not
from model.rewrite.config import Config
from proofs.claims import Claims
from proofs.equivalence import equivalent
from proofs.obligation import Proved, Refuted
from proofs.outcome import word
from proofs.solver import Solver

JUDGES = ("model", "smt", "kernel")


@dataclass(frozen=True, slots=True)
class Symbolic:
    """Equivalence by composition, and a run of both sides: proved, and the runs differ, is a fault of the model.

    A program that is refuted fails: its rewrite changes what it means.
    """

    release: Release
    abi: Abi
    name: str = "smt"

    def bind(self) -> Callable[[Generated], Seen]:
        claims = Claims(self.release, self.abi, Solver())
        table = bench(self.release, self.abi)

        def judge(made: Generated) -> Seen:
            try:
                done = table.done(made)
                answer = equivalent(done.before, done.after, claims, Config(arch=self.abi.name), (), done.relocs)
                before, after = (
                    on_machine(side, made, self.release, self.abi) for side in (done.before, table.linked(made))
                )
            except Unsupported as hole:
                return Seen(refused=str(hole))
            found, kinds = differences(before, after), sites(done)
            if isinstance(answer.verdict, Proved):
                return Seen(told(["proved, and yet:", *found], SIDES) if found else "", sites=kinds)
            if isinstance(answer.verdict, Refuted):
                shown = [str(one) for one in answer.verdict.counterexample.shown]
                wrong = [site for site in answer.sites if isinstance(site.verdict, Refuted)]
                calls = [f"{site.helper}: {site.function or site.decision}" for site in wrong]
                return Seen("\n".join(["refuted", *calls, *shown, *found]), sites=kinds)
            reason = getattr(answer.verdict, "reason", "")
            return Seen(refused=f"{word(answer.verdict)}: {reason}")

        return judge


def judges(names: str, release: Release, abi: Abi) -> tuple[Judge, ...]:
    """Those named, with commas between. Raises `InputError` for another name, or without permission."""
    found: list[Judge] = []
    for name in dict.fromkeys(names.split(",")):
        match name:
            case "model":
                found.append(Model(release, abi))
            case "smt":
                found.append(Symbolic(release, abi))
            case "kernel":
                if reason := why_not():
                    raise InputError("--judge", "kernel", reason)
                found.append(Running(release, abi))
            case _:
                raise InputError("--judge", name[:80], f"expected of {', '.join(JUDGES)}, with commas between")
    return tuple(found)
