"""Graphs of the HTML report: places without overlaps, large ones folded, every kind of edge told."""

from itertools import pairwise
from pathlib import Path

import pytest
from html_tree import parsed
from hypothesis import given
from hypothesis import strategies as st

from model.isa.insn import Insn
from model.kernel.abi import ABIS
from model.kernel.data import load_release
from model.program import Map, MapRef, Program, Subprogram
from model.rewrite.config import Config
from proofs.check_program import Checked, check
from proofs.claims import Claims
from proofs.commands.inputs import load
from proofs.report.html.drawing import drawn
from proofs.report.html.folding import Picture, picture
from proofs.report.html.layout import GAP, LAYER, layered
from proofs.solver import Solver

OBJECTS = Path(__file__).resolve().parent.parent / "data" / "objects"
RELEASE = load_release("6.12")


def checked(program: Program, *, jit: bool = True) -> Checked:
    return check(program, Claims(RELEASE, ABIS["x86_64"], Solver()), Config(arch="x86_64", jit=jit))


def branches(count: int, sites: int) -> Program:
    """`count` times `if r1 == 0 goto pc+0`, a block each; then `sites` deletions from a hash map; exit."""
    site = (Insn(0xBF, 2, 10), Insn(0x07, 2, imm=-8), Insn(0x18, 1, 1), Insn(0), Insn(0x85, imm=3))
    head = (Insn(0x7A, 10, off=-8), *[Insn(0x15, 1)] * count)
    insns = (*head, *site * sites, Insn(0xB7, 0), Insn(0x95))
    refs = {len(head) + 5 * number + 2: MapRef(0) for number in range(sites)}
    maps = (Map("names", "hash", 8, 8, 4),)
    return Program("prog", insns, maps, (Subprogram("prog", 0, len(insns)),), refs, section="xdp")


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[int], list[tuple[int, int]]]:
    widths = draw(st.lists(st.integers(20, 300), min_size=1, max_size=25))
    node = st.integers(0, len(widths) - 1)
    return widths, draw(st.lists(st.tuples(node, node), max_size=60))


@given(graphs())
def test_boxes_do_not_overlap_and_edges_lead_from_box_to_box(graph: tuple[list[int], list[tuple[int, int]]]) -> None:
    widths, edges = graph
    layout = layered(widths, edges)
    assert layout == layered(widths, edges)
    rows: dict[int, list[tuple[int, int]]] = {}
    for (x, y), width in zip(layout.places, widths, strict=True):
        assert width // 2 <= x <= layout.width - width // 2
        assert 0 < y < layout.height
        rows.setdefault(y, []).append((x, width))
    for row in rows.values():
        row.sort()
        for (a, wide), (b, next_wide) in pairwise(row):
            assert b - a >= (wide + next_wide) / 2 + GAP - 2  # whole pixels
    for (source, target), route in zip(edges, layout.routes, strict=True):
        assert (route[0], route[-1]) == (layout.places[source], layout.places[target])
        steps = {abs(b[1] - a[1]) for a, b in pairwise(route)}
        assert steps == ({0} if source == target else {LAYER})


def test_a_diamond_goes_down_and_a_loop_back_up() -> None:
    """0 over 1 and 2, both over 3; 3 back to 0."""
    layout = layered([50] * 4, [(0, 1), (0, 2), (1, 3), (2, 3), (3, 0)])
    tops = [y for _, y in layout.places]
    assert tops == [tops[0], tops[0] + LAYER, tops[0] + LAYER, tops[0] + 2 * LAYER]
    assert [y for _, y in layout.routes[4]] == [tops[3], tops[1], tops[0]]


def texts(found: Picture) -> list[tuple[str, str]]:
    return [(box.kind, box.text) for box in found.boxes]


def arrows(found: Picture) -> list[tuple[str, str, str]]:
    return [(a.kind.value, found.boxes[a.source].text, found.boxes[a.target].text) for a in found.arrows]


def test_at_200_nodes_a_graph_is_drawn_and_above_it_is_folded() -> None:
    """197 branches are 197 blocks, one follows; with the operation and the return that is 200 nodes."""
    whole, folded = picture(checked(branches(197, 1))), picture(checked(branches(198, 1)))
    assert (len(whole.boxes), whole.note) == (200, "")
    assert texts(folded) == [("block", "prog: 0-205"), ("operation", "operation htab_map_delete_elem")]
    assert arrows(folded) == [("direct", "prog: 0-205", "operation htab_map_delete_elem")]
    assert folded.note == "201 nodes, folded to subprograms, call sites and what they reach"


@pytest.mark.parametrize(("sites", "boxes"), [(60, 60), (61, 1)])
def test_sites_that_stay_are_one_box_where_they_are_many(sites: int, boxes: int) -> None:
    """Without JIT nothing is rewritten (prog->jit_requested, kernel/bpf/verifier.c)."""
    found = checked(branches(200, sites), jit=False)
    folded = picture(found)
    assert sum(kind == "site" for kind, _ in texts(folded)) == boxes
    dispatches = [arrow for arrow in arrows(folded) if arrow[0] == "dispatch"]
    assert {target for _, _, target in dispatches} == {"operation htab_map_delete_elem"}
    if boxes == 1:
        assert dispatches[0][1] == "61 sites: htab_map_delete_elem"


def test_a_dispatch_and_a_tail_call_are_told_apart(tmp_path: Path) -> None:
    """two_types of two_maps.o: an update of one of two maps of two types keeps its dispatch."""
    found = load(str(OBJECTS / "two_maps.o"), RELEASE, None)
    program = next(one for one in found.programs if one.name == "two_types")
    told = picture(checked(program))
    assert [arrow[2] for arrow in arrows(told) if arrow[0] == "dispatch"] == [
        "operation array_map_update_elem",
        "operation htab_map_update_elem",
    ]
    graph = parsed(drawn(told, "two_types").html).one("svg")
    assert [label.text() for label in graph.all("text", "k")] == ["dispatch", "dispatch"]
    assert graph.attributes["aria-label"].endswith("indirect edges: 2 dispatch")
    place = tmp_path / "tail.asm"
    place.write_text(".map jumps prog_array 4 4 2\nr2 = map[jumps]\nr3 = 0\ncall bpf_tail_call\nr0 = 0\nexit\n")
    tail = picture(checked(load(str(place), RELEASE, None).programs[0]))
    assert [arrow[::2] for arrow in arrows(tail) if arrow[0] == "tail call"] == [("tail call", "helper tail_call")]
    edge = parsed(drawn(tail, "tail").html).one("path", "tail")
    assert edge.attributes["marker-end"] == "url(#end-tail)"
