"""Loops, jumps and walks along lists in function bodies, for the operations that walk through a map.

What is not one of these shapes raises Unread, and the statement is `Unreadable` in its place. A release file that is
not made from a tree has no bodies of walks; it may carry those of its neighbours where these are alike on both sides.
"""

import re
from collections.abc import Callable

from model.kernel.c_body import (
    Assign,
    Binary,
    Break,
    Check,
    Continue,
    Each,
    Expr,
    Goto,
    Integer,
    Label,
    Local,
    Loop,
    Number,
    Pointer,
    Step,
    Struct,
)
from model.kernel.c_tree import Code, Unread
from model.kernel.extract_c_body_expr import Scope, read_expr, read_place

# `NAME_for_each…(…) {` is no C without the preprocessor; read as `while (NAME_for_each…(…)) {`.
MACRO = re.compile(rb"(?<![\w.])(\w*for_each\w*\s*\((?:[^(){};]|\([^(){};]{0,200}\)){1,400}\))(?=\s*\{)")
WALK = re.compile(r"\w*for_each\w*")
# No effect for one program that runs on one CPU: RCU read sections, and that the task stays on its CPU.
EFFECTLESS = ("rcu_read_lock", "rcu_read_unlock", "cant_migrate", "migrate_disable", "migrate_enable")
FOR = re.compile(r"for \((.{1,1000})\)", re.DOTALL)
SPACE = re.compile(r"\s+|\(\{barrier\(\);\}\),")

Block = Callable[[list[Code], Scope], list[Step]]


def read_walk(code: Code, scope: Scope, block: Block) -> list[Step]:
    """A statement of one of these kinds; `block` reads what it holds. Raises Unread."""
    match code.type:
        case "for_statement":
            return [_for(code, scope, block)]
        case "while_statement":
            condition = code.need("condition").children[0]
            if condition.type == "call_expression" and WALK.fullmatch(condition.need("function").text):
                return [_each(condition, code, scope, block)]
            return [_while(condition, code, scope, block)]
        case "break_statement":
            return [Break()]
        case "continue_statement":
            return [Continue()]
        case "goto_statement":
            return [Goto(code.need("label").text)]
        case "labeled_statement":
            return [Label(code.need("label").text), *block(code.children[1:], scope)]
    raise Unread(f"a statement that is not understood: {code.text}")


def read_effect(code: Code, scope: Scope) -> list[Step]:
    """An expression for its effect: assignments, `x++`, `x += …`, calls without effect. Raises Unread."""
    match code.type:
        case "comma_expression":
            return read_effect(code.need("left"), scope) + read_effect(code.need("right"), scope)
        case "assignment_expression":
            operator = code.need("operator").text
            value = read_expr(code.need("right"), scope)
            target = read_place(code.need("left"), scope)
            if operator == "=":
                return [Assign(target, value)]
            return [_changed(target, operator.removesuffix("="), value)]
        case "update_expression":
            operator = code.need("operator").text
            return [_changed(read_place(code.need("argument"), scope), operator[0], Number(1, Integer(32, True)))]
        case "call_expression":
            function, arguments = code.need("function").text, code.need("arguments").children
            if function in EFFECTLESS and not arguments:
                return [Check(code.text)]
    raise Unread(f"a statement that is not understood: {code.text}")


def _changed(target: Expr, operator: str, value: Expr) -> Assign:
    """C11 6.5.16.2 and 6.5.2.4; of a local only, so that its evaluation has no effect."""
    if not isinstance(target, Local) or operator not in ("+", "-", "*", "&", "|", "^"):
        raise Unread(f"an assignment that is not understood: {operator}=")
    return Assign(target, Binary(operator, target, value))


def _inside(code: Code) -> list[Code]:
    return code.children if code.type == "compound_statement" else [code]


def _for(code: Code, scope: Scope, block: Block) -> Loop:
    initial, condition, update = (code.get(part) for part in ("initializer", "condition", "update"))
    if initial is not None and initial.type == "declaration":
        first = block([initial], scope)
    else:
        first = [] if initial is None else read_effect(initial, scope)
    test = None if condition is None else read_expr(condition, scope)
    following = [] if update is None else read_effect(update, scope)
    body = block(_inside(code.need("body")), scope)
    return Loop(tuple(first), (), test, tuple(following), tuple(body))


def _while(condition: Code, code: Code, scope: Scope, block: Block) -> Loop:
    """`while (x)`, and `while ((x = …))`: the assignment, then a test of x."""
    while condition.type == "parenthesized_expression" and len(condition.children) == 1:
        condition = condition.children[0]
    before: list[Step] = []
    if condition.type == "assignment_expression" and condition.need("operator").text == "=":
        before = read_effect(condition, scope)
        condition = condition.need("left")
    test = read_expr(condition, scope)
    return Loop((), tuple(before), test, (), tuple(block(_inside(code.need("body")), scope)))


def _each(call: Code, code: Code, scope: Scope, block: Block) -> Each:
    """`hlist_nulls_for_each_entry…(entry, position, head, member)`, as the tree's own macro has it."""
    name, arguments = call.need("function").text, call.need("arguments").children
    if len(arguments) != 4:
        raise Unread(f"a walk that is not understood: {call.text}")
    early = _early(name, scope)
    entry, position, member = (arguments[i].text for i in (0, 1, 3))
    kind = scope.locals.get(entry)
    if not isinstance(kind, Pointer) or not isinstance(kind.to, Struct) or position not in scope.locals:
        raise Unread(f"a walk that is not understood: {call.text}")
    head = read_expr(arguments[2], scope)
    body = block(_inside(code.need("body")), scope)
    return Each(early, entry, position, head, kind.to.tag, member, tuple(body))


def _early(name: str, scope: Scope) -> bool:
    """Whether the macro reads the next node before the body (…_safe) or behind it. Raises Unread for any other."""
    macro = scope.macro(name)
    found = FOR.fullmatch(macro[1]) if macro else None
    if macro is None or found is None or len(macro[0]) != 4:
        raise Unread(f"a macro that is not understood: {name}")
    parts = [SPACE.sub("", part) for part in _parts(found[1])]
    entry, position, head, member = macro[0]
    first = f"{position}=rcu_dereference_raw(hlist_nulls_first_rcu({head}))"
    following = f"{position}=rcu_dereference_raw(hlist_nulls_next_rcu({position}))"
    assigned = f"(!is_a_nulls({position}))&&({{{entry}=hlist_nulls_entry({position},typeof(*{entry}),{member});"
    if parts == [first, f"{assigned}{following};1;}})", ""]:
        return True
    if parts == [first, f"{assigned}1;}})", following]:
        return False
    raise Unread(f"a macro that is not understood: {name}")


def _parts(text: str) -> list[str]:
    """What stands between semicolons outside of brackets."""
    parts, depth, start = [], 0, 0
    for index, char in enumerate(text):
        depth += (char in "([{") - (char in ")]}")
        if char == ";" and depth == 0:
            parts.append(text[start:index])
            start = index + 1
    return [*parts, text[start:]]
