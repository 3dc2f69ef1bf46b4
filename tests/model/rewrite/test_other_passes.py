"""Each row of other passes on a vector: what a running 6.18 made of it, or what the source says (by hand)."""

from typing import NamedTuple

import pytest

from model.isa.codec import decode
from model.isa.insn import Insn
from model.program import Form, Program, Ref, SymbolRef
from model.rewrite import other_alu, other_calls, other_flow, other_memory
from model.rewrite.other_functions import FUNCTIONS, functions
from model.rewrite.other_passes import At, Change, Kernel, Row, recognise

ROWS = (*other_alu.ROWS, *other_calls.ROWS, *other_flow.ROWS, *other_memory.ROWS)
EVERY = (*ROWS, *other_flow.PREFIXES)
JIFFIES = 0xFFFFFFFF83009980


class Vector(NamedTuple):
    """`calls` are the names of the functions called, in order."""

    row: str
    before: str
    after: str
    helper: str = ""
    calls: tuple[str, ...] = ()


VECTORS = [
    Vector(*row)
    for row in (
        ("division guard", "3f20000000000000", "5502020000000000 ac00000000000000 0500010000000000 3f20000000000000"),
        ("division guard", "9f20000000000000", "1502010000000000 9f20000000000000"),
        ("division guard", "3c23000000000000", "5602020000000000 ac33000000000000 0500010000000000 3c23000000000000"),
        ("division guard", "9c20000000000000", "1602020000000000 9c20000000000000 0500010000000000 bc00000000000000"),
        (
            "signed division guard",
            "3f20010000000000",
            "bf2b000000000000 070b000001000000 250b040001000000 150b010000000000 b700000000000000 8700000000000000 "
            "0500010000000000 3f20010000000000",
        ),
        (
            "signed division guard",
            "9c20010000000000",
            "bf2b000000000000 040b000001000000 260b030001000000 160b040001000000 b400000000000000 0500010000000000 "
            "9c20010000000000 0500010000000000 bc00000000000000",
        ),
        ("signed division by -1", "37000100ffffffff", "8700000000000000"),
        ("signed division by -1", "94000100ffffffff", "b400000000000000"),
        ("cast between address spaces", "bf21010001000000", "bc21000000000000"),
        ("speculation mask", "0f12000000000000", "b40b0000ff010000 0fb2000000000000"),
        (
            "speculation mask",
            "0f12000000000000",
            "b40b0000ff010000 1f1b000000000000 4f1b000000000000 870b000000000000 c70b00003f000000 5f1b000000000000 "
            "0fb2000000000000",
        ),
        ("explicit zero extension", "0c21000000000000", "0c21000000000000 bc11000001000000"),
        ("explicit zero extension", "c33afcfff1000000", "c33afcfff1000000 bc00000001000000"),
        ("load that may fault", "7911080000000000", "3911080000000000"),
        (
            "load that may fault",
            "6112100000000000",
            "bf1b000000000000 070b000010000000 770b000020000000 b50b02000080ffff 6112100000000000 0500010000000000 "
            "b702000000000000",
        ),
        ("memory of an arena", "7b21080000000000", "bb21080000000000"),
        ("speculation barrier", "7b1af8ff00000000", "7b1af8ff00000000 c200000000000000"),
        (
            "packet load",
            "280000000c000000",
            "b70200000c000000 bf61000000000000 8500000020eb9c00 7500020000000000 ac00000000000000 9500000000000000",
            "",
            ("bpf_skb_load_helper_16",),
        ),
        ("context access", "6111000000000000", "6111700000000000"),
        ("context access", "6309040005000000", "6309a40005000000"),
        (
            "inlined bpf_loop",
            "85000000b5000000",
            "b501020000008000 b4000000f9ffffff 0500100000000000 7b6ae0ff00000000 7b7ae8ff00000000 7b8af0ff00000000 "
            "bf16000000000000 b407000000000000 bf38000000000000 3d67050000000000 bf71000000000000 bf82000000000000 "
            "8510000008000000 0707000001000000 1500faff00000000 bf70000000000000 79a6e0ff00000000 79a7e8ff00000000 "
            "79a8f0ff00000000",
            "loop",
        ),
        ("inlined jiffies64", "8500000076000000", "1800000080990083 00000000ffffffff 7900000000000000", "jiffies64"),
        (
            "inlined get_smp_processor_id",
            "8500000008000000",
            "b700000034e0b083 bf00ffff00000000 6100000000000000",
            "get_smp_processor_id",
        ),
        (
            "inlined get_current_task",
            "8500000023000000",
            "b700000034e0b083 bf00ffff00000000 7900000000000000",
            "get_current_task",
        ),
        (
            "inlined get_func_arg",
            "85000000b7000000",
            "7910f8ff00000000 3e02060000000000 6702000003000000 0f12000000000000 7920000000000000 7b03000000000000 "
            "b700000000000000 0500010000000000 b7000000eaffffff",
            "get_func_arg",
        ),
        (
            "inlined get_func_ret",
            "85000000b8000000",
            "7910f8ff00000000 6700000003000000 0f10000000000000 7903000000000000 7b32000000000000 b700000000000000",
            "get_func_ret",
        ),
        ("inlined get_func_ret", "85000000b8000000", "b7000000a1ffffff", "get_func_ret"),
        ("inlined get_func_arg_cnt", "85000000b9000000", "7910f8ff00000000", "get_func_arg_cnt"),
        ("inlined get_func_ip", "85000000ad000000", "7910f0ff00000000", "get_func_ip"),
        (
            "inlined get_branch_snapshot",
            "85000000b0000000",
            "5503070000000000 b4000000abaaaaaa 2f02000000000000 7702000024000000 85000000908f0900 1500040000000000 "
            "2400000018000000 0500030000000000 b7000000eaffffff 0500010000000000 b7000000feffffff",
            "get_branch_snapshot",
            ("__static_call_return0",),
        ),
        ("inlined kptr_xchg", "85000000c2000000", "bf20000000000000 db010000e1000000", "kptr_xchg"),
        ("tail call", "850000000c000000", "850000000c000000", "tail_call", ("bpf_tail_call",)),
        (
            "tail call",
            "850000000c000000",
            "3503020004000000 5403000003000000 850000000c000000",
            "tail_call",
            ("bpf_tail_call",),
        ),
        (
            "argument of timer_set_callback",
            "85000000aa000000",
            "1803000000c04104 000000008188ffff 85000000e02c0400",
            "timer_set_callback",
            ("bpf_timer_set_callback",),
        ),
        (
            "argument of storage_get",
            "850000009c000000",
            "b705000020080000 85000000d0f40500",
            "task_storage_get",
            ("bpf_task_storage_get_recur",),
        ),
        (
            "per-CPU object",
            "8500000099000000",
            "7911000000000000 8500000010200000",
            "per_cpu_ptr",
            ("bpf_per_cpu_ptr",),
        ),
        ("left to the JIT", "8500000008000000", "8500000008000000", "get_smp_processor_id"),
        (
            "call of another kernel function",
            "852000007af90000",
            "85200000d05e9d00",
            "",
            ("bpf_dynptr_from_skb_rdonly",),
        ),
        ("inlined kernel function", "852000003cf80000", "bf10000000000000"),
        (
            "arguments of a kernel function",
            "852000003cf80000",
            "b701000010000000 1802000000c04104 000000008188ffff 85200000d05e9d00",
        ),
        ("known branch", "5501030000000000", "0500030000000000"),
        ("known branch", "5501030000000000", "0500000000000000"),
        (
            "bounded may_goto",
            "e500030000000000",
            "79abf0ff00000000 150b020000000000 170b000001000000 550b020000000000 b70b0000f0ffffff 850000006077e8ff "
            "7bbaf0ff00000000",
            "",
            ("arch_bpf_timed_may_goto",),
        ),
        (
            "bounded may_goto",
            "e500030000000000",
            "79abf8ff00000000 150b020000000000 170b000001000000 7bbaf8ff00000000",
        ),
        ("address of a kernel symbol", "1831000039300000", "1801000080990083 00000000ffffffff"),
        ("dead code in place", "b700000001000000", "0500ffff00000000"),
        ("counter of may_goto", "b400000000000000", "7a0af0ffffff0000 7a0af8ff00000000"),
        ("counter of may_goto", "b400000000000000", "7a0af8ff00008000"),
        (
            "prologue",
            "b400000000000000",
            "71167e0000000000 5406000001000000 1506070000000000 bf16000000000000 af22000000000000 8500000040b79c00 "
            "1500020000000000 b400000002000000 9500000000000000 bf61000000000000",
            "",
            ("bpf_skb_pull_data",),
        ),
    )
]


