"""What is drawn of a control-flow graph: all of a small one, of a large one its subprograms, sites and callees."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from model.program import Subprogram
from proofs.cfg import INDIRECT, Edge, Node, edges
from proofs.check_program import Checked
from proofs.report.graph import graph_of, label

BLOCKS = 200
"""Nodes of a graph that is drawn as it is."""
APART = 60
"""Sites, or targets that are not known, that a folded graph shows one by one."""
ARROWS = 400
"""Edges of a folded graph; indirect ones come first."""


@dataclass(frozen=True, slots=True)
class Box:
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Arrow:
    """`source` and `target` are indexes of boxes."""

    source: int
    target: int
    kind: Edge


@dataclass(frozen=True, slots=True)
class Picture:
    """`note` says what is folded or left out, "" where nothing is."""

    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]
    note: str = ""


def picture(checked: Checked, blocks: int = BLOCKS) -> Picture:
    graph = graph_of(checked)
    if graph.number_of_nodes() > blocks:
        return _folded(checked)
    index = {node: number for number, node in enumerate(graph.nodes)}
    boxes = tuple(Box(node[0], label(checked, node)) for node in graph.nodes)
    return Picture(boxes, tuple(Arrow(index[s], index[t], kind) for s, t, kind in edges(graph)))


def _folded(checked: Checked) -> Picture:
    """Blocks are one box a subprogram; sites are one a helper and its targets, where they are many."""
    graph = graph_of(checked)
    number = Counter(node[0] for node in graph.nodes)
    to = {node: _group(checked, node, many=number[node[0]] > APART) for node in graph.nodes}
    size = Counter(to.values())
    found = dict.fromkeys((to[s], to[t], kind) for s, t, kind in edges(graph) if kind is not Edge.RETURN)
    inside = (Edge.FALL, Edge.JUMP)
    kept = [(s, t, kind) for s, t, kind in found if s != t or kind not in inside]
    kept.sort(key=lambda edge: edge[2] not in INDIRECT)
    shown = kept[:ARROWS]
    first = [to[root] for root in graph.graph["roots"] if root in to]
    used = dict.fromkeys([*first, *(node for s, t, _ in shown for node in (s, t))])
    index = {node: number for number, node in enumerate(used)}
    after = checked.rewritten.after if checked.rewritten is not None else checked.program
    named = {row.start: row for row in after.subprograms}
    boxes = tuple(_box(checked, node, size[node], named) for node in used)
    note = f"{graph.number_of_nodes()} nodes, folded to subprograms, call sites and what they reach"
    if len(kept) > len(shown):
        note += f"; {len(kept) - len(shown)} direct edges are not drawn"
    return Picture(boxes, tuple(Arrow(index[s], index[t], kind) for s, t, kind in shown), note)


def _group(checked: Checked, node: Node, *, many: bool) -> Node:
    graph = graph_of(checked)
    kind, what = node
    if kind == "block":
        return ("subprogram", graph.nodes[node].get("subprogram", what))
    if kind == "return":
        return ("subprogram", what)
    if many and kind == "site":
        targets = sorted(str(target[1]) for target in graph.successors(node))
        return ("sites", ", ".join(targets))
    return (f"{kind}s", "") if many and kind in ("unknown", "outside") else node


def _box(checked: Checked, node: Node, size: int, named: Mapping[int, Subprogram]) -> Box:
    kind, what = node
    after = checked.rewritten.after if checked.rewritten is not None else checked.program
    if kind == "subprogram":
        row = named.get(int(what), Subprogram("", int(what), len(after.insns)))
        name = f"{row.name}: " if row.name else ""
        return Box("block", f"{name}{after.base + row.start}-{after.base + row.end - 1}")
    many = {"sites": "site", "unknowns": "unknown", "outsides": "outside"}
    if kind in many:
        return Box(many[kind], f"{size} {kind}" + (f": {what}" if what else ""))
    return Box(kind, label(checked, node))
