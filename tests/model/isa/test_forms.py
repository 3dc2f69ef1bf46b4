"""The table of forms: complete, each row with a vector, conformance groups as RFC 9669 has them."""

import pytest
from isa_rows import vectors

from model.isa.codec import decode
from model.isa.forms import FORMS, LOADED_FORMS, OBJECT_FORMS, Form, Group

KERNEL_OPCODES = """
04 05 06 07 0c 0d 0f 14 15 16 17 18 1c 1d 1e 1f 20 24 25 26 27 28 2c 2d 2e 2f 30 34 35 36 37 3c
3d 3e 3f 40 44 45 46 47 48 4c 4d 4e 4f 50 54 55 56 57 5c 5d 5e 5f 61 62 63 64 65 66 67 69 6a 6b
6c 6d 6e 6f 71 72 73 74 75 76 77 79 7a 7b 7c 7d 7e 7f 81 84 85 87 89 91 94 95 97 9c 9f a4 a5 a6
a7 ac ad ae af b4 b5 b6 b7 bc bd be bf c3 c4 c5 c6 c7 cb cc cd ce cf d3 d4 d5 d6 d7 db dc dd de
e5
"""
"""What bpf_opcode_in_insntable (kernel/bpf/core.c, 7.3) says yes to, asked for each of the 256 bytes."""

INTERNAL_OPCODES = """
21 29 31 39 41 49 51 a1 a9 b1 b9 c1 c9 d1 a2 aa b2 ba a3 ab b3 bb e3 eb f3 fb c2 f5
"""
"""PROBE_MEM, PROBE_MEMSX, PROBE_MEM32 (LDX, ST, STX), PROBE_MEM32SX, PROBE_ATOMIC, NOSPEC, TAIL_CALL
by their values in include/linux/filter.h (7.3); CALL_ARGS shares a byte with may_goto."""


def test_objects_have_the_opcodes_that_the_kernel_knows() -> None:
    assert {opcode for opcode, row in enumerate(OBJECT_FORMS) if row} == set(bytes.fromhex(KERNEL_OPCODES))


def test_dumps_have_the_internal_opcodes_too() -> None:
    known = set(bytes.fromhex(KERNEL_OPCODES)) | set(bytes.fromhex(INTERNAL_OPCODES))
    assert {opcode for opcode, row in enumerate(LOADED_FORMS) if row} == known


def test_names_are_unique() -> None:
    assert len({form.name for form in FORMS}) == len(FORMS)


def admitted(data: bytes) -> set[str]:
    """The forms that admit a vector, by fields alone."""
    insn, *second = decode(data)
    high = second[0].imm if second else None
    tables = (OBJECT_FORMS[insn.opcode], LOADED_FORMS[insn.opcode])
    return {
        form.name
        for table in tables
        for form in table
        if insn.dst in form.dst and insn.src in form.src and insn.off in form.off and insn.imm in form.imm
        if (form.high is None) == (high is None) and (form.high is None or high in form.high)
    }


COVERED = {name for vector in vectors() for name in admitted(vector.data)}


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_every_form_has_a_vector(form: Form) -> None:
    assert form.name in COVERED


@pytest.mark.parametrize(
    ("data", "group"),
    [
        ("0400000001000000", Group.BASE32),  # 32-bit add
        ("0700000001000000", Group.BASE64),
        ("2400000001000000", Group.DIVMUL32),
        ("9f10010000000000", Group.DIVMUL64),  # 64-bit signed modulo
        ("d400000010000000", Group.BASE32),  # le16
        ("d700000040000000", Group.BASE64),  # bswap64
        ("0500010000000000", Group.BASE32),  # goto
        ("0600000001000000", Group.BASE32),  # gotol
        ("8500000001000000", Group.BASE32),
        ("1500000000000000", Group.BASE64),
        ("1600000000000000", Group.BASE32),
        ("6110000000000000", Group.BASE32),
        ("7910000000000000", Group.BASE64),
        ("c310000000000000", Group.ATOMIC32),
        ("db100000f1000000", Group.ATOMIC64),
        ("3000000000000000", Group.PACKET),
        ("18000000000000000000000000000000", Group.BASE64),
        ("e500000000000000", Group.KERNEL),  # may_goto
    ],
)
def test_conformance_groups(data: str, group: Group) -> None:
    """RFC 9669, sections 2.4, 4.1, 4.2, 4.3, 5, 5.3, 5.5."""
    names = admitted(bytes.fromhex(data))
    groups = {form.group for form in FORMS if form.name in names and not form.loaded}
    assert groups == {group}
