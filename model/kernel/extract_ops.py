"""Map types, operation tables and the functions in them, from a source tree."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from model.errors import InputError
from model.kernel.c_tree import BROKEN, Code, Notes, Source, Tree, Unread, closing, expand, parse, split_arguments
from model.kernel.c_types import Lookup, read_prototype
from model.kernel.release import Function, MapType, OpsTable, Prototype

TABLE = re.compile(rb"\bstruct\s+bpf_map_ops\s+(\w+)\s*=\s*\{")
NAMES = 2000  # functions in all tables together; 7.3 has 303
PREFIX = "BPF_MAP_TYPE_"
GEN_LOOKUP = "map_gen_lookup"
HEADER = "include/linux/bpf.h"
UAPI = "include/uapi/linux/bpf.h"
TYPES = "include/linux/bpf_types.h"


@dataclass(frozen=True, slots=True)
class Place:
    """A function's name in a slot, and the file whose static functions it may mean."""

    name: str
    file: str
    line: int


def read_numbers(tree: Tree, notes: Notes) -> dict[str, int]:
    """All enumerators of `enum bpf_map_type`, aliases among them. InputError where there is no such enum."""
    numbers = _enum(tree.need(UAPI), "bpf_map_type", notes)
    if not numbers:
        raise InputError(str(tree.root), UAPI, "expected enum bpf_map_type")
    return numbers


def read_map_types(tree: Tree, numbers: Mapping[str, int], notes: Notes) -> dict[str, MapType]:
    """`enum bpf_map_type` with the operations that include/linux/bpf_types.h gives each; aliases are one row.

    An enumerator that is given another's value is that other's new name (CGROUP_STORAGE = …_DEPRECATED):
    the row has the name that has operations. Number 0 (UNSPEC) is no type and has no row.
    """
    tables = {}
    source = tree.need(TYPES)
    for match in re.finditer(rb"^[ \t]*BPF_MAP_TYPE\s*\(\s*(\w+)\s*,\s*(\w+)\s*\)", source.data, re.MULTILINE):
        name, symbol = match[1].decode("ascii", "replace"), match[2].decode("ascii", "replace")
        if name not in numbers:
            lost = f"type:{name.removeprefix(PREFIX).lower()}"
            notes.add(TYPES, source.line(match.start()), f"a map type that {UAPI} does not have: {name}", lost)
        tables[name] = symbol
    if not tables:
        raise InputError(str(tree.root), TYPES, "expected BPF_MAP_TYPE(…) rows")
    for match in re.finditer(rb"\b(?:BPF_MAP_TYPE_(\w+)|BPF_MAP_TYPE\s*\((?!\s*\w+\s*,))", source.data):
        name = (match[1] or b"*").decode("ascii", "replace")
        if PREFIX + name not in tables:
            lost = f"type:{name.lower()}"
            notes.add(TYPES, source.line(match.start()), f"a map type in a row that is not understood: {name}", lost)
    by_number: dict[int, list[str]] = {}
    for name, number in numbers.items():
        by_number.setdefault(number, []).append(name)
    rows = {}
    for number, names in sorted(by_number.items()):
        chosen = next((name for name in names if name in tables), names[-1])
        if chosen.startswith(PREFIX) and chosen != PREFIX + "UNSPEC":
            short = chosen.removeprefix(PREFIX).lower()
            rows[short] = MapType(short, number, tables.get(chosen))
    return rows


def _enum(source: Source, tag: str, notes: Notes) -> dict[str, int]:
    """Enumerators with their values; `= NAME` and `= number` are understood."""
    for code in source.root.find("enum_specifier"):
        name, body = code.get("name"), code.get("body")
        if name is None or body is None or name.text != tag:
            continue
        values: dict[str, int] = {}
        following = 0
        for item in body.find("enumerator"):
            value = item.get("value")
            if value is None:
                number = following
            elif value.text in values:
                number = values[value.text]
            elif re.fullmatch(r"\d{1,6}", value.text):
                number = int(value.text)
            else:
                # The numbers behind it count from it.
                notes.add(source.file, item.line, f"a value that is not understood: {item.text}", "type:*")
                continue
            values[item.need("name").text] = number
            following = number + 1
        return values
    return {}


