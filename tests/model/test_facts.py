"""Which map pointers reach a call: literal rows, each a program in the kernel's syntax."""

from functools import cache

import pytest

from model.errors import InputError, Unsupported
from model.facts import Assumption, Facts, analyse
from model.isa.insn import Insn
from model.kernel.data import load_release
from model.kernel.release import Release
from model.loaders.assembly import load
from model.program import Map, MapRef, Program

MAPS = """
.map A array 4 8 1
.map B array 4 8 1
.map H hash 4 8 1
.map INNER1 hash 4 8 1
.map INNER2 hash 4 8 1
.map OUT1 array_of_maps 4 4 1 inner=INNER1
.map OUT2 array_of_maps 4 4 1 inner=INNER2
.map RODATA array 4 8 1 flags=128
"""

KEY = """
r2 = r10
r2 += -4
*(u32 *)(r10 -4) = 0
"""

LOOKUP = f"{KEY}\nsite: call map_lookup_elem\n"
END = "r0 = 0\nexit\n"


@cache
def release() -> Release:
    return load_release("6.12")


def program(text: str) -> Program:
    return load(MAPS + text, "test", dict(release().helper_ids)).programs[0]


def facts(text: str) -> Facts:
    return analyse(program(text), release())


def names(found: Facts, number: int = -1) -> list[str]:
    """Maps of one site, by the names given above; a template by its outer map's number."""
    site = list(found.sites.values())[number]
    return [f"inner {pointer.key[1]}" if pointer.template else pointer.map.name for pointer in site.pointers]


FORK = "call get_prandom_u32\nif r0 == 0 goto other\n"

