"""Programs that show a refuted claim: what the model's machine says of them, that they compile, that they load."""

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from model.facts import analyse
from model.kernel.abi import ABIS
from model.kernel.data import load_release
from model.loaders import assembly, elf
from model.loaders.live import Live, ProgramType, why_not
from model.machine.layout import link
from model.machine.machine import Machine
from model.machine.maps_kernel import MapsKernel
from model.machine.outcome import Returned
from model.machine.regions import CONTEXT_BASE, Region, Regions
from model.maps.state import ARRAY_VALUE
from model.program import MapRef, Program
from model.rewrite.config import Config
from model.rewrite.direct_call import Kind
from model.rewrite.passes import rewrite
from proofs.check_release import check
from proofs.cli import main
from proofs.reproduce import Case, c_source, cases, files
from proofs.reproduce import assembly as text_of
from proofs.solver import Solver

NAMES = ("6.1", "6.12")
RELEASES = {name: load_release(name) for name in NAMES}
CELLS = check(RELEASES["6.1"], ABIS["x86_64"], Solver(), "dispatch/*")
FOUND, WITHOUT = cases((result for cell in CELLS for result in cell.results), RELEASES["6.1"])
SIGNED = {17: 0xFFFFFFFFFFFFFFEF, 2: 0xFFFFFFFFFFFFFFFE, 22: 0xFFFFFFFFFFFFFFEA}
CLANG = next((found for name in ("clang", "clang-19", "clang-18") if (found := shutil.which(name))), None)


def program(case: Case, name: str) -> Program:
    return assembly.load(text_of(case), "prog.asm", RELEASES[name].helper_ids).programs[0]


def on_machine(case: Case, name: str) -> tuple[int, int, int]:
    """r0, and what was written for the direct call and the other one."""
    release, before = RELEASES[name], program(case, name)
    done = rewrite(before, analyse(before, release), release, Config())
    after = link(done.after, done.relocs, release)
    memory = Regions()
    kernel = MapsKernel(memory, release)
    memory.add(Region("context", CONTEXT_BASE, bytearray(256)))
    outcome = Machine(kernel, memory).run(after, CONTEXT_BASE)
    assert isinstance(outcome, Returned), outcome
    out = kernel.map(after.maps[-1])
    words = memory.read(out.address + ARRAY_VALUE, 16)
    return outcome.value, int.from_bytes(words[:8], "little"), int.from_bytes(words[8:], "little")


def test_what_there_is() -> None:
    assert len(FOUND) == 28
    assert sorted({name.split("/")[3] for name in WITHOUT}) == [
        "cpumap",
        "devmap",
        "devmap_hash",
        "sockhash",
        "sockmap",
        "xskmap",
    ]


@pytest.mark.parametrize("case", FOUND, ids=lambda case: case.name)
def test_on_the_machine(case: Case) -> None:
    error = SIGNED[case.failing.errno]
    assert on_machine(case, "6.1") == (1, error & 0xFFFFFFFF, error)
    assert on_machine(case, "6.12") == (0, error, error)


@pytest.mark.parametrize("case", FOUND, ids=lambda case: case.name)
def test_one_call_is_direct_and_one_stays(case: Case) -> None:
    release, before = RELEASES["6.1"], program(case, "6.1")
    decisions = rewrite(before, analyse(before, release), release, Config()).decisions
    kinds = [decision.kind for decision in decisions if decision.helper == case.failing.helper]
    assert kinds[-2:] == [Kind.DIRECT, Kind.STAYS] if case.kept else kinds == [Kind.DIRECT]


