"""Rows for calls: helpers that are inlined, get further arguments or another opcode, or are left to the JIT.

Source: `do_misc_fixups`, `inline_bpf_loop` and `fixup_kfunc_call`, kernel/bpf/verifier.c of 5.10, 6.1, 6.12;
kernel/bpf/fixups.c and verifier.c of 7.3.
"""

from collections.abc import Callable, Iterator

from model.rewrite.other_alu import MISC
from model.rewrite.other_functions import functions
from model.rewrite.other_passes import CALL, CALLBACK, HIGH, LOW, WIDE, At, Patch, Row, call, insn, same

LOOP = "inline_bpf_loop (kernel/bpf/verifier.c; kernel/bpf/fixups.c of 7.3)"
KFUNC = "fixup_kfunc_call (kernel/bpf/verifier.c)"
MOST_LOOPS, TOO_BIG = 8 << 20, -7  # BPF_MAX_LOOPS, -E2BIG
INVALID, NO_ENTRY, NOT_SUPPORTED = -22, -2, -95
LDX_DW, STX_DW, ST_DW, LDX_W = 0x79, 0x7B, 0x7A, 0x61
STORAGE = frozenset(f"{of}_storage_get" for of in ("sk", "inode", "task", "cgrp"))
PERCPU = -1
"""The offset of BPF_MOV64_PERCPU_REG."""


def helper(*names: str) -> Callable[[At], bool]:
    return lambda at: at.helper in names


def _kernel_function(at: At) -> bool:
    return at.insn.opcode == CALL and at.insn.src == 2


def _loop(at: At) -> Iterator[Patch]:
    """`r6` to `r8`: where these are kept, in the frame."""
    slots = ("r6", "r7", "r8")
    yield (
        *(insn(0xB5, 1, off=2, imm=MOST_LOOPS), insn(0xB4, 0, imm=TOO_BIG), insn(5, off=16)),
        *(insn(STX_DW, 10, 6 + number, off=name) for number, name in enumerate(slots)),
        *(insn(0xBF, 6, 1), insn(0xB4, 7), insn(0xBF, 8, 3), insn(0x3D, 7, 6, off=5)),
        *(insn(0xBF, 1, 7), insn(0xBF, 2, 8), insn(CALL, 0, 1, imm=CALLBACK)),
        *(insn(0x07, 7, imm=1), insn(0x15, 0, off=-6), insn(0xBF, 0, 7)),
        *(insn(LDX_DW, 6 + number, 10, off=name) for number, name in enumerate(slots)),
    )


def _jiffies(at: At) -> Iterator[Patch]:
    name = "jiffies|jiffies_64"
    yield insn(WIDE, imm=f"{LOW}{name}"), insn(0, imm=f"{HIGH}{name}"), insn(LDX_DW)


def _percpu_word(symbol: str, load: int) -> Callable[[At], Iterator[Patch]]:
    """A per-CPU variable of the kernel's own, by its offset in the per-CPU area (32 bits)."""

    def patches(at: At) -> Iterator[Patch]:
        for move in (0xB4, 0xB7):
            yield insn(move, imm=f"{LOW}{symbol}"), insn(0xBF, off=PERCPU), insn(load)

    return patches


def _function_argument(at: At) -> Iterator[Patch]:
    masks = ((), (insn(0x57, imm=0xFF),))
    heads = [(insn(LDX_DW, 0, 1, off=-8), *mask) for mask in masks] + [(insn(0xB7, imm="nr_args"),)]
    for head in heads:
        yield (
            *(*head, insn(0x3E, 2, 0, off=6), insn(0x67, 2, imm=3), insn(0x0F, 2, 1), insn(LDX_DW, 0, 2)),
            *(insn(STX_DW, 3, 0), insn(0xB7), insn(5, off=1), insn(0xB7, imm=INVALID)),
        )


def _function_result(at: At) -> Iterator[Patch]:
    for mask in ((), (insn(0x57, imm=0xFF),)):
        head = (insn(LDX_DW, 0, 1, off=-8), *mask, insn(0x67, imm=3), insn(0x0F, 0, 1))
        yield *head, insn(LDX_DW, 3, 0), insn(STX_DW, 2, 3), insn(0xB7)
    yield (insn(0xB7, imm=NOT_SUPPORTED),)


def _argument_count(at: At) -> Iterator[Patch]:
    yield (insn(LDX_DW, 0, 1, off=-8),)
    yield insn(LDX_DW, 0, 1, off=-8), insn(0x57, imm=0xFF)
    yield (insn(0xB7, imm="nr_args"),)


