"""C's integer types and conversions at their declared widths (C11 6.3.1), over any words.

LP64, two's complement; signed arithmetic wraps, as the kernel is built (-fno-strict-overflow, Makefile).
"""

from dataclasses import dataclass
from typing import Generic

from model.bits import B, Bits, W
from model.errors import Unsupported
from model.kernel.c_body import Array, Char, Integer, Pointer, Routine, Struct, Type, Void
from model.world import World

INT = Integer(32, True)
UNSIGNED = Integer(32, False)
LONG = Integer(64, True)
UNSIGNED_LONG = Integer(64, False)  # size_t too
POINTER = 64  # bits


@dataclass(frozen=True, slots=True)
class Value(Generic[W]):
    """A scalar: an integer of its type's width, or a pointer of 64 bits."""

    type: Type
    word: W


def width(kind: Type) -> int:
    """Bits of a scalar type. Raises `Unsupported` for any other."""
    match kind:
        case Integer(bits, _, _):
            return bits
        case Pointer(_):
            return POINTER
        case Char():
            raise Unsupported("the value of a plain char: its sign depends on the architecture")
        case Array(_) | Struct(_) | Void() | Routine(_, _):
            raise Unsupported(f"a value of type {kind}")


def size(kind: Type) -> int:
    """sizeof in bytes; 1 for void and char (GNU C, and C11 6.5.3.4). Raises `Unsupported` for structures."""
    match kind:
        case Char() | Void():
            return 1
        case Integer(_, _, _) | Pointer(_):
            return width(kind) // 8
        case Array(_) | Struct(_) | Routine(_, _):
            raise Unsupported(f"the size of {kind}")


def size_of(world: World[W, B], tag: str) -> W:
    """sizeof(struct tag), 64 bits: one unknown for all who ask."""
    return world.fresh(f"sizeof(struct {tag})", POINTER)


def integer(value: Value[W]) -> Integer:
    """Raises `Unsupported` where the value is a pointer."""
    if not isinstance(value.type, Integer):
        raise Unsupported(f"arithmetic on {value.type}")
    return value.type


def promoted(kind: Integer) -> Integer:
    """C11 6.3.1.1: what is narrower than int becomes int, which holds all of its values."""
    return INT if kind.bits < INT.bits else kind


def common(one: Integer, other: Integer) -> Integer:
    """C11 6.3.1.8, the usual arithmetic conversions, where rank is width."""
    one, other = promoted(one), promoted(other)
    if one.bits != other.bits:
        return one if one.bits > other.bits else other
    return Integer(one.bits, one.signed and other.signed)


def convert(world: World[W, B], value: Value[W], kind: Type) -> Value[W]:
    """C11 6.3.1.2 and 6.3.1.3, and the kernel's casts between pointers and 64-bit integers (gcc manual, 4.7).

    Raises `Unsupported` for a conversion between a pointer and a narrower integer.
    """
    source, target = width(value.type), width(kind)
    bits = world.bits(source)
    if isinstance(kind, Integer) and kind.boolean:
        return Value(kind, _flag(world, truth(world, value), target))
    if isinstance(kind, Pointer) != isinstance(value.type, Pointer) and source != target:
        raise Unsupported(f"a conversion from {value.type} to {kind}")
    if target <= source:
        return Value(kind, bits.extract(value.word, target - 1, 0))
    extend = bits.sext if isinstance(value.type, Integer) and value.type.signed else bits.zext
    return Value(kind, extend(value.word, target))


def truth(world: World[W, B], value: Value[W]) -> B:
    """Whether a scalar compares unequal to 0 (C11 6.3.1.2, 6.8.4.1)."""
    bits = world.bits(width(value.type))
    return bits.negate(bits.eq(value.word, bits.const(0)))


def _flag(world: World[W, B], condition: B, bits: int) -> W:
    b = world.bits(bits)
    return b.ite(condition, b.const(1), b.const(0))


def flag(world: World[W, B], condition: B) -> Value[W]:
    """The int 1 or 0 that comparisons and logical operators give (C11 6.5.8, 6.5.9, 6.5.13)."""
    return Value(INT, _flag(world, condition, INT.bits))


def number(world: World[W, B], value: int, kind: Integer) -> Value[W]:
    return Value(kind, world.bits(kind.bits).const(value))


def unary(world: World[W, B], operator: str, value: Value[W]) -> Value[W]:
    """C11 6.5.3.3."""
    if operator == "!":
        bits = world.bits(width(value.type))
        return flag(world, bits.eq(value.word, bits.const(0)))
    kind = promoted(integer(value))
    word = convert(world, value, kind).word
    bits = world.bits(kind.bits)
    match operator:
        case "-":
            return Value(kind, bits.neg(word))
        case "~":
            return Value(kind, bits.bvnot(word))
    raise Unsupported(f"C operator {operator}")


