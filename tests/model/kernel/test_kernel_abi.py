"""The ABI rows against the documents' rules, and against what clang makes of tiny functions where it is there."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from model.kernel.abi import ABIS, Extension, Upper, upper_bits
from model.kernel.release import CType

INT, UNSIGNED, LONG = CType("int", 32, True), CType("u32", 32, False), CType("long", 64, True)
SHORT, BYTE = CType("short", 16, True), CType("u8", 8, False)

# ABI.md's table: rule for arguments and results, then what is above an int, an unsigned int, a short, a byte.
RULES = {
    "x86_64": (Extension.NOBODY, "any any any any"),
    "arm64": (Extension.NOBODY, "any any any any"),
    "riscv64": (Extension.SIGN, "sign sign sign zero"),
    "s390x": (Extension.BY_TYPE, "sign zero sign zero"),
    "ppc64le": (Extension.BY_TYPE, "sign zero sign zero"),
    "loongarch64": (Extension.SIGN, "sign sign sign zero"),
    "mips64": (Extension.SIGN, "sign sign sign zero"),
    "sparc64": (Extension.BY_TYPE, "sign zero sign zero"),
}


def test_eight_rows() -> None:
    assert {name: row.argument for name, row in ABIS.items()} == {name: rule for name, (rule, _) in RULES.items()}
    assert all(row.result is row.argument and row.name == name for name, row in ABIS.items())
    assert all(row.document and row.evidence and row.jit.source for row in ABIS.values())


def test_no_jit_extends_for_helper_calls() -> None:
    assert not any(row.jit.extends_arguments or row.jit.extends_result for row in ABIS.values())


@pytest.mark.parametrize("name", RULES)
def test_upper_bits(name: str) -> None:
    found = [upper_bits(ABIS[name].argument, kind).value for kind in (INT, UNSIGNED, SHORT, BYTE)]
    assert " ".join(found) == RULES[name][1]


def test_nothing_is_above_64_bits() -> None:
    with pytest.raises(ValueError, match="nothing is above it"):
        upper_bits(Extension.NOBODY, LONG)
    with pytest.raises(ValueError, match="void has 0 bits"):
        upper_bits(Extension.SIGN, CType("void", 0, False))
    assert upper_bits(Extension.SIGN, UNSIGNED) is Upper.SIGN


# Instructions that set the bits above 32, by what they leave there; the rest of a function's body says nothing.
EXTENDING = {
    "x86_64": ("x86_64-linux-gnu", r"\b(movslq|cltq)\b", r"\bmovl\s"),
    "arm64": ("aarch64-linux-gnu", r"\bsxtw\b", r"\bmov\s+w0"),
    "riscv64": ("riscv64-linux-gnu", r"\bsext\.w\b", r"\bsrli\b.*32"),
    "s390x": ("s390x-linux-gnu", r"\blgfr\b", r"\bllgfr\b"),
    "ppc64le": ("powerpc64le-linux-gnu", r"\bextsw\b", r"\bclrldi\b.*32"),
    "loongarch64": ("loongarch64-linux-gnu", r"\baddi\.w\b", r"\bbstrpick\.d\b"),
    "mips64": ("mips64el-linux-gnuabi64", r"\bsll\b.*, 0$", r"\bdext\b"),
    "sparc64": ("sparc64-linux-gnu", r"\bsra\b.*, 0,", r"\bsrl\b.*, 0,"),
}
SOURCE = """
void take_int(int); void take_u32(unsigned);
int ret_int(long x) { return x; }
unsigned ret_u32(long x) { return x; }
void arg_int(long x) { take_int(x); }
void arg_u32(long x) { take_u32(x); }
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", RULES)
def test_clang_extends_where_the_row_says(name: str, tmp_path: Path) -> None:
    clang = next((path for path in map(shutil.which, ("clang-19", "clang")) if path), None)
    if clang is None:
        pytest.skip("no clang")
    target, sign, zero = EXTENDING[name]
    (tmp_path / "f.c").write_text(SOURCE)
    command = [clang, f"--target={target}", "-O2", "-S", "-fno-asynchronous-unwind-tables", "-w", "-o", "-", "f.c"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        pytest.skip(f"{clang} has no back end for {target}")
    for place, rule in (("ret", ABIS[name].result), ("arg", ABIS[name].argument)):
        for kind, c in (("int", INT), ("u32", UNSIGNED)):
            body = re.search(rf"(?ms)^{place}_{kind}:(.*?)(?=^\w+:|\Z)", done.stdout)
            assert body is not None
            seen = Upper.SIGN if re.search(sign, body[1], re.MULTILINE) else Upper.ANY
            seen = Upper.ZERO if re.search(zero, body[1], re.MULTILINE) else seen
            assert seen is upper_bits(rule, c), (place, kind, body[1])
