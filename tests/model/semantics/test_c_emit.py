"""What a map_gen_lookup emits for known parameters: literal instructions, by hand from the kernel's sources."""

import pytest

from model.errors import Unsupported
from model.isa.insn import Insn
from model.kernel.c_body import Integer
from model.kernel.data import load_release
from model.kernel.release import (
    Apply,
    Const,
    Emit,
    Expr,
    Field,
    GenLookup,
    If,
    Name,
    Offset,
    Opaque,
    SizeOf,
    Statement,
)
from model.semantics.c_emit import Emitter, Way, render
from model.semantics.c_macros import ilog2, is_power_of_2, round_up, roundup
from model.semantics.c_types import UNSIGNED, Value
from proofs.concrete import IntWorld

LAYOUT = {"struct htab_elem.key": 48, "struct htab_elem.lru_node": 16, "struct bpf_lru_node.ref": 19}


def emitter(world: IntWorld, percpu: bool = True, /, **members: int) -> Emitter[int, bool]:
    def member(field: Field) -> Value[int]:
        return Value(Integer(field.bits, field.signed, field.bits == 8), members[field.path.split(".")[1]])

    return Emitter(world, LAYOUT, member, percpu)


def taken(release: str, function: str, *, percpu: int = 1, **members: int) -> tuple[Way[int, bool], list[Insn]]:
    """The one way that these members take, its immediates put in (as signed numbers)."""
    world = IntWorld(lambda name, width: 0x130 if "offsetof" in name else 0)
    ways = emitter(world, bool(percpu), **members).ways(load_release(release).gen_lookup[function])
    (way,) = [way for way in ways if way.guard]
    insns = []
    for emitted in way.emitted:
        imm = emitted.imm or 0
        one = emitted.insn
        insns.append(Insn(one.opcode, one.dst, one.src, one.off, imm - (1 << 32) if imm >> 31 else imm))
    return way, insns


def test_array_masked_and_shifted() -> None:
    members = {"map_flags": 0, "bypass_spec_v1": 0, "max_entries": 5, "index_mask": 7, "elem_size": 16}
    way, insns = taken("6.12", "array_map_gen_lookup", **members)
    assert insns == [
        Insn(0x07, 1, 0, 0, 0x130),  # r1 += offsetof(struct bpf_array, value)
        Insn(0x61, 0, 2, 0, 0),  # r0 = *(u32 *)(r2 + 0)
        Insn(0x35, 0, 0, 4, 5),  # if r0 >= 5 goto +4
        Insn(0x54, 0, 0, 0, 7),  # w0 &= 7
        Insn(0x67, 0, 0, 0, 4),  # r0 <<= 4
        Insn(0x0F, 0, 1, 0, 0),  # r0 += r1
        Insn(0x05, 0, 0, 1, 0),  # goto +1
        Insn(0xB7, 0, 0, 0, 0),  # r0 = 0
    ]
    assert way.label == ("not map_flags & BPF_F_INNER_MAP", "!bypass_spec_v1", "is_power_of_2(elem_size)")


def test_array_of_half_the_numbers_multiplied() -> None:
    """max_entries 0x80000000 keeps its 32 bits in the immediate, which is negative."""
    members = {"map_flags": 0, "bypass_spec_v1": 1, "max_entries": 0x80000000, "index_mask": 0, "elem_size": 24}
    _, insns = taken("6.1", "array_map_gen_lookup", **members)
    assert insns[2:4] == [Insn(0x35, 0, 0, 3, -(1 << 31)), Insn(0x27, 0, 0, 0, 24)]


def test_inner_array_declines() -> None:
    members = {"map_flags": 0x1000, "bypass_spec_v1": 1, "max_entries": 1, "index_mask": 0, "elem_size": 8}
    way, _ = taken("6.1", "array_map_gen_lookup", **members)
    assert (way.errno, way.emitted) == ("EOPNOTSUPP", ())


def test_hashes() -> None:
    way, insns = taken("7.3", "htab_map_gen_lookup", key_size=9)
    assert [emitted.symbol for emitted in way.emitted] == ["__htab_map_lookup_elem", "", ""]
    assert insns == [Insn(0x85), Insn(0x15, 0, 0, 1, 0), Insn(0x07, 0, 0, 0, 64)]
    _, insns = taken("6.12", "htab_lru_map_gen_lookup", key_size=8)
    assert insns == [
        Insn(0x85),
        Insn(0x15, 0, 0, 4, 0),
        Insn(0x71, 1, 0, 35, 0),  # r1 = *(u8 *)(r0 + 35)
        Insn(0x55, 1, 0, 1, 0),
        Insn(0x72, 0, 0, 35, 1),  # *(u8 *)(r0 + 35) = 1
        Insn(0x07, 0, 0, 0, 56),
    ]


