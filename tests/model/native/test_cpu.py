"""The processor as the judge: generated C functions, compiled, followed, and then run with dirty upper halves.

What is said to be extended must be extended in rax on every run; an argument of which only the low half is said to be
used must not change the result by its upper half; and a compiler never relies on an upper half of an `int`.
"""

import ctypes
import platform
import shutil
import subprocess
from pathlib import Path
from random import Random
from typing import Any

import pytest

from model.kernel.abi import Upper
from model.kernel.release import CType
from model.loaders.kernel_image import KernelImage, open_image
from model.native.flow import Flow, Found
from proofs.abi_check import Code, result_code

pytest.importorskip("capstone")
from model.native.x86_decode import Decoder

INT, LONG = CType("int", 32, True), CType("long", 64, True)
FUNCTIONS, RUNS = 40, 24
LEAVES = (
    "b",
    "c",
    "p[0]",
    "p[c & 7]",
    "p[b & 3]",
    "-22",
    "0",
    "7",
    "(int)p[1]",
    "small[c & 7]",
    "q[b & 7]",
    "0x7fffffff",
)
BINARY = ("+", "-", "*", "&", "|", "^", "<", "==", ">")
CASTS = ("int", "unsigned", "long", "short", "signed char", "unsigned char")


def expression(random: Random, depth: int) -> str:
    if depth == 0 or random.random() < 0.15:
        return random.choice(LEAVES)
    one, two = expression(random, depth - 1), expression(random, depth - 1)
    match random.randrange(6):
        case 0:
            return f"({one} {random.choice(('<<', '>>'))} {random.randrange(1, 31)})"
        case 1:
            return f"(({random.choice(CASTS)})({one}))"
        case 2:
            return f"({one} ? {two} : {expression(random, depth - 1)})"
        case 3:
            return f"inner({one}, {two})"
    return f"({one} {random.choice(BINARY)} {two})"


def source(random: Random) -> str:
    head = (
        "typedef long i64; const signed char small[8] = {1, -1, 3, -4, 5, -60, 7, 8}; int q[8] = {9, -9, 8, -8};\n"
        "__attribute__((noinline)) static int inner(int x, int y) { return x > y ? x - 5 : y < 0 ? -16 : y; }\n"
    )
    lines = [head]
    for number in range(FUNCTIONS):
        result = "int" if number % 2 else "long"
        a, d = expression(random, 3), expression(random, 2)
        body = f"int r = {d}; if (b > {random.choice(('c', '3', 'r'))}) return -22; "
        if number % 3 == 0:
            body += f"for (int i = 0; i < (b & 7); i++) r += {expression(random, 1)}; "
        lines.append(f"{result} f{number}(const i64 *p, int b, unsigned c) {{ {body}return r ^ ({a}); }}")
    return "\n".join(lines)


def build(directory: Path, compiler: str, level: str, text: str) -> Path:
    (directory / "f.c").write_text(text)
    flags = [level, "-m64", "-fwrapv", "-w", "-fPIC", "-shared", "-nostdlib", "-fcf-protection=none"]
    subprocess.run([compiler, *flags, "-o", "f.so", "f.c"], cwd=directory, check=True)
    return directory / "f.so"


def follow(image: KernelImage, name: str, kind: CType) -> Found:
    flow = Flow(image, Decoder().step, lambda name: (32, 32) if name.startswith("inner") else None)
    return flow.function(image.symbols.places(name)[0], (1, 2), whole=kind is LONG)


@pytest.mark.parametrize("level", ["-O1", "-O2", "-Os", "-O0"])
@pytest.mark.parametrize("compiler", ["gcc", "clang-19"])
def test_what_is_told_is_what_the_processor_does(tmp_path: Path, compiler: str, level: str) -> None:
    if platform.machine() != "x86_64" or shutil.which(compiler) is None:
        pytest.skip(f"no x86-64, or no {compiler}")
    random = Random(f"{compiler}{level}")
    path = build(tmp_path, compiler, level, source(random))
    library = ctypes.CDLL(str(path))
    counts = dict.fromkeys(Code, 0)
    with open_image(path) as image:
        for number in range(FUNCTIONS):
            kind = INT if number % 2 else LONG
            found = follow(image, f"f{number}", kind)
            assert found.problems == ()
            assert [use for use in found.uses if use.sure] == []
            code, _ = result_code(kind, found, image, Upper.SIGN, handed=False)
            counts[code] += 1
            _run(library[f"f{number}"], random, kind, code, dirty=not found.uses)
    assert counts[Code.NOT_EXTENDED] >= 10
    assert counts[Code.EXTENDED] >= 1 or level == "-O0"


def _run(function: Any, random: Random, kind: CType, code: Code, *, dirty: bool) -> None:
    function.restype = ctypes.c_uint64
    function.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64]
    numbers = (ctypes.c_int64 * 8)(*(random.randrange(-(1 << 63), 1 << 63) for _ in range(8)))
    for _ in range(RUNS):
        low = [random.choice((0, 1, 5, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, random.randrange(1 << 32))) for _ in "bc"]
        high = [random.choice((0, 1, 0xFFFFFFFF, random.randrange(1 << 32))) << 32 if dirty else 0 for _ in "bc"]
        clean = function(ctypes.addressof(numbers), *low)
        other = function(ctypes.addressof(numbers), *(one | two for one, two in zip(low, high, strict=True)))
        mask = 0xFFFFFFFF if kind is INT else (1 << 64) - 1
        assert clean & mask == other & mask
        if code is Code.EXTENDED:
            assert other >> 31 in (0, (1 << 33) - 1)
