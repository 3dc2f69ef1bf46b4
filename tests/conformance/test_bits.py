"""One conformance suite for every `Bits`: literals from SMT-LIB's definitions, then ints against terms."""

from typing import Any

import hypothesis.strategies as st
import pytest
import z3
from hypothesis import given

from model.bits import IntBits
from proofs.symbolic import TermBits

BINARY = ["add", "sub", "mul", "udiv", "urem", "sdiv", "srem", "bvand", "bvor", "bvxor", "shl", "lshr", "ashr"]
UNARY = ["neg", "bvnot"]
COMPARE = ["eq", "ult", "ule", "slt", "sle"]
WIDTHS = [8, 32, 64]

# (operation, width, a, b, result): SMT-LIB, theory FixedSizeBitVectors and logic QF_BV, worked by hand
VECTORS = [
    ("add", 8, 0xFF, 0x02, 0x01),
    ("sub", 8, 0x00, 0x01, 0xFF),
    ("mul", 32, 0xFFFFFFFF, 0xFFFFFFFF, 0x00000001),
    ("udiv", 32, 0xFFFFFFF9, 0x00000002, 0x7FFFFFFC),
    ("udiv", 32, 0x12345678, 0x00000000, 0xFFFFFFFF),
    ("urem", 32, 0x12345678, 0x00000000, 0x12345678),
    ("urem", 8, 0xFF, 0x10, 0x0F),
    ("sdiv", 32, 0xFFFFFFF9, 0x00000002, 0xFFFFFFFD),
    ("sdiv", 32, 0x80000000, 0xFFFFFFFF, 0x80000000),
    ("sdiv", 32, 0x80000000, 0x00000000, 0x00000001),
    ("sdiv", 32, 0x00000007, 0x00000000, 0xFFFFFFFF),
    ("srem", 32, 0xFFFFFFF9, 0x00000002, 0xFFFFFFFF),
    ("srem", 32, 0x00000007, 0xFFFFFFFE, 0x00000001),
    ("srem", 32, 0x80000000, 0xFFFFFFFF, 0x00000000),
    ("srem", 32, 0xFFFFFFF9, 0x00000000, 0xFFFFFFF9),
    ("bvand", 8, 0xF0, 0x3C, 0x30),
    ("bvor", 8, 0xF0, 0x3C, 0xFC),
    ("bvxor", 8, 0xF0, 0x3C, 0xCC),
    ("shl", 8, 0x81, 0x01, 0x02),
    ("shl", 8, 0x81, 0x08, 0x00),
    ("lshr", 8, 0x81, 0x01, 0x40),
    ("lshr", 8, 0x81, 0xFF, 0x00),
    ("ashr", 8, 0x81, 0x01, 0xC0),
    ("ashr", 8, 0x81, 0x09, 0xFF),
    ("eq", 8, 0x05, 0x05, True),
    ("ult", 8, 0x7F, 0x80, True),
    ("slt", 8, 0x7F, 0x80, False),
    ("ule", 8, 0x80, 0x80, True),
    ("sle", 8, 0x80, 0x7F, True),
]


def evaluate(bits: Any, operation: str, *words: int) -> int | bool:
    """The operation's result as a Python value, on ints or on constant terms."""
    if isinstance(bits, IntBits):
        answer: int | bool = getattr(bits, operation)(*words)
        return answer
    term = z3.simplify(getattr(bits, operation)(*[bits.const(word) for word in words]))
    return z3.is_true(term) if z3.is_bool(term) else int(term.as_long())


@pytest.mark.parametrize("bits", [IntBits, TermBits])
@pytest.mark.parametrize(("operation", "width", "a", "b", "expected"), VECTORS)
def test_vectors(bits: Any, operation: str, width: int, a: int, b: int, expected: int | bool) -> None:
    assert evaluate(bits(width), operation, a, b) == expected


def test_every_operation_has_a_vector() -> None:
    assert {row[0] for row in VECTORS} == set(BINARY + COMPARE)


@pytest.mark.parametrize("bits", [IntBits, TermBits])
def test_width_changes(bits: Any) -> None:
    def value(word: Any) -> int:
        return word if isinstance(word, int) else int(z3.simplify(word).as_long())

    b = bits(8)
    word = b.const(0x9C)
    assert value(b.zext(word, 16)) == 0x009C
    assert value(b.sext(word, 16)) == 0xFF9C
    assert value(b.extract(word, 7, 4)) == 0x9
    assert value(b.extract(word, 4, 2)) == 0x7
    assert value(b.concat(word, bits(4).const(0x3), 4)) == 0x9C3
    assert value(b.const(-1)) == 0xFF
    assert value(b.neg(b.const(1))) == 0xFF
    assert value(b.bvnot(b.const(0x0F))) == 0xF0
    assert value(b.at(32).const(-2)) == 0xFFFFFFFE
    assert value(b.ite(b.eq(word, word), b.const(1), b.const(2))) == 1


@given(st.sampled_from(BINARY + COMPARE), st.sampled_from(WIDTHS), st.data())
def test_ints_agree_with_terms(operation: str, width: int, data: st.DataObject) -> None:
    edges = [0, 1, 2, width - 1, width, (1 << (width - 1)) - 1, 1 << (width - 1), (1 << width) - 1]
    word = st.one_of(st.sampled_from(edges), st.integers(0, (1 << width) - 1))
    a, b = data.draw(word), data.draw(word)
    assert evaluate(IntBits(width), operation, a, b) == evaluate(TermBits(width), operation, a, b)


@given(st.sampled_from(UNARY), st.sampled_from(WIDTHS), st.data())
def test_unary_ints_agree_with_terms(operation: str, width: int, data: st.DataObject) -> None:
    a = data.draw(st.integers(0, (1 << width) - 1))
    assert evaluate(IntBits(width), operation, a) == evaluate(TermBits(width), operation, a)
