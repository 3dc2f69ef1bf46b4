"""What a kernel's BTF says of prototypes and offsets: types written by hand."""

import pytest
from elf_writer import btf, btf_type

from model.errors import InputError, Unsupported
from model.kernel.release import CType, Prototype
from model.loaders.kernel_btf import KernelTypes

NAMES = (
    "int",
    "u64",
    "bpf_map",
    "ops",
    "key",
    "update",
    "twice",
    "kinds",
    "ONE",
    "MINUS",
    "long unsigned int",
    "_Bool",
    "fn_t",
)
AT = {name: 1 + sum(len(other) + 1 for other in NAMES[:index]) for index, name in enumerate(NAMES)}
STRINGS = b"".join(name.encode() + b"\0" for name in NAMES)
PTR, STRUCT, UNION, ENUM, TYPEDEF, CONST, FUNC, PROTO = 2, 4, 5, 6, 8, 10, 12, 13
SIGNED, BOOL = 1 << 24, 4 << 24

ROWS = (
    btf_type(AT["int"], 1, 0, 4, SIGNED | 32),  # 1 int
    btf_type(AT["long unsigned int"], 1, 0, 8, 64),  # 2
    btf_type(AT["u64"], TYPEDEF, 0, 2),  # 3 u64
    btf_type(AT["bpf_map"], STRUCT, 2, 40, AT["ops"], 7, 64, 0, 6, 128),  # 4 struct bpf_map { …; union { … }; }
    btf_type(0, PTR, 0, 4),  # 5 struct bpf_map *
    btf_type(0, UNION, 1, 8, AT["key"], 1, 32),  # 6 union { int key; } 4 bytes in
    btf_type(0, PTR, 0, 8),  # 7 const struct bpf_map *
    btf_type(0, CONST, 0, 4),  # 8
    btf_type(0, PROTO, 2, 1, 0, 7, 0, 3),  # 9 int (const struct bpf_map *, u64)
    btf_type(AT["update"], FUNC, 0, 9),  # 10
    btf_type(AT["twice"], FUNC, 0, 9),  # 11
    btf_type(0, PROTO, 0, 3),  # 12 u64 (void)
    btf_type(AT["twice"], FUNC, 0, 12),  # 13
    btf_type(AT["kinds"], ENUM, 2, 4, AT["ONE"], 1, AT["MINUS"], 0xFFFFFFFE),  # 14
    btf_type(AT["_Bool"], 1, 0, 1, BOOL | 8),  # 15
    btf_type(0, PTR, 0, 9),  # 16 int (*)(…)
    btf_type(AT["fn_t"], TYPEDEF, 0, 16),  # 17
    btf_type(0, PROTO, 2, 0, 0, 1, 0, 0),  # 18 void (int, ...)
    btf_type(0, CONST, 0, 1),  # 19 const int
)
MAP = CType("const struct bpf_map *", 64, False, True)


@pytest.fixture
def types() -> KernelTypes:
    return KernelTypes(btf(b"".join(ROWS), STRINGS), "vmlinux")


def test_functions(types: KernelTypes) -> None:
    expected = Prototype(CType("int", 32, True), (MAP, CType("u64", 64, False)))
    assert types.function("update") == (10, expected)
    assert types.function("twice") is None  # two that differ
    assert types.function("none") is None


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (0, CType("void", 0, False)),
        (1, CType("int", 32, True)),
        (2, CType("unsigned long", 64, False)),
        (3, CType("u64", 64, False)),
        (14, CType("enum kinds", 32, False)),
        (15, CType("bool", 8, False)),
        (16, CType("int (*)(const struct bpf_map *, u64)", 64, False, True)),
        (17, CType("fn_t", 64, False, True)),
        (19, CType("int", 32, True)),
    ],
)
def test_types(types: KernelTypes, number: int, expected: CType) -> None:
    assert types.ctype(number) == expected


def test_what_has_no_width(types: KernelTypes) -> None:
    with pytest.raises(Unsupported, match="struct bpf_map has no width in registers"):
        types.ctype(4)
    with pytest.raises(Unsupported, match="variable number of parameters"):
        types.prototype(18)


def test_offsets_and_enumerators(types: KernelTypes) -> None:
    assert types.offset("bpf_map", "ops") == 8
    assert types.offset("bpf_map", "key") == 20  # through the union
    assert types.offset("bpf_map", "none") is None
    assert types.offset("none", "ops") is None
    assert types.enumerators("kinds") == {"ONE": 1, "MINUS": -2}
    with pytest.raises(InputError, match="expected one enum bpf_map_type, found 0"):
        types.enumerators("bpf_map_type")
