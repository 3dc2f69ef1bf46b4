"""NUL-terminated strings in a table: ELF's string sections and BTF's."""

from model.errors import InputError

NAME_LIMIT = 4096
"""Longest name in bytes that is read; the kernel's own limit is KSYM_NAME_LEN, 512 (include/linux/kallsyms.h)."""


def _printable(char: str) -> str:
    """Names and source lines go to terminals and into messages of one line: no control characters."""
    if char == "\t":
        return " "
    return char if char.isprintable() else char.encode("unicode_escape").decode("ascii")


class StringTable:
    """Names by byte offset, decoded on demand and kept.

    Offsets may point into the middle of a string (linkers merge tails), so the names of a small hostile
    table can add up to far more than the table: their sum is bounded by a multiple of the table's size.
    """

    __slots__ = ("_budget", "_data", "_file", "_names", "_place")

    def __init__(self, data: bytes, file: str, place: str) -> None:
        self._data = data
        self._file = file
        self._place = place
        self._names: dict[int, str] = {}
        self._budget = 16 * len(data) + 65536

    def __len__(self) -> int:
        return len(self._data)

    def name(self, offset: int) -> str:
        """The string at `offset` bytes; InputError where it lies outside, has no end or is absurdly long."""
        known = self._names.get(offset)
        if known is not None:
            return known
        if offset == 0 and not self._data:
            return ""
        if not 0 <= offset < len(self._data):
            raise self._error(f"string offset {offset:#x} outside the table of {len(self._data):#x} bytes")
        end = self._data.find(b"\0", offset, offset + NAME_LIMIT + 1)
        if end < 0:
            raise self._error(f"string at {offset:#x} has no NUL within {NAME_LIMIT} bytes")
        self._budget -= end - offset
        if self._budget < 0:
            raise self._error("strings overlap so much that their sum is over 16 times the table's size")
        name = self._data[offset:end].decode("utf-8", "backslashreplace")
        if not name.isprintable():
            name = "".join(map(_printable, name))
        self._names[offset] = name
        return name

    def _error(self, expected: str) -> InputError:
        return InputError(self._file, self._place, expected)
