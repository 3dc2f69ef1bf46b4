"""Several pointers at a call: where the verifier surely sees them, and where it may not."""

import pytest
from test_facts import END, FORK, KEY, LOOKUP, facts

BOTH = "r1 = map[A]\ngoto meet\nother: r1 = map[B]\nmeet: r3 = 0\n"

SURE = {
    "a test of a helper's result": f"{FORK}{BOTH}{LOOKUP}",
    "a test of the context": f"r6 = *(u32 *)(r1 +0)\nif r6 > 1400 goto other\n{BOTH}{LOOKUP}",
    "a test of one bit": f"call get_prandom_u32\nr0 &= 1\nif r0 == 0 goto other\n{BOTH}{LOOKUP}",
    "a test after a test that decides nothing": (
        f"call ktime_get_ns\nr6 = r0\n{FORK}r8 = 1\nother: if r6 == 5 goto b\nr1 = map[A]\ngoto meet\n"
        f"b: r1 = map[B]\nmeet: r3 = 0\n{LOOKUP}"
    ),
    "a loop whose test is fresh each time": (
        f"r6 = map[A]\nagain: r1 = r6\n{LOOKUP}r6 = map[B]\ncall get_prandom_u32\nif r0 != 0 goto again\n"
    ),
    "what was decided before all maps, and did not lead past them": (
        f"r6 = *(u64 *)(r1 +0)\nif r6 == 0 goto one\nr7 = 1\none: {FORK}{BOTH}{LOOKUP}"
    ),
    "two calls of one function, one after the other": (
        f"r1 = map[A]\ncall use\nr1 = map[B]\ncall use\n{END}.func use\n{LOOKUP}"
    ),
    "an inner map or another where it is NULL": (
        f"r1 = map[OUT_HASH]\n{KEY}call map_lookup_elem\nif r0 != 0 goto go\nr0 = map[B]\ngo: r1 = r0\n{LOOKUP}"
    ),
    "a callback of two maps": (
        "r1 = map[H]\nr2 = subprog each\nr3 = 0\nr4 = 0\ncall for_each_map_elem\n"
        "r1 = map[A]\nr2 = subprog each\nr3 = 0\nr4 = 0\ncall for_each_map_elem\n"
        f"{END}.func each\n{LOOKUP}"
    ),
    "a constant that is decided the same way always": f"r7 = 1\nif r7 != 1 goto out\n{FORK}{BOTH}{LOOKUP}out: ",
}

SURE |= {
    "a switch": (
        "r6 = *(u32 *)(r1 +0)\nr8 = map[A]\nif r6 == 1 goto meet\nif r6 == 2 goto meet\nr8 = map[B]\n"
        f"if r6 == 3 goto meet\nmeet: r1 = r8\n{LOOKUP}"
    ),
    "tests of order": (
        "r6 = *(u32 *)(r1 +0)\nr8 = map[A]\nif r6 > 100 goto big\nif r6 < 50 goto meet\ngoto meet\n"
        f"big: if r6 >= 200 goto meet\nr8 = map[B]\nmeet: r1 = r8\n{LOOKUP}"
    ),
    "a number moved by a constant": (
        f"r6 = *(u16 *)(r1 +0)\nr6 += 10\nr8 = map[A]\nif r6 > 65540 goto meet\nr8 = map[B]\nmeet: r1 = r8\n{LOOKUP}"
    ),
    "bits after bits": (
        "call get_prandom_u32\nr0 &= 14\nr0 >>= 1\nr8 = map[A]\nif r0 == 7 goto meet\nr8 = map[B]\n"
        f"meet: r1 = r8\n{LOOKUP}"
    ),
    "a signed test": (
        f"call get_prandom_u32\nr8 = map[A]\nif r0 s> -5 goto meet\nr8 = map[B]\nmeet: r1 = r8\n{LOOKUP}"
    ),
    "a test of the lower half": (
        f"call get_prandom_u32\nr8 = map[A]\nif w0 s< 0 goto meet\nr8 = map[B]\nmeet: r1 = r8\n{LOOKUP}"
    ),
    "two numbers": (
        "call get_prandom_u32\nr6 = r0\ncall get_prandom_u32\nr8 = map[A]\nif r0 > r6 goto meet\nr8 = map[B]\n"
        f"meet: r1 = r8\n{LOOKUP}"
    ),
    "constants that tell one path of three apart": (
        "r8 = map[A]\nr6 = 1\ncall get_prandom_u32\nif r0 == 0 goto use\nr6 = 2\nr8 = map[B]\nif r0 == 1 goto use\n"
        f"r6 = 3\nr8 = map[H]\nuse: if r6 == 3 goto out\nr1 = r8\n{LOOKUP}out: "
    ),
}

