"""Inlined lookups, as the sources of 6.1, 6.12 and 7.3 have them: sequences written out by hand."""

from dataclasses import replace

import pytest

from model.isa.insn import Insn
from model.kernel.data import load_release
from model.kernel.release import Apply, Const, Decline, Emit, Field, GenLookup, If, Name, Opaque, Release, Statement
from model.program import Map
from model.rewrite.config import Config
from model.rewrite.expressions import Scope, evaluate
from model.rewrite.lookup import Declined, Undetermined, generate
from model.rewrite.patch import Patch, Reloc
from model.rewrite.sequence import alternatives

Row = tuple[int, int, int, int, int]

ROOT, USER = Config(), Config(unprivileged=True)

INDEX = (0x61, 0, 2, 0, 0)  # r0 = *(u32 *)(r2 +0)


def made(version: str, config: Config, found: Map) -> tuple[list[Row], dict[int, tuple[str, str]]]:
    """(opcode, dst, src, off, imm) of every instruction, and the relocations."""
    release = load_release(version)
    patch = generate(release, config, gen_of(release, found), found)
    assert isinstance(patch, Patch)
    rows = [(insn.opcode, insn.dst, insn.src, insn.off, insn.imm) for insn in patch.insns]
    return rows, {index: (reloc.kind, reloc.symbol) for index, reloc in patch.relocs.items()}


def gen_of(release: Release, found: Map) -> GenLookup:
    assert found.type is not None
    ops = release.map_types[found.type].ops
    assert ops is not None
    return release.gen_lookup[release.ops[ops].slots["map_gen_lookup"]]


def array(value_size: int | None = 8, entries: int | None = 5, kind: str = "array", flags: int | None = 0) -> Map:
    return Map("m", kind, 4, value_size, entries, flags)


VALUE = {0: ("offset", "struct bpf_array.value")}

ARRAYS = {
    "value of 8 bytes": (
        ROOT,
        array(8, 5),
        [(0x07, 1, 0, 0, 0), INDEX, (0x35, 0, 0, 3, 5), (0x67, 0, 0, 0, 3)],
    ),
    "value of 1 byte takes 8": (
        ROOT,
        array(1, 5),
        [(0x07, 1, 0, 0, 0), INDEX, (0x35, 0, 0, 3, 5), (0x67, 0, 0, 0, 3)],
    ),
    "value of 12 bytes takes 16": (
        ROOT,
        array(12, 5),
        [(0x07, 1, 0, 0, 0), INDEX, (0x35, 0, 0, 3, 5), (0x67, 0, 0, 0, 4)],
    ),
    "value of 24 bytes is multiplied": (
        ROOT,
        array(24, 5),
        [(0x07, 1, 0, 0, 0), INDEX, (0x35, 0, 0, 3, 5), (0x27, 0, 0, 0, 24)],
    ),
    "2^31 entries: the immediate is negative": (
        ROOT,
        array(8, 1 << 31),
        [(0x07, 1, 0, 0, 0), INDEX, (0x35, 0, 0, 3, -2147483648), (0x67, 0, 0, 0, 3)],
    ),
    "masked index, 5 entries": (
        USER,
        array(8, 5),
        [(0x07, 1, 0, 0, 0), INDEX, (0x35, 0, 0, 4, 5), (0x54, 0, 0, 0, 7), (0x67, 0, 0, 0, 3)],
    ),
    "masked index, 1 entry": (
        USER,
        array(8, 1),
        [(0x07, 1, 0, 0, 0), INDEX, (0x35, 0, 0, 4, 1), (0x54, 0, 0, 0, 0), (0x67, 0, 0, 0, 3)],
    ),
    "masked index, 8 entries": (
        USER,
        array(8, 8),
        [(0x07, 1, 0, 0, 0), INDEX, (0x35, 0, 0, 4, 8), (0x54, 0, 0, 0, 7), (0x67, 0, 0, 0, 3)],
    ),
}
TAIL = [(0x0F, 0, 1, 0, 0), (0x05, 0, 0, 1, 0), (0xB7, 0, 0, 0, 0)]


@pytest.mark.parametrize("version", ["6.1", "6.12", "7.3"])
@pytest.mark.parametrize("row", ARRAYS)
def test_array(version: str, row: str) -> None:
    config, found, head = ARRAYS[row]
    assert made(version, config, found) == (head + TAIL, VALUE)