def read(text: str) -> tuple[Insn, ...]:
    return decode(bytes.fromhex(text.replace(" ", "")), "little")


def after(text: str, calls: tuple[str, ...]) -> Program:
    insns = read(text)
    slots = [slot for slot, insn in enumerate(insns) if insn.opcode == 0x85 and insn.src != 1]
    refs: dict[int, Ref] = {slot: SymbolRef(name) for slot, name in zip(slots, calls, strict=False)}
    return Program("after", insns, refs=refs, form=Form.XLATED)


def place(found: Program) -> Kernel:
    """A program of 64 slots in which slot N went to N, as jumps of the vectors have it; one function, at 21."""
    return Kernel(tuple(range(65)), lambda name: (JIFFIES,) if name == "jiffies" else (), frozenset({21}))


def recognised(vector: Vector, rows: tuple[Row, ...] = EVERY) -> Change | None:
    """A 64-bit load has its second slot in `At.high`."""
    second = "00" * 8 if vector.before.startswith("18") else ""
    insn, found = read(vector.before + second)[0], after(vector.after, vector.calls)
    return recognise(rows, At(0, insn, 0, vector.helper), found, range(len(found.insns)), place(found))


def own(vector: Vector) -> tuple[Row, ...]:
    return tuple(row for row in EVERY if row.name == vector.row)


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector.row)
def test_a_row_is_recognised_on_its_vector(vector: Vector) -> None:
    found = recognised(vector, own(vector))
    assert found is not None
    assert found.row.name == vector.row


