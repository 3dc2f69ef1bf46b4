"""Seeded faults in the C of walks: each is one small edit, made wherever its construct stands.

Locals are told by what they are for, whatever the C names them: `flags`, `num_elems` (what is returned behind the
loop), `ret` (the callback's result), `i` (the loop's index), `key` (the local whose address is handed over).
"""

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from model.errors import Unsupported
from model.kernel.c_body import (
    Assign,
    Binary,
    Body,
    Branch,
    Break,
    Call,
    Cast,
    Declare,
    Each,
    Goto,
    Index,
    Integer,
    Invoke,
    Leave,
    Local,
    Loop,
    Null,
    Number,
    Param,
    Type,
    nodes_of,
)
from model.semantics.c_walk import taken
from proofs.properties.callback_code import Code

Edit = Callable[[Any], Any]
INT, U16, U32 = Integer(32, True), Integer(16, False), Integer(32, False)
ONE = Number(1, INT)


def edited(code: Code, edit: Edit) -> Code:
    """The walk, and what it calls, with the fault. Raises `Unsupported` where there is no place for it."""
    plain = _renamed(code)
    bodies = tuple(_mapped(body, edit) for body in plain.bodies)
    if bodies == plain.bodies:
        raise Unsupported(f"{code.function} has nothing that this fault could change")
    return replace(plain, bodies=bodies)


def _renamed(code: Code) -> Code:
    """The same C with locals named by what they are for, where that can be told and the name is not taken."""
    nodes, body = list(nodes_of(code.steps)), code.body
    left = {step.value for step in code.whole.after if isinstance(step, Leave)}
    given = {node.target for node in nodes if isinstance(node, Assign) and isinstance(node.value, Invoke)}
    roles: dict[str, set[Any]] = {
        "flags": {Local(param.name) for param in body.params[-1:]},
        "num_elems": left,
        "ret": given,
        "i": {Local(code.index[0])} if code.index else set(),
        "key": {Local(name) for name in taken(code.steps)},
    }
    names = {node.name for node in nodes if isinstance(node, Local | Declare)} | {param.name for param in body.params}
    new = {one.name: role for role, found in roles.items() for one in found if _only(one, found) and role not in names}

    def edit(node: Any) -> Any:
        match node:
            case Local(name) | Declare(name, _, _) | Param(name, _):
                return replace(node, name=new.get(name, name))
            case Each():
                return replace(
                    node, entry=new.get(node.entry, node.entry), position=new.get(node.position, node.position)
                )
        return node

    bodies = tuple(_mapped(one, edit) if one == body else one for one in code.bodies)
    return replace(code, bodies=bodies)


def _only(one: Any, found: set[Any]) -> bool:
    return isinstance(one, Local) and len(found) == 1


def _mapped(node: Any, edit: Edit) -> Any:
    """Every node after the nodes inside of it."""
    if isinstance(node, tuple):
        return tuple(_mapped(item, edit) for item in node)
    if not is_dataclass(node) or isinstance(node, type):
        return node
    inside = {field.name: _mapped(getattr(node, field.name), edit) for field in fields(node)}
    return edit(replace(node, **inside))


def swap(table: Mapping[Any, Any]) -> Edit:
    """Nodes replaced by others."""
    return lambda node: table.get(node, node)


def begins_at(value: int) -> Edit:
    def edit(node: Any) -> Any:
        match node:
            case Loop((Assign(name, _),), _, _, _, _):
                return replace(node, first=(Assign(name, Number(value, INT)),))
        return node

    return edit


def steps_by(value: int) -> Edit:
    def edit(node: Any) -> Any:
        match node:
            case Loop(_, _, _, (Assign(name, Binary("+", left, _)),), _):
                return replace(node, following=(Assign(name, Binary("+", left, Number(value, INT))),))
        return node

    return edit


def one_too_far(node: Any) -> Any:
    """<= where < was."""
    match node:
        case Loop(_, _, Binary("<", left, right), _, _):
            return replace(node, condition=Binary("<=", left, right))
    return node


