"""The extractor on a small tree: what it reads, and that a planted change shows in the rows."""

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kernel_mini_tree import FILES, write_tree

from model.errors import InputError, Unsupported
from model.kernel.c_body import Integer, Invoke, Leave, Local, Number, Param, Pointer, Routine, Unreadable
from model.kernel.data import dump_release, read_release
from model.kernel.extract import extract
from model.kernel.release import (
    Apply,
    Const,
    Decline,
    Emit,
    Field,
    If,
    Name,
    Offset,
    Opaque,
    Release,
)

BOX, BAG = "kernel/bpf/box.c", "kernel/bpf/bag.c"
HELPERS, VERIFIER, FIXUPS = "kernel/bpf/helpers.c", "kernel/bpf/verifier.c", "kernel/bpf/fixups.c"


@pytest.fixture
def release(tmp_path: Path) -> Release:
    return extract(write_tree(tmp_path))


def accepted(release: Release, helper: str) -> dict[str, str]:
    return {kind: row.condition for kind, row in release.accepted[helper].items() if row.accepted}


def test_head(release: Release) -> None:
    assert (release.name, release.version) == ("9.4", "9.4.2")
    assert release.origin == "extracted from a linux 9.4.2 source tree"
    assert (release.insn_buf, release.poison_for_each) == (24, "stays")
    assert release.percpu_insn == {"riscv64"}
    assert release.unread == ()


def test_map_types_have_their_numbers_and_one_row_for_an_alias(release: Release) -> None:
    rows = {row.name: (row.number, row.ops) for row in release.map_types.values()}
    assert rows == {"box": (1, "box_ops"), "bag": (2, "bag_ops"), "crate": (3, None), "locked": (4, "locked_ops")}


def test_tables_without_comments_strings_and_null(release: Release) -> None:
    assert sorted(release.ops) == ["bag_ops", "box_ops", "locked_ops"]
    assert release.ops["bag_ops"].slots == {
        "map_alloc": "bag_alloc",
        "map_get_elem": "bag_get",
        "map_put_elem": "bag_put",
    }
    assert release.ops["box_ops"].slots["map_put_elem"] == "box_put"  # by way of a macro in the initializer
    assert release.meta_equal == {"box": "same_box"}
    assert release.operation("bag", "map_for_each_callback") is None
    assert release.operation("crate", "map_get_elem") is None


def test_functions_with_types_and_lines(release: Release) -> None:
    put = release.functions["box_put"]
    assert (put.prototype.result.c, put.prototype.result.bits, put.prototype.result.signed) == ("long", 64, True)
    assert [(c.c, c.bits, c.pointer) for c in put.prototype.params] == [
        ("struct bpf_map *", 64, True),
        ("void *", 64, True),
        ("void *", 64, True),
        ("u64", 64, False),
    ]
    assert (put.file, put.line) == (BOX, 18)
    made = release.functions["bag_get"]  # MAKE_GET(bag)
    assert (made.prototype.result.c, made.file, made.line) == ("void *", BAG, 8)
    assert release.functions["each_args"].file == HELPERS
    assert release.callbacks == {"box_each"}
    assert release.slots["map_for_each_callback"].params[1].c == "bpf_callback_t"
    assert "map_btf_id" not in release.slots


def test_walks_as_data(release: Release) -> None:
    zero, u64 = Number(0, Integer(32, True)), Integer(64, False)
    body = release.bodies["box_each"]
    assert body.steps == (Leave(Invoke(Local("callback_fn"), (zero,) * 5)),)
    assert body.params[1] == Param("callback_fn", Pointer(Routine(u64, (u64,) * 5)))
    assert "bag_get" not in release.bodies


def test_a_walk_with_a_statement_that_has_no_rule(tmp_path: Path) -> None:
    odd = "do { } while (0);\n\treturn callback_fn("
    release = extract(write_tree(tmp_path, (BOX, "return callback_fn(", odd)))
    assert release.bodies["box_each"].steps is not None
    assert release.bodies["box_each"].steps[0] == Unreadable("do { } while (0);", 48)
    line = "kernel/bpf/box.c:48: box_each: a statement that is not understood: do { } while (0);"
    assert line in release.unread


