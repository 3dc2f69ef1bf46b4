"""Trees as developers patch them: the same facts in other words are the same rows, what may be another is a hole."""

from pathlib import Path

import pytest
from kernel_mini_tree import write_tree

from model.kernel.abi import ABIS
from model.kernel.c_tree import Unread
from model.kernel.c_types import read_type
from model.kernel.data import dump_release, read_release
from model.kernel.extract import extract
from model.kernel.release import Release
from model.kernel.release_facts import compare
from proofs.check_release import check
from proofs.obligation import NoRule
from proofs.outcome import word
from proofs.solver import Solver

BOX, BAG, TYPES = "kernel/bpf/box.c", "kernel/bpf/bag.c", "include/linux/bpf_types.h"
HELPERS, VERIFIER = "kernel/bpf/helpers.c", "kernel/bpf/verifier.c"
BPF, UAPI = "include/linux/bpf.h", "include/uapi/linux/bpf.h"
Change = tuple[str, str, str]

PUT = "static long\nbox_put(struct bpf_map *map, void *key,\n\tvoid *value, u64 flags)\n"
GET = ".map_get_elem = box_get,"
SLOT = "\tlong (*map_put_elem)(struct bpf_map *map, void *key,\n\t\t\t     void *value, u64 flags);\n"
PARAMS = "(struct bpf_map *map, void *key, void *value, u64 flags)"
BAG_TABLE = (
    "const struct bpf_map_ops bag_ops = {\n\t.map_alloc = bag_alloc,\n\t.map_get_elem = bag_get,\n"
    "\t.map_put_elem = bag_put,\n\t.map_for_each_callback = NULL,\n};\n"
)
BAG_MACRO = (
    "#define TABLE(n, more) \\\n\tconst struct bpf_map_ops n##_ops = { \\\n\t\t.map_alloc = n##_alloc, more, \\\n"
    "\t\t.map_put_elem = n##_put }\nTABLE(bag, .map_get_elem = bag_get);\n"
)
ONLY_GET = "\t\tif (func_id != BPF_FUNC_map_lookup_elem && !may_put(env, func_id))\n\t\t\tgoto error;\n\t\tbreak;\n"


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Release:
    return extract(write_tree(tmp_path_factory.mktemp("plain")))


SAME = (
    ("a cast", (BOX, GET, ".map_get_elem = (void *)box_get,")),
    ("a cast to a function", (BOX, GET, ".map_get_elem = (void *(*)(struct bpf_map *, void *))&box_get,")),
    ("comments in odd places", (BOX, GET, "./* a */map_get_elem // =\n\t\t= /* other, */ box_get /*,*/,")),
    ("a row for some configurations", (BOX, GET, f"#ifdef CONFIG_BOXES\n\t{GET}\n#endif")),
    ("K&R", (BOX, PUT, "static long box_put (struct bpf_map * map , void * key , void * value , u64 flags )\n")),
    ("attributes", (BOX, PUT, f"static __must_check long __attribute__((used, cold))\n__init box_put{PARAMS}\n")),
    ("an annotation behind", (BOX, PUT, f"static long box_put{PARAMS} __acquires(RCU)\n")),
    ("words of a type in another order", (BOX, PUT, f"long static int box_put{PARAMS}\n")),
    ("a table with an attribute", (BOX, "box_ops = {", "box_ops __ro_after_init __section(\".ro\") = {")),
    ("const behind", (BOX, "const struct bpf_map_ops box_ops", "struct bpf_map_ops const box_ops")),
    ("a table by a macro", (BAG, BAG_TABLE, BAG_MACRO)),
    ("notrace", (HELPERS, "BPF_CALL_4(bpf_map_put", "notrace BPF_CALL_4(bpf_map_put")),
    ("spaces", (HELPERS, "BPF_CALL_4(bpf_map_put", "  BPF_CALL_4 ( bpf_map_put")),
    ("a number in another base", (UAPI, "BPF_MAP_TYPE_CRATE,", "BPF_MAP_TYPE_CRATE = 0x3,")),
    ("constants first", (VERIFIER, "func_id != BPF_FUNC_map_lookup_elem", "BPF_FUNC_map_lookup_elem != func_id")),
    ("a case that falls through", (VERIFIER, ONLY_GET, ONLY_GET.replace("break;", "fallthrough;"))),
    ("a switch in a switch", (VERIFIER, ONLY_GET,
        "\t\tswitch (func_id) {\n\t\tcase BPF_FUNC_map_lookup_elem:\n\t\t\tbreak;\n\t\tdefault:\n"
        "\t\t\tif (!may_put(env, func_id))\n\t\t\t\treturn -EPERM;\n\t\t}\n\t\tbreak;\n")),
)  # fmt: skip