ROWS = {
    "one map": (f"r1 = map[A]\n{LOOKUP}", ["A"]),
    "two arrays": (f"{FORK}r1 = map[A]\ngoto meet\nother: r1 = map[B]\nmeet: r3 = 0\n{LOOKUP}", ["B", "A"]),
    "array and hash": (f"{FORK}r1 = map[A]\ngoto meet\nother: r1 = map[H]\nmeet: r3 = 0\n{LOOKUP}", ["H", "A"]),
    "the same map twice": (f"{FORK}r1 = map[A]\ngoto meet\nother: r1 = map[A]\nmeet: r3 = 0\n{LOOKUP}", ["A"]),
    "overwritten": (f"r1 = map[A]\nr1 = map[B]\n{LOOKUP}", ["B"]),
    "moved": (f"r6 = map[A]\nr7 = r6\nr6 = 0\nr1 = r7\n{LOOKUP}", ["A"]),
    "moved by half": (f"r6 = map[A]\nw1 = w6\n{LOOKUP}", []),
    "kept over a call": (f"r6 = map[A]\ncall get_prandom_u32\nr1 = r6\n{LOOKUP}", ["A"]),
    "not kept over a call": (f"r5 = map[A]\ncall get_prandom_u32\nr1 = r5\n{LOOKUP}", []),
    "plus zero": (f"r1 = map[A]\nr1 += 0\n{LOOKUP}", ["A"]),
    "plus something": (f"r1 = map[A]\nr1 += 8\n{LOOKUP}", []),
    "a map's value": (f"r1 = map[A][0]+0\n{LOOKUP}", []),
    "spilled": (f"r1 = map[A]\n*(u64 *)(r10 -16) = r1\nr1 = 0\nr1 = *(u64 *)(r10 -16)\n{LOOKUP}", ["A"]),
    "spilled through a copy of r10": (
        f"r1 = map[A]\nr6 = r10\nr6 += -24\n*(u64 *)(r6 +8) = r1\nr1 = *(u64 *)(r10 -16)\n{LOOKUP}",
        ["A"],
    ),
    "spill overwritten": (
        f"r1 = map[A]\n*(u64 *)(r10 -16) = r1\nr1 = map[B]\n*(u64 *)(r10 -16) = r1\nr1 = *(u64 *)(r10 -16)\n{LOOKUP}",
        ["B"],
    ),
    "one byte of the spill overwritten": (
        f"r1 = map[A]\n*(u64 *)(r10 -16) = r1\n*(u8 *)(r10 -9) = 0\nr1 = *(u64 *)(r10 -16)\n{LOOKUP}",
        [],
    ),
    "an overlapping store": (
        f"r1 = map[A]\n*(u64 *)(r10 -16) = r1\nr3 = 0\n*(u64 *)(r10 -12) = r3\nr1 = *(u64 *)(r10 -16)\n{LOOKUP}",
        [],
    ),
    "the spill's neighbour overwritten": (
        f"r1 = map[A]\n*(u64 *)(r10 -16) = r1\n*(u8 *)(r10 -17) = 0\nr1 = *(u64 *)(r10 -16)\n{LOOKUP}",
        ["A"],
    ),
    "half of a spill": (f"r1 = map[A]\n*(u64 *)(r10 -16) = r1\nr1 = *(u32 *)(r10 -16)\n{LOOKUP}", []),
    "spilled by one path only": (
        f"r6 = map[B]\n*(u64 *)(r10 -16) = r6\n{FORK}r6 = map[A]\n*(u64 *)(r10 -16) = r6\n"
        f"other: r1 = *(u64 *)(r10 -16)\n{LOOKUP}",
        ["B", "A"],
    ),
    "an atomic on the spill": (
        f"r1 = map[A]\n*(u64 *)(r10 -16) = r1\nr3 = 1\nlock *(u64 *)(r10 -16) += r3\nr1 = *(u64 *)(r10 -16)\n{LOOKUP}",
        [],
    ),
    "another map on the second iteration": (
        f"r6 = map[A]\nagain: r1 = r6\n{LOOKUP}r6 = map[B]\ncall get_prandom_u32\nif r0 != 0 goto again\n",
        ["A", "B"],
    ),
    "two maps swap places in a loop": (
        f"r6 = map[A]\nr7 = map[B]\nagain: r1 = r6\n{LOOKUP}r8 = r6\nr6 = r7\nr7 = r8\n"
        f"call get_prandom_u32\nif r0 != 0 goto again\n",
        ["A", "B"],
    ),
    "an inner map": (
        f"r1 = map[OUT1]\n{LOOKUP}if r0 == 0 goto out\nr1 = r0\n{KEY}call map_lookup_elem\nout: ",
        ["inner 5"],
    ),
    "inner maps of two outer maps": (
        f"call get_prandom_u32\nr6 = r0\nif r6 == 0 goto one\nr1 = map[OUT1]\n{LOOKUP}goto meet\n"
        f"one: r1 = map[OUT2]\n{KEY}call map_lookup_elem\nmeet: if r0 == 0 goto out\nr1 = r0\n"
        f"{KEY}call map_lookup_elem\nout: ",
        ["inner 6", "inner 5"],
    ),
    "an inner map or another where it is NULL": (
        f"r1 = map[OUT1]\n{LOOKUP}if r0 != 0 goto go\nr0 = map[H]\ngo: r1 = r0\n{KEY}call map_lookup_elem\n",
        ["inner 5", "H"],
    ),
    "NULL on the other path": (f"{FORK}r1 = map[A]\ngoto meet\nother: r1 = 0\nmeet: r3 = 0\n{LOOKUP}", ["A"]),
}


@pytest.mark.parametrize("row", ROWS)
def test_maps_at_the_last_site(row: str) -> None:
    text, expected = ROWS[row]
    found = facts(text + END)
    assert sorted(names(found)) == sorted(expected)
    assert list(found.sites.values())[-1].reached


