"""`Bits` and `World` over z3 terms: fixed-width words, and unbounded integers for facts about products."""

from collections.abc import Callable, Iterator, Sequence
from itertools import permutations
from typing import Any, TypeAlias

import z3

Term: TypeAlias = Any  # z3.BitVecRef and z3.BoolRef: z3 ships no types
Truth: TypeAlias = Any
Product: TypeAlias = Callable[[int, Any, Any], Any]


class TermBits:
    """`Bits[BitVecRef, BoolRef]` at one width: each operation is SMT-LIB's of that name.

    `product` stands in for multiplication, where it is given, and so in shifts by an amount that is no number.
    """

    __slots__ = ("_product", "_width")

    def __init__(self, width: int, product: "Product | None" = None) -> None:
        self._width = width
        self._product = product

    @property
    def width(self) -> int:
        return self._width

    def at(self, width: int) -> "TermBits":
        return self if width == self._width else TermBits(width, self._product)

    def const(self, value: int) -> Term:
        return z3.BitVecVal(value, self._width)

    def add(self, a: Term, b: Term) -> Term:
        return a + b

    def sub(self, a: Term, b: Term) -> Term:
        return a - b

    def mul(self, a: Term, b: Term) -> Term:
        return a * b if self._product is None else self._product(self._width, a, b)

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
        if self._product is None or z3.is_bv_value(z3.simplify(b)):
            return a << b
        return self._product(self._width, a, z3.BitVecVal(1, self._width) << b)

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


class Products:
    """Multiplication as an unknown function, of which only `axioms` is known: what they prove holds of the real one.

    The axioms are instances of what `proofs.properties.products` claims, for the products met.
    """

    def __init__(self) -> None:
        self._met: dict[tuple[int, int, int], tuple[int, Term, Term, Term]] = {}

    def __call__(self, width: int, a: Term, b: Term) -> Term:
        """a × b, at `width` bits; the real product where a factor is a number."""
        if z3.is_bv_value(z3.simplify(a)) or z3.is_bv_value(z3.simplify(b)):
            return a * b
        key = (width, a.get_id(), b.get_id())
        if key not in self._met:
            sort = z3.BitVecSort(width)
            self._met[key] = (width, a, b, z3.Function(f"product{width}", sort, sort, sort)(a, b))
        return self._met[key][3]

    def axioms(self) -> Iterator[Truth]:
        for width, a, b, term in list(self._met.values()):
            if width == 32:
                yield term == z3.Extract(31, 0, self(64, z3.ZeroExt(32, a), z3.ZeroExt(32, b)))
        for width, a, b, term in list(self._met.values()):
            yield term == self(width, b, a)
        wide = [row[1:] for row in self._met.values() if row[0] == 64]
        for a, b, term in wide:  # maps' elements have multiples of 8 bytes: enough to bound their number
            yield z3.Implies(z3.And(_narrow(a), _narrow(b), z3.UGE(b, 8)), z3.UGE(term, a << 3))
        for (a, b, less), (c, d, more) in permutations(wide, 2):
            below = z3.And(a == c, z3.ULE(b, d), _narrow(a), _narrow(d))
            yield z3.Implies(below, z3.ULE(less, more))

    def refined(self, model: z3.ModelRef) -> Iterator[Truth]:
        """The real products of the first factors' values in `model` with whatever the second ones are."""
        for width, a, b, term in self._met.values():
            value = z3.BitVecVal(model.eval(a, model_completion=True).as_long(), width)
            yield z3.Implies(a == value, term == value * b)


def _narrow(word: Term) -> Truth:
    """Whether a 64-bit word is below 2^32."""
    return z3.Extract(63, 32, word) == 0


class TermWorld:
    """`World` over terms; collects what the claim assumes, prefers, shows and applies."""

    def __init__(self, products: Products | None = None) -> None:
        self._products = products
        self.words: dict[str, Term] = {}
        self.applications: dict[tuple[str, tuple[int, ...]], tuple[str, tuple[Term, ...], Term]] = {}
        self.assumptions: list[Truth] = []
        self.preferences: list[Truth] = []
        self.shown: list[tuple[str, int, Term]] = []

    def bits(self, width: int) -> TermBits:
        return TermBits(width, self._products)

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


class IntegerBits(TermBits):
    """Words as unbounded integers: `mul`, comparisons and zero-extension only, for claims about products.

    Every product adds the condition that it fits into the width to `fits`; a claim that holds together with these
    holds of words of that width.
    """

    __slots__ = ("fits",)

    def __init__(self, width: int, fits: list[Truth]) -> None:
        super().__init__(width)
        self.fits = fits

    def at(self, width: int) -> "IntegerBits":
        return IntegerBits(width, self.fits)

    def const(self, value: int) -> Term:
        return z3.IntVal(value)

    def mul(self, a: Term, b: Term) -> Term:
        product = a * b
        self.fits.append(product < z3.IntVal(1 << self.width))
        return product

    def zext(self, a: Term, width: int) -> Term:
        return a

    def ult(self, a: Term, b: Term) -> Truth:
        return a < b

    def ule(self, a: Term, b: Term) -> Truth:
        return a <= b


class IntegerWorld(TermWorld):
    """`World` over unbounded integers in the range of their words."""

    def __init__(self) -> None:
        super().__init__()
        self.fits: list[Truth] = []

    def bits(self, width: int) -> IntegerBits:
        return IntegerBits(width, self.fits)

    def fresh(self, name: str, width: int) -> Term:
        if name not in self.words:
            self.words[name] = z3.Int(name)
            self.assumptions += [self.words[name] >= 0, self.words[name] < 1 << width]
        return self.words[name]
