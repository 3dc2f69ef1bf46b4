"""Whether the pass asks what the model takes it to ask, in the same order: its statements, from a source tree.

`model.rewrite.direct_call` has the pass's conditions as they are in 5.10, 6.1, 6.12 and 7.3 (`fixup_bpf_calls`,
`do_misc_fixups`, `bpf_do_misc_fixups`). A tree whose pass asks less, more or otherwise is one that the model has no
rule for: each difference is a hole, and nothing is claimed of that release's rewrites.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from model.kernel.c_tree import Code, Notes, Tree

NAMED = re.compile(r"insn->imm == BPF_FUNC_(\w+)")
MACROS = "include/linux/filter.h"
POISON_FILES = ("kernel/bpf/verifier.c", "include/linux/bpf_verifier.h")
POISONED = "bpf_map_ptr_poisoned"
DEMANDED = {"jit": "prog->jit_requested", "bits": "BITS_PER_LONG == 64"}


@dataclass(frozen=True, slots=True)
class Row:
    """A statement of the pass: the condition that it stands for, its text, and whether it may be missing."""

    key: str
    text: re.Pattern[str]
    optional: bool = False


def _row(key: str, text: str, *, optional: bool = False) -> Row:
    return Row(key, re.compile(text, re.DOTALL), optional)


BRANCH = _row("gen_lookup", r"if \(insn->imm == BPF_FUNC_map_lookup_elem && ops->map_gen_lookup\) \{.*\}")
BLOCK = (
    _row("pass", r"aux = &env->insn_aux_data\[i \+ delta\];"),
    _row("poison", rf"if \({POISONED}\(aux\)\) (?:goto patch_call_imm;|\{{ goto patch_call_imm; \}})"),
    _row("pass", r"map_ptr = (?:BPF_MAP_PTR\(aux->map_(?:ptr_)?state\)|aux->map_ptr_state\.map_ptr);"),
    _row("pass", r"ops = map_ptr->ops;"),
    BRANCH,
    _row("demand", r"BUILD_BUG_ON\(.*\);", optional=True),
    _row("pass", r"(?:patch_map_ops_generic: )?switch \(insn->imm\) \{.*\}"),
    _row("pass", r"goto patch_call_imm;"),
)
"""`if (…) { these }`, in this order; BUILD_BUG_ON as often as it likes."""

LIMIT = r"(?:INSN_BUF_SIZE|ARRAY_SIZE\(insn_buf\)|\d+)"
FAILS = r"(?:return -E\w+;|\{ (?:(?:verbose|verifier_bug)\([^;]*\); )?return -E\w+; \})"
GEN_LOOKUP = (
    _row("gen_lookup", r"cnt = ops->map_gen_lookup\(map_ptr, insn_buf\);"),
    _row("eopnotsupp", r"if \(cnt == -EOPNOTSUPP\) (?:goto patch_map_ops_generic;|\{ goto patch_map_ops_generic; \})"),
    _row("insn_buf", rf"if \(cnt (?:<=|==) 0 \|\| cnt >= {LIMIT}\) {FAILS}"),
    _row(
        "jit_required", r"if \(bpf_map_is_percpu_map\(map_ptr->map_type\)\) prog->jit_required = true;", optional=True
    ),
    _row("gen_lookup", r"new_prog = bpf_patch_insn_data\(env, i \+ delta, insn_buf, cnt\);"),
    _row("gen_lookup", r"if \(!new_prog\) return -ENOMEM;"),
    _row("gen_lookup", r"delta \+= cnt - 1;"),
    _row("gen_lookup", r"env->prog = prog = new_prog;"),
    _row("gen_lookup", r"insn = new_prog->insnsi \+ i \+ delta;"),
    _row("gen_lookup", r"(?:continue|goto next_insn);"),
)
"""What the branch for map_gen_lookup does, in this order; releases before 5.10 know no -EOPNOTSUPP."""

HELPER_STAYS = re.compile(
    rb"\bpatch_call_imm:\s*fn = [^;{}]*\bget_func_proto\([^;{}]*;\s*if \(!fn->func\) \{[^{}]*\}\s*"
    rb"insn->imm = (?:fn->func - __bpf_call_base|BPF_CALL_IMM\(fn->func\));"
)
POISON_BODY = re.compile(
    r"\{ return (?:aux->map_ptr_state\.poison|BPF_MAP_PTR\(aux->map_(?:ptr_)?state\) == BPF_MAP_PTR_POISON); \}"
)
IMMEDIATES = {
    "BPF_CALL_IMM": (["x"], "((void *)(x) - (void *)__bpf_call_base)"),
    "BPF_CAST_CALL": (["x"], "((u64 (*)(u64, u64, u64, u64, u64))(x))"),
}


def _operands(code: Code, operator: str) -> Iterator[Code]:
    """The operands of `&&` or `||`, in the source's order, without parentheses around them."""
    stack = [code]
    while stack:
        node = stack.pop()
        sign = node.get("operator")
        if node.type == "parenthesized_expression" and len(node.children) == 1:
            stack.append(node.children[0])
        elif node.type == "binary_expression" and sign and sign.text == operator:
            stack.extend((node.need("right"), node.need("left")))
        else:
            yield node


