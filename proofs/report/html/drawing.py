"""A control-flow graph as SVG inside of the page. Kinds of edges differ by colour, by stroke and by their ends."""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from proofs.cfg import INDIRECT, Edge
from proofs.report.html.elements import Markup, element, joined, lines
from proofs.report.html.folding import Arrow, Box, Picture
from proofs.report.html.layout import HEIGHT, LAYER, Layout, Point, layered

LETTER = 7.3  # pixels of a letter of 12 px
LABEL = 40  # letters of a box's text
ROUND = {"operation": 24, "helper": 8, "kfunc": 8, "return": 8, "site": 8}  # pixels that a box's ends take
WORDS = {
    Edge.DIRECT: "direct call of a map operation",
    Edge.DISPATCH: "indirect: dispatch through map->ops",
    Edge.CALLBACK: "indirect: callback, left in the callee",
    Edge.TAIL_CALL: "indirect: tail call",
    Edge.CALL: "call of a subprogram, helper or kfunc",
    Edge.JUMP: "jump, fall through, return",
}
STYLES = {  # the class that strokes and ends go by
    Edge.DIRECT: "direct",
    Edge.DISPATCH: "dispatch",
    Edge.CALLBACK: "callback",
    Edge.TAIL_CALL: "tail",
    Edge.CALL: "call",
    Edge.HELPER: "call",
    Edge.SITE: "call",
    Edge.OPAQUE: "call",
}
_ENDS = {
    "flow": "M1 1l6 3l-6 3",
    "call": "M0 0l8 4l-8 4z",
    "direct": "M0 0l8 4l-8 4zM0 0v8",
    "dispatch": "M0 4l4-4l4 4l-4 4z",
    "callback": "M4 0a4 4 0 1 0 0 8a4 4 0 1 0 0-8z",
    "tail": "M0 0h8v8h-8z",
}


def style(kind: Edge) -> str:
    return STYLES.get(kind, "flow")


def ends() -> Markup:
    """The ends of the edges, once a page."""
    made = (
        element(
            "marker",
            element("path", d=path, class_=f"end {name}"),
            id=f"end-{name}",
            viewBox="-1 -1 10 10",
            refX=8,
            refY=4,
            markerWidth=9,
            markerHeight=9,
            markerUnits="userSpaceOnUse",
            orient="auto",
        )
        for name, path in _ENDS.items()
    )
    return joined(made)


def legend() -> Markup:
    """What the strokes and ends mean."""
    made = (
        element(
            "li",
            element(
                "svg",
                element("path", d="M2 8h50", class_=f"e {style(kind)}", marker_end=_end(style(kind))),
                class_="key",
                viewBox="0 0 60 16",
                aria_hidden="true",
            ),
            f" {words}",
        )
        for kind, words in WORDS.items()
    )
    return element("ul", *made, class_="legend")


def drawn(picture: Picture, title: str) -> Markup:
    """The picture in a box that scrolls; the script adds buttons and keys for its size."""
    texts = [short(box.text) for box in picture.boxes]
    widths = [
        round(len(text) * LETTER) + 20 + ROUND.get(box.kind, 0) for text, box in zip(texts, picture.boxes, strict=True)
    ]
    pairs = [(arrow.source, arrow.target) for arrow in picture.arrows]
    layout = layered(widths, pairs)
    routes = _ports(layout, pairs, widths)
    paths = [_arrow(arrow, picture.boxes, route, widths) for arrow, route in zip(picture.arrows, routes, strict=True)]
    boxes = [
        _box(box, text, place, width)
        for box, text, place, width in zip(picture.boxes, texts, layout.places, widths, strict=True)
    ]
    kinds = Counter(arrow.kind for arrow in picture.arrows if arrow.kind in INDIRECT)
    told = ", ".join(f"{count} {kind.value}" for kind, count in sorted(kinds.items())) or "none"
    name = f"Control-flow graph of {title}: {len(boxes)} boxes, {len(paths)} edges; indirect edges: {told}"
    svg = element(
        "svg",
        lines((*paths, *boxes)),
        class_="graph",
        role="img",
        aria_label=name,
        width=layout.width,
        height=layout.height,
        viewBox=f"0 0 {layout.width} {layout.height}",
    )
    return element("div", svg, class_="canvas", tabindex=0, role="group", aria_label=f"{name}; scrolls with arrow keys")


