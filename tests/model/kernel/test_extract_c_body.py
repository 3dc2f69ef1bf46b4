"""Function bodies as data: from C, through JSON, and what damage to either gives."""

import json
from pathlib import Path
from typing import Any

import pytest

from model.errors import InputError
from model.kernel.c_body import (
    Address,
    Array,
    Assign,
    Binary,
    Body,
    Branch,
    Call,
    Cast,
    Char,
    Check,
    Container,
    Declare,
    Deref,
    Do,
    Index,
    Integer,
    Leave,
    Local,
    Member,
    Null,
    Number,
    Param,
    Pointer,
    Struct,
    Unary,
    Unreadable,
    Void,
    steps_of,
)
from model.kernel.c_tree import Notes, Tree
from model.kernel.data import load_release
from model.kernel.data_c import decode_c, encode_c
from model.kernel.extract_c_body import read_bodies
from model.kernel.release import CType, Emit, Function, GenLookup, Name, OpsTable, Prototype

U32, INT, BOOL = Integer(32, False), Integer(32, True), Integer(8, False, True)
MAP = Pointer(Struct("bpf_map"))

FILE = """
#include <linux/bpf.h>
#include "near.h"
struct shelf {
	struct bpf_map map;
	u32 width;
	union {
		DECLARE_FLEX_ARRAY(char, books) __aligned(8);
		DECLARE_FLEX_ARRAY(void __percpu *, pptrs) __aligned(8);
		struct xdp_sock __rcu *socks[];
	};
};
static void *find(struct bpf_map *map, void *key)
	__must_hold(RCU)
{
	return NULL;
}
static inline void __percpu *slot(struct shelf *s, u32 i)
{
	return s->pptrs[i];
}
/* looks a book up */
static void *shelf_lookup(struct bpf_map *map, void *key)
{
	struct shelf *shelf = container_of(map, struct shelf, map);
	const bool there = true;
	u32 i = *(u32 *)key, j;

	WARN_ON_ONCE(!rcu_read_lock_held() && !bpf_rcu_lock_held());
	if (unlikely(i >= shelf->map.max_entries))
		return NULL;
	else if (there)
		mark(&shelf->map);
	find(map, key);
	j = 7;
	j = 8;
	do j--;
	while (j);
	return shelf->books + round_up(i, 8);
}
static void *second(struct bpf_map *map, void *key)
{
	struct shelf *shelf = container_of(map, struct shelf, map);

	return this_cpu_ptr(slot(shelf, (u32)(u64)key));
}
static void *broken(struct bpf_map *map, void *key)
{
	return statement expression ({ nothing });
}
"""
NEAR = """
#ifdef CONFIG_MARKS
static inline void mark(struct bpf_map *map)
{
	WRITE_ONCE(map->marks, 1);
}
#else
static inline void mark(struct bpf_map *map) { }
#endif
"""
BPF_H = "struct bpf_map { u32 max_entries; u8 marks; };\n"


def read(tmp_path: Path, *operations: str, text: str = FILE) -> tuple[dict[str, Body], dict[str, int], list[str]]:
    for file, content in {
        "kernel/bpf/shelf.c": text,
        "kernel/bpf/near.h": NEAR,
        "include/linux/bpf.h": BPF_H,
    }.items():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(content)
    prototype = Prototype(CType("void *", 64, False, True), ())
    functions = {name: Function(name, prototype, "kernel/bpf/shelf.c", 1) for name in operations}
    slots = [{"map_lookup_elem": name, "map_gen_lookup": "shelf_gen"} for name in operations]
    tables = {f"t{i}": OpsTable(f"t{i}", row, "kernel/bpf/shelf.c", 1) for i, row in enumerate(slots)}
    tables["not_inlined"] = OpsTable("not_inlined", {"map_lookup_elem": "broken"}, "kernel/bpf/shelf.c", 1)
    emit = Emit("BPF_EMIT_CALL", (Name("find"),), 1)
    lookups = {"shelf_gen": GenLookup("shelf_gen", (emit,), "kernel/bpf/shelf.c", 1)}
    notes = Notes()
    bodies, layout = read_bodies(Tree(tmp_path), tables, functions, lookups, lambda name: None, notes)
    return bodies, layout, list(notes.lines)


def shelf_member(base: Any, member: str, kind: Any) -> Member:
    return Member(Deref(Local(base)), "shelf", member, kind)


