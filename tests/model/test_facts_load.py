"""What is settled at load only: no branch on it is decided, and the reason says what it depends on."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from test_facts import END, FORK, KEY, LOOKUP, program, release

from model.errors import InputError
from model.facts import Facts, SiteFact, analyse
from model.isa.insn import Insn
from model.loaders.elf import load
from model.program import ExternRef, Program, Ref

BOTH = "r1 = map[A]\ngoto meet\nother: r1 = map[B]\nmeet: r3 = 0\n"
CORE = "a CO-RE relocation, which the verifier knows and this input does not tell"
KCONFIG = "a .kconfig variable, which the verifier knows and this input does not tell"
KSYM = "the address of a kernel symbol, which the verifier knows and this input does not tell"


def facts(text: str, relocated: set[int], refs: Mapping[int, Ref] | None = None) -> Facts:
    read = program(text)
    return analyse(replace(read, relocated=frozenset(relocated), refs={**read.refs, **(refs or {})}), release())


def site(text: str, relocated: set[int], refs: Mapping[int, Ref] | None = None) -> SiteFact:
    (found,) = facts(f"{text}{END}" if ".func" not in text else text, relocated, refs).sites.values()
    return found


# Each text tests what slot 0, or another one, was relocated to; with the number as it stands one map is left.
NUMBERS = {
    "move": (f"r6 = 1\nif r6 == 0 goto other\n{BOTH}{LOOKUP}", {0}, 1),
    "move of 32 bits": (f"w6 = 1\nif w6 == 0 goto other\n{BOTH}{LOOKUP}", {0}, 1),
    "64-bit load": (f"r6 = 0x100000001\nif r6 == 0 goto other\n{BOTH}{LOOKUP}", {0}, 2),
    "sum": (f"r6 = 1\nr6 += 8\nif r6 == 1 goto other\n{BOTH}{LOOKUP}", {1}, 2),
    "mask": (f"r6 = 1\nr6 &= 1\nif r6 == 0 goto other\n{BOTH}{LOOKUP}", {1}, 2),
    "shift to the left": (f"r6 = 1\nr6 <<= 3\nif r6 == 1 goto other\n{BOTH}{LOOKUP}", {1}, 2),
    "shift to the right, of 32 bits": (f"w6 = 1\nw6 >>= 1\nif w6 == 1 goto other\n{BOTH}{LOOKUP}", {1}, 2),
    "what is done with it": (
        f"r6 = 1\nr7 = r6\nr7 <<= 2\nr7 -= 2\nw7 = w7\nif r7 == 0 goto other\n{BOTH}{LOOKUP}",
        {0},
        5,
    ),
    "added to a number": (f"r6 = 1\nr7 = 2\nr7 += r6\nif r7 != 3 goto other\n{BOTH}{LOOKUP}", {0}, 3),
    "as the right operand": (f"r6 = 1\nr7 = 0\nif r7 >= r6 goto other\n{BOTH}{LOOKUP}", {0}, 2),
    "spilled": (
        f"r6 = 1\n*(u64 *)(r10 -16) = r6\nr7 = *(u64 *)(r10 -16)\nif r7 == 0 goto other\n{BOTH}{LOOKUP}",
        {0},
        3,
    ),
    "returned": (f"call f\nif r0 == 0 goto other\n{BOTH}{LOOKUP}{END}.func f\nr0 = 1\nexit\n", {14}, 1),
}


@pytest.mark.parametrize("row", NUMBERS)
def test_a_relocated_number_decides_no_branch(row: str) -> None:
    text, relocated, branch = NUMBERS[row]
    found = site(text, relocated)
    assert {pointer.map.name for pointer in found.pointers} == {"A", "B"}
    assert not found.sure_poison
    assert found.pruned_possible == f"the branch at {branch} depends on {CORE}"


@pytest.mark.parametrize("row", [row for row in NUMBERS if row != "returned"])
def test_the_same_number_without_relocation_decides(row: str) -> None:
    found = site(NUMBERS[row][0], set())
    assert [pointer.map.name for pointer in found.pointers] == ["A"]


def test_no_call_is_dead_by_a_relocated_number() -> None:
    text = f"r6 = 1\nif r6 != 0 goto out\nr1 = map[A]\n{LOOKUP}out: "
    assert site(text, {0}).reached
    assert not site(text, set()).reached


def test_a_fork_behind_a_relocated_number_may_not_be_reached() -> None:
    found = site(f"r6 = 1\nif r6 != 0 goto out\n{FORK}{BOTH}{LOOKUP}out: ", {0})
    assert (len(found.pointers), found.sure_poison) == (2, False)
    assert found.pruned_possible == f"the branch at 1 depends on {CORE}"


def test_a_loop_over_a_callback_may_have_no_round() -> None:
    text = (
        f"r1 = 4\nr2 = subprog each\nr3 = 0\nr4 = 0\ncall loop\n{END}.func each\n"
        f"call get_prandom_u32\nr1 = map[A]\nif r0 == 0 goto other\nr1 = map[B]\nother: r3 = 0\n{LOOKUP}r0 = 0\nexit\n"
    )
    assert site(text, set()).sure_poison
    assert not site(text, {0}).sure_poison


# Relocated loads and stores: the offset is anywhere, and the size may change.
OFFSETS = {
    "a load from the frame may be a spilled map": (
        f"r6 = map[A]\n*(u64 *)(r10 -16) = r6\nr1 = *(u64 *)(r10 -24)\n{LOOKUP}",
        {3},
        ([], True),
    ),
    "also one of four bytes": (
        f"r6 = map[A]\n*(u64 *)(r10 -16) = r6\nr1 = *(u32 *)(r10 -16)\n{LOOKUP}",
        {3},
        ([], True),
    ),
    "a store may go over a spilled map": (
        f"r6 = map[A]\nr7 = map[B]\n*(u64 *)(r10 -16) = r6\n*(u64 *)(r10 -24) = r7\nr1 = *(u64 *)(r10 -16)\n{LOOKUP}",
        {5},
        (["A", "B"], False),
    ),
    "a store without relocation does not": (
        f"r6 = map[A]\nr7 = map[B]\n*(u64 *)(r10 -16) = r6\n*(u64 *)(r10 -24) = r7\nr1 = *(u64 *)(r10 -16)\n{LOOKUP}",
        set(),
        (["A"], False),
    ),
    "a frame pointer plus a relocated number": (
        f"r6 = map[A]\n*(u64 *)(r10 -16) = r6\nr7 = r10\nr7 += -24\nr1 = *(u64 *)(r7 +0)\n{LOOKUP}",
        {4},
        ([], True),
    ),
    "a map pointer plus what may be 0": (f"r1 = map[A]\nr1 += 8\n{LOOKUP}", {2}, (["A"], False)),
}


@pytest.mark.parametrize("row", OFFSETS)
def test_relocated_offsets(row: str) -> None:
    text, relocated, (names, unknown) = OFFSETS[row]
    found = site(text, relocated)
    assert ([pointer.map.name for pointer in found.pointers], found.unknown) == (names, unknown)


# A member of the context may have another width in the kernel: what a byte can be, it can be.
@pytest.mark.parametrize(("number", "relocated", "sure"), [(5, {0}, True), (300, {0}, False), (300, set(), True)])
def test_a_relocated_load_of_the_context(number: int, relocated: set[int], sure: bool) -> None:
    found = site(f"r6 = *(u32 *)(r1 +8)\nif r6 == {number} goto other\n{BOTH}{LOOKUP}", relocated)
    assert (len(found.pointers), found.sure_poison) == (2, sure)


EXTERNS = {
    "a variable of .kconfig": (
        f"r6 = 0x0\nr6 = *(u32 *)(r6 +0)\nif r6 == 0 goto other\n{BOTH}{LOOKUP}",
        ExternRef("LINUX_KERNEL_VERSION", "kconfig"),
        f"the branch at 3 depends on {KCONFIG}",
    ),
    "a byte of .kconfig": (
        f"r6 = 0x0\nr7 = *(u8 *)(r6 +0)\nr7 &= 1\nif r7 != 0 goto other\n{BOTH}{LOOKUP}",
        ExternRef("CONFIG_BPF", "kconfig", True),
        f"the branch at 4 depends on {KCONFIG}",
    ),
    "a string of .kconfig, spilled address": (
        f"r6 = 0x0\n*(u64 *)(r10 -16) = r6\nr7 = *(u64 *)(r10 -16)\nr7 += 3\nr7 = *(u8 *)(r7 +0)\n"
        f"if r7 != 97 goto other\n{BOTH}{LOOKUP}",
        ExternRef("CONFIG_LOCALVERSION", "kconfig"),
        f"the branch at 6 depends on {KCONFIG}",
    ),
    "eight bytes of .kconfig": (
        f"r6 = 0x0\nr6 = *(u64 *)(r6 +0)\nif r6 > 9 goto other\n{BOTH}{LOOKUP}",
        ExternRef("CONFIG_HZ", "kconfig"),
        f"the branch at 3 depends on {KCONFIG}",
    ),
    "a weak symbol": (
        f"r6 = 0x0\nif r6 == 0 goto other\n{BOTH}{LOOKUP}",
        ExternRef("bpf_no_such_thing", "ksym", True),
        f"the branch at 2 depends on {KSYM}",
    ),
    "a bit of a strong symbol's address": (
        f"r6 = 0x0\nr6 &= 16\nif r6 == 0 goto other\n{BOTH}{LOOKUP}",
        ExternRef("jiffies", "ksym"),
        f"the branch at 3 depends on {KSYM}",
    ),
}


@pytest.mark.parametrize("row", EXTERNS)
def test_what_the_kernel_supplies_decides_no_branch(row: str) -> None:
    text, extern, reason = EXTERNS[row]
    found = site(text, set(), {0: extern})
    assert {pointer.map.name for pointer in found.pointers} == {"A", "B"}
    assert (found.sure_poison, found.pruned_possible) == (False, reason)


def test_other_memory_of_the_kernel_can_hold_any_number() -> None:
    text = f"r6 = 0x0\nr6 = *(u32 *)(r6 +0)\nif r6 == 0 goto other\n{BOTH}{LOOKUP}"
    assert site(text, set(), {0: ExternRef("jiffies", "ksym")}).sure_poison


THROW = f"r6 = map[A]\nr7 = *(u32 *)(r1 +0)\nif r7 > 9 goto on\nr6 = map[B]\nr1 = 7\n{{}}\non: r1 = r6\n{LOOKUP}{END}"


@pytest.mark.parametrize(("call", "sure"), [("bpf_throw", False), ("bpf_rcu_read_lock", True)])
def test_a_path_that_throws_brings_no_map_further(call: str, sure: bool) -> None:
    read = program(THROW.format("r2 = 0"))
    insns = (*read.insns[:7], Insn(0x85, 0, 2), *read.insns[8:])
    (found,) = analyse(
        replace(read, insns=insns, refs={**read.refs, 7: ExternRef(call, "kfunc")}), release()
    ).sites.values()
    assert (len(found.pointers), found.sure_poison) == (2, sure)
    assert found.pruned_possible == ("" if sure else "a path may end in bpf_throw")


def entered(entries: tuple[int, ...]) -> Program:
    use = f"{KEY}call map_lookup_elem\nr0 = 0\nexit\n"
    read = program(f"r1 = map[A]\ncall use\n{END}.func use\n{use}.func caught\nr1 = map[H]\n{use}")
    return replace(read, entries=entries)


def test_what_the_kernel_enters_on_its_own_is_reached() -> None:
    starts = {row.name: row.start for row in entered(()).subprograms}
    inside, caught = analyse(entered((starts["caught"],)), release()).sites.values()
    assert [pointer.map.name for pointer in inside.pointers] == ["A"]
    assert ([pointer.map.name for pointer in caught.pointers], caught.reached) == (["H"], True)
    assert [fact.reached for fact in analyse(entered(()), release()).sites.values()] == [True, False]


def test_an_entry_is_the_start_of_a_subprogram() -> None:
    with pytest.raises(InputError, match="entry at instruction 1: the start of a subprogram"):
        analyse(entered((1,)), release())


def test_a_map_in_the_callers_frame_is_told_as_the_reason() -> None:
    text = (
        "r6 = map[A]\n*(u64 *)(r10 -8) = r6\nr1 = 4\nr2 = subprog each\nr3 = r10\nr3 += -8\nr4 = 0\ncall loop\n"
        f"{END}.func each\nr1 = *(u64 *)(r2 +0)\n{KEY}call map_lookup_elem\nr0 = 0\nexit\n"
    )
    found = site(text, set())
    assert (found.pointers, found.unknown) == ((), True)
    assert found.why_unknown == "it may be read through a pointer into the caller's frame"


def test_a_callback_that_only_a_dead_call_names_is_no_sure_poison() -> None:
    text = (
        "r7 = 0\nif r7 == 0 goto out\nr1 = map[H]\nr2 = subprog each\nr3 = 0\nr4 = 0\ncall for_each_map_elem\n"
        f"out: {END}.func each\ncall get_prandom_u32\nr1 = map[A]\nif r0 == 0 goto other\nr1 = map[B]\n"
        f"other: {LOOKUP}r0 = 0\nexit\n"
    )
    found = max(facts(text, set()).sites.values(), key=lambda fact: len(fact.pointers))
    assert (len(found.pointers), found.sure_poison) == (2, False)


OBJECTS = Path(__file__).parents[1] / "data" / "objects"
# What 6.18 made of the call, `bpftool prog loadall` and `prog dump xlated`: array_map_update_elem in `version`,
# htab_map_update_elem in the others; no more than one of them can be told from the object.
PROGRAMS = {
    ("relocated.o", "field_exists"): "a CO-RE relocation",
    ("relocated.o", "enum_value"): "a CO-RE relocation",
    ("kernel_config.o", "version"): "a .kconfig variable",
    ("kernel_config.o", "option"): "a .kconfig variable",
    ("kernel_config.o", "symbol"): "the address of a kernel symbol",
}


def compiled(file: str, name: str) -> Facts:
    programs = load((OBJECTS / file).read_bytes(), file).programs
    return analyse(next(program for program in programs if program.name == name), release())


@pytest.mark.parametrize(("file", "name"), PROGRAMS)
def test_a_compiled_program_that_asks_its_kernel(file: str, name: str) -> None:
    (found,) = compiled(file, name).sites.values()
    assert ({pointer.map.name for pointer in found.pointers}, found.sure_poison) == ({"one_array", "one_hash"}, False)
    assert PROGRAMS[file, name] in found.pruned_possible


def test_both_calls_of_a_compiled_program_may_be_reached() -> None:
    """6.18 keeps the second one only: its task_struct has no member `state`."""
    assert [fact.reached for fact in compiled("relocated.o", "two_calls").sites.values()] == [True, True]


def test_a_compiled_exception_callback() -> None:
    """`count` has the entry's map and the callback's; the map on the path that throws comes nowhere (6.18: direct)."""
    shared, caught = compiled("exceptions.o", "thrower").sites.values()
    assert [{pointer.map.name for pointer in fact.pointers} for fact in (shared, caught)] == [
        {"one_array", "one_hash"},
        {"one_hash"},
    ]
    (thrown,) = compiled("exceptions.o", "thrown_away").sites.values()
    assert (len(thrown.pointers), thrown.sure_poison) == (2, False)
