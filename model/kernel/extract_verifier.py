"""Which pairs of helper and map type the verifier accepts, from its own checks in a source tree."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from model.errors import InputError
from model.kernel.c_paths import Path, Paths
from model.kernel.c_tree import BROKEN, Code, Notes, Source, Tree, Unread
from model.kernel.extract_helpers import Proto
from model.kernel.extract_types import PREFIX
from model.kernel.release import Acceptance, Helper, MapType, OpsTable

VERIFIER = "kernel/bpf/verifier.c"
PAIRS = "check_map_func_compatibility"
PROGRAMS = "check_map_prog_compatibility"
CALLBACK = "set_map_elem_callback_state"
FOR_EACH = "for_each_map_elem"


@dataclass(frozen=True, slots=True)
class Checks:
    """What of the verifier decides on pairs: the two switches, what its map types may not do, and sizes."""

    file: str
    pairs: Code
    called: Mapping[str, Code]
    constants: Mapping[str, object]
    refused: Mapping[str, str]
    callback_slots: tuple[tuple[str, ...], str]
    zero: Mapping[str, Mapping[str, str]]


def read_acceptance(
    tree: Tree,
    types: Mapping[str, MapType],
    numbers: Mapping[str, int],
    tables: Mapping[str, OpsTable],
    helpers: Mapping[str, Helper],
    protos: Mapping[str, Proto],
    notes: Notes,
) -> dict[str, dict[str, Acceptance]]:
    """For every helper that dispatches and every map type, what the verifier says. `numbers` has all enumerators.

    What cannot be told is a hole ("accepted:…"), and its row is not to be trusted.
    """
    checks = _checks(tree, types, numbers, tables, notes)
    if FOR_EACH in helpers and not checks.callback_slots[0]:
        what = f"which operations {FOR_EACH} needs was not found in {CALLBACK}"
        notes.add(VERIFIER, 1, what, f"accepted:*/{FOR_EACH}")
    for helper in helpers.values():
        if helper.function not in protos:
            notes.add(helper.file, helper.line, f"{helper.function}: no prototype", f"accepted:*/{helper.name}")
    return {
        name: {
            kind: _pair(checks, helper, protos.get(helper.function), row, tables, notes) for kind, row in types.items()
        }
        for name, helper in helpers.items()
    }


def _checks(
    tree: Tree,
    types: Mapping[str, MapType],
    numbers: Mapping[str, int],
    tables: Mapping[str, OpsTable],
    notes: Notes,
) -> Checks:
    source = tree.need(VERIFIER)
    pairs = source.function(PAIRS)
    if pairs is None:
        raise InputError(str(tree.root), VERIFIER, f"expected {PAIRS}()")
    for name, hole in ((PAIRS, "accepted:*/*"), (PROGRAMS, "accepted:*/*"), (CALLBACK, f"accepted:*/{FOR_EACH}")):
        code = source.function(name)
        if code is not None and code.node.has_error:
            notes.add(VERIFIER, code.line, f"{name}: {BROKEN}", hole)
    if source.function(PROGRAMS) is None:
        notes.add(VERIFIER, 1, f"no {PROGRAMS} was found", "accepted:*/*")
    called = {}
    for call in pairs.find("call_expression"):
        name = call.need("function").text
        function = source.function(name)
        if function is not None and function.need("type").text == "bool":
            called[name] = function
    return Checks(
        VERIFIER, pairs, called, numbers, _refused(source), _callback_slots(source), _zero(tree, types, tables)
    )


def _pair(
    checks: Checks,
    helper: Helper,
    proto: Proto | None,
    row: MapType,
    tables: Mapping[str, OpsTable],
    notes: Notes,
) -> Acceptance:
    enumerator = next(
        name for name, number in checks.constants.items() if name.startswith(PREFIX) and number == row.number
    )
    hole = f"accepted:{row.name}/{helper.name}"
    table = tables.get(row.ops or "")
    doubt = notes.holes.get(f"type:{row.name}", "") or notes.holes.get(f"ops:{row.ops}", "")
    if table is None and not doubt:
        return Acceptance(False, "", f"no operations were found for {enumerator}")
    if row.name in checks.refused:
        return Acceptance(False, "", checks.refused[row.name])
    known = {"func_id": f"BPF_FUNC_{helper.name}", "map->map_type": enumerator, "map": "1"}
    try:
        paths = Paths(known, checks.called, checks.constants).run(checks.pairs)
        for path in paths:
            if path.end != "return 0" and not _fails(path.end, checks.pairs):
                raise Unread(f"a result that is not understood: {path.end}")
    except Unread as error:
        notes.add(checks.file, checks.pairs.line, f"{PAIRS}: {error}", hole)
        return Acceptance(False, "", f"not read: {PAIRS}")
    good = [path for path in paths if path.end == "return 0"]
    if not good:
        return Acceptance(False, "", f"{PAIRS}, {checks.file}:{paths[0].line}")
    if table is None or doubt:
        notes.holes.setdefault(hole, f"operations of {row.name} were not read: {doubt}")
        return Acceptance(False, "", f"not read: operations of {row.name}")
    sizes = checks.zero.get(row.name, {})
    for argument in proto.arguments if proto else ():
        for kind, reason in sizes.items():
            if kind in argument.replace("UNINIT_", ""):
                return Acceptance(False, "", reason)
    needed, error_name = checks.callback_slots
    missing = [slot for slot in needed if slot not in table.slots]
    if helper.name == FOR_EACH and missing:
        return Acceptance(False, "", f"-{error_name} in {CALLBACK}: {row.ops} has no {missing[0]}")
    return Acceptance(True, "" if len(good) == len(paths) else _condition(good), "")


def _fails(end: str, function: Code) -> bool:
    """Whether a path that ends so returns an error: there and then, or behind the label that it goes to."""
    word, _, rest = end.partition(" ")
    if word != "goto":
        return re.fullmatch(r"return -E\w+", end) is not None
    body = function.need("body").children
    at = next(
        (i for i, item in enumerate(body) if item.type == "labeled_statement" and _label(item) == rest), len(body)
    )
    behind = next((item for item in body[at:] for item in item.walk() if item.type == "return_statement"), None)
    return behind is not None and behind.text.startswith("return -E")


def _label(code: Code) -> str:
    return code.need("label").text


def _condition(paths: list[Path]) -> str:
    """The unknown conditions of the accepting paths, in the source's terms."""
    alternatives = []
    for path in paths:
        words = [text for text, truth in path.taken if truth]
        alternatives.append(" && ".join(words) or "otherwise")
    program = re.compile(r"type == BPF_PROG_TYPE_(\w+)(?: && (.*))?\Z")
    found = [program.match(text) for text in alternatives]
    if all(found):
        names = [match[1].lower() + (f" ({match[2]})" if match[2] else "") for match in found if match]
        return f"programs of type {', '.join(dict.fromkeys(names))}"
    return " or ".join(dict.fromkeys(alternatives))