def test_a_body_statement_by_statement(tmp_path: Path) -> None:
    bodies, layout, notes = read(tmp_path, "shelf_lookup")
    assert sorted(bodies) == ["find", "mark", "shelf_lookup"]
    body = bodies["shelf_lookup"]
    assert (body.result, body.file, body.line) == (Pointer(Void()), "kernel/bpf/shelf.c", 23)
    assert body.params == (Param("map", MAP), Param("key", Pointer(Void())))
    map_member = shelf_member("shelf", "map", Struct("bpf_map"))
    entries = Member(map_member, "bpf_map", "max_entries", U32)
    inside = Unary("!", Unary("!", Binary(">=", Local("i"), entries)))
    books = shelf_member("shelf", "books", Array(Char()))
    assert body.steps == (
        Declare("shelf", Pointer(Struct("shelf")), Container(Local("map"), "shelf", "map")),
        Declare("there", BOOL, Number(1, INT)),
        Declare("i", U32, Deref(Cast(Pointer(U32), Local("key")))),
        Declare("j", U32, None),
        Check("!rcu_read_lock_held() && !bpf_rcu_lock_held()"),
        Branch(
            inside,
            (Leave(Null()),),
            (Branch(Local("there"), (Do(Call("mark", (Address(map_member),))),), ()),),
        ),
        Do(Call("find", (Local("map"), Local("key")))),
        Assign(Local("j"), Number(7, INT)),
        Assign(Local("j"), Number(8, INT)),
        Unreadable("do j--; while (j);", 37),
        Leave(Binary("+", books, Call("round_up", (Local("i"), Number(8, INT))))),
    )
    assert notes == ["kernel/bpf/shelf.c:37: shelf_lookup: a statement that is not understood: do j--; while (j);"]
    assert layout == {"struct shelf.map": 0, "struct bpf_map.max_entries": 0, "struct bpf_map.marks": 4}


def test_what_the_sequence_calls_stays_unknown(tmp_path: Path) -> None:
    bodies, _, _ = read(tmp_path, "shelf_lookup")
    assert bodies["find"].steps is None
    assert bodies["find"].params == bodies["shelf_lookup"].params


def test_of_two_branches_the_first_is_read(tmp_path: Path) -> None:
    bodies, _, _ = read(tmp_path, "shelf_lookup")
    target = Member(Deref(Local("map")), "bpf_map", "marks", Integer(8, False))
    assert bodies["mark"].steps == (Assign(target, Number(1, INT)),)
    assert (bodies["mark"].file, bodies["mark"].line, bodies["mark"].result) == ("kernel/bpf/near.h", 3, Void())


