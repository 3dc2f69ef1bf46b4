"""A kernel source tree through tree-sitter: files, functions, statements; no preprocessor, no build.

Comments are blanked before anything is parsed (byte for byte, so that lines stay), and everything that is
read has a place. A tree may be anybody's: sizes are bounded, and what is not understood is noted, not guessed.
"""

import os
import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import tree_sitter_c
from tree_sitter import Language, Node, Parser

from model.errors import InputError

LANGUAGE = Language(tree_sitter_c.language())
FILE_LIMIT = 2 << 20  # bytes; the largest file of interest (the verifier) has 0.7 MB
FILES_LIMIT = 200_000
FOLDERS = ("kernel", "net")  # where map operations and helpers are defined
REACH = 1 << 17  # bytes between a bracket and its partner
COMMENT = re.compile(rb'/\*.*?(?:\*/|\Z)|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)
LITERAL = re.compile(rb'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'')
BRACKET = re.compile(rb'[(){}\[\]]|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'')
ANNOTATION = re.compile(rb"\b__(?:user|rcu|percpu|iomem)\b")
CONTAINERS = ("translation_unit", "preproc_ifdef", "preproc_if", "preproc_else", "preproc_elif", "ERROR")


BROKEN = "the parser found an error in here"


class Unread(Exception):
    """A construct that the extractor has no rule for: becomes a line in `Release.unread`, never a guess."""


@dataclass(slots=True)
class Notes:
    """What could not be read so far: file, line, construct; and what of the release cannot be trusted for it."""

    lines: dict[str, None] = field(default_factory=dict)  # a set that keeps its order
    holes: dict[str, str] = field(default_factory=dict)

    def add(self, file: str, line: int, what: object, *holes: str) -> None:
        """`holes` are keys of `Release.holes`; the first reason for a key is kept."""
        text = f"{file}:{line}: {' '.join(str(what).split())[:200]}"
        self.lines[text] = None
        for hole in holes:
            self.holes.setdefault(hole, text)


def blank_comments(data: bytes) -> bytes:
    """Comments as spaces of the same length, line ends kept; strings and characters untouched."""
    return COMMENT.sub(lambda m: re.sub(rb"[^\n]", b" ", m[0]) if m[0][:1] == b"/" else m[0], data)


def closing(data: bytes, start: int) -> int:
    """The offset behind the bracket that closes the one at `start`. Raises Unread where none does within `REACH`."""
    depth = 0
    for match in BRACKET.finditer(data, start, start + REACH):
        if match[0] in b"({[":
            depth += 1
        elif match[0] in b")}]":
            depth -= 1
            if depth == 0:
                return match.end()
    raise Unread("a bracket is not closed")


def split_arguments(text: str) -> list[str]:
    """What stands between commas outside of brackets, white space folded; no element for an empty list."""
    parts, depth, start = [], 0, 0
    for index, char in enumerate(text):
        if char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
        elif char == "," and depth == 0:
            parts.append(text[start:index])
            start = index + 1
    parts.append(text[start:])
    folded = [" ".join(part.split()) for part in parts]
    return [] if folded == [""] else folded


@dataclass(frozen=True, slots=True)
class Code:
    """A tree-sitter node with the bytes that it was parsed from; `first` is the line number where these begin."""

    node: Node
    data: bytes
    file: str
    first: int = 1

    @property
    def type(self) -> str:
        return self.node.type

    @property
    def line(self) -> int:
        return self.first + self.node.start_point[0]

    @property
    def text(self) -> str:
        """Source text, white space folded, no line continuations."""
        raw = self.data[self.node.start_byte : self.node.end_byte].decode("utf-8", "replace")
        return " ".join(raw.replace("\\\n", " ").split())

    def at(self, node: Node) -> "Code":
        return Code(node, self.data, self.file, self.first)

    def get(self, name: str) -> "Code | None":
        found = self.node.child_by_field_name(name)
        return None if found is None else self.at(found)

    def need(self, name: str) -> "Code":
        found = self.get(name)
        if found is None:
            raise Unread(f"{self.type} without {name}: {self.text}")
        return found

    @property
    def children(self) -> "list[Code]":
        """Named children; comments are blanks already."""
        return [self.at(child) for child in self.node.named_children]

    def walk(self) -> "Iterator[Code]":
        """This node and all below it, in source order, without recursion."""
        stack = [self.node]
        while stack:
            node = stack.pop()
            yield self.at(node)
            stack.extend(reversed(node.named_children))

    def find(self, kind: str) -> "Iterator[Code]":
        return (code for code in self.walk() if code.type == kind)


def parse(data: bytes, file: str, first: int = 1) -> Code:
    return Code(Parser(LANGUAGE).parse(data).root_node, data, file, first)


@dataclass(frozen=True)
class Source:
    """One file of the tree, comments blanked; `file` is its path inside of the tree."""

    file: str
    data: bytes

    @cached_property
    def outline(self) -> bytes:
        """The same bytes with strings and characters blanked too, offsets kept: for looking by pattern."""
        return LITERAL.sub(lambda m: b" " * len(m[0]), self.data)

    @cached_property
    def root(self) -> Code:
        return parse(self.data, self.file)

    @cached_property
    def _lines(self) -> list[int]:
        return [match.start() for match in re.finditer(rb"\n", self.data)]

    def line(self, offset: int) -> int:
        return bisect_right(self._lines, offset - 1) + 1

    @cached_property
    def functions(self) -> dict[str, list[Code]]:
        """Function definitions by name, in source order; two where preprocessor branches both have one."""
        table: dict[str, list[Code]] = {}
        for code in self._top():
            if code.type == "function_definition":
                name = _declared_name(code)
                if name:
                    table.setdefault(name, []).append(code)
        return table

    def function(self, name: str) -> Code | None:
        """The first definition of `name`; where macros before it confuse the parse of the file, by itself."""
        if name in self.functions:
            return self.functions[name][0]
        head = re.compile(rb"^[A-Za-z_](?:[\w\s*]{0,200}?[\s*])?" + re.escape(name).encode() + rb"\s*\(", re.MULTILINE)
        for match in head.finditer(self.outline):
            try:
                after = closing(self.data, match.end() - 1)
                brace = re.compile(rb"[\w\s]*\{").match(self.data, after)
                if brace is None:
                    continue
                code = self.snippet(match.start(), closing(self.data, brace.end() - 1))
            except Unread:
                return None
            found = next(code.find("function_definition"), None)
            if found is not None:
                self.functions[name] = [found]
                return found
        return None

    def _top(self) -> Iterator[Code]:
        stack = [self.root.node]
        while stack:
            node = stack.pop()
            if node.type in CONTAINERS:
                stack.extend(reversed(node.named_children))
            else:
                yield self.root.at(node)

    @cached_property
    def macros(self) -> dict[str, tuple[list[str], str]]:
        """Function-like macros by name: parameters and replacement text."""
        table = {}
        pattern = re.compile(
            rb"^[ \t]*#[ \t]*define[ \t]+(\w+)\(([^)\n]*)\)((?:[^\n\\]|\\.)*)", re.MULTILINE | re.DOTALL
        )
        for match in pattern.finditer(self.data):
            name, parameters, body = (part.decode("utf-8", "replace") for part in match.groups())
            table[name] = (split_arguments(parameters), " ".join(body.replace("\\\n", " ").split()))
        return table

    def snippet(self, start: int, end: int, prefix: bytes = b"") -> Code:
        """A part of the file parsed by itself, behind `prefix` (no line end in it); directives are blanked."""
        part = re.sub(rb"(?m)^[ \t]*#(?:\\\n|[^\n])*", b"", self.data[start:end])
        part = ANNOTATION.sub(lambda m: b" " * len(m[0]), part)
        return parse(prefix + part + b";", self.file, self.line(start))


def expand(macro: tuple[list[str], str], arguments: list[str]) -> str:
    """A function-like macro's text with its parameters replaced and `##` pasted. Raises Unread for wrong counts."""
    parameters, body = macro
    if len(parameters) != len(arguments):
        raise Unread(f"a macro of {len(parameters)} parameters is given {len(arguments)}")
    table = dict(zip(parameters, arguments, strict=True))
    replaced = re.sub(r"\b[A-Za-z_]\w*\b", lambda m: table.get(m[0], m[0]), body)
    return re.sub(r"\s*##\s*", "", replaced)


def _declared_name(function: Code) -> str:
    """The name that a function definition declares, "" where the parse shows none."""
    node: Node | None = function.node
    while node is not None and node.type != "identifier":
        node = node.child_by_field_name("declarator")
    return "" if node is None else function.at(node).text


class Tree:
    """The source tree at `root`; files are read once."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._sources: dict[str, Source | None] = {}

    def get(self, file: str) -> Source | None:
        """The file, or None where it is not there. InputError where it is there and cannot be read."""
        if file not in self._sources:
            raw = self._read(file)
            self._sources[file] = None if raw is None else Source(file, blank_comments(raw))
        return self._sources[file]

    def need(self, file: str) -> Source:
        found = self.get(file)
        if found is None:
            raise InputError(str(self.root), file, "expected a kernel source tree with this file in it")
        return found

    def _read(self, file: str) -> bytes | None:
        path = self.root / file
        try:
            if not path.is_file():
                return None
            with path.open("rb") as stream:
                raw = stream.read(FILE_LIMIT + 1)
        except (OSError, ValueError) as error:
            raise InputError(str(self.root), file, f"cannot be read: {error}") from None
        if len(raw) > FILE_LIMIT:
            raise InputError(str(self.root), file, f"expected a source file of at most {FILE_LIMIT >> 20} MiB")
        return raw.replace(b"\r\n", b"\n")

    @cached_property
    def _candidates(self) -> dict[str, bytes]:
        """Files under kernel/ and net/ that speak of BPF at all: a whole tree is read once."""
        found = {}
        for folder in FOLDERS:
            for file in self.files(folder):
                raw = self._read(file)
                if raw is not None and (b"bpf_" in raw or b"BPF_" in raw):
                    found[file] = raw
        return found

    def files(self, folder: str, suffix: str = ".c") -> list[str]:
        """Paths of the files under `folder`, sorted; symbolic links to folders are not followed.

        InputError where a folder is there and cannot be read.
        """

        def fail(error: OSError) -> None:
            if not isinstance(error, FileNotFoundError | NotADirectoryError):
                raise InputError(str(self.root), folder, f"cannot be read: {error}") from None

        found: list[str] = []
        for place, folders, names in os.walk(self.root / folder, onerror=fail):
            folders.sort()
            inside = Path(place).relative_to(self.root)
            found.extend((inside / name).as_posix() for name in names if name.endswith(suffix))
            if len(found) > FILES_LIMIT:
                raise InputError(str(self.root), folder, f"expected at most {FILES_LIMIT} files")
        return sorted(found)

    def matching(self, pattern: "re.Pattern[bytes]") -> list[Source]:
        """Sources under kernel/ and net/ whose bytes match; only these are parsed."""
        return [self.need(file) for file, raw in self._candidates.items() if pattern.search(raw)]
