"""Calls of subprograms in every layout that kernels put into dumps, and calls whose target is withheld.

Expected targets are read off the listings by hand; the layouts are those of the kernel functions named in
`model.loaders.xlated_calls`.
"""

import pytest

from model.errors import InputError
from model.isa.insn import Insn
from model.loaders import xlated
from model.program import Program, SymbolRef


def load(text: str) -> Program:
    (program,) = xlated.load_text(text, "dump.txt").programs
    return program


def called(shown: str, raw: str, headers: bool = True) -> int:
    """The target (slot) of the call in slot 1 of a program with functions at slots 0, 3 and 4."""
    main, one, two = ("int main(void):", "int one(void):", "int two(void):") if headers else ("", "", "")
    program = load(
        f"{main}\n0: (b7) r0 = 0\n1: (85) call {shown}\n {raw}\n2: (95) exit\n"
        f"{one}\n3: (95) exit\n{two}\n4: (95) exit\n"
    )
    insn = program.insns[1]
    assert (insn.opcode, insn.src, insn.off) == (0x85, 1, 0)
    assert 2 + insn.imm in [sub.start for sub in program.subprograms]
    return 2 + insn.imm


@pytest.mark.parametrize("headers", [True, False], ids=["btf", "no btf"])
@pytest.mark.parametrize(
    ("shown", "raw"),
    [
        ("pc+2#bpf_prog_0123456789abcdef_two", "85 10 02 00 02 00 00 00"),  # JITed: imm is subprogram 2
        ("pc+2#0x0", "85 10 02 00 00 00 00 00"),  # restricted pointers
        ("pc+2", "85 10 02 00 40 fe ff ff"),  # interpreted: imm is an address
        ("pc+0", "85 10 00 00 02 00 00 00"),  # as loaded: imm is the target
        ("pc+2", ""),  # text only
    ],
    ids=["jited", "restricted", "interpreted", "as loaded", "text"],
)
def test_layouts(shown: str, raw: str, headers: bool) -> None:
    assert called(shown, raw, headers) == 4


def test_swapped_layout_is_told_by_the_functions() -> None:
    """off is subprogram 1 (at slot 3), imm the way there."""
    program = load(
        "int main(void):\n0: (85) call pc+1\n 85 10 01 00 02 00 00 00\n1: (b7) r0 = 0\n2: (95) exit\n"
        "int one(void):\n3: (95) exit\n"
    )
    assert program.insns[0] == Insn(0x85, 0, 1, 0, 2)


def far(call: str, raw: str) -> str:
    """main calls a function 40,001 slots away, further than 16 bits reach; another one stands in between."""
    rows = [f"int main(void):\n0: (85) call {call}\n {raw}\n1: (95) exit\nint near(void):\n"]
    rows += [f"{slot}: (b7) r0 = 0\n" for slot in range(2, 40001)]
    rows += ["40001: (95) exit\nint distant(void):\n40002: (95) exit\n"]
    return "".join(rows)


@pytest.mark.parametrize(
    ("call", "raw"),
    [
        ("pc-25535#bpf_prog_0123456789abcdef_distant", "85 10 41 9c fe ff ff ff"),  # 40001 - 65536, up to 6.12
        ("pc-25535", ""),
        ("pc+0#bpf_prog_0123456789abcdef_distant", "85 10 00 00 02 00 00 00"),  # 7.3: index alone
        ("pc+0#bpf_prog_0123456789abcdef_distant", ""),  # 7.3: the symbol alone
    ],
    ids=["cut", "cut, text", "index", "symbol"],
)
def test_targets_out_of_reach_of_16_bits(call: str, raw: str) -> None:
    assert load(far(call, raw)).insns[0] == Insn(0x85, 0, 1, 0, 40001)


def test_a_call_without_any_target_is_refused() -> None:
    with pytest.raises(InputError, match=r"dump.txt: line 1: expected a call whose target the dump tells"):
        load("0: (85) call pc+0#0x0\n1: (95) exit\n2: (95) exit\n")


@pytest.mark.parametrize(
    ("call", "raw"),
    [
        ("bpf_unspec#0", "85 00 00 00 00 00 00 00"),
        ("bpf_unspec#0", ""),
        ("unknown#0", ""),
        ("0x0#0", "85 20 00 00 00 00 00 00"),
        ("0x0#0", ""),
        ("kernel-function#0", ""),
        ("__bpf_call_base#0", ""),
    ],
)
def test_withheld(call: str, raw: str) -> None:
    program = load(f"0: (85) call {call}\n {raw}\n1: (95) exit\n")
    assert program.hidden
    assert program.refs == {}
    assert program.notes == (
        "the kernel withheld the target of 1 of 1 calls (restricted kernel pointers): what they call cannot be told",
    )


def test_withheld_in_part() -> None:
    program = load("0: (85) call htab_map_update_elem#260176\n1: (85) call bpf_unspec#0\n2: (95) exit\n")
    assert program.hidden
    assert program.refs == {0: SymbolRef("htab_map_update_elem")}
    assert "1 of 2 calls" in program.notes[0]


def test_tail_calls_tell_nothing_of_restriction() -> None:
    """The kernel prints helper 12 for a tail call also where it withholds all else."""
    program = load("0: (85) call bpf_tail_call#12\n1: (95) exit\n")
    assert not program.hidden
    assert program.refs == {0: SymbolRef("bpf_tail_call")}


def test_an_address_without_a_symbol_is_no_name() -> None:
    program = load("0: (85) call 0xffffffffa0001234#-4660\n1: (95) exit\n")
    assert not program.hidden
    assert program.refs == {}
    assert program.notes == ("1 of 1 calls go to an address that the dump has no symbol for",)


def test_kfunc_calls_keep_source_2_where_bytes_show_it() -> None:
    program = load("0: (85) call bpf_rcu_read_lock#290240\n 85 20 00 00 c0 6d 04 00\n1: (95) exit\n")
    assert program.insns[0] == Insn(0x85, 0, 2, 0, 290240)
    assert program.refs == {0: SymbolRef("bpf_rcu_read_lock")}
