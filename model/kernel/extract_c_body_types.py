"""C types of locals, parameters and members, as `model.kernel.c_body` has them."""

import re

from model.kernel.c_body import Array, Char, Integer, Pointer, Routine, Struct, Type, Void
from model.kernel.c_layout import Structs
from model.kernel.c_tree import Code, Unread
from model.kernel.c_types import Lookup, read_prototype, read_type

QUALIFIER = re.compile(
    r"\b(?:const|volatile|static|inline|__always_inline|register|__percpu|__rcu|__user|__force)\b"
    r"|\b__aligned\(\d+\)|\b__counted_by\(\w+\)"
)
LEVELS = 4  # pointers to pointers
# Enumerations without negative enumerators: gcc makes them unsigned int (gcc manual, 4.9).
ENUMS = ("enum bpf_map_type",)


def read_c_type(text: str, look: Lookup) -> Type:
    """The type of a type name ("struct bpf_map **", "u32", "const bool"). Raises Unread."""
    plain = " ".join(QUALIFIER.sub(" ", text).split())
    match = re.fullmatch(r"((?:struct |enum )?\w+(?: \w+){0,3})((?: ?\*){0,4})", plain)
    if match is None:
        raise Unread(f"a type that is not understood: {text}")
    kind = _scalar(match[1], look)
    for _ in range(match[2].count("*")):
        kind = Pointer(kind)
    return kind


def _scalar(name: str, look: Lookup) -> Type:
    if name.startswith("struct "):
        return Struct(name.removeprefix("struct "))
    if name == "char":
        return Char()
    if name in ENUMS:
        return Integer(32, False)
    row = read_type(name, look)
    if row.pointer:
        return _routine(name, look)
    if row.bits == 0:
        return Void()
    return Integer(row.bits, row.signed, name in ("bool", "_Bool"))


def _routine(name: str, look: Lookup) -> Type:
    """A typedef's pointer to a function of integers, such as bpf_callback_t."""
    text = look(name)
    if text is None or "(" not in text:
        raise Unread(f"a type that is not understood: {name}")
    prototype = read_prototype(text, look)[1]
    rows = prototype.result, *prototype.params
    if any(row.pointer or row.bits == 0 for row in rows):
        raise Unread(f"a type that is not understood: {name}")
    result, *params = (Integer(row.bits, row.signed) for row in rows)
    return Pointer(Routine(result, tuple(params)))


def declared(kind: Code, declarator: Code, look: Lookup) -> tuple[Type, str]:
    """The type and name of a declarator such as `*xsk_map[]`: brackets bind closer than stars (C11 6.7.6)."""
    result = read_c_type(kind.text, look)
    for _ in range(2 * LEVELS):
        match declarator.type:
            case "pointer_declarator":
                result = Pointer(result)
            case "array_declarator":
                result = Array(result)
            case "identifier" | "field_identifier":
                return result, declarator.text
            case _:
                break
        declarator = declarator.need("declarator")
    raise Unread(f"a declarator that is not understood: {declarator.text}")


def member_type(structs: Structs, tag: str, name: str, look: Lookup) -> Type:
    """The type of a member of `struct tag`, also of one in an anonymous structure or union. Raises Unread."""
    code, raw = structs.definition(tag)
    text = raw.decode("utf-8", "replace")
    # include/uapi/linux/stddef.h: an array of unknown length that may stand in a union
    flexible = re.search(rf"\bDECLARE_FLEX_ARRAY\(\s*([^(),]{{1,100}}),\s*{re.escape(name)}\s*\)", text)
    if flexible:
        return Array(read_c_type(flexible[1], look))
    for item in code.find("field_declaration"):
        for child in item.children:
            names = [inner.text for inner in child.find("field_identifier")]
            if names == [name] and child.type.endswith(("_declarator", "field_identifier")):
                if any(item.find("bitfield_clause")):
                    raise Unread(f"a bit field: {item.text}")
                return declared(item.need("type"), child, look)[0]
    raise Unread(f"struct {tag} has no member {name}")