def facts(plain: Release, tree: Path) -> list[str]:
    """How the tree's rows differ from the plain tree's: places apart, nothing may."""
    return [str(row) for row in compare(plain, extract(tree)).differences]


@pytest.mark.parametrize("change", [row[1] for row in SAME], ids=[row[0] for row in SAME])
def test_the_same_in_other_words(tmp_path: Path, plain: Release, change: Change) -> None:
    assert facts(plain, write_tree(tmp_path, change)) == []


@pytest.mark.parametrize(
    ("typedef", "member"),
    [
        (f"typedef long (*put_fn){PARAMS};\n", "put_fn map_put_elem"),
        (f"typedef long put_fn{PARAMS};\n", "put_fn *map_put_elem"),
    ],
)
def test_a_slot_by_a_typedef(tmp_path: Path, plain: Release, typedef: str, member: str) -> None:
    changes = (BPF, SLOT, f"\t{member};\n"), (BPF, "struct bpf_map_ops {", f"{typedef}struct bpf_map_ops {{")
    assert facts(plain, write_tree(tmp_path, *changes)) == []


# Case, change, the hole, words of its reason.
HOLES = (
    ("one of two functions", (BOX, GET, ".map_get_elem = IS_ENABLED(CONFIG_A) ? box_get : box_other,"),
     "ops:box_ops", "kernel/bpf/box.c:54: an initializer that is not understood"),
    ("a slot that is set twice", (BOX, GET, f"#ifdef A\n\t{GET}\n#endif\n#ifndef A\n\t.map_get_elem = f,\n#endif\n"),
     "ops:box_ops", "a second initializer of map_get_elem"),
    ("a slot of two prototypes", (BPF, SLOT, f"#ifdef A\n{SLOT}#else\n{SLOT.replace('long', 'int')}#endif\n"),
     "slot:map_put_elem", "a second member (*map_put_elem) with another prototype"),
    ("two tables for a type", (TYPES, "#endif", "#else\nBPF_MAP_TYPE(BPF_MAP_TYPE_BOX, bag_ops)\n#endif"),
     "type:box", "include/linux/bpf_types.h:4: a second row for BPF_MAP_TYPE_BOX: bag_ops"),
    ("numbers by configuration", (UAPI, "\tBPF_MAP_TYPE_CRATE,", "#ifdef A\n\tBPF_MAP_TYPE_CRATE,\n#endif"),
     "type:*", "enum bpf_map_type: preprocessor branches inside"),
    ("operations in a local", (HELPERS, "return map->ops->map_put_elem(", "O = map->ops;\n\treturn O->map_put_elem("),
     "helper:map_put", "kernel/bpf/helpers.c:15: bpf_map_put calls map->ops in a body that does more"),
    ("operations by a macro", (HELPERS, "map->ops->map_put_elem(map,", "IND(map->ops->map_put_elem, box_put, map,"),
     "helper:map_put", "kernel/bpf/helpers.c:15: bpf_map_put calls map->ops in a body that does more"),
    ("a parameter of no type", (HELPERS, "void *, ctx, u32, flags)", "void, ctx, u32, flags)"),
     "helper:for_each_map_elem", "kernel/bpf/helpers.c:25: bpf_each_one: a parameter of type void: "),
)  # fmt: skip


@pytest.mark.parametrize(("change", "hole", "reason"), [row[1:] for row in HOLES], ids=[row[0] for row in HOLES])
def test_what_may_be_either_is_a_hole(tmp_path: Path, change: Change, hole: str, reason: str) -> None:
    release = extract(write_tree(tmp_path, change))
    assert reason in release.holes[hole]
    assert read_release(dump_release(release), "dumped") == release


def refused(condition: str) -> str:
    return f"if ({condition}) goto error; break;"