def _branches(at: At) -> Iterator[Patch]:
    yield (
        *(insn(0x55, 3, off=7), insn(0xB4, imm=0xAAAAAAAB - (1 << 32)), insn(0x2F, 2, 0), insn(0x77, 2, imm=36)),
        *(call("*"), insn(0x15, off=4), insn(0x24, imm=24), insn(5, off=3)),
        *(insn(0xB7, imm=INVALID), insn(5, off=1), insn(0xB7, imm=NO_ENTRY)),
    )


def _tail_call(at: At) -> Iterator[Patch]:
    """The opcode BPF_TAIL_CALL is shown as a call of helper 12, whatever the immediate is."""
    yield (call("bpf_tail_call"),)
    yield insn(0x35, 3, off=2, imm="max_entries"), insn(0x54, 3, imm="index_mask"), call("bpf_tail_call")


def _timer(at: At) -> Iterator[Patch]:
    yield insn(WIDE, 3, imm="prog->aux, low"), insn(0, imm="prog->aux, high"), call(f"bpf_{at.helper}")


def _more(at: At) -> Iterator[Patch]:
    """A flag for the allocation, GFP_ATOMIC or GFP_KERNEL."""
    yield insn(0xB7, 5, imm="gfp_flags"), call(*functions(at.helper))


def _percpu_pointer(at: At) -> Iterator[Patch]:
    yield insn(LDX_DW, 1, 1), call(*functions(at.helper))


def _kernel_calls(at: At) -> Iterator[Patch]:
    """Of another function than the one named: dynptrs of packets that are only read, …"""
    yield (insn(CALL, 0, 2, off="descriptor", imm="function"),)


def _kernel_arguments(at: At) -> Iterator[Patch]:
    """Arguments that the verifier knows: a size and the type's record (objects, lists, trees)."""
    size, meta = insn(0xB7, 1, imm="size"), ("meta, low", "meta, high")
    last = insn(CALL, 0, 2, off="descriptor", imm="function")
    for register in (2, 3, 4, 5):
        load = insn(WIDE, register, imm=meta[0]), insn(0, imm=meta[1])
        yield *load, last
        for other in (2, 3, 4, 5):
            yield *load, insn(0xB7, other, imm="offset"), last
            yield insn(0xB7, other, imm="offset"), *load, last
        yield size, *load, last


def _kernel_inlined(at: At) -> Iterator[Patch]:
    """Casts of a context or pointer, which leave it as it is; a number that is known."""
    yield (insn(0xBF, 0, 1),)
    yield (insn(0xB7, 0, imm="constant"),)


ROWS: tuple[Row, ...] = (
    Row("inlined bpf_loop", LOOP, "6.0", helper("loop"), _loop),
    Row("inlined jiffies64", MISC, "5.6", helper("jiffies64"), _jiffies),
    Row(
        "inlined get_smp_processor_id",
        MISC,
        "6.10",
        helper("get_smp_processor_id"),
        lambda at: [*_percpu_word("cpu_number|pcpu_hot", LDX_W)(at), (insn(0xAC),)],
    ),
    Row(
        "inlined get_current_task",
        MISC,
        "6.19",
        helper("get_current_task", "get_current_task_btf"),
        _percpu_word("current_task|pcpu_hot", LDX_DW),
    ),
    Row("inlined get_func_arg", MISC, "5.17", helper("get_func_arg"), _function_argument),
    Row("inlined get_func_ret", MISC, "5.17", helper("get_func_ret"), _function_result),
    Row("inlined get_func_arg_cnt", MISC, "5.17", helper("get_func_arg_cnt"), _argument_count),
    Row("inlined get_func_ip", MISC, "5.15", helper("get_func_ip"), lambda at: [(insn(LDX_DW, 0, 1, off=-16),)]),
    Row("inlined get_branch_snapshot", MISC, "6.10", helper("get_branch_snapshot"), _branches),
    Row(
        "inlined kptr_xchg",
        MISC,
        "6.8",
        helper("kptr_xchg"),
        lambda at: [(insn(0xBF, 0, 2), insn(0xDB, 1, 0, imm=0xE1))],
    ),
    Row("tail call", MISC, "4.19", helper("tail_call"), _tail_call),
    Row("argument of timer_set_callback", MISC, "5.15", helper("timer_set_callback"), _timer),
    Row("argument of storage_get", MISC, "5.18", helper(*STORAGE), _more),
    Row("per-CPU object", MISC, "6.7", helper("per_cpu_ptr", "this_cpu_ptr"), _percpu_pointer),
    Row("left to the JIT", MISC, "6.10", lambda at: bool(at.helper), lambda at: [(same(at.insn),)]),
    Row("call of another kernel function", KFUNC, "5.13", _kernel_function, _kernel_calls),
    Row("inlined kernel function", KFUNC, "6.2", _kernel_function, _kernel_inlined),
    Row("arguments of a kernel function", KFUNC, "6.2", _kernel_function, _kernel_arguments),
)
