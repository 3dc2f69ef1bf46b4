"""`map_gen_lookup` functions as data: which instructions they emit, on which condition."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from model.kernel.c_layout import Structs
from model.kernel.c_tree import Code, Notes, Unread
from model.kernel.c_types import Lookup, read_type
from model.kernel.release import (
    Apply,
    Const,
    Decline,
    Emit,
    Expr,
    Field,
    GenLookup,
    If,
    Name,
    Offset,
    Opaque,
    SizeOf,
    Statement,
)

CHECKS = ("BUILD_BUG_ON", "BUILD_BUG_ON_MSG", "WARN_ON_ONCE", "WARN_ON")
CONTAINER = re.compile(r"container_of\s*\(\s*(\w+)\s*,\s*struct\s+(\w+)\s*,\s*(\w+)\s*\)")
UNARY = ("!", "-", "~")


@dataclass(slots=True)
class Scope:
    """Names inside of one function: locals with their values, and variables that point to a structure.

    `pointers` maps a C variable to its structure's tag; `inside` the path "array.map" to the "map" that it is.
    """

    look: Lookup
    structs: Structs
    pointers: dict[str, str] = field(default_factory=dict)
    values: dict[str, Expr] = field(default_factory=dict)
    inside: dict[str, str] = field(default_factory=dict)


def read_gen_lookup(function: Code, look: Lookup, structs: Structs, notes: Notes) -> GenLookup:
    """The function's body as statements; what has no rule is Opaque in place, and noted."""
    scope = Scope(look, structs)
    name = function.need("declarator")
    for parameter in name.find("parameter_declaration"):
        match = re.fullmatch(r"(?:const )?struct (\w+) ?\* ?(\w+)", parameter.text)
        if match:
            scope.pointers[match[2]] = match[1]
    plain = name.need("declarator").text
    body = function.need("body").children
    statements = _block(body, scope, notes, last=True)
    return GenLookup(plain, tuple(statements), function.file, function.line)


def _block(body: list[Code], scope: Scope, notes: Notes, last: bool) -> list[Statement]:
    """`last` says that the function ends behind this block, so that it may return what was emitted."""
    found: list[Statement] = []
    for index, code in enumerate(body):
        try:
            found.extend(_statement(code, scope, notes, last and index == len(body) - 1))
        except Unread as error:
            notes.add(code.file, code.line, error)
            found.append(Opaque(code.text[:1000], code.line))
    return found


def _statement(code: Code, scope: Scope, notes: Notes, last: bool) -> list[Statement]:
    match code.type:
        case "declaration":
            _declare(code, scope)
            return []
        case "compound_statement":
            return _block(code.children, scope, notes, last)
        case "if_statement":
            alternative = code.get("alternative")
            branch = [] if alternative is None else _body(alternative)
            condition = _expr(code.need("condition"), scope)
            then = _block(_body(code.need("consequence")), scope, notes, False)
            return [If(condition, tuple(then), tuple(_block(branch, scope, notes, False)))]
        case "return_statement":
            text = code.text.removeprefix("return").rstrip(";").strip()
            declined = re.fullmatch(r"-\s*(E[A-Z0-9]+)", text)
            if declined:
                return [Decline(declined[1])]
            if last and re.fullmatch(r"insn - insn_buf", text):
                return []
        case "expression_statement" if code.children:
            return _expression(code, scope)
    raise Unread(f"a statement that is not understood: {code.text}")


def _body(code: Code) -> list[Code]:
    if code.type == "else_clause":
        code = code.children[0]
    return code.children if code.type == "compound_statement" else [code]


def _expression(code: Code, scope: Scope) -> list[Statement]:
    inner = code.children[0]
    if inner.type == "call_expression" and inner.need("function").text in CHECKS:
        return []
    if inner.type == "assignment_expression" and inner.need("left").text.replace(" ", "") == "*insn++":
        call = inner.need("right")
        if call.type == "call_expression" and inner.need("operator").text == "=":
            macro = call.need("function").text
            read = _callee if macro == "BPF_EMIT_CALL" else _expr
            return [Emit(macro, tuple(read(item, scope) for item in _arguments(call)), code.line)]
    if inner.type in ("assignment_expression", "update_expression"):
        target = (inner.get("left") or inner.need("argument")).text
        scope.values.pop(target, None)
        scope.pointers.pop(target, None)
    raise Unread(f"a statement that is not understood: {code.text}")


def _declare(code: Code, scope: Scope) -> None:
    """Locals: `const int ret = BPF_REG_0`, `u32 size = array->elem_size`, `struct t *x = container_of(…)`."""
    kind = code.need("type")
    for item in code.children:
        if item.type != "init_declarator":
            continue
        name = item.need("declarator").text.lstrip("* ")
        value = item.need("value")
        if kind.text == "struct bpf_insn" and value.text == "insn_buf":
            continue
        container = CONTAINER.fullmatch(value.text)
        if container:
            variable, tag, member = container.groups()
            if kind.text != f"struct {tag}" or variable not in scope.pointers:
                raise Unread(f"a container that is not understood: {code.text}")
            scope.pointers[name] = tag
            scope.inside[f"{name}.{member}"] = variable
            continue
        scope.values[name] = _local(read_type(f"{kind.text} {name}", scope.look).c, _expr(value, scope), code, scope)


