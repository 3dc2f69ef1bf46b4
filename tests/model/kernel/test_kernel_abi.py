"""The ABI rows against the documents' rules, and against what clang makes of tiny functions where it is there."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from model.errors import Unsupported
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


def test_where_a_compiler_goes_beyond_the_document_nothing_is_claimed() -> None:
    """The psABI leaves an 8- or 16-bit argument's upper bits open, clang's callees read 32 bits of it."""
    assert {name: row.relied_below for name, row in ABIS.items() if row.relied_below} == {"x86_64": 32}
    for kind in (SHORT, BYTE):
        with pytest.raises(Unsupported, match="x86_64: an argument of fewer than 32 bits: clang takes it for extended"):
            ABIS["x86_64"].rules([INT, kind], [])
        assert ABIS["x86_64"].rules([INT, LONG], [kind]).result is Extension.NOBODY
        assert ABIS["arm64"].rules([kind], []).argument is Extension.NOBODY
        assert ABIS["s390x"].rules([kind], []).argument is Extension.BY_TYPE


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
TYPES = {
    "bool": CType("_Bool", 8, False),
    "s8": CType("signed char", 8, True),
    "u8": CType("unsigned char", 8, False),
    "s16": CType("short", 16, True),
    "u16": CType("unsigned short", 16, False),
    "s32": CType("int", 32, True),
    "u32": CType("unsigned", 32, False),
}
SNIPPET = """
{c} give_{n}(void); void take_{n}({c});
{c} out_{n}(long x) {{ return x; }}
void hand_{n}(long x) {{ take_{n}(x); }}
long in_{n}({c} x) {{ return x; }}
long got_{n}(void) {{ return give_{n}(); }}
"""
# clang extends these to 32 bits as a caller, and takes them for extended as a callee, although the psABI only says so
# of _Bool, and to 8 bits. What is above 32 bits is anything, as the row has it.
BEYOND_THE_DOCUMENT = {("x86_64", name) for name in ("bool", "s8", "u8", "s16", "u16")}
# The MIPS back end sign-extends an int result that is extended already.
TWICE = {("mips64", "got", "s32")}


def compiled(name: str, folder: Path, *options: str) -> str:
    """What clang makes of the snippets for the ABI; skips where it cannot."""
    clang = next((path for path in map(shutil.which, ("clang-19", "clang")) if path), None)
    if clang is None:
        pytest.skip("no clang")
    (folder / "f.c").write_text("".join(SNIPPET.format(n=n, c=kind.c) for n, kind in TYPES.items()))
    command = [clang, f"--target={EXTENDING[name][0]}", "-O2", "-S", "-fno-asynchronous-unwind-tables", "-w", *options]
    done = subprocess.run(
        [*command, "-o", "-", "f.c"], cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )
    if done.returncode:
        pytest.skip(f"{clang} has no back end for {EXTENDING[name][0]}")
    return done.stdout


def extension(name: str, body: str) -> Upper:
    """What the instructions of a function set the upper half of a register to."""
    _, sign, zero = EXTENDING[name]
    seen = Upper.SIGN if re.search(sign, body, re.MULTILINE) else Upper.ANY
    return Upper.ZERO if re.search(zero, body, re.MULTILINE) else seen


@pytest.mark.parametrize("name", RULES)
def test_clang_extends_where_the_row_says(name: str, tmp_path: Path) -> None:
    """Who hands over (a caller's argument, a callee's result) sets what the row says and no more; who takes converts
    what the row does not give."""
    text = compiled(name, tmp_path)
    for kind in ("s32", "u32"):
        converted = Upper.SIGN if TYPES[kind].signed else Upper.ZERO
        for giver, taker, rule in (("hand", "in", ABIS[name].argument), ("out", "got", ABIS[name].result)):
            there = upper_bits(rule, TYPES[kind])
            left = Upper.ANY if there is converted else converted
            for place, expected in ((giver, there), (taker, left)):
                body = re.search(rf"(?ms)^{place}_{kind}:(.*?)(?=^\w+:|\Z)", text)
                assert body is not None
                if (name, place, kind) not in TWICE:
                    assert extension(name, body[1]) is expected, (place, kind, body[1])


@pytest.mark.parametrize("name", RULES)
def test_clang_knows_the_row_for_each_type(name: str, tmp_path: Path) -> None:
    """The attributes of parameters and results (signext, zeroext) in clang's own language, declared and defined."""
    text = compiled(name, tmp_path, "-emit-llvm")
    for kind, c in TYPES.items():
        for rule, pattern in (
            (ABIS[name].result, rf"^declare (.*?)@give_{kind}\("),
            (ABIS[name].result, rf"^define (.*?)@out_{kind}\("),
            (ABIS[name].argument, rf"^declare void @take_{kind}\((.*?)\)"),
            (ABIS[name].argument, rf"^define .*?@in_{kind}\((.*?)\)"),
        ):
            found = re.search(pattern, text, re.MULTILINE)
            assert found is not None
            words = re.findall("signext|zeroext", found[1])
            seen = {"signext": Upper.SIGN, "zeroext": Upper.ZERO}[words[0]] if words else Upper.ANY
            if (name, kind) in BEYOND_THE_DOCUMENT:
                assert c.bits < ABIS[name].relied_below
                assert seen is (Upper.SIGN if c.signed else Upper.ZERO)
                assert upper_bits(rule, c) is Upper.ANY
            else:
                assert seen is upper_bits(rule, c), (kind, pattern)


