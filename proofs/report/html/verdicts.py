"""A verdict as a word with a shape; its colour comes from the style sheet."""

from collections.abc import Mapping

from proofs.report.html.elements import Markup, element, joined

VERDICTS = ("proved", "refuted", "unknown", "unsupported")
_OUTLINES = {  # in a box of 16 by 16: the filled shape, and the sign that is drawn on it
    "proved": ("M8 1a7 7 0 1 0 0 14a7 7 0 1 0 0-14z", "M4.6 8.4l2.4 2.5l4.4-5.2"),
    "refuted": ("M5 1h6l4 4v6l-4 4h-6l-4-4v-6z", "M5.4 5.4l5.2 5.2M10.6 5.4l-5.2 5.2"),
    "unknown": ("M8 .5l7.8 14.7h-15.6z", "M8 5.6v4.6M8 11.9v1.4"),
    "unsupported": ("M1.5 1.5h13v13h-13z", "M4.5 8h7"),
}


def symbols() -> Markup:
    """The shapes, once a page."""
    made = (
        element(
            "symbol",
            element("path", d=outline, class_="shape"),
            element("path", d=sign, class_="sign"),
            id=f"v-{verdict}",
            viewBox="0 0 16 16",
        )
        for verdict, (outline, sign) in _OUTLINES.items()
    )
    return joined(made)


def _shape(verdict: str) -> Markup:
    return element("svg", element("use", href=f"#v-{verdict}"), class_="v", aria_hidden="true")


def badge(verdict: str, *, text: str = "") -> Markup:
    """Shape and word; `text` in the word's place."""
    return element("span", _shape(verdict), text or verdict, class_=f"b {verdict}")


def tally(counts: Mapping[str, int]) -> Markup:
    """Numbers by verdict, those that are 0 left out; the script counts them anew under a filter."""
    made = (
        element(
            "span",
            _shape(verdict),
            element("b", str(counts[verdict])),
            element("span", f" {verdict}", class_="w"),
            class_=f"b {verdict}",
            data_v=verdict,
        )
        for verdict in VERDICTS
        if counts.get(verdict)
    )
    return joined(made)
