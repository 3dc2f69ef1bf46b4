"""Map pointers through subprograms, callbacks and the frames that they can write to."""

import pytest
from test_facts import END, KEY, LOOKUP, facts, names, program, release

from model.facts import analyse
from model.program import Program

USE = f"{KEY}site: call map_lookup_elem\nr0 = 0\nexit\n"

ROWS = {
    "an argument": (f"r1 = map[A]\ncall use\n{END}.func use\n{USE}", ["A"]),
    "another argument": (f"r2 = map[A]\ncall use\n{END}.func use\nr1 = r2\n{USE}", ["A"]),
    "all callers' arguments": (f"r1 = map[A]\ncall use\nr1 = map[B]\ncall use\n{END}.func use\n{USE}", ["A", "B"]),
    "a caller that is dead": (
        f"r1 = map[A]\ncall use\ngoto out\nr1 = map[B]\ncall use\nout: {END}.func use\n{USE}",
        ["A"],
    ),
    "through two functions": (
        f"r1 = map[A]\ncall one\n{END}.func one\nr2 = r1\ncall two\nr0 = 0\nexit\n.func two\nr1 = r2\n{USE}",
        ["A"],
    ),
    "r6 of the caller is its own": (f"r6 = map[A]\nr1 = 0\ncall use\n{END}.func use\nr1 = r6\n{USE}", []),
    "a result": (f"call get\nr1 = r0\n{LOOKUP}{END}.func get\nr0 = map[A]\nexit\n", ["A"]),
    "either result": (
        f"call get\nr1 = r0\n{LOOKUP}{END}.func get\ncall get_prandom_u32\nif r0 == 0 goto b\nr0 = map[A]\nexit\n"
        "b: r0 = map[B]\nexit\n",
        ["A", "B"],
    ),
    "r6 and the frame are kept": (
        f"r6 = map[A]\n*(u64 *)(r10 -16) = r6\nr6 = 0\ncall nothing\nr1 = *(u64 *)(r10 -16)\n{LOOKUP}{END}"
        ".func nothing\nr6 = 7\nr1 = 0\n*(u64 *)(r10 -16) = r1\nr0 = 0\nexit\n",
        ["A"],
    ),
    "a callback's map": (
        f"r1 = map[H]\nr2 = subprog each\nr3 = 0\nr4 = 0\ncall for_each_map_elem\n{END}.func each\n{USE}",
        ["H"],
    ),
    "a callback's map from two calls": (
        f"r1 = map[H]\nr2 = subprog each\nr3 = 0\nr4 = 0\ncall for_each_map_elem\n"
        f"r1 = map[A]\nr2 = subprog each\nr3 = 0\nr4 = 0\ncall for_each_map_elem\n{END}.func each\n{USE}",
        ["A", "H"],
    ),
    "a map of the callback's own": (
        f"r1 = 3\nr2 = subprog body\nr3 = 0\nr4 = 0\ncall loop\n{END}.func body\nr1 = map[B]\n{USE}",
        ["B"],
    ),
    "bpf_loop's index is no map": (
        f"r1 = 3\nr2 = subprog body\nr3 = 0\nr4 = 0\ncall loop\n{END}.func body\n{USE}",
        [],
    ),
    "the map that holds a timer": (
        f"r1 = map[A]\n{KEY}call map_lookup_elem\nif r0 == 0 goto out\nr1 = r0\nr2 = subprog tick\n"
        f"call timer_set_callback\nout: {END}.func tick\n{USE}",
        ["A"],
    ),
}


@pytest.mark.parametrize("row", ROWS)
def test_maps_at_the_site_in_question(row: str) -> None:
    text, expected = ROWS[row]
    source = program(text)
    found = analyse(source, release())
    lines = {slot: line.text for slot, line in source.lines.items()}
    sites = [site for slot, site in found.sites.items() if "site:" in lines.get(slot, "")] or [
        found.sites[max(found.sites)]
    ]
    assert sorted(pointer.map.name for pointer in sites[-1].pointers) == sorted(expected)
    assert sites[-1].reached
    assert not sites[-1].unknown


