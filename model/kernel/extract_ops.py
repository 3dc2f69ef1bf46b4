"""The slots of `struct bpf_map_ops`, operation tables and the functions in them, from a source tree."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from model.errors import InputError
from model.kernel.c_tree import BROKEN, Code, Notes, Source, Tree, Unread, closing, expand, parse, split_arguments
from model.kernel.c_types import Lookup, read_prototype
from model.kernel.release import Function, OpsTable, Prototype

TABLE = re.compile(
    rb"\bstruct\s+bpf_map_ops\s+(?:const\s+)?(\w+)(?:\s+__\w+(?:\s*\((?:[^()]|\([^()]*\))*\))?)*\s*=\s*\{"
)
MAKER = re.compile(rb"\bstruct\s+bpf_map_ops\b")
ATTRIBUTE = re.compile(rb"\b__\w+\s*\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)")
NAMES = 2000  # functions in all tables together; 7.3 has 303
GEN_LOOKUP = "map_gen_lookup"
HEADER = "include/linux/bpf.h"


@dataclass(frozen=True, slots=True)
class Place:
    """A function's name in a slot, and the file whose static functions it may mean."""

    name: str
    file: str
    line: int


def read_slots(tree: Tree, look: Lookup, notes: Notes) -> dict[str, Prototype]:
    """Members of `struct bpf_map_ops` that are function pointers, in the source's order."""
    source = tree.need(HEADER)
    start = re.search(rb"\bstruct\s+bpf_map_ops\s*\{", source.data)
    if start is None:
        raise InputError(str(tree.root), HEADER, "expected struct bpf_map_ops")
    slots: dict[str, Prototype] = {}
    try:
        body = source.snippet(start.start(), closing(source.data, start.end() - 1))
    except Unread as error:
        raise InputError(str(tree.root), HEADER, f"expected struct bpf_map_ops: {error}") from None
    if body.node.has_error:
        notes.add(HEADER, body.line, f"struct bpf_map_ops: {BROKEN}", "slot:*")
    for member in body.find("field_declaration"):
        text = _pointed(member.text.rstrip("; "), look)
        if "(" not in text:
            continue
        try:
            name, prototype = read_prototype(text, look)
            if slots.setdefault(name, prototype) != prototype:
                raise Unread(f"a second member (*{name}) with another prototype: {text}")
        except Unread as error:
            name = (re.findall(r"\(\s*\*\s*(\w+)\s*\)", text) or ["*"])[0]
            notes.add(HEADER, member.line, error, f"slot:{name}")
    if GEN_LOOKUP not in slots:
        notes.add(HEADER, body.line, f"struct bpf_map_ops: no member {GEN_LOOKUP} was seen", f"slot:{GEN_LOOKUP}")
    return slots


def _pointed(text: str, look: Lookup) -> str:
    """The member in full where its type is a typedef: "fn *slot" of a function, "fn slot" of a pointer to one."""
    match = re.fullmatch(r"(\w+) ?(\*?) ?\b(\w+)", text)
    declared = look(match[1]) if match else None
    if match is None or declared is None:
        return text
    named = rf"\b{re.escape(match[1])}\s*(?=\()" if match[2] else rf"\(\s*\*\s*{re.escape(match[1])}\s*\)"
    return re.sub(named, f"(*{match[3]})", declared) if re.search(named, declared) else text


def read_tables(
    tree: Tree, slots: Mapping[str, Prototype], notes: Notes
) -> tuple[dict[str, OpsTable], dict[str, dict[str, Place]]]:
    """Every `struct bpf_map_ops` initializer under kernel/ and net/; per symbol the table and where its names stand."""
    tables: dict[str, OpsTable] = {}
    places: dict[str, dict[str, Place]] = {}
    for source in tree.matching(MAKER):
        for part in (source, *_made(source, notes)):
            for match in TABLE.finditer(part.outline):
                if not _in_directive(part.data, match.start()):
                    _table(source, part, match, slots, tables, places, notes)
    return tables, places


