"""C functions through the extractor and over ints: literals, which a real compiler must agree with.

Expected values are worked out by hand from C11 (6.3.1, 6.5) for LP64 with wrapping signed arithmetic.
"""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from model.errors import Unsupported
from model.kernel.c_body import Body, Call, Char, Integer, Leave, Local, Number, Param, Pointer, Unreadable, Void
from model.kernel.c_tree import Notes, Tree
from model.kernel.extract_c_body import read_bodies
from model.kernel.release import CType, Function, OpsTable, Prototype
from model.memory import Outside
from model.semantics.c import Runner
from model.semantics.c_types import Value, width
from proofs.concrete import IntWorld

TYPEDEFS = """typedef unsigned char u8; typedef unsigned short u16; typedef unsigned int u32; typedef int s32;
typedef unsigned long long u64; typedef long long s64; typedef signed char s8; typedef short s16;
"""

# Parameters, the returned expression (behind optional statements), arguments, the 64 bits of the result.
ROWS: tuple[tuple[str, str, tuple[int, ...], int], ...] = (
    ("u32 a, u32 b", "a * b", (0x80000000, 4), 0),
    ("u32 a, u32 b", "(u64)a * b", (0x80000000, 4), 0x200000000),
    ("u32 a, u32 b", "(u64)(a * b)", (0xFFFFFFFF, 0xFFFFFFFF), 1),
    ("s32 a, s32 b", "a * b", (0x7FFFFFFF, 2), 0xFFFFFFFFFFFFFFFE),
    ("u8 a, u8 b", "a - b", (1, 2), 0xFFFFFFFFFFFFFFFF),
    ("u8 a, u8 b", "a + b", (200, 100), 300),
    ("u16 a, u16 b", "a * b", (0xFFFF, 0xFFFF), 0xFFFFFFFFFFFE0001),
    ("u32 a, u32 b", "a - b", (1, 2), 0xFFFFFFFF),
    ("u32 a, s64 b", "a + b", (0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF), 0xFFFFFFFE),
    ("u32 a, s32 b", "a + b", (5, 0xFFFFFFFA), 0xFFFFFFFF),
    ("s32 a, u32 b", "a < b", (0xFFFFFFFF, 1), 0),
    ("s32 a, s64 b", "a < b", (0xFFFFFFFF, 1), 1),
    ("s64 a, u32 b", "a < b", (0xFFFFFFFFFFFFFFFF, 1), 1),
    ("s64 a, u64 b", "a < b", (0xFFFFFFFFFFFFFFFF, 1), 0),
    ("s8 a, u8 b", "a < b", (0xFF, 1), 1),
    ("u32 a, u32 b", "a >= b", (0x80000000, 0x80000000), 1),
    ("u32 a, u32 b", "a > b", (0x80000000, 0x7FFFFFFF), 1),
    ("s32 a, s32 b", "a <= b", (0x80000000, 0x7FFFFFFF), 1),
    ("u32 a, u32 b", "a == b", (7, 7), 1),
    ("u32 a, u32 b", "a != b", (7, 7), 0),
    ("u8 a", "~a", (0x0F,), 0xFFFFFFFFFFFFFFF0),
    ("u32 a", "~a", (0x0F,), 0xFFFFFFF0),
    ("u32 a", "-a", (1,), 0xFFFFFFFF),
    ("u8 a", "-a", (1,), 0xFFFFFFFFFFFFFFFF),
    ("u64 a", "!a", (0x100000000,), 0),
    ("u32 a", "!a", (0,), 1),
    ("u64 a", "(u32)a", (0x1FFFFFFFF,), 0xFFFFFFFF),
    ("u64 a", "(s32)a", (0x80000000,), 0xFFFFFFFF80000000),
    ("s8 a", "(u32)a", (0x80,), 0xFFFFFF80),
    ("s8 a", "(u64)a", (0x80,), 0xFFFFFFFFFFFFFF80),
    ("u32 a", "(_Bool)a", (0x100,), 1),
    ("u32 a", "(u8)a", (0x100,), 0),
    ("u32 a, u32 s", "a << s", (0x80000001, 1), 2),
    ("u32 a, u32 s", "a >> s", (0x80000000, 31), 1),
    ("s32 a, u32 s", "a >> s", (0x80000000, 31), 0xFFFFFFFFFFFFFFFF),
    ("u8 a, u32 s", "a << s", (0x80, 24), 0xFFFFFFFF80000000),
    ("u64 a, u32 s", "a << s", (1, 63), 0x8000000000000000),
    ("u32 a, u32 b", "a & b", (0xF0F0F0F0, 0xFF00FF00), 0xF000F000),
    ("s32 a, u64 b", "a & b", (0xFFFFFFFF, 0xF00000000), 0xF00000000),
    ("s32 a, u64 b", "a | b", (0x80000000, 0), 0xFFFFFFFF80000000),
    ("u32 a, u32 b", "a ^ b", (0xFFFFFFFF, 1), 0xFFFFFFFE),
    ("u32 a, s32 b", "a ? b : 0u", (1, 0xFFFFFFFF), 0xFFFFFFFF),
    ("u32 a, s32 b", "a ? b : 0", (1, 0xFFFFFFFF), 0xFFFFFFFFFFFFFFFF),
    ("u32 a, u32 b", "a && b", (2, 4), 1),
    ("u32 a, u32 b", "a && b", (2, 0), 0),
    ("u32 a, u32 b", "a || b", (0, 4), 1),
    ("u32 a, u32 b", "a || b", (0, 0), 0),
    ("u32 *p, u32 i", "(u64)(p + i)", (0x1000, 0xFFFFFFFF), 0x1000 + 4 * 0xFFFFFFFF),
    ("u32 *p, s32 i", "(u64)(p + i)", (0x1000, 0xFFFFFFFF), 0xFFC),
    ("u64 *p, u8 i", "(u64)(p + i)", (0x1000, 255), 0x17F8),
    ("void **p, u32 i", "(u64)(i + p)", (0x1000, 2), 0x1010),
    ("char *p, u32 i", "(u64)(p + i)", (0x1000, 3), 0x1003),
    ("void *p, u32 i", "(u64)(p + i)", (0x1000, 3), 0x1003),
    ("u32 *p, u32 i", "(u64)(p - i)", (0x1000, 1), 0xFFC),
    ("u32 *p, u32 i", "(u64)(&p[i])", (0x1000, 2), 0x1008),
    ("u32 *p", "p == NULL", (0,), 1),
    ("u32 *p", "!p", (8,), 0),
    ("u32 a", "a + 0x80000000", (1,), 0x80000001),
    ("u32 a", "a < 0x7fffffff", (0xFFFFFFFF,), 0),
    ("s32 a", "a < 0x80000000", (0xFFFFFFFF,), 0),
    ("s32 a", "a < 2147483648", (0xFFFFFFFF,), 1),
    ("s32 a", "a < 1UL", (0xFFFFFFFF,), 0),
)
BODIES = (
    ("u32 a, u32 b", "if (a > b) return a; else b = b + 1; return b;", (3, 3), 4),
    ("u32 a, u32 b", "if (a > b) return a; else b = b + 1; return b;", (4, 3), 4),
    ("u64 a", "u8 x = a; return x;", (0x1FF,), 0xFF),
    ("u64 a", "s8 x = a; return x;", (0x80,), 0xFFFFFFFFFFFFFF80),
    ("u64 a", "u32 x; x = a; if (!x) { x = 7; } return x;", (0x100000000,), 7),
    ("u32 a", "s64 x = (s32)a; u64 y = x; return y;", (0xFFFFFFFE,), 0xFFFFFFFFFFFFFFFE),
)
ALL = [(params, f"return {expr};", arguments, result) for params, expr, arguments, result in ROWS] + list(BODIES)


