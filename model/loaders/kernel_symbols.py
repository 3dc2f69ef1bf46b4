"""A kernel's symbols: /proc/kallsyms, a System.map (one "address type name" a line, modules in brackets), or pairs."""

import re
from bisect import bisect_right
from collections.abc import Iterable
from pathlib import Path

from model.errors import InputError

LIMIT = 256 << 20  # bytes; a kernel with all symbols has about 10 MB
MOST = 4_000_000  # symbols
_LINE = re.compile(r"([0-9a-fA-F]{1,16})\s+(\S)\s+([^\s\[\]]{1,512})(?:\s+\[[^\]]*\])?\s*\Z")
_MARKS = ("__pfx_", "__cfi_")  # padding in front of a function, which has a name of its own


class Symbols:
    """Names by address and addresses by name. A name may stand at several addresses (static functions)."""

    __slots__ = ("_code", "_names", "_places", "_sizes")

    def __init__(self, pairs: Iterable[tuple[int, str]], sizes: dict[int, int] | None = None) -> None:
        """`sizes` has the sizes in bytes that are known, by address."""
        self._names: dict[int, list[str]] = {}
        self._places: dict[str, list[int]] = {}
        for address, name in pairs:
            names = self._names.setdefault(address, [])
            if name not in names:
                names.append(name)
                self._places.setdefault(name, []).append(address)
        self._code = sorted(self._names)
        self._sizes = sizes or {}

    def __len__(self) -> int:
        return len(self._names)

    def names(self, address: int) -> tuple[str, ...]:
        """All names at exactly `address`."""
        return tuple(self._names.get(address, ()))

    def places(self, name: str) -> tuple[int, ...]:
        return tuple(self._places.get(name, ()))

    def end(self, address: int, limit: int) -> int:
        """Where what begins at `address` ends: by its size, else at the next symbol, after `limit` bytes at most."""
        size = self._sizes.get(address, 0)
        if not size:
            index = bisect_right(self._code, address)
            size = self._code[index] - address if index < len(self._code) else limit
        return address + min(size, limit)

    def around(self, address: int) -> tuple[int, str] | None:
        """The last symbol that begins at or before `address`."""
        index = bisect_right(self._code, address) - 1
        return (self._code[index], self._names[self._code[index]][0]) if index >= 0 else None


def read_symbols(path: Path) -> Symbols:
    """InputError where the file cannot be read or has other lines, or where the kernel hides its addresses."""
    try:
        with path.open("rb") as stream:
            raw = stream.read(LIMIT + 1)
    except OSError as error:
        raise InputError(str(path), "", f"cannot be read: {error.strerror}") from None
    if len(raw) > LIMIT:
        raise InputError(str(path), f"byte {LIMIT}", f"expected at most {LIMIT >> 20} MiB of symbols")
    return parse_symbols(raw.decode("utf-8", "replace"), str(path))


def parse_symbols(text: str, file: str) -> Symbols:
    pairs = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        fit = _LINE.match(line)
        if fit is None or number > MOST:
            raise InputError(file, f"line {number}", "expected 'address type name', as in System.map or /proc/kallsyms")
        if fit[2] not in "aAU" and not fit[3].startswith(_MARKS):
            pairs.append((int(fit[1], 16), fit[3]))
    if not any(address for address, _ in pairs):
        wish = "expected symbols with addresses (all are 0: kernel.kptr_restrict, or no permission)"
        raise InputError(file, "", wish if pairs else "expected symbols, found none")
    return Symbols(pairs)