def declared(name: str, kind: Type) -> Edit:
    def edit(node: Any) -> Any:
        return replace(node, type=kind) if isinstance(node, Declare) and node.name == name else node

    return edit


def result(kind: Type) -> Edit:
    def edit(node: Any) -> Any:
        return replace(node, result=kind) if isinstance(node, Body) and "_each_" in node.function else node

    return edit


def test_of(name: str, change: Callable[[Any], Any]) -> Edit:
    """Another test of a local: `if (ret)`, `if (flags != 0)`."""

    def edit(node: Any) -> Any:
        match node:
            case Branch(Local(found), _, _) if found == name:
                return replace(node, condition=change(node.condition))
            case Branch(Invoke(_, _), _, _) if name == "ret":
                return replace(node, condition=change(node.condition))
            case Branch(Binary("!=" | ">" as operator, Local(found), zero), _, _) if found == name:
                return replace(node, condition=Binary(operator, change(Local(found)), zero))
        return node

    return edit


def never(name: str) -> Edit:
    """The test of a local never holds."""
    return test_of(name, lambda value: Binary("&", value, Number(0, INT)))


def low_half(name: str) -> Edit:
    return test_of(name, lambda local: Cast(U32, local))


def lowest_bit(name: str) -> Edit:
    return test_of(name, lambda local: Binary("&", local, ONE))


def counts(value: int) -> Edit:
    def edit(node: Any) -> Any:
        match node:
            case Assign(Local("num_elems") as name, Binary("+", _, _)):
                return Assign(name, Binary("+", name, Number(value, INT)))
        return node

    return edit


def counted_late(node: Any) -> Any:
    """The count goes up behind the test of the callback's result."""
    if not isinstance(node, Loop | Each):
        return node
    late = [one for one in node.body if isinstance(one, Assign) and one.target == Local("num_elems")]
    return replace(node, body=(*(one for one in node.body if one not in late), *late))


def hands_over(*order: int | None) -> Edit:
    """The callback's arguments in another order; None is a 0."""

    def edit(node: Any) -> Any:
        if not isinstance(node, Invoke):
            return node
        return replace(node, arguments=tuple(Number(0, INT) if i is None else node.arguments[i] for i in order))

    return edit


def next_value(node: Any) -> Any:
    """The value of the element behind the one whose key is handed over."""
    ahead = Binary("+", Local("i"), ONE)
    match node:
        case Index(base, Local("i")):
            return Index(base, ahead)
        case Call("array_map_elem_ptr" as name, (array, Local("i"))):
            return Call(name, (array, ahead))
    return node


def next_key(node: Any) -> Any:
    """A key that is one too large."""
    match node:
        case Assign(Local("key") as key, Local("i") as index):
            return Assign(key, Binary("+", index, ONE))
    return node


def without(*macros: str) -> Edit:
    """A macro's argument as it is."""

    def edit(node: Any) -> Any:
        return node.arguments[0] if isinstance(node, Call) and node.function in macros else node

    return edit


def late_successor(node: Any) -> Any:
    return replace(node, early=False) if isinstance(node, Each) else node


def leaves_the_list_only(node: Any) -> Any:
    return Break() if isinstance(node, Goto) else node


def returns(value: int) -> Edit:
    """What is returned behind the loop."""
    return swap({Leave(Local("num_elems")): Leave(Number(value, INT))})


def asks_from_the_start(node: Any) -> Any:
    """The next element is always the one behind no key."""
    match node:
        case Call("rhashtable_next_key" as name, (table, _)):
            return Call(name, (table, Null()))
        case Assign(Local("elem") as elem, Call("rhashtable_next_key", _) as call):
            return Assign(elem, call)
    return node


def keeps_the_key(node: Any) -> Any:
    """The key that is asked by stays the first."""
    match node:
        case Assign(Local("prev_key") as key, _):
            return Assign(key, Null())
    return node