def test_per_cpu_pointers_and_casts(tmp_path: Path) -> None:
    bodies, _, notes = read(tmp_path, "second")
    pptrs = shelf_member("s", "pptrs", Array(Pointer(Void())))
    assert bodies["slot"].steps == (Leave(Index(pptrs, Local("i"))),)
    cast = Cast(U32, Cast(Integer(64, False), Local("key")))
    steps = bodies["second"].steps
    assert steps is not None
    assert steps[1] == Leave(Call("this_cpu_ptr", (Call("slot", (Local("shelf"), cast)),)))
    assert notes == []


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("shelf->books + round_up(i, 8)", "vendor_magic(shelf, i)", "vendor_magic: no definition was found"),
        ("static void *find", "static void *fund", "find: no definition was found"),
        ("j = 7;", "switch (j) { }", "a statement that is not understood: switch (j) { }"),
        ("j = 7;", "map->ops->map_lookup_elem(map, key);", "a statement that is not understood: map->ops"),
        ("j = 7;", "i <<= 1;", "a statement that is not understood: i <<= 1;"),
        ("j = 7;", "shelf->width += 1;", "a statement that is not understood: shelf->width += 1;"),
        ("j = 7;", "j = elsewhere;", "a statement that is not understood: j = elsewhere;"),
        ("j = 7;", "WARN_ON_ONCE(i > 7);", "WARN_ON_ONCE: no definition was found"),
        ("j = 7;", "j = shelf->nothing;", "a statement that is not understood: j = shelf->nothing;"),
        ("j = 7;", "u32 i = 7;", "a statement that is not understood: u32 i = 7;"),
        ("j = 7;", "return ({ j; });", "a statement that is not understood: return ({ j; });"),
        ("\tj = 7;", "#ifdef CONFIG_SEVEN\n\tj = 7;\n#endif", "the configuration decides what"),
        ("return shelf->books", "return return shelf->books", "does not parse"),
    ],
)
def test_a_planted_construct_is_told(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert FILE.count(old) == 1
    _, _, notes = read(tmp_path, "shelf_lookup", text=FILE.replace(old, new))
    assert any(said in note for note in notes), notes


def test_json_and_back() -> None:
    for name in ("5.10", "6.1", "6.12", "7.3"):
        release = load_release(name)
        assert release.bodies
        for function, body in release.bodies.items():
            tree = json.loads(json.dumps(encode_c(body)))
            assert decode_c(function, tree, "f", "$", 48) == body
            assert not any(isinstance(step, Unreadable) for step in steps_of(body.steps or ()))


def test_bodies_of_the_releases() -> None:
    old, new = load_release("5.10").bodies, load_release("6.1").bodies
    elem_size, mask = (Member(Deref(Local("array")), "bpf_array", name, U32) for name in ("elem_size", "index_mask"))
    value = Member(Deref(Local("array")), "bpf_array", "value", Array(Char()))
    index = Binary("&", Local("index"), mask)
    steps = {name: bodies["array_map_lookup_elem"].steps or () for name, bodies in (("old", old), ("new", new))}
    assert steps["old"][-1] == Leave(Binary("+", value, Binary("*", elem_size, index)))
    assert steps["new"][-1] == Leave(Binary("+", value, Binary("*", Cast(Integer(64, False), elem_size), index)))
    assert sorted(load_release("7.3").bodies.keys() - old.keys()) == [
        "array_map_elem_ptr",
        "bpf_each_rhash_elem",
        "bpf_for_each_array_elem",
        "bpf_for_each_hash_elem",
        "htab_elem_get_ptr",
        "htab_elem_value",
        "htab_is_percpu",
        "htab_percpu_map_lookup_elem",
        "percpu_array_map_lookup_elem",
        "rhashtable_next_key",
        "rhtab_elem_value",
        "rhtab_lookup_elem",
        "rhtab_map_lookup_elem",
    ]
    assert [name for name, body in load_release("7.3").bodies.items() if body.steps is None] == [
        "__htab_map_lookup_elem",
        "rhashtable_next_key",
        "rhtab_lookup_elem",
    ]


GOOD: dict[str, Any] = {
    "file": "kernel/bpf/x.c",
    "line": 1,
    "result": ["void"],
    "params": [["a", ["integer", 32, True, False]]],
    "steps": [["leave", ["local", "a"]]],
}


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"line": -1}, "$.line"),
        ({"line": True}, "$.line"),
        ({"line": 1 << 31}, "$.line"),
        ({"file": ""}, "$.file"),
        ({"more": 1}, "$"),
        ({"result": ["void", 1]}, "$.result"),
        ({"result": ["integer", 33, True, False]}, "$.result"),
        ({"result": ["integer", 32, 1, False]}, "$.result[2]"),
        ({"result": "void"}, "$.result"),
        ({"result": []}, "$.result"),
        ({"result": ["local", "a"]}, "$.result"),
        ({"params": [["a"]]}, "$.params"),
        ({"params": {"a": 1}}, "$.params"),
        ({"params": [[7, ["void"]]]}, "$.params[0][0]"),
        ({"steps": 7}, "$.steps"),
        ({"steps": [["leave"]]}, "$.steps[0]"),
        ({"steps": [["leave", 7]]}, "$.steps[0][1]"),
        ({"steps": [["leave", ["local", "a" * 5000]]]}, "$.steps[0][1][1]"),
        ({"steps": [["leave", ["number", 1 << 64, ["integer", 64, False, False]]]]}, "$.steps[0][1][1]"),
        ({"steps": [["leave", ["number", 1, ["void"]]]]}, "$.steps[0][1]"),
        ({"steps": [["do", None]]}, "$.steps[0][1]"),
        ({"steps": [["branch", ["local", "a"], [], None]]}, "$.steps[0][3]"),
        ({"steps": [[["leave"], None]]}, "$.steps[0]"),
        ({"steps": [["loop", [], [], None, []]]}, "$.steps[0]"),
        ({"steps": [["loop", [], [], None, [], ["break"]]]}, "$.steps[0][5][0]"),
        ({"steps": [["each", 1, "a", "b", ["null"], "s", "m", []]]}, "$.steps[0][1]"),
        ({"steps": [["goto", None]]}, "$.steps[0][1]"),
        ({"params": [["f", ["pointer", ["routine", ["void"], ["void"]]]]]}, "$.params[0][1][2][0]"),
    ],
)
def test_damaged_json(change: dict[str, Any], place: str) -> None:
    with pytest.raises(InputError) as caught:
        decode_c("f", GOOD | change, "file.json", "$", 48)
    assert (caught.value.file, caught.value.place) == ("file.json", place)
    assert "\n" not in str(caught.value)


def test_nesting_is_bounded() -> None:
    expr: Any = ["local", "a"]
    for _ in range(100):
        expr = ["unary", "!", expr]
    with pytest.raises(InputError, match="fewer nested levels"):
        decode_c("f", GOOD | {"steps": [["leave", expr]]}, "f", "$", 48)
