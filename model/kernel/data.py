"""Releases as JSON files: what lies under `releases/`, and what a user may hand over instead of it.

The format has a schema number, one row a line, and C types by their text; a table beside the rows tells
what each text means in bits, so that a diff between two releases shows `int` against `long` where it matters.
"""

import json
import re
from collections.abc import Mapping
from importlib import resources
from pathlib import Path

from model.errors import InputError
from model.kernel.data_encode import encode_release
from model.kernel.data_rows import read_fields
from model.kernel.release import Release

LIMIT = 16 << 20  # bytes; the largest release known takes 200 kB
WIDTH = 140  # columns that a value may take to stand on one line


def available() -> tuple[str, ...]:
    """Names of the releases that come with the model, oldest first."""
    names = [entry.name.removesuffix(".json") for entry in _room().iterdir() if entry.name.endswith(".json")]
    return tuple(sorted(names, key=_version_key))


def load_release(name: str) -> Release:
    """The release `name` ("6.1"), or the newest one ("newest"). InputError names those that are there."""
    names = available()
    if name == "newest" and names:
        name = names[-1]
    if name not in names:
        raise InputError("--kernel", name[:80], f"expected a release: {', '.join(names) or 'none is there'}, or newest")
    return read_release((_room() / f"{name}.json").read_text(encoding="utf-8"), f"{name}.json")


def load_release_file(path: Path) -> Release:
    """A release from a JSON file of the user's. InputError where it cannot be read or is no release."""
    return read_release(read_text(path), str(path))


def read_text(path: Path) -> str:
    """A file of the user's, at most `LIMIT` bytes of UTF-8. InputError otherwise."""
    try:
        with path.open("rb") as stream:
            raw = stream.read(LIMIT + 1)
    except OSError as error:
        raise InputError(str(path), "", f"cannot be read: {error.strerror}") from None
    if len(raw) > LIMIT:
        raise InputError(str(path), f"byte {LIMIT}", "expected a file of at most 16 MiB")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(str(path), f"byte {error.start}", "expected UTF-8") from None


def read_release(text: str, file: str) -> Release:
    """The release that `text` holds; InputError with a JSON path (`$.ops.htab_map_ops.line`) otherwise."""
    if len(text) > LIMIT:
        raise InputError(file, "", "expected a release file of at most 16 MiB")
    return read_fields(read_json(text, file), file)


def read_json(text: str, file: str) -> object:
    """The JSON value in `text`; InputError where there is none, or an object has a member twice."""
    try:
        tree: object = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise InputError(file, f"line {error.lineno} column {error.colno}", f"expected JSON: {error.msg}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(file, "", f"expected JSON: {str(error)[:120]}") from None
    return tree


def dump_release(release: Release) -> str:
    """The file's text: same release, same bytes. ValueError where one C type text has two meanings.

    What is not printable (C sources hold any byte) is escaped, as RFC 8259 section 7 has it.
    """
    text = _layout(encode_release(release), 0)
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text) + "\n"


def _room() -> "resources.abc.Traversable":
    return resources.files("model.kernel") / "releases"


def _version_key(name: str) -> tuple[tuple[int, ...], str]:
    return tuple(int(part) for part in re.findall(r"\d+", name)), name


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    table = dict(pairs)
    if len(table) != len(pairs):
        names = [key for key, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"member {twice[:60]!r} is there twice in one object")
    return table


def _no_constant(word: str) -> object:
    raise ValueError(f"{word} is no JSON number")


def _layout(value: object, depth: int) -> str:
    flat = json.dumps(value, ensure_ascii=False)
    if (depth >= 2 and len(flat) + depth <= WIDTH) or not isinstance(value, Mapping | list) or not value:
        return flat
    pad = " " * (depth + 1)
    if isinstance(value, Mapping):
        rows = [
            f"{pad}{json.dumps(key, ensure_ascii=False)}: {_layout(item, depth + 1)}" for key, item in value.items()
        ]
        return "{\n" + ",\n".join(rows) + "\n" + " " * depth + "}"
    return "[\n" + ",\n".join(pad + _layout(item, depth + 1) for item in value) + "\n" + " " * depth + "]"
