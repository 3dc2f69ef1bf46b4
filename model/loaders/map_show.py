"""Maps as `bpftool -j map show` lists them: an array of objects, or one object where one map was asked for.

Keys as printed by tools/bpf/bpftool/map.c, `show_map_close_json` (5.10 to 7.3).
"""

from collections.abc import Mapping
from typing import Any

from model.errors import InputError
from model.loaders.json_stream import JsonStream
from model.program import Map

MAX_MAPS = 1 << 20


def load(text: str, file: str) -> Mapping[int, Map]:
    """The maps by id. Raises `InputError` on anything that is no such listing."""
    stream = JsonStream(text.removeprefix("\ufeff"), file)
    maps: dict[int, Map] = {}
    match stream.peek():
        case "[":
            for number in stream.array("at the start"):
                if number >= MAX_MAPS:
                    raise InputError(file, f"[{number}]", f"expected at most {MAX_MAPS} maps")
                _add(maps, stream.small(), file, f"[{number}]")
        case "{":
            _add(maps, stream.small(), file, "top level")
        case _:
            stream.fail("expected the JSON of `bpftool -j map show`, which starts with '[' or '{'")
    stream.end()
    return maps


def _add(maps: dict[int, Map], entry: Any, file: str, place: str) -> None:
    if not isinstance(entry, dict):
        raise InputError(file, place, "expected an object that describes a map")
    if "error" in entry:
        raise InputError(file, place, f"bpftool reported an error instead of maps: {str(entry['error'])[:200]}")
    one = _map(entry, file, place)
    assert one.id is not None  # _map demands it
    if one.id in maps:
        raise InputError(file, f"{place}.id", f"expected every map id once, found {one.id} again")
    maps[one.id] = one


def _map(entry: dict[str, Any], file: str, place: str) -> Map:
    def number(key: str) -> int | None:
        value = entry.get(key)
        if value is None:
            return None
        if type(value) is not int or not 0 <= value <= 0xFFFFFFFF:  # a bool is no number here
            raise InputError(file, f"{place}.{key}", "expected an integer of 32 bits, unsigned")
        return value

    id = number("id")
    if id is None:
        raise InputError(file, f"{place}.id", "expected the map's id")
    kind = entry.get("type")
    if not isinstance(kind, str):
        number("type")  # bpftool prints the number of a type that it has no name for
    name = entry.get("name", "")
    if not isinstance(name, str):
        raise InputError(file, f"{place}.name", "expected a string")
    pinned = entry.get("pinned", [])
    return Map(
        name=name or f"map[id:{id}]",
        type=kind if isinstance(kind, str) else None,
        key_size=number("bytes_key"),
        value_size=number("bytes_value"),
        max_entries=number("max_entries"),
        flags=number("flags"),
        id=id,
        type_number=None if isinstance(kind, str) else kind,
        pinned=bool(pinned),
    )