def short(text: str) -> str:
    return text if len(text) <= LABEL else f"{text[: LABEL - 1]}…"


def _end(name: str) -> str:
    return f"url(#end-{name})"


def _box(box: Box, text: str, place: Point, width: int) -> Markup:
    x, y = place
    outline = element("path", d=_outline(box.kind, x - width // 2, y - HEIGHT // 2, width))
    name = element("text", text, x=x, y=y + 4)
    title = element("title", f"{box.kind}: {box.text}")
    return element("g", title, outline, name, class_=f"n {box.kind}")


def _outline(kind: str, x: int, y: int, width: int) -> str:
    """Block: a box. Site: six corners. Operation: two ends of a circle, and bars. Others: two ends of a circle."""
    h, half = HEIGHT, HEIGHT // 2
    if kind in ("block", "outside"):
        return f"M{x} {y}h{width}v{h}h{-width}z"
    if kind in ("site", "unknown"):
        return f"M{x - 4} {y + half}l10 {-half}h{width - 12}l10 {half}l-10 {half}h{12 - width}z"
    round_ = f"M{x + half} {y}h{width - h}a{half} {half} 0 0 1 0 {h}h{h - width}a{half} {half} 0 0 1 0 {-h}z"
    return f"{round_}M{x + half - 4} {y}v{h}M{x + width - half + 4} {y}v{h}" if kind == "operation" else round_


def _ports(layout: Layout, pairs: Sequence[tuple[int, int]], widths: Sequence[int]) -> list[list[Point]]:
    """The routes with their ends on the boxes' edges, spread where several leave or come in."""
    routes = [list(route) for route in layout.routes]
    sides: dict[tuple[int, int], list[tuple[int, int, int]]] = {}  # (node, above or below) -> (x next, edge, end)
    for number, (pair, route) in enumerate(zip(pairs, routes, strict=True)):
        if pair[0] == pair[1]:
            continue
        for end, node in ((0, pair[0]), (-1, pair[1])):
            beside = route[1 if end == 0 else -2]
            sides.setdefault((node, 1 if beside[1] > route[end][1] else -1), []).append((beside[0], number, end))
    for (node, side), some in sides.items():
        x, y = layout.places[node]
        step = min(16.0, widths[node] * 0.7 / len(some))
        for index, (_, number, end) in enumerate(sorted(some)):
            routes[number][end] = (round(x + (index - (len(some) - 1) / 2) * step), y + side * HEIGHT // 2)
    return routes


def _arrow(arrow: Arrow, boxes: Sequence[Box], route: Sequence[Point], widths: Sequence[int]) -> Markup:
    name = style(arrow.kind)
    if arrow.source == arrow.target:
        (x, y), reach = route[0], widths[arrow.source] // 2
        path = f"M{x + reach} {y - 6}c{LAYER // 2} -20 {LAYER // 2} 32 0 12"
    else:
        path = f"M{route[0][0]} {route[0][1]}" + "".join(_bend(a, b) for a, b in pairwise(route))
    title = element("title", f"{arrow.kind.value}: {boxes[arrow.source].text} → {boxes[arrow.target].text}")
    line = element("path", d=path, class_=f"e {name}", marker_end=_end(name))
    if arrow.kind not in INDIRECT:
        return element("g", title, line)
    x, y = ((route[0][0] + route[1][0]) // 2, (route[0][1] + route[1][1]) // 2)
    return element("g", title, line, element("text", arrow.kind.value, x=x + 6, y=y + 4, class_=f"k {name}"))


def _bend(a: Point, b: Point) -> str:
    middle = (a[1] + b[1]) // 2
    return f"C{a[0]} {middle} {b[0]} {middle} {b[0]} {b[1]}"
