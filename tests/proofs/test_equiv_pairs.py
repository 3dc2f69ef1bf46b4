"""Two programs that no rewrite relates: optimised by hand, or changed so that one input tells. Values by hand."""

from dataclasses import replace
from time import perf_counter

import pytest

from model.errors import Unsupported
from model.kernel.abi import ABIS
from model.kernel.data import load_release
from model.loaders import assembly
from model.machine.outcome import Fault, Returned
from model.program import Program
from model.rewrite.config import Config
from proofs.claims import Claims
from proofs.equivalence import equivalent
from proofs.limit import NO_LIMIT, Limit
from proofs.obligation import NoRule, Proved, Refuted, Unknown
from proofs.pair_run import Entry
from proofs.pair_search import Witness
from proofs.solver import DEFAULT_TIMEOUT, Solver
from proofs.whole import Answer, claim, decide

RELEASE = load_release("6.12")
CLAIMS = Claims(RELEASE, ABIS["x86_64"], Solver())
LOAD = "r0 = *(u32 *)(r1 +0)\n"
UPDATE = """.map h hash 4 8 16
*(u32 *)(r10 -4) = 1
*(u64 *)(r10 -16) = 9
r1 = map[h]
r2 = r10
r2 += -4
r3 = r10
r3 += -16
r4 = 0
call bpf_map_update_elem
r0 = 0
exit
"""
LOOKUP = """.map a {kind} 4 8 4
*(u32 *)(r10 -4) = 1
r1 = map[a]
r2 = r10
r2 += -4
call bpf_map_lookup_elem
if r0 == 0 goto out
r0 = *(u64 *)(r0 +0)
out: exit
"""
WALK = """.map a array 4 8 4
*(u64 *)(r10 -8) = 0
r1 = map[a]
r2 = subprog visit
r3 = r10
r3 += -8
r4 = 0
call bpf_for_each_map_elem
r0 = *(u64 *)(r10 -8)
exit
.func visit
r1 = *(u64 *)(r4 +0)
r2 = *(u64 *)(r3 +0)
r1 += r2
*(u64 *)(r4 +0) = r1
r0 = 0
exit
"""
QUEUE = """.map q queue 0 8 4
*(u64 *)(r10 -8) = 5
r1 = map[q]
r2 = r10
r2 += -8
r3 = 0
call bpf_map_push_elem
r1 = map[q]
r2 = r10
r2 += -16
call bpf_map_pop_elem
if r0 != 0 goto out
r0 = *(u64 *)(r10 -16)
out: exit
"""
TWO = """.map a array 4 8 4
.map b array 4 8 4
*(u32 *)(r10 -4) = 1
r1 = map[{first}]
r2 = r10
r2 += -4
call bpf_map_lookup_elem
r6 = r0
r1 = map[{second}]
r2 = r10
r2 += -4
call bpf_map_lookup_elem
if r0 == 0 goto out
if r6 == 0 goto out
r0 = *(u64 *)(r0 +0)
r6 = *(u64 *)(r6 +0)
{last}
exit
out: r0 = 0
exit
"""
TAIL = ".map p prog_array 4 4 4\nr2 = map[p]\nr3 = 1\ncall bpf_tail_call\nr0 = 7\nexit\n"
DRAWN = "call bpf_get_prandom_u32\nr6 = r0\nr6 &= 255\nr0 = 0\nif r6 != 77 goto out\nr0 = 1\nout: exit\n"


def program(text: str) -> Program:
    return assembly.load(text, "given", RELEASE.helper_ids).programs[0]


def answer(before: str, after: str, limit: Limit = NO_LIMIT, timeout: float = DEFAULT_TIMEOUT) -> Answer:
    first = equivalent(program(before), program(after), CLAIMS, Config(), (), None, limit)
    return decide(first, CLAIMS, None, limit, timeout)


def witness(before: str, after: str) -> Witness:
    found = answer(before, after)
    assert isinstance(found.verdict, Refuted), found
    assert found.first.witness is not None
    return found.first.witness


