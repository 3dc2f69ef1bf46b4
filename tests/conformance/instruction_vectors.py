"""The rows of tests/vectors/*.toml as values."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from model.isa.codec import form_of
from model.isa.insn import Insn
from model.isa.parse import parse_insn

ROOT = Path(__file__).resolve().parent.parent / "vectors"


@dataclass(frozen=True)
class Vector:
    """`registers`, `changed`: number -> value; `pointers`: number -> K of "mem+K"; `goes`: slots, None for exit."""

    name: str
    insns: tuple[Insn, ...]
    registers: dict[int, int]
    pointers: dict[int, int]
    memory: bytes
    changed: dict[int, int]
    memory_after: bytes
    goes: int | None

    @property
    def form(self) -> str:
        high = self.insns[1].imm if len(self.insns) > 1 else None
        form = form_of(self.insns[0], loaded=False, high=high)
        assert form is not None
        return form.name


def _assemble(text: str) -> tuple[Insn, ...]:
    parsed = parse_insn(text)
    if parsed.high is None:
        return (parsed.insn,)
    return (parsed.insn, Insn(0, imm=parsed.high))


def _vector(name: str, text: str, before: str, after: str) -> Vector:
    registers: dict[int, int] = {}
    pointers: dict[int, int] = {}
    changed: dict[int, int] = {}
    memory = b""
    insns = _assemble(text)
    goes: int | None = len(insns) - 1
    for word in before.split():
        key, _, value = word.partition("=")
        if key == "mem":
            memory = bytes.fromhex(value)
        elif value.startswith("mem"):
            pointers[int(key[1:])] = int(value[3:] or "0")
        else:
            registers[int(key[1:])] = int(value, 16)
    memory_after = memory
    for word in after.split():
        key, _, value = word.partition("=")
        match key:
            case "mem":
                memory_after = bytes.fromhex(value)
            case "pc":
                goes = int(value)
            case "exit":
                goes = None
            case _:
                changed[int(key[1:])] = int(value, 16)
    assert len(memory_after) == len(memory)
    return Vector(name, insns, registers, pointers, memory, changed, memory_after, goes)


def load(file: str) -> dict[str, Any]:
    return tomllib.loads((ROOT / file).read_text(encoding="utf-8"))


def vectors(file: str) -> list[Vector]:
    found: list[Vector] = []
    for section, table in load(file).items():
        for text, before, after in table["rows"]:
            found.append(_vector(f"{section}: {text}; {before}", text, before, after))
    return found