def test_per_cpu_instructions_need_the_jit() -> None:
    way, insns = taken("6.12", "htab_percpu_map_gen_lookup", key_size=1)
    assert insns[-1] == Insn(0xBF, 0, 0, -1, 0)
    way, _ = taken("6.12", "htab_percpu_map_gen_lookup", percpu=0, key_size=1)
    assert (way.errno, way.label) == ("EOPNOTSUPP", ())


def test_xskmap_compares_32_bits_from_6_1_on() -> None:
    assert taken("5.10", "xsk_map_gen_lookup", max_entries=3)[1][1] == Insn(0x35, 0, 0, 5, 3)
    assert taken("6.1", "xsk_map_gen_lookup", max_entries=3)[1][1:3] == [Insn(0x36, 0, 0, 5, 3), Insn(0x67, 0, 0, 0, 3)]


@pytest.mark.parametrize(
    ("size", "log", "power", "up", "rounded"),
    [
        (1, 0, 1, 8, 8),
        (8, 3, 1, 8, 8),
        (9, 3, 0, 16, 16),
        (0x7FFFFFFF, 30, 0, 0x80000000, 0x80000000),
        (0x80000000, 31, 1, 0x80000000, 0x80000000),
        (0xFFFFFFF9, 31, 0, 0, 0),
        (0, 0xFFFFFFFF, 0, 0, 0),
    ],
)
def test_macros_on_u32(size: int, log: int, power: int, up: int, rounded: int) -> None:
    world = IntWorld(lambda name, width: 0)
    value = Value(UNSIGNED, size)
    assert ilog2(world, value).word == log
    assert is_power_of_2(world, value).word == power
    assert round_up(world, value, 8).word == up
    assert roundup(world, value, 8).word == rounded
    assert roundup(world, Value(UNSIGNED, 10), 6).word == 12


def bad(*body: Statement) -> GenLookup:
    return GenLookup("bad", body, "f.c", 1)


def emit(macro: str, *arguments: Expr) -> Emit:
    return Emit(macro, arguments, 7)


R0, K = Name("BPF_REG_0"), Const(0)


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        (Opaque("asm", 9), "line 9: asm"),
        (emit("BPF_NEW_THING", R0), "line 7: BPF_NEW_THING with 1 arguments"),
        (emit("BPF_MOV64_IMM", R0), "line 7: BPF_MOV64_IMM with 1 arguments"),
        (emit("BPF_MOV64_IMM", Name("BPF_REG_11"), K), "no register: BPF_REG_11"),
        (emit("BPF_MOV64_IMM", Const(11), K), "no register: 11"),
        (emit("BPF_ALU64_IMM", Name("BPF_JGE"), R0, K), "no operation: BPF_JGE"),
        (emit("BPF_JMP_IMM", Name("BPF_ADD"), R0, K, K), "no operation: BPF_ADD"),
        (emit("BPF_LDX_MEM", Name("BPF_Q"), R0, R0, K), "no size of an access: BPF_Q"),
        (emit("BPF_LDX_MEM", Name("BPF_B"), R0, R0, Const(1 << 15)), "32768 does not fit"),
        (emit("BPF_LDX_MEM", Name("BPF_B"), R0, R0, Offset("bpf_array", "aux")), "an offset that needs a build"),
        (emit("BPF_MOV64_IMM", R0, SizeOf("struct big")), r"sizeof\(struct big\)"),
        (emit("BPF_MOV64_IMM", R0, Name("VENDOR")), "no meaning for VENDOR"),
        (emit("BPF_MOV64_IMM", R0, Apply("vendor", (K,))), r"no meaning for vendor\(0\)"),
        (emit("BPF_EMIT_CALL", K), "no function: 0"),
    ],
)
def test_what_has_no_rule(statement: Statement, said: str) -> None:
    with pytest.raises(Unsupported, match=said):
        emitter(IntWorld(lambda name, width: 0)).ways(bad(statement))


def test_ways_are_bounded() -> None:
    fork = If(Field("map.max_entries", 32, False), (), ())
    with pytest.raises(Unsupported, match="more than 64 ways"):
        emitter(IntWorld(lambda name, width: 0), max_entries=1).ways(bad(*[fork] * 40))


def test_render() -> None:
    expr = Apply("+", (Offset("htab_elem", "key"), Apply("round_up", (Field("map.key_size", 32, False), Const(8)))))
    assert render(expr) == "offsetof(htab_elem, key) + round_up(key_size, 8)"
