"""C types and prototypes from declaration text, for 64-bit kernels (LP64).

Widths: include/uapi/asm-generic/int-ll64.h and posix_types.h for the fixed names, the tree's own typedefs for
others. A type whose width is not known raises Unread.
"""

import re
from collections.abc import Callable

from model.kernel.c_tree import Tree, Unread, split_arguments
from model.kernel.release import CType, Prototype

# Words -> (bits, signed). Plain `char` is left out: its sign depends on the architecture before 6.2 (-funsigned-char).
INTEGERS = {
    "void": (0, False),
    "_Bool": (8, False),
    "bool": (8, False),
    "signed char": (8, True),
    "unsigned char": (8, False),
    "short": (16, True),
    "short int": (16, True),
    "unsigned short": (16, False),
    "int": (32, True),
    "signed int": (32, True),
    "signed": (32, True),
    "unsigned int": (32, False),
    "unsigned": (32, False),
    "long": (64, True),
    "long int": (64, True),
    "unsigned long": (64, False),
    "long long": (64, True),
    "unsigned long long": (64, False),
    "size_t": (64, False),
    "ssize_t": (64, True),
    "loff_t": (64, True),
} | {
    f"{prefix}{letter}{bits}": (bits, letter == "s")
    for prefix in ("", "__")
    for letter in "us"
    for bits in (8, 16, 32, 64)
}
# C11 6.7.2: the words of a type come in any order, and `int` may follow short, long and their unsigned forms.
SORTED = {
    " ".join(sorted([*name.split(), *more])): row
    for name, row in INTEGERS.items()
    for more in ([], ["int"], ["signed"], ["signed", "int"])
    if name.split()[-1] in ("short", "int", "long") and not set(name.split()) & set(more)
    if not ("unsigned" in name and "signed" in more)
}
KEYWORDS = {"void", "_Bool", "bool", "char", "short", "int", "long", "unsigned", "signed"}
STORAGE = {"static", "extern", "inline", "volatile", "register", "noinline", "notrace", "asmlinkage", "restrict"}
TAGS = {"struct", "union", "enum"}
TYPEDEF_FILES = (
    "include/linux/types.h",
    "include/uapi/linux/types.h",
    "include/linux/bpf.h",
    "include/uapi/linux/bpf.h",
    "include/linux/mm_types.h",
    "include/linux/filter.h",
)
TYPEDEF = re.compile(rb"\btypedef\s+([^;{}]{1,400});")
LENGTH = 1000  # characters of a declaration; the longest slot has 160
TOKEN = re.compile(r"\w+|\.\.\.|[^\s\w]")
WORD = re.compile(r"[A-Za-z_]\w*\Z")

Lookup = Callable[[str], str | None]


def typedefs(tree: Tree) -> Lookup:
    """A look-up of a typedef's declaration ("u64 (*bpf_callback_t)(u64, u64)"), None where no header has it."""
    table: dict[str, str] = {}
    for file in TYPEDEF_FILES:
        source = tree.get(file)
        for match in TYPEDEF.finditer(source.data if source else b""):
            text = " ".join(match[1].decode("utf-8", "replace").split())
            function = re.search(r"\(\s*\*\s*(\w+)\s*\)", text) or re.match(r"[^()]*\b(\w+)\s*\(", text)
            name = function[1] if function else text.split(" ")[-1].lstrip("*")
            table.setdefault(name, text)
    return table.get


def read_type(text: str, look: Lookup) -> CType:
    """The type of a declaration or type name ("struct bpf_map *map", "u32", "bpf_callback_t fn"). Raises Unread."""
    return _read_type(text, look, 8)


def _read_type(text: str, look: Lookup, depth: int) -> CType:
    if depth == 0 or len(text) > LENGTH:
        raise Unread(f"a type that is not understood: {text}")
    pointer = re.match(r"(.*?)\(\s*\*+\s*(?:const\s+)?\w*\s*\)\s*\((.*)\)\Z", " ".join(text.split()))
    if pointer:
        return CType(f"{_words(pointer[1])} (*)({', '.join(split_arguments(pointer[2]))})", 64, False, True)
    tokens = TOKEN.findall(text)
    stars = tokens.count("*")
    arrays = tokens.count("[")
    if stars or arrays:
        head = tokens[: tokens.index("*")] if stars else _unnamed(tokens[: tokens.index("[")])
        words = [word for word in head if _is_part(word)]
        _only_words(words, text)
        return CType(f"{' '.join(words)} {'*' * (stars + arrays)}", 64, False, True)
    words = [word for word in _unnamed(tokens) if _is_part(word) and word != "const"]
    _only_words(words, text)
    return _scalar(" ".join(words), look, depth)


def _scalar(name: str, look: Lookup, depth: int) -> CType:
    known = INTEGERS.get(name) or SORTED.get(" ".join(sorted(name.split())))
    if known is not None:
        return CType(name, *known)
    declared = look(name) if WORD.match(name) else None
    if declared is None:
        raise Unread(f"a type of unknown width: {name}")
    target = _read_type(declared, look, depth - 1)
    return CType(name, target.bits, target.signed, target.pointer)


def _unnamed(tokens: list[str]) -> list[str]:
    """The tokens without the declared name at their end, if there is one."""
    words = [word for word in tokens if _is_part(word) and word != "const"]
    named = len(words) > 1 and words[-1] not in KEYWORDS and words[-2] not in TAGS
    return tokens[: len(tokens) - 1 - tokens[::-1].index(words[-1])] if named else tokens


def _is_part(word: str) -> bool:
    """Whether a token belongs to a type's text: no storage class, no annotation such as __user or __always_inline."""
    return word not in STORAGE and (not word.startswith("__") or word in INTEGERS or word.endswith("_t"))


def _only_words(words: list[str], text: str) -> None:
    if not words or not all(WORD.match(word) for word in words):
        raise Unread(f"a type that is not understood: {text}")


def _words(text: str) -> str:
    tokens = [token for token in TOKEN.findall(text) if _is_part(token)]
    return " ".join(tokens)


def read_prototype(text: str, look: Lookup) -> tuple[str, Prototype]:
    """Name ("" for none) and types of "long f(struct bpf_map *map, u64 key)" or "long (*slot)(…)". Raises Unread."""
    folded = " ".join(text[: LENGTH + 1].split())
    if len(text) > LENGTH:
        raise Unread(f"a declaration that is too long: {folded}")
    pointer = re.match(r"([^()]*)\(\s*\*\s*(\w*)\s*\)\s*\((.*)\)\s*\Z", folded)
    plain = pointer or re.match(r"([^()]*?)\b(\w+)\s*\((.*)\)[\w\s]*\Z", folded)
    if plain is None:
        raise Unread(f"a declaration that is not understood: {folded}")
    result, name, inside = plain.groups()
    params = split_arguments(inside)
    if params == ["void"]:
        params = []
    rows = tuple(read_type(param, look) for param in params)
    if any(row.bits == 0 for row in rows):
        raise Unread(f"a parameter of type void: {folded}")
    return name, Prototype(read_type(result, look), rows)