def test_helpers(release: Release) -> None:
    assert release.helper_ids == {"map_lookup_elem": 1, "map_put": 2, "for_each_map_elem": 7}
    get, each = release.helpers["map_lookup_elem"], release.helpers["for_each_map_elem"]
    assert (get.function, get.slot, get.arguments, get.line) == ("bpf_map_get", "map_get_elem", (0, 1), 5)
    assert get.result_cast is not None
    assert get.result_cast.c == "unsigned long"
    assert [c.c for c in each.params] == ["struct bpf_map *", "void *", "void *", "u32"]
    assert each.result_cast is None


def test_acceptance(release: Release) -> None:
    assert accepted(release, "map_lookup_elem") == {"box": ""}  # a bag's keys are empty, map_lookup_elem wants one
    assert "0 bytes" in release.accepted["map_lookup_elem"]["bag"].reason
    assert accepted(release, "map_put") == {
        "box": "",
        "bag": "programs of type xdp, sched_cls, tracing (how == BPF_TRACE_ITER)",
    }
    assert accepted(release, "for_each_map_elem") == {"box": ""}
    assert "check_map_prog_compatibility" in release.accepted["map_put"]["locked"].reason
    assert "no operations" in release.accepted["map_put"]["crate"].reason


def test_rewrites_in_order(release: Release) -> None:
    assert [(row.helper, row.slot) for row in release.rewrites] == [
        ("map_put", "map_put_elem"),
        ("map_lookup_elem", "map_get_elem"),
        ("for_each_map_elem", "map_for_each_callback"),
    ]
    put = release.rewrites[0]
    assert put.prototype is not None
    assert put.prototype.result.bits == 64
    assert (put.function, put.file, put.line) == ("bpf_do_misc_fixups", FIXUPS, 35)


def test_gen_lookup_as_data(release: Release) -> None:
    body = release.gen_lookup["box_gen"].body
    r0, r2, limit = Name("BPF_REG_0"), Name("BPF_REG_2"), Field("map.max_entries", 32, False)
    assert body == (
        If(Apply("!", (Apply("jit_can", ()),)), (Decline("EOPNOTSUPP"),), ()),
        Emit("BPF_LDX_MEM", (Name("BPF_W"), r0, r2, Const(0)), 33),
        If(
            Field("map.trusted", 8, False),
            (Emit("BPF_JMP_IMM", (Name("BPF_JGE"), r0, limit, Const(2)), 35),),
            (Emit("BPF_ALU32_IMM", (Name("BPF_AND"), r0, Field("box.mask", 32, False)), 37),),
        ),
        Emit(
            "BPF_ALU64_IMM",
            (
                Name("BPF_ADD"),
                r0,
                Apply(
                    "+",
                    (
                        Offset("box_elem", "key"),
                        Apply("round_up", (Field("map.key_size", 32, False), Const(8))),
                    ),
                ),
            ),
            39,
        ),
    )
    assert release.layout == {"struct box_elem.key": 16}


def test_written_and_read_back_is_the_same(release: Release) -> None:
    text = dump_release(release)
    assert read_release(text, "x") == release
    assert dump_release(read_release(text, "x")) == text


def test_twice_is_the_same_text(tmp_path: Path) -> None:
    one, two = write_tree(tmp_path / "one"), write_tree(tmp_path / "two")
    assert dump_release(extract(one)) == dump_release(extract(two))
    assert str(tmp_path) not in dump_release(extract(one))


def test_swapped_slot_shows(tmp_path: Path) -> None:
    tree = write_tree(tmp_path, (BAG, ".map_get_elem = bag_get,\n\t.map_put", ".map_get_elem = bag_put,\n\t.map_put"))
    assert extract(tree).ops["bag_ops"].slots["map_get_elem"] == "bag_put"