def _table(
    source: Source,
    part: Source,
    match: re.Match[bytes],
    slots: Mapping[str, Prototype],
    tables: dict[str, OpsTable],
    places: dict[str, dict[str, Place]],
    notes: Notes,
) -> None:
    """The table at `match` in `part`, which is `source` or text that one of its macros makes."""
    symbol, line = match[1].decode("ascii", "replace"), part.line(match.start())
    try:
        end = closing(part.data, match.end() - 1)
    except Unread as error:
        notes.add(source.file, line, f"{symbol}: {error}")
        return
    if symbol in tables:
        notes.add(source.file, line, f"a second table {symbol}", f"ops:{symbol}")
        return
    if re.search(rb"(?m)^[ \t]*#[ \t]*el", part.data[match.start() : end]):
        notes.add(source.file, line, f"{symbol}: preprocessor branches inside of a table", f"ops:{symbol}")
    places[symbol] = _initializer(source, part.snippet(match.end() - 1, end, b"int a[] = "), symbol, slots, notes)
    tables[symbol] = OpsTable(symbol, {}, source.file, line)


def _made(source: Source, notes: Notes) -> Iterator[Source]:
    """What macros of this file that have a table in them are expanded to, on the lines of their invocations."""
    for name, macro in source.macros.items():
        if not MAKER.search(macro[1].encode()):
            continue
        for match in re.finditer(rb"^" + name.encode() + rb"[ \t]*\(", source.outline, re.MULTILINE):
            line = source.line(match.start())
            try:
                inside = source.data[match.end() : closing(source.data, match.end() - 1) - 1].decode("utf-8", "replace")
                text = expand(macro, split_arguments(inside))
            except Unread as error:
                notes.add(source.file, line, f"{name}: {error}")
                continue
            yield Source(source.file, b"\n" * (line - 1) + text.encode())


def _in_directive(data: bytes, at: int) -> bool:
    """Whether `at` lies in a preprocessor directive, continued lines included."""
    start = data.rfind(b"\n", 0, at)
    while start > 0 and data[start - 1 : start] == b"\\":
        start = data.rfind(b"\n", 0, start)
    return data[start + 1 : at].lstrip(b" \t").startswith(b"#")


def _initializer(
    source: Source, code: Code, symbol: str, slots: Mapping[str, Prototype], notes: Notes, depth: int = 4
) -> dict[str, Place]:
    """The function names by member; NULL members and members that are no function pointers are left out."""
    found: dict[str, Place] = {}
    if code.node.has_error:
        notes.add(source.file, code.line, f"a table: {BROKEN}", f"ops:{symbol}")
    outer = next(code.find("initializer_list"), None)
    for item in outer.children if outer else []:
        try:
            if item.type == "call_expression" and depth:
                macro = source.macros.get(item.need("function").text)
                if macro is None:
                    raise Unread(f"a macro that is not in this file: {item.text}")
                text = expand(macro, split_arguments(item.need("arguments").text[1:-1]))
                inner = parse(b"int a[] = {" + text.encode() + b"};", source.file, item.line)
                pairs = _initializer(source, inner, symbol, slots, notes, depth - 1)
            else:
                pairs = _pair(item, source.file, slots)
            for slot, place in pairs.items():
                if found.setdefault(slot, place).name != place.name:
                    raise Unread(f"a second initializer of {slot}: {item.text}")
        except Unread as error:
            notes.add(source.file, item.line, error, f"ops:{symbol}")
    return found


def _pair(item: Code, file: str, slots: Mapping[str, Prototype]) -> dict[str, Place]:
    designators = [child for child in item.children if child.type == "field_designator"]
    value = item.get("value")
    if item.type != "initializer_pair" or len(designators) != 1 or value is None:
        raise Unread(f"an initializer that is not understood: {item.text}")
    slot = designators[0].text.lstrip(". ")
    while value.type in ("cast_expression", "parenthesized_expression"):
        value = value.get("value") or value.children[0]
    if slot not in slots or value.text in ("NULL", "0"):
        return {}
    name = value.text.lstrip("& ")
    if not re.fullmatch(r"[A-Za-z_]\w*", name):
        raise Unread(f"an initializer that is not understood: {item.text}")
    return {slot: Place(name, file, item.line)}


