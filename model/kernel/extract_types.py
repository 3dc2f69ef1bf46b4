"""The map types of a source tree: their numbers, and the table of operations that each is given."""

import re
from collections.abc import Mapping

from model.errors import InputError
from model.kernel.c_tree import Notes, Source, Tree
from model.kernel.release import MapType

PREFIX = "BPF_MAP_TYPE_"
UAPI = "include/uapi/linux/bpf.h"
TYPES = "include/linux/bpf_types.h"


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
    tables: dict[str, str] = {}
    source = tree.need(TYPES)
    for match in re.finditer(rb"^[ \t]*BPF_MAP_TYPE\s*\(\s*(\w+)\s*,\s*(\w+)\s*\)", source.data, re.MULTILINE):
        name, symbol = match[1].decode("ascii", "replace"), match[2].decode("ascii", "replace")
        if name not in numbers:
            lost = f"type:{name.removeprefix(PREFIX).lower()}"
            notes.add(TYPES, source.line(match.start()), f"a map type that {UAPI} does not have: {name}", lost)
        if tables.setdefault(name, symbol) != symbol:
            lost = f"type:{name.removeprefix(PREFIX).lower()}"
            notes.add(TYPES, source.line(match.start()), f"a second row for {name}: {symbol}", lost)
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
        if any(item.type.startswith("preproc_") for item in body.children):
            notes.add(source.file, code.line, f"enum {tag}: preprocessor branches inside", "type:*")
        values: dict[str, int] = {}
        following = 0
        for item in body.find("enumerator"):
            value = item.get("value")
            if value is None:
                number = following
            elif value.text in values:
                number = values[value.text]
            elif re.fullmatch(r"0[xX][0-9a-fA-F]{1,5}|0|[1-9]\d{0,5}", value.text):
                number = int(value.text, 0)
            else:
                # The numbers behind it count from it.
                notes.add(source.file, item.line, f"a value that is not understood: {item.text}", "type:*")
                continue
            values[item.need("name").text] = number
            following = number + 1
        return values
    return {}
