"""Terms of z3 as scripts in SMT-LIB 2.6's own words, so that any solver reads them; and z3's answer to a script.

z3's own printer leaves functions of one name and several signatures, and `and` of one argument: not every solver takes
them, and z3 itself not all.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

import z3

from model.errors import Unsupported
from proofs.symbolic import Term, Truth

CORE = ("true", "false", "not", "and", "or", "=>", "xor", "=", "distinct", "ite")
WORDS = (
    *("concat", "bvnot", "bvand", "bvor", "bvxor", "bvshl", "bvlshr", "bvashr"),
    *("bvneg", "bvadd", "bvsub", "bvmul", "bvudiv", "bvurem", "bvsdiv", "bvsrem"),
    *("bvult", "bvule", "bvugt", "bvuge", "bvslt", "bvsle", "bvsgt", "bvsge"),
)
INTEGERS = ("+", "-", "*", "<", "<=", ">", ">=")
SAME = frozenset((*CORE, *WORDS, *INTEGERS))
"""Functions that z3 and SMT-LIB's theories Core, FixedSizeBitVectors and Ints call the same; z3's `if` is `ite`."""
INDEXED = ("extract", "zero_extend", "sign_extend")
LONG = 160  # characters of a term that is given a name, so that no line is nested deeply


@dataclass(frozen=True, slots=True)
class _Node:
    """What is written of a term: `head` is a function or a constant; `function` the number of a declared one."""

    head: str
    function: int | None
    arguments: tuple[int, ...]
    sort: str
    term: Term  # kept: z3 gives the numbers of terms that are gone to others
    mark: bytes  # equal for equal terms, whatever their numbers


class Printer:
    """Remembers what it met: a claim's parts share most of their terms."""

    def __init__(self) -> None:
        self._nodes: dict[int, _Node] = {}
        self._declared: dict[int, tuple[str, str, str]] = {}  # name, signature, declaration behind the name

    def script(self, conditions: Sequence[Truth]) -> str:
        """Declarations, a definition for each term that occurs more than once, assertions; without a logic.

        The same conditions give the same text: names and order come from the terms alone.
        """
        order, uses = self._order([self._number(condition) for condition in conditions])
        symbols = self._symbols(order)
        lines = [f"(declare-fun |{symbol}| {self._declared[key][2]})" for key, symbol in symbols.items()]
        names = (f"?{number}" for number in range(1, len(order) + len(symbols) + 1))
        free = (name for name in names if name not in symbols.values())
        written: dict[int, str] = {}
        for number in order:
            node = self._nodes[number]
            text = node.head if node.function is None else f"|{symbols[node.function]}|"
            if node.arguments:
                text = f"({text} {' '.join(written[argument] for argument in node.arguments)})"
                if uses[number] > 1 or len(text) > LONG:
                    name = next(free)
                    lines.append(f"(define-fun {name} () {node.sort} {text})")
                    text = name
            written[number] = text
        lines += [f"(assert {written[condition.get_id()]})" for condition in conditions]
        return "\n".join([*lines, "(check-sat)", ""])

    def _number(self, root: Term) -> int:
        """Notes the term and all below it, arguments first."""
        stack = [(root, False)]
        while stack:
            term, done = stack.pop()
            if done:
                self._nodes[term.get_id()] = self._node(term)
            elif term.get_id() not in self._nodes:
                stack.append((term, True))
                stack += [(argument, False) for argument in term.children()]
        return int(root.get_id())

    def _node(self, term: Term) -> _Node:
        arguments = tuple(argument.get_id() for argument in term.children())
        declared = z3.is_app(term) and term.decl().kind() == z3.Z3_OP_UNINTERPRETED
        function = self._declare(term.decl()) if declared else None
        head = _head(term) if function is None else ""
        if head in ("=", "distinct"):  # z3 has their arguments in the order in which it met them
            arguments = tuple(sorted(arguments, key=lambda number: self._nodes[number].mark))
        elif head in ("and", "or") and not arguments:
            head = "true" if head == "and" else "false"
        elif head in ("and", "or") and len(arguments) == 1:
            arguments *= 2  # they take two at least
        named = head if function is None else repr(self._declared[function])
        mark = blake2b(named.encode(), digest_size=16)
        for argument in arguments:
            mark.update(self._nodes[argument].mark)
        return _Node(head, function, arguments, _sort(term.sort()), term, mark.digest())

    def _declare(self, function: z3.FuncDeclRef) -> int:
        key = int(function.get_id())
        if key not in self._declared:
            sorts = [function.domain(index) for index in range(function.arity())]
            given, result = [_sort(sort) for sort in sorts], _sort(function.range())
            signature = f"{','.join(map(_width, sorts))}>{_width(function.range())}"
            self._declared[key] = (_escaped(function.name()), signature, f"({' '.join(given)}) {result}")
        return key

    def _order(self, roots: list[int]) -> tuple[list[int], dict[int, int]]:
        """Every term behind its arguments, and how often each is used."""
        order: list[int] = []
        uses: dict[int, int] = {}
        stack = [(root, False) for root in reversed(roots)]
        while stack:
            number, done = stack.pop()
            if done:
                order.append(number)
                continue
            uses[number] = uses.get(number, 0) + 1
            if uses[number] == 1:
                stack.append((number, True))
                stack += [(argument, False) for argument in reversed(self._nodes[number].arguments)]
        return order, uses

    def _symbols(self, order: list[int]) -> dict[int, str]:
        """Each declared function's name; with its widths where several have the name."""
        found = dict.fromkeys(key for number in order if (key := self._nodes[number].function) is not None)
        named: dict[str, list[int]] = {}
        for key in found:
            named.setdefault(self._declared[key][0], []).append(key)
        taken = set(named)
        symbols: dict[int, str] = {}
        for key in found:
            name, signature, _ = self._declared[key]
            if len(named[name]) > 1:
                name = f"{name}:{signature}"
                while name in taken:
                    name += "'"
                taken.add(name)
            symbols[key] = name
        return symbols