def binary(world: World[W, B], operator: str, left: Value[W], right: Value[W]) -> Value[W]:
    """C11 6.5.5 to 6.5.12. Raises `Unsupported` where C leaves the result undefined or the model has no rule."""
    if isinstance(left.type, Pointer) or isinstance(right.type, Pointer):
        return _pointers(world, operator, left, right)
    if operator in ("<<", ">>"):
        return _shift(world, operator, left, right)
    kind = common(integer(left), integer(right))
    x, y = convert(world, left, kind).word, convert(world, right, kind).word
    bits = world.bits(kind.bits)
    compared = _compare(bits, operator, kind.signed, x, y)
    if compared is not None:
        return flag(world, compared)
    match operator:
        case "+":
            return Value(kind, bits.add(x, y))
        case "-":
            return Value(kind, bits.sub(x, y))
        case "*":
            return Value(kind, bits.mul(x, y))
        case "&":
            return Value(kind, bits.bvand(x, y))
        case "|":
            return Value(kind, bits.bvor(x, y))
        case "^":
            return Value(kind, bits.bvxor(x, y))
        case "/":  # defined for the divisors that round_up and its like have: see `divide`
            raise Unsupported("C division by something that is no constant")
    raise Unsupported(f"C operator {operator}")


def divide(world: World[W, B], left: Value[W], divisor: int, kind: Integer) -> Value[W]:
    """`left / (kind)divisor` for a positive constant (C11 6.5.5): truncates towards zero."""
    target = common(integer(left), kind)
    x, bits = convert(world, left, target).word, world.bits(target.bits)
    by = bits.const(divisor)
    return Value(target, bits.sdiv(x, by) if target.signed else bits.udiv(x, by))


def _compare(bits: Bits[W, B], operator: str, signed: bool, x: W, y: W) -> B | None:
    """C11 6.5.8 and 6.5.9 at the common type; None where `operator` is no comparison."""
    less, least = (bits.slt, bits.sle) if signed else (bits.ult, bits.ule)
    match operator:
        case "==":
            return bits.eq(x, y)
        case "!=":
            return bits.negate(bits.eq(x, y))
        case "<":
            return less(x, y)
        case "<=":
            return least(x, y)
        case ">":
            return less(y, x)
        case ">=":
            return least(y, x)
    return None


def _shift(world: World[W, B], operator: str, left: Value[W], right: Value[W]) -> Value[W]:
    """C11 6.5.7; undefined for amounts of the width or more, where the claim then says nothing."""
    kind = promoted(integer(left))
    bits = world.bits(kind.bits)
    word = convert(world, left, kind).word
    amount = convert(world, right, Integer(kind.bits, False)).word
    world.assume("a C shift by less than the width", bits.ult(amount, bits.const(kind.bits)))
    if operator == "<<":
        return Value(kind, bits.shl(word, amount))
    return Value(kind, bits.ashr(word, amount) if kind.signed else bits.lshr(word, amount))


def _pointers(world: World[W, B], operator: str, left: Value[W], right: Value[W]) -> Value[W]:
    """C11 6.5.6 (pointer and integer, scaled by the size of what is pointed to) and 6.5.9 (equality)."""
    bits = world.bits(POINTER)
    if operator in ("==", "!=") and isinstance(left.type, Pointer) and isinstance(right.type, Pointer):
        same = bits.eq(left.word, right.word)
        return flag(world, same if operator == "==" else bits.negate(same))
    if operator == "+" and isinstance(right.type, Pointer):
        left, right = right, left
    if operator not in ("+", "-") or not isinstance(left.type, Pointer) or isinstance(right.type, Pointer):
        raise Unsupported(f"C operator {operator} on pointers")
    distance = convert(world, right, LONG if integer(right).signed else UNSIGNED_LONG).word
    if isinstance(left.type.to, Struct):
        distance = bits.mul(distance, size_of(world, left.type.to.tag))
    elif size(left.type.to) != 1:
        distance = bits.mul(distance, bits.const(size(left.type.to)))
    return Value(left.type, (bits.add if operator == "+" else bits.sub)(left.word, distance))


def decayed(kind: Type, address: W) -> Value[W]:
    """An array object as a value: the address of its first element (C11 6.3.2.1)."""
    if not isinstance(kind, Array):
        raise Unsupported(f"a value of type {kind}")
    return Value(Pointer(kind.of), address)


def power(value: int) -> int | None:
    """The exponent of a positive power of two."""
    return value.bit_length() - 1 if value > 0 and value & (value - 1) == 0 else None