def compiled(case: Case, place: Path) -> Program:
    if CLANG is None:
        pytest.skip("no clang")
    source, built = place / "prog.bpf.c", place / "prog.bpf.o"
    source.write_text(c_source(case, RELEASES["6.1"]), encoding="utf-8")
    command = [CLANG, "-O2", "-g", "-Wall", "-Werror", "-target", "bpf", "-c", str(source), "-o", str(built)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "No available targets" in done.stderr or "unknown target" in done.stderr:
        pytest.skip("this clang has no BPF target")
    assert done.returncode == 0, done.stderr
    return elf.load(built.read_bytes(), str(built)).programs[0]


@pytest.mark.parametrize("case", FOUND, ids=lambda case: case.name)
def test_the_c_compiles_to_the_same_calls(case: Case, tmp_path: Path) -> None:
    built, written = compiled(case, tmp_path), program(case, "6.1")
    calls = [insn.imm for insn in built.insns if insn.opcode == 0x85 and insn.src == 0]
    assert calls == [1, *[insn.imm for insn in written.insns if insn.opcode == 0x85 and insn.src == 0]]


def on_kernel(live: Live, made: Program, types: dict[str, int]) -> tuple[int, int, int]:
    fds = []
    for m in made.maps:
        sizes = m.key_size or 0, m.value_size or 0, m.max_entries or 0
        fds.append(live.create_map(types[str(m.type)], *sizes, flags=m.flags or 0))
    insns = list(made.insns)
    for slot, ref in made.refs.items():
        assert isinstance(ref, MapRef)
        insns[slot] = replace(insns[slot], imm=fds[ref.map])
    functions = {part.start: part.name for part in made.subprograms}
    done = live.run(live.load(insns, ProgramType.SOCKET_FILTER, functions=functions), data=bytes(64))
    out = next(number for number, m in enumerate(made.maps) if m.name == "out")
    words = live.lookup(fds[out], bytes(4), 16)
    assert isinstance(words, bytes)
    return done.result, int.from_bytes(words[:8], "little"), int.from_bytes(words[8:], "little")


@pytest.mark.live
@pytest.mark.parametrize("case", FOUND, ids=lambda case: case.name)
def test_the_running_kernel_gives_equal_values(case: Case, tmp_path: Path) -> None:
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    release = Path("/proc/sys/kernel/osrelease").read_text(encoding="ascii")
    if tuple(int(part) for part in release.split(".")[:2]) < (6, 4):
        pytest.skip(f"kernel {release.strip()} is one of those that the claims are refuted of")
    types = {name: row.number for name, row in RELEASES["6.12"].map_types.items()}
    error = SIGNED[case.failing.errno]
    with Live() as live:
        assert on_kernel(live, program(case, "6.12"), types) == (0, error, error)
        if CLANG is not None:
            assert on_kernel(live, compiled(case, tmp_path), types) == (0, error, error)


def test_check_writes_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    match = "dispatch/*/queue/map_p*"
    assert main(["check", "--kernel", "6.1", "--match", match, "--reproduce", str(tmp_path / "out")]) == 1
    assert "reproduce: " in capsys.readouterr().out
    names = ["6.1-x86_64-queue-map_peek_elem", "6.1-x86_64-queue-map_pop_elem", "6.1-x86_64-queue-map_push_elem"]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == names
    case = next(case for case in FOUND if case.name == names[1])
    for name, text in files(case, RELEASES["6.1"]).items():
        assert (tmp_path / "out" / names[1] / name).read_text(encoding="utf-8") == text
    readme = (tmp_path / "out" / names[1] / "README").read_text(encoding="utf-8")
    assert "kept    r0 = 0xfffffffffffffffe (-2)" in readme
    assert "direct  r0 = 0x00000000fffffffe (4294967294)" in readme


def test_nothing_to_reproduce(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--kernel", "6.12", "--match", "dispatch/*/queue/*", "--reproduce", str(tmp_path)]) == 0
    assert "no claim is refuted" in capsys.readouterr().out


def test_a_directory_that_cannot_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    match = "dispatch/*/queue/map_pop*"
    assert main(["check", "--kernel", "6.1", "--match", match, "--reproduce", str(tmp_path / "file")]) == 2
    assert capsys.readouterr().err.count("\n") == 1
