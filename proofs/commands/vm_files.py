"""`vm FILE...`: programs of files in a guest, with the JIT and without.

A generated case (it has a map `io`) is held against the model's machine, after the rewrite and before it. Of another
program the result of a test run is told, and the instructions read back, site by site.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from rich.console import Console

from gen import cases, oracles
from gen.programs import IO, Generated
from model.errors import InputError, Unsupported
from model.kernel.abi import ABIS
from model.kernel.release import Release
from model.loaders.detect import load_file, read_bytes
from model.loaders.live import Live, ProgramType, Refused
from model.loaders.live_program import create_all, load
from model.loaders.vm.guest import Guest, Lost
from model.loaders.vm.live import GuestLive
from model.program import Form, Program
from proofs.outcome import Exit
from proofs.report.text import clean
from proofs.vm_claims import PACKET, Ran, reason, rewritten
from proofs.vm_kernel import named, switch
from proofs.vm_sites import Read, distances, read

KINDS: Mapping[str, ProgramType] = {
    "": ProgramType.SCHED_CLS,
    "socket": ProgramType.SOCKET_FILTER,
    "tc": ProgramType.SCHED_CLS,
    "tcx": ProgramType.SCHED_CLS,
    "classifier": ProgramType.SCHED_CLS,
    "action": ProgramType.SCHED_CLS,
    "xdp": ProgramType.XDP,
    "syscall": ProgramType.SYSCALL,
}
"""By the first part of a section's name (libbpf); those that can be test-run alone."""
FILLED = (".data", ".rodata", ".kconfig")
NO_CALLBACKS = "callbacks are not allowed in non-JITed programs"
"""The only refusal that says nothing: the interpreter runs none (`bpf_fixup_call_args`, 5.13 to 7.3)."""
CPU, CPUS = 0, 1
"""The guest has one."""


@dataclass(frozen=True, slots=True)
class Given:
    """A program of a file; `case` if it is one."""

    name: str
    program: Program
    case: Generated | None = None


@dataclass(frozen=True, slots=True)
class Done:
    """One run: what was said of it (`differs` tells whether that is a disagreement), and its sites."""

    ran: Ran
    text: str
    differs: bool | None = False


def read_all(files: Sequence[str], release: Release) -> list[Given]:
    """Raises `InputError` for a file that holds no programs, or those of a kernel already."""
    return [given for file in files for given in _read(file, release)]


def _read(file: str, release: Release) -> Iterator[Given]:
    found = load_file(file, helper_ids=release.helper_ids)
    if not found.programs:
        raise InputError(file, "", "expected a program in it")
    for program in found.programs:
        if program.form is Form.XLATED:
            raise InputError(file, "", "expected programs as they are loaded, found a kernel's dump")
        case = None
        if any(map_.name == IO.name and map_.value_size == IO.value_size for map_ in program.maps):
            data = read_bytes(file)
            if not data.startswith(b"\x7fELF"):
                case = cases.read(data.decode(errors="replace"), file)
        yield Given(f"{file}: {program.name}" if len(found.programs) > 1 else file, program, case)


def run_all(guest: Guest, given: Sequence[Given], release: Release, out: Console) -> int:
    """Prints what each program does; the exit status."""
    runs = {jit: _half(guest, given, release, jit=jit) for jit in (True, False)}
    names = named(guest, set().union(*(distances(one.ran.insns) for half in runs.values() for one in half)))
    worst = Exit.PROVED
    for number, one in enumerate(given):
        out.print(clean(one.name), markup=False, soft_wrap=True)
        for jit, half in runs.items():
            done = half[number]
            sites: list[Read] = []
            if done.ran.insns:
                sites = read(rewritten(one.program, release, ABIS["x86_64"], jit=jit), done.ran.insns, release, names)
            for line in _lines(done, sites, jit=jit):
                out.print(clean(line), markup=False, soft_wrap=True)
            if done.differs or any(site.agrees is False for site in sites):
                worst = Exit.REFUTED
            elif worst is Exit.PROVED and (done.differs is None or any(site.agrees is None for site in sites)):
                worst = Exit.OPEN
    return worst


def _lines(done: Done, sites: Sequence[Read], *, jit: bool) -> Iterator[str]:
    yield f"  {'with' if jit else 'without'} the JIT: {done.text}"
    for site in sites:
        word = {True: "agrees", False: "DIFFERS", None: "not told"}[site.agrees]
        yield f"    slot {site.slot}: {site.helper}: model {site.expected}, kernel {site.found}: {word}"


def _half(guest: Guest, given: Sequence[Given], release: Release, *, jit: bool) -> list[Done]:
    switch(guest, jit=jit)
    types = {name: row.number for name, row in release.map_types.items()}
    found = []
    for one in given:
        with GuestLive(guest) as live:
            try:
                found.append(_case(live, one, release, types, jit=jit) if one.case else _plain(live, one, types))
            except Refused as refused:
                why = reason(refused)
                expected = not jit and why == NO_CALLBACKS
                found.append(Done(Ran(refused=why), f"refused: {why}", False if expected else None))
            except Lost:
                raise
            except Unsupported as hole:
                found.append(Done(Ran(refused=str(hole)), f"unsupported: {hole}", None))
    return found


def _case(live: Live, one: Given, release: Release, types: Mapping[str, int], *, jit: bool) -> Done:
    assert one.case is not None
    left, insns = oracles.on_kernel(live, one.program, one.case, types, cpus=CPUS, cpu=CPU)
    abi = ABIS["x86_64"]
    side = oracles.linked(oracles.rewritten(one.program, release, abi), release) if jit else one.program
    model = oracles.on_machine(side, one.case, release, abi, cpus=CPUS, cpu=CPU)
    found = oracles.differences(model, left)
    if model.trouble:
        return Done(Ran(insns=insns), f"the model's machine: {model.trouble}", None)
    text = "as the model, " + ("after the rewrite" if jit else "before the rewrite")
    return Done(Ran(insns=insns), "; ".join(["model | kernel", *found]) if found else text, bool(found))


def _plain(live: Live, one: Given, types: Mapping[str, int]) -> Done:
    kind = KINDS.get(one.program.type)
    if kind is None:
        raise Unsupported(f"programs of {one.program.type} are not test-run")
    filled = [map_.name for map_ in one.program.maps if map_.name.endswith(FILLED) or map_.name.startswith(FILLED)]
    if filled:
        raise Unsupported(f"the first values of {filled[0]} are not read from the object")
    loaded = load(live, one.program, kind, create_all(live, one.program.maps, types))
    run = live.run(loaded) if kind is ProgramType.SYSCALL else live.run(loaded, data=PACKET)
    return Done(replace(Ran(), insns=live.xlated(loaded)), f"result 0x{run.result:08x}")
