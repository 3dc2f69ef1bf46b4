"""What operations return, read from their C: each shape of a body by itself, then the shipped releases."""

from pathlib import Path

import pytest
from kernel_mini_tree import write_tree

from model.kernel.data import available, dump_release, load_release, read_release
from model.kernel.evidence import Checked, Returned
from model.kernel.extract import extract

BAG = "kernel/bpf/bag.c"
PUT = "static long bag_put(struct bpf_map *map, void *key, void *value, u64 flags)\n{\n\treturn 0;\n}"
ERRNOS = "#define EPERM 1\n#define ENOENT 2\n#define EBUSY 16\n#define EINVAL 22 /* Invalid */\n"
HEADER = "static inline int shared(u64 flags)\n{\n\tif (flags)\n\t\treturn -EPERM;\n\treturn 1;\n}\n"

# (the body of bag_put and what stands before it, the values that it returns: text, low, high).
BODIES = [
    ("", "return 0;", "0=0"),
    ("", "if (flags > 1)\n\t\treturn -EINVAL;\n\treturn 0;", "-EINVAL=-22 0=0"),
    ("", "return -EUNHEARD;", "-EUNHEARD=?"),
    ("", "return flags & 3;", "flags & 3=0..3"),
    ("", "const u64 mask = 1 | 4;\n\treturn flags & mask;", "flags & mask=0..5"),
    ("", "u64 mask = 1;\n\tmask++;\n\treturn flags & mask;", "flags & mask=?"),
    ("", "return flags;", "flags=?"),
    ("", "return flags ? -EBUSY : (7);", "-EBUSY=-16 7=7"),
    ("", "return -1;", "-1=-1"),
    ("", "return flags + 1;", "flags + 1=?"),
    ("", "return XDP_TWO;", "XDP_TWO=1"),
    ("", "return shared(flags);", "-EPERM=-1 1=1"),
    ("", "return unseen(flags);", "unseen(flags)=?"),
    ("static int deep(int n)\n{\n\treturn deep(n);\n}\n", "return deep(1);", "deep(n)=?"),
    ("", "int ret = -ENOENT;\n\tif (key)\n\t\tret = 0;\n\treturn ret;", "-ENOENT=-2 0=0"),
    ("", "int ret;\n\tif (key) {\n\t\tret = -EPERM;\n\t\tgoto o;\n\t}\n\tret = 5;\no:\n\treturn ret;", "5=5 -EPERM=-1"),
    ("", "int ret;\n\tif (key)\n\t\tret = -EINVAL;\n\telse\n\t\tret = 3;\n\treturn ret;", "-EINVAL=-22 3=3"),
    ("", "int ret = -EINVAL;\n\tret = 0;\n\treturn ret;", "ret = -EINVAL=? 0=0"),
    ("", "int ret = 0;\n\twhile (key)\n\t\tret = -EBUSY;\n\treturn ret;", "ret = 0=? ret = -EBUSY=?"),
    ("", "int ret;\n\tfill(&ret);\n\treturn ret;", "&ret=?"),
    ("", "int ret = 0;\n\tret |= 4;\n\treturn ret;", "ret = 0=? ret |= 4=?"),
    ("", "int other = flags, ret;\n\tret = other;\n\treturn ret;", "ret = other=?"),
]  # fmt: skip


def shown(row: Returned) -> str:
    numbers = "?" if row.low is None else str(row.low) if row.low == row.high else f"{row.low}..{row.high}"
    return f"{row.text}={numbers}"


@pytest.mark.parametrize(("before", "body", "expected"), BODIES, ids=[row[1].replace("\n", " ") for row in BODIES])
def test_what_a_body_returns(before: str, body: str, expected: str, tmp_path: Path) -> None:
    planted = before + PUT.replace("return 0;", body)
    head = ("include/linux/bpf.h", "struct bpf_map_ops {", HEADER + "struct bpf_map_ops {")
    tree = write_tree(tmp_path, (BAG, PUT, '#include <linux/bpf.h>\n#include "../../x.h"\n' + planted), head)
    (tree / "include/uapi/asm-generic").mkdir(parents=True)
    (tree / "include/uapi/asm-generic/errno-base.h").write_text(ERRNOS)
    with (tree / "include/uapi/linux/bpf.h").open("a") as uapi:
        uapi.write("enum xdp_action {\n\tXDP_ONE = 0,\n\tXDP_TWO,\n};\n")
    release = extract(tree)
    # Whatever the values, they survive the file.
    assert read_release(dump_release(release), "mini.json") == release
    assert " ".join(sorted(shown(row) for row in release.returns["bag_put"])) == " ".join(sorted(split(expected)))
    inside = [row for row in release.returns["bag_put"] if row.function == "bag_put"]
    assert all((tree / row.file).read_text().split("\n")[row.line - 1].count(row.text) for row in inside)