def read_slots(tree: Tree, look: Lookup, notes: Notes) -> dict[str, Prototype]:
    """Members of `struct bpf_map_ops` that are function pointers, in the source's order."""
    source = tree.need(HEADER)
    start = re.search(rb"\bstruct\s+bpf_map_ops\s*\{", source.data)
    if start is None:
        raise InputError(str(tree.root), HEADER, "expected struct bpf_map_ops")
    slots = {}
    try:
        body = source.snippet(start.start(), closing(source.data, start.end() - 1))
    except Unread as error:
        raise InputError(str(tree.root), HEADER, f"expected struct bpf_map_ops: {error}") from None
    if body.node.has_error:
        notes.add(HEADER, body.line, f"struct bpf_map_ops: {BROKEN}", "slot:*")
    for member in body.find("field_declaration"):
        text = member.text.rstrip("; ")
        if "(" not in text:
            continue
        try:
            name, prototype = read_prototype(text, look)
            slots[name] = prototype
        except Unread as error:
            name = (re.findall(r"\(\s*\*\s*(\w+)\s*\)", text) or ["*"])[0]
            notes.add(HEADER, member.line, error, f"slot:{name}")
    if GEN_LOOKUP not in slots:
        notes.add(HEADER, body.line, f"struct bpf_map_ops: no member {GEN_LOOKUP} was seen", f"slot:{GEN_LOOKUP}")
    return slots


def read_tables(
    tree: Tree, slots: Mapping[str, Prototype], notes: Notes
) -> tuple[dict[str, OpsTable], dict[str, dict[str, Place]]]:
    """Every `struct bpf_map_ops` initializer under kernel/ and net/; per symbol the table and where its names stand."""
    tables: dict[str, OpsTable] = {}
    places: dict[str, dict[str, Place]] = {}
    for source in tree.matching(TABLE):
        for match in TABLE.finditer(source.outline):
            symbol, line = match[1].decode("ascii", "replace"), source.line(match.start())
            try:
                end = closing(source.data, match.end() - 1)
            except Unread as error:
                notes.add(source.file, line, f"{symbol}: {error}")
                break
            if symbol in tables:
                notes.add(source.file, line, f"a second table {symbol}", f"ops:{symbol}")
                continue
            if re.search(rb"(?m)^[ \t]*#[ \t]*el", source.data[match.start() : end]):
                notes.add(source.file, line, f"{symbol}: preprocessor branches inside of a table", f"ops:{symbol}")
            found = _initializer(source, source.snippet(match.end() - 1, end, b"int a[] = "), symbol, slots, notes)
            places[symbol] = found
            tables[symbol] = OpsTable(symbol, {}, source.file, line)
    return tables, places


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
                found.update(_initializer(source, inner, symbol, slots, notes, depth - 1))
            else:
                found.update(_pair(item, source.file, slots))
        except Unread as error:
            notes.add(source.file, item.line, error, f"ops:{symbol}")
    return found


def _pair(item: Code, file: str, slots: Mapping[str, Prototype]) -> dict[str, Place]:
    designators = [child for child in item.children if child.type == "field_designator"]
    value = item.get("value")
    if item.type != "initializer_pair" or len(designators) != 1 or value is None:
        raise Unread(f"an initializer that is not understood: {item.text}")
    slot = designators[0].text.lstrip(". ")
    if slot not in slots or value.text in ("NULL", "0"):
        return {}
    name = value.text.lstrip("&( ").rstrip(") ")
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
    start = code.node.start_byte + before.rfind(b")") + 1
    while code.data[start : start + 1].isspace():
        start += 1
    result = code.data[start : declarator.node.start_byte].decode("utf-8", "replace")
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
