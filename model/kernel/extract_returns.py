"""Which values the map operations return, read from their C: constants and plain ranges, each with its place.

Every `return` counts: conditions are not judged, so that a value says "there is a path to this in the text". A call in
a `return` is followed into the same file and the headers that it includes. What is neither is a row without numbers.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath

from tree_sitter import Node

from model.kernel.c_flow import reaches
from model.kernel.c_tree import Code, Source, Tree
from model.kernel.evidence import Returned
from model.kernel.release import Acceptance, Function, Helper, MapType, OpsTable

DEPTH = 4  # calls in one another; the longest chain read has two
ROWS = 64  # values of one operation; the most in a release read is 15
ERRNO_FILES = ("include/uapi/asm-generic/errno-base.h", "include/uapi/asm-generic/errno.h", "include/linux/errno.h")
ACTIONS = re.compile(rb"\benum\s+xdp_action\s*\{([^}]{0,2000})\}")
TEXT = 80  # characters of a construct that are shown


@dataclass(frozen=True, slots=True)
class _Body:
    """A function's definition, the file it stands in, and the calls that led to it."""

    name: str
    source: Source
    code: Code
    depth: int

    def returning(self, name: str) -> Iterator[Node]:
        """The return statements that name the variable."""
        for code in self.code.need("body").find("return_statement"):
            if any(word.text == name for word in code.find("identifier")):
                yield code.node

    def assigned(self, name: str) -> Iterator[tuple[Code, Code | None]]:
        """What changes the variable `name`: the node and its value; None where it is no plain assignment."""
        for code in self.code.need("body").walk():
            match code.type:
                case "assignment_expression" if code.need("left").text == name:
                    plain = code.need("operator").text if code.get("operator") else "="
                    yield code, code.need("right") if plain == "=" else None
                case "init_declarator" if code.need("declarator").text == name:
                    yield code, code.need("value")
                case "update_expression" if code.need("argument").text == name:
                    yield code, None
                case "pointer_expression" if code.text.replace(" ", "") == f"&{name}":
                    yield code, None


def read_returns(
    tree: Tree,
    types: Mapping[str, MapType],
    tables: Mapping[str, OpsTable],
    functions: Mapping[str, Function],
    helpers: Mapping[str, Helper],
    accepted: Mapping[str, Mapping[str, Acceptance]],
) -> dict[str, tuple[Returned, ...]]:
    """By function key: what the operations of accepted pairs return, where that is a number."""
    reader = _Reader(tree)
    wanted: dict[str, None] = {}
    for name, helper in helpers.items():
        for kind, row in types.items():
            key = tables[row.ops].slots.get(helper.slot) if row.ops is not None else None
            if key in functions and accepted[name][kind].accepted:
                wanted[str(key)] = None
    found = {}
    for key in sorted(wanted):
        result = functions[key].prototype.result
        if result.bits and not result.pointer:
            found[key] = tuple(_bounded(reader.returned(functions[key])))
    return found


def _bounded(rows: Iterable[Returned]) -> Iterator[Returned]:
    """Each row once; past the bound one row that says so."""
    seen: set[Returned] = set()
    for row in rows:
        if row in seen:
            continue
        seen.add(row)
        if len(seen) > ROWS:
            yield Returned("more returns than are read", None, None, row.function, row.file, row.line)
            return
        yield row


