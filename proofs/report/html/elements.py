"""The only place where HTML is made: elements out of text, which is always escaped.

The standard library's `html.escape` is all that is needed: a template engine would add a dependency, and a language in
which one forgotten filter is a hole. Here text (`str`) and HTML (`Markup`) are different types, so that a type checker
finds what was put together by hand.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape

from proofs.report.text import clean

LONGEST = 4000
"""Characters of one text; more is cut, and says so: a name in an input file may have megabytes."""

VOID = frozenset({"br", "input", "link", "meta"})
_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9-]*\Z")


@dataclass(frozen=True, slots=True)
class Markup:
    """HTML as it stands in the file. Made by the functions of this module only."""

    html: str


Child = str | Markup | None
NOTHING = Markup("")


def element(tag: str, /, *children: Child, **attributes: str | int | bool | None) -> Markup:
    """An element. Attributes that are None or False are left out; `class_` is class, `data_of` is data-of.

    Raises ValueError for what input must never decide: names, scripts and styles in attributes, links out of the file.
    """
    if not _NAME.match(tag) or tag in ("script", "style"):
        raise ValueError(f"expected an element's name, not {tag!r}")
    start = [f"<{tag}"]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        name = key.removesuffix("_").replace("_", "-")
        text = "" if value is True else str(value)
        _refuse(name, text)
        start.append(f" {name}" if value is True else f' {name}="{escape(_plain(text))}"')
    start.append(">")
    if tag in VOID:
        return Markup("".join(start))
    return Markup("".join((*start, joined(children).html, f"</{tag}>")))


def joined(children: Iterable[Child]) -> Markup:
    """One after the other, nothing between them."""
    return Markup("".join(_child(child) for child in children))


def lines(children: Iterable[Markup]) -> Markup:
    """Each on a line of its own, where a line's end means nothing."""
    return Markup("\n".join(child.html for child in children))


def shipped(tag: str, text: str) -> Markup:
    """The script or style sheet that is part of this package, as it is."""
    if f"</{tag}" in text.lower() or tag not in ("script", "style"):
        raise ValueError(f"{tag} would end early")
    return Markup(f"<{tag}>{text}</{tag}>")


def cut(text: str, longest: int = LONGEST) -> str:
    """At most `longest` characters of `text`, and how many more there are."""
    return text if len(text) <= longest else f"{text[:longest]}… ({len(text) - longest} more characters)"


def _plain(text: str) -> str:
    """What cannot be shown, or would steer (control characters, directions of writing), as an escape."""
    text = cut(text)
    return text if text.isprintable() else clean(text)


def _child(child: Child) -> str:
    if child is None:
        return ""
    return child.html if isinstance(child, Markup) else escape(_plain(child), quote=False)


def _refuse(name: str, value: str) -> None:
    inside = name != "href" or value.startswith("#") or value == "data:,"
    if not _NAME.match(name) or name.lower().startswith("on") or name in ("style", "src", "srcdoc") or not inside:
        raise ValueError(f"expected no attribute {name}={value[:80]!r}")