EXACT = {
    "a constant that is another one on each path": (
        f"r8 = map[A]\nr6 = 1\n{FORK}r8 = map[B]\nr6 = 2\nother: if r6 == 1 goto out\nr1 = r8\n{LOOKUP}out: ",
        "B",
    ),
    "a number that an equality told": (
        "call get_prandom_u32\nr6 = r0\nr8 = map[A]\nif r6 == 5 goto one\nr8 = map[B]\nr6 = 7\n"
        f"one: if r6 != 5 goto out\nr1 = r8\n{LOOKUP}out: ",
        "A",
    ),
    "a result that belongs to one caller": (
        f"r1 = map[A]\ncall same\nr6 = r0\nr1 = map[B]\ncall same\nr1 = r6\n{LOOKUP}{END}.func same\nr0 = r1\n",
        "A",
    ),
    "a loop that is over": (
        "r8 = map[A]\nr6 = 0\nagain: r6 += 1\nif r6 != 3 goto again\nif r6 == 1 goto go\nr8 = map[B]\n"
        f"go: r1 = r8\n{LOOKUP}",
        "B",
    ),
}

OPEN = {
    "a fork that may not be reached": f"r6 = *(u64 *)(r1 +0)\nif r6 == 0 goto out\n{FORK}{BOTH}{LOOKUP}out: ",
    "a fork behind what a function returns": (
        f"call zero\nif r0 == 0 goto out\n{FORK}{BOTH}{LOOKUP}out: {END}.func zero\nr0 = 0\n"
    ),
    "a fork in a function that may return before": (
        f"r2 = 0\ncall use\n{END}.func use\nif r2 == 0 goto out\n{FORK}{BOTH}{LOOKUP}out: r0 = 0\n"
    ),
    "a fork that an exit may come before": (f"r6 = *(u64 *)(r1 +0)\nif r6 != 0 goto on\n{END}on: {FORK}{BOTH}{LOOKUP}"),
    "a fork behind a loop that may not end here": (
        f"r6 = *(u64 *)(r1 +0)\nagain: r6 += -1\nif r6 == 0 goto out\nif r6 s> 9 goto again\n{FORK}{BOTH}{LOOKUP}out: "
    ),
    "a switch that cannot be": (
        "r6 = *(u32 *)(r1 +0)\nr8 = map[A]\nif r6 == 1 goto meet\nif r6 == 1 goto two\ngoto meet\n"
        f"two: r8 = map[B]\nmeet: r1 = r8\n{LOOKUP}"
    ),
    "an order that cannot be": (
        "r6 = *(u32 *)(r1 +0)\nr8 = map[A]\nif r6 > 100 goto meet\nif r6 > 200 goto two\ngoto meet\n"
        f"two: r8 = map[B]\nmeet: r1 = r8\n{LOOKUP}"
    ),
    "a sum that cannot be": (
        f"r6 = *(u16 *)(r1 +0)\nr6 += 10\nr8 = map[A]\nif r6 == 3 goto meet\nr8 = map[B]\nmeet: r1 = r8\n{LOOKUP}"
    ),
    "a number that a callee was given": (
        f"r8 = map[A]\nr1 = 3\ncall test\nif r0 == 0 goto meet\nr8 = map[B]\nmeet: r1 = r8\n{LOOKUP}{END}"
        ".func test\nr0 = r1\n"
    ),
    "a callback that runs no round": (
        f"r1 = 0\nr2 = subprog each\nr3 = 0\nr4 = 0\ncall loop\n{END}.func each\n"
        f"call get_prandom_u32\nr1 = map[A]\nif r0 == 0 goto other\nr1 = map[B]\nother: r3 = 0\n{LOOKUP}"
    ),
    "the same test twice": (
        f"call get_prandom_u32\nr6 = r0\nr8 = map[A]\nif r6 == 0 goto one\nr8 = map[B]\none: if r6 != 0 goto out\n"
        f"r1 = r8\n{LOOKUP}out: "
    ),
    "a test of a copy": (
        f"call get_prandom_u32\nr6 = r0\nr7 = r6\nr8 = map[A]\nif r6 == 0 goto one\nr8 = map[B]\n"
        f"one: if r7 != 0 goto out\nr1 = r8\n{LOOKUP}out: "
    ),
    "a test of a spilled copy": (
        f"call get_prandom_u32\nr6 = r0\n*(u64 *)(r10 -16) = r6\nr8 = map[A]\nif r6 == 0 goto one\nr8 = map[B]\n"
        f"one: r7 = *(u64 *)(r10 -16)\nif r7 != 0 goto out\nr1 = r8\n{LOOKUP}out: "
    ),
    "a number that cannot be": f"r6 = *(u8 *)(r1 +0)\nif r6 > 300 goto other\n{BOTH}{LOOKUP}",
    "a number that cannot be, in 32 bits": f"r6 = *(u16 *)(r1 +0)\nif w6 s< 0 goto other\n{BOTH}{LOOKUP}",
    "bits that were masked": f"call get_prandom_u32\nr0 &= 6\nif r0 == 1 goto other\n{BOTH}{LOOKUP}",
    "read-only data, that the verifier may read": (
        f"r6 = map[RODATA][0]+0\nr6 = *(u32 *)(r6 +0)\nif r6 == 0 goto other\n{BOTH}{LOOKUP}"
    ),
    "NULL of an array lookup": (f"r1 = map[A]\n{KEY}call map_lookup_elem\nif r0 == 0 goto other\n{BOTH}{LOOKUP}"),
    "a caller's number": (
        f"r1 = map[A]\nr2 = 0\ncall use\nr1 = map[B]\nr2 = 1\ncall use\n{END}"
        f".func use\nif r2 == 1 goto out\n{LOOKUP}out: "
    ),
    "a call that may not be reached": (
        f"r6 = *(u64 *)(r1 +0)\nr1 = map[A]\ncall use\nif r6 == 0 goto out\nr1 = map[B]\ncall use\nout: {END}"
        f".func use\n{LOOKUP}"
    ),
}