# Where each JIT handles BPF_CALL: the file, and by release the line of the case.
JITS = {
    "x86_64": ("x86/net/bpf_jit_comp.c", {"5.10": 1251, "6.1": 1537, "6.12": 2176, "7.3": 2647}),
    "arm64": ("arm64/net/bpf_jit_comp.c", {"5.10": 759, "6.1": 1129, "6.12": 1403, "7.3": 1688}),
    "riscv64": ("riscv/net/bpf_jit_comp64.c", {"5.10": 844, "6.1": 1026, "6.12": 1583, "7.3": 1804}),
    "s390x": ("s390/net/bpf_jit_comp.c", {"5.10": 1269, "6.1": 1300, "6.12": 1785, "7.3": 1820}),
    "ppc64le": ("powerpc/net/bpf_jit_comp64.c", {"5.10": 840, "6.1": 984, "6.12": 1171, "7.3": 1751}),
    "loongarch64": ("loongarch/net/bpf_jit.c", {"6.1": 769, "6.12": 889, "7.3": 1152}),
    "mips64": ("mips/net/bpf_jit_comp64.c", {"6.1": 1038, "6.12": 1041, "7.3": 1041}),
    "sparc64": ("sparc/net/bpf_jit_comp_64.c", {"5.10": 1214, "6.1": 1214, "6.12": 1214, "7.3": 1214}),
}
EXTENDS = re.compile(r"\b(sign_extend|sign_zero_extend|emit_abi_ext|prepare_for_kfunc_call|emit_[sz]extw|ext_32)\(")


@pytest.mark.parametrize("name", JITS)
def test_the_jits_extend_for_kfuncs_only(name: str) -> None:
    """In the case of BPF_CALL, every call of a function that extends stands in a block for BPF_PSEUDO_KFUNC_CALL."""
    trees = os.environ.get("KERNEL_TREES")
    if not trees:
        pytest.skip("KERNEL_TREES is not set: no kernel source trees to read")
    file, lines = JITS[name]
    for release, line in lines.items():
        text = (Path(trees) / f"linux-source-{release}" / "arch" / file).read_text().splitlines()
        assert "BPF_JMP | BPF_CALL:" in text[line - 1]
        end = next(i for i in range(line, len(text)) if re.match(r"\s*case BPF_JMP", text[i]))
        for number in range(line, end):
            if EXTENDS.search(text[number]):
                before = text[line:number]
                assert any("BPF_PSEUDO_KFUNC_CALL" in one for one in before[-14:]), (release, text[number])
        if ABIS[name].jit.source.startswith(file):
            cited = re.findall(rf"{re.escape(release)}:(\d+)", ABIS[name].jit.source)
            assert all(line - 1 <= int(one) <= end + 1 for one in cited) or name == "mips64"
