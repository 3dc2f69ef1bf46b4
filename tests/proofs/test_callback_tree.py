"""Walks as a source tree has them: small C of our own, read, proved, and each planted change refuted or named."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from model.errors import Unsupported
from model.kernel.c_body import Each, Loop, Unreadable, steps_of
from model.kernel.c_tree import Notes, Tree
from model.kernel.c_types import typedefs
from model.kernel.data import dump_release, load_release, read_release
from model.kernel.extract_c_body import read_bodies
from model.kernel.release import Release
from proofs.obligation import Obligation
from proofs.outcome import word
from proofs.properties.callback import PARTS, REACH
from proofs.properties.callback_cases import callback_obligations
from proofs.solver import Solver

RELEASE = load_release("6.12")
BPF_H = """
typedef u64 (*bpf_callback_t)(u64, u64, u64, u64, u64);
struct bpf_map { u32 key_size; u32 max_entries; enum bpf_map_type map_type; };
struct bpf_array {
	struct bpf_map map;
	u32 elem_size;
	char value[];
};
"""
ARRAY = """
#include <linux/bpf.h>
static long bpf_for_each_array_elem(struct bpf_map *map, bpf_callback_t visit, void *context, u64 flags)
{
	struct bpf_array *array = container_of(map, struct bpf_array, map);
	u32 at, shown, seen = 0;
	u64 stop;

	if (flags)
		return -EINVAL;
	for (at = 0; at < map->max_entries; at++) {
		void *value = array->value + (u64)array->elem_size * at;

		shown = at;
		stop = visit((u64)(long)map, (u64)(long)&shown, (u64)(long)value, (u64)(long)context, 0);
		seen += 1;
		if (stop)
			break;
	}
	return seen;
}
"""
HASH = """
#include <linux/bpf.h>
#include "lists.h"
struct hlist_nulls_node { struct hlist_nulls_node *next, **back; };
struct hlist_nulls_head { struct hlist_nulls_node *first; };
struct bucket { struct hlist_nulls_head head; };
struct bpf_htab { struct bpf_map map; struct bucket *buckets; u32 n_buckets; };
struct htab_elem { struct hlist_nulls_node hash_node; char key[] __aligned(8); };
static long bpf_for_each_hash_elem(struct bpf_map *map, bpf_callback_t visit, void *context, u64 flags)
{
	struct bpf_htab *table = container_of(map, struct bpf_htab, map);
	struct hlist_nulls_node *node;
	struct htab_elem *one;
	u32 list;
	int seen = 0;

	if (flags > 0)
		return -EINVAL;
	for (list = 0; list < table->n_buckets; ++list) {
		rcu_read_lock();
		hlist_nulls_for_each_entry_safe(one, node, &table->buckets[list].head, hash_node) {
			seen++;
			if (visit((u64)(long)map, (u64)(long)one->key,
				(u64)(long)(one->key + round_up(map->key_size, 8)), (u64)(long)context, 0)) {
				rcu_read_unlock();
				return seen;
			}
		}
		rcu_read_unlock();
	}
	return seen;
}
"""
LISTS = """
#define hlist_nulls_for_each_entry_safe(one, at, list, link) \\
	for (at = rcu_dereference_raw(hlist_nulls_first_rcu(list)); \\
		(!is_a_nulls(at)) && ({ one = hlist_nulls_entry(at, typeof(*one), link); \\
		at = rcu_dereference_raw(hlist_nulls_next_rcu(at)); 1; });)
#define hlist_nulls_for_each_entry_plain(one, at, list, link) \\
	for (at = rcu_dereference_raw(hlist_nulls_first_rcu(list)); \\
		(!is_a_nulls(at)) && ({ one = hlist_nulls_entry(at, typeof(*one), link); 1; }); \\
		at = rcu_dereference_raw(hlist_nulls_next_rcu(at)))
