"""The Dispatch claims of a release, held against a kernel of it: what a failing call leaves in r0.

A program of `proofs.reproduce` is run on the model's machine, before the rewrite and after it, and on the kernel,
with the JIT (which rewrites it) and without (which leaves the helper).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from model.errors import Unsupported
from model.facts import analyse
from model.isa.insn import Insn
from model.kernel.abi import Abi
from model.kernel.release import Release
from model.loaders import assembly
from model.loaders.live import Live, ProgramType, Refused
from model.loaders.live_program import create_all, load
from model.machine.layout import link
from model.machine.machine import Machine
from model.machine.maps_kernel import MapsKernel
from model.machine.outcome import Returned
from model.machine.regions import CONTEXT_BASE, Region, Regions
from model.maps.state import ARRAY_VALUE
from model.program import Program
from model.rewrite.config import Config
from model.rewrite.passes import Rewritten, rewrite
from proofs import reproduce
from proofs.check_release import Cell
from proofs.outcome import word
from proofs.reproduce import FOR_EACH, ROWS, Case
from proofs.vm_sites import Read

PACKET = bytes(64)
STEPS = 100_000
OUT, WORDS = "out", 16
"""The map of the result, and its bytes: r0 of the call as it is rewritten, r0 of the call that is kept."""


@dataclass(frozen=True, slots=True)
class Claim:
    """One claim that a program shows: the verdict as a word, the program, and the r0 predicted of its call."""

    case: Case
    verdict: str
    program: Program
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class Ran:
    """What the kernel did with a program: both words, and the instructions; `refused` is why it did not load."""

    direct: int = 0
    kept: int = 0
    insns: tuple[Insn, ...] = ()
    refused: str = ""


@dataclass(frozen=True, slots=True)
class Shown:
    """`jit` and `plain` are the runs with and without the JIT; `sites` those of both."""

    claim: Claim
    jit: Ran
    plain: Ran
    sites: tuple[Read, ...] = ()

    @property
    def before(self) -> int | None:
        """r0 through the helper: without the JIT; where such a program is refused, at the call that is kept."""
        if not self.plain.refused:
            return self.plain.direct
        return self.jit.kept if self.claim.case.kept and not self.jit.refused else None

    @property
    def agrees(self) -> bool | None:
        """None where the kernel does not run the program with the JIT, or a site cannot be told."""
        if self.jit.refused:
            return None
        same = self.jit.direct == self.claim.after and self.before in (None, self.claim.before)
        if self.claim.case.kept:
            same = same and self.jit.kept == self.claim.before
        if not same or any(site.agrees is False for site in self.sites):
            return False
        return None if any(site.agrees is None for site in self.sites) else True


def claims(cells: Iterable[Cell], release: Release, abi: Abi) -> tuple[list[Claim], list[str]]:
    """Those that a program shows; in a line each, the decided ones that have none. Raises as `on_machine`."""
    found, without = [], []
    for cell in cells:
        if cell.verdict is None or not cell.results:
            continue
        name = f"{cell.row.map_type} {cell.row.helper}: {word(cell.verdict)}"
        row = next((r for r in ROWS if r.helper == cell.row.helper and cell.row.map_type in r.types), None)
        if row is None:
            without.append(name)
            continue
        kept = row.helper != FOR_EACH or release.poison_for_each == "stays"
        case = Case(f"{cell.row.map_type}-{row.helper}", cell.row.map_type, row, kept)
        program = assembly.load(reproduce.assembly(case), case.name, release.helper_ids).programs[0]
        done = rewritten(program, release, abi)
        before = on_machine(program, release, abi)
        after = on_machine(link(done.after, done.relocs, release), release, abi)
        found.append(Claim(case, word(cell.verdict), program, before, after))
    return found, without


def rewritten(program: Program, release: Release, abi: Abi, *, jit: bool = True) -> Rewritten:
    return rewrite(program, analyse(program, release), release, Config(arch=abi.name, jit=jit))


def on_machine(program: Program, release: Release, abi: Abi) -> int:
    """r0 of the first call, as the program stores it. Raises `Unsupported` where the machine does not end it."""
    memory = Regions()
    kernel = MapsKernel(memory, release, abi=abi)
    out = next(kernel.map(map_) for map_ in program.maps if map_.name == OUT)
    memory.add(Region("context", CONTEXT_BASE, bytearray(256)))
    outcome = Machine(kernel, memory, limit=STEPS).run(program, CONTEXT_BASE)
    if not isinstance(outcome, Returned):
        raise Unsupported(f"{program.name} on the model's machine: {outcome}")
    return int.from_bytes(memory.read(out.address + ARRAY_VALUE, 8), memory.order)


def ran(live: Live, program: Program, types: Mapping[str, int]) -> Ran:
    """What the kernel does with one of these programs; `types` as in `model.loaders.live_program.create`."""
    try:
        fds = create_all(live, program.maps, types)
        loaded = load(live, program, ProgramType.SCHED_CLS, fds)
        live.run(loaded, data=PACKET)
        insns = live.xlated(loaded)
    except Refused as refused:
        return Ran(refused=reason(refused))
    number = next(number for number, map_ in enumerate(program.maps) if map_.name == OUT)
    words = live.lookup(fds[number], bytes(4), WORDS)
    if isinstance(words, int):
        return Ran(refused=f"the result cannot be read: errno {-words}")
    return Ran(int.from_bytes(words[:8], "little"), int.from_bytes(words[8:], "little"), insns)


def reason(refused: Refused) -> str:
    """The last line of the verifier's words that is not its count."""
    lines = [line.strip() for line in refused.log.splitlines() if line.strip() and "processed " not in line]
    return lines[-1] if lines else str(refused).splitlines()[0]
