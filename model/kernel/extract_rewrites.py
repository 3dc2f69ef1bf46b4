"""Which helper calls the post-verification pass turns into direct calls, and into what, from a source tree."""

import re
from collections.abc import Mapping

from model.errors import InputError
from model.kernel.c_tree import BROKEN, Code, Notes, Source, Tree, Unread, closing
from model.kernel.c_types import Lookup, read_prototype
from model.kernel.extract_pass import NAMED, check_pass, listed
from model.kernel.release import DirectCall, Prototype

FILES = ("kernel/bpf/fixups.c", "kernel/bpf/verifier.c")
BUFFER = "include/linux/bpf_verifier.h"
CASE = re.compile(
    r"case BPF_FUNC_\w+ ?: insn->imm = (?:BPF_CALL_IMM ?\( ?ops->(\w+) ?\)|"
    r"BPF_CAST_CALL ?\( ?ops->(\w+) ?\) - __bpf_call_base); (?:continue|goto next_insn);"
)
SAME = re.compile(r"__same_type\(\s*ops->(\w+)\s*,\s*\((.*)\)\s*NULL\s*\)", re.DOTALL)


def read_rewrites(tree: Tree, look: Lookup, notes: Notes) -> tuple[tuple[DirectCall, ...], int]:
    """The rows in the source's order, and the size of the pass's instruction buffer.

    What of the pass is not as the model has it is a hole: "rewrite:NAME", or "condition:…" for all of it.
    """
    function, block = _pass(tree)
    if block.node.has_error:
        notes.add(block.file, block.line, f"{function}: {BROKEN}", "condition:pass")
    helpers = listed(block, notes)
    check_pass(tree, block, helpers, notes)
    targets = _targets(block.need("consequence"), notes)
    demands = _demands(block.need("consequence"), look, notes)
    rows = []
    for helper in helpers:
        if helper not in targets:
            what = f"{helper} is in the pass's list, but has no case of its own"
            notes.add(block.file, block.line, what, f"rewrite:{helper}")
            continue
        slot, line = targets.pop(helper)
        rows.append(DirectCall(helper, slot, demands.get(slot), function, block.file, line))
    for helper, (_, line) in targets.items():
        notes.add(block.file, line, f"{helper} has a case, but is not in the pass's list")
    return tuple(rows), _buffer(tree, block, notes)


def _pass(tree: Tree) -> tuple[str, Code]:
    """The function and its `if` over helper numbers that holds the call of map_gen_lookup."""
    for file in FILES:
        source = tree.get(file)
        if source is None or b"ops->map_gen_lookup" not in source.data:
            continue
        for name, definitions in source.functions.items():
            for code in definitions:
                body = code.get("body")
                raw = b"" if body is None else code.data[body.node.start_byte : body.node.end_byte]
                if b"ops->map_gen_lookup" in raw:
                    found = _innermost(code)
                    if found is not None:
                        return name, found
        lexical = _by_text(source)
        if lexical is not None:
            return lexical
    raise InputError(str(tree.root), FILES[1], "expected a pass that calls ops->map_gen_lookup (here or in fixups.c)")


def _innermost(function: Code) -> Code | None:
    found = None
    for statement in function.find("if_statement"):
        condition = statement.get("condition")
        inner = statement.get("consequence")
        if condition and inner and NAMED.search(condition.text) and "switch (insn->imm)" in inner.text:
            found = statement
    return found


def _by_text(source: Source) -> tuple[str, Code] | None:
    """The same where the file's parse has no such function: the pass has one of its known names."""
    for name in ("bpf_do_misc_fixups", "do_misc_fixups", "fixup_bpf_calls"):
        function = source.function(name)
        found = None if function is None else _innermost(function)
        if found is not None:
            return name, found
    return None


def _targets(block: Code, notes: Notes) -> dict[str, tuple[str, int]]:
    """Helper -> slot and line, from `case BPF_FUNC_x: insn->imm = BPF_CALL_IMM(ops->slot); …`."""
    found = {}
    for switch in block.find("switch_statement"):
        if switch.need("condition").text != "(insn->imm)":
            continue
        for case in switch.need("body").children:
            value = case.get("value")
            name = re.fullmatch(r"BPF_FUNC_(\w+)", value.text) if value else None
            match = CASE.fullmatch(case.text)
            if name is None or match is None or name[1] in found:
                hole = f"rewrite:{name[1]}" if name else "condition:pass"
                notes.add(case.file, case.line, f"a case that is not understood: {case.text}", hole)
                continue
            found[name[1]] = (match[1] or match[2], case.line)
    return found


def _demands(block: Code, look: Lookup, notes: Notes) -> dict[str, Prototype]:
    """Slot -> prototype, from BUILD_BUG_ON(!__same_type(ops->slot, (prototype)NULL))."""
    found = {}
    raw = block.data[block.node.start_byte : block.node.end_byte]
    for match in re.finditer(rb"\bBUILD_BUG_ON\s*\(", raw):
        line = block.line + raw.count(b"\n", 0, match.start())
        try:
            text = " ".join(raw[match.start() : closing(raw, match.end() - 1)].decode("utf-8", "replace").split())
            same = SAME.search(text)
            if same:
                found[same[1]] = read_prototype(same[2], look)[1]
        except Unread as error:
            notes.add(block.file, line, error)
    return found


def _buffer(tree: Tree, block: Code, notes: Notes) -> int:
    """The size in `cnt >= INSN_BUF_SIZE` or `cnt >= ARRAY_SIZE(insn_buf)`."""
    limit = re.search(r"\bcnt >= (INSN_BUF_SIZE|ARRAY_SIZE\(insn_buf\)|\d+)", block.text)
    files: Mapping[str, tuple[str, bytes]] = {
        "INSN_BUF_SIZE": (BUFFER, rb"#[ \t]*define[ \t]+INSN_BUF_SIZE[ \t]+(\d{1,5})\b"),
        "ARRAY_SIZE(insn_buf)": (block.file, rb"struct bpf_insn insn_buf\[(\d{1,5})\]"),
    }
    if limit and limit[1] in files:
        file, pattern = files[limit[1]]
        source = tree.get(file)
        sizes = {int(size) for size in re.findall(pattern, source.data if source else b"")}
        if len(sizes) == 1:
            return sizes.pop()
    elif limit and len(limit[1]) < 6:
        return int(limit[1])
    notes.add(block.file, block.line, "the limit of a patch (insn_buf) is not understood", "condition:insn_buf")
    return 0
