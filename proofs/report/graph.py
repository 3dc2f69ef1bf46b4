"""A control-flow graph as Graphviz text, JSON or SVG. Indirect edges differ by colour and by stroke."""

import json
from collections.abc import Callable, Sequence
from html import escape

import networkx as nx

from proofs.cfg import INDIRECT, Edge, Node, edges, reachable
from proofs.check_program import Checked

FORMATS = (".dot", ".json", ".svg")
GAP, ROW, BOX_WIDTH, BOX_HEIGHT, MARGIN = 56, 72, 120, 34, 20  # pixels of the SVG
COLOURS = {Edge.DISPATCH: "#c0392b", Edge.CALLBACK: "#8e44ad", Edge.TAIL_CALL: "#d35400", Edge.DIRECT: "#1e8449"}
DASHES = {Edge.DISPATCH: "6 3", Edge.CALLBACK: "2 3", Edge.TAIL_CALL: "8 3 2 3"}


def render(checked: Sequence[Checked], ending: str) -> str:
    """All programs' graphs in the format that `ending` (of FORMATS) names."""
    make: dict[str, Callable[[Sequence[Checked]], str]] = {".dot": dot, ".json": as_json, ".svg": svg}
    return make[ending](checked)


def graph_of(checked: Checked) -> "nx.DiGraph[Node]":
    if checked.direct is None:
        raise ValueError(f"{checked.program.name} has no graph")
    return checked.direct.graph


def label(checked: Checked, node: Node) -> str:
    """One line for a node; block numbers are slots of the program after, as listed."""
    kind, what = node
    after = checked.rewritten.after if checked.rewritten is not None else checked.program
    names = {row.start: row.name for row in after.subprograms}
    match kind:
        case "block":
            end = graph_of(checked).nodes[node].get("end", int(what) + 1)
            name = names.get(int(what))
            first, last = after.base + int(what), after.base + end - 1
            span = f"{first}-{last}" if last > first else str(first)
            return f"{name}: {span}" if name else span
        case "return":
            return f"return of {names.get(int(what), what)}"
        case "site":
            site = next((s for s in checked.sites if s.after == what), None)
            return f"{after.base + int(what)}: bpf_{site.helper}" if site is not None else f"call at {what}"
        case "outside":
            return f"outside: {after.base + int(what)}"
        case "unknown":
            return f"unknown target at {after.base + int(what)}"
        case _:
            return f"{kind} {what}"


def _quoted(text: str) -> str:
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return '"' + shown.replace("\\", "\\\\").replace('"', '\\"') + '"'


def dot(checked: Sequence[Checked]) -> str:
    """Graphviz: one digraph, one cluster a program."""
    shapes = {"block": "box", "return": "oval", "site": "diamond", "operation": "component", "helper": "hexagon"}
    lines = ["digraph bpf {", "  node [fontname=monospace];"]
    for number, one in enumerate(checked):
        lines.append(f"  subgraph cluster_{number} {{")
        lines.append(f"    label={_quoted(one.program.name)};")
        ids = {node: f"n{number}_{index}" for index, node in enumerate(graph_of(one).nodes)}
        for node, name in ids.items():
            shape = shapes.get(node[0], "plaintext")
            lines.append(f"    {name} [shape={shape} label={_quoted(label(one, node))}];")
        for source, target, kind in edges(graph_of(one)):
            style = f' color="{COLOURS[kind]}"' if kind in COLOURS else ""
            style += " style=dashed" if kind in INDIRECT else ""
            lines.append(f"    {ids[source]} -> {ids[target]} [label={_quoted(kind.value)}{style}];")
        lines.append("  }")
    return "\n".join([*lines, "}", ""])


def as_json(checked: Sequence[Checked]) -> str:
    """Programs, each with `nodes` (id, kind, label, reachable) and `edges` (source, target, kind, indirect)."""
    programs = []
    for one in checked:
        graph = graph_of(one)
        live = reachable(graph)
        ids = {node: f"{node[0]}:{node[1]}" for node in graph.nodes}
        nodes = [
            {"id": ids[node], "kind": node[0], "label": label(one, node), "reachable": node in live} for node in graph
        ]
        arrows = [
            {"source": ids[source], "target": ids[target], "kind": kind.value, "indirect": kind in INDIRECT}
            for source, target, kind in edges(graph)
        ]
        programs.append({"program": one.program.name, "section": one.program.section, "nodes": nodes, "edges": arrows})
    return json.dumps(programs, indent=1) + "\n"