CALL = {0: ("call", "__htab_map_lookup_elem")}


@pytest.mark.parametrize(("key_size", "total"), [(1, 56), (4, 56), (8, 56), (9, 64), (16, 64), (64, 112)])
def test_hash_adds_the_offset_of_the_key_and_the_key_rounded_up(key_size: int, total: int) -> None:
    rows, relocs = made("6.12", ROOT, Map("m", "hash", key_size, 8, 10, 0))
    assert rows == [(0x85, 0, 0, 0, 0), (0x15, 0, 0, 1, 0), (0x07, 0, 0, 0, total)]
    assert relocs == CALL


def test_lru_hash_marks_the_element() -> None:
    rows, relocs = made("6.1", ROOT, Map("m", "lru_hash", 4, 8, 10, 0))
    assert rows == [
        (0x85, 0, 0, 0, 0),
        (0x15, 0, 0, 4, 0),
        (0x71, 1, 0, 35, 0),  # 16 + 19: the byte `ref` of the element's LRU node
        (0x55, 1, 0, 1, 0),
        (0x72, 0, 0, 35, 1),
        (0x07, 0, 0, 0, 56),
    ]
    assert relocs == CALL


def test_maps_of_maps() -> None:
    rows, relocs = made("6.12", ROOT, array(4, 3, "array_of_maps"))
    assert rows == [
        (0x07, 1, 0, 0, 0),
        INDEX,
        (0x35, 0, 0, 5, 3),
        (0x67, 0, 0, 0, 3),
        (0x0F, 0, 1, 0, 0),
        (0x79, 0, 0, 0, 0),
        (0x15, 0, 0, 1, 0),
        (0x05, 0, 0, 1, 0),
        (0xB7, 0, 0, 0, 0),
    ]
    assert relocs == VALUE
    rows, relocs = made("6.12", ROOT, Map("m", "hash_of_maps", 4, 4, 3, 0))
    assert rows == [(0x85, 0, 0, 0, 0), (0x15, 0, 0, 2, 0), (0x07, 0, 0, 0, 56), (0x79, 0, 0, 0, 0)]


def test_xskmap() -> None:
    rows, relocs = made("6.1", ROOT, array(4, 3, "xskmap"))
    assert rows == [
        INDEX,
        (0x36, 0, 0, 5, 3),
        (0x67, 0, 0, 0, 3),
        (0x07, 1, 0, 0, 0),
        (0x0F, 0, 1, 0, 0),
        (0x79, 0, 0, 0, 0),
        (0x05, 0, 0, 1, 0),
        (0xB7, 0, 0, 0, 0),
    ]
    assert relocs == {3: ("offset", "struct xsk_map.xsk_map")}


def test_per_cpu_maps_where_the_jit_has_per_cpu_instructions() -> None:
    rows, relocs = made("6.12", ROOT, array(8, 3, "percpu_array"))
    assert rows[4:] == [
        (0x0F, 0, 1, 0, 0),
        (0x79, 0, 0, 0, 0),
        (0xBF, 0, 0, -1, 0),
        (0x05, 0, 0, 1, 0),
        (0xB7, 0, 0, 0, 0),
    ]
    assert relocs == {0: ("offset", "struct bpf_array.pptrs")}
    release = load_release("6.12")
    found = array(8, 3, "percpu_array")
    assert generate(release, Config(arch="s390x"), gen_of(release, found), found) == Declined("EOPNOTSUPP")


def test_an_inner_map_of_any_size_has_no_inline_form() -> None:
    release = load_release("6.12")
    found = array(flags=1 << 12)
    assert generate(release, ROOT, gen_of(release, found), found) == Declined("EOPNOTSUPP")


@pytest.mark.parametrize(
    ("found", "missing"),
    [
        (Map("m", "hash", None, 8, 10, 0), "round_up(map.key_size, 8)"),
        (array(None, 5), "is_power_of_2(array.elem_size)"),
        (array(8, 5, flags=None), "(map.map_flags & BPF_F_INNER_MAP)"),
    ],
)
def test_what_is_not_known_of_the_map_is_named(found: Map, missing: str) -> None:
    release = load_release("6.12")
    outcome = generate(release, ROOT, gen_of(release, found), found)
    assert isinstance(outcome, Undetermined)
    assert missing in outcome.reason


