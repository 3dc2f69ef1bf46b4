"""abi-check on kernels whose functions are known: hand-assembled, and compiled from C; and on the running kernel."""

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from kernel_writer import kernel

from model.errors import Unsupported
from model.kernel.abi import ABIS, Abi, Extension
from model.kernel.data import load_release
from model.loaders.kernel_image import open_image
from model.loaders.live import why_not
from proofs.abi_check import Agreement, Code, Row, check
from proofs.cli import main

pytest.importorskip("capstone")
X86 = ABIS["x86_64"]

# 6.1: operations return int. A helper that calls what rax points to, and extends or does not.
EXTENDS = bytes.fromhex("ff d0 48 98 c3")  # call rax; cdqe; ret
HANDS_ON = bytes.fromhex("ff e0")  # jmp rax
MINUS_22 = bytes.fromhex("b8 ea ff ff ff c3")  # mov eax, -22; ret
MINUS_22_WIDE = bytes.fromhex("48 c7 c0 ea ff ff ff c3")  # mov rax, -22; ret
CPU_LOW = bytes.fromhex("89 d2 48 8b 04 d6 c3")  # mov edx, edx; mov rax, [rsi+rdx*8]; ret
CPU_WHOLE = bytes.fromhex("48 8b 04 d6 c3")  # mov rax, [rsi+rdx*8]; ret


def rows(tmp_path: Path, functions: dict[str, bytes], abi: Abi = X86, release: str = "6.1") -> list[Row]:
    path = tmp_path / "vmlinux"
    path.write_bytes(kernel(functions))
    with open_image(path) as image:
        found = list(check(load_release(release), abi, image))
    return [row for row in found if row.agreement is not Agreement.NOT_THERE]


@pytest.mark.parametrize(
    ("name", "text", "result", "code", "agreement"),
    [
        ("htab_map_delete_elem", MINUS_22, Extension.NOBODY, Code.NOT_EXTENDED, Agreement.AGREES),
        ("htab_map_delete_elem", MINUS_22_WIDE, Extension.NOBODY, Code.EXTENDED, Agreement.AGREES),
        ("htab_map_delete_elem", MINUS_22, Extension.BY_TYPE, Code.NOT_EXTENDED, Agreement.CONTRADICTS),
        ("htab_map_delete_elem", MINUS_22, Extension.SIGN, Code.NOT_EXTENDED, Agreement.CONTRADICTS),
        ("htab_map_delete_elem", MINUS_22_WIDE, Extension.SIGN, Code.EXTENDED, Agreement.AGREES),
        ("bpf_map_delete_elem", EXTENDS, Extension.NOBODY, Code.EXTENDED, Agreement.AGREES),
        ("bpf_map_delete_elem", HANDS_ON, Extension.NOBODY, Code.NOT_EXTENDED, Agreement.CONTRADICTS),
        ("bpf_map_delete_elem", HANDS_ON, Extension.SIGN, Code.EXTENDED, Agreement.AGREES),
        ("htab_map_delete_elem", HANDS_ON, Extension.NOBODY, Code.UNKNOWN, Agreement.CANNOT_TELL),
        ("htab_map_delete_elem", b"\x8b\x07\xc3", Extension.NOBODY, Code.NARROW, Agreement.AGREES),
        ("htab_map_delete_elem", b"\x8b\x07\xc3", Extension.SIGN, Code.NARROW, Agreement.CANNOT_TELL),
    ],
)
def test_results(tmp_path: Path, name: str, text: bytes, result: Extension, code: Code, agreement: Agreement) -> None:
    (row,) = rows(tmp_path, {name: text}, replace(X86, result=result))
    assert (row.part, row.type.c, row.code, row.agreement) == ("result", "int", code, agreement)


@pytest.mark.parametrize(
    ("text", "rule", "code", "agreement"),
    [
        (CPU_LOW, Extension.NOBODY, Code.LOW_HALF, Agreement.AGREES),
        (CPU_WHOLE, Extension.NOBODY, Code.RELIES, Agreement.CONTRADICTS),
        (CPU_WHOLE, Extension.BY_TYPE, Code.RELIES, Agreement.AGREES),
    ],
)
def test_arguments(tmp_path: Path, text: bytes, rule: Extension, code: Code, agreement: Agreement) -> None:
    found = rows(tmp_path, {"htab_percpu_map_lookup_percpu_elem": text}, replace(X86, argument=rule))
    (row,) = [row for row in found if row.part != "result"]
    assert (row.part, row.type.c, row.code, row.agreement) == ("argument 3", "u32", code, agreement)


def test_a_long_has_nothing_above_it(tmp_path: Path) -> None:
    (row,) = rows(tmp_path, {"htab_map_delete_elem": MINUS_22_WIDE}, release="6.12")
    assert (row.code, row.agreement) == (Code.WHOLE, Agreement.AGREES)


def test_half_an_error_in_a_long_is_told(tmp_path: Path) -> None:
    (row,) = rows(tmp_path, {"htab_map_delete_elem": MINUS_22}, release="6.12")
    assert (row.code, row.agreement) == (Code.NOT_EXTENDED, Agreement.CANNOT_TELL)
    assert row.why == "0x00000000ffffffea from htab_map_delete_elem+0x0, in 64 bits"
    (row,) = rows(tmp_path, {"htab_map_lookup_elem": MINUS_22}, release="6.12")
    assert row.code is Code.WHOLE  # a pointer may be anything


def test_other_machines_are_unsupported_by_name(tmp_path: Path) -> None:
    path = tmp_path / "vmlinux"
    path.write_bytes(kernel({}, machine=183))
    with open_image(path) as image, pytest.raises(Unsupported, match="machine code of arm64"):
        list(check(load_release("6.1"), ABIS["arm64"], image))


