"""A program before and after, side by side, with its source lines; of a long one what lies around the call sites.

Marks: `|` rewritten, `>` added by the rewrite, `*` a call site that stays, `~` not rewritten, but told otherwise
(a jump over what has grown, a call by its name in the kernel).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from model.program import Line, Program
from model.rewrite.passes import Rewritten
from proofs.check_program import Checked
from proofs.outcome import word
from proofs.report.html.elements import Markup, cut, element, lines
from proofs.report.html.verdicts import badge
from proofs.report.listing import WIDE, line, slots
from proofs.site import Site, described

AROUND = 6
"""Lines shown before and behind a site of a listing that is folded."""
LONGEST = 300
"""Characters of one line."""
LEGEND = (
    ("|", "rewritten"),
    (">", "added by the rewrite"),
    ("*", "a map-helper call that stays"),
    ("~", "not rewritten, but told otherwise: a jump over what has grown, a call by its kernel name"),
)
CLASSES = {"|": "c", ">": "a", "*": "k", "~": "d", "": None}


@dataclass(frozen=True, slots=True)
class Listing:
    """`sites` are the slots of those that are not folded: they have an anchor `{prefix}-{slot}`."""

    table: Markup
    sites: frozenset[int]
    folded: int


def listing(checked: Checked, helpers: Mapping[int, str], prefix: str, limit: int) -> Listing:
    """At most about `limit` lines of the program before."""
    program, done = checked.program, checked.rewritten
    sites = {site.slot: site for site in checked.sites}
    every = list(slots(program))
    shown = _shown(every, checked, limit)
    patched = frozenset(d.slot for d in done.decisions if d.patch is not None) if done is not None else frozenset()
    rows: list[Markup] = []
    names = {row.start: row.name for row in program.subprograms}
    span = 3 if done is not None else 2
    gap: list[int] = []
    for slot in every:
        if slot not in shown:
            gap.append(slot)
            continue
        if gap:
            rows.append(_gap(program, gap, span))
            gap = []
        if slot in names:
            rows.append(_across(span, "f", f"{names[slot]}:"))
        if slot in program.lines:
            rows.append(_source(program.lines[slot], span))
        mark = "" if slot not in sites else "*" if sites[slot].leftover is not None else "|"
        mark = "|" if slot in patched else "*" if slot in sites and done is not None else mark
        rows += _code(checked, slot, helpers, mark, f"{prefix}-{slot}" if slot in sites else None)
        if slot in sites:
            rows.append(_note(sites[slot], span))
    if gap:
        rows.append(_gap(program, gap, span))
    heads = ("before", "", "after") if done is not None else ("", "as the kernel runs it")
    head = element("thead", element("tr", *(element("th", text, scope="col") for text in heads)))
    body = element("tbody", lines(rows))
    kind = "l two" if done is not None else "l one"
    found = frozenset(slot for slot in sites if slot in shown)
    return Listing(element("table", head, body, class_=kind), found, len(every) - len(shown))


def legend() -> Markup:
    marks = (element("li", element("code", mark), f" {text}") for mark, text in LEGEND)
    return element("ul", *marks, class_="legend")


def _shown(every: list[int], checked: Checked, limit: int) -> set[int]:
    """All of a short program; else the surroundings of its sites, those first whose claims are not proved."""
    if len(every) <= limit:
        return set(every)
    index = {slot: number for number, slot in enumerate(every)}
    shown = set(every[:AROUND])
    for site in sorted(checked.sites, key=lambda site: (word(site.verdict) == "proved", site.slot)):
        if len(shown) + 2 * AROUND > limit:
            break
        at = index[site.slot]
        shown.update(every[max(0, at - AROUND) : at + AROUND + 1])
    return shown


def _code(checked: Checked, slot: int, helpers: Mapping[int, str], mark: str, anchor: str | None) -> Iterator[Markup]:
    """The row of one slot, and one more for each instruction that was added there."""
    text = line(checked.program, slot, helpers)
    done = checked.rewritten
    if done is None:
        yield element("tr", element("td", mark), element("td", _line(text)), class_=CLASSES[mark], id=anchor)
        return
    first, *more = _after(done, slot, helpers)
    if not mark and text.partition(": ")[2] != first.partition(": ")[2]:
        mark = "~"
    cells = (element("td", _line(text)), element("td", mark), element("td", _line(first)))
    yield element("tr", *cells, class_=CLASSES[mark], id=anchor)
    for other in more:
        yield element("tr", element("td"), element("td", ">"), element("td", _line(other)), class_="a")


def _after(done: Rewritten, slot: int, helpers: Mapping[int, str]) -> list[str]:
    """The lines that stand for `slot`; the second slot of a 64-bit load has none."""
    start = done.moved[slot]
    return [
        line(done.after, place, helpers, done.relocs.get(place))
        for place in range(start, done.moved[slot + 1])
        if place == start or done.after.insns[place - 1].opcode != WIDE
    ]


def _line(text: str) -> str:
    return cut(text, LONGEST)


def _across(span: int, kind: str, *children: str | Markup) -> Markup:
    return element("tr", element("td", *children, colspan=span), class_=kind)


def _source(found: Line, span: int) -> Markup:
    where = f"{found.file}:{found.line}" if found.line else found.file
    return _across(span, "s", f"; {_line(found.text.strip())} ", element("span", _line(where)))


def _note(site: Site, span: int) -> Markup:
    maps = ", ".join(described(pointer) for pointer in site.maps) or "a map that is not shown"
    function = f" {site.function}" if site.function else ""
    told = f" {site.helper} on {maps}: {site.decision}{function}"
    left = site.leftover
    why = f"; dispatch left, {left.kind.value}: {left.reason}" if left is not None else ""
    return _across(span, "n", badge(word(site.verdict)), cut(told + why, 2 * LONGEST))


def _gap(program: Program, folded: list[int], span: int) -> Markup:
    first, last = program.base + folded[0], program.base + folded[-1]
    noun = "line" if len(folded) == 1 else "lines"
    return _across(span, "g", f"… {len(folded)} {noun} folded: {first} to {last}")