def _head(term: Term) -> str:
    """What stands in front of the arguments, or a number."""
    if z3.is_bv_value(term):
        width = term.size()
        return f"#b{term.as_long():0{width}b}" if width % 4 else f"#x{term.as_long():0{width // 4}x}"
    if z3.is_int_value(term):
        return str(term.as_long()) if term.as_long() >= 0 else f"(- {-term.as_long()})"
    name = str(term.decl().name()) if z3.is_app(term) else "a quantifier"
    if name in INDEXED:
        return f"(_ {name} {' '.join(map(str, term.decl().params()))})"
    if name == "if":
        return "ite"
    if name not in SAME:
        raise Unsupported(f"{name} in a formula: no SMT-LIB name for it")
    return name


def _sort(sort: z3.SortRef) -> str:
    if sort.kind() == z3.Z3_BV_SORT:
        return f"(_ BitVec {sort.size()})"
    return {z3.Z3_BOOL_SORT: "Bool", z3.Z3_INT_SORT: "Int"}[sort.kind()]


def _width(sort: z3.SortRef) -> str:
    return str(sort.size()) if sort.kind() == z3.Z3_BV_SORT else _sort(sort)


def _escaped(name: str) -> str:
    """A name as it can stand between bars: what is not printable ASCII, a bar, a backslash and % as %XX."""
    return re.sub(r"[^ -~]|[|\\%]", lambda found: f"%{ord(found[0]):02x}", name)


def answer(text: str, logic: str) -> str:
    """What z3 says of a script that it reads as a file: "sat", "unsat", or "unknown" with the reason."""
    solver = z3.SolverFor(logic)
    solver.from_string(text)
    found = str(solver.check())
    return f"unknown: {solver.reason_unknown()}" if found == "unknown" else found