DEAD = {
    "a constant": "r6 = 1\nif r6 == 1 goto go\n",
    "a constant that was computed": "r6 = 3\nr6 *= 5\nr6 -= 14\nr6 <<= 2\nr6 >>= 2\nif r6 == 1 goto go\n",
    "halves of registers": "r6 = 0x100000001\nif w6 == 1 goto go\n",
    "32-bit arithmetic": "w6 = -1\nw6 += 2\nif r6 == 1 goto go\n",
    "an arithmetic shift": "r6 = -8\nr6 s>>= 3\nif r6 s< 0 goto go\n",
    "an unsigned comparison": "r6 = -1\nif r6 > 100 goto go\n",
    "an immediate that is sign-extended": "r6 = 0x80000001\nif r6 < 0x80000000 goto go\n",
    "a bit test": "r6 = 6\nif r6 & 4 goto go\n",
    "two registers": "r6 = 7\nr7 = 7\nif r6 >= r7 goto go\n",
    "a constant from the stack": "r6 = 1\n*(u64 *)(r10 -16) = r6\nr6 = 0\nr6 = *(u64 *)(r10 -16)\nif r6 == 1 goto go\n",
    "a zero from the stack": "*(u64 *)(r10 -16) = 0\nr6 = *(u64 *)(r10 -16)\nif r6 == 0 goto go\n",
    "the same constant on both paths": (
        "call get_prandom_u32\nr6 = 1\nif r0 == 0 goto same\nr6 = 1\nsame: if r6 == 1 goto go\n"
    ),
}


@pytest.mark.parametrize("row", DEAD)
def test_a_map_on_a_dead_path_does_not_reach_the_call(row: str) -> None:
    text = f"r8 = map[A]\n{DEAD[row]}r8 = map[B]\ngo: r1 = r8\n{LOOKUP}{END}"
    assert names(facts(text)) == ["A"]


ALIVE = {
    "a number read from memory": "r6 = *(u32 *)(r1 +0)\nif r6 == 1 goto go\n",
    "a constant that differs by path": (
        "call get_prandom_u32\nr6 = 1\nif r0 == 0 goto same\nr6 = 2\nsame: if r6 == 1 goto go\n"
    ),
    "a division": "r6 = 3\nr6 /= 3\nif r6 == 1 goto go\n",
    "a negation": "r6 = -1\nr6 = -r6\nif r6 == 1 goto go\n",
    "a byte swap": "r6 = 1\nr6 = le16 r6\nif r6 == 1 goto go\n",
    "a stack slot that a helper may have written": (
        "*(u64 *)(r10 -16) = 0\nr1 = r10\nr1 += -16\nr2 = 16\ncall get_current_comm\n"
        "r6 = *(u64 *)(r10 -16)\nif r6 == 0 goto go\n"
    ),
    "may_goto": "r6 = 0\nmay_goto go\n",
}


@pytest.mark.parametrize("row", ALIVE)
def test_a_map_on_a_path_that_some_verifier_follows_reaches_the_call(row: str) -> None:
    text = f"r8 = map[A]\n{ALIVE[row]}r8 = map[B]\ngo: r1 = r8\n{LOOKUP}{END}"
    assert sorted(names(facts(text))) == ["A", "B"]


def test_dead_branches_count_for_a_program_without_privileges() -> None:
    text = f"r8 = map[A]\nr6 = 1\nif r6 == 1 goto go\nr8 = map[B]\ngo: r1 = r8\n{LOOKUP}{END}"
    found = analyse(program(text), release(), speculative=True)
    assert sorted(names(found)) == ["A", "B"]


def test_a_call_that_nothing_reaches() -> None:
    found = facts(f"goto out\nr1 = map[A]\n{LOOKUP}out: {END}")
    site = found.sites[6]
    assert (site.reached, site.pointers, site.callee) == (False, (), "map_lookup_elem")
    assert found.reached == b"\1" + b"\0" * 6 + b"\1\1"


def test_only_map_helpers_are_sites_of_an_object() -> None:
    found = facts(f"call get_prandom_u32\nr1 = map[A]\n{LOOKUP}{END}")
    assert [(slot, site.callee) for slot, site in found.sites.items()] == [(6, "map_lookup_elem")]