def listed(block: Code, notes: Notes) -> list[str]:
    """The helpers in the pass's list; holes where its `if` asks for something else than the model does."""
    helpers: list[str] = []
    missing = dict(DEMANDED)
    for part in _operands(block.need("condition"), "&&"):
        met = [key for key, text in missing.items() if part.text == text]
        if met:
            del missing[met[0]]
            continue
        names = [NAMED.fullmatch(one.text) for one in _operands(part, "||")]
        if not any(names) or helpers:
            notes.add(part.file, part.line, f"the pass asks for something unknown: {part.text}", "condition:list")
            continue
        helpers = [match[1] for match in names if match]
        if not all(names):
            notes.add(part.file, part.line, f"the pass's list is not understood: {part.text}", "rewrite:*")
    for key, text in missing.items():
        notes.add(block.file, block.line, f"the pass does not ask for {text}", f"condition:{key}")
    return helpers


def check_pass(tree: Tree, block: Code, helpers: Sequence[str], notes: Notes) -> None:
    """Holes for every statement of the pass that is missing, in another place, or that the model does not have."""
    if block.get("alternative") is not None:
        notes.add(block.file, block.line, "the pass has an else that is not understood", "condition:pass")
    statements = block.need("consequence").children
    _in_order(block, statements, BLOCK, "pass", notes)
    for statement in statements:
        inner = statement.get("consequence") if BRANCH.text.fullmatch(statement.text) else None
        if inner is not None:
            _in_order(inner, inner.children, GEN_LOOKUP, "gen_lookup", notes)
    _around(block, helpers, notes)
    _meanings(tree, block, notes)


def _in_order(block: Code, statements: Sequence[Code], rows: Sequence[Row], name: str, notes: Notes) -> None:
    following = 0
    for statement in statements:
        fits = [index for index, row in enumerate(rows) if row.text.fullmatch(statement.text)]
        # What fits a row that was passed already is in the wrong place, or there twice.
        place = next((index for index in fits if index >= following), None)
        if place is None:
            what = "is out of its order" if fits else "is not understood"
            hole = f"condition:{'order' if fits else name}"
            notes.add(statement.file, statement.line, f"a statement of the pass {what}: {statement.text}", hole)
            continue
        _missing(statement, rows[following:place], notes)
        following = place if rows[place].key == "demand" else place + 1
    _missing(block, rows[following:], notes)


def _missing(code: Code, rows: Sequence[Row], notes: Notes) -> None:
    for row in rows:
        if not row.optional:
            what = WORDS.get(row.key, f"the pass lacks a statement: {row.text.pattern}")
            notes.add(code.file, code.line, what, f"condition:{row.key}")


WORDS = {
    "poison": "the pass does not look whether the map pointer is poisoned",
    "gen_lookup": "the pass's branch for map_gen_lookup is not understood",
    "eopnotsupp": "the pass does not go on where map_gen_lookup returns -EOPNOTSUPP",
    "insn_buf": "the pass's test of what map_gen_lookup returns is not understood",
}


def _around(block: Code, helpers: Sequence[str], notes: Notes) -> None:
    """What stands around the pass's `if`: a loop over the instructions, the helper call behind it, and no other use."""
    node = block.node.parent
    loops = 0
    while node is not None and node.type != "function_definition":
        loops += node.type == "for_statement"
        if node.type not in ("compound_statement", "for_statement") or loops > 1:
            place = block.at(node)
            notes.add(place.file, place.line, f"the pass stands inside of a {node.type}", "condition:enclosing")
        node = node.parent
    if node is None:
        notes.add(block.file, block.line, "the pass's function is not understood", "condition:enclosing")
        return
    before = block.data[node.start_byte : block.node.start_byte]
    behind = block.data[block.node.end_byte : node.end_byte]
    if not HELPER_STAYS.search(behind):
        what = "what becomes of a call that stays (patch_call_imm) is not understood"
        notes.add(block.file, block.line, what, "condition:stays")
    elsewhere = set(re.findall(rb"\bBPF_FUNC_(\w+)", before + behind))
    for helper in helpers:
        if helper.encode() in elsewhere:
            what = f"{helper} is named outside of the pass's list too"
            notes.add(block.file, block.line, what, f"rewrite:{helper}")


def _meanings(tree: Tree, block: Code, notes: Notes) -> None:
    """What the pass's words mean: the test for poison, and the macro that makes an immediate of an operation."""
    for file in POISON_FILES:
        source = tree.get(file)
        code = source.function(POISONED) if source is not None and POISONED.encode() in source.data else None
        if code is not None:
            if not POISON_BODY.fullmatch(code.need("body").text):
                notes.add(file, code.line, f"{POISONED} is not understood: {code.text}", "condition:poison")
            break
    else:
        notes.add(block.file, block.line, f"no {POISONED} was found", "condition:poison")
    macros = tree.get(MACROS)
    for name, expected in IMMEDIATES.items():
        if name in block.text and (macros is None or macros.macros.get(name) != expected):
            notes.add(MACROS, 1, f"{name} is not understood", "condition:call_imm")
