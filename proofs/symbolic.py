"""`Bits` and `World` over z3 terms."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import z3

Term: TypeAlias = Any  # z3.BitVecRef and z3.BoolRef: z3 ships no types
Truth: TypeAlias = Any


class TermBits:
    """`Bits[BitVecRef, BoolRef]` at one width: each operation is SMT-LIB's of that name."""

    __slots__ = ("_width",)

    def __init__(self, width: int) -> None:
        self._width = width

    @property
    def width(self) -> int:
        return self._width

    def at(self, width: int) -> "TermBits":
        return self if width == self._width else TermBits(width)

    def const(self, value: int) -> Term:
        return z3.BitVecVal(value, self._width)

    def add(self, a: Term, b: Term) -> Term:
        return a + b

    def sub(self, a: Term, b: Term) -> Term:
        return a - b

    def mul(self, a: Term, b: Term) -> Term:
        return a * b

    def udiv(self, a: Term, b: Term) -> Term:
        return z3.UDiv(a, b)

    def urem(self, a: Term, b: Term) -> Term:
        return z3.URem(a, b)

    def sdiv(self, a: Term, b: Term) -> Term:
        return a / b

    def srem(self, a: Term, b: Term) -> Term:
        return z3.SRem(a, b)

    def neg(self, a: Term) -> Term:
        return -a

    def bvand(self, a: Term, b: Term) -> Term:
        return a & b

    def bvor(self, a: Term, b: Term) -> Term:
        return a | b

    def bvxor(self, a: Term, b: Term) -> Term:
        return a ^ b

    def bvnot(self, a: Term) -> Term:
        return ~a

    def shl(self, a: Term, b: Term) -> Term:
        return a << b

    def lshr(self, a: Term, b: Term) -> Term:
        return z3.LShR(a, b)

    def ashr(self, a: Term, b: Term) -> Term:
        return a >> b

    def extract(self, a: Term, high: int, low: int) -> Term:
        if low == 0 and high == self._width - 1:
            return a
        return z3.Extract(high, low, a)

    def zext(self, a: Term, width: int) -> Term:
        return z3.ZeroExt(width - self._width, a) if width > self._width else a

    def sext(self, a: Term, width: int) -> Term:
        return z3.SignExt(width - self._width, a) if width > self._width else a

    def concat(self, high: Term, low: Term, low_width: int) -> Term:
        return z3.Concat(high, low)

    def eq(self, a: Term, b: Term) -> Truth:
        return a == b

    def ult(self, a: Term, b: Term) -> Truth:
        return z3.ULT(a, b)

    def ule(self, a: Term, b: Term) -> Truth:
        return z3.ULE(a, b)

    def slt(self, a: Term, b: Term) -> Truth:
        return a < b

    def sle(self, a: Term, b: Term) -> Truth:
        return a <= b

    def ite(self, condition: Truth, a: Term, b: Term) -> Term:
        return z3.If(condition, a, b)

    def true(self) -> Truth:
        return z3.BoolVal(True)

    def conj(self, *conditions: Truth) -> Truth:
        return z3.And(*conditions)

    def disj(self, *conditions: Truth) -> Truth:
        return z3.Or(*conditions)

    def negate(self, condition: Truth) -> Truth:
        return z3.Not(condition)


class TermWorld:
    """`World` over terms; collects what the claim assumes, prefers, shows and applies."""

    def __init__(self) -> None:
        self.words: dict[str, Term] = {}
        self.applications: dict[tuple[str, tuple[int, ...]], tuple[str, tuple[Term, ...], Term]] = {}
        self.assumptions: list[Truth] = []
        self.preferences: list[Truth] = []
        self.shown: list[tuple[str, int, Term]] = []

    def bits(self, width: int) -> TermBits:
        return TermBits(width)

    def fresh(self, name: str, width: int) -> Term:
        if name not in self.words:
            self.words[name] = z3.BitVec(name, width)
        return self.words[name]

    def apply(self, function: str, width: int, arguments: Sequence[tuple[Term, int]]) -> Term:
        terms = tuple(term for term, _ in arguments)
        key = (function, tuple(term.get_id() for term in terms))
        if key not in self.applications:
            sorts = [z3.BitVecSort(size) for _, size in arguments]
            declared = z3.Function(function, *sorts, z3.BitVecSort(width))
            self.applications[key] = (function, terms, declared(*terms))
        return self.applications[key][2]

    def pin(self, function: str, width: int, arguments: Sequence[tuple[Term, int]], value: Term) -> None:
        self.assumptions.append(self.apply(function, width, arguments) == value)

    def assume(self, why: str, condition: Truth) -> None:
        self.assumptions.append(condition)

    def prefer(self, condition: Truth) -> None:
        self.preferences.append(condition)

    def show(self, label: str, width: int, word: Term) -> None:
        self.shown.append((label, width, word))
