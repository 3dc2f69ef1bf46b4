"""`run`: programs in every form, what is printed, how it ends."""

import io
import sys
from pathlib import Path

import pytest

from proofs.cli import main

# Test files in the form of bpf_conformance; results by hand from RFC 9669.
CASES = {
    "add": "mov32 %r0, 0\nmov32 %r1, 2\nadd32 %r0, 1\nadd32 %r0, %r1\nadd32 %r0, %r0\nadd32 %r0, -3\nexit\n"
    "-- result\n0x3",
    "alu": "mov %r0, 0\nmov %r1, 1\nmov %r2, 2\nadd %r0, 23\nadd %r0, %r2\nsub %r0, 13\nsub %r0, %r1\nmul %r0, 7\n"
    "mul %r0, %r2\ndiv %r0, 2\ndiv %r0, %r2\nexit\n-- result\n0x26",
    "arsh32": "mov %r0, 0xf8\nlsh32 %r0, 28\narsh32 %r0, 16\nexit\n-- result\n0xffff8000",
    "be16": "ldxh %r0, [%r1]\nbe16 %r0\nexit\n-- mem\n11 22\n-- result\n0x1122",
    "be32 high": "ldxdw %r0, [%r1]\nbe32 %r0\nexit\n-- mem\n11 22 33 44 55 66 77 88\n-- result\n0x11223344",
    "swap64": "lddw %r0, 0x1122334455667788\nswap64 %r0\nexit\n-- result\n0x8877665544332211",
    "div by zero": "mov32 %r0, 1\nmov32 %r1, 0\ndiv32 %r0, %r1\nexit\n-- result\n0x0",
    "mod by zero": "lddw %r0, 0xffffffff00000007\nmov %r1, 0\nmod32 %r0, %r1\nexit\n-- result\n0x7",
    "sdiv": "lddw %r0, 0x8000000000000000\nmov %r1, -1\nsdiv %r0, %r1\nexit\n-- result\n0x8000000000000000",
    "smod32": "mov32 %r0, -13\nsmod32 %r0, 3\nexit\n-- result\n0xffffffff",
    "movsx": "mov %r1, 0x8f\nmovsx832 %r0, %r1\nexit\n-- result\n0xffffff8f",
    "jset": "mov32 %r0, 0\nmov32 %r1, 7\njset %r1, 8, +4\nmov32 %r0, 1\nmov32 %r1, 9\njset %r1, 8, +1\nmov32 %r0, 2\n"
    "exit\n-- result\n0x1",
    "jumps": "mov %r0, 0\nlddw %r1, 0xfffffffe00000001\njeq32 %r1, 1, next\nexit\nnext: jslt %r1, 0, last\nexit\n"
    "last: ja32 out\nmov %r0, 9\nout: mov %r0, 1\nexit\n-- result\n0x1",
    "prime": "mov %r1, 67\nmov %r0, 1\nmov %r2, 2\njgt %r1, 2, +4\nja +10\nadd %r2, 1\nmov %r0, 1\njge %r2, %r1, +7\n"
    "mov %r3, %r1\ndiv %r3, %r2\nmul %r3, %r2\nmov %r4, %r1\nsub %r4, %r3\nmov %r0, 0\njne %r4, 0, -10\nexit\n"
    "-- result\n0x1",
    "stack": "mov %r1, 51\nstdw [%r10-16], 0xab\nstdw [%r10-8], 0xcd\nand %r1, 1\nlsh %r1, 3\nmov %r2, %r10\n"
    "add %r2, %r1\nldxdw %r0, [%r2-16]\nexit\n-- result\n0xcd",
    "stores": "stb [%r1+1], 0x11\nsth [%r1+2], 0x2233\nstxw [%r1+4], %r2\nldxdw %r0, [%r1]\nexit\n-- mem\n"
    "ff ff ff ff ff ff ff ff\n-- result\n0x8223311ff",
    "signed loads": "ldxbsx %r0, [%r1+2]\nldxhsx %r3, [%r1]\nadd %r0, %r3\nexit\n-- mem\n01 80 ff\n-- result\n-32768",
    "lock": "mov %r0, 1\nstdw [%r10-8], 1\nmov %r1, 5\nlock cmpxchg [%r10-8], %r1\nlock fetch_add [%r10-8], %r1\n"
    "ldxdw %r0, [%r10-8]\nlsh %r0, 8\nor %r0, %r1\nexit\n-- result\n0xa05",
    "calls": "mov %r6, 1\nmov %r1, 4\ncall local fact\nadd %r0, %r6\nexit\nfact: mov %r0, 1\njle %r1, 1, out\n"
    "mov %r6, %r1\nsub %r1, 1\ncall local fact\nmul %r0, %r6\nout: exit\n-- result\n25",
    "length": "mov %r0, %r2\nexit\n-- mem\n00 01 02\n-- result\n3",
    "no memory": "mov %r0, %r1\nadd %r0, %r2\nexit\n-- result\n0",
    "helper": "call 5\nmov %r0, 2\nexit\n-- result\n0x2",
}