def read_functions(
    tree: Tree, tables: dict[str, OpsTable], places: Mapping[str, Mapping[str, Place]], look: Lookup, notes: Notes
) -> tuple[dict[str, OpsTable], dict[str, Function]]:
    """The tables with their slots, and every function that they name.

    A name is looked for in the table's own file, then in all files of kernel/ and net/. Static functions of
    one name in two files get keys with their files.
    """
    if len({place.name for row in places.values() for place in row.values()}) > NAMES:
        raise InputError(str(tree.root), "", f"expected at most {NAMES} map operations")
    resolved: dict[tuple[str, str], Function] = {}
    elsewhere = _elsewhere(tree, places)
    for place in (place for row in places.values() for place in row.values()):
        key = (place.name, place.file)
        if key in resolved:
            continue
        try:
            resolved[key] = _function(tree, place, elsewhere, look)
        except Unread as error:
            notes.add(place.file, place.line, f"{place.name}: {error}")
    homes: dict[str, set[str]] = {}
    for row in resolved.values():
        homes.setdefault(row.name, set()).add(row.file)
    functions: dict[str, Function] = {}
    done: dict[str, OpsTable] = {}
    for symbol, table in tables.items():
        slots = {}
        for slot, place in places[symbol].items():
            function = resolved.get((place.name, place.file))
            several = function is not None and len(homes[place.name]) > 1
            name = f"{place.name}@{function.file}" if function and several else place.name
            slots[slot] = name
            if function:
                functions[name] = function
        done[symbol] = OpsTable(symbol, slots, table.file, table.line)
    return done, functions


def _elsewhere(tree: Tree, places: Mapping[str, Mapping[str, Place]]) -> dict[str, Source]:
    """The files that define the functions which the tables' own files do not."""
    missing = {
        place.name
        for row in places.values()
        for place in row.values()
        if tree.need(place.file).function(place.name) is None
    }
    if not missing:
        return {}
    pattern = re.compile(rb"\b(?:" + b"|".join(sorted(re.escape(name).encode() for name in missing)) + rb")\(")
    found: dict[str, Source] = {}
    for source in tree.matching(pattern):
        for name in sorted(missing):
            if source.function(name):
                found.setdefault(name, source)
    return found


def _function(tree: Tree, place: Place, elsewhere: Mapping[str, Source], look: Lookup) -> Function:
    own = tree.need(place.file)
    source = own if own.function(place.name) else elsewhere.get(place.name)
    if source is None:
        return _from_macro(own, place.name, look)
    rows = [_definition(code, look) for code in source.functions[place.name]]
    if any(row.name != place.name for row in rows):
        raise Unread("its definition is not understood")
    if any(row.prototype != rows[0].prototype for row in rows):
        raise Unread(f"a second definition with another prototype, line {rows[-1].line}")
    return rows[0]


def _definition(code: Code, look: Lookup) -> Function:
    """The function, by its declarator; an invocation of a macro before it, without a semicolon, is not its type."""
    declarator = code.need("declarator")
    while declarator.type == "pointer_declarator":
        declarator = declarator.need("declarator")
    if declarator.type != "function_declarator" or declarator.need("declarator").type != "identifier":
        raise Unread(f"a definition that is not understood: {declarator.text}")
    before = code.data[code.node.start_byte : declarator.node.start_byte]
    before = ATTRIBUTE.sub(lambda m: b" " * len(m[0]), before)
    start = code.node.start_byte + before.rfind(b")") + 1
    while code.data[start : start + 1].isspace():
        start += 1
    result = before[start - code.node.start_byte :].decode("utf-8", "replace")
    text = f"{result} {declarator.need('declarator').text}{declarator.need('parameters').text}"
    name, prototype = read_prototype(text, look)
    line = code.line + code.data.count(b"\n", code.node.start_byte, start)
    return Function(name, prototype, code.file, line)


def _from_macro(source: Source, name: str, look: Lookup) -> Function:
    """A function that a macro of this file makes: `DEFINE_OP(hash)` at the start of a line."""
    for match in re.finditer(rb"^(\w+)\(([^()\n]*)\)", source.data, re.MULTILINE):
        macro = source.macros.get(match[1].decode("ascii", "replace"))
        if macro is None or "##" not in macro[1]:
            continue
        text = expand(macro, split_arguments(match[2].decode("utf-8", "replace")))
        made = Source(source.file, text.encode())
        code = made.function(name)
        if code is not None:
            function = _definition(code, look)
            return Function(function.name, function.prototype, source.file, source.line(match.start()))
    raise Unread("no definition was found")