@pytest.mark.parametrize("vector", [one for one in VECTORS if one.row not in ("packet load", "context access")])
def test_no_row_takes_a_vector_with_one_more_instruction(vector: Vector) -> None:
    longer = vector._replace(after=f"{vector.after} 0701000001000000")
    assert recognised(longer, own(vector)) is None


@pytest.mark.parametrize("vector", [one for one in VECTORS if own(one)[0].shape is None])
def test_an_exact_row_does_not_take_a_changed_register(vector: Vector) -> None:
    """The last instruction's destination is another one."""
    texts = vector.after.split()
    last = bytearray.fromhex(texts[-1])
    last[1] ^= 0x04
    changed = vector._replace(after=" ".join([*texts[:-1], last.hex()]))
    assert recognised(changed, own(vector)) is None


def test_every_row_has_a_vector() -> None:
    removals = {row.name for row in (other_flow.DEAD, other_flow.KNOWN_REMOVED, other_flow.NEXT, other_flow.SPILL)}
    assert {vector.row for vector in VECTORS} == {row.name for row in EVERY}
    assert not removals & {row.name for row in EVERY}


def test_an_address_must_be_the_symbols() -> None:
    vector = next(one for one in VECTORS if one.row == "inlined jiffies64")
    moved = vector._replace(after=vector.after.replace("80990083", "88990083"))
    assert recognised(vector) is not None
    assert recognised(moved) is None


def test_an_inlined_loop_calls_a_function_of_the_program() -> None:
    vector = next(one for one in VECTORS if one.row == "inlined bpf_loop")
    other = vector._replace(after=vector.after.replace("8510000008000000", "8510000009000000"))
    assert recognised(vector) is not None
    assert recognised(other) is None


def test_rows_hold_in_their_releases() -> None:
    division = At(0, Insn(0x3F, 1, 2, 1))
    signed = [row for row in other_alu.ROWS if row.pattern(division) and row.name.endswith("guard")]
    told = {
        version: [row.name for row in signed if row.covers(version)]
        for version in ("6.1.1", "6.6.1", "6.11.9", "6.12.0")
    }
    assert told == {
        "6.1.1": [],
        "6.6.1": ["division guard"],
        "6.11.9": ["division guard"],
        "6.12.0": ["signed division guard"],
    }


def test_context_accesses_leave_other_registers_and_calls_alone() -> None:
    rows = tuple(row for row in other_memory.ROWS if row.name == "context access")
    load = At(0, Insn(0x61, 1, 1))

    def asked(text: str) -> bool:
        found = after(text, ())
        return recognise(rows, load, found, range(len(found.insns)), place(found)) is not None

    assert asked("7911080000000000 6111700000000000")
    assert not asked("7913080000000000 6131700000000000")  # writes r3
    assert not asked("7913080000000000")  # does not write r1
    assert not asked("8500000010000000 6111700000000000")
    assert not asked("0500faff00000000 6111700000000000")  # jumps out
    assert not asked("")


def test_functions_of_helpers() -> None:
    assert functions("map_lookup_elem") == {"bpf_map_lookup_elem"}
    assert FUNCTIONS["redirect"] == {"bpf_xdp_redirect"}
    assert "bpf_perf_event_output_tp" in functions("perf_event_output")
    assert not [name for names in FUNCTIONS.values() for name in names if not name.replace("_", "").isalnum()]


def test_a_change_of_a_row_is_not_another_rows() -> None:
    """The first row that fits gives the name: a guard is no context access, a kept call no tail call."""
    vector = next(one for one in VECTORS if one.row == "division guard")
    found = recognised(vector, ROWS)
    assert found is not None
    assert found.row.name == "division guard"
