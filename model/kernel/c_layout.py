"""Offsets in structures whose layout does not depend on the kernel's configuration (LP64, natural alignment)."""

import re
from dataclasses import dataclass

from model.kernel.c_tree import Code, Tree, Unread, closing, parse
from model.kernel.c_types import Lookup, read_type

# Where the structures of interest and their members are defined.
FILES = (
    "include/linux/bpf.h",
    "include/linux/types.h",
    "include/linux/list_nulls.h",
    "include/linux/llist.h",
    "include/linux/rhashtable-types.h",
    "include/net/xdp_sock.h",
    "kernel/bpf/hashtab.c",
    "kernel/bpf/bpf_lru_list.h",
    "kernel/bpf/percpu_freelist.h",
)
ALIGNED = re.compile(rb"__aligned\((\d{1,4})\)|__attribute__\(\(aligned\((?:(\d{1,4})|sizeof\(void \*\))\)\)\)")
ANNOTATION = re.compile(ALIGNED.pattern + rb"|\b__(?:rcu|percpu|user|private|counted_by\(\w+\))\b")
DIRECTIVE = re.compile(rb"(?m)^[ \t]*#(?:\\\n|[^\n])*")
DECLARATORS = (
    "field_identifier",
    "pointer_declarator",
    "array_declarator",
    "function_declarator",
    "parenthesized_declarator",
)
DEPTH = 12


@dataclass(frozen=True, slots=True)
class Extent:
    """Bytes, and the alignment in bytes."""

    size: int
    align: int


class Structs:
    """The definitions of `struct tag` in the files above and in `more`."""

    def __init__(self, tree: Tree, look: Lookup, more: tuple[str, ...] = ()) -> None:
        self._tree = tree
        self._look = look
        self._files = (*more, *FILES)
        self._found: dict[str, tuple[Code, bytes]] = {}

    def definition(self, tag: str) -> tuple[Code, bytes]:
        """The parsed definition, annotations blanked, and the bytes that it was parsed from, annotations in place.

        Raises Unread where no file has it.
        """
        if tag not in self._found:
            pattern = re.compile(rb"\bstruct\s+" + re.escape(tag).encode() + rb"\s*\{")
            for file in self._files:
                source = self._tree.get(file)
                match = pattern.search(source.data) if source else None
                if source is None or match is None:
                    continue
                end = closing(source.data, match.end() - 1)
                tail = re.compile(rb"[^;]{0,200};").match(source.data, end)
                raw = source.data[match.start() : tail.end() if tail else end]
                plain = ANNOTATION.sub(lambda m: b" " * len(m[0]), DIRECTIVE.sub(lambda m: b" " * len(m[0]), raw))
                code = next(parse(plain, file, source.line(match.start())).find("struct_specifier"))
                self._found[tag] = (code, raw)
                break
            else:
                raise Unread(f"struct {tag} was not found")
        return self._found[tag]

    def member(self, tag: str, name: str) -> str:
        """The declaration of one member of `struct tag` ("u32 max_entries"). Raises Unread where it is not there."""
        for item in self.definition(tag)[0].need("body").children:
            declared = [child.text for child in item.find("field_identifier")]
            if name in declared:
                if len(declared) != 1 or ":" in item.text:
                    raise Unread(f"a member that is not understood: {item.text}")
                return item.text.rstrip("; ")
        raise Unread(f"struct {tag} has no member {name}")

    def offset(self, tag: str, name: str) -> int:
        """Bytes from the start of `struct tag` to `name`. Raises Unread where the configuration decides."""
        offsets: dict[str, int] = {}
        self._whole(tag, offsets, DEPTH)
        if name not in offsets:
            raise Unread(f"struct {tag} has no member {name}")
        return offsets[name]

    def _whole(self, tag: str, offsets: dict[str, int], depth: int) -> Extent:
        code, raw = self.definition(tag)
        if DIRECTIVE.search(raw) or b"cacheline_aligned" in raw:
            raise Unread(f"struct {tag} depends on the configuration")
        extent = self._walk(code, raw, offsets, 0, depth)
        return _aligned(extent, raw[raw.rindex(b"}") :])

    def _walk(self, code: Code, raw: bytes, offsets: dict[str, int], base: int, depth: int) -> Extent:
        """The extent of a structure or union; its members' offsets (anonymous ones' too) into `offsets`."""
        if depth == 0:
            raise Unread("structures are nested too deeply")
        end, align = 0, 1
        for item in code.need("body").children:
            for name, extent in self._members(item, raw, depth):
                start = 0 if code.type == "union_specifier" else -(-end // extent.align) * extent.align
                if name:
                    offsets.setdefault(name, base + start)
                else:
                    self._walk(item.need("type"), raw, offsets, base + start, depth - 1)
                end = max(end, start + extent.size)
                align = max(align, extent.align)
        return Extent(-(-end // align) * align, align)

    def _members(self, item: Code, raw: bytes, depth: int) -> list[tuple[str, Extent]]:
        """Names and extents of one declaration's members; no name for an anonymous structure or union."""
        kind = item.get("type")
        if item.type != "field_declaration" or kind is None or any(item.find("bitfield_clause")):
            raise Unread(f"a member that is not understood: {item.text}")
        text = raw[item.node.start_byte : item.node.end_byte]
        kind_id = kind.node.id
        declarators = [child for child in item.children if child.node.id != kind_id and child.type in DECLARATORS]
        if kind.get("body") is not None:
            if declarators:
                raise Unread(f"a member that is not understood: {item.text}")
            return [("", _aligned(self._walk(kind, raw, {}, 0, depth - 1), text[text.rindex(b"}") :]))]
        if not declarators:
            raise Unread(f"a member that is not understood: {item.text}")
        return [self._declared(kind, declarator, text, depth) for declarator in declarators]

    def _declared(self, kind: Code, declarator: Code, text: bytes, depth: int) -> tuple[str, Extent]:
        name = next(child.text for child in declarator.find("field_identifier"))
        count = 1
        while declarator.type == "array_declarator":
            size = declarator.get("size")
            if size is not None and not re.fullmatch(r"\d{1,9}", size.text):
                raise Unread(f"an array of unknown size: {declarator.text}")
            count *= 0 if size is None else int(size.text)
            declarator = declarator.need("declarator")
        one = self._extent(kind.text, depth) if declarator.type == "field_identifier" else Extent(8, 8)
        return name, _aligned(Extent(one.size * count, one.align), text)

    def _extent(self, c: str, depth: int) -> Extent:
        tag = re.fullmatch(r"struct (\w+)", c)
        if tag:
            known = {"rcu_head": "callback_head"}.get(tag[1], tag[1])  # a macro of include/linux/types.h
            return self._whole(known, {}, depth - 1)
        if c == "char":
            return Extent(1, 1)
        kind = read_type(c, self._look)
        if kind.bits == 0:
            raise Unread(f"a member of unknown size: {c}")
        return Extent(kind.bits // 8, kind.bits // 8)


def _aligned(extent: Extent, text: bytes) -> Extent:
    """The extent under an alignment attribute in `text`; a member's own size does not grow by it."""
    match = ALIGNED.search(text)
    if match is None:
        return extent
    align = max(extent.align, int(match[1] or match[2] or 8))
    size = -(-extent.size // align) * align if text.startswith(b"}") else extent.size
    return Extent(size, align)