def run(*arguments: str) -> int:
    return main(["run", *arguments])


def file(tmp_path: Path, text: str | bytes, name: str = "t.asm") -> str:
    path = tmp_path / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return str(path)


@pytest.mark.parametrize("name", CASES)
def test_conformance_files(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = f"-- asm\n{CASES[name]}\n"
    assert run(file(tmp_path, text)) == 0, capsys.readouterr().err
    result = text.rpartition("\n-- result\n")[2].strip()
    assert int(capsys.readouterr().out, 16) == int(result, 0) % 2**64


def test_a_result_that_is_another(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(file(tmp_path, "-- asm\nmov %r0, 1\nexit\n-- result\n0x2\n")) == 1
    out, err = capsys.readouterr()
    assert out == "0x1\n"
    assert err.endswith("r0 is 0x1, the file's result is 0x2\n")


def test_a_file_that_demands_a_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(file(tmp_path, "-- asm\nmov %r0, 1\nexit\n-- error\nout of bounds\n")) == 1
    assert capsys.readouterr().err.endswith("r0 is 0x1, the file demands an error\n")
    assert run(file(tmp_path, "-- asm\nldxb %r0, [%r10]\nexit\n-- error pattern\nout of .*\n")) == 1
    assert "fault at 0" in capsys.readouterr().err


SLOTS = "b7000000050000009500000000000000"
FORMS = {
    "kernel": "0: (b7) r0 = 5\n1: (95) exit\n",
    "labels": "r0 = 4\ngoto out\nr0 = 9\nout:\nr0 += 1\nexit\n",
    "llvm": "r0 = 6; if r0 == 6 goto +1\nr0 = 0\nr0 -= 1; exit",
    "inline assembly": "r0 = 5;\nexit;\n",
    "comments of C": "/* five,\n in decimal */ r0 = 5\nexit\n",
    "w registers in memory": "*(u32 *)(r10 - 4) = 5\nw0 = *(u32 *)(r10 - 4)\nexit\n",
    "ubpf": "mov %r0, 5\nexit\n",
    "ubpf, other spelling": "\tMOV\tR0, 5 ; five\n\texit\n",
    "hex": SLOTS,
    "spaced hex": " ".join(SLOTS[i : i + 2] for i in range(0, len(SLOTS), 2)) + "\n",
    "prefixed hex": ", ".join("0x" + SLOTS[i : i + 2] for i in range(0, len(SLOTS), 2)),
    "raw section": "-- raw\n0x00000005000000b7\n0x0000000000000095\n",
    "raw section, short numbers": "-- raw\n0x5000000b7\n0x95\n-- result\n0X5\n",
    "may_goto first": "may_goto pc+1\nr0 = 5\nexit\n",
    "may_goto first, ubpf": "may_goto +1\nmov r0, 5\nexit\n",
    "goto first, ubpf": "gotol on\nmov r0, 4\nexit\non: mov r0, 5\ngoto out\nout: exit\n",
    "call local, the kernel's syntax": "call local f\nexit\nf: r0 = 5\nexit\n",
}


@pytest.mark.parametrize("form", FORMS)
def test_what_a_text_holds_is_told_by_its_contents(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(file(tmp_path, FORMS[form])) == 0, capsys.readouterr().err
    assert capsys.readouterr().out == "0x5\n"


def test_bytes_of_instructions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(file(tmp_path, bytes.fromhex(SLOTS), "t.bin")) == 0
    assert run("--raw", file(tmp_path, bytes.fromhex(SLOTS), "t")) == 0
    assert run(file(tmp_path, bytes.fromhex(SLOTS), "t.asm")) == 0
    assert capsys.readouterr().out == "0x5\n" * 3


def test_standard_input_and_memory(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    program = "71100100000000009500000000000000"  # r0 = *(u8 *)(r1 +1)
    for arguments in (["--mem", "aabb"], ["aa bb"], ["--mem", "0xaa,0xbb"]):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(program.encode())))
        assert run("-", *arguments) == 0
    assert capsys.readouterr().out == "0xbb\n0xbb\n0xbb\n"


def test_memory_given_wins_over_the_files_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = file(tmp_path, "-- asm\nldxb %r0, [%r1]\nexit\n-- mem\n11\n")
    assert run(path) == 0
    assert run(path, "--mem", "22") == 0
    assert capsys.readouterr().out == "0x11\n0x22\n"


def test_a_kernel_listing_has_wide_loads_where_llvm_has_moves(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "r0 = 0xffffffff\nexit"
    assert run(file(tmp_path, text)) == 0
    assert run("--format", "llvm", file(tmp_path, text)) == 0
    assert capsys.readouterr().out == "0xffffffff\n0xffffffffffffffff\n"


def test_a_fault_is_one_line_that_names_the_instruction(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(file(tmp_path, "r1 = 0\nr0 = *(u32 *)(r1 +8)\nexit")) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert err.endswith("fault at 1: r0 = *(u32 *)(r1 +8): 4 bytes at 0x8: null pointer + 8 (line 2)\n")


def test_the_step_limit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(file(tmp_path, "goto pc-1"), "--steps", "1000") == 1
    assert "step limit: no end after 1,000 instructions, next is 0: goto pc-1" in capsys.readouterr().err


def test_a_trace_goes_to_standard_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(file(tmp_path, "r0 = 5\nr0 += 1\nexit"), "--trace") == 0
    out, err = capsys.readouterr()
    assert out == "0x6\n"
    assert [line.split() for line in err.splitlines()] == [
        ["0:", "r0", "=", "5", "r0", "=", "0x5"],
        ["1:", "r0", "+=", "1", "r0", "=", "0x6"],
        ["2:", "exit"],
    ]


def test_what_the_model_does_not_know(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(file(tmp_path, "r1 = 1\ngotox r1\nexit")) == 3
    assert capsys.readouterr().err == "bpf-devirt: unsupported: no meaning for {JA, X, JMP}\n"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (".map m devmap 4 4 1\nr1 = map[m]\nexit", "maps of type devmap are not modelled"),
        (".map m nosuch 4 4 1\nr1 = map[m]\nexit", "map m: 7.3 has no maps of type nosuch"),
        (".map m lru_hash 4 4 1 flags=2\nr1 = map[m]\nexit", "an LRU list per CPU (BPF_F_NO_COMMON_LRU)"),
        (".map m array 4 8 1\ncall 14\nexit", "what helper 14 of 7.3 does is not modelled"),
        ("r1 = 0\ncall 1\nexit", "helper 1 without a kernel that has it"),
        ("r1 = 0\nr2 = 0\nr3 = 0\ncall 12\nexit", "tail calls without a kernel that has program arrays"),
    ],
)
def test_what_needs_a_kernel_with_maps(
    text: str, what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(file(tmp_path, text)) == 3
    assert capsys.readouterr().err == f"bpf-devirt: unsupported: {what}\n"


def test_a_fault_in_an_object_names_the_source_line(capsys: pytest.CaptureFixture[str]) -> None:
    path = Path(__file__).resolve().parent.parent / "data" / "objects" / "global_data.o"
    assert run(str(path)) == 1
    assert capsys.readouterr().err.endswith("null pointer + 16 (./global_data.c:15)\n")


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        ("", [], "expected a program, found nothing"),
        ("frob\n", [], "line 1: "),
        ("b7", [], "instructions in whole slots of 8 bytes, found 1 bytes"),
        ("ff00000000000000", [], "unknown opcode 0xff"),
        ("3700020001000000" + SLOTS, [], "offset is 2, not 0 or 1"),
        ("0500050000000000", [], "slot 0: expected a target inside of the program's 1 slots, found slot 6"),
        ("r0 = 0\nexit", ["--mem", "0"], "--mem: bytes in hex, two digits each, found '0'"),
        ("r0 = 0\nexit", ["--mem", "zz"], "--mem: bytes in hex"),
        ("r0 = 0\nexit", ["00", "--mem", "00"], "--mem: expected the memory once"),
        ("\xff".encode("latin-1"), [], "expected text in UTF-8"),
        ("goto nowhere\nexit", [], "line 1: "),
        ("mov %r0, 1\ncallx %r0\nexit", [], "line 2: a valid instruction, found 'callx %r0': unknown opcode 0x8d"),
        (bytes(7), [], "instructions in whole slots of 8 bytes, found 7 bytes"),
        ("-- asm\nexit\n-- result\n18446744073709551616", [], "section result: a number of 64 bits"),
        ("-- asm\nexit\n-- result\n-9223372036854775809", [], "section result: a number of 64 bits"),
    ],
)
def test_bad_input_is_one_line_and_exit_status_2(
    text: str | bytes, arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(file(tmp_path, text), *arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert message in err


def test_a_file_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("/nonexistent/file") == 2
    assert "No such file" in capsys.readouterr().err


@pytest.mark.parametrize("steps", ["0", "-1", "many", "99999999999999"])
def test_step_limits_that_are_none(steps: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        run("-", "--steps", steps)
    assert left.value.code == 2
    assert "expected a number of instructions" in capsys.readouterr().err or steps == "-1"


MAPS = """
.map counts hash 4 8 2
*(u32 *)(r10 -4) = 7
*(u64 *)(r10 -16) = 40
r1 = map[counts]
r2 = r10
r2 += -4
r3 = r10
r3 += -16
r4 = 0
call map_update_elem
r1 = map[counts]
r2 = r10
r2 += -4
call map_lookup_elem
if r0 == 0 goto out
r1 = *(u64 *)(r0 +0)
r1 += 2
r0 = r1
out:
exit
"""


@pytest.mark.parametrize("release", ["5.10", "6.1", "newest"])
def test_maps(release: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(file(tmp_path, MAPS), "--kernel", release) == 0
    assert capsys.readouterr().out == "0x2a\n"


def test_a_map_that_cannot_be_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(file(tmp_path, MAPS.replace("hash 4 8 2", "hash 4 0 2"))) == 3
    assert "map counts, which the kernel refuses to create (-EINVAL)" in capsys.readouterr().err


def test_a_lookup_past_the_value_is_a_fault(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(file(tmp_path, MAPS.replace("*(u64 *)(r0 +0)", "*(u64 *)(r0 +4)"))) == 1
    assert "out of bounds: offset 60 in element 0 of counts of 64 bytes" in capsys.readouterr().err