def test_callbacks_are_named_by_call() -> None:
    found = facts(f"r1 = map[H]\nr2 = subprog each\nr3 = 0\nr4 = 0\ncall for_each_map_elem\n{END}.func each\n{USE}")
    assert found.callbacks == {6: (9,)}


def test_a_map_in_the_callers_frame_is_unknown_to_the_callee() -> None:
    found = facts(
        f"r1 = map[A]\n*(u64 *)(r10 -16) = r1\nr1 = r10\nr1 += -16\ncall use\n{END}"
        f".func use\nr1 = *(u64 *)(r1 +0)\n{USE}"
    )
    (site,) = found.sites.values()
    assert (site.unknown, site.pointers) == (True, ())


def test_a_map_that_the_callee_stores_in_the_callers_frame_is_not_overlooked() -> None:
    found = facts(
        f"r6 = map[A]\n*(u64 *)(r10 -16) = r6\nr1 = r10\nr1 += -16\ncall put\nr1 = *(u64 *)(r10 -16)\n{LOOKUP}{END}"
        ".func put\nr2 = map[B]\n*(u64 *)(r1 +0) = r2\nr0 = 0\nexit\n"
    )
    (site,) = found.sites.values()
    assert site.unknown


def test_a_map_that_the_callees_callee_stores_is_not_overlooked() -> None:
    found = facts(
        f"r1 = r10\nr1 += -16\ncall pass\nr1 = *(u64 *)(r10 -16)\n{LOOKUP}{END}"
        ".func pass\ncall put\nr0 = 0\nexit\n"
        ".func put\nr2 = map[B]\n*(u64 *)(r1 +0) = r2\nr0 = 0\nexit\n"
    )
    (site,) = found.sites.values()
    assert site.unknown


def test_a_callee_that_stores_numbers_leaves_the_maps_of_the_frame() -> None:
    found = facts(
        f"r6 = map[A]\n*(u64 *)(r10 -16) = r6\nr1 = r10\nr1 += -24\ncall put\nr1 = *(u64 *)(r10 -16)\n{LOOKUP}{END}"
        ".func put\nr2 = 5\n*(u64 *)(r1 +0) = r2\nr0 = 0\nexit\n"
    )
    (site,) = found.sites.values()
    assert (names(found), site.unknown) == (["A"], False)


def test_a_callback_that_stores_a_map_through_its_context_is_not_overlooked() -> None:
    found = facts(
        f"r1 = 3\nr2 = subprog put\nr3 = r10\nr3 += -16\nr4 = 0\ncall loop\nr1 = *(u64 *)(r10 -16)\n{LOOKUP}{END}"
        ".func put\nr3 = map[B]\n*(u64 *)(r2 +0) = r3\nr0 = 0\nexit\n"
    )
    assert [site.unknown for site in found.sites.values()] == [True]


def test_a_number_may_reach_a_global_function_from_elsewhere() -> None:
    """The verifier checks a global function with any number: a constant of one caller decides nothing in it."""
    found = facts(
        f"r1 = 1\ncall use\n{END}.func use\nif r1 == 1 goto b\nr1 = map[A]\ngoto go\nb: r1 = map[B]\ngo: r3 = 0\n{USE}"
    )
    assert sorted(names(found)) == ["A", "B"]


def test_a_callback_with_a_rule_that_is_not_known_may_hold_anything() -> None:
    text = f"r1 = 0\nr2 = subprog each\ncall sys_bpf\n{END}.func each\n{USE}"
    (site,) = facts(text).sites.values()
    assert site.unknown


def test_a_callback_that_no_call_was_seen_to_enter_may_hold_anything() -> None:
    text = f"r9 = subprog each\n{END}.func each\n{USE}"
    (site,) = facts(text).sites.values()
    assert (site.unknown, site.reached) == (True, True)


