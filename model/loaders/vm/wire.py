"""What is said to the program in a guest, and what it answers: a line each, in ASCII.

    NUMBER b COMMAND ATTRIBUTES (HOLDER PLACE SIZE DATA)*   bpf(2), with the addresses of buffers put in
    NUMBER c DESCRIPTOR                                     close
    NUMBER w PATH DATA                                      write a file
    NUMBER g PATH TEXT*                                     the lines of a file in which one of the texts stands
    NUMBER q                                                end
    =NUMBER RESULT (DATA)*                                  -errno if negative; =0 0 says that the guest is there

A buffer's address goes to a place in the attributes (holder 0) or in an earlier buffer (holder 1 and up). Bytes are
in hex, `-` where there are none, all else is decimal; zeros at a buffer's end are not sent.
What stands on other lines, or in front of `=` on a line, is not the guest's program.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

LONGEST = 40 << 20
"""Bytes of an answer: twice the guest's room for buffers, and some more."""
_ANSWER = re.compile(rb"=([0-9]{1,9}) (-?[0-9]{1,10})((?: (?:-|(?:[0-9a-f]{2})+))*)")


@dataclass(frozen=True, slots=True)
class Buffer:
    """`data` with zeros to `size` bytes; its address is to stand `place` bytes into the holder."""

    holder: int
    place: int
    size: int
    data: bytes = b""


@dataclass(frozen=True, slots=True)
class Answer:
    number: int
    result: int
    data: tuple[bytes, ...] = ()


HELLO = Answer(0, 0)


def call(number: int, command: int, attributes: bytes, buffers: Iterable[Buffer] = ()) -> bytes:
    words = ["b", str(command), _hex(attributes)]
    for buffer in buffers:
        words += [str(buffer.holder), str(buffer.place), str(buffer.size), _hex(buffer.data.rstrip(b"\0"))]
    return _line(number, words)


def shut(number: int, descriptor: int) -> bytes:
    return _line(number, ["c", str(descriptor)])


def store(number: int, path: str, data: bytes) -> bytes:
    return _line(number, ["w", _hex(path.encode()), _hex(data)])


def look(number: int, path: str, texts: Iterable[str] = ()) -> bytes:
    return _line(number, ["g", _hex(path.encode()), *(_hex(text.encode()) for text in texts)])


def end(number: int) -> bytes:
    return _line(number, ["q"])


def _line(number: int, words: list[str]) -> bytes:
    return " ".join([str(number), *words]).encode() + b"\n"


def _hex(data: bytes) -> str:
    return data.hex() or "-"


def answer(line: bytes) -> Answer | None:
    """The answer on a whole line, without its end; None where there is none, or one that is cut or damaged."""
    start = line.rfind(b"=")
    found = _ANSWER.fullmatch(line[start:].rstrip(b"\r")) if start >= 0 else None
    if found is None:
        return None
    data = tuple(b"" if word == b"-" else bytes.fromhex(word.decode()) for word in found[3].split())
    return Answer(int(found[1]), int(found[2]), data)
