"""`live` on the running kernel: objects and text, what it says, and that nothing is left. Skipped without bpf(2)."""

import ctypes
import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from model.isa.insn import Insn
from model.kernel.data import load_release
from model.loaders import assembly, elf
from model.loaders.kernel_btf import running_types
from model.loaders.kernel_symbols import read_symbols
from model.loaders.live import Command, Live, why_not
from model.loaders.live_maps import map_id
from model.loaders.live_object import Kernel, Session
from model.program import MapRef, Program
from proofs.cli import main

pytestmark = pytest.mark.live
OBJECTS = Path(__file__).resolve().parents[1] / "data" / "objects"
LITTLE = ["map_calls.o", "for_each.o", "two_maps.o", "subprograms.o", "map_in_map.o", "queue_stack_bloom.o"]
SOME = """
.map h hash 4 8 4
.map a array 4 8 4
.program one tc
r1 = 1
*(u32 *)(r10 -4) = r1
r1 = map[h]
r2 = r10
r2 += -4
call map_lookup_elem
r0 = 0
exit
"""
GUARDS = """
.program divisions tc
r0 = 7
r2 = *(u32 *)(r10 -4)
r0 /= r2
w0 %= w2
r0 = 0
exit
.program nothing tc
r0 = 0
goto pc+0
exit
.program bounded tc
r0 = 0
r0 += 1
may_goto pc+1
goto pc-3
exit
.program packet socket
r6 = r1
r0 = *(u16 *)skb[12]
exit
"""


@pytest.fixture(autouse=True)
def permitted() -> None:
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)


@pytest.fixture(scope="module")
def kernel() -> Kernel:
    numbers = {name: row.number for name, row in load_release("newest").map_types.items()}
    return Kernel(running_types(), read_symbols(Path("/proc/kallsyms")), numbers)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    status = main(["live", *arguments])
    return status, capsys.readouterr().out


def test_the_kernel_does_what_the_model_says(capsys: pytest.CaptureFixture[str]) -> None:
    status, out = run(capsys, *(str(OBJECTS / name) for name in LITTLE))
    assert status in (0, 3), out
    assert "DIFFERS" not in out
    assert "not understood" not in out
    assert " 0 differ, 0 open, " in out
    assert "not loaded: " not in out


def test_what_other_passes_do_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "guards.asm"
    path.write_text(GUARDS.replace("r2 = *(u32 *)(r10 -4)", "r2 = *(u32 *)(r1 +0)"))
    _, out = run(capsys, "--verbose", str(path))
    assert "2 division guard: proved" in out
    assert "1 jump to the next instruction removed: proved" in out
    assert "1 bounded may_goto: unsupported" in out or "may_goto" not in out  # before 6.9 there is none
    assert "1 packet load: unsupported" in out
    assert "not understood" not in out


def test_a_refusal_is_counted_with_the_kernels_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bad.asm"
    path.write_text(".program bad tc\nr0 = r5\nexit\n.program good tc\nr0 = 0\nexit\n")
    status, out = run(capsys, str(path))
    assert "bad in tc: not loaded: load the program: EACCES (Permission denied): R5 !read_ok" in out
    assert "all: 2 programs: 1 proved, 0 refuted, 0 unknown, 0 unsupported; 1 not loaded" in out
    assert status == 0
    assert run(capsys, "--program", "bad", str(path))[0] == 3  # nothing was judged


def test_what_cannot_be_loaded_alone_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    _, out = run(capsys, str(OBJECTS / "arena_struct_ops.o"), str(OBJECTS / "map_calls.bpfeb.o"))
    assert "a program of a struct_ops map" in out
    if sys.byteorder == "little":
        assert "the object is big-endian, the kernel is not" in out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--program", "none", str(OBJECTS / "map_calls.o")], "expected a program in it"),
        ([str(OBJECTS / "map_calls.c")], "expected"),
        (["/nowhere/a.o"], "cannot"),
    ],
)
def test_bad_input_is_one_line(arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["live", *arguments]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert told in lines[0] or "No such file" in lines[0]


def test_places_are_the_kernels(kernel: Kernel) -> None:
    """An instruction that became four moves what is behind by three; a jump to the next one is gone."""
    text = GUARDS.replace("r2 = *(u32 *)(r10 -4)", "r2 = *(u32 *)(r1 +0)")
    found = assembly.load(text, "guards", load_release("newest").helper_ids)
    with Live() as live:
        session = Session(live, kernel, found)
        assert session.load(1).read.moved == (0, 1, 1, 2)
        read = session.load(0).read
        assert read.insns[read.moved[2] : read.moved[3]][-1] == Insn(0x3F, 0, 2)
        assert read.moved[3] - read.moved[2] == 4


def test_constants_of_rodata_decide_branches(kernel: Kernel) -> None:
    parts = elf.parts((OBJECTS / "global_data.o").read_bytes(), "global_data.o")
    with Live() as live:
        loaded = Session(live, kernel, parts.found, parts).load(0)
    assert [loaded.before.maps[number].name for number in loaded.frozen] == [".rodata"]


def identities(live: Live, loads: int, kernel: Kernel) -> Iterator[tuple[Command, int]]:
    """(command that opens it, the kernel's number) of each map and program of `loads` loads."""
    found = assembly.load(SOME, "some", load_release("newest").helper_ids)
    for _ in range(loads):
        session = Session(live, kernel, found)
        loaded = session.load(0)
        info = live_info(live, loaded.fd)
        yield Command.PROG_GET_FD_BY_ID, struct.unpack_from("=I", info, 4)[0]
        for number in used(loaded.before):
            assert session._maps is not None
            yield Command.MAP_GET_FD_BY_ID, map_id(live, session._maps.fd(number))


def used(program: Program) -> set[int]:
    return {ref.map for ref in program.refs.values() if isinstance(ref, MapRef)}


def live_info(live: Live, fd: int) -> bytes:
    info = ctypes.create_string_buffer(256)
    live.info(fd, info)
    return info.raw


def there(live: Live, command: Command, number: int) -> bool:
    fd, _ = live.call(command, struct.pack("=III", number, 0, 0))
    if fd >= 0:
        os.close(fd)
    return fd >= 0


def test_nothing_is_left_of_two_hundred_loads(kernel: Kernel) -> None:
    with Live() as live:
        made = list(identities(live, 200, kernel))
        assert len(made) == 400
        assert all(there(live, command, number) for command, number in made[-4:])
    left, until = made, time.monotonic() + 10
    with Live() as live:
        while left and time.monotonic() < until:  # the kernel frees them a little later
            left = [one for one in left if there(live, *one)]
    assert left == []


def test_ctrl_c_ends_with_a_summary_and_no_program(tmp_path: Path) -> None:
    path = tmp_path / "some.asm"
    path.write_text(SOME)
    command = [sys.executable, "-m", "proofs", "live", *[str(path)] * 2000]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "not all was looked at: interrupted" in out
    assert "Traceback" not in out
