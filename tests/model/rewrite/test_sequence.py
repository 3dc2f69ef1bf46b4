"""The macros of include/linux/filter.h that a map_gen_lookup may use: each one's instruction, by RFC 9669's numbers."""

import pytest

from model.kernel.data import load_release
from model.kernel.release import Const, Emit, Name
from model.rewrite.config import Config
from model.rewrite.expressions import Scope
from model.rewrite.sequence import Template, template_of

SCOPE = Scope(load_release("6.12"), Config(), None)
R1, R2 = Name("BPF_REG_1"), Name("BPF_REG_2")


def made(macro: str, *arguments: Name | Const) -> tuple[int, int, int, int, int, str]:
    found: Template = template_of(Emit(macro, arguments, 1), SCOPE)
    return found.opcode, found.dst, found.src, found.off.value, found.imm.value, found.call


@pytest.mark.parametrize(
    ("macro", "arguments", "expected"),
    [
        ("BPF_ALU64_IMM", (Name("BPF_ADD"), R1, Const(5)), (0x07, 1, 0, 0, 5, "")),
        ("BPF_ALU32_IMM", (Name("BPF_AND"), R1, Const(5)), (0x54, 1, 0, 0, 5, "")),
        ("BPF_ALU64_REG", (Name("BPF_MUL"), R1, R2), (0x2F, 1, 2, 0, 0, "")),
        ("BPF_ALU32_REG", (Name("BPF_ARSH"), R1, R2), (0xCC, 1, 2, 0, 0, "")),
        ("BPF_MOV64_IMM", (R1, Const(9)), (0xB7, 1, 0, 0, 9, "")),
        ("BPF_MOV32_IMM", (R1, Const(9)), (0xB4, 1, 0, 0, 9, "")),
        ("BPF_MOV64_REG", (R1, R2), (0xBF, 1, 2, 0, 0, "")),
        ("BPF_MOV32_REG", (R1, R2), (0xBC, 1, 2, 0, 0, "")),
        ("BPF_MOV64_PERCPU_REG", (R1, R2), (0xBF, 1, 2, -1, 0, "")),
        ("BPF_LDX_MEM", (Name("BPF_W"), R1, R2, Const(8)), (0x61, 1, 2, 8, 0, "")),
        ("BPF_LDX_MEM", (Name("BPF_DW"), R1, R2, Const(8)), (0x79, 1, 2, 8, 0, "")),
        ("BPF_STX_MEM", (Name("BPF_H"), R1, R2, Const(8)), (0x6B, 1, 2, 8, 0, "")),
        ("BPF_ST_MEM", (Name("BPF_B"), R1, Const(8), Const(3)), (0x72, 1, 0, 8, 3, "")),
        ("BPF_JMP_IMM", (Name("BPF_JGE"), R1, Const(3), Const(4)), (0x35, 1, 0, 4, 3, "")),
        ("BPF_JMP_IMM", (Name("BPF_JA"), Const(0), Const(0), Const(4)), (0x05, 0, 0, 4, 0, "")),
        ("BPF_JMP32_IMM", (Name("BPF_JSLE"), R1, Const(3), Const(4)), (0xD6, 1, 0, 4, 3, "")),
        ("BPF_JMP_REG", (Name("BPF_JNE"), R1, R2, Const(4)), (0x5D, 1, 2, 4, 0, "")),
        ("BPF_JMP32_REG", (Name("BPF_JSET"), R1, R2, Const(4)), (0x4E, 1, 2, 4, 0, "")),
        ("BPF_JMP_A", (Const(2),), (0x05, 0, 0, 2, 0, "")),
        ("BPF_EMIT_CALL", (Name("__htab_map_lookup_elem"),), (0x85, 0, 0, 0, 0, "__htab_map_lookup_elem")),
    ],
)
def test_macros(macro: str, arguments: tuple[Name | Const, ...], expected: tuple[int, int, int, int, int, str]) -> None:
    assert made(macro, *arguments) == expected
