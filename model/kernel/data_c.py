"""Function bodies (`model.kernel.c_body`) as JSON: lists whose first element names the node, and back.

Each node class has one row that gives its fields' kinds, in order; both directions read the same rows.
"""

from collections.abc import Mapping
from typing import Any

from model.errors import InputError
from model.kernel import c_body as c

# Kinds: "s" text, "i" integer, "l" line, "f" flag, "t" type, "e" expression, "?" expression or null, "E" expressions,
# "S" statements, "T" types.
TYPES: Mapping[type, str] = {c.Integer: "iff", c.Char: "", c.Struct: "s", c.Void: "", c.Pointer: "t", c.Array: "t"} | {
    c.Routine: "tT"
}
EXPRS: Mapping[type, str] = {
    c.Number: "it",
    c.Null: "",
    c.Local: "s",
    c.Deref: "e",
    c.Index: "ee",
    c.Member: "esst",
    c.Address: "e",
    c.Unary: "se",
    c.Binary: "see",
    c.Conditional: "eee",
    c.Cast: "te",
    c.Container: "ess",
    c.Call: "sE",
    c.Invoke: "eE",
}
STEPS: Mapping[type, str] = {
    c.Declare: "st?",
    c.Assign: "ee",
    c.Branch: "eSS",
    c.Leave: "?",
    c.Do: "e",
    c.Check: "s",
    c.Unreadable: "sl",
    c.Loop: "SS?SS",
    c.Each: "fssessS",
    c.Break: "",
    c.Continue: "",
    c.Goto: "s",
    c.Label: "s",
}
ROOMS: Mapping[str, Mapping[type, str]] = {"t": TYPES, "e": EXPRS, "?": EXPRS, "E": EXPRS, "S": STEPS, "T": TYPES}
TEXT = 4096  # characters of one name or of one unreadable statement
WIDTHS = (8, 16, 32, 64)


def encode_c(body: c.Body) -> dict[str, object]:
    return {
        "file": body.file,
        "line": body.line,
        "result": _encode(body.result, TYPES),
        "params": [[param.name, _encode(param.type, TYPES)] for param in body.params],
        "steps": None if body.steps is None else [_encode(step, STEPS) for step in body.steps],
    }


def _encode(node: Any, room: Mapping[type, str]) -> list[object]:
    kinds = room[type(node)]
    values = [getattr(node, name) for name in type(node).__dataclass_fields__]
    return [type(node).__name__.lower(), *(_encode_field(v, kind) for v, kind in zip(values, kinds, strict=True))]


def _encode_field(value: Any, kind: str) -> object:
    if kind in "EST":
        return [_encode(item, ROOMS[kind]) for item in value]
    return _encode(value, ROOMS[kind]) if kind in ROOMS and value is not None else value


def decode_c(function: str, value: object, file: str, path: str, depth: int) -> c.Body:
    """A body; `depth` is how many nested levels it may have. InputError with the JSON path."""
    if not isinstance(value, dict) or set(value) != {"file", "line", "result", "params", "steps"}:
        raise InputError(file, path, "expected an object of file, line, result, params and steps")
    params = value["params"]
    if not isinstance(params, list) or not all(isinstance(item, list) and len(item) == 2 for item in params):
        raise InputError(file, f"{path}.params", "expected an array of [name, type]")
    steps = value["steps"]
    return c.Body(
        function=function,
        result=_decode(value["result"], "t", file, f"{path}.result", depth),
        params=tuple(
            c.Param(_text(name, file, f"{path}.params[{i}][0]"), _decode(kind, "t", file, f"{path}.params[{i}]", depth))
            for i, (name, kind) in enumerate(params)
        ),
        steps=None if steps is None else _list(steps, "S", file, f"{path}.steps", depth),
        file=_text(value["file"], file, f"{path}.file"),
        line=_integer(value["line"], 0, (1 << 31) - 1, file, f"{path}.line"),
    )


def _decode(value: object, kind: str, file: str, path: str, depth: int) -> Any:
    if depth <= 0:
        raise InputError(file, path, "expected fewer nested levels")
    room = {row.__name__.lower(): row for row in ROOMS[kind]}
    known = isinstance(value, list) and value and isinstance(value[0], str) and value[0] in room
    if not isinstance(value, list) or not known:
        raise InputError(file, path, f"expected an array that begins with one of {', '.join(room)}")
    node = room[value[0]]
    kinds = ROOMS[kind][node]
    if len(value) != 1 + len(kinds):
        raise InputError(file, path, f"expected {len(kinds)} elements after {value[0]!r}")
    fields = [_decode_field(item, kinds[i], file, f"{path}[{i + 1}]", depth - 1) for i, item in enumerate(value[1:])]
    made = node(*fields)
    if isinstance(made, c.Integer) and made.bits not in WIDTHS:
        raise InputError(file, path, "expected a width of 8, 16, 32 or 64 bits")
    if isinstance(made, c.Number) and not isinstance(made.type, c.Integer):
        raise InputError(file, path, "expected an integer type")
    return made


def _decode_field(value: object, kind: str, file: str, path: str, depth: int) -> Any:
    match kind:
        case "s":
            return _text(value, file, path)
        case "i":
            return _integer(value, -(1 << 63), (1 << 64) - 1, file, path)
        case "l":
            return _integer(value, 0, (1 << 31) - 1, file, path)
        case "f" if isinstance(value, bool):
            return value
        case "?" if value is None:
            return None
        case "E" | "S" | "T":
            return _list(value, kind, file, path, depth)
        case "t" | "e" | "?":
            return _decode(value, kind, file, path, depth)
    raise InputError(file, path, "expected true or false")


def _list(value: object, kind: str, file: str, path: str, depth: int) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise InputError(file, path, "expected an array")
    return tuple(_decode(item, kind, file, f"{path}[{i}]", depth) for i, item in enumerate(value))


def _text(value: object, file: str, path: str) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= TEXT:
        raise InputError(file, path, f"expected a string of 1 to {TEXT} characters")
    return value


def _integer(value: object, low: int, high: int, file: str, path: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise InputError(file, path, f"expected an integer from {low} to {high}")
    return value
