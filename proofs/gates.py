"""Words as circuits of gates, and gates as clauses: how a formula on words becomes one of propositional logic.

A literal is a variable's number, negative where it is negated, as in the DIMACS format; variable 1 is true. A word is
its bits' literals, lowest first. Gates of equal inputs are one gate, and a gate whose value is known is none.
"""

from collections.abc import Sequence

Literal = int
Word = tuple[Literal, ...]
TRUE: Literal = 1
FALSE: Literal = -1
MOST_CLAUSES = 400_000


class TooLarge(Exception):
    """More than `MOST_CLAUSES` clauses."""


class Gates:
    """Grows clauses that define the gates' outputs."""

    def __init__(self) -> None:
        self.variables = 1
        self.clauses: list[tuple[Literal, ...]] = [(TRUE,)]
        self._made: dict[tuple[str, Literal, Literal], Literal] = {}

    def fresh(self, width: int) -> Word:
        self.variables += width
        return tuple(range(self.variables - width + 1, self.variables + 1))

    def clause(self, *literals: Literal) -> None:
        if TRUE in literals:
            return
        self.clauses.append(tuple(literal for literal in literals if literal != FALSE))
        if len(self.clauses) > MOST_CLAUSES:
            raise TooLarge

    def conj(self, a: Literal, b: Literal) -> Literal:
        if a == b or b == TRUE:
            return a
        if a == TRUE:
            return b
        if FALSE in (a, b) or a == -b:
            return FALSE
        key = ("and", min(a, b), max(a, b))
        if key not in self._made:
            (c,) = self.fresh(1)
            self.clause(-c, a)
            self.clause(-c, b)
            self.clause(c, -a, -b)
            self._made[key] = c
        return self._made[key]

    def disj(self, a: Literal, b: Literal) -> Literal:
        return -self.conj(-a, -b)

    def all(self, literals: Sequence[Literal]) -> Literal:
        found = TRUE
        for literal in literals:
            found = self.conj(found, literal)
        return found

    def any(self, literals: Sequence[Literal]) -> Literal:
        return -self.all([-literal for literal in literals])

    def xor(self, a: Literal, b: Literal) -> Literal:
        sign = -1 if (a < 0) != (b < 0) else 1
        a, b = sorted((abs(a), abs(b)))
        if a == TRUE:
            return -b * sign
        if a == b:
            return FALSE * sign
        key = ("xor", a, b)
        if key not in self._made:
            (c,) = self.fresh(1)
            for clause in ((-c, a, b), (-c, -a, -b), (c, -a, b), (c, a, -b)):
                self.clause(*clause)
            self._made[key] = c
        return self._made[key] * sign

    def pick(self, condition: Literal, a: Literal, b: Literal) -> Literal:
        """`a` where `condition` is true, else `b`."""
        if a == b:
            return a
        if a == -b:
            return -self.xor(condition, a)
        return self.disj(self.conj(condition, a), self.conj(-condition, b))

    def equal(self, a: Word, b: Word) -> Literal:
        return self.all([-self.xor(one, other) for one, other in zip(a, b, strict=True)])

    def choose(self, condition: Literal, a: Word, b: Word) -> Word:
        return tuple(self.pick(condition, one, other) for one, other in zip(a, b, strict=True))

    def add(self, a: Word, b: Word, carry: Literal = FALSE) -> Word:
        out = []
        for one, other in zip(a, b, strict=True):
            half = self.xor(one, other)
            out.append(self.xor(half, carry))
            carry = self.disj(self.conj(one, other), self.conj(half, carry))
        return tuple(out)

    def sub(self, a: Word, b: Word) -> Word:
        return self.add(a, inverted(b), TRUE)

    def neg(self, a: Word) -> Word:
        return self.sub((FALSE,) * len(a), a)

    def mul(self, a: Word, b: Word) -> Word:
        if all(abs(bit) == TRUE for bit in a):
            a, b = b, a
        total: Word = (FALSE,) * len(a)
        for place, bit in enumerate(b):
            if bit != FALSE:
                row = (FALSE,) * place + a[: len(a) - place]
                total = self.add(total, tuple(self.conj(bit, one) for one in row))
        return total

    def below(self, a: Word, b: Word, or_equal: bool = False) -> Literal:
        """Unsigned: decided by the highest bit in which they differ."""
        found = TRUE if or_equal else FALSE
        for one, other in zip(a, b, strict=True):
            found = self.pick(self.xor(one, other), other, found)
        return found

    def signed_below(self, a: Word, b: Word, or_equal: bool = False) -> Literal:
        return self.below((*a[:-1], -a[-1]), (*b[:-1], -b[-1]), or_equal)

    def divide(self, a: Word, b: Word) -> tuple[Word, Word]:
        """Unsigned quotient and remainder, bit by bit as by hand; by 0: all ones, and `a`, as in SMT-LIB."""
        wide = (*b, FALSE)
        rest: Word = (FALSE,) * len(a)
        quotient: list[Literal] = []
        for bit in reversed(a):
            shifted = (bit, *rest)
            fits = -self.below(shifted, wide)
            rest = self.choose(fits, self.sub(shifted, wide), shifted)[:-1]
            quotient.insert(0, fits)
        return tuple(quotient), rest

    def signed_divide(self, a: Word, b: Word) -> tuple[Word, Word]:
        """Quotient rounded to zero, and the remainder with the sign of `a`."""
        size_a, size_b = (self.choose(word[-1], self.neg(word), word) for word in (a, b))
        quotient, rest = self.divide(size_a, size_b)
        turned = self.xor(a[-1], b[-1])
        return self.choose(turned, self.neg(quotient), quotient), self.choose(a[-1], self.neg(rest), rest)

    def left(self, a: Word, amount: Word) -> Word:
        return self.right(a[::-1], amount, FALSE)[::-1]

    def right(self, a: Word, amount: Word, fill: Literal) -> Word:
        """By `amount` places to the low end; `fill` comes in, alone if the amount is the width or more."""
        width = len(a)
        for place, bit in enumerate(amount):
            step = min(1 << place, width)
            a = self.choose(bit, a[step:] + (fill,) * step, a)
        return a


def inverted(a: Word) -> Word:
    return tuple(-bit for bit in a)


def number(value: int, width: int) -> Word:
    return tuple(TRUE if value >> place & 1 else FALSE for place in range(width))
