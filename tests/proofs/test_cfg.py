"""The graph: loops in callees, exits, callbacks, recursion, and how it grows."""

from dataclasses import replace

import pytest

from model.facts import analyse
from model.kernel.abi import ABIS
from model.kernel.data import load_release
from model.loaders.assembly import load
from model.program import Program
from model.rewrite.config import Config
from proofs.cfg import Edge, Node, Target, build, edges, reachable, recursive
from proofs.check_program import check
from proofs.claims import Claims
from proofs.solver import Solver

RELEASE = load_release("newest")


def program(text: str) -> Program:
    return load(text, "test", RELEASE.helper_ids).programs[0]


def arrows(text: str) -> set[tuple[Node, Node, str]]:
    return {(source, target, kind.value) for source, target, kind in edges(build(program(text), {}, {}))}


def test_a_loop_that_lies_in_a_callee_has_its_back_edge() -> None:
    found = arrows("""
        call f
        exit
    .func f
        r0 = 3
    top: r0 += -1
        if r0 != 0 goto top
        exit
    """)
    assert (("block", 3), ("block", 3), "jump") in found
    assert (("block", 2), ("block", 3), "fall") in found
    assert (("block", 0), ("block", 2), "call") in found


def test_what_the_kernel_enters_on_its_own_is_a_root() -> None:
    read = program("""
        r0 = 0
        exit
    .func caught
        r0 = 1
        exit
    """)
    assert reachable(build(read, {}, {})) == {("block", 0), ("return", 0)}
    entered = build(replace(read, entries=(2,)), {}, {})
    assert reachable(entered) == {("block", 0), ("return", 0), ("block", 2), ("return", 2)}


def test_a_callee_with_two_exits_has_two_return_edges() -> None:
    found = arrows("""
        call f
        exit
    .func f
        if r1 == 0 goto zero
        r0 = 1
        exit
    zero: r0 = 0
        exit
    """)
    returns = {(source, target) for source, target, kind in found if kind == "return"}
    assert returns == {
        (("block", 3), ("return", 2)),
        (("block", 5), ("return", 2)),
        (("return", 2), ("block", 1)),
        (("block", 1), ("return", 0)),
    }


@pytest.mark.parametrize(
    "text",
    [
        "call f\n exit\n.func f\n call f\n exit\n",
        "call f\n exit\n.func f\n call g\n exit\n.func g\n call f\n exit\n",
    ],
)
def test_recursion_is_a_clear_refusal(text: str) -> None:
    found = program(text)
    assert recursive(found) == "f"
    checked = check(found, Claims(RELEASE, ABIS["x86_64"], Solver()), Config())
    assert checked.hole == "f calls itself: the verifier refuses recursion"
    assert checked.direct is None


def test_no_recursion_in_a_diamond() -> None:
    text = "call f\n call g\n exit\n.func f\n call g\n exit\n.func g\n r0 = 0\n exit\n"
    assert recursive(program(text)) is None


def test_kernel_edges() -> None:
    found = program("""
    .map m array 4 8 4
        r1 = map[m]
        r2 = subprog step
        r3 = 0
        r4 = 0
        call bpf_for_each_map_elem
        exit
    .func step
        r0 = 0
        exit
    """)
    target = Target(("site", 6), Edge.SITE, ("bpf_for_each_array_elem",), True)
    graph = build(found, {6: target}, {6: (8,)})
    kinds = {(source, goal): kind for source, goal, kind in edges(graph)}
    assert kinds[("block", 0), ("site", 6)] is Edge.SITE
    assert kinds[("site", 6), ("operation", "bpf_for_each_array_elem")] is Edge.DISPATCH
    assert kinds[("operation", "bpf_for_each_array_elem"), ("block", 8)] is Edge.CALLBACK
    assert ("block", 8) in reachable(graph)


def test_dead_code_is_not_reachable() -> None:
    found = program("r0 = 0\n exit\n r0 = 1\n exit\n")
    assert reachable(build(found, {}, {})) == {("block", 0), ("return", 0)}


def test_six_nested_loops() -> None:
    text = "".join(f"r{i} = 0\nl{i}:\n" for i in range(1, 7))
    text += "".join(f"r{i} += 1\nif r{i} < 10 goto l{i}\n" for i in range(6, 0, -1)) + "r0 = 0\nexit\n"
    found = program(text)
    back = [(s, t) for s, t, kind in edges(build(found, {}, {})) if kind is Edge.JUMP and t[1] <= s[1]]  # type: ignore[operator]
    assert len(back) == 6
    assert analyse(found, RELEASE).reached == bytes([1] * len(found.insns))


def test_many_short_jumps_take_linear_time() -> None:
    found = program("goto pc+0\n" * 131_072 + "r0 = 0\nexit\n")
    graph = build(found, {}, {})
    assert graph.number_of_nodes() == 131_072 + 2
