"""Maps as `bpftool -j map show` lists them."""

from pathlib import Path

import pytest

from model.errors import InputError
from model.loaders import map_show
from model.program import Map

DUMPS = Path(__file__).parents[2] / "data" / "dumps"


def test_list_of_the_running_kernel() -> None:
    maps = map_show.load((DUMPS / "maps.json").read_text(), "maps.json")
    by_name = {one.name: one for one in maps.values()}
    assert {one.name: one.type for one in maps.values()} == {
        "recent": "lru_hash",
        "cells": "array",
        "table": "hash",
        "queue": "queue",
        "jumps": "prog_array",
        "walk.data": "array",
        "walk.rodata": "array",
    }
    assert all(id == one.id for id, one in maps.items())
    assert (by_name["queue"].key_size, by_name["queue"].value_size) == (0, 4)
    assert by_name["walk.rodata"].flags == 1152


def test_one_map_and_a_type_without_a_name() -> None:
    text = '{"id": 5, "type": 99, "flags": 0, "bytes_key": 4, "bytes_value": 8, "max_entries": 1, "pinned": ["/x"]}'
    assert map_show.load(text, "maps.json") == {
        5: Map("map[id:5]", None, 4, 8, 1, 0, id=5, type_number=99, pinned=True),
    }


def test_no_maps() -> None:
    assert map_show.load("[]", "maps.json") == {}


@pytest.mark.parametrize(
    ("text", "place", "part"),
    [
        ("35: hash  name x  flags 0x0", "line 1, column 1", "starts with"),
        ("[5]", "[0]", "an object"),
        ("[{}]", "[0].id", "id"),
        ('[{"id": -1}]', "[0].id", "32 bits"),
        ('[{"id": 1.5}]', "[0].id", "32 bits"),
        ('[{"id": true}]', "[0].id", "32 bits"),
        ('[{"id": 1}, {"id": 1}]', "[1].id", "once"),
        ('[{"id": 1, "name": 5}]', "[0].name", "a string"),
        ('[{"id": 1, "type": []}]', "[0].type", "32 bits"),
        ('{"error": "get map by id (5): No such file"}', "top level", "bpftool reported an error"),
        ("[{]", "line 1, column 3", "JSON"),
        ("[" * 100000, "line 1, column 2", "nested"),
    ],
)
def test_refusals(text: str, place: str, part: str) -> None:
    with pytest.raises(InputError) as caught:
        map_show.load(text, "maps.json")
    assert (caught.value.file, caught.value.place) == ("maps.json", place)
    assert part in caught.value.expected
