"""Refutations in four parts: Reason, At, Causal path, Suggestion. Those with the same values are shown once."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from proofs.obligation import Shown
from proofs.report.html.elements import Markup, element, joined, lines
from proofs.report.html.verdicts import badge
from proofs.report.record import Part, Record

SIDES = (("helper", "direct"), ("operation", "inlined"), ("before", "after"))
"""How the labels of a counterexample's words begin that belong to one of two runs."""
AT_ONCE = 3
"""Places that are shown without unfolding."""
PLACES = 200
"""Places of one counterexample that are named."""


@dataclass(slots=True)
class Example:
    """One reason, values and suggestion, and everything that they refute."""

    reason: str
    path: tuple[Shown, ...]
    suggestion: str
    at: list[tuple[Record, Part]] = field(default_factory=list)


def examples(records: Iterable[Record]) -> list[Example]:
    found: dict[tuple[str, tuple[Shown, ...], str], Example] = {}
    for record in records:
        for part in record.refutations:
            key = (part.reason, part.path, part.suggestion)
            found.setdefault(key, Example(*key)).at.append((record, part))
    return list(found.values())


def numbers(some: Sequence[Example]) -> dict[str, list[int]]:
    """By a record's name the counterexamples that speak of it."""
    found: dict[str, list[int]] = {}
    for number, example in enumerate(some):
        for record, _ in example.at:
            mine = found.setdefault(record.name, [])
            if number not in mine:
                mine.append(number)
    return found


def article(number: int, example: Example, anchors: Mapping[str, str]) -> Markup:
    """`anchors` are the places of records in the page."""
    parts = (
        element("dt", "Reason"),
        element("dd", example.reason),
        element("dt", "At"),
        element("dd", _places(example.at, anchors)),
        element("dt", "Causal path"),
        element("dd", _path(example.path)),
        element("dt", "Suggestion"),
        element("dd", example.suggestion or "none is known"),
    )
    head = element("h3", badge("refuted"), f" {_title(example)}")
    return element("article", head, element("dl", *parts), id=f"c{number}", class_="cex")


def _title(example: Example) -> str:
    first, count = example.at[0][1].name, len(example.at)
    return first if count == 1 else f"{first} and {count - 1} more"


def _places(at: Sequence[tuple[Record, Part]], anchors: Mapping[str, str]) -> Markup:
    items = [_place(record, part, anchors) for record, part in at[:PLACES]]
    if len(at) > PLACES:
        items.append(element("li", f"… and {len(at) - PLACES} more"))
    few = element("ul", lines(items[:AT_ONCE]))
    if len(items) <= AT_ONCE:
        return few
    rest = element("ul", lines(items[AT_ONCE:]))
    return joined((few, element("details", element("summary", f"{len(at) - AT_ONCE} more with these values"), rest)))


def _place(record: Record, part: Part, anchors: Mapping[str, str]) -> Markup:
    """Obligation, program, instruction and source line, as far as there are any."""
    told: list[str | Markup] = []
    place = record.place
    if place is not None:
        at = "" if place.instruction is None else f", instruction {place.instruction}"
        told.append(element("br"))
        told.append(f"program {place.program} in {place.file}{at}")
        if place.source:
            told += [element("br"), f"{place.source}:{place.line}: ", element("code", place.text)]
    if part.at:
        told += [element("br"), part.at]
    name = element("code", part.name)
    target = anchors.get(record.name)
    obligation = element("a", name, href=f"#{target}") if target else name
    kept = () if record.verdict == "refuted" else (" for the claim, which is ", badge(record.verdict))
    known = f" known: {record.baseline}" if record.baseline else None
    return element("li", obligation, *kept, known, *told, data_n=record.name)


def _path(path: Sequence[Shown]) -> Markup:
    """The values in order; where there are two runs they stand side by side, those that differ with a mark."""
    sides = next((pair for pair in SIDES if any(_split(word, pair)[0] for word in path)), None)
    if sides is None:
        rows = [_row(str(step), word.label, "", value(word)) for step, word in enumerate(path, 1)]
        return _table(("step", "what", "value"), rows)
    rows, parted = [], False
    for step, (label, left, right) in enumerate(_steps(path, sides), 1):
        if right is None:
            rows.append(_row(str(step), label, "both", value(left)))
            continue
        differ = left.value != right.value
        mark = ("≠ the two part here" if not parted else "≠") if differ else ""
        parted = parted or differ
        rows.append(_row(str(step), label, "part" if differ else "", value(left), value(right), mark=mark))
    return _table(("step", "what", *sides), rows)


def value(word: Shown) -> str:
    """Hexadecimal, and what it is as a signed number."""
    return str(word).rpartition(" = ")[2]


def _split(word: Shown, sides: tuple[str, str]) -> tuple[str, str]:
    """Which of `sides` the word belongs to, "" for neither, and what it is there."""
    side, colon, label = word.label.partition(": ")
    return (side, label) if colon and side in sides else ("", word.label)


def _steps(path: Sequence[Shown], sides: tuple[str, str]) -> list[tuple[str, Shown, Shown | None]]:
    """(label, value, None) of what both runs have, (label, left, right) where the side that is first has it.

    The nth word of a label belongs to the nth one of the other side; without one it stays with its side's name.
    """
    seen = Counter[tuple[str, str]]()
    halves: dict[tuple[str, str, int], Shown] = {}
    keys = []
    for word in path:
        side, label = _split(word, sides)
        keys.append((side, label, seen[side, label]))
        seen[side, label] += 1
        halves[keys[-1]] = word
    found: list[tuple[str, Shown, Shown | None]] = []
    for word, (side, label, nth) in zip(path, keys, strict=True):
        other = halves.get((sides[side == sides[0]], label, nth)) if side else None
        if other is None:
            found.append((word.label, word, None))
        elif side == sides[0]:
            found.append((label, word, other))
    return found


def _row(step: str, label: str, kind: str, *cells: str, mark: str = "") -> Markup:
    wide = 2 if kind == "both" else None
    values = (element("td", element("code", cell), colspan=wide) for cell in cells)
    head = element("th", label, element("strong", mark) if mark else None, scope="row")
    return element("tr", element("td", step), head, *values, class_=kind or None)


def _table(heads: Sequence[str], rows: Iterable[Markup]) -> Markup:
    head = element("thead", element("tr", *(element("th", text, scope="col") for text in heads)))
    return element("div", element("table", head, element("tbody", lines(rows)), class_="path"), class_="scroll")
