"""Places for the nodes of a graph in layers, from the top down (Sugiyama's method), for some hundreds of nodes.

Edges against the flow are turned round, long ones get a place in each layer that they cross, each layer is put in the
order of its neighbours' middles, and x is what brings neighbours nearest to each other without overlaps.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import networkx as nx

HEIGHT, LAYER, GAP, BEND = 30, 74, 22, 10
"""Pixels: a node's height, from layer to layer, between nodes, the width that a passing edge takes."""
MARGIN = 24
SWEEPS = 8
PASSING = 4000
"""Places of passing edges; where there would be more, long edges go straight."""

Edge = tuple[int, int]
Point = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Layout:
    """`places` are the nodes' middles; `routes`, by the edge's index, points from the source to the target."""

    places: tuple[Point, ...]
    routes: tuple[tuple[Point, ...], ...]
    width: int
    height: int


def layered(widths: Sequence[int], edges: Sequence[Edge]) -> Layout:
    """Nodes are 0 to len(widths) - 1, `widths` in pixels, entries first. The same input gives the same places."""
    turned = _against(len(widths), edges)
    forward = [(t, s) if (s, t) in turned else (s, t) for s, t in edges]
    layers = _layers(len(widths), forward)
    sizes = list(widths)
    chains = _chains(forward, layers, sizes)
    rows = _rows(layers)
    up, down = _neighbours(len(sizes), chains)
    _order(rows, up, down)
    middles = _columns(rows, sizes, up, down)
    left = min((m - w / 2 for m, w in zip(middles, sizes, strict=True)), default=0) - MARGIN
    places = [(round(m - left), MARGIN + HEIGHT // 2 + LAYER * row) for m, row in zip(middles, layers, strict=True)]
    routes = []
    for edge, chain in zip(edges, chains, strict=True):
        points = [places[node] for node in chain]
        routes.append(tuple(reversed(points)) if edge in turned else tuple(points))
    right = max((x + w // 2 for (x, _), w in zip(places, sizes, strict=True)), default=0) + MARGIN
    loops = any(s == t for s, t in edges)
    return Layout(
        tuple(places[: len(widths)]),
        tuple(routes),
        right + (LAYER if loops else 0),
        2 * MARGIN + HEIGHT + LAYER * (len(rows) - 1),
    )


def _against(count: int, edges: Sequence[Edge]) -> set[Edge]:
    """The edges that close a cycle in a walk in depth from each node in turn; not those from a node to itself."""
    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(range(count))
    graph.add_edges_from(edge for edge in edges if edge[0] != edge[1])
    found: set[Edge] = set()
    on_the_way: set[int] = set()
    for source, target, kind in nx.dfs_labeled_edges(graph):
        if kind == "forward":
            on_the_way.add(target)
        elif kind == "reverse":
            on_the_way.discard(target)
        elif target in on_the_way:
            found.add((source, target))
    return found


def _layers(count: int, forward: Sequence[Edge]) -> list[int]:
    """Of each node the longest way from above, in edges; places of passing edges are appended later."""
    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(range(count))
    graph.add_edges_from(edge for edge in forward if edge[0] != edge[1])
    layers = [0] * count
    for node in nx.topological_sort(graph):
        for after in graph.successors(node):
            layers[after] = max(layers[after], layers[node] + 1)
    return layers


def _chains(forward: Sequence[Edge], layers: list[int], sizes: list[int]) -> list[tuple[int, ...]]:
    """Each edge as nodes, one a layer; the places between are new nodes at the end of `layers` and `sizes`."""
    straight = sum(max(0, layers[t] - layers[s] - 1) for s, t in set(forward)) > PASSING
    known: dict[Edge, tuple[int, ...]] = {}
    for s, t in forward:
        if (s, t) in known:
            continue
        between = range(layers[s] + 1, layers[t]) if not straight else ()
        known[s, t] = (s, *range(len(layers), len(layers) + len(between)), t)
        layers += between
        sizes += [BEND] * len(between)
    return [known[edge] for edge in forward]


def _rows(layers: Sequence[int]) -> list[list[int]]:
    rows: list[list[int]] = [[] for _ in range(max(layers, default=-1) + 1)]
    for node, row in enumerate(layers):
        rows[row].append(node)
    return rows


def _neighbours(count: int, chains: Sequence[tuple[int, ...]]) -> tuple[list[list[int]], list[list[int]]]:
    up: list[list[int]] = [[] for _ in range(count)]
    down: list[list[int]] = [[] for _ in range(count)]
    for chain in chains:
        for above, below in pairwise(chain):
            if above != below:
                down[above].append(below)
                up[below].append(above)
    return up, down


def _order(rows: list[list[int]], up: Sequence[Sequence[int]], down: Sequence[Sequence[int]]) -> None:
    """Each row by the mean of its neighbours' positions, from above and from below in turn."""
    position = [0.0] * len(up)
    for row in rows:
        for index, node in enumerate(row):
            position[node] = index
    for sweep in range(SWEEPS):
        near = up if sweep % 2 == 0 else down
        for row in rows if sweep % 2 == 0 else reversed(rows):
            wish = {node: _mean([position[other] for other in near[node]], position[node]) for node in row}
            row.sort(key=lambda node: wish[node])
            for index, node in enumerate(row):
                position[node] = index


def _columns(
    rows: Sequence[Sequence[int]], sizes: Sequence[int], up: Sequence[Sequence[int]], down: Sequence[Sequence[int]]
) -> list[float]:
    """The middles: each row as near as can be to the mean of its neighbours, from above and from below in turn."""
    x = [0.0] * len(sizes)
    for row in rows:
        _apart(row, [0.0] * len(row), sizes, x)
    for sweep in range(SWEEPS):
        near = up if sweep % 2 == 0 else down
        for row in rows if sweep % 2 == 0 else reversed(rows):
            _apart(row, [_mean([x[other] for other in near[node]], x[node]) for node in row], sizes, x)
    return x


def _apart(row: Sequence[int], wishes: Sequence[float], sizes: Sequence[int], x: list[float]) -> None:
    """Sets `x` of a row as near to `wishes` as its order and its widths allow: least squares, by pooling neighbours
    that would overlap.
    """
    offset, before = 0.0, 0
    pools: list[tuple[float, list[tuple[int, float]]]] = []  # (mean, [(node, offset)])
    for index, node in enumerate(row):
        offset += (before + sizes[node]) / 2 + GAP if index else 0.0
        before = sizes[node]
        mean, some = wishes[index] - offset, [(node, offset)]
        while pools and pools[-1][0] > mean:
            other, earlier = pools.pop()
            mean = (other * len(earlier) + mean * len(some)) / (len(earlier) + len(some))
            some = earlier + some
        pools.append((mean, some))
    for mean, some in pools:
        for node, shift in some:
            x[node] = mean + shift


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise
