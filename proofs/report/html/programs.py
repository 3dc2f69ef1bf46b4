"""A section for each program: what was found, its call sites, its listing and its graph."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from model.program import Object
from proofs.check_program import Checked
from proofs.obligation import Proved
from proofs.outcome import why, word
from proofs.report.html import drawing
from proofs.report.html.elements import Markup, element, joined, lines
from proofs.report.html.folding import BLOCKS, picture
from proofs.report.html.listing import legend, listing
from proofs.report.html.verdicts import badge, tally
from proofs.report.program_text import LISTED, plural
from proofs.report.record import Report, program_name
from proofs.site import Site, described

LINES, NODES, SITES = 40_000, 10_000, 10_000
"""Of all programs of a page together: lines of listings, nodes of graphs, rows of sites."""
OPEN = 3
"""Programs of a page whose listings and graphs are unfolded at first."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Of one program."""

    lines: int
    nodes: int
    sites: int
    open: bool


def bounds(programs: int) -> Bounds:
    """As much of a program as a page of so many has room for; some of each in any case."""
    share = max(programs, 1)
    return Bounds(
        max(24, min(5000, LINES // share)),
        max(20, min(BLOCKS, NODES // share)),
        max(10, min(300, SITES // share)),
        programs <= OPEN,
    )


def anchors(report: Report, bound: Bounds) -> dict[str, str]:
    """By a record's name its place in the page: a row of its program's sites, or the program."""
    found: dict[str, str] = {}
    programs: dict[tuple[str, str], str] = {}
    for number, (file, checked) in enumerate(report.programs):
        base = program_name(file, checked.program)
        programs.setdefault((file.file, checked.program.name), f"p{number}")
        for name in (base, f"{base}/direct", *(f"{base}/patching/{part}" for part in checked.patching)):
            found.setdefault(name, f"p{number}")
        for place, site in enumerate(checked.sites):
            shown = f"p{number}-{site.slot}" if place < bound.sites else f"p{number}"
            name = f"{base}/{checked.program.base + site.slot}/{site.helper}"
            found.setdefault(name, shown)
            found.setdefault(f"{name}/dispatch", shown)
    for record in report.records:
        where = record.place
        if where is not None and (where.file, where.program) in programs:
            found.setdefault(record.name, programs[where.file, where.program])
    return found


def section(number: int, file: Object, checked: Checked, helpers: Mapping[int, str], bound: Bounds) -> Markup:
    program = checked.program
    where = f" in {program.section}" if program.section else ""
    made: list[Markup] = [
        element("h3", program.name, element("small", f"{where}, {file.file}")),
        element("p", ", ".join(_sizes(checked)), " ", tally(_counts(checked))),
    ]
    notes = [*file.notes, *program.notes]
    if notes:
        made.append(element("ul", *(element("li", note) for note in notes), class_="notes"))
    if checked.hole:
        made.append(element("p", badge("unsupported"), f" {checked.hole}"))
        return element("section", *made, id=f"p{number}", class_="program")
    made.append(_whole(checked))
    told = listing(checked, helpers, f"l{number}", bound.lines)
    if checked.sites:
        made.append(_sites(number, checked, told.sites, bound.sites))
    made.append(_listing(checked, told.table, told.folded, bound))
    if checked.direct is not None:
        made.append(_graph(checked, bound))
    return element("section", *made, id=f"p{number}", class_="program")


def _sizes(checked: Checked) -> list[str]:
    return [plural(len(checked.program.insns), "instruction"), plural(len(checked.sites), "map-helper call site")]


def _counts(checked: Checked) -> Counter[str]:
    return Counter(word(verdict) for verdict in checked.verdicts())


def _whole(checked: Checked) -> Markup:
    """Patching and Direct, and the indirect branches that no rewrite of a call removes."""
    parts = checked.patching.items()
    items = [
        element("li", badge(word(verdict)), f" Patching: {part}", f": {why(verdict)}" if why(verdict) else None)
        for part, verdict in parts
        if not isinstance(verdict, Proved)
    ]
    proved = [part.replace("_", " ") for part, verdict in parts if isinstance(verdict, Proved)]
    if proved:
        items.append(element("li", badge("proved"), f" Patching: {', '.join(proved)}"))
    direct = checked.direct
    if direct is not None:
        many = len(direct.residual)
        left = f"{many or 'no'} residual dispatch{'es' if many > 1 else ''}"
        reason = f": {why(direct.verdict)}" if why(direct.verdict) else ""
        items.append(element("li", badge(word(direct.verdict)), f" Direct: {left}{reason}"))
        items += [
            element("li", f"residual indirect branch ({other.edge.value}): {other.source} → {other.target}")
            for other in direct.others[:LISTED]
        ]
        if len(direct.others) > LISTED:
            items.append(element("li", f"… and {len(direct.others) - LISTED} more indirect branches"))
    return element("ul", *items, class_="whole")


def _sites(number: int, checked: Checked, listed: frozenset[int], most: int) -> Markup:
    heads = ("at", "helper", "map", "decision", "verdict", "source")
    head = element("thead", element("tr", *(element("th", text, scope="col") for text in heads)))
    rows = [_site(number, checked.program.base, site, site.slot in listed) for site in checked.sites[:most]]
    table = element("table", head, element("tbody", lines(rows)), class_="sites")
    more = len(checked.sites) - len(rows)
    left = element("p", f"… and {plural(more, 'more site')}, among the claims below") if more else None
    return joined((element("div", table, class_="scroll"), left))


def _site(number: int, base: int, site: Site, listed: bool) -> Markup:
    at = str(base + site.slot)
    maps = ", ".join(described(pointer) for pointer in site.maps) or "not shown"
    decided = f"{site.decision} {site.function}" if site.function else site.decision
    left = site.leftover
    reason = why(site.verdict) or (left.reason if left is not None else site.reason)
    source = site.line
    told = f"{source.file}:{source.line}: " if source is not None and source.line else ""
    return element(
        "tr",
        element("td", element("a", at, href=f"#l{number}-{site.slot}") if listed else at),
        element("td", site.helper),
        element("td", maps),
        element("td", decided, element("div", f"dispatch left: {left.kind.value}") if left is not None else None),
        element("td", badge(word(site.verdict)), element("div", reason) if reason else None),
        element("td", told, element("code", source.text.strip()) if source is not None and told else None),
        id=f"p{number}-{site.slot}",
    )


def _listing(checked: Checked, table: Markup, folded: int, bound: Bounds) -> Markup:
    both = checked.rewritten is not None
    name = "Listing: before and after" if both else "Listing: as the kernel runs it"
    note = f" ({folded} lines folded)" if folded else ""
    inside = (element("summary", name + note), legend(), element("div", table, class_="scroll", tabindex=0))
    return element("details", *inside, open=bound.open)


def _graph(checked: Checked, bound: Bounds) -> Markup:
    found = picture(checked, bound.nodes)
    note = element("p", found.note) if found.note else None
    drawn = drawing.drawn(found, checked.program.name)
    return element("details", element("summary", "Control-flow graph"), note, drawing.legend(), drawn, open=bound.open)