def test_int_for_long_shows_in_function_and_demand(tmp_path: Path) -> None:
    tree = write_tree(tmp_path, (BOX, "static long\nbox_put", "static int\nbox_put"), (FIXUPS, "(long (*)", "(int (*)"))
    release = extract(tree)
    assert release.functions["box_put"].prototype.result.bits == 32
    demanded = release.rewrites[0].prototype
    assert demanded is not None
    assert (demanded.result.c, demanded.result.bits, demanded.result.signed) == ("int", 32, True)


def test_helper_wired_to_another_slot_shows(tmp_path: Path) -> None:
    tree = write_tree(tmp_path, (HELPERS, "ops->map_put_elem(map, key, value, flags)", "ops->map_get_elem(map, value)"))
    helper = extract(tree).helpers["map_put"]
    assert (helper.slot, helper.arguments) == ("map_get_elem", (0, 2))


def test_rewrite_to_another_slot_shows(tmp_path: Path) -> None:
    tree = write_tree(tmp_path, (FIXUPS, "BPF_CALL_IMM(ops->map_put_elem)", "BPF_CALL_IMM(ops->map_get_elem)"))
    assert {row.helper: row.slot for row in extract(tree).rewrites}["map_put"] == "map_get_elem"


SACK = """static short sack_peep(struct bpf_map *map, u8 much)
{
}
const struct bpf_map_ops sack_ops = { .map_peep_elem = sack_peep };
"""
PEEP = """BPF_CALL_2(bpf_map_peep, struct bpf_map *, map, u8, much)
{
	return map->ops->map_peep_elem(map, much);
}
const struct bpf_func_proto peep_proto = { .func = bpf_map_peep };
"""


def before(file: str, old: str, new: str) -> tuple[str, str, str]:
    return file, old, new + old


def test_a_new_map_type_and_helper_come_by_themselves(tmp_path: Path) -> None:
    tree = write_tree(
        tmp_path,
        before("include/uapi/linux/bpf.h", "\t__MAX", "\tBPF_MAP_TYPE_SACK,\n"),
        before("include/uapi/linux/bpf.h", "\t/* there", "\tFN(map_peep, 9, ##ctx)\t\\\n"),
        before(
            "include/linux/bpf_types.h", "BPF_MAP_TYPE(BPF_MAP_TYPE_BAG,", "BPF_MAP_TYPE(BPF_MAP_TYPE_SACK, sack_ops)\n"
        ),
        before(
            "include/linux/bpf.h", "\tint *map_btf_id;", "\tshort (*map_peep_elem)(struct bpf_map *map, u8 much);\n"
        ),
        before(BAG, "const struct bpf_map_ops bag_ops", SACK),
        before(HELPERS, "BPF_CALL_4(bpf_each_one", PEEP),
        before(HELPERS, "\tcase BPF_FUNC_map_put:", "\tcase BPF_FUNC_map_peep:\n\t\treturn &peep_proto;\n"),
    )
    release = extract(tree)
    assert (release.map_types["sack"].number, release.map_types["sack"].ops) == (5, "sack_ops")
    assert release.functions["sack_peep"].prototype.result.bits == 16
    assert release.helpers["map_peep"].id == 9
    assert accepted(release, "map_peep").keys() == {"box", "sack"}  # the switch has no word against it
    assert release.rewrite("map_peep") is None
    assert release.unread == ()


def test_poisoned_pointers_refused_for_for_each_shows(tmp_path: Path) -> None:
    test = "if (bpf_map_ptr_poisoned(aux)) {\n\t\tverbose(env);\n\t\treturn -EINVAL;\n\t}\n"
    old = "\tif (!map->ops->map_set_for"
    assert extract(write_tree(tmp_path, (VERIFIER, old, f"\t{test}{old}"))).poison_for_each == "refused"


def test_static_functions_of_one_name_stay_apart(tmp_path: Path) -> None:
    tree = write_tree(
        tmp_path,
        (BAG, "static long bag_put", "static long box_put"),
        (BAG, ".map_put_elem = bag_put", ".map_put_elem = box_put"),
    )
    release = extract(tree)
    assert release.ops["bag_ops"].slots["map_put_elem"] == f"box_put@{BAG}"
    assert release.ops["box_ops"].slots["map_put_elem"] == f"box_put@{BOX}"
    assert release.functions[f"box_put@{BAG}"].name == "box_put"
    assert read_release(dump_release(release), "x") == release