def source() -> str:
    """One function `f<i>` for each row, behind the kernel's names for the integer types."""
    lines = [f"u64 f{i}({params}) {{ {body} }}" for i, (params, body, _, _) in enumerate(ALL)]
    return "\n".join(lines) + "\n"


def bodies(tmp_path: Path, text: str, names: Sequence[str]) -> tuple[dict[str, Body], Notes]:
    """The functions of a file, as operations of maps that have a map_gen_lookup."""
    (tmp_path / "kernel/bpf").mkdir(parents=True)
    (tmp_path / "kernel/bpf/rows.c").write_text(text)
    prototype = Prototype(CType("u64", 64, False), ())
    functions = {name: Function(name, prototype, "kernel/bpf/rows.c", 1) for name in names}
    tables = {
        name: OpsTable(name, {"map_lookup_elem": name, "map_gen_lookup": "g"}, "kernel/bpf/rows.c", 1) for name in names
    }
    notes = Notes()
    read, _ = read_bodies(Tree(tmp_path), tables, functions, {}, lambda name: None, notes)
    return read, notes


def run(world: IntWorld, known: dict[str, Body], name: str, words: Sequence[int]) -> tuple[int, Outside[int, bool]]:
    runner: Runner[int, bool] = Runner(world, known, {}, _unknown, lambda struct, member, address, word: word)
    arguments = [Value(param.type, word) for param, word in zip(known[name].params, words, strict=True)]
    left = runner.call(name, arguments, Outside(world, 1, 2, 3), True)
    return (0 if left.value is None else left.value.word), left.outside


