"""Release files of users: every fault is an InputError with the JSON path, whatever the bytes are."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model.errors import InputError
from model.kernel.data import dump_release, load_release, load_release_file, read_release
from model.kernel.release import CType

TEXT = dump_release(load_release("6.1"))
Change = Callable[[Any], object]


def broken(change: Change) -> str:
    tree = json.loads(TEXT)
    change(tree)
    return json.dumps(tree)


def test_a_fresh_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text(TEXT.replace('"name": "6.1"', '"name": "6.1-mine"'))
    assert load_release_file(path) == replace(load_release("6.1"), name="6.1-mine")


FAULTS: tuple[tuple[Change, str], ...] = (
    (lambda t: t.update(schema=1), "$.schema"),
    (lambda t: t.update(schema=True), "$.schema"),
    (lambda t: t.pop("ops"), "'ops'"),
    (lambda t: t.update(more=1), "$.more"),
    (lambda t: t.update(name=""), "$.name"),
    (lambda t: t.update(name=7), "$.name"),
    (lambda t: t.update(insn_buf=-1), "$.insn_buf"),
    (lambda t: t.update(poison_for_each="maybe"), "$.poison_for_each"),
    (lambda t: t["types"]["int"].update(bits=33), "$.types.int.bits"),
    (lambda t: t["types"]["void *"].update(bits=32), "$.types.void *.bits"),
    (lambda t: t["types"].pop("int"), "expected a C type that $.types tells of, found 'int'"),
    (lambda t: t["map_types"]["hash"].update(ops="no_ops"), "$.map_types.hash.ops"),
    (lambda t: t["map_types"]["hash"].update(number=2), "$.map_types.array.number"),
    (lambda t: t["ops"]["htab_map_ops"]["slots"].update(map_fly="x"), "$.ops.htab_map_ops.slots"),
    (lambda t: t["ops"]["htab_map_ops"].update(line=0), "$.ops.htab_map_ops.line"),
    (lambda t: t["functions"]["array_map_free"].update(result="void*"), "$.functions.array_map_free.result"),
    (lambda t: t["functions"]["array_map_update_elem"]["params"].append("void"), ".array_map_update_elem.params[4]"),
    (lambda t: t["helpers"]["map_update_elem"].update(id=3), "$.helpers.map_update_elem.id"),
    (lambda t: t["helpers"]["map_update_elem"].update(slot="x"), "$.helpers.map_update_elem.slot"),
    (lambda t: t["helpers"]["map_update_elem"].update(arguments=[0, 4]), "$.helpers.map_update_elem.arguments[1]"),
    (lambda t: t["accepted"]["map_update_elem"].pop("hash"), "expected a row for hash"),
    (lambda t: t["accepted"]["map_update_elem"]["hash"].update(accepted=1), "$.accepted.map_update_elem.hash.accepted"),
    (lambda t: t["accepted"].pop("map_update_elem"), "expected rows for map_update_elem"),
    (lambda t: t["rewrites"][1].update(slot="x"), "$.rewrites[1].slot"),
    (lambda t: t["rewrites"][1].update(helper="x"), "$.rewrites[1].helper"),
    (lambda t: t["gen_lookup"]["htab_map_gen_lookup"]["body"].append(["goto", 1]), "htab_map_gen_lookup.body[3]"),
    (lambda t: t["gen_lookup"]["htab_map_gen_lookup"]["body"][1][2].append(["const", "1"]), ".body[1][2][4]"),
    (lambda t: t["gen_lookup"]["htab_map_gen_lookup"]["body"][1][2].append(["const", 1 << 64]), ".body[1][2][4]"),
    (lambda t: t["layout"].update({"struct x.y": -1}), "$.layout.struct x.y"),
    (lambda t: t["helper_ids"].pop("map_update_elem"), "expected the number of map_update_elem"),
    (lambda t: t["unread"].append(None), "$.unread[1]"),
    (lambda t: t["returns"]["array_map_delete_elem"][0].pop("low"), "$.returns.array_map_delete_elem[0]: expected low"),
    (lambda t: t["returns"]["array_map_delete_elem"][0].update(low=-1), "array_map_delete_elem[0]: expected low"),
    (lambda t: t["returns"]["array_map_delete_elem"][0].update(high=1 << 63), "array_map_delete_elem[0].high"),
    (lambda t: t["returns"].update(nobody=[]), "$.returns: expected a function in $.functions"),
    (lambda t: t["checked"]["map_push_elem"].update(arguments=[3]), "$.checked.map_push_elem.arguments[0]"),
    (lambda t: t["checked"].update(nobody=t["checked"]["map_push_elem"]), "$.checked: expected a helper in $.helpers"),
    (lambda t: t.pop("holes"), "'holes'"),
    (lambda t: t["holes"].update({"helper:map_push_elem": ""}), "$.holes.helper:map_push_elem"),
    (lambda t: t["holes"].update({"hleper:map_push_elem": "x"}), "percpu_insn, rewrite, slot, type before a colon"),
)  # fmt: skip


@pytest.mark.parametrize(("change", "place"), FAULTS, ids=[row[1] for row in FAULTS])
def test_a_fault_is_named_with_its_path(change: Change, place: str) -> None:
    with pytest.raises(InputError) as caught:
        read_release(broken(change), "mine.json")
    assert str(caught.value).startswith("mine.json: ")
    assert place in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "line 1 column 1"),
        ("[]", "expected an object"),
        ("{}", "$.schema"),
        ("nonsense", "expected JSON"),
        ('{"schema": NaN}', "NaN is no JSON number"),
        ('{"schema": 1, "schema": 1}', "'schema' is there twice"),
        ('{"schema": ' + "9" * 5000 + "}", "expected JSON"),
        ("[" * 100_000, "expected JSON"),
        ('{"schema": 1' + ', "a": 1' * 2 + "}", "twice"),
    ],
)
def test_junk_is_one_line(text: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        read_release(text, "junk.json")
    assert words in str(caught.value)


def test_expressions_in_one_another_without_end() -> None:
    deep: object = ["const", 1]
    for _ in range(200):
        deep = ["apply", "!", [deep]]
    text = broken(lambda t: t["gen_lookup"]["htab_map_gen_lookup"]["body"].append(["emit", "BPF_X", [deep], 1]))
    with pytest.raises(InputError, match="fewer nested levels"):
        read_release(text, "deep.json")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        load_release_file(tmp_path / "nowhere.json")
    with pytest.raises(InputError, match="cannot be read"):
        load_release_file(tmp_path)
    (tmp_path / "latin.json").write_bytes(b'{"schema": "\xff"}')
    with pytest.raises(InputError, match="byte 12: expected UTF-8"):
        load_release_file(tmp_path / "latin.json")


def test_a_type_with_two_meanings_is_not_written() -> None:
    release = load_release("6.1")
    row = release.functions["array_map_update_elem"]
    odd = replace(row, prototype=replace(row.prototype, result=CType("int", 64, True)))
    with pytest.raises(ValueError, match="two meanings"):
        dump_release(replace(release, functions={**release.functions, "array_map_update_elem": odd}))


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_junk_anywhere_in_the_tree_is_refused_or_read(data: st.DataObject) -> None:
    tree = json.loads(TEXT)
    node: Any = tree
    while isinstance(node, dict | list) and node:
        key = data.draw(st.sampled_from(sorted(node) if isinstance(node, dict) else range(len(node))))
        if data.draw(st.booleans()) or not isinstance(node[key], dict | list) or not node[key]:
            node[key] = data.draw(JUNK)
            break
        node = node[key]
    try:
        release = read_release(json.dumps(tree), "x")
    except InputError:
        return
    assert read_release(dump_release(release), "x") == release


@settings(max_examples=40, deadline=None)
@given(at=st.integers(0, len(TEXT) - 1), cut=st.integers(0, 40), piece=st.text(max_size=4))
def test_cut_and_pasted_text_is_refused_or_read(at: int, cut: int, piece: str) -> None:
    try:
        release = read_release(TEXT[:at] + piece + TEXT[at + cut :], "x")
    except InputError:
        return
    assert read_release(dump_release(release), "x") == release