SAME = {
    "a product by a power of two is a shift": (LOAD + "r0 *= 8\nexit\n", LOAD + "r0 <<= 3\nexit\n"),
    "a remainder by a power of two is a mask": (LOAD + "r0 %= 8\nexit\n", LOAD + "r0 &= 7\nexit\n"),
    "other registers": (LOAD + "exit\n", "r7 = *(u32 *)(r1 +0)\nr0 = r7\nexit\n"),
    "independent loads in another order": (
        "r6 = *(u32 *)(r1 +4)\nr0 = *(u32 *)(r1 +8)\nr0 += r6\nexit\n",
        "r0 = *(u32 *)(r1 +8)\nr6 = *(u32 *)(r1 +4)\nr0 += r6\nexit\n",
    ),
    "stores to the stack that nobody reads": (LOAD + "exit\n", "*(u64 *)(r10 -8) = 1\n" + LOAD + "exit\n"),
    "the kernel's guard of a division": (
        "r2 = *(u32 *)(r1 +4)\n" + LOAD + "r0 /= r2\nexit\n",
        "r2 = *(u32 *)(r1 +4)\n" + LOAD + "if r2 != 0 goto ok\nw0 ^= w0\ngoto done\nok: r0 /= r2\ndone: exit\n",
    ),
    "a zero extension that is there already": (LOAD + "w0 += 5\nexit\n", LOAD + "w0 += 5\nw0 = w0\nexit\n"),
    "code that nothing reaches": ("r0 = 1\ngoto end\nr0 = 2\nend: exit\n", "r0 = 1\nexit\n"),
    "a loop on a constant": ("r0 = 0\nr6 = 5\nl: r0 += r6\nr6 += -1\nif r6 != 0 goto l\nexit\n", "r0 = 15\nexit\n"),
    "a function in its place": (
        "r1 = *(u32 *)(r1 +0)\ncall inc\nr1 = r0\ncall inc\nexit\n.func inc\nr0 = r1\nr0 += 1\nexit\n",
        LOAD + "r0 += 2\nexit\n",
    ),
    "an absolute value without a branch": (
        "r0 = *(s32 *)(r1 +0)\nif r0 s>= 0 goto out\nr0 = -r0\nout: exit\n",
        "r0 = *(s32 *)(r1 +0)\nr1 = r0\nr1 s>>= 63\nr0 ^= r1\nr0 -= r1\nexit\n",
    ),
    "a byte of a word that was stored": (
        "r2 = *(u64 *)(r1 +0)\n*(u64 *)(r10 -8) = r2\nr0 = *(u8 *)(r10 -6)\nexit\n",
        "r0 = *(u8 *)(r1 +2)\nexit\n",
    ),
    "the context's address by way of the stack": (
        "*(u64 *)(r10 -8) = r1\nr2 = *(u64 *)(r10 -8)\nr0 = *(u32 *)(r2 +0)\nexit\n",
        LOAD + "exit\n",
    ),
    "a store to the context that is stored over": (
        LOAD + "*(u32 *)(r1 +8) = r0\nexit\n",
        LOAD + "*(u32 *)(r1 +8) = 0\n*(u32 *)(r1 +8) = r0\nexit\n",
    ),
    "a key and a value elsewhere in the frame": (UPDATE, UPDATE.replace("-4", "-24").replace("-16", "-40")),
    "a key that is written last": (
        UPDATE,
        UPDATE.replace("*(u32 *)(r10 -4) = 1\n", "").replace("r4 = 0\n", "r4 = 0\n*(u32 *)(r10 -4) = 1\n"),
    ),
    "an index that is below the entries needs no test": (
        LOOKUP.format(kind="array"),
        LOOKUP.format(kind="array").replace("if r0 == 0 goto out\n", ""),
    ),
    "a callback that adds the other way round": (WALK, WALK.replace("r1 += r2\n", "r2 += r1\nr1 = r2\n")),
    "a place for what is popped": (QUEUE, QUEUE.replace("-16", "-64")),
    "two lookups in another order": (
        TWO.format(first="a", second="b", last="r0 -= r6"),
        TWO.format(first="b", second="a", last="r6 -= r0\nr0 = r6"),
    ),
    "a number from a helper, compared in another way": (
        DRAWN,
        "call bpf_get_prandom_u32\nr0 &= 255\nr0 ^= 77\nr1 = r0\nr0 = 1\nif r1 == 0 goto out\nr0 = 0\nout: exit\n",
    ),
    "a tail call in other registers": (TAIL, TAIL.replace("r3 = 1\n", "r7 = 1\nr3 = r7\n")),
    "a number that is drawn with an address at hand": (
        "*(u64 *)(r10 -8) = 3\nr2 = r10\ncall bpf_get_prandom_u32\nr0 = *(u64 *)(r10 -8)\nexit\n",
        "call bpf_get_prandom_u32\nr0 = 3\nexit\n",
    ),
    "a helper that is not modelled": (
        "r6 = *(u32 *)(r1 +0)\ncall bpf_get_current_task\nr0 += r6\nexit\n",
        "r7 = *(u32 *)(r1 +0)\ncall bpf_get_current_task\nr7 += r0\nr0 = r7\nexit\n",
    ),
}