def _local(c: str, value: Expr, code: Code, scope: Scope) -> Expr:
    """The value of a local of type `c`, which must hold it as it is: no conversion is modelled."""
    declared = read_type(c, scope.look)
    fits = isinstance(value, Name) or (
        isinstance(value, Field) and (value.bits, value.signed) == (declared.bits, declared.signed)
    )
    match value:
        case Const(number):
            fits = declared.bits >= 32 and 0 <= number < 1 << 31
        case Apply("round_up", (Field(_, bits, signed), Const())):  # include/linux/math.h: of the first operand's type
            fits = (bits, signed) == (declared.bits, declared.signed)
    if not fits:
        raise Unread(f"a local that converts its value: {code.text}")
    return value


def _arguments(call: Code) -> list[Code]:
    return call.need("arguments").children


def _expr(code: Code, scope: Scope) -> Expr:
    match code.type:
        case "parenthesized_expression" if len(code.children) == 1:
            return _expr(code.children[0], scope)
        case "number_literal":
            return Const(_number(code.text))
        case "identifier":
            return _identifier(code.text, scope)
        case "field_expression":
            return _field(code, scope)
        case "binary_expression":
            arguments = (_expr(code.need("left"), scope), _expr(code.need("right"), scope))
            return Apply(code.need("operator").text, arguments)
        case "unary_expression" if code.need("operator").text in UNARY:
            return Apply(code.need("operator").text, (_expr(code.need("argument"), scope),))
        case "sizeof_expression":
            return SizeOf(_type_name(code.text.removeprefix("sizeof").strip()[1:-1], scope))
        case "offsetof_expression":
            return _offset(code)
        case "type_descriptor":
            return SizeOf(_type_name(code.text, scope))
        case "call_expression":
            return _call(code, scope)
    raise Unread(f"an expression that is not understood: {code.text}")


def _identifier(name: str, scope: Scope) -> Expr:
    if name in scope.values:
        return scope.values[name]
    if name in scope.pointers or not re.fullmatch(r"[A-Z]\w*|__\w+|\w+_elem\w*", name):
        raise Unread(f"a name that is not understood: {name}")
    return Name(name)


def _callee(code: Code, scope: Scope) -> Expr:
    """What BPF_EMIT_CALL is given: a function, by any name; up to 5.15 in a cast."""
    while code.type == "call_expression" and code.need("function").text == "BPF_CAST_CALL":
        if len(_arguments(code)) != 1:
            raise Unread(f"a cast that is not understood: {code.text}")
        code = _arguments(code)[0]
    local = code.text in scope.values or code.text in scope.pointers
    return Name(code.text) if code.type == "identifier" and not local else _expr(code, scope)


def _call(code: Code, scope: Scope) -> Expr:
    function = code.need("function").text
    if function == "BPF_SIZEOF":  # a type stands where C wants an expression, so the parse has no node for it
        return Apply(function, (SizeOf(_type_name(code.need("arguments").text[1:-1], scope)),))
    return Apply(function, tuple(_expr(item, scope) for item in _arguments(code)))


def _number(text: str) -> int:
    match = re.fullmatch(r"(0[xX][0-9a-fA-F]{1,16}|[1-9]\d{0,18}|0)[uUlL]*", text)
    if match is None:
        raise Unread(f"a number that is not understood: {text}")
    return int(match[1], 0)


def _type_name(text: str, scope: Scope) -> str:
    return read_type(text, scope.look).c


def _offset(code: Code) -> Offset:
    match = re.fullmatch(r"offsetof\s*\(\s*struct (\w+)\s*,\s*(\w+)\s*\)", code.text)
    if match is None:
        raise Unread(f"an offset that is not understood: {code.text}")
    return Offset(match[1], match[2])


def _field(code: Code, scope: Scope) -> Field:
    """`map->max_entries`, `array->map.max_entries`: a path from the variable, with the member's width."""
    path = re.sub(r"\s*(?:->|\.)\s*", ".", code.text)
    for prefix, variable in scope.inside.items():
        if path.startswith(prefix + "."):
            path = variable + path.removeprefix(prefix)
    parts = path.split(".")
    tag = scope.pointers.get(parts[0])
    if tag is None or len(parts) != 2:
        raise Unread(f"a member that is not understood: {code.text}")
    member = scope.structs.member(tag, parts[1])
    c = read_type(member, scope.look)
    if c.bits == 0 or c.pointer:
        raise Unread(f"a member that is no number: {code.text}")
    return Field(path, c.bits, c.signed)


def opaque_calls(lookups: Mapping[str, GenLookup]) -> list[str]:
    """Functions with a statement that was not read."""
    return [name for name, row in lookups.items() if any(isinstance(item, Opaque) for item in row.body)]
