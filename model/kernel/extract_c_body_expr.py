"""C expressions as `model.kernel.c_body` has them."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from model.kernel.c_body import (
    Address,
    Array,
    Binary,
    Call,
    Cast,
    Conditional,
    Container,
    Deref,
    Expr,
    Index,
    Integer,
    Invoke,
    Local,
    Member,
    Null,
    Number,
    Pointer,
    Routine,
    Struct,
    Type,
    Unary,
)
from model.kernel.c_layout import Structs
from model.kernel.c_tree import Code, Unread
from model.kernel.c_types import KEYWORDS, Lookup
from model.kernel.extract_c_body_types import member_type, read_c_type

CONTAINER = re.compile(r"container_of\(\s*(\w+)\s*,\s*(\w+)\s*,\s*(\w+)\s*\)")  # `struct` is blanked already
NUMBER = re.compile(r"(0[xX][0-9a-fA-F]{1,16}|[1-9]\d{0,18}|0)([uU]?)([lL]{0,2})")
BINARY = ("+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>", "==", "!=", "<", "<=", ">", ">=", "&&", "||")
UNARY = ("!", "-", "~")
# Macros without a body here: their meaning is in model.semantics.c, under these names.
MACROS = ("round_up", "roundup", "this_cpu_ptr", "IS_ERR")
# Macros whose value is that of their first argument: reads (one load each), and a hint for the compiler.
READS = ("READ_ONCE", "rcu_dereference", "rcu_dereference_check", "rcu_dereference_raw")
HINTS = ("likely", "unlikely")


@dataclass(slots=True)
class Scope:
    """Types of the names inside of one function; numbers by name (enumerators, errnos); macros of the file by name."""

    look: Lookup
    structs: Structs
    locals: dict[str, Type]
    constants: Mapping[str, int] = field(default_factory=dict)
    macro: "Callable[[str], tuple[list[str], str] | None]" = lambda name: None


def read_expr(code: Code, scope: Scope) -> Expr:
    """Raises Unread."""
    match code.type:
        case "parenthesized_expression" if len(code.children) == 1:
            return read_expr(code.children[0], scope)
        case "number_literal":
            return _number(code.text)
        case "null":
            return Null()
        case "true" | "false":
            return Number(int(code.type == "true"), Integer(32, True))  # include/linux/stddef.h: enumerators
        case "unary_expression" if code.need("operator").text in UNARY:
            return Unary(code.need("operator").text, read_expr(code.need("argument"), scope))
        case "binary_expression" if code.need("operator").text == "&" and _is_cast(code.need("left"), scope):
            return _cast(code.need("left"), Address(read_place(code.need("right"), scope)), scope)
        case "binary_expression" if code.need("operator").text in BINARY:
            left, right = read_expr(code.need("left"), scope), read_expr(code.need("right"), scope)
            return Binary(code.need("operator").text, left, right)
        case "conditional_expression":
            parts = [read_expr(code.need(part), scope) for part in ("condition", "consequence", "alternative")]
            return Conditional(*parts)
        case "cast_expression":
            kind = read_c_type(code.need("type").text, scope.look)
            return Cast(kind, read_expr(code.need("value"), scope))
        case "pointer_expression" if code.need("operator").text == "&":
            return Address(read_place(code.need("argument"), scope))
        case "call_expression":
            return _call(code, scope)
    return read_place(code, scope)


def read_place(code: Code, scope: Scope) -> Expr:
    """An expression that designates an object (C11 6.3.2.1). Raises Unread."""
    match code.type:
        case "parenthesized_expression" if len(code.children) == 1:
            return read_place(code.children[0], scope)
        case "identifier" if code.text == "NULL":
            return Null()
        case "identifier" if code.text in scope.constants and code.text not in scope.locals:
            return Number(scope.constants[code.text], Integer(32, True))  # C11 6.4.4.3
        case "identifier" if code.text in scope.locals:
            return Local(code.text)
        case "pointer_expression" if code.need("operator").text == "*":
            return Deref(read_expr(code.need("argument"), scope))
        case "subscript_expression":
            index = code.get("index") or code.children[-1]
            return Index(read_expr(code.need("argument"), scope), read_expr(index, scope))
        case "field_expression":
            return _member(code, scope)
    raise Unread(f"an expression that is not understood: {code.text}")


def _number(text: str) -> Number:
    """C11 6.4.4.1: the first of int, (unsigned,) long, unsigned long that holds the value."""
    match = NUMBER.fullmatch(text)
    if match is None:
        raise Unread(f"a number that is not understood: {text}")
    value, based = int(match[1], 0), match[1][:1] == "0"
    ranks = [(32, True), (32, False), (64, True), (64, False)]
    for bits, signed in ranks:
        allowed = not (signed and match[2]) and (bits == 64 or not match[3]) and (signed or match[2] or based)
        if allowed and value < 1 << (bits - signed):
            return Number(value, Integer(bits, signed))
    raise Unread(f"a number without a type: {text}")


def _call(code: Code, scope: Scope) -> Expr:
    container = CONTAINER.fullmatch(code.text)
    if container:
        pointer, tag, member = container.groups()
        if pointer not in scope.locals:
            raise Unread(f"a container that is not understood: {code.text}")
        return Container(Local(pointer), tag, member)
    function = code.need("function")
    items = code.need("arguments").children
    if function.type == "parenthesized_expression" and len(items) == 1:  # `(u64)(x)`: a cast to a name
        name = function.children[0]
        if name.type == "identifier" and name.text not in scope.locals:
            return Cast(read_c_type(name.text, scope.look), read_expr(items[0], scope))
    if _is_cast(function, scope) and len(items) == 1:
        return _cast(function, read_expr(items[0], scope), scope)
    if function.type == "identifier" and function.text in scope.locals:
        kind = scope.locals[function.text]
        if not isinstance(kind, Pointer) or not isinstance(kind.to, Routine):
            raise Unread(f"a call of what is no function: {code.text}")
        return Invoke(Local(function.text), tuple(read_expr(item, scope) for item in items))
    if function.type != "identifier":
        raise Unread(f"a call through a pointer: {code.text}")
    if function.text in READS and items:
        return read_place(items[0], scope)
    if function.text in HINTS and len(items) == 1:  # include/linux/compiler.h: !!(x)
        return Unary("!", Unary("!", read_expr(items[0], scope)))
    return Call(function.text, tuple(read_expr(item, scope) for item in items))


def _is_cast(code: Code, scope: Scope) -> bool:
    """`(NAME)(TYPE)`, where NAME is a type by name and TYPE one of C's words.

    Without typedefs, `(u64)(long)&x` looks like a binary operator, and `(u64)(long)(x)` like two calls.
    """
    if code.type != "call_expression" or code.need("function").type != "parenthesized_expression":
        return False
    name, items = code.need("function").children, code.need("arguments").children
    plain = len(name) == 1 and name[0].type == "identifier" and name[0].text not in scope.locals
    return plain and len(items) == 1 and set(items[0].text.split()) <= KEYWORDS


def _cast(code: Code, operand: Expr, scope: Scope) -> Expr:
    """The two casts that `_is_cast` found, of `operand`."""
    outer, inner = code.need("function").children[0].text, code.need("arguments").children[0].text
    return Cast(read_c_type(outer, scope.look), Cast(read_c_type(inner, scope.look), operand))


def _member(code: Code, scope: Scope) -> Expr:
    arrow = code.need("operator").text == "->"
    inner = code.need("argument")
    base = Deref(read_expr(inner, scope)) if arrow else read_place(inner, scope)
    kind = _object_type(base, scope)
    name = code.need("field").text
    if not isinstance(kind, Struct):
        raise Unread(f"a member of something that is no structure: {code.text}")
    return Member(base, kind.tag, name, member_type(scope.structs, kind.tag, name, scope.look))


def _object_type(expr: Expr, scope: Scope) -> Type | None:
    """The type of an object where it can be told without the conversions of arithmetic, else None."""
    match expr:
        case Local(name):
            return scope.locals[name]
        case Member(_, _, _, kind) | Cast(kind, _):
            return kind
        case Container(_, tag, _):
            return Pointer(Struct(tag))
        case Deref(pointer) | Index(pointer, _):
            outer = _object_type(pointer, scope)
            if isinstance(outer, Pointer):
                return outer.to
            return outer.of if isinstance(outer, Array) else None
        case Address(inner):
            of = _object_type(inner, scope)
            return None if of is None else Pointer(of)
    return None