def _unknown(
    body: Body, values: Sequence[Value[int]], outside: Outside[int, bool]
) -> tuple[Value[int] | None, Outside[int, bool]]:
    return Value(body.result, 0x5000 + values[0].word), outside


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Body]:
    names = [f"f{i}" for i in range(len(ALL))]
    read, notes = bodies(tmp_path_factory.mktemp("tree"), source(), names)
    assert not notes.lines
    return read


@pytest.mark.parametrize("index", range(len(ALL)), ids=lambda i: f"{ALL[i][1]} {ALL[i][0]} {i}")
def test_a_row_over_ints(known: dict[str, Body], index: int) -> None:
    _, _, arguments, result = ALL[index]
    world = IntWorld(lambda name, width: 0)
    assert run(world, known, f"f{index}", arguments)[0] == result
    assert not world.violated


def test_a_compiler_agrees(tmp_path: Path) -> None:
    compiler = shutil.which("gcc") or shutil.which("clang") or shutil.which("clang-19")
    if compiler is None:
        pytest.skip("no C compiler")
    calls = []
    for i, (params, _, arguments, _) in enumerate(ALL):
        handed = [_literal(p, a) for p, a in zip(params.split(","), arguments, strict=True)]
        calls.append(f'printf("%llx\\n", f{i}({", ".join(handed)}));')
    text = "#include <stdio.h>\n" + TYPEDEFS + source() + "int main(void) { " + " ".join(calls) + " return 0; }\n"
    (tmp_path / "rows.c").write_text(text)
    command = [compiler, "-w", "-O1", "-fwrapv", "-o", str(tmp_path / "rows"), str(tmp_path / "rows.c")]
    subprocess.run(command, check=True, timeout=60)
    told = subprocess.run([str(tmp_path / "rows")], check=True, timeout=60, capture_output=True, text=True).stdout
    assert [int(line, 16) for line in told.split()] == [result for *_, result in ALL]


def _literal(param: str, word: int) -> str:
    return f"(void *){word:#x}" if "*" in param else f"{word:#x}ULL"