def split(expected: str) -> list[str]:
    """ "a=1 b = c=?" -> ["a=1", "b = c=?"]: a value ends at "=" and what has no blank."""
    rows, text = [], ""
    for word in expected.split(" "):
        text = f"{text} {word}".strip()
        if "=" in word and not word.endswith("=") and not word.startswith("="):
            rows.append(text)
            text = ""
    return rows


def test_only_operations_that_a_program_reaches(tmp_path: Path) -> None:
    """`bag_get` returns a pointer, `same_box` is in no slot of a helper."""
    assert set(extract(write_tree(tmp_path)).returns) == {"bag_put", "box_put", "box_each"}


def test_what_the_verifier_demands(tmp_path: Path) -> None:
    release = extract(write_tree(tmp_path))
    assert release.checked["map_put"] == Checked(
        ("ARG_CONST_MAP_PTR", "ARG_ANYTHING", "", ""), "kernel/bpf/helpers.c", 20
    )


def test_the_number_of_rows_is_bounded(tmp_path: Path) -> None:
    many = "".join(f"if (flags == {i})\n\t\treturn {i};\n\t" for i in range(300))
    release = extract(write_tree(tmp_path, (BAG, PUT, PUT.replace("return 0;", many + "return 0;"))))
    rows = release.returns["bag_put"]
    assert len(rows) == 65
    assert rows[-1].low is None
    assert rows[-1].text == "more returns than are read"


# Read in the sources by hand.
@pytest.mark.parametrize(
    ("release", "function", "text", "number", "place"),
    [
        ("5.10", "array_map_delete_elem", "-EINVAL", -22, "kernel/bpf/arraymap.c:385"),
        ("6.1", "array_map_delete_elem", "-EINVAL", -22, "kernel/bpf/arraymap.c:402"),
        ("6.1", "queue_map_pop_elem", "-ENOENT", -2, "kernel/bpf/queue_stack_maps.c:116"),
        ("6.1", "htab_map_delete_elem", "-ENOENT", -2, "kernel/bpf/hashtab.c:1421"),
        ("6.1", "sock_hash_delete_elem", "-ENOENT", -2, "net/core/sock_map.c:934"),
        ("6.1", "bpf_for_each_hash_elem", "-EINVAL", -22, "kernel/bpf/hashtab.c:2193"),
        ("6.1", "xsk_map_redirect", "XDP_REDIRECT", 4, "include/linux/filter.h:1588"),
    ],
)
def test_values_in_the_shipped_releases(release: str, function: str, text: str, number: int, place: str) -> None:
    rows = load_release(release).returns[function]
    assert (text, number, number, place) in [(row.text, row.low, row.high, f"{row.file}:{row.line}") for row in rows]


@pytest.mark.parametrize("release", ["6.1", "6.12", "7.3"])
@pytest.mark.parametrize(
    "function", ["dev_map_redirect", "dev_hash_map_redirect", "cpu_map_redirect", "xsk_map_redirect"]
)
def test_redirect_returns_0_to_4(release: str, function: str) -> None:
    """__bpf_xdp_redirect_map: XDP_ABORTED, flags & (XDP_DROP | XDP_PASS | XDP_TX), XDP_REDIRECT."""
    rows = load_release(release).returns[function]
    assert sorted((row.low, row.high) for row in rows) == [(0, 0), (0, 3), (4, 4)]


@pytest.mark.parametrize("name", [name for name in available() if load_release(name).returns])
def test_what_may_be_handed_over_unchecked(name: str) -> None:
    """helpers.c: arg3 of bpf_map_lookup_percpu_elem is ARG_ANYTHING; 5.10 does not have it."""
    row = load_release(name).checked.get("map_lookup_percpu_elem")
    if name == "5.10":
        assert row is None
    else:
        assert row is not None
        assert row.arguments == ("ARG_CONST_MAP_PTR", "ARG_PTR_TO_MAP_KEY", "ARG_ANYTHING")
