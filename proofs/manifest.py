"""`manifest.json` of a directory of proof artefacts: what each file is, what it should say, and what stays trusted."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath

from model.errors import InputError
from model.kernel.data_rows import Node

FORMAT = "bpf-devirt proof artefacts"
VERSION = 1
NAME = "manifest.json"
MOST_BYTES = 256 << 20
VERDICTS = ("proved", "refuted", "unknown", "unsupported")
EXPECTED = ("sat", "unsat", "unknown", "")


@dataclass(frozen=True, slots=True)
class Entry:
    """An obligation. `file` is "" where no formula was asked, `proof` where there is none: `reason` says why.

    Paths are relative to the directory; hashes are SHA-256 of a file's bytes. `over` is what the formula is about:
    "words", "products" (the same with products as an unknown function), "integers".
    """

    name: str
    verdict: str
    expected: str
    statement: str
    origin: str
    reason: str = ""
    over: str = ""
    logic: str = ""
    file: str = ""
    sha256: str = ""
    proof: str = ""
    proof_sha256: str = ""


@dataclass(frozen=True, slots=True)
class Manifest:
    """`tools` has versions by name; `releases` what the claims are about, with where each row of it comes from."""

    tools: Mapping[str, str]
    releases: tuple[Mapping[str, object], ...]
    abis: tuple[str, ...]
    trusted: tuple[str, ...]
    entries: tuple[Entry, ...]


def text_of(manifest: Manifest) -> str:
    tree = {
        "format": FORMAT,
        "version": VERSION,
        "tools": dict(manifest.tools),
        "releases": list(manifest.releases),
        "abis": list(manifest.abis),
        "trusted": list(manifest.trusted),
        "obligations": [asdict(entry) for entry in manifest.entries],
    }
    return json.dumps(tree, indent=1, ensure_ascii=False) + "\n"


def read(directory: Path) -> Manifest:
    """Raises `InputError` for what is no manifest."""
    path = directory / NAME
    data = bytes_of(path, MOST_BYTES)
    try:
        tree = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise InputError(str(path), "", f"expected JSON: {error}"[:200]) from None
    root = Node(tree, str(path))
    members = root.members()
    if members.get("format", root).value != FORMAT:
        raise InputError(str(path), "$.format", f"expected {FORMAT!r}")
    if members.get("version", root).value != VERSION:
        raise InputError(str(path), "$.version", f"expected {VERSION}")
    fields = root.record("format", "version", "tools", "releases", "abis", "trusted", "obligations")
    entries = tuple(_entry(node) for node in fields["obligations"].items())
    _unique(entries, fields["obligations"])
    return Manifest(
        {name: node.text() for name, node in fields["tools"].members().items()},
        tuple({key: value.value for key, value in node.members().items()} for node in fields["releases"].items()),
        tuple(node.word() for node in fields["abis"].items()),
        tuple(node.text() for node in fields["trusted"].items()),
        entries,
    )


def _entry(node: Node) -> Entry:
    names = tuple(Entry.__dataclass_fields__)
    entry = Entry(**{name: one.text() for name, one in node.record(*names).items()})
    for value, wanted, what in ((entry.verdict, VERDICTS, "verdict"), (entry.expected, EXPECTED, "expected")):
        if value not in wanted:
            raise InputError(node.file, f"{node.path}.{what}", f"expected one of {', '.join(filter(None, wanted))}")
    if bool(entry.file) != bool(entry.expected) or (entry.proof and entry.expected != "unsat"):
        raise InputError(node.file, node.path, "expected an answer with a file alone, and a proof with unsat alone")
    if not entry.name.strip():
        raise InputError(node.file, f"{node.path}.name", "expected a name")
    return entry


def _unique(entries: Iterable[Entry], node: Node) -> None:
    seen: set[str] = set()
    for entry in entries:
        for key in (f"obligation {entry.name}", entry.file):
            if key and key in seen:
                raise InputError(node.file, node.path, f"expected {key[:120]} once")
            seen.add(key)


def inside(directory: Path, relative: str) -> Path:
    """A listed file's path. Raises `InputError` where it leads out of the directory."""
    pure = PurePosixPath(relative)
    path = directory / pure
    if pure.is_absolute() or ".." in pure.parts or "\0" in relative or not relative.isprintable():
        raise InputError(str(directory / NAME), relative[:120], "expected a path in the directory")
    if not path.resolve().is_relative_to(directory.resolve()):
        raise InputError(str(path), "", "expected a file in the directory, not a link out of it")
    return path


def bytes_of(path: Path, most: int) -> bytes:
    try:
        if path.exists() and not path.is_file():
            raise InputError(str(path), "", "expected a file")
        with path.open("rb") as stream:
            data = stream.read(most + 1)
    except OSError as error:
        raise InputError(str(path), "", f"cannot be read: {error.strerror}") from None
    if len(data) > most:
        raise InputError(str(path), "", f"expected at most {most >> 20} MiB")
    return data


def hash_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