def program_text(text: str) -> str:
    return f".map OUT_HASH hash_of_maps 4 4 1 inner=INNER1\n{text}{END}"


@pytest.mark.parametrize("row", SURE)
def test_the_verifier_surely_sees_both(row: str) -> None:
    site = max(facts(program_text(SURE[row])).sites.values(), key=lambda site: len(site.pointers))
    assert len(site.pointers) == 2
    assert (site.sure_poison, site.pruned_possible) == (True, "")


@pytest.mark.parametrize("row", OPEN)
def test_the_verifier_may_see_one_only(row: str) -> None:
    site = max(facts(program_text(OPEN[row])).sites.values(), key=lambda site: len(site.pointers))
    assert len(site.pointers) == 2
    assert not site.sure_poison
    assert site.pruned_possible


@pytest.mark.parametrize("row", EXACT)
def test_what_joined_paths_leave_open_is_told_path_by_path(row: str) -> None:
    text, expected = EXACT[row]
    # Rows that end in a function of their own return what it has in r0.
    (site,) = facts(f"{text}exit\n" if ".func" in text else program_text(text)).sites.values()
    assert [pointer.map.name for pointer in site.pointers] == [expected]
    assert (site.reached, site.unknown, site.sure_poison, site.pruned_possible) == (True, False, False, "")


def test_a_call_that_no_path_reaches() -> None:
    text = (
        f"r6 = 1\nr8 = map[A]\n{FORK}r6 = 2\nr8 = map[B]\nother: if r6 == 1 goto out\nif r6 == 2 goto out\n"
        f"r1 = r8\n{LOOKUP}out: "
    )
    (site,) = facts(program_text(text)).sites.values()
    assert (site.reached, site.pointers) == (False, ())


def test_too_many_paths_leave_what_joined_paths_say() -> None:
    """Forty tests in a row, each with a number that keeps its paths apart: 2^40 of them."""
    tests = "".join(f"call get_prandom_u32\nif r0 == 0 goto l{n}\nr7 += 1\nl{n}: r7 <<= 1\n" for n in range(40))
    head = f"r8 = map[A]\nr6 = 1\nr7 = 0\n{FORK}r8 = map[B]\nr6 = 2\nother: {tests}"
    (site,) = facts(program_text(f"{head}if r6 == 1 goto out\nr1 = r8\n{LOOKUP}out: ")).sites.values()
    assert (len(site.pointers), site.sure_poison) == (2, False)


def test_the_branch_is_named() -> None:
    (site,) = facts(program_text(OPEN["a number that cannot be"])).sites.values()
    assert site.pruned_possible == "the verifier may know which way the branch at 1 goes, path by path"


def test_one_pointer_is_no_poison() -> None:
    (site,) = facts(f"r1 = map[A]\n{LOOKUP}{END}").sites.values()
    assert (site.sure_poison, site.pruned_possible) == (False, "")