class _Reader:
    def __init__(self, tree: Tree) -> None:
        self._tree = tree

    def returned(self, function: Function) -> Iterator[Returned]:
        source = self._tree.need(function.file)
        bodies = list(self._bodies(function.name, source, 0))
        if not bodies:
            yield Returned("a body that was not found", None, None, function.name, function.file, function.line)
        for body in bodies:
            yield from self._body(body)

    def _body(self, body: _Body) -> Iterator[Returned]:
        for statement in body.code.need("body").find("return_statement"):
            if statement.children:
                yield from self._value(statement.children[0], body)

    def _value(self, code: Code, body: _Body) -> Iterator[Returned]:
        """What the expression `code` in a return statement can be."""
        while code.type == "parenthesized_expression" and len(code.children) == 1:
            code = code.children[0]
        numbers = self._numbers(code, body)
        if numbers is not None:
            yield self._row(code, body, numbers)
            return
        match code.type:
            case "conditional_expression":
                yield from self._value(code.get("consequence") or code.need("condition"), body)
                yield from self._value(code.need("alternative"), body)
            case "call_expression" if code.need("function").type == "identifier":
                yield from self._call(code, body)
            case "identifier":
                yield from self._variable(code, body)
            case _:
                yield self._row(code, body, None)

    def _call(self, code: Code, body: _Body) -> Iterator[Returned]:
        name = code.need("function").text
        callees = list(self._bodies(name, body.source, body.depth + 1)) if body.depth < DEPTH else []
        if not callees:
            yield self._row(code, body, None)
        for callee in callees:
            yield from self._body(callee)

    def _variable(self, code: Code, body: _Body) -> Iterator[Returned]:
        """The values whose assignment reaches a return of the variable; no numbers for one that was not seen to."""
        changes = list(body.assigned(code.text))
        if not changes:
            yield self._row(code, body, None)
        nodes = [change.node for change, _ in changes]
        ends = list(body.returning(code.text))
        for change, value in changes:
            copied = value is not None and value.type == "identifier" and self._numbers(value, body) is None
            if value is None or copied or not any(reaches(change.node, end, nodes, body.code.node) for end in ends):
                yield self._row(change, body, None)
            else:
                yield from self._value(value, body)

    def _row(self, code: Code, body: _Body, numbers: tuple[int, int] | None) -> Returned:
        low, high = numbers if numbers is not None else (None, None)
        return Returned(code.text[:TEXT], low, high, body.name, body.source.file, code.line)

    def _numbers(self, code: Code, body: _Body) -> tuple[int, int] | None:
        """The lowest and highest value of an expression of constants, or of `x & constant`; None for others."""
        match code.type:
            case "parenthesized_expression" if len(code.children) == 1:
                return self._numbers(code.children[0], body)
            case "number_literal" if re.fullmatch(r"-?(0x[0-9a-fA-F]+|[1-9]\d*|0)[uUlL]*", code.text):
                number = int(code.text.rstrip("uUlL"), 0)
                return (number, number) if abs(number) < 1 << 63 else None
            case "identifier":
                return self._name(code, body)
            case "unary_expression" if code.need("operator").text == "-":
                inner = self._numbers(code.need("argument"), body)
                return None if inner is None else (-inner[1], -inner[0])
            case "binary_expression" if code.need("operator").text in ("&", "|"):
                return self._bitwise(code, body)
        return None

    def _bitwise(self, code: Code, body: _Body) -> tuple[int, int] | None:
        sides = [self._numbers(code.need(side), body) for side in ("left", "right")]
        known = [side for side in sides if side is not None and side[0] >= 0]
        if code.need("operator").text == "&" and known:
            return 0, min(high for _, high in known)
        if len(known) == 2 and all(low == high for low, high in known):
            number = known[0][0] | known[1][0]
            return number, number
        return None

    def _name(self, code: Code, body: _Body) -> tuple[int, int] | None:
        """An errno, an XDP action, or a local that is set once, where it is declared, and never changed."""
        number = self._constants.get(code.text)
        if number is not None:
            return number, number
        changes = list(body.assigned(code.text))
        if len(changes) == 1 and changes[0][0].type == "init_declarator" and changes[0][1] is not None:
            value = changes[0][1]
            return None if value.type == "identifier" else self._numbers(value, body)
        return None

    @cached_property
    def _constants(self) -> dict[str, int]:
        table: dict[str, int] = {}
        for file in ERRNO_FILES:
            source = self._tree.get(file)
            for match in re.finditer(rb"(?m)^#define\s+(E\w+)\s+(\d{1,4})\b", source.data if source else b""):
                table[match[1].decode()] = int(match[2])
        actions = ACTIONS.search(self._tree.need("include/uapi/linux/bpf.h").data)
        names = re.findall(rb"\bXDP_\w+(?:\s*=\s*\w+)?", actions[1]) if actions else []
        for number, name in enumerate(names):
            word = name.decode()
            if "=" in word and word.split("=")[1].strip() != str(number):
                break
            table[word.split("=")[0].strip()] = number
        return table

    def _bodies(self, name: str, source: Source, depth: int) -> Iterator[_Body]:
        """The definitions of `name` that a call in `source` can mean: of this file, or of a header that it includes."""
        for place in (source, *self._headers(source)):
            if re.search(rb"\b" + re.escape(name).encode() + rb"\s*\(", place.data) and place.function(name):
                for code in place.functions[name]:
                    if code.get("body") is not None:
                        yield _Body(name, place, code, depth)
                return

    def _headers(self, source: Source) -> Iterator[Source]:
        here = PurePosixPath(source.file).parent
        for match in re.finditer(rb'(?m)^#\s*include\s+(?:<([\w/.-]+)>|"([\w/.-]+)")', source.data):
            name = (match[1] or match[2]).decode()
            file = f"include/{name}" if match[1] else str(here / name)
            found = self._tree.get(file) if ".." not in file else None
            if found is not None:
                yield found
