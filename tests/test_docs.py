"""docs/: the claims' pages are what docstrings and runs say; the glossary has the words that reports use."""

import re
from pathlib import Path

import pytest
from claim_pages import PAGES, ROWS, Page, text

from model.rewrite.direct_call import Kind
from proofs.explain import MODULES
from proofs.reachability import Reach
from proofs.site import Residual

DOCS = Path(__file__).resolve().parent.parent / "docs"
VALUES = re.compile(r"0x[0-9a-f]+ \(-?[0-9]+\)")
"""A solver is free in its choice of a counterexample's values."""
WORDS = ("dispatch", "poisoned", "template", "residual", "obligation", "vacuous", "refuted", "proved", "unsupported")


@pytest.mark.parametrize("page", ROWS, ids=lambda page: page.name)
def test_a_claims_page_is_fresh(page: Page) -> None:
    """When it is not: `python tests/support/claim_pages.py`, and read what it wrote."""
    written = (PAGES / f"{page.name}.md").read_text(encoding="utf-8")
    assert VALUES.sub("…", written) == VALUES.sub("…", text(page))
    assert re.search("refuted|killed", written)


def test_every_claim_has_its_page() -> None:
    assert sorted(path.stem for path in PAGES.glob("*.md")) == sorted({*MODULES, "facts"})
    assert [page.name for page in ROWS if not Path(DOCS.parent, page.module).exists()] == []


def test_the_glossary_has_the_words() -> None:
    terms = re.findall(r"^\*\*(.+?)\*\*", (DOCS / "glossary.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert terms == sorted(set(terms), key=str.casefold)
    named = {part.strip().casefold() for term in terms for part in term.split(",")}
    wanted = {*WORDS, *MODULES, "facts", *(one.value for kind in (Kind, Residual, Reach) for one in kind)}
    assert wanted - named == set()