SOURCE = r"""
typedef unsigned int u32; typedef unsigned long u64;
struct map { long (*wide)(struct map *); int (*narrow)(struct map *, void *); int value; u64 many[]; };
const char linux_banner[] = "Linux version 6.1.99 (gcc)";
u64 bpf_map_delete_elem(u64 a, u64 b) { struct map *m = (void *)a; return m->narrow(m, (void *)b); }
int htab_map_delete_elem(struct map *m, void *key) { return m->value ? -22 : 0; }
__attribute__((noinline)) static int inner(struct map *m) { return m->value > 7 ? -16 : 3; }
int queue_map_pop_elem(struct map *m, void *v) { int r = inner(m); return r ? r : 5; }
int stack_map_pop_elem(struct map *m, void *v) { return m->value & 15; }
int trie_delete_elem(struct map *m, void *key) { return m->value; }
u64 *htab_percpu_map_lookup_percpu_elem(struct map *m, void *key, u32 cpu) { return cpu < 99 ? &m->many[cpu] : 0; }
u64 *percpu_array_map_lookup_percpu_elem(struct map *m, void *key, u64 cpu) { return &m->many[cpu]; }
"""
EXPECTED = {
    ("bpf_map_delete_elem", "result"): Code.EXTENDED,
    ("htab_map_delete_elem", "result"): Code.NOT_EXTENDED,
    ("queue_map_pop_elem", "result"): Code.NOT_EXTENDED,
    ("stack_map_pop_elem", "result"): Code.EXTENDED,
    ("trie_delete_elem", "result"): Code.NARROW,
    ("htab_percpu_map_lookup_percpu_elem", "argument 3"): Code.LOW_HALF,
    ("percpu_array_map_lookup_percpu_elem", "argument 3"): Code.RELIES,  # compiled from another prototype: u64
}


@pytest.mark.parametrize("level", ["-O1", "-O2", "-Os"])
@pytest.mark.parametrize("compiler", ["gcc", "clang-19"])
def test_compiled_code(tmp_path: Path, compiler: str, level: str) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    (tmp_path / "k.c").write_text(SOURCE)
    flags = [level, "-m64", "-ffreestanding", "-fno-pic", "-fno-stack-protector", "-fcf-protection=none"]
    linked = ["-nostdlib", "-static", "-no-pie", "-Wl,-e,0", "-w", "-o", "vmlinux", "k.c"]
    made = subprocess.run([compiler, *flags, *linked], cwd=tmp_path, capture_output=True, text=True, check=False)
    if made.returncode and "k.c" not in made.stderr:
        pytest.skip(f"{compiler} does not link for x86-64 here: {made.stderr.splitlines()[-1]}")
    assert made.returncode == 0, made.stderr
    with open_image(tmp_path / "vmlinux") as image:
        assert image.version() == "6.1.99"
        found = list(check(load_release("6.1"), X86, image))
    codes = {(row.subject.name, row.part): row.code for row in found if row.agreement is not Agreement.NOT_THERE}
    assert {key: code for key, code in codes.items() if code is not Code.WHOLE} == EXPECTED


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = int(main(["abi-check", *arguments]))
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "vmlinux"
    path.write_bytes(kernel({"htab_map_delete_elem": MINUS_22, "bpf_map_delete_elem": EXTENDS}))
    status, out, _ = run(capsys, str(path))
    assert status == 0
    assert "functions of 6.1, prototypes from release 6.1" in out
    assert "not extended: 0x00000000ffffffea from htab_map_delete_elem+0x0" in out
    assert "operations, int result: 1 not extended\n" in out
    assert "\n2 agrees, 0 contradicts, 0 cannot tell, " in out
    path.write_bytes(kernel({"bpf_map_delete_elem": HANDS_ON}))
    assert run(capsys, str(path))[0] == 1
    path.write_bytes(kernel({"htab_map_delete_elem": HANDS_ON}))
    assert run(capsys, str(path))[0] == 3
    path.write_bytes(kernel({}))
    assert run(capsys, str(path))[0] == 3  # nothing was looked at


def test_command_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "vmlinux"
    path.write_bytes(kernel({}, version="of the future"))
    assert run(capsys)[0] == 2
    assert run(capsys, "--running", str(path))[0] == 2
    assert run(capsys, str(tmp_path))[0] == 2
    status, out, error = run(capsys, str(path))
    assert (status, out) == (2, "")
    assert error.endswith("vmlinux: expected a version in its banner, or --kernel RELEASE\n")
    path.write_bytes(kernel({}, machine=183))
    status, out, error = run(capsys, "--kernel", "6.1", str(path))
    assert (status, out) == (3, "")
    assert error == "bpf-devirt: unsupported: machine code of arm64 (there is x86_64)\n"
    path.write_bytes(kernel({}))
    monkeypatch.setitem(sys.modules, "capstone", None)
    status, out, error = run(capsys, str(path))
    assert (status, out) == (2, "")
    assert error == (
        "bpf-devirt: abi-check: expected capstone, which is not installed: pip install 'bpf-devirt[abi]'\n"
    )


@pytest.mark.slow
@pytest.mark.live
def test_the_running_kernel(capsys: pytest.CaptureFixture[str]) -> None:
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    status, out, _ = run(capsys, "--running")
    if status == 3 and not out:
        pytest.skip("no machine code of this machine is read")
    assert "helpers, u32 argument: 1 low half only" in out
    assert " 0 contradicts, " in out
