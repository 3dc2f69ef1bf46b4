"""The table of forms against the running kernel: what it calls valid, and what it prints back.

Each slot is loaded in a socket filter of its own, never attached. Refusals for other reasons than the
encoding (uninitialised pointers, program type) count as valid encoding.
"""

import ctypes
import os
import platform
import random
import struct
from dataclasses import replace

import pytest

from model.isa.codec import check, decode, encode, form_of
from model.isa.forms import OBJECT_FORMS, Form, Values
from model.isa.insn import Insn

pytestmark = pytest.mark.live

SYS_BPF = 321
PROG_LOAD = 5
SOCKET_FILTER = 1
ENCODING = (
    "reserved fields",
    "unknown opcode",
    "R11 is invalid",
    "R15 is invalid",
    "invalid BPF_ALU opcode",
    "invalid BPF_LD mode",
    "invalid bpf_ld_imm64",
    "unrecognized bpf_ld_imm64",
    "invalid BPF_LD_IMM",
    "invalid atomic opcode",
    "invalid atomic operand size",
    "invalid may_goto",
    "addr_space_cast insn can only convert",
    "frame pointer is read only",
)
"""Parts of the verifier's messages that refuse a slot for its fields (kernel/bpf/verifier.c, 6.12 and 7.3)."""

LAX = {"{EXIT, K, JMP}": "off", "{IMM, DW, LD} 4": "high", "{CALL, K, JMP} 2": "off"}
"""Fields that this model reserves and the kernel does not look at, or looks at later, with another message."""

NEWER = {"{JA, X, JMP}", "{MEM, DW, LDX} argument", "{MEM, DW, STX} argument", "{MEM, DW, ST} argument"}
"""Forms that came after 6.18."""


def load(data: bytes) -> tuple[int, str]:
    """(0, "") when the program loads, else errno and the verifier's log. The program is freed at once."""
    log = ctypes.create_string_buffer(1 << 16)
    insns = ctypes.create_string_buffer(data, len(data))
    license_ = ctypes.create_string_buffer(b"GPL")
    attr = struct.pack(
        "<IIQQIIQ",
        SOCKET_FILTER,
        len(data) // 8,
        ctypes.addressof(insns),
        ctypes.addressof(license_),
        1,
        len(log),
        ctypes.addressof(log),
    ).ljust(128, b"\0")
    buffer = ctypes.create_string_buffer(attr, len(attr))
    libc = ctypes.CDLL(None, use_errno=True)
    fd = libc.syscall(SYS_BPF, PROG_LOAD, ctypes.byref(buffer), len(attr))
    if fd >= 0:
        os.close(fd)
        return 0, ""
    return ctypes.get_errno(), log.value.decode(errors="replace")


@pytest.fixture(scope="module", autouse=True)
def permitted() -> None:
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        pytest.skip("asks a Linux kernel on x86-64")
    errno, _ = load(bytes.fromhex("b700000000000000 9500000000000000"))
    if errno:
        pytest.skip(f"bpf(2) refuses a program of two instructions: {os.strerror(errno)}")
    if tuple(int(part) for part in platform.release().split(".")[:2]) < (6, 15):
        pytest.skip(f"kernel {platform.release()} is older than 6.15 and lacks forms")


START = (
    Insn(0xBF, 6, 1),
    Insn(0x7A, 10, 0, -8),
    *(Insn(0xB7, register, imm=1) for register in (0, 2, 3, 4, 5, 7, 8, 9)),
)
END = (Insn(0xB7, imm=0), Insn(0xB7, imm=0), Insn(0x95))


def around(insns: tuple[Insn, ...]) -> bytes:
    """A program that runs into `insns` with registers and the top of the stack set, and two slots to jump over."""
    return encode((*START, *insns, *END))


def some(allowed: Values, rng: random.Random) -> int:
    if isinstance(allowed, range):
        return rng.choice([value for value in (0, 1, 2) if value in allowed] or [allowed[0]])
    return rng.choice(sorted(allowed))


def slots(form: Form, rng: random.Random) -> tuple[Insn, ...]:
    """A valid instruction of the form, one that loads where a program of these few lines can have it."""
    dst, src, off, imm = (some(allowed, rng) for allowed in (form.dst, form.src, form.off, form.imm))
    if "(r{dst}" in form.text:
        dst, off = 10, -8
    if "(r{src}" in form.text and "off" in form.text:
        src, off = 10, -8
    if "[r{src}" in form.text or "skb" in form.text:
        src = 0 if "[{imm}" in form.text else 2
    first = Insn(form.opcode, dst, src, off, imm)
    return (first,) if form.high is None else (first, Insn(0, imm=some(form.high, rng)))


ROWS = [form for row in OBJECT_FORMS for form in row if form.name not in NEWER]
LOADS = 160
"""Forms, at least, of which an instruction can be had in a program as short as these."""


def test_valid_forms_are_valid_to_the_kernel() -> None:
    loaded = set()
    for form in ROWS:
        rng = random.Random(form.name)
        for _ in range(4):
            insns = slots(form, rng)
            check(insns, loaded=False)
            errno, log = load(around(insns))
            assert not any(part in log for part in ENCODING), f"{form.name}: {insns}: {log[-300:]}"
            if not errno:
                loaded.add(form.name)
    assert len(loaded) >= LOADS, sorted({form.name for form in ROWS} - loaded)


def test_invalid_fields_are_invalid_to_the_kernel() -> None:
    """One field at a time put to a value that no form of the opcode admits."""
    for form in ROWS:
        rng = random.Random(form.name)
        for field, values in (("dst", (10, 11, 15)), ("src", (3, 7, 10, 11)), ("off", (1, 3)), ("imm", (1, 3, 0x42))):
            for value in values:
                insns = slots(form, rng)
                first = replace(insns[0], **{field: value})
                if form_of(first, loaded=False) is None and LAX.get(form.name) != field:
                    assert load(around((first, *insns[1:])))[0], f"{form.name}: {first} loads"


def test_unknown_opcodes_are_unknown_to_the_kernel() -> None:
    newer = {0x0D}
    for opcode in range(256):
        if not OBJECT_FORMS[opcode] and opcode not in newer:
            errno, log = load(around((Insn(opcode),)))
            assert errno, hex(opcode)
            assert "unknown opcode" in log or "reserved fields" in log, log


def test_lax_fields() -> None:
    """The one field that the kernel lets pass and the RFC does not: the offset of EXIT."""
    assert load(bytes.fromhex("b700000000000000 9500050000000000"))[0] == 0
    assert form_of(decode(bytes.fromhex("9500050000000000"))[0], loaded=False) is None
