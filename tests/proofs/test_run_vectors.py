"""`run` on many small programs in every syntax: results from tests/vectors/run.toml, worked out by hand."""

import tomllib
from pathlib import Path

import pytest

from proofs.cli import main

TABLES = tomllib.loads((Path(__file__).resolve().parent.parent / "vectors" / "run.toml").read_text(encoding="utf-8"))
ROWS = [(f"{name} {i}", *row) for name, table in TABLES.items() for i, row in enumerate(table["rows"])]


@pytest.mark.parametrize(("name", "text", "memory", "result"), ROWS, ids=[row[0] for row in ROWS])
def test_result(
    name: str, text: str, memory: str, result: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "program"
    path.write_text(text.replace("; ", "\n") + "\n", encoding="utf-8")
    status = main(["run", str(path), "--mem", memory] if memory else ["run", str(path)])
    out, err = capsys.readouterr()
    assert (status, out) == (0, f"{result}\n"), err
