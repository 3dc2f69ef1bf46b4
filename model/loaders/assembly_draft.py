"""Instructions and labels while a text is read; labels become distances at the end."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from model.errors import InputError
from model.isa.codec import why_invalid
from model.isa.insn import Insn
from model.isa.opcodes import CALL, WIDE, Call
from model.loaders.assembly_layout import Wrong, check_targets, subprograms
from model.program import Line, Program, Subprogram

MOST_CHARACTERS = 64 << 20
MOST_INSTRUCTIONS = 1_000_000
MOST_IN_LINE = 4096
Place = Literal["off", "imm", "call"]
"""Where a label's distance goes: a jump's offset, a 32-bit immediate, a call (of a label, else of a helper)."""

LABEL = re.compile(r"\s*([A-Za-z_.$][\w.$]*):(?!\S)\s*", re.ASCII)
_S16, _S32 = range(-(1 << 15), 1 << 15), range(-(1 << 31), 1 << 31)


@dataclass(slots=True)
class Draft:
    """`file` is the name for messages; `helper_ids` maps helper names without `bpf_` to their ids."""

    file: str
    helper_ids: Mapping[str, int]
    insns: list[Insn] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    lines: dict[int, Line] = field(default_factory=dict)
    _pending: list[tuple[int, Place, str]] = field(default_factory=list)

    def wrong(self, line: int, expected: str) -> InputError:
        return InputError(self.file, f"line {line}", expected)

    def label(self, line: int, name: str) -> None:
        if name in self.labels:
            raise self.wrong(line, f"a label of its own, found {name[:40]!r} again")
        self.labels[name] = len(self.insns)

    def take_labels(self, line: int, text: str) -> str:
        """`text` without the labels in front of it, which name the next instruction."""
        while match := LABEL.match(text):
            self.label(line, match[1])
            text = text[match.end() :]
        return text

    def put(
        self, line: int, text: str, insn: Insn, *, high: int | None = None, label: tuple[Place, str] | None = None
    ) -> None:
        """The next instruction; `high` is the second slot's immediate; `label` is resolved at the end."""
        slot = len(self.insns)
        if slot >= MOST_INSTRUCTIONS:
            raise self.wrong(line, f"at most {MOST_INSTRUCTIONS} instructions")
        if label is not None:
            self._pending.append((slot, *label))
        self.lines[slot] = Line(self.file, line, 1, text)
        self.insns.append(insn)
        if high is not None:
            self.insns.append(Insn(0, imm=high))

    def _resolve(self, slot: int, place: Place, name: str) -> Insn:
        insn, line = self.insns[slot], self.lines[slot].line
        target = self.labels.get(name)
        if target is None:
            helper = self.helper_ids.get(name.removeprefix("bpf_")) if place == "call" else None
            if helper is None:
                what = "label or helper" if place == "call" else "label"
                raise self.wrong(line, f"a {what} that there is, found {name[:40]!r}")
            return replace(insn, imm=helper)
        distance = target - slot - 1
        if place == "call":
            return Insn(CALL, 0, int(Call.SUBPROGRAM), 0, distance)
        if place == "imm":
            return replace(insn, imm=distance)
        if distance not in _S16:
            raise self.wrong(line, f"a label within 16 bits of distance, found {name[:40]!r} at {distance:+d}")
        return replace(insn, off=distance)

    def program(self) -> Program:
        """Raises `InputError` for missing labels, slots that are not valid, jumps that lead nowhere."""
        if not self.insns:
            raise InputError(self.file, "", "instructions, found none")
        for slot, place, name in self._pending:
            self.insns[slot] = self._resolve(slot, place, name)
        insns = tuple(self.insns)
        for slot, line in self.lines.items():
            why = why_invalid(insns, slot, loaded=False)
            if why is not None:
                raise self.wrong(line.line, f"a valid instruction, found {line.text[:80]!r}: {why}")

        def wrong(slot: int, expected: str) -> InputError:
            return self.wrong(self.lines[slot].line, expected)

        names = {slot: name for name, slot in reversed(self.labels.items())}
        return Program("main", insns, subprograms=functions(insns, names, wrong), lines=self.lines)


def functions(insns: tuple[Insn, ...], names: Mapping[int, str], wrong: Wrong) -> tuple[Subprogram, ...]:
    """The functions of a program; none where a jump leaves its function, so that the functions lie intertwined.

    The kernel refuses such a program, the RFC does not. Raises what `wrong` makes where a jump or a call
    leads out of the program or into a 64-bit load.
    """
    check_targets(insns, (Subprogram("main", 0, len(insns)),), wrong)
    parts = subprograms(insns, {**names, 0: "main"}, frozenset(), wrong)
    try:
        check_targets(insns, parts, wrong)
    except InputError:
        return ()
    return parts


def bounded(text: str, file: str, longest: int = MOST_IN_LINE) -> list[str]:
    """The lines of `text`. Raises `InputError` beyond 64 Mi characters, and `longest` in one line."""
    if len(text) > MOST_CHARACTERS:
        raise InputError(file, "", f"at most {MOST_CHARACTERS} characters, found {len(text)}")
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        if len(line) > longest:
            raise InputError(file, f"line {number}", f"at most {longest} characters, found {len(line)}")
    return lines


def wrap32(value: int) -> int | None:
    """A number as a 32-bit immediate: signed, or its bits unsigned, or sign-extended to 64; None if it is none."""
    if value in _S32:
        return value
    if 0 <= value < 1 << 32:
        return value - (1 << 32)
    if (1 << 64) - (1 << 31) <= value < 1 << 64:
        return value - (1 << 64)
    return None


def split64(value: int) -> tuple[int, int] | None:
    """A number of 64 bits, signed or unsigned, as the two signed immediates of a wide load, low first."""
    if not -(1 << 63) <= value < 1 << 64:
        return None
    low, high = value & 0xFFFFFFFF, value >> 32 & 0xFFFFFFFF
    return low - (low >> 31 << 32), high - (high >> 31 << 32)


__all__ = ["LABEL", "WIDE", "Draft", "Place", "bounded", "split64", "wrap32"]