def _refused(source: Source) -> dict[str, str]:
    """Types that no program may use: `if (map->map_type == X) { …; return -E; }` in check_map_prog_compatibility."""
    function = source.function(PROGRAMS)
    refused = {}
    for statement in function.need("body").children if function else []:
        condition = statement.get("condition") if statement.type == "if_statement" else None
        match = condition and re.fullmatch(rf"\(map->map_type == {PREFIX}(\w+)\)", condition.text)
        inner = statement.get("consequence")
        if not match or inner is None:
            continue
        last = inner.children[-1] if inner.type == "compound_statement" and inner.children else inner
        if last.type == "return_statement" and last.text.startswith("return -"):
            refused[match[1].lower()] = f"no program may use this type: {PROGRAMS}, {source.file}:{statement.line}"
    return refused


def _callback_slots(source: Source) -> tuple[tuple[str, ...], str]:
    """The members that for_each needs, and the error where one is NULL: `if (!map->ops->a || …) return -E`."""
    for statement, condition in _error_ifs(source.function(CALLBACK)):
        slots = [re.fullmatch(r"!\s*map->ops->(\w+)", part) for part in _disjuncts(condition)]
        if slots and all(slots):
            error = re.search(r"return -(\w+);", statement.text)
            return tuple(match[1] for match in slots if match), error[1] if error else "?"
    return (), ""


def poison_for_each(tree: Tree) -> str:
    """What a poisoned map pointer does to for_each: "refused", "stays", or "" where there is no for_each."""
    function = tree.need(VERIFIER).function(CALLBACK)
    if function is None:
        return ""
    poisoned = any("poisoned" in condition.text for _, condition in _error_ifs(function))
    return "refused" if poisoned else "stays"


def _error_ifs(function: Code | None) -> Iterator[tuple[Code, Code]]:
    """`if` statements that return an error, with their conditions."""
    for statement in function.find("if_statement") if function else ():
        inner, condition = statement.get("consequence"), statement.get("condition")
        if inner and condition and re.search(r"\breturn (?:-E\w+|ERR_PTR\s*\(\s*-E\w+\s*\));", inner.text):
            yield statement, condition


def _disjuncts(code: Code) -> list[str]:
    """The operands of `||`, outermost level."""
    found, stack = [], [code]
    while stack:
        node = stack.pop()
        operator = node.get("operator")
        if node.type == "parenthesized_expression" and node.children:
            stack.append(node.children[0])
        elif node.type == "binary_expression" and operator and operator.text == "||":
            stack.extend((node.need("right"), node.need("left")))
        else:
            found.append(node.text)
    return found


def _zero(tree: Tree, types: Mapping[str, MapType], tables: Mapping[str, OpsTable]) -> dict[str, dict[str, str]]:
    """Types whose keys or values must be 0 bytes, by what their map_alloc(_check) refuses: {type: {argument: why}}.

    A helper argument ARG_PTR_TO_MAP_KEY (or _VALUE) of 0 bytes is refused: check_func_arg asks
    check_helper_mem_access with zero_size_allowed false.
    """
    found: dict[str, dict[str, str]] = {}
    for name, row in types.items():
        table = tables.get(row.ops or "")
        source = tree.get(table.file) if table else None
        if table is None or source is None:
            continue
        for slot in ("map_alloc_check", "map_alloc"):
            function = source.function(table.slots.get(slot, "").split("@")[0] or "?")
            for statement, condition in _error_ifs(function):
                for part in _disjuncts(condition):
                    match = re.fullmatch(r"attr->(key|value)_size(?: != 0)?", part)
                    if match:
                        place = f"{source.file}:{statement.line}"
                        why = f"{match[1]} of 0 bytes ({place}): check_func_arg allows no empty one"
                        found.setdefault(name, {})[f"ARG_PTR_TO_MAP_{match[1].upper()}"] = why
    return found
