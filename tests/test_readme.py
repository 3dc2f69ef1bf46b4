"""The README's verdict table is what the checker says."""

import re
from pathlib import Path

from model.kernel.abi import ABIS
from model.kernel.data import available, load_release
from proofs.check_release import check
from proofs.outcome import word
from proofs.solver import Solver

README = Path(__file__).resolve().parent.parent / "README.md"
ROW = re.compile(r"\| (\d+\.\d+) +" + r"\| +(\d+) " * 4)
COLUMNS = ("proved", "refuted", "unknown", "unsupported")


def test_verdict_table() -> None:
    text = README.read_text(encoding="utf-8")
    table = text.split("<!-- verdicts -->")[1].split("<!-- /verdicts -->")[0]
    written = {row[0]: tuple(int(n) for n in row[1:]) for row in ROW.findall(table)}
    solver = Solver()
    found = {}
    for name in available():
        verdicts = [cell.verdict for cell in check(load_release(name), ABIS["x86_64"], solver)]
        words = [word(verdict) for verdict in verdicts if verdict is not None]
        found[name] = tuple(words.count(column) for column in COLUMNS)
    assert written == found