UNREAD = (
    ("a longer helper body", (HELPERS, "\treturn map->ops->map_put_elem", "\tkey++;\n\treturn map->ops->map_put_elem"),
     "kernel/bpf/helpers.c:15: bpf_map_put calls map->ops in a body that does more"),
    ("a constant handed over", (HELPERS, "map_put_elem(map, key, value, flags)", "map_put_elem(map, key, value, 0)"),
     "kernel/bpf/helpers.c:15: bpf_map_put: hands over something else"),
    ("a helper without a number", (HELPERS, "\tcase BPF_FUNC_map_put:\n\t\treturn &bpf_map_put_proto;\n", ""),
     "kernel/bpf/helpers.c:15: bpf_map_put: expected one helper with this function"),
    ("a type of unknown width", (BOX, "static bool same_box", "static verdict same_box"),
     "same_box: a type of unknown width: verdict"),
    ("a parameter of type void", (BOX, "void *value, u64 flags)\n{", "void value, u64 flags)\n{"),
     "box_put: a parameter of type void"),
    ("a missing function", (BOX, "static long\nbox_put(", "static long\nbox_set("), "box_put: no definition"),
    ("an unknown macro", (BOX, "\tPAIR(box),", "\tTRIPLE(box),"), "a macro that is not in this file: TRIPLE(box)"),
    ("a loop in gen_lookup", (BOX, "\tBUILD_BUG_ON(", "\twhile (1) ;\n\tBUILD_BUG_ON("),
     "kernel/bpf/box.c:32: a statement that is not understood: while (1)"),
    ("a converting local", (BOX, "const int ret = BPF_REG_0,", "const int n = map->trusted, ret = BPF_REG_0,"),
     "kernel/bpf/box.c:28: a local that converts its value"),
    ("a case of another shape", (FIXUPS, "insn->imm = BPF_CALL_IMM(ops->map_put_elem)", "insn->imm = pick(ops)"),
     "map_put is in the pass's list, but has no case of its own"),
    ("no poison test", (FIXUPS, "if (bpf_map_ptr_poisoned(aux))", "if (odd(aux))"), "whether the map pointer is pois"),
    ("no 64-bit test", (FIXUPS, "BITS_PER_LONG == 64 &&", "true &&"), "the pass does not ask for BITS_PER_LONG == 64"),
    ("a loop in the verifier's check", (VERIFIER, "\tif (!map)\n", "\twhile (x)\n\t\tgo();\n\tif (!map)\n"),
     "check_map_func_compatibility: a statement that is not understood: while"),
    ("a rewrite of a helper without a body", (HELPERS, "BPF_CALL_4(bpf_map_put,", "SOME_CALL(bpf_map_put,"),
     "kernel/bpf/fixups.c:35: map_put is rewritten, but no body of it was read"),
    ("a table that does not parse", (BAG, ".map_alloc = bag_alloc,", ".map_alloc = = bag_alloc,"),
     "kernel/bpf/bag.c:13: a table: the parser found an error in here"),
    ("a check that does not parse", (VERIFIER, "goto error;", "goto ) error;"),
     "check_map_func_compatibility: the parser found an error in here"),
    ("a table that is nowhere", ("include/linux/bpf_types.h", "locked_ops", "lost_ops"), "no table was found for lock"),
)  # fmt: skip


@pytest.mark.parametrize(("change", "line"), [row[1:] for row in UNREAD], ids=[row[0] for row in UNREAD])
def test_what_is_not_understood_is_named_and_not_guessed(
    tmp_path: Path, change: tuple[str, str, str], line: str
) -> None:
    release = extract(write_tree(tmp_path, change))
    assert any(line in row for row in release.unread), release.unread


def test_an_unread_statement_is_opaque_in_its_place(tmp_path: Path) -> None:
    body = (
        extract(write_tree(tmp_path, (BOX, "\tBUILD_BUG_ON(", "\tcount++;\n\tBUILD_BUG_ON(")))
        .gen_lookup["box_gen"]
        .body
    )
    assert body[1] == Opaque("count++;", 32)


