"""What goes over the wire, as literals; what comes back, whole, cut, and with a kernel's messages in it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.loaders.vm import wire
from model.loaders.vm.wire import Answer, Buffer, answer


def test_requests() -> None:
    assert wire.call(7, 5, b"\x01\x00\xff") == b"7 b 5 0100ff\n"
    buffers = [Buffer(0, 8, 16, b"\xab\x00\x01\x00\x00"), Buffer(1, 32, 4, bytes(4))]
    assert wire.call(12, 15, bytes(2), buffers) == b"12 b 15 0000 0 8 16 ab0001 1 32 4 -\n"
    assert wire.shut(3, 11) == b"3 c 11\n"
    assert wire.store(4, "/p", b"1\n") == b"4 w 2f70 310a\n"
    assert wire.store(4, "/p", b"") == b"4 w 2f70 -\n"
    assert wire.look(5, "/p", ["a b", "c"]) == b"5 g 2f70 612062 63\n"
    assert wire.look(5, "/p") == b"5 g 2f70\n"
    assert wire.end(6) == b"6 q\n"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b"=0 0", wire.HELLO),
        (b"=12 -22", Answer(12, -22)),
        (b"=1 3 00ff - 01\r", Answer(1, 3, (b"\x00\xff", b"", b"\x01"))),
        (b"[    1.5] random: x = y\x1b[0m=4 0 07", Answer(4, 0, (b"\x07",))),
    ],
)
def test_answers(line: bytes, expected: Answer) -> None:
    assert answer(line) == expected


@pytest.mark.parametrize(
    "line",
    [b"", b"=", b"=1", b"=1 ", b"=1 0 0", b"=1 0 0g", b"=1 0  00", b"=1 0 00 ", b"=1 0 AB", b"1 0", b"=-1 0", b"=1 0=",
     b"=1 0 00[ 3.1] oops", b"=1 0x0", b"=1 99999999999", b"=1000000000 0", b"\xff\xfe\x00", b"= 1 0"],
)  # fmt: skip
def test_no_answer(line: bytes) -> None:
    assert answer(line) is None


@given(st.integers(0, 999_999_999), st.integers(-(10**9), 10**9), st.lists(st.binary(max_size=40)), st.data())
def test_whole_or_nothing(number: int, result: int, blocks: list[bytes], data: st.DataObject) -> None:
    """What is told comes back; a cut answer is none, or has fewer or shorter parts, never other ones."""
    line = f"={number} {result}".encode() + b"".join(b" " + (block.hex().encode() or b"-") for block in blocks)
    assert answer(line) == Answer(number, result, tuple(blocks))
    cut = answer(line[: data.draw(st.integers(0, len(line) - 1))])
    if cut is not None and cut.data:
        assert cut.data[:-1] == tuple(blocks[: len(cut.data) - 1])
        assert blocks[len(cut.data) - 1].startswith(cut.data[-1])


@given(st.binary(max_size=200))
def test_junk_is_no_fault(line: bytes) -> None:
    found = answer(line)
    assert found is None or found.number >= 0