"""
KINDS = {"array": ("kernel/bpf/arraymap.c", ARRAY), "hash": ("kernel/bpf/hashtab.c", HASH)}


def read(tmp_path: Path, kind: str, old: str = "", new: str = "") -> tuple[Release, list[str]]:
    """6.12 with the walk of `kind` from this small tree, and what the tree has that was not read."""
    file, text = KINDS[kind]
    assert old in text + LISTS
    files = {
        file: text.replace(old, new) if old else text,
        "kernel/bpf/lists.h": LISTS.replace(old, new) if old else LISTS,
        "include/linux/bpf.h": BPF_H,
        "include/uapi/asm-generic/errno-base.h": "#define\tEPERM\t\t 1\n#define\tEINVAL\t\t22\n",
    }
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    tree, notes = Tree(tmp_path), Notes()
    table = RELEASE.ops[RELEASE.map_types[kind].ops or ""]
    tables = {table.symbol: replace(table, slots={"map_for_each_callback": table.slots["map_for_each_callback"]})}
    bodies, layout = read_bodies(tree, tables, RELEASE.functions, {}, typedefs(tree), notes)
    return replace(RELEASE, bodies=bodies, layout=layout), list(notes.lines)


def verdicts(release: Release, kind: str, *, bounded: bool = True) -> Mapping[str, str]:
    solver = Solver()
    made: list[Obligation] = callback_obligations(release, kind, bounded=bounded)
    return {one.part: word(solver.decide(one).verdict) for one in made if not one.part.startswith(REACH)}


def refuted(release: Release, kind: str, *, bounded: bool = True) -> set[str]:
    found = verdicts(release, kind, bounded=bounded)
    assert not set(found.values()) - {"proved", "refuted", "unsupported"}
    return {part for part, verdict in found.items() if verdict == "refuted"}


@pytest.mark.parametrize("kind", KINDS)
def test_walks_in_other_words_are_proved(tmp_path: Path, kind: str) -> None:
    release, notes = read(tmp_path, kind)
    assert notes == []
    assert verdicts(release, kind) == dict.fromkeys(PARTS, "proved")
    # The tree's array counts in u32, its hash in int, which a walk without a bound is too long for.
    assert refuted(release, kind, bounded=False) == ({"count", "end"} if kind == "hash" else set())


def test_what_was_read(tmp_path: Path) -> None:
    release, _ = read(tmp_path, "hash")
    steps = list(steps_of(release.bodies["bpf_for_each_hash_elem"].steps or ()))
    (loop,) = (step for step in steps if isinstance(step, Loop))
    (each,) = (step for step in steps if isinstance(step, Each))
    assert each in loop.body
    assert (each.early, each.entry, each.position) == (True, "one", "node")
    assert (each.struct, each.member) == ("htab_elem", "hash_node")
    assert not any(isinstance(step, Unreadable) for step in steps)
    assert release.layout["struct htab_elem.hash_node"] == 0
    assert read_release(dump_release(release), "x").bodies == release.bodies


FAULTS = (
    ("array", "return seen;", "return 0;", {"count", "end"}),
    ("array", "at = 0; at <", "at = 1; at <", {"base", "key", "value", "next", "arguments", "stop", "count"}),
    ("array", "if (stop)", "if (0)", {"stop"}),
    ("array", "if (stop)", "if ((u32)stop)", {"stop"}),
    ("array", "if (flags)", "if (0)", {"flags"}),
    ("array", "-EINVAL", "-EPERM", {"flags"}),
    ("array", "u64 flags)", "u32 flags)", {"flags"}),
    ("array", "shown = at;", "shown = at + 1;", {"key"}),
    ("array", "(u64)(long)&shown", "(u64)(long)map", {"key"}),
    ("array", "at < map->max_entries", "at <= map->max_entries", {"next"}),
    ("array", "at < map->max_entries", "at < map->max_entries - 1", None),
    ("array", "at++", "at += 2", None),
    ("array", "seen += 1", "seen += 2", {"count", "end"}),
    ("array", "\t\tif (stop)\n", "\t\tif (seen & 1)\n\t\t\tcontinue;\n\t\tif (stop)\n", {"stop"}),
    ("array", "array->elem_size * at", "array->elem_size * (u8)at", {"value"}),
    ("array", "(u64)array->elem_size", "array->elem_size", {"value"}),
    ("array", "(u64)(long)context, 0", "0, 0", {"arguments"}),
    ("array", "stop = visit(", "stop = 0;\n\t\tif (at)\n\t\t\tstop = visit(", None),
    ("hash", "return seen;\n}", "return 0;\n}", {"end"}),
    ("hash", "list = 0", "list = 1", None),
    ("hash", "one->key,", "one,", {"key"}),
    ("hash", "round_up(map->key_size, 8)", "map->key_size", {"value"}),
    ("hash", "round_up(map->key_size, 8)", "round_up(map->key_size, 4)", {"value"}),
    ("hash", "buckets[list]", "buckets[0]", {"next"}),
    ("hash", "u32 list", "u16 list", None),
    ("hash", "\t\t\t\treturn seen;", "\t\t\t\tbreak;", {"stop"}),
    ("hash", "entry_safe(", "entry_plain(", {"next"}),
    ("hash", "\t\t\tseen++;\n", "\t\t\tseen++;\n\t\t\tnode = &one->hash_node;\n", {"next"}),
    ("hash", "-EINVAL", "22", {"flags"}),
)  # fmt: skip


@pytest.mark.parametrize(("kind", "old", "new", "parts"), FAULTS, ids=[f"{row[0]}: {row[2].strip()}" for row in FAULTS])
def test_a_planted_change_is_refuted(tmp_path: Path, kind: str, old: str, new: str, parts: set[str] | None) -> None:
    """`parts` None: some; the change shows in many. A part that no fault can be planted in is "unsupported"."""
    release, _ = read(tmp_path, kind, old, new)
    found = refuted(release, kind)
    assert found if parts is None else found == parts


def test_a_count_of_31_bits_shows_in_long_walks_only(tmp_path: Path) -> None:
    release, _ = read(tmp_path, "array", "u32 at, shown, seen = 0;", "u32 at, shown; int seen = 0;")
    assert refuted(release, "array") == set()
    assert refuted(release, "array", bounded=False) == {"count", "end"}


HOLES = (
    ("array", "&shown", "&seen", "nothing is known of seen", ""),
    ("array", "seen += 1;", "seen += tally(at);", "nothing is known of seen", "tally: no definition was found"),
    ("array", "seen += 1;", "seen <<= 1;", "seen <<= 1;", "a statement that is not understood: seen <<= 1;"),
    ("array", "seen += 1;", "do seen++; while (0);", "do seen", "not understood: do seen"),
    ("array", "return seen;\n", "for (at = 0; at < 3; at++)\n\t\tseen++;\n\treturn seen;\n", "2 loops side", ""),
    ("array", "seen += 1;", "seen += 1;\n\t\tat += 1;", "more than one index, or one that its body changes", ""),
    ("array", "\t\tseen += 1;\n", "\t\tseen += 1;\n\t\tvisit(0, 0, 0, 0, 0);\n", "2 calls of the callback", ""),
    ("array", "break;", "goto out;", "a jump to out, which is not behind the loop", ""),
    ("array", "break;", "switch (at) { }", "switch (at)", "not understood: switch (at)"),
    ("array", "shown = at;", "map_hide(&shown);", "no body was read for the C function map_hide", "map_hide: no def"),
    ("array", "-EINVAL", "-EODD", "EODD", "not understood: return -EODD;"),
    ("hash", "1; });)", "2; });)", "hlist_nulls_for_each", "not understood: while (hlist"),
    ("hash", "entry_safe(one, node,", "entry_odd(one, node,", "entry_odd", "not understood: while"),
)  # fmt: skip


@pytest.mark.parametrize(("kind", "old", "new", "hole", "line"), HOLES, ids=[row[2].strip()[:30] for row in HOLES])
def test_what_has_no_rule_is_named(tmp_path: Path, kind: str, old: str, new: str, hole: str, line: str) -> None:
    release, notes = read(tmp_path, kind, old, new)
    assert any(line in note for note in notes) or not line, notes
    with pytest.raises(Unsupported) as caught:
        refuted(release, kind)
    assert hole in str(caught.value)


def test_a_release_without_the_walks_c_says_so() -> None:
    with pytest.raises(Unsupported, match=r"6\.12: the C of bpf_for_each_array_elem was not read"):
        callback_obligations(replace(RELEASE, bodies={}), "array")
