"""A small table of map operations for a release between 6.1 and 6.12, with places that no kernel has."""

import json
from pathlib import Path
from typing import Any

UPDATE = "(struct bpf_map *map, void *key, void *value, u64 flags)"


def listed(name: str, proto: str, line: int = 7) -> dict[str, Any]:
    return {"func": name, "file": "kernel/bpf/hashtab.c", "line": line, "proto": proto, "ret": proto.split()[0]}


def table(version: str = "6.5.1", word: str = "long") -> dict[str, Any]:
    """hash and queue; the result of the operations is `word`."""
    lookup = "static void *htab_map_lookup_elem(struct bpf_map *map, void *key)"
    pop = listed("queue_map_pop_elem", f"static {word} queue_map_pop_elem(struct bpf_map *map, void *value)", 70)
    pop["file"] = "kernel/bpf/queue_stack_maps.c"
    return {
        "kernel": version,
        "slot_prototypes": {
            "map_lookup_elem": "void *(*map_lookup_elem)(struct bpf_map *map, void *key);",
            "map_update_elem": f"{word} (*map_update_elem){UPDATE};",
            "map_pop_elem": f"{word} (*map_pop_elem)(struct bpf_map *map, void *value);",
            "map_gen_lookup": "int (*map_gen_lookup)(struct bpf_map *map, struct bpf_insn *insn_buf);",
            "map_for_each_callback": f"{word} (*map_for_each_callback)(struct bpf_map *map, "
            "bpf_callback_t callback_fn, void *callback_ctx, u64 flags);",
        },
        "map_types": {"BPF_MAP_TYPE_HASH": "htab_map_ops", "BPF_MAP_TYPE_QUEUE": "queue_map_ops"},
        "ops": {
            "htab_map_ops": {
                "file": "kernel/bpf/hashtab.c",
                "line": 90,
                "slots": {
                    "map_lookup_elem": listed("htab_map_lookup_elem", lookup, 50),
                    "map_update_elem": listed("htab_map_update_elem", f"{word} htab_map_update_elem{UPDATE}", 60),
                    "map_gen_lookup": listed(
                        "htab_map_gen_lookup",
                        "static int htab_map_gen_lookup(struct bpf_map *map, struct bpf_insn *insn_buf)",
                        80,
                    ),
                    "map_pop_elem": None,
                },
            },
            "queue_map_ops": {
                "file": "kernel/bpf/queue_stack_maps.c",
                "line": 99,
                "slots": {"map_pop_elem": pop, "map_lookup_elem": None},
            },
        },
    }


def write(path: Path, facts: object) -> Path:
    path.write_text(json.dumps(facts), encoding="utf-8")
    return path
