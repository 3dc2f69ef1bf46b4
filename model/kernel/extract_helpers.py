"""Helper numbers, and the helpers whose body is one call through `map->ops`, from a source tree."""

import re
from dataclasses import dataclass

from model.errors import InputError
from model.kernel.c_tree import Code, Notes, Source, Tree, Unread, closing, split_arguments
from model.kernel.c_types import Lookup, read_type
from model.kernel.extract_types import UAPI
from model.kernel.release import CType, Helper

CALL = re.compile(rb"^[ \t]*(?:[a-z_]\w*[ \t]+)*(?:NOTRACE_)?BPF_CALL_([0-5])\s*\(", re.MULTILINE)
DISPATCH = re.compile(rb"->\s*ops\b")
MAPPER = re.compile(
    rb"^[ \t]*#[ \t]*define[ \t]+_{2,3}BPF_FUNC_MAPPER\((\w+)[^)]*\)((?:[^\n\\]|\\.)*)", re.MULTILINE | re.DOTALL
)
PROTO = re.compile(rb"\bstruct\s+bpf_func_proto\s+(\w+)\s*=\s*\{")
WIRED = re.compile(rb"((?:\bcase\s+BPF_FUNC_\w+\s*:\s*)+)return\s+&(\w+)\s*;")
UNCLOSED = 200  # faults in a file before it is given up, so that no file takes long
LONGER = "calls map->ops in a body that does more than hand over"


@dataclass(frozen=True, slots=True)
class Proto:
    """`struct bpf_func_proto`: its helper's function and argument types by position (ARG_PTR_TO_MAP_KEY, …)."""

    function: str
    arguments: tuple[str, ...]
    file: str
    line: int


def read_ids(tree: Tree) -> dict[str, int]:
    """Names (without bpf_) and numbers of all helpers: with numbers in the list since 6.2, counted from 0 before."""
    source = tree.need(UAPI)
    for match in MAPPER.finditer(source.data):
        entry = match[1].decode("ascii", "replace")
        rows = re.findall(
            rf"\b{re.escape(entry)}\(\s*(\w+)\s*(?:,\s*(\d{{1,6}})\b[^)]*)?\)", match[2].decode("utf-8", "replace")
        )
        if len(rows) > 1:
            return {
                name: int(number) if number else index for index, (name, number) in enumerate(rows) if name != "unspec"
            }
    raise InputError(str(tree.root), UAPI, "expected the list of helpers, __BPF_FUNC_MAPPER")


def read_helpers(tree: Tree, ids: dict[str, int], look: Lookup, notes: Notes) -> dict[str, Helper]:
    """The helpers that dispatch: slot and arguments from the body, name and number from the prototypes and switches."""
    names = _wired(tree)
    helpers: dict[str, Helper] = {}
    for source in tree.matching(DISPATCH):
        unclosed = 0
        for match in CALL.finditer(source.outline):
            line = source.line(match.start())
            if unclosed > UNCLOSED:
                notes.add(source.file, line, "the rest of the file: too many BPF_CALL_n that are not understood")
                break
            try:
                helper = _read(source, match, names, ids, look)
            except Unread as error:
                named = re.compile(rb"\s*(\w+)").match(source.data, match.end())
                function = named[1].decode("ascii", "replace") if named else ""
                notes.add(source.file, line, error, *(f"helper:{name}" for name in sorted(names.get(function, ()))))
                unclosed += 1
                continue
            if helper is not None:
                if helper.name in helpers:
                    notes.add(source.file, line, f"a second helper {helper.name}", f"helper:{helper.name}")
                helpers.setdefault(helper.name, helper)
    if not helpers:
        raise InputError(str(tree.root), "kernel/bpf/helpers.c", "expected BPF_CALL_n bodies that call map->ops")
    return dict(sorted(helpers.items(), key=lambda item: item[1].id))


def _read(
    source: Source, match: re.Match[bytes], names: dict[str, set[str]], ids: dict[str, int], look: Lookup
) -> Helper | None:
    """The helper at `match`; None where its body calls nothing through `ops`."""
    end = closing(source.data, match.end() - 1)
    brace = re.compile(rb"\s*\{").match(source.data, end)
    if brace is None:
        return None
    stop = closing(source.data, brace.end() - 1)
    if not DISPATCH.search(source.outline, end, stop):
        return None
    parts = split_arguments(source.data[match.end() : end - 1].decode("utf-8", "replace"))
    function = parts[0] if parts else "?"
    count = int(match[1])
    if len(parts) != 1 + 2 * count:
        raise Unread(f"{function}: BPF_CALL_{count} with {len(parts)} arguments")
    parameters = parts[2::2]
    found = _body(source.snippet(brace.start(), stop, b"void f(void)"), function, parameters, look)
    wired = names.get(function, set())
    if len(wired) != 1 or not wired <= ids.keys():
        raise Unread(f"{function}: expected one helper with this function, found {', '.join(sorted(wired)) or 'none'}")
    name = next(iter(wired))
    slot, arguments, cast = found
    params = tuple(read_type(text, look) for text in parts[1::2])
    if any(param.bits == 0 for param in params):
        raise Unread(f"{function}: a parameter of type void: {', '.join(parts[1::2])}")
    return Helper(name, ids[name], function, params, slot, arguments, cast, source.file, source.line(match.start()))


