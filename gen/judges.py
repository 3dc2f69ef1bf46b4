"""Judges of campaigns without a solver: the machine before against after, the running kernel against the machine."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from gen.campaign import Seen
from gen.oracles import Kernel, Left, differences, linked, on_machine, program, rewritten
from gen.programs import Generated
from model.errors import Unsupported
from model.kernel.abi import Abi
from model.kernel.release import Release
from model.loaders.live import Refused
from model.program import Program
from model.rewrite.passes import Rewritten

SIDES = ("before", "after")
Sites = tuple[tuple[str, str, str], ...]


@dataclass(slots=True)
class Bench:
    """A case read and rewritten once for all judges of a process that ask for it in turn."""

    release: Release
    abi: Abi
    _text: str = ""
    _done: Rewritten | None = None

    def done(self, made: Generated) -> Rewritten:
        if self._done is None or self._text != made.text:
            self._done, self._text = rewritten(program(made, self.release), self.release, self.abi), made.text
        return self._done

    def linked(self, made: Generated) -> Program:
        return linked(self.done(made), self.release)


_BENCHES: dict[tuple[str, str, str], Bench] = {}


def bench(release: Release, abi: Abi) -> Bench:
    """The process's own for this release and ABI."""
    return _BENCHES.setdefault((release.name, release.version, abi.name), Bench(release, abi))


def sites(done: Rewritten) -> Sites:
    """(map type, helper, what became of the call) for every site; the types of all maps that reach it, with +."""
    found = []
    for decision in done.decisions:
        types = sorted({str(pointer.map.type) for pointer in decision.pointers})
        found.append(("+".join(types) or "unknown", decision.helper, decision.kind.value))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Model:
    """The machine, before the rewrite against after it; with the bits that the ABI leaves open all 0, and all 1."""

    release: Release
    abi: Abi
    name: str = "model"

    def bind(self) -> Callable[[Generated], Seen]:
        table = bench(self.release, self.abi)

        def judge(made: Generated) -> Seen:
            try:
                done = table.done(made)
                seen = sites(done)
                before = on_machine(done.before, made, self.release, self.abi)
                for ones in (False, True):
                    after = on_machine(table.linked(made), made, self.release, self.abi, ones=ones)
                    if found := differences(before, after):
                        return Seen(told(found, SIDES), sites=seen)
                    if not _narrow(done, self.release):
                        break
            except Unsupported as hole:
                return Seen(refused=str(hole))
            return Seen(told([before.trouble], ("the machine",)) if before.trouble else "", sites=seen)

        return judge


def _narrow(done: Rewritten, release: Release) -> bool:
    """Whether a call after the rewrite is of a function whose result leaves bits to the ABI."""
    called = (release.functions.get(decision.function or "") for decision in done.decisions)
    return any(function is not None and 0 < function.prototype.result.bits < 64 for function in called)


def told(found: list[str], sides: tuple[str, ...]) -> str:
    return "\n".join([" | ".join(sides), *found])


@dataclass(frozen=True, slots=True)
class Running:
    """The running kernel: what it leaves is what the machine leaves. `types` are the numbers of enum bpf_map_type."""

    release: Release
    abi: Abi
    name: str = "kernel"

    def bind(self) -> Callable[[Generated], Seen]:
        kernel = Kernel({name: row.number for name, row in self.release.map_types.items()})
        table = bench(self.release, self.abi)

        def judge(made: Generated) -> Seen:
            done = table.done(made)
            try:
                real, _ = kernel.left(done.before, made)
            except Refused as refused:
                return Seen(refused=f"the kernel: {reason(refused)}")
            try:
                left = [
                    on_machine(side, made, self.release, self.abi, cpus=kernel.cpus, cpu=kernel.cpu)
                    for side in (done.before, table.linked(made))
                ]
            except Unsupported as hole:
                return Seen(refused=str(hole))
            return self._compared(left, real, sites(done))

        return judge

    def _compared(self, left: list[Left], real: Left, kinds: Sites) -> Seen:
        for name, machine in zip(SIDES, left, strict=True):
            if found := differences(machine, real):
                return Seen(told(found, (f"the machine, {name}", "the running kernel")), sites=kinds)
        return Seen(sites=kinds)


def reason(refused: Refused) -> str:
    """The verifier's last word, without numbers, so that equal reasons are counted together."""
    lines = [line for line in refused.log.splitlines() if line and not line.startswith(("processed", "verification"))]
    said = lines[-1] if lines else str(refused).splitlines()[0]
    return re.sub(r"-?\b(0x)?[0-9a-f]*[0-9][0-9a-f]*\b", "N", said)[:100]
