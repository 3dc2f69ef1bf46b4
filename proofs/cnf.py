"""A script in SMT-LIB, as `proofs.smtlib` writes it (QF_UFBV), as clauses. No solver has a part in this.

Clauses are satisfiable if and only if the script's assertions are: words become gates (`proofs.gates`); an application
of an unknown function becomes a word of its own that is equal to the function's other words where all arguments are
(Ackermann's reduction).
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from model.errors import InputError
from proofs.gates import FALSE, TRUE, Gates, Literal, Word, inverted, number

Expression: TypeAlias = "str | list[Expression]"
DEEPEST = 200
TOKENS = re.compile(r'\s+|;[^\n]*|"[^"]*"|([()]|\|[^|]*\||[^\s();|"]+)')
WIDEST = 4096

BINARY: Mapping[str, Callable[[Gates, Word, Word], Word]] = {
    "bvadd": lambda gates, a, b: gates.add(a, b),
    "bvsub": Gates.sub,
    "bvmul": Gates.mul,
    "bvudiv": lambda gates, a, b: gates.divide(a, b)[0],
    "bvurem": lambda gates, a, b: gates.divide(a, b)[1],
    "bvsdiv": lambda gates, a, b: gates.signed_divide(a, b)[0],
    "bvsrem": lambda gates, a, b: gates.signed_divide(a, b)[1],
    "bvand": lambda gates, a, b: tuple(map(gates.conj, a, b)),
    "bvor": lambda gates, a, b: tuple(map(gates.disj, a, b)),
    "bvxor": lambda gates, a, b: tuple(map(gates.xor, a, b)),
    "bvshl": Gates.left,
    "bvlshr": lambda gates, a, b: gates.right(a, b, FALSE),
    "bvashr": lambda gates, a, b: gates.right(a, b, a[-1]),
    "concat": lambda gates, a, b: b + a,
}
ORDER: Mapping[str, Callable[[Gates, Word, Word], Literal]] = {
    "bvult": lambda gates, a, b: gates.below(a, b),
    "bvule": lambda gates, a, b: gates.below(a, b, True),
    "bvugt": lambda gates, a, b: gates.below(b, a),
    "bvuge": lambda gates, a, b: gates.below(b, a, True),
    "bvslt": lambda gates, a, b: gates.signed_below(a, b),
    "bvsle": lambda gates, a, b: gates.signed_below(a, b, True),
    "bvsgt": lambda gates, a, b: gates.signed_below(b, a),
    "bvsge": lambda gates, a, b: gates.signed_below(b, a, True),
}


@dataclass(frozen=True, slots=True)
class Value:
    """A word, or a truth value: one literal."""

    bits: Word
    truth: bool


@dataclass(frozen=True, slots=True)
class Clauses:
    variables: int
    clauses: tuple[tuple[Literal, ...], ...]


def clauses(text: str) -> Clauses:
    """Raises `InputError` where the script is none of ours, `proofs.gates.TooLarge` where it is too large."""
    script = _Script()
    for command in commands(text):
        script.take(command)
    return Clauses(script.gates.variables, tuple(script.gates.clauses))


def commands(text: str) -> Iterator[list[Expression]]:
    stack: list[list[Expression]] = []
    place = 0
    while place < len(text):
        found = TOKENS.match(text, place)
        if found is None or len(stack) > DEEPEST:
            raise _bad("an SMT-LIB script that is nested less deeply" if found else "an SMT-LIB script")
        place, token = found.end(), found[1]
        if token == "(":
            stack.append([])
        elif token == ")" and stack:
            done = stack.pop()
            if stack:
                stack[-1].append(done)
            else:
                yield done
        elif token is not None:
            if not stack or token == ")":
                raise _bad("an SMT-LIB command")
            stack[-1].append(token)
    if stack:
        raise _bad("as many closing as opening parentheses")


def _bad(expected: str) -> InputError:
    return InputError("script", "", f"expected {expected}")


class _Script:
    def __init__(self) -> None:
        self.gates = Gates()
        self.values: dict[str, Value] = {}
        self.functions: dict[str, tuple[tuple[int, ...], int]] = {}
        self.applied: dict[str, dict[Word, Word]] = {}

    def take(self, command: list[Expression]) -> None:
        match command:
            case ["set-logic" | "set-info" | "check-sat", *_]:
                return
            case ["declare-fun", str(name), list(sorts), sort]:
                self.declare(name, tuple(_width(one) for one in sorts), _width(sort))
            case ["define-fun", str(name), [], sort, body] if name not in self.values:
                self.values[name] = self.value(body)
                if _shape(self.values[name]) != _width(sort):
                    raise _bad(f"{name[:40]} of its sort")
            case ["assert", body]:
                self.gates.clause(self.truth(self.value(body)))
            case _:
                raise _bad("set-logic, declare-fun, define-fun, assert or check-sat")

    def declare(self, name: str, arguments: tuple[int, ...], result: int) -> None:
        if name in self.values or name in self.functions:
            raise _bad(f"{name[:40]} once")
        if arguments:
            self.functions[name] = (arguments, result)
        else:
            self.values[name] = self.fresh(result)

    def fresh(self, width: int) -> Value:
        return Value(self.gates.fresh(width or 1), not width)

    def truth(self, value: Value) -> Literal:
        if not value.truth:
            raise _bad("a truth value, not a word")
        return value.bits[0]

    def value(self, expression: Expression) -> Value:
        if isinstance(expression, str):
            return self.atom(expression)
        match expression:
            case [str(name), *rest] if rest:
                return self.call(name, [self.value(one) for one in rest])
            case [["_", str(name), *indexes], one]:
                return self.indexed(name, [_number(index) for index in indexes], self.value(one))
        raise _bad("a term")

    def atom(self, text: str) -> Value:
        if text in self.values:
            return self.values[text]
        if text in ("true", "false"):
            return Value((TRUE if text == "true" else FALSE,), True)
        if re.fullmatch(r"#x[0-9a-f]{1,1024}", text):
            return Value(number(int(text[2:], 16), 4 * (len(text) - 2)), False)
        if re.fullmatch(r"#b[01]{1,4096}", text):
            return Value(number(int(text[2:], 2), len(text) - 2), False)
        raise _bad(f"a declared name, not {text[:40]}")

    def call(self, name: str, given: list[Value]) -> Value:
        if name in self.functions:
            return self.apply(name, given)
        gates, words = self.gates, [value.bits for value in given]
        if name in ("and", "or", "=>", "xor", "not"):
            return Value((self.connect(name, [self.truth(value) for value in given]),), True)
        if name == "ite" and len(given) == 3 and _shape(given[1]) == _shape(given[2]):
            return Value(gates.choose(self.truth(given[0]), words[1], words[2]), given[1].truth)
        same = len({_shape(value) for value in given}) == 1
        if name in ("=", "distinct") and len(given) == 2 and same:
            equal = gates.equal(words[0], words[1])
            return Value((equal if name == "=" else -equal,), True)
        if not any(value.truth for value in given) and (same or name == "concat"):
            if name in ("bvnot", "bvneg") and len(given) == 1:
                return Value(inverted(words[0]) if name == "bvnot" else gates.neg(words[0]), False)
            if name in ORDER and len(given) == 2:
                return Value((ORDER[name](gates, words[0], words[1]),), True)
            if name in BINARY and len(given) >= 2:
                bits = words[0]
                for other in words[1:]:
                    bits = BINARY[name](gates, bits, other)
                return _word(bits)
        raise _bad(f"a function of QF_UFBV with its arguments, not {name[:40]}")

    def connect(self, name: str, literals: list[Literal]) -> Literal:
        if name in ("and", "or"):
            return self.gates.all(literals) if name == "and" else self.gates.any(literals)
        if name == "not" and len(literals) == 1:
            return -literals[0]
        if len(literals) != 2 or name == "not":
            raise _bad(f"{name} with its arguments")
        a, b = literals
        return self.gates.xor(a, b) if name == "xor" else self.gates.disj(-a, b)

    def apply(self, name: str, given: list[Value]) -> Value:
        """Congruent with every earlier application: Ackermann's reduction."""
        arguments, result = self.functions[name]
        if tuple(map(_shape, given)) != arguments:
            raise _bad(f"{name[:40]} with arguments of its sorts")
        known = self.applied.setdefault(name, {})
        key = tuple(bit for value in given for bit in value.bits)
        if key not in known:
            made = self.fresh(result).bits
            for other, word in known.items():
                equal = self.gates.equal(key, other)
                for one, two in zip(made, word, strict=True):
                    self.gates.clause(-equal, -one, two)
                    self.gates.clause(-equal, one, -two)
            known[key] = made
        return Value(known[key], not result)

    def indexed(self, name: str, indexes: list[int], value: Value) -> Value:
        bits = value.bits
        if value.truth:
            raise _bad("a word, not a truth value")
        match name, indexes:
            case "extract", [high, low] if low <= high < len(bits):
                return _word(bits[low : high + 1])
            case "zero_extend", [more]:
                return _word(bits + (FALSE,) * more)
            case "sign_extend", [more]:
                return _word(bits + (bits[-1],) * more)
        raise _bad(f"a function of QF_UFBV with its indexes, not {name[:40]}")


def _word(bits: Word) -> Value:
    if len(bits) > WIDEST:
        raise _bad(f"words of at most {WIDEST} bits")
    return Value(bits, False)


def _shape(value: Value) -> int:
    """A word's width; 0 of a truth value."""
    return 0 if value.truth else len(value.bits)


def _width(sort: Expression) -> int:
    match sort:
        case "Bool":
            return 0
        case ["_", "BitVec", str(width)] if 0 < _number(width) <= WIDEST:
            return int(width)
    raise _bad("Bool, or BitVec of at most 4096 bits")


def _number(text: Expression) -> int:
    if not isinstance(text, str) or not re.fullmatch(r"\d{1,4}", text):
        raise _bad("a number")
    return int(text)
