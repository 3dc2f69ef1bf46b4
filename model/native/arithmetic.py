"""The upper half of what a 64-bit or 32-bit operation gives, from what is known of its operands."""

from collections.abc import Callable

from model.native.code import Imm, Reg, Step
from model.native.state import moved
from model.native.values import (
    FULL,
    MASK,
    MOST,
    SIGN,
    SMALL,
    ZERO,
    Upper,
    Value,
    constant,
    is_sign_extended,
    join,
    numbers,
    of,
)

FOLD: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "imul": lambda a, b: a * b,
}
LOW_ONLY = frozenset(("add", "sub", "and", "or", "xor", "imul", "adc", "sbb", "shl", "sal", "inc", "dec", "neg", "not"))
"""The low 32 bits of the result depend on the low 32 bits of the operands alone."""
WHOLE = frozenset(
    (
        *("shr", "sar", "rol", "ror", "rcl", "rcr", "shld", "shrd", "bswap"),
        *("bsf", "bsr", "tzcnt", "lzcnt", "popcnt", "bts", "btr", "btc"),
    )
)
"""All bits of the operands matter."""


def result(step: Step, bits: int, values: list[Value]) -> Value:
    name, mask = step.name, MASK >> (64 - bits)
    one, two = values[0], values[-1]
    if name in ("xor", "sub", "sbb") and step.operands[0] == step.operands[1] and isinstance(step.operands[0], Reg):
        zero = constant(0, step.address)
        return join(zero, constant(mask, step.address)) if name == "sbb" else zero
    if name in ("neg", "not") and (known := numbers(one)) is not None:
        made = [-atom.number if name == "neg" else ~atom.number for atom in known]
        return Value(frozenset(a for number in made for a in constant(number & mask, step.address).atoms))
    second = step.operands[-1].value & mask if isinstance(step.operands[-1], Imm) else None
    if name == "or" and second == mask:
        return constant(mask, step.address)
    if name in ("add", "sub") and second is not None and any(atom.upper is Upper.STACK for atom in one.atoms):
        distance = second - (1 << bits) if second >> (bits - 1) else second
        return moved(one, distance if name == "add" else -distance)
    left, right = numbers(one), numbers(two)
    if name in FOLD and len(values) == 2 and left and right and len(left) * len(right) <= MOST:
        fold = FOLD[name]
        made = [fold(a.number, b.number) & mask for a in left for b in right]
        return Value(frozenset(a for number in made for a in constant(number, step.address).atoms))
    return _class(name, bits, second, one, two)


def _class(name: str, bits: int, second: int | None, one: Value, two: Value) -> Value:
    """How the upper half of a result that is not known comes about."""
    if name == "and" and (_within(one, 31) or _within(two, 31)):
        return of(SMALL)
    if name in ("or", "xor") and _within(one, 31) and _within(two, 31):
        return of(SMALL)
    if bits == 32:
        return of(SMALL if name == "shr" and second is not None and second & 31 else ZERO)
    if name in ("and", "or", "xor") and _signed(one) and _signed(two):
        return of(SIGN)
    if name == "and" and (_within(one, 32) or _within(two, 32)):
        return of(ZERO)
    if name in ("shr",) and second is not None and second & 63 >= 32:
        return of(SMALL if second & 63 > 32 else ZERO)
    if name == "sar" and second is not None and second & 63 >= 32:
        return of(SIGN)
    return of(FULL, taint=one.taint | two.taint if name in LOW_ONLY else ())


def _within(value: Value, bits: int) -> bool:
    """Whether the value is surely below 2^bits, bits 31 or 32."""
    fits = {Upper.SMALL} if bits == 31 else {Upper.SMALL, Upper.ZERO}
    return not value.taint and all(
        atom.number >> bits == 0 if atom.upper is Upper.CONST else atom.upper in fits for atom in value.atoms
    )


def _signed(value: Value) -> bool:
    return not value.taint and all(
        is_sign_extended(atom.number) if atom.upper is Upper.CONST else atom.upper in (Upper.SIGN, Upper.SMALL)
        for atom in value.atoms
    )