def test_shift_by_the_width_says_nothing(known: dict[str, Body]) -> None:
    world = IntWorld(lambda name, width: 0)
    row = next(i for i, row in enumerate(ALL) if row[1] == "return a << s;")
    run(world, known, f"f{row}", (1, 32))
    assert world.violated == ["a C shift by less than the width"]


MEMORY = """
struct node { u32 cpu; u8 ref; u8 type; void *next[]; };
static void mark(struct node *node)
{
	if (!READ_ONCE(node->ref))
		WRITE_ONCE(node->ref, 1);
}
u64 touch(struct node *node, u32 i)
{
	mark(node);
	if (unlikely(i >= node->cpu))
		return 0;
	return (u64)node->next[i];
}
"""


def test_members_loads_stores_and_calls(tmp_path: Path) -> None:
    read, notes = bodies(tmp_path, MEMORY, ["touch"])
    assert (sorted(read), notes.lines) == (["mark", "touch"], {})
    offsets = {"offsetof(struct node, ref)": 4, "offsetof(struct node, cpu)": 0, "offsetof(struct node, next)": 8}
    # Memory 1 has node->ref = 0; the store of 1 gives memory 9, in which cpu is 2 and next[1] is 0xabc.
    functions = {
        ("load8", (0x1004, 1)): 0,
        ("store8", (1, 0x1004, 1)): 9,
        ("load32", (0x1000, 9)): 2,
        ("load64", (0x1010, 9)): 0xABC,
    }
    world = IntWorld(lambda name, width: 0xEE, offsets, functions)
    value, outside = run(world, read, "touch", (0x1000, 1))
    assert (value, outside.memory, outside.kernel, outside.callbacks) == (0xABC, 9, 2, 3)
    value, outside = run(world, read, "touch", (0x1000, 2))
    assert (value, outside.memory) == (0, 9)
    marked = IntWorld(
        lambda name, width: 0, offsets, {**functions, ("load8", (0x1004, 1)): 1, ("load32", (0x1000, 1)): 0}
    )
    value, outside = run(marked, read, "touch", (0x1000, 0))
    assert (value, outside.memory) == (0, 1)


def test_paths_are_told_by_their_ends(tmp_path: Path) -> None:
    read, _ = bodies(tmp_path, MEMORY, ["touch"])
    world = IntWorld(lambda name, width: 0)
    runner: Runner[int, bool] = Runner(world, read, {}, _unknown, lambda struct, member, address, word: word)
    arguments = [Value(param.type, 0) for param in read["touch"].params]
    runner.call("touch", arguments, Outside(world, 1, 2, 3), True)
    assert [label for label, _ in runner.leaves] == ["mark, end 1", "mark, end 2", "touch, return 1", "touch, return 2"]


def body(*steps: object) -> dict[str, Body]:
    kind = Integer(64, False)
    params = (Param("a", kind), Param("c", Pointer(Char())))
    return {"f": Body("f", kind, params, tuple(steps), "f.c", 1)}  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("case", "said"),
    [
        (body(Unreadable("asm volatile", 7)), "f.c:7: asm volatile"),
        (body(), "f may end without a value"),
        (body(Leave(Local("b"))), "b is read before it has a value"),
        (body(Leave(Call("g", (Local("a"),)))), "no body was read for the C function g"),
        (body(Leave(Call("f", (Local("a"), Local("c"))))), "nested too deeply"),
        (body(Leave(Call("f", (Local("a"),)))), "with 1 arguments"),
        (body(Leave(Call("round_up", (Local("a"), Number(6, Integer(32, True)))))), "no power of two"),
    ],
)
def test_what_has_no_rule(case: dict[str, Body], said: str) -> None:
    with pytest.raises(Unsupported, match=said):
        run(IntWorld(lambda name, width: 0), case, "f", (1, 2))


def test_a_plain_char_has_no_value() -> None:
    with pytest.raises(Unsupported, match="plain char"):
        width(Char())
    with pytest.raises(Unsupported, match="of type Void"):
        width(Void())
