"""Facts of dumps: programs that are rewritten already, and fragments that begin anywhere."""

from test_facts import release

from model.facts import Assumption, Facts, analyse
from model.loaders.xlated import load_text
from model.program import Map, Program

MAPS = {
    1: Map("table", "hash", 8, 8, 4, 0, id=1),
    2: Map("by_index", "array_of_maps", 4, 4, 4, 0, id=2, inner=Map("inner_hash", "hash", 4, 8, 4, 0)),
    3: Map("by_name", "hash_of_maps", 4, 4, 4, 0, id=3),
    4: Map("cells", "array", 4, 8, 4, 0, id=4),
}


def dump(text: str) -> Program:
    return load_text(text, "dump.txt", MAPS).programs[0]


def at(found: Facts, slot: int) -> tuple[list[str], bool]:
    site = found.sites[slot]
    return [str(pointer.map.name) for pointer in site.pointers], site.unknown


def test_direct_and_helper_calls_are_sites_by_the_symbols_name() -> None:
    found = analyse(
        dump(
            "0: (18) r1 = map[id:1]\n2: (bf) r2 = r10\n3: (07) r2 += -8\n"
            "4: (85) call htab_map_delete_elem#260176\n5: (85) call bpf_get_prandom_u32#97936\n"
            "6: (18) r1 = map[id:4]\n8: (85) call bpf_map_delete_elem#143680\n9: (95) exit\n"
        ),
        release(),
    )
    assert {slot: site.callee for slot, site in found.sites.items()} == {
        4: "htab_map_delete_elem",
        5: "bpf_get_prandom_u32",
        8: "bpf_map_delete_elem",
    }
    assert (at(found, 4), at(found, 5), at(found, 8)) == ((["table"], False), ([], False), (["cells"], False))


BY_INDEX = """
0: (bf) r2 = r10
1: (07) r2 += -4
2: (18) r1 = map[id:2]
4: (07) r1 += 360
5: (61) r0 = *(u32 *)(r2 +0)
6: (35) if r0 >= 0x4 goto pc+5
7: (67) r0 <<= 3
8: (0f) r0 += r1
9: (79) r0 = *(u64 *)(r0 +0)
10: (15) if r0 == 0x0 goto pc+1
11: (05) goto pc+1
12: (b7) r0 = 0
13: (15) if r0 == 0x0 goto pc+4
14: (bf) r1 = r0
15: (bf) r2 = r10
16: (07) r2 += -4
17: (85) call htab_map_delete_elem#260176
18: (b7) r0 = 0
19: (95) exit
"""


def test_an_inlined_lookup_in_an_array_of_maps_gives_the_template() -> None:
    assert at(analyse(dump(BY_INDEX), release()), 17) == (["inner_hash"], False)


BY_NAME = """
0: (bf) r2 = r10
1: (07) r2 += -8
2: (18) r1 = map[id:3]
4: (85) call __htab_map_lookup_elem#248656
5: (15) if r0 == 0x0 goto pc+2
6: (07) r0 += 56
7: (79) r0 = *(u64 *)(r0 +0)
8: (15) if r0 == 0x0 goto pc+4
9: (bf) r1 = r0
10: (bf) r2 = r10
11: (07) r2 += -8
12: (85) call array_map_update_elem#260176
13: (95) exit
"""


def test_an_inlined_lookup_in_a_hash_of_maps_gives_the_template() -> None:
    found = analyse(dump(BY_NAME), release())
    assert found.sites[12].pointers[0].key == ("inner", 0)
    assert (found.sites[12].pointers[0].map.type, found.sites[12].unknown) == (None, False)


def test_the_value_of_a_plain_hash_is_no_map() -> None:
    text = BY_NAME.replace("map[id:3]", "map[id:1]")
    assert at(analyse(dump(text), release()), 12) == ([], False)


def test_a_map_whose_type_is_not_known_may_be_a_map_of_maps() -> None:
    program = load_text(BY_NAME, "dump.txt").programs[0]
    assert at(analyse(program, release()), 12) == ([], True)


def test_the_operation_of_a_map_of_maps_gives_the_template() -> None:
    text = (
        "0: (18) r1 = map[id:2]\n2: (bf) r2 = r10\n3: (85) call array_of_map_lookup_elem#1\n4: (bf) r1 = r0\n"
        "5: (bf) r2 = r10\n6: (85) call htab_map_delete_elem#2\n7: (95) exit\n"
    )
    assert at(analyse(dump(text), release()), 6) == (["inner_hash"], False)


