"""HTML as the standard library's parser reads it: elements with their attributes, and all text."""

from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = frozenset({"br", "input", "link", "meta"})


@dataclass(slots=True)
class Node:
    tag: str
    attributes: dict[str, str]
    children: "list[Node | str]" = field(default_factory=list)

    def text(self) -> str:
        return "".join(child if isinstance(child, str) else child.text() for child in self.children)

    def all(self, tag: str = "", class_: str = "", **attributes: str) -> "list[Node]":
        """Below this one, in the order of the file."""
        found = []
        for child in self.children:
            if isinstance(child, Node):
                fits = not tag or child.tag == tag
                fits = fits and (not class_ or class_ in child.attributes.get("class", "").split())
                if fits and attributes.items() <= child.attributes.items():
                    found.append(child)
                found += child.all(tag, class_, **attributes)
        return found

    def one(self, tag: str = "", class_: str = "", **attributes: str) -> "Node":
        (found,) = self.all(tag, class_, **attributes)
        return found


class _Reader(HTMLParser):
    """Refuses what the report never has: comments, instructions, elements that end where they did not begin."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open = [Node("", {})]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"<{tag}> has an attribute twice"
        node = Node(tag, {name: value or "" for name, value in attrs})
        self.open[-1].children.append(node)
        if tag not in VOID:
            self.open.append(node)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        raise AssertionError(f"<{tag}/>")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop().tag == tag

    def handle_data(self, data: str) -> None:
        self.open[-1].children.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data}")

    def handle_pi(self, data: str) -> None:
        raise AssertionError(f"an instruction: {data}")

    def unknown_decl(self, data: str) -> None:
        raise AssertionError(f"a declaration: {data}")


def parsed(text: str) -> Node:
    reader = _Reader()
    reader.feed(text)
    reader.close()
    (root,) = reader.open
    return root