def test_entries_that_are_set_at_run_time_are_an_immediate_by_name() -> None:
    rows, relocs = made("6.12", USER, array(8, None))
    assert rows == [(0x07, 1, 0, 0, 0), INDEX, (0x35, 0, 0, 4, 0), (0x54, 0, 0, 0, 0), (0x67, 0, 0, 0, 3), *TAIL]
    assert relocs == {**VALUE, 2: ("offset", "max_entries"), 3: ("offset", "index_mask")}


U32 = Field("map.key_size", 32, False)

EXPRESSIONS = {
    "u32 wraps": (Apply("+", (U32, Const(1))), 0xFFFFFFFF, 0),
    "round_up of the largest": (Apply("round_up", (U32, Const(8))), 0xFFFFFFF9, 0),
    "round_up": (Apply("round_up", (U32, Const(8))), 17, 24),
    "round_up of nothing": (Apply("round_up", (U32, Const(8))), 0, 0),
    "roundup": (Apply("roundup", (U32, Const(8))), 17, 24),
    "not": (Apply("!", (U32,)), 5, 0),
    "ilog2": (Apply("ilog2", (U32,)), 64, 6),
    "a power of two": (Apply("is_power_of_2", (U32,)), 64, 1),
    "nothing is no power of two": (Apply("is_power_of_2", (U32,)), 0, 0),
    "and": (Apply("&", (U32, Const(12))), 10, 8),
}


@pytest.mark.parametrize("row", EXPRESSIONS)
def test_c_arithmetic(row: str) -> None:
    expression, key_size, expected = EXPRESSIONS[row]
    scope = Scope(load_release("6.12"), ROOT, Map("m", "hash", key_size, 8, 10, 0))
    assert evaluate(expression, scope).value == expected


BODIES: dict[str, tuple[tuple[Statement, ...], str]] = {
    "text that the extractor left": ((Opaque("goto out;", 7),), "line 7: goto out;"),
    "a macro of no kind": ((Emit("BPF_LD_ABS", (Name("BPF_B"), Const(4)), 9),), "line 9: BPF_LD_ABS"),
    "a register that is none": ((Emit("BPF_MOV64_IMM", (Name("BPF_REG_AX"), Const(4)), 9),), "a register was expected"),
    "an operation that is none": (
        (Emit("BPF_ALU64_IMM", (Name("BPF_NEG"), Name("BPF_REG_0"), Const(4)), 9),),
        "an operation was expected",
    ),
}


@pytest.mark.parametrize("row", BODIES)
def test_what_has_no_meaning_is_said(row: str) -> None:
    body, reason = BODIES[row]
    outcome = generate(load_release("6.12"), ROOT, GenLookup("f", body, "f.c", 1), array())
    assert isinstance(outcome, Undetermined)
    assert reason in outcome.reason


def test_another_error_is_handed_on() -> None:
    gen = GenLookup("f", (Decline("EINVAL"),), "f.c", 1)
    assert generate(load_release("6.12"), ROOT, gen, array()) == Declined("EINVAL")


def test_many_unknown_conditions_do_not_multiply_without_end() -> None:
    condition = Field("map.unheard", 32, False)
    body = tuple(If(condition, (Decline("EINVAL"),), ()) for _ in range(200))
    both = tuple(If(condition, (), ()) for _ in range(200))
    scope = Scope(load_release("6.12"), ROOT, array())
    assert len(list(alternatives(body, scope))) == 64
    assert len(list(alternatives(both, scope))) == 64


def test_offsets_that_the_release_knows_leave_no_relocation() -> None:
    release = replace(load_release("6.12"), layout={"struct bpf_array.value": 248})
    patch = generate(release, ROOT, gen_of(release, array()), array())
    assert isinstance(patch, Patch)
    assert (patch.insns[0], patch.relocs) == (Insn(0x07, 1, 0, 0, 248), {})


def test_an_unknown_offset_of_an_access_is_a_displacement() -> None:
    release = replace(load_release("6.12"), layout={})
    found = Map("m", "lru_hash", 4, 8, 10, 0)
    patch = generate(release, ROOT, gen_of(release, found), found)
    assert isinstance(patch, Patch)
    assert patch.relocs[2] == Reloc("displacement", "struct htab_elem.lru_node + struct bpf_lru_node.ref")
    assert patch.relocs[5] == Reloc("offset", "struct htab_elem.key")
    assert patch.insns[5].imm == 8