def test_the_operation_that_calls_back_hands_over_its_map() -> None:
    found = analyse(
        dump(
            "int walk(struct xdp_md * ctx):\n"
            "0: (18) r1 = map[id:4]\n2: (18) r2 = subprog[+4]\n4: (b7) r3 = 0\n"
            "5: (85) call bpf_for_each_array_elem#170336\n6: (95) exit\n"
            "long each(struct bpf_map * map, __u32 * key, __u64 * value, void * ctx):\n"
            "7: (85) call array_map_delete_elem#1\n8: (95) exit\n"
        ),
        release(),
    )
    assert (found.callbacks, at(found, 7)) == ({5: (7,)}, (["cells"], False))


FRAGMENT = """
 ; if (rules_map) {
 142: (15) if r4 == 0x0 goto pc+8
 143: (bf) r3 = r10
 ; for each element
 144: (07) r3 += -24
 145: (bf) r1 = r4
 146: (18) r2 = subprog[+5]
 148: (b7) r4 = 0
 149: (85) call bpf_for_each_map_elem#143680
"""


def test_a_fragment_begins_with_unknown_registers() -> None:
    found = analyse(dump(FRAGMENT), release())
    assert at(found, 7) == ([], True)
    assert found.notes == (
        "a fragment: registers and stack are unknown where it begins, and jumps into it are not seen",
    )


def test_the_user_names_the_map_of_a_fragment() -> None:
    named = Map("rules", "array")
    found = analyse(dump(FRAGMENT), release(), [Assumption(0, 4, named)])
    assert (at(found, 7), found.sites[7].pointers[0].key) == ((["rules"], False), ("assumed", "rules"))
    later = analyse(dump(FRAGMENT), release(), [Assumption(3, 4, named)])
    assert at(later, 7) == (["rules"], False)
    too_late = analyse(dump(FRAGMENT), release(), [Assumption(7, 4, named)])
    assert at(too_late, 7) == ([], True)


def test_the_stack_of_a_fragment_is_unknown_until_it_is_written() -> None:
    text = (
        "10: (79) r1 = *(u64 *)(r10 -16)\n11: (85) call htab_map_delete_elem#1\n"
        "12: (18) r1 = map[id:1]\n14: (7b) *(u64 *)(r10 -16) = r1\n15: (79) r1 = *(u64 *)(r10 -16)\n"
        "16: (85) call htab_map_delete_elem#1\n17: (7b) *(u64 *)(r10 -16) = r0\n18: (79) r1 = *(u64 *)(r10 -16)\n"
        "19: (85) call htab_map_delete_elem#1\n"
    )
    found = analyse(dump(text), release())
    assert [at(found, slot) for slot in (1, 6, 9)] == [([], True), (["table"], False), ([], False)]


def test_a_store_through_an_unknown_pointer_may_hit_the_stack_of_a_fragment() -> None:
    text = (
        "10: (18) r1 = map[id:1]\n12: (7b) *(u64 *)(r10 -16) = r1\n13: (18) r1 = map[id:4]\n"
        "15: (7b) *(u64 *)(r6 +0) = r1\n16: (79) r1 = *(u64 *)(r10 -16)\n17: (85) call htab_map_delete_elem#1\n"
    )
    assert at(analyse(dump(text), release()), 7) == (["table", "cells"], False)


def test_what_only_a_jump_from_outside_can_reach_begins_unknown() -> None:
    found = analyse(dump("10: (95) exit\n11: (bf) r1 = r6\n12: (85) call htab_map_delete_elem#1\n"), release())
    assert at(found, 2) == ([], True)


def test_a_function_of_a_fragment_may_have_callers_outside() -> None:
    text = (
        "10: (18) r1 = map[id:1]\n12: (85) call pc+1#f\n13: (95) exit\n"
        "14: (85) call htab_map_delete_elem#1\n15: (95) exit\n"
    )
    program = dump(text)
    assert program.fragment
    assert at(analyse(program, release()), 4) == (["table"], True)


THROWER = """\
int thrower(struct __sk_buff * skb):
0: (18) r1 = map[id:4]
2: (85) call pc+1#bpf_prog_1_count
3: (95) exit
int count(void * map):
4: (bf) r2 = r10
5: (07) r2 += -8
6: (85) call array_map_delete_elem#1
7: (95) exit
int caught(u64 cookie):
8: (18) r1 = map[id:1]
10: (bf) r2 = r10
11: (07) r2 += -8
12: (85) call htab_map_delete_elem#260176
13: (95) exit
"""


def test_a_subprogram_that_nothing_names_is_an_exception_callback() -> None:
    program = dump(THROWER)
    assert program.entries == (8,)
    found = analyse(program, release())
    assert (at(found, 6), at(found, 12)) == ((["cells"], False), (["table"], False))
    assert found.sites[12].reached
