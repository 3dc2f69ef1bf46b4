"""Rows of tests/vectors/isa.txt for the tests of this room."""

from dataclasses import dataclass
from pathlib import Path

VECTORS = Path(__file__).parents[2] / "vectors" / "isa.txt"


@dataclass(frozen=True, slots=True)
class Vector:
    """`data` is one or two slots, little-endian; `text` what the kernel prints for them; `name` what it is told."""

    data: bytes
    text: str
    name: str | None


def vectors() -> list[Vector]:
    rows = []
    for line in VECTORS.read_text().splitlines():
        if line and not line.startswith("#"):
            # texts of or-instructions hold a bar, too, but never one between spaces
            data, text, *name = line.split(" | ")
            rows.append(Vector(bytes.fromhex(data), text, name[0].removeprefix("name=") if name else None))
    return rows