# What the branch for bags asks instead, and what of it is not understood.
ASKED = (
    ("return func_id == BPF_FUNC_map_put ? 0 : -EINVAL;", "a result that is not understood: return func_id =="),
    ("return check_bag(func_id);", "a result that is not understood: return check_bag(func_id)"),
    ("if (func_id == BPF_FUNC_map_put) goto fine; goto error;", "a result that is not understood: goto fine"),
    (refused("!is_put(func_id)"), "a condition that is not understood: is_put(func_id)"),
    (refused("func_id < 3"), "a condition that is not understood: func_id < 3"),
    (refused("func_id != odd()"), "a condition that is not understood: func_id != odd()"),
    (refused("!may_put(env, func_id + 1)"), "a call that is not understood: may_put(env, func_id + 1)"),
    ("{ bool put = func_id == BPF_FUNC_map_put;" + refused("!put") + "}",
     "a statement that is not understood: bool put = func_id =="),
    ("\n#ifdef A\n" + refused("func_id != BPF_FUNC_map_put") + "\n#endif\nbreak;",
     "a case that is not understood: #ifdef A"),
    ("switch (func_id & 7) { case 2: break; default: goto error; } break;", "a case that is not understood: case 2:"),
)  # fmt: skip


@pytest.mark.parametrize(("asked", "reason"), ASKED, ids=[row[1].partition(": ")[2] for row in ASKED])
def test_a_check_that_is_not_understood_accepts_and_refuses_nothing(tmp_path: Path, asked: str, reason: str) -> None:
    release = extract(write_tree(tmp_path, (VERIFIER, ONLY_GET, asked)))
    assert reason in release.holes["accepted:bag/map_put"]
    assert not release.accepted["map_put"]["bag"].accepted


def test_a_condition_on_something_else_is_told(tmp_path: Path) -> None:
    release = extract(write_tree(tmp_path, (VERIFIER, ONLY_GET, refused("!bpf_allow(env)"))))
    row = release.accepted["map_put"]["bag"]
    assert (row.accepted, row.condition, release.holes) == (True, "bpf_allow(env)", {})


def test_a_callback_of_5_15_is_called_by_the_operation_itself(tmp_path: Path) -> None:
    """There it is a `void *`, called through a cast."""
    each = "(struct bpf_map *map, {} callback_fn, void *callback_ctx"
    call = "return callback_fn("
    release = extract(
        write_tree(
            tmp_path,
            (BOX, each.format("bpf_callback_t"), each.format("void *").replace("* ", "*")),
            (BOX, call, "return BPF_CAST_CALL(callback_fn)("),
        )
    )
    assert release.callbacks == {"box_each"}
    assert not any("does not call its callback" in line for line in release.unread)


@pytest.mark.parametrize(
    ("text", "bits", "signed"),
    [
        ("long unsigned int", 64, False),
        ("unsigned long int", 64, False),
        ("int long long", 64, True),
        ("short unsigned int", 16, False),
        ("signed long", 64, True),
        ("int signed", 32, True),
        ("int unsigned", 32, False),
    ],
)
def test_the_words_of_a_type_come_in_any_order(text: str, bits: int, signed: bool) -> None:
    found = read_type(text, lambda name: None)
    assert (found.bits, found.signed, found.pointer) == (bits, signed, False)


@pytest.mark.parametrize("text", ["long char", "unsigned signed", "short long", "long long long"])
def test_what_is_no_type_is_not_read(text: str) -> None:
    with pytest.raises(Unread):
        read_type(text, lambda name: None)


@pytest.mark.parametrize(
    ("kind", "arch", "expected"),
    [
        ("u64", "x86_64", "proved"),
        ("u16", "x86_64", "clang takes it for extended"),
        ("u16", "arm64", "proved"),
        ("u16", "s390x", "refuted"),
        ("bool", "arm64", "a conversion to bool"),
    ],
)
def test_an_operation_with_an_argument_of_a_few_bits(tmp_path: Path, kind: str, arch: str, expected: str) -> None:
    narrow = f"{kind} flags)"
    slot, put = SLOT.replace("u64 flags)", narrow), PUT.replace("u64 flags)", narrow)
    bag = "static long bag_put(struct bpf_map *map, void *key, void *value, u64 flags)"
    changes = (BPF, SLOT, slot), (BOX, PUT, put), (BAG, bag, bag.replace("u64 flags)", narrow))
    cells = check(extract(write_tree(tmp_path, *changes)), ABIS[arch], Solver(), "*/box/map_put")
    found = next(cell.verdict for cell in cells if cell.verdict is not None)
    assert expected in (found.reason if isinstance(found, NoRule) else word(found))
