"""JSON read piece by piece, so that memory stays near the size of one small value, whatever the file holds.

RFC 8259. bpftool prints a program as one array of small objects, or (several programs) an array of
objects that end in such an array; neither is ever held as a whole.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, NoReturn

from model.errors import InputError

WINDOWS = (2048, 1 << 16)  # characters that one value may take; the second is tried where the first is short
_SPACE = re.compile(r"[ \t\r\n]*")


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


class JsonStream:
    """A cursor over one JSON text. Every fault is an `InputError` that names line and column from 1."""

    def __init__(self, text: str, file: str) -> None:
        self.text = text
        self.file = file
        self.at = 0

    def fail(self, expected: str, at: int | None = None) -> NoReturn:
        at = self.at if at is None else at
        line = self.text.count("\n", 0, at) + 1
        column = at - (self.text.rfind("\n", 0, at) + 1) + 1
        raise InputError(self.file, f"line {line}, column {column}", expected)

    def peek(self) -> str:
        """The next character that is no white space, "" at the end."""
        match = _SPACE.match(self.text, self.at)
        assert match is not None  # the pattern matches the empty string
        self.at = match.end()
        return self.text[self.at : self.at + 1]

    def take(self, char: str, context: str) -> None:
        if self.peek() != char:
            self.fail(f"expected {char!r} {context}")
        self.at += 1

    def small(self) -> Any:
        """The next value, which must be shorter than the larger window."""
        found, value = self.try_small()
        if not found:
            self.fail(f"expected a value of less than {WINDOWS[-1]} characters")
        return value

    def try_small(self) -> tuple[bool, Any]:
        """Whether the next value is a small one, and the value; the cursor stays where it is not."""
        self.peek()
        for window in WINDOWS:
            piece = self.text[self.at : self.at + window]
            whole = self.at + window >= len(self.text)
            try:
                value, end = _DECODER.raw_decode(piece)
            except json.JSONDecodeError as error:
                # Near the end of the window, or in a string, the window's edge may be the only fault.
                cut = error.msg.startswith("Unterminated string") or error.pos > len(piece) - 16
                if whole or not cut:
                    self.fail(f"expected JSON: {error.msg}", self.at + error.pos)
                continue
            except ValueError as error:  # a constant of JavaScript, or an integer of thousands of digits
                self.fail(f"expected JSON: {error}"[:200])
            except RecursionError:
                self.fail("expected JSON that is nested less deeply")
            if end == len(piece) and not whole:
                continue  # a number that the window may have cut
            self.at += end
            return True, value
        return False, None

    def array(self, context: str) -> Iterator[int]:
        """Goes through an array: yields each element's number with the cursor on it; the caller takes the element."""
        self.take("[", context)
        if self.peek() == "]":
            self.at += 1
            return
        number = 0
        while True:
            yield number
            number += 1
            if self.peek() == ",":
                self.at += 1
            else:
                self.take("]", f"or ',' after element {number} of the array")
                return

    def members(self, context: str) -> Iterator[str]:
        """Goes through an object: yields each key with the cursor on its value; the caller takes the value."""
        self.take("{", context)
        if self.peek() == "}":
            self.at += 1
            return
        while True:
            if self.peek() != '"':
                self.fail("expected a key in double quotes")
            key = self.small()
            self.take(":", f"after the key {key[:40]!r}")
            yield key
            if self.peek() == ",":
                self.at += 1
            else:
                self.take("}", "or ',' after a member of the object")
                return

    def end(self) -> None:
        if self.peek():
            self.fail("expected the end of the file after the JSON value")
