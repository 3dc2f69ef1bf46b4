"""Damaged dumps end in a program or an `InputError`, nothing else; and cost stays in proportion to size."""

import json
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from model.errors import InputError
from model.loaders import map_show, xlated
from model.program import Object

DUMPS = Path(__file__).parents[2] / "data" / "dumps"
TEXTS = [(DUMPS / name).read_text() for name in ("walk.opcodes.txt", "jump.linum.txt", "both.txt", "hidden.txt")]
JSONS = [(DUMPS / name).read_text() for name in ("walk.opcodes.json", "jump.json", "both.json")]
MAPS = (DUMPS / "maps.json").read_text()

JUNK = st.text(alphabet='0123456789abcdefx():;+-#[]{},"rw =pcgotoall\n\t\r\x1b\x00\ufeff\u2028', max_size=12)


@st.composite
def damaged_lines(draw: st.DrawFn, texts: list[str]) -> str:
    lines = draw(st.sampled_from(texts)).splitlines(keepends=True)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(lines) - 1))
        match draw(st.sampled_from(["drop", "twice", "swap", "cut"])):
            case "drop":
                del lines[at]
            case "twice":
                lines.insert(at, lines[at])
            case "swap":
                other = draw(st.integers(0, len(lines) - 1))
                lines[at], lines[other] = lines[other], lines[at]
            case _:
                lines = lines[: at + 1]
        if not lines:
            return ""
    return "".join(lines)


@st.composite
def damaged_characters(draw: st.DrawFn, texts: list[str]) -> str:
    text = draw(st.sampled_from(texts))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(text)))
        text = text[:at] + draw(JUNK) + text[at + draw(st.integers(0, 12)) :]
    return text


def settle(load: Any, text: str) -> None:
    try:
        loaded = load(text, "dump")
    except InputError as error:
        loaded = str(error)
    if isinstance(loaded, str):
        assert loaded.startswith("dump: ")
        assert "\n" not in loaded
    elif isinstance(loaded, Object):
        check(loaded)


def check(loaded: Object) -> None:
    """What `model.program` promises of a program."""
    assert loaded.programs
    for program in loaded.programs:
        size = len(program.insns)
        assert size
        assert all(0 <= slot < size for slot in (*program.refs, *program.lines))
        ends = [sub.end for sub in program.subprograms]
        assert [sub.start for sub in program.subprograms] == [0, *ends][: len(ends)]
        assert ends[-1:] == [size] * bool(ends)
        assert ends or program.fragment
        for slot, insn in enumerate(program.insns):
            if insn.opcode == 0x85 and insn.src == 1:
                assert insn.off == 0
                assert program.fragment or any(sub.start == slot + 1 + insn.imm for sub in program.subprograms)


@given(damaged_lines(TEXTS) | damaged_characters(TEXTS))
@settings(deadline=None, max_examples=150)
def test_text(text: str) -> None:
    settle(xlated.load_text, text)


@given(damaged_lines(JSONS) | damaged_characters(JSONS))
@settings(deadline=None, max_examples=150)
def test_json(text: str) -> None:
    settle(xlated.load_json, text)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.just("(95) exit"),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["insns", "disasm", "opcodes", "code", "off", "imm", "id", "type", "name", "src", "proto"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(VALUES)
@settings(deadline=None, max_examples=150)
def test_any_json(value: Any) -> None:
    text = json.dumps(value)
    settle(xlated.load_json, text)
    settle(map_show.load, text)


@given(damaged_characters([MAPS]))
@settings(deadline=None, max_examples=60)
def test_maps(text: str) -> None:
    settle(map_show.load, text)


@given(st.text(max_size=200))
@settings(deadline=None, max_examples=60)
def test_any_text(text: str) -> None:
    settle(xlated.load_text, text)
    settle(xlated.load_json, text)


def test_hostile_shapes() -> None:
    """Each would take minutes or gigabytes if any step were quadratic, recursive or held the whole."""
    size = 200_000
    for text in ("[" * size, "[{" * size, '[{"insns":' * size, '{"a":' * size, "[" + "[]," * size, '["' + "\\" * size):
        settle(xlated.load_json, text)
        settle(map_show.load, text)
    for text in (
        " " * size,
        ";" * size,
        ":\n" * size,
        "(" * 60000 + ":",
        "a " * 30000,
        "; [file:" * 8000,
        "ab " * 20000,
    ):
        settle(xlated.load_text, text)
        settle(xlated.load_text, "0: (95) exit\n" + text)


def test_programs_of_a_file_are_bounded() -> None:
    with pytest.raises(InputError, match="dump: line 16385: expected at most 16384 programs in a file"):
        xlated.load_text("0: (95) exit\n" * 50_000, "dump")


def test_bytes_of_a_wide_load_with_a_wrong_second_half_name_the_file() -> None:
    """Text of kind 0 (a plain 64-bit constant) beside bytes of kind 4 (a callback address) with a high half."""
    text = "   0: (18) r1 = 0x10\n       18 41 00 00 10 00 00 00 01 00 00 00 00 00 00 00\n   2: (95) exit\n"
    with pytest.raises(InputError, match=r"^dump: ") as caught:
        xlated.load_text(text, "dump")
    assert "\n" not in str(caught.value)