def test_an_unread_function_is_unsupported_when_asked_for(tmp_path: Path) -> None:
    release = extract(write_tree(tmp_path, (BOX, "static long\nbox_put(", "static verdict\nbox_put(")))
    assert "box_put" not in release.functions
    with pytest.raises(Unsupported, match="box_put"):
        release.operation("box", "map_put_elem")


@pytest.mark.parametrize(
    ("missing", "expected"),
    [
        ("Makefile", "Makefile"),
        ("include/uapi/linux/bpf.h", "include/uapi/linux/bpf.h"),
        ("include/linux/bpf_types.h", "include/linux/bpf_types.h"),
        ("include/linux/bpf.h", "include/linux/bpf.h"),
        (HELPERS, "expected BPF_CALL_n bodies"),
        (VERIFIER, VERIFIER),
        (FIXUPS, "expected a pass that calls ops->map_gen_lookup"),
    ],
)
def test_half_a_tree_is_one_clear_line(tmp_path: Path, missing: str, expected: str) -> None:
    tree = write_tree(tmp_path)
    (tree / missing).unlink()
    with pytest.raises(InputError) as caught:
        extract(tree)
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


def test_something_else_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Makefile"):
        extract(tmp_path)
    with pytest.raises(InputError, match="expected a directory"):
        extract(tmp_path / "nowhere")
    (tmp_path / "Makefile").write_text("all:\n\tcc main.c\n")
    with pytest.raises(InputError, match="VERSION, PATCHLEVEL"):
        extract(tmp_path)


def test_nested_without_end_is_refused(tmp_path: Path) -> None:
    for deep in ("(" * 30000 + "a" + ")" * 30000, "{" * 30000, "!" * 30000 + "a"):
        change = (VERIFIER, "if (!map)", f"if ({deep})")
        tree = write_tree(tmp_path, change)
        with suppress(InputError):
            assert extract(tree).name == "9.4"


@pytest.mark.parametrize(("levels", "noted"), [(10, False), (60, True), (200, True)])
def test_what_a_release_file_does_not_hold_is_not_read(tmp_path: Path, levels: int, noted: bool) -> None:
    """Branches in one another: read, written and read again, or named and left out."""
    deep = "if (map->trusted) { " * levels + "*insn++ = BPF_LDX_MEM(BPF_W, ret, at, 0);" + " }" * levels
    release = extract(write_tree(tmp_path, (BOX, "BUILD_BUG_ON(sizeof(u32) != 4);", deep)))
    assert any("box_gen: nested in more than 40 levels" in note for note in release.unread) is noted
    assert ("box_gen" in release.gen_lookup) is not noted
    assert read_release(dump_release(release), "x") == release


@pytest.mark.parametrize("char", ["\x9b", "\u2028", "\U000e0001"])
def test_what_is_not_printable_is_escaped(tmp_path: Path, char: str) -> None:
    release = extract(write_tree(tmp_path, (BOX, "BUILD_BUG_ON(sizeof(u32) != 4);", f'odd("{char}");')))
    text = dump_release(release)
    assert all(one.isprintable() or one == "\n" for one in text)
    assert read_release(text, "x") == release


SOURCES = sorted(file for file in FILES if file.endswith((".c", ".h")) or file == "Makefile")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_mutated_bytes_give_rows_or_input_error(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    tree = write_tree(tmp_path_factory.mktemp("mutated"))
    file = data.draw(st.sampled_from(SOURCES))
    raw = bytearray((tree / file).read_bytes())
    for _ in range(data.draw(st.integers(1, 8))):
        at = data.draw(st.integers(0, len(raw)))
        piece = data.draw(st.binary(max_size=3) | st.sampled_from([b"(", b"}", b"/*", b'"', b"#", b";", b"NULL", b","]))
        raw[at : at + data.draw(st.integers(0, 12))] = piece
    (tree / file).write_bytes(bytes(raw))
    try:
        release = extract(tree)
    except InputError:
        return
    assert read_release(dump_release(release), "x") == release
