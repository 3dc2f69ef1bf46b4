"""The C of a kernel function as data: enough of C to say what a map operation does, and no more.

Types are resolved by the extractor (widths are LP64's); C's conversions between them are left to
`model.semantics.c`. In JSON each node is a list whose first element is its class's name in lower case.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass


@dataclass(frozen=True, slots=True)
class Integer:
    """An integer type of 8, 16, 32 or 64 bits. `_Bool` has `boolean` set (C11 6.3.1.2: converting tests for zero)."""

    bits: int
    signed: bool
    boolean: bool = False


@dataclass(frozen=True, slots=True)
class Char:
    """Plain `char`: 8 bits whose sign the architecture decides before 6.2; only pointers to it have a meaning here."""


@dataclass(frozen=True, slots=True)
class Struct:
    tag: str


@dataclass(frozen=True, slots=True)
class Void:
    pass


@dataclass(frozen=True, slots=True)
class Pointer:
    to: "Type"


@dataclass(frozen=True, slots=True)
class Array:
    """An array of unknown length; it decays to a pointer to its first element (C11 6.3.2.1)."""

    of: "Type"


@dataclass(frozen=True, slots=True)
class Routine:
    """A function that is reached through a pointer."""

    result: "Type"
    params: "tuple[Type, ...]"


Type = Integer | Char | Struct | Void | Pointer | Array | Routine


@dataclass(frozen=True, slots=True)
class Number:
    """An integer constant with the type that C11 6.4.4.1 gives it."""

    value: int
    type: Integer


@dataclass(frozen=True, slots=True)
class Null:
    """NULL, a `void *`."""


@dataclass(frozen=True, slots=True)
class Local:
    """A parameter or local variable. Its address is taken only where it is handed to a callback (`Invoke`)."""

    name: str


@dataclass(frozen=True, slots=True)
class Deref:
    """The object `*pointer`."""

    pointer: "Expr"


@dataclass(frozen=True, slots=True)
class Index:
    """The object `base[index]`."""

    base: "Expr"
    index: "Expr"


@dataclass(frozen=True, slots=True)
class Member:
    """The object `base.member`, `base` being an object of type `struct tag`; `p->m` is a member of `Deref(p)`."""

    base: "Expr"
    struct: str
    member: str
    type: Type


@dataclass(frozen=True, slots=True)
class Address:
    """`&object`."""

    of: "Expr"


@dataclass(frozen=True, slots=True)
class Unary:
    operator: str
    operand: "Expr"


@dataclass(frozen=True, slots=True)
class Binary:
    """`operator` is C's, also "&&" and "||" (the right operand has no effect where the left decides)."""

    operator: str
    left: "Expr"
    right: "Expr"


@dataclass(frozen=True, slots=True)
class Conditional:
    condition: "Expr"
    then: "Expr"
    otherwise: "Expr"


@dataclass(frozen=True, slots=True)
class Cast:
    type: Type
    operand: "Expr"


@dataclass(frozen=True, slots=True)
class Container:
    """`container_of(pointer, struct tag, member)` (include/linux/container_of.h)."""

    pointer: "Expr"
    struct: str
    member: str


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a function, or of a macro that `model.semantics.c` knows by name ("round_up", "this_cpu_ptr")."""

    function: str
    arguments: "tuple[Expr, ...]"


@dataclass(frozen=True, slots=True)
class Invoke:
    """A call through a pointer to a function (`Routine`)."""

    pointer: "Expr"
    arguments: "tuple[Expr, ...]"


Object = Local | Deref | Index | Member
Expr = Object | Number | Null | Address | Unary | Binary | Conditional | Cast | Container | Call | Invoke


@dataclass(frozen=True, slots=True)
class Declare:
    """A local of type `type`; without `value` it is not initialised."""

    name: str
    type: Type
    value: Expr | None


@dataclass(frozen=True, slots=True)
class Assign:
    target: Expr
    value: Expr


@dataclass(frozen=True, slots=True)
class Branch:
    condition: Expr
    then: "tuple[Step, ...]"
    otherwise: "tuple[Step, ...]"


@dataclass(frozen=True, slots=True)
class Leave:
    """`return value`."""

    value: Expr | None


@dataclass(frozen=True, slots=True)
class Do:
    """An expression for its effects."""

    expr: Expr


@dataclass(frozen=True, slots=True)
class Check:
    """A statement without effect for one program on one CPU, by its text: WARN_ON_ONCE of a lock state, an RCU read
    section's begin or end, a statement about migration.
    """

    text: str


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A statement without a rule: its source text and line. What depends on it is `Unsupported`."""

    text: str
    line: int


@dataclass(frozen=True, slots=True)
class Loop:
    """`for` and `while`: `first`; then, each turn, `before`, the test, the body, `following`.

    `before` has what an assignment in the test does; a test that is not there (None) always holds.
    """

    first: "tuple[Step, ...]"
    before: "tuple[Step, ...]"
    condition: Expr | None
    following: "tuple[Step, ...]"
    body: "tuple[Step, ...]"


@dataclass(frozen=True, slots=True)
class Each:
    """A macro's walk along a list of nodes that ends at a mark with its lowest bit set (include/linux/list_nulls.h).

    `position` (a pointer to a node) begins at `head->first`; each turn `entry` is the `struct tag` whose `member` the
    node is, and the next node is read, `early` before the body or else behind it.
    """

    early: bool
    entry: str
    position: str
    head: Expr
    struct: str
    member: str
    body: "tuple[Step, ...]"


@dataclass(frozen=True, slots=True)
class Break:
    pass


@dataclass(frozen=True, slots=True)
class Continue:
    pass


@dataclass(frozen=True, slots=True)
class Goto:
    label: str


@dataclass(frozen=True, slots=True)
class Label:
    name: str


Step = Declare | Assign | Branch | Leave | Do | Check | Unreadable | Loop | Each | Break | Continue | Goto | Label


@dataclass(frozen=True, slots=True)
class Param:
    name: str
    type: Type


@dataclass(frozen=True, slots=True)
class Body:
    """One function. `steps` is None for a function that is known by its prototype only: its behaviour is arbitrary."""

    function: str
    result: Type
    params: tuple[Param, ...]
    steps: tuple[Step, ...] | None
    file: str
    line: int


def steps_of(steps: tuple[Step, ...]) -> Iterator[Step]:
    """All statements, those inside of branches and loops too, in source order."""
    for step in steps:
        yield step
        match step:
            case Branch(_, then, otherwise):
                yield from steps_of(then + otherwise)
            case Loop(first, before, _, following, body):
                yield from steps_of(first + before + body + following)
            case Each():
                yield from steps_of(step.body)


def nodes_of(node: object) -> Iterator[object]:
    """All nodes in `node` (a node, a tuple of them, or None), itself included."""
    if isinstance(node, tuple):
        for item in node:
            yield from nodes_of(item)
    elif is_dataclass(node):
        yield node
        for field in fields(node):
            yield from nodes_of(getattr(node, field.name))
