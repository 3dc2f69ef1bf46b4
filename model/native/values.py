"""What is known of a 64-bit register: how its upper half came about, and whose unspecified bits may be in it."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

MASK, LOW = (1 << 64) - 1, (1 << 32) - 1
MOST = 16
"""Atoms of one value; constants beyond it become what their upper half is."""


class Upper(Enum):
    """Where the upper 32 bits come from."""

    CONST = "a constant"  # all 64 bits known
    SIGN = "sign-extended"  # copies of bit 31, the lower half unknown
    ZERO = "zero"  # zero, bit 31 unknown
    SMALL = "zero, and bit 31 too"  # 0 to 2^31 - 1
    FULL = "written in 64 bits"  # the result of a 64-bit operation or load
    CALL = "as another function left it"  # a result of a callee that was not followed
    PARAM = "as it came"  # an argument register, untouched
    STACK = "a stack address"  # `number` is the distance from the stack pointer at entry, signed
    ANY = "unknown"


@dataclass(frozen=True, slots=True)
class Atom:
    """One way in which the value may have come about: a constant with the place that wrote it, a parameter's index."""

    upper: Upper
    number: int = 0
    place: int = 0


ANY, CALL, FULL = Atom(Upper.ANY), Atom(Upper.CALL), Atom(Upper.FULL)
ZERO, SIGN, SMALL = Atom(Upper.ZERO), Atom(Upper.SIGN), Atom(Upper.SMALL)


@dataclass(frozen=True, slots=True)
class Value:
    """`taint` has the narrow parameters whose unspecified upper bits the upper half may depend on."""

    atoms: frozenset[Atom]
    taint: frozenset[int] = frozenset()


def of(*atoms: Atom, taint: Iterable[int] = ()) -> Value:
    return Value(frozenset(atoms), frozenset(taint))


UNKNOWN = of(ANY)


def constant(number: int, place: int) -> Value:
    return of(Atom(Upper.CONST, number & MASK, place))


def is_sign_extended(number: int) -> bool:
    return (number & MASK) >> 31 in (0, (1 << 33) - 1)


def join(one: Value, other: Value) -> Value:
    if one == other:
        return one
    return Value(limited(one.atoms | other.atoms), one.taint | other.taint)


def limited(atoms: frozenset[Atom]) -> frozenset[Atom]:
    """At most MOST atoms and a few: stack addresses give way (a loop that pushes), and constants, but for one whose
    upper half is zero and bit 31 set (a witness).
    """
    if len(atoms) <= MOST:
        return atoms
    if sum(atom.upper is Upper.STACK for atom in atoms) > 1:
        atoms = frozenset(atom for atom in atoms if atom.upper is not Upper.STACK) | {ANY}
    constants = sorted((atom for atom in atoms if atom.upper is Upper.CONST), key=lambda a: (a.number, a.place))
    witness = [atom for atom in constants if 1 << 31 <= atom.number <= LOW][:1]
    rest = {_class(atom) for atom in constants}
    return frozenset([*(atom for atom in atoms if atom.upper is not Upper.CONST), *rest, *witness])


def _class(atom: Atom) -> Atom:
    if atom.number < 1 << 31:
        return SMALL
    return SIGN if is_sign_extended(atom.number) else ZERO if atom.number <= LOW else FULL


def low32(value: Value) -> Value:
    """The value of a 32-bit read that is written as 32 bits: the upper half becomes zero."""
    return Value(frozenset(_low(atom) for atom in value.atoms))


def _low(atom: Atom) -> Atom:
    if atom.upper is Upper.CONST:
        return Atom(Upper.CONST, atom.number & LOW, atom.place)
    return SMALL if atom.upper is Upper.SMALL else ZERO


def extended(value: Value) -> Value:
    """The lower 32 bits of `value`, sign-extended (movsxd, cdqe)."""
    return Value(frozenset(_extended(atom) for atom in value.atoms))


def _extended(atom: Atom) -> Atom:
    if atom.upper is Upper.CONST:
        low = atom.number & LOW
        return Atom(Upper.CONST, low | (MASK ^ LOW if low >> 31 else 0), atom.place)
    return SMALL if atom.upper is Upper.SMALL else SIGN


def partly(value: Value) -> Value:
    """After a write of the low 8 or 16 bits: the upper half stays."""
    return Value(frozenset(_partly(atom) for atom in value.atoms), value.taint)


def _partly(atom: Atom) -> Atom:
    match atom.upper:
        case Upper.CONST:
            return _class(atom)
        case Upper.SMALL | Upper.ZERO | Upper.SIGN | Upper.FULL:
            return atom  # bits 16 to 63 are as before
    return ANY


def numbers(value: Value) -> list[Atom] | None:
    """The constants, where the value is nothing else."""
    atoms = list(value.atoms)
    return atoms if all(atom.upper is Upper.CONST for atom in atoms) else None


def single(value: Value, upper: Upper) -> int | None:
    """The number of a value's only atom, if it is of that kind."""
    (first, *rest) = value.atoms
    return first.number if not rest and first.upper is upper else None