def test_a_function_that_calls_itself_gets_an_answer_and_a_remark() -> None:
    found = facts(
        f"r1 = map[A]\ncall use\n{END}.func use\nr6 = r1\ncall get_prandom_u32\nif r0 == 0 goto last\n"
        f"r1 = map[B]\ncall use\nlast: r1 = r6\n{USE}"
    )
    assert sorted(names(found)) == ["A", "B"]
    assert found.notes == ("recursion: the function at 5 can call itself; the kernel refuses that",)


def test_two_functions_that_call_each_other() -> None:
    found = facts(f"call one\n{END}.func one\ncall two\nexit\n.func two\ncall one\nexit\n")
    assert len(found.notes) == 1
    assert "recursion" in found.notes[0]


def test_a_callee_that_never_returns_ends_the_path() -> None:
    found = facts(f"call spin\nr1 = map[A]\n{LOOKUP}{END}.func spin\nagain: goto again\n")
    assert [site.reached for site in found.sites.values()] == [False]


def test_a_function_with_sixty_four_callers_sees_all_of_their_maps() -> None:
    maps = "".join(f".map M{n} array 4 8 1\n" for n in range(64))
    calls = "".join(f"r1 = map[M{n}]\ncall use\n" for n in range(64))
    (site,) = facts(f"{maps}{calls}{END}.func use\n{USE}").sites.values()
    assert [pointer.map.name for pointer in site.pointers] == [f"M{n}" for n in range(64)]
    assert (site.unknown, site.sure_poison) == (False, True)


def test_sixty_maps_that_move_on_by_a_slot_each_round() -> None:
    """One more map a round in each of sixty slots: joined states give up, the replay does not."""
    maps = "".join(f".map M{n} array 4 8 1\n" for n in range(60))
    fill = "".join(f"r6 = map[M{n}]\n*(u64 *)(r10 -{8 * n + 16}) = r6\n" for n in range(60))
    turn = "".join(f"r6 = *(u64 *)(r10 -{8 * n + 24})\n*(u64 *)(r10 -{8 * n + 16}) = r6\n" for n in range(59))
    loop = f"again: r1 = *(u64 *)(r10 -16)\n{LOOKUP}{turn}call get_prandom_u32\nif r0 != 0 goto again\n"
    (site,) = facts(f"{maps}{fill}{loop}{END}").sites.values()
    assert (len(site.pointers), site.unknown, site.sure_poison) == (60, False, True)


def test_a_loop_that_is_too_long_to_replay_gives_its_maps_up_for_unknown() -> None:
    maps = "".join(f".map M{n} array 4 8 1\n" for n in range(60))
    fill = "".join(f"r6 = map[M{n}]\n*(u64 *)(r10 -{8 * n + 16}) = r6\n" for n in range(60))
    turn = "".join(f"r6 = *(u64 *)(r10 -{8 * n + 24})\n*(u64 *)(r10 -{8 * n + 16}) = r6\n" for n in range(59))
    forks = "".join(f"call get_prandom_u32\nif r0 == 0 goto l{n}\nr7 += 1\nl{n}: r7 <<= 1\n" for n in range(20))
    body = f"again: r1 = *(u64 *)(r10 -16)\n{LOOKUP}{turn}r7 = 0\n{forks}call get_prandom_u32\nif r0 != 0 goto again\n"
    (site,) = facts(f"{maps}{fill}{body}{END}").sites.values()
    assert site.unknown


def test_ten_thousand_functions_in_a_row() -> None:
    functions = "".join(f".func f{n}\ncall f{n + 1}\nr0 = 0\nexit\n" for n in range(9_999))
    source: Program = program(f"r1 = map[A]\ncall f0\n{END}{functions}.func f9999\n{USE}")
    found = analyse(source, release())
    assert names(found) == ["A"]
