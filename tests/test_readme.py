"""The README's verdict table is what the checker says, kernel by kernel and ABI by ABI."""

from pathlib import Path

from model.kernel.abi import ABIS
from model.kernel.data import available, load_release
from proofs.check_matrix import check, groups
from proofs.report.matrix import counts
from proofs.solver import Solver

README = Path(__file__).resolve().parent.parent / "README.md"


def test_verdict_table() -> None:
    text = README.read_text(encoding="utf-8")
    written = text.split("<!-- verdicts -->")[1].split("<!-- /verdicts -->")[0].strip()
    releases, solver = [load_release(name) for name in available()], Solver()
    squares = check("dispatch", releases, list(ABIS.values()), solver)
    cells = {(square.release.name, square.abi.name): counts(square) for square in squares}
    rows = ["| kernel | " + " | ".join(ABIS) + " |", "|---" + "|---:" * len(ABIS) + "|"]
    rows += [f"| {name} | " + " | ".join(cells[name, abi] for abi in ABIS) + " |" for name in available()]
    found = "\n".join(rows)
    assert written == found, f"the table should be\n{found}"
    told = text.split("<!-- causes -->")[1].split("<!-- /causes -->")[0]
    causes = {group.cause.name: len(group.findings) for group in groups(squares, solver, releases)}
    assert [f"| {name} | {count} |" for name, count in causes.items() if f"| {name} | {count} |" not in told] == []
    assert told.count("\n| ") == 1 + len(causes)
