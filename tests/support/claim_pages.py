"""docs/claims, from docstrings, `explain` and real runs. `python tests/support/claim_pages.py` writes the pages anew.

What a run prints is taken as it is, but for times.
"""

import io
import os
import re
import shlex
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))

from model import facts  # noqa: E402
from proofs.cli import main  # noqa: E402
from proofs.explain import HOW, PARTS, explained, statement  # noqa: E402

PAGES = ROOT / "docs" / "claims"
TIMES = re.compile(r",? ?\(?\b[0-9.]+ s( in the solver)?\)?(?=$|,)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Page:
    """A row of docs/claims/pages.toml, which tells its fields; without a `pattern` the claim is on a program."""

    name: str
    module: str
    tells: str
    command: str
    learned: str
    pattern: str = ""
    start: str = ""
    assumes: tuple[str, ...] = ()


ROWS = tuple(Page(**row) for row in tomllib.loads((PAGES / "pages.toml").read_text(encoding="utf-8"))["page"])


def text(page: Page) -> str:
    stated = (facts.__doc__ or "").strip() if page.name == "facts" else statement(page.name)
    head, _, rest = stated.partition("\n\n")
    lines = [f"# {page.name.capitalize()}", "", _joined(head), "", f"Made from `{page.module}` and from real runs."]
    if rest:
        lines += ["", "## How", "", rest]
    lines += _parts(page) if page.pattern else []
    lines += ["", "## Assumptions", "", *(f"* {one}" for one in page.assumes), *_assumed(page)]
    lines += ["", "## A counterexample", "", page.tells, "", f"    python -m proofs {page.command}", ""]
    lines += [f"    {line}".rstrip() for line in shown(page)]
    return "\n".join([*lines, "", page.learned]) + "\n"


def _joined(some: str) -> str:
    return " ".join(some.split())


def _parts(page: Page) -> Iterator[str]:
    """The sentences on parts of the claim, with a name of one, and how it is decided."""
    yield from ("", "## Obligations", "")
    seen: dict[str, str] = {}
    ways: set[str] = set()
    for one in explained(page.pattern):
        seen.setdefault(one.says, one.obligation.name)
        ways.add(one.obligation.over)
    yield from (f"* {sentence}: `{seen[sentence]}`" for _, sentence in PARTS if sentence in seen)
    yield from ("", "Decided over:", "", *(f"* {how}" for way, how in HOW.items() if way in ways))


def _assumed(page: Page) -> list[str]:
    if not page.pattern:
        return []
    heard = dict.fromkeys(why for one in explained(page.pattern) for why in one.assumptions)
    told = f"`explain '{page.pattern}'` tells which obligation assumes what:" if heard else "Of states: none."
    return ["", told, "", *(f"* {why}" for why in heard)] if heard else ["", told]


def shown(page: Page) -> list[str]:
    """The part of the command's output that the page shows."""
    out = io.StringIO()
    with _inside(PAGES), redirect_stdout(out):
        main(shlex.split(page.command))
    lines = [TIMES.sub("", line).rstrip() for line in out.getvalue().splitlines()]
    if not page.start:
        return lines
    first = next(number for number, line in enumerate(lines) if line.startswith(page.start))
    last = next((number for number in range(first, len(lines)) if not lines[number]), len(lines))
    return lines[first:last]


@contextmanager
def _inside(place: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(place)
    try:
        yield
    finally:
        os.chdir(before)


if __name__ == "__main__":
    for one in ROWS:
        (PAGES / f"{one.name}.md").write_text(text(one), encoding="utf-8")
