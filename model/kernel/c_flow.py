"""Whether a path in a C function's text goes from an assignment to a return: conditions are not judged."""

from tree_sitter import Node

STEPS = 200  # statements between the two
LOOPS = ("for_statement", "while_statement", "do_statement", "switch_statement")
JUMPS = ("return_statement", "break_statement", "continue_statement")


def reaches(start: Node, end: Node, changes: list[Node], function: Node) -> bool:
    """Whether some path in the text goes from `start` to the statement `end` without another of `changes`."""
    node = _statement(start)
    if node is None:
        return False
    labels = _labels(function)
    following = _after(node)
    for _ in range(STEPS):
        while following is None:
            parent = node.parent
            if parent is None or parent.id == function.id or parent.type in LOOPS:
                return False
            node = parent
            following = _after(node)
        node = following
        if _inside(end, node):
            return not any(_inside(change, node) and change.end_byte <= end.start_byte for change in changes)
        if node.type == "goto_statement":
            label = node.child_by_field_name("label")
            aim = labels.get(label.text or b"") if label is not None else None
            if aim is None:
                return False
            node, following = aim, aim
            continue
        if node.type in JUMPS or not _passable(node, changes):
            return False
        following = _after(node)
    return False


def _statement(node: Node) -> Node | None:
    """The statement that `node` is the whole of; None for an assignment inside of a larger expression."""
    parent = node.parent
    return parent if parent is not None and parent.type in ("expression_statement", "declaration") else None


def _after(node: Node) -> Node | None:
    """The next statement of the same block. The arms of an `if` do not follow one another."""
    parent = node.parent
    if parent is None or parent.type in ("if_statement", "else_clause"):
        return None
    return node.next_named_sibling


def _inside(node: Node, outer: Node) -> bool:
    return outer.start_byte <= node.start_byte and node.end_byte <= outer.end_byte


def _passable(node: Node, changes: list[Node]) -> bool:
    """Whether a path goes through `node` without a change: none in it, or in one arm of an `if` only."""
    within = [change for change in changes if _inside(change, node)]
    if not within:
        return True
    if node.type == "labeled_statement":
        return all(_passable(child, changes) for child in node.named_children[1:])
    if node.type != "if_statement":
        return False
    arms = [node.child_by_field_name("consequence"), node.child_by_field_name("alternative")]
    if any(not any(arm is not None and _inside(change, arm) for arm in arms) for change in within):
        return False  # in the condition
    return any(arm is None or not any(_inside(change, arm) for change in within) for arm in arms)


def _labels(function: Node) -> dict[bytes, Node]:
    table: dict[bytes, Node] = {}
    stack = [function]
    while stack:
        node = stack.pop()
        if node.type == "labeled_statement":
            label = node.child_by_field_name("label")
            if label is not None and label.text is not None:
                table[label.text] = node
        stack.extend(node.named_children)
    return table