@pytest.mark.parametrize("name", SAME)
def test_both_ways_round_are_proved(name: str) -> None:
    before, after = SAME[name]
    found = answer(before, after)
    assert found.verdict == Proved(), found
    assert found.second is not None
    if "needs no test" not in name:
        assert answer(after, before).verdict == Proved()


OTHER = {
    "32 bits of a product": (LOAD + "r0 *= 8\nexit\n", LOAD + "w0 <<= 3\nexit\n", "00000020", (1 << 32, 0)),
    "no guard of a division": (
        "r2 = *(u32 *)(r1 +0)\nr0 = *(u32 *)(r1 +4)\nr0 /= r2\nexit\n",
        "r2 = *(u32 *)(r1 +0)\nr0 = *(u32 *)(r1 +4)\nif r2 == 0 goto out\nr0 /= r2\nout: exit\n",
        "0000000001",
        (0, 1),
    ),
    "another bound of a loop": (
        "r0 = 0\nr6 = 5\nl: r0 += r6\nr6 += -1\nif r6 != 0 goto l\nexit\n",
        "r0 = 16\nexit\n",
        "",
        (15, 16),
    ),
    "a number that only a solver finds": (
        "r2 = *(u64 *)(r1 +0)\nr2 *= 5\nr3 = 0x1122334455667788\nr0 = 0\nif r2 != r3 goto out\nr0 = 1\nout: exit\n",
        "r0 = 0\nexit\n",
        (0x1122334455667788 * pow(5, -1, 1 << 64) % (1 << 64)).to_bytes(8, "little").hex(),
        (1, 0),
    ),
    "another byte of the stack": (
        "r2 = *(u64 *)(r1 +0)\n*(u64 *)(r10 -8) = r2\nr0 = *(u8 *)(r10 -6)\nexit\n",
        "r0 = *(u8 *)(r1 +3)\nexit\n",
        "00000001",
        (0, 1),
    ),
}


@pytest.mark.parametrize("name", OTHER)
def test_the_smallest_context_tells(name: str) -> None:
    before, after, context, results = OTHER[name]
    found = witness(before, after)
    assert found.given.context.rstrip(b"\0").hex() == context
    ends = found.before.outcome, found.after.outcome
    assert [end.value for end in ends if isinstance(end, Returned)] == list(results)


def test_what_is_left_in_a_map_tells() -> None:
    found = witness(UPDATE, UPDATE.replace("= 9", "= 8"))
    assert found.what == "map 0"
    key = (1).to_bytes(4, "little")
    assert (dict(found.before.maps[0]), dict(found.after.maps[0])) == (
        {key: (9).to_bytes(8, "little")},
        {key: (8).to_bytes(8, "little")},
    )
    assert found.split is not None
    assert found.split.before is not None
    assert found.split.before.what == "map_update_elem of map h: key 01000000, value 0900000000000000, 0x0"


def test_an_element_that_must_be_there() -> None:
    found = witness(UPDATE, UPDATE.replace("r4 = 0", "r4 = 1"))
    assert found.given.entries == (Entry(0, bytes.fromhex("01000000"), bytes(8)),)


def test_elements_that_a_walk_meets() -> None:
    found = witness(WALK, WALK.replace("r1 += r2", "r1 -= r2"))
    assert found.given.entries == (Entry(0, bytes(4), (1).to_bytes(8, "little")),)
    stopped = witness(WALK, WALK.replace("r0 = 0\nexit\n", "r0 = 1\nexit\n"))
    assert stopped.given.entries == (Entry(0, bytes.fromhex("01000000"), (1).to_bytes(8, "little")),)
    assert stopped.split is not None
    assert stopped.split.after is not None
    assert stopped.split.after.what == "the callback returns 0x1"


def test_maps_go_by_their_names() -> None:
    found = witness(
        TWO.format(first="a", second="b", last="r0 -= r6"), TWO.format(first="b", second="a", last="r0 -= r6")
    )
    assert [entry.map for entry in found.given.entries] == [0]


def test_a_tail_call_to_another_program() -> None:
    found = witness(TAIL, TAIL.replace("r3 = 1", "r3 = 2"))
    assert found.given.entries == (Entry(0, bytes.fromhex("01000000"), bytes(8)),)
    assert [end.value for end in (found.before.outcome, found.after.outcome) if isinstance(end, Returned)] == [0, 7]


def test_a_number_from_a_helper() -> None:
    assert witness(DRAWN, DRAWN.replace("!= 77", "!= 78")).given.numbers == (77,)