def test_pointers_carry_their_maps() -> None:
    found = facts(f"r1 = map[OUT1]\n{LOOKUP}r1 = r0\n{KEY}call map_lookup_elem\n{END}")
    outer, inner = found.sites.values()
    assert [(pointer.key, pointer.map.type) for pointer in outer.pointers] == [(("map", 5), "array_of_maps")]
    assert [(pointer.key, pointer.map.name) for pointer in inner.pointers] == [(("inner", 5), "INNER1")]


def test_a_template_that_the_input_does_not_show_has_no_type() -> None:
    outer = Map("outer", "hash_of_maps", 4, 4, 1)
    call = Insn(0x85, imm=1)
    insns = (Insn(0x18, 1, 1), Insn(0), call, Insn(0xBF, 1, 0), call, Insn(0x95))
    found = analyse(Program("p", insns, maps=(outer,), refs={0: MapRef(0)}), release())
    assert [(pointer.key, pointer.map.type) for pointer in found.sites[4].pointers] == [(("inner", 0), None)]


def test_the_context_may_hold_what_the_input_does_not_tell() -> None:
    found = facts(f"r1 = *(u64 *)(r1 +0)\n{LOOKUP}{END}")
    assert (found.sites[4].unknown, found.sites[4].pointers) == (True, ())


def test_an_assumption_names_the_map() -> None:
    text = f"r1 = *(u64 *)(r1 +0)\n{LOOKUP}{END}"
    named = Map("named", "hash", 8, 8, 1)
    site = analyse(program(text), release(), [Assumption(1, 1, named)]).sites[4]
    assert (site.unknown, [pointer.key for pointer in site.pointers]) == (False, [("assumed", "named")])
    assert site.pointers[0].map is named


def test_an_assumption_holds_until_the_register_changes() -> None:
    text = f"r1 = *(u64 *)(r1 +0)\nr1 = map[A]\n{LOOKUP}{END}"
    found = analyse(program(text), release(), [Assumption(1, 1, Map("named", "hash"))])
    assert names(found) == ["A"]


@pytest.mark.parametrize(("slot", "reg"), [(-1, 1), (99, 1), (0, 10), (0, -1)])
def test_assumptions_out_of_place_are_bad_input(slot: int, reg: int) -> None:
    with pytest.raises(InputError, match="assumption about"):
        analyse(program(END), release(), [Assumption(slot, reg, Map("m", "hash"))])


def test_jumps_out_of_the_program_are_bad_input() -> None:
    with pytest.raises(InputError, match="p: instruction 0: a target in 0 to 1, found 8"):
        analyse(Program("p", (Insn(0x05, off=7), Insn(0x95))), release())


def test_jumps_into_a_wide_load_are_bad_input() -> None:
    with pytest.raises(InputError, match="instruction 0: a target that is no second half"):
        analyse(Program("p", (Insn(0x05, off=1), Insn(0x18, 1), Insn(0), Insn(0x95))), release())


def test_references_to_maps_that_are_not_there_are_bad_input() -> None:
    with pytest.raises(InputError, match="instruction 0: a map from 0 to -1: 3"):
        analyse(Program("p", (Insn(0x18, 1, 1), Insn(0), Insn(0x95)), refs={0: MapRef(3)}), release())


def test_indirect_jumps_have_no_rule() -> None:
    with pytest.raises(Unsupported, match="gotox"):
        analyse(Program("p", (Insn(0x0D, 1), Insn(0x95))), release())


def test_no_instructions_no_facts() -> None:
    assert analyse(Program("p", ()), release()).sites == {}


def test_a_loop_of_nothing_ends() -> None:
    assert analyse(Program("p", (Insn(0x05, off=-1), Insn(0x95))), release()).reached == b"\1\0"


def test_131072_jumps_to_the_next_instruction() -> None:
    found = analyse(Program("p", (*[Insn(0x05)] * 131_072, Insn(0x95))), release())
    assert sum(found.reached) == 131_073