def _body(code: Code, function: str, parameters: list[str], look: Lookup) -> tuple[str, tuple[int, ...], CType | None]:
    """Slot, indexes of the parameters handed over, cast: of `return [(cast)] map->ops->slot(…)` behind WARN_ON only."""
    outer = next(code.find("compound_statement"), None)
    if outer is None:
        raise Unread(f"{function}: a body that is no block of statements")
    for statement in outer.children[:-1]:
        if statement.type != "expression_statement" or not statement.text.startswith("WARN_ON"):
            raise Unread(f"{function} {LONGER}: {statement.text}")
    last = outer.children[-1]
    value = last.children[0] if last.type == "return_statement" and last.children else last
    cast: CType | None = None
    while value.type in ("parenthesized_expression", "cast_expression"):
        if value.type == "cast_expression":
            if cast is not None:
                raise Unread(f"{function}: two casts: {last.text}")
            cast = read_type(value.need("type").text, look)
            value = value.need("value")
        else:
            value = value.children[0]
    callee = value.get("function") if value.type == "call_expression" else None
    path = callee.text.replace(" ", "") if callee else ""
    dispatched = re.fullmatch(r"(\w+)->ops->(\w+)", path)
    if dispatched is None or last.type != "return_statement":
        raise Unread(f"{function} {LONGER}: {last.text}")
    if not parameters or dispatched[1] != parameters[0]:
        raise Unread(f"{function}: the map is not the first parameter: {last.text}")
    handed = split_arguments(value.need("arguments").text[1:-1])
    if any(name not in parameters for name in handed):
        raise Unread(f"{function}: hands over something else than its parameters: {last.text}")
    return dispatched[2], tuple(parameters.index(name) for name in handed), cast


def read_protos(tree: Tree, functions: set[str], notes: Notes) -> dict[str, Proto]:
    """The `struct bpf_func_proto` of each of `functions`, by function."""
    found: dict[str, Proto] = {}
    for _, source, match in _protos(tree):
        try:
            text = source.data[match.end() : closing(source.data, match.end() - 1) - 1].decode("utf-8", "replace")
        except Unread as error:
            notes.add(source.file, source.line(match.start()), error)
            continue
        fields = dict(re.findall(r"\.(\w+)\s*=\s*([^,{}]+)", text))
        function = fields.get("func", "").strip()
        if function in functions:
            types = tuple(fields.get(f"arg{index}_type", "").strip() for index in range(1, 6))
            found.setdefault(function, Proto(function, types, source.file, source.line(match.start())))
    return found


def _protos(tree: Tree) -> list[tuple[str, Source, re.Match[bytes]]]:
    return [
        (match[1].decode("ascii", "replace"), source, match)
        for source in tree.matching(PROTO)
        for match in PROTO.finditer(source.outline)
    ]


def _wired(tree: Tree) -> dict[str, set[str]]:
    """Helper names by function: `case BPF_FUNC_name: return &proto;` and the proto's `.func`."""
    functions: dict[tuple[str, str], str] = {}
    anywhere: dict[str, str] = {}
    for proto, source, match in _protos(tree):
        func = re.compile(rb"\.func\s*=\s*(\w+)").search(source.data, match.end(), match.end() + 600)
        if func:
            name = func[1].decode("ascii", "replace")
            functions[proto, source.file] = name
            if anywhere.setdefault(proto, name) != name:
                anywhere[proto] = ""  # which one a switch in a third file means cannot be told
    wired: dict[str, set[str]] = {}
    for source in tree.matching(WIRED):
        for match in WIRED.finditer(source.outline):
            proto = match[2].decode("ascii", "replace")
            function = functions.get((proto, source.file), anywhere.get(proto, ""))
            names = re.findall(r"BPF_FUNC_(\w+)", match[1].decode("ascii", "replace"))
            wired.setdefault(function, set()).update(names)
    return wired