def test_a_fault_after_is_a_difference_and_one_before_is_not() -> None:
    sound, faulty = LOOKUP.format(kind="hash"), LOOKUP.format(kind="hash").replace("if r0 == 0 goto out\n", "")
    found = witness(sound, faulty)
    assert found.what == "the end: a fault"
    assert isinstance(found.after.outcome, Fault)
    assert found.given.entries == ()
    turned = answer(faulty, sound)
    assert isinstance(turned.verdict, Unknown)
    assert "the program before: fault at 6" in turned.first.untried


def test_a_pair_whose_map_has_another_size_is_refuted_without_a_run() -> None:
    found = answer(UPDATE, UPDATE.replace("4 8 16", "4 8 17"))
    assert isinstance(found.verdict, Refuted)
    assert "max_entries of map h is 16, that of map h is 17" in found.first.untried


def test_the_bound_is_named() -> None:
    lines = "".join(f"if r7 & {1 << n} goto l{n}\nr0 += 1\nl{n}:\n" for n in range(7))
    text = f"r7 = *(u32 *)(r1 +0)\nr0 = 0\n{lines}exit\n"
    second = answer(text, text.replace("r0 = 0", "w0 = 0")).second
    assert second is not None
    assert second.verdict == Unknown("main, before: a run over symbols with more than 64 paths")
    loop = "r7 = *(u32 *)(r1 +0)\nr0 = 0\nl: r0 += 1\nif r0 != 5000 goto l\nexit\n"
    second = answer(loop, loop.replace("r0 = 0\n", "w0 = 0\n")).second
    assert second is not None
    assert second.verdict == Unknown("main, before, path -: a run over symbols of more than 4000 instructions")


DIVIDED = "r2 = *(u64 *)(r1 +0)\nr3 = *(u64 *)(r1 +8)\n"
HARD = (
    DIVIDED + "r0 = r2\nr0 /= r3\nr0 *= r3\nr2 -= r0\nr0 = r2\nexit\n",
    DIVIDED + "r2 %= r3\nr0 = r2\nexit\n",
)


def test_the_obligation_that_gave_up_is_named_and_the_rest_waits_no_longer() -> None:
    started = perf_counter()
    second = answer(*HARD, limit=Limit(2), timeout=60).second
    assert perf_counter() - started < 20
    assert second is not None
    reasons = [result.verdict.reason for result in second.results if isinstance(result.verdict, Unknown)]
    assert len(reasons) >= 4
    assert reasons[-1].endswith("the run's time limit (2 s, --time-limit)")
    assert isinstance(second.verdict, Unknown)
    assert second.verdict.reason.startswith("whole/6.12/x86_64/main/-/r0: ")


@pytest.mark.parametrize(
    ("faulty", "told"),
    [
        ("*(u64 *)(r10 +8) = 1\nr0 = 0\nexit\n", "an access at r10 +8, outside of the stack frame"),
        ("r0 = *(u64 *)(r10 -520)\nr0 = 0\nexit\n", "an access at r10 -520, outside of the stack frame"),
    ],
)
def test_a_program_that_no_verifier_accepts_is_a_hole(faulty: str, told: str) -> None:
    second = answer(faulty, "r0 = 0\nexit\n").second
    assert second is not None
    assert second.verdict == NoRule(f"a run over symbols with {told}")
    assert isinstance(answer("r0 = 0\nexit\n", faulty).verdict, Refuted)


def test_a_fault_is_no_end_that_another_program_has() -> None:
    faulty = "r1 = 0\nr0 = *(u64 *)(r1 +0)\nr0 = 0\nexit\n"
    assert isinstance(answer(faulty, "r0 = 0\nexit\n").verdict, Unknown)
    assert isinstance(answer("r0 = 0\nexit\n", faulty).verdict, Refuted)


def test_numbers_that_are_known_at_load_only_are_a_hole() -> None:
    known = program(LOAD + "exit\n")
    with pytest.raises(Unsupported, match="known at load only"):
        claim(known, replace(known, relocated=frozenset({0})), RELEASE, ABIS["x86_64"])


def test_big_endian_programs_see_big_endian_words() -> None:
    """The byte behind the first one of a stored word is its second highest there, and its second lowest here."""
    text = "r2 = 258 ; 0x0102\n*(u64 *)(r10 -8) = r2\nr0 = *(u8 *)(r10 -{})\nexit\n"
    for name, offset, value in (("x86_64", 7, 1), ("s390x", 2, 1), ("s390x", 7, 0)):
        claims = Claims(RELEASE, ABIS[name], Solver())
        first = equivalent(program(text.format(offset)), program(f"r0 = {value}\nexit\n"), claims, Config())
        assert decide(first, claims, None, NO_LIMIT, DEFAULT_TIMEOUT).verdict == Proved()