def _rows(graph: "nx.DiGraph[Node]") -> list[list[Node]]:
    """Nodes by their distance from the entry; what the entry does not reach comes last."""
    layers: list[list[Node]] = [sorted(layer, key=str) for layer in nx.bfs_layers(graph, graph.graph["roots"])]
    placed = {node for layer in layers for node in layer}
    rest = [node for node in graph.nodes if node not in placed]
    return [*layers, rest] if rest else layers


def svg(checked: Sequence[Checked]) -> str:
    """All programs below each other, each in rows by distance from its entry. Labels are escaped."""
    body: list[str] = []
    top, right = MARGIN, 0
    for one in checked:
        graph = graph_of(one)
        rows = _rows(graph)
        labels = {node: label(one, node) for node in graph.nodes}
        wide = max(BOX_WIDTH, 16 + 8 * max(len(text) for text in labels.values()))
        body.append(f'<text x="{MARGIN}" y="{top + 14}" class="title">{escape(one.program.name)}</text>')
        top += 30
        places = {
            node: (MARGIN + GAP + column * (wide + GAP), top + row * ROW)
            for row, nodes in enumerate(rows)
            for column, node in enumerate(nodes)
        }
        body += [_edge(places[s], places[t], kind, wide) for s, t, kind in edges(graph)]
        body += [_box(place, labels[node], node[0], wide) for node, place in places.items()]
        top += len(rows) * ROW + MARGIN
        right = max([right, *[x + wide for x, _ in places.values()]])
    body.append(_legend(top))
    width, height = max(right + GAP, 8 * 90), top + 40
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="monospace" '
        'font-size="12"><style>.title{font-weight:bold}.kind{font-size:10px}</style><defs><marker id="end" '
        'viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        f'<path d="M0 0L8 4L0 8z"/></marker></defs><rect width="{width}" height="{height}" fill="white"/>'
    )
    return "\n".join([head, *body, "</svg>", ""])


def _legend(top: int) -> str:
    """What the strokes mean; a blue-green line is a direct call, a broken one an indirect branch."""
    shown, x = [], MARGIN
    for kind, colour in COLOURS.items():
        dash = f' stroke-dasharray="{DASHES[kind]}"' if kind in DASHES else ""
        shown.append(f'<path d="M{x} {top + 16}h36" stroke="{colour}"{dash}/>')
        text = f"{kind.value} (indirect)" if kind in INDIRECT else f"{kind.value} call"
        shown.append(f'<text x="{x + 42}" y="{top + 20}">{text}</text>')
        x += 60 + 8 * len(text)
    return "".join(shown)


def _box(place: tuple[int, int], text: str, kind: str, wide: int) -> str:
    x, y = place
    radius = {"operation": 16, "helper": 16, "site": 0}.get(kind, 4)
    fill = {"operation": "#eafaf1", "site": "#fdedec", "helper": "#eaf2f8"}.get(kind, "#f8f9f9")
    box = f'<rect x="{x}" y="{y}" width="{wide}" height="{BOX_HEIGHT}" rx="{radius}" fill="{fill}" stroke="#555"/>'
    name = f'<text x="{x + wide // 2}" y="{y + 21}" text-anchor="middle">{escape(text)}</text>'
    return f"<g>{box}{name}</g>"


def _edge(start: tuple[int, int], end: tuple[int, int], kind: Edge, wide: int) -> str:
    """Down: from the lower to the upper side. Else around the left side, where no box is in the way."""
    (x0, y0), (x1, y1) = start, end
    colour = COLOURS.get(kind, "#555")
    dash = f' stroke-dasharray="{DASHES[kind]}"' if kind in DASHES else ""
    if y1 > y0:
        a, b, c, d = x0 + wide // 2, y0 + BOX_HEIGHT, x1 + wide // 2, y1
        path, at = f"M{a} {b}C{a} {b + 20} {c} {d - 20} {c} {d}", ((a + c) // 2 + 4, (b + d) // 2 + 3)
    else:
        a, b, c, d = x0, y0 + BOX_HEIGHT - 8, x1, y1 + 8
        out = min(a, c) - GAP + 8
        path, at = f"M{a} {b}C{out} {b} {out} {d} {c} {d}", (out + 4, (b + d) // 2 + 3)
    plain = kind in (Edge.FALL, Edge.JUMP)
    text = "" if plain else f'<text class="kind" x="{at[0]}" y="{at[1]}" fill="{colour}">{escape(kind.value)}</text>'
    return f'<path d="{path}" fill="none" stroke="{colour}"{dash} marker-end="url(#end)"/>{text}'
