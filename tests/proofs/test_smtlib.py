"""Formulas as text that any solver takes: what z3's own printer gets wrong, and that nothing is lost."""

import re

import pytest
import z3

from model.errors import Unsupported
from proofs.smtlib import Printer, answer
from proofs.symbolic import IntegerWorld, TermWorld


def test_a_script_by_hand() -> None:
    world = TermWorld()
    b = world.bits(8)
    x, y = world.fresh("x", 8), world.fresh("y", 6)
    total = b.add(x, b.const(1))
    text = Printer().script([b.ult(total, x), b.ule(total, b.const(3)), world.bits(6).eq(y, y)])
    assert text.splitlines() == [
        "(declare-fun |x| () (_ BitVec 8))",
        "(declare-fun |y| () (_ BitVec 6))",
        "(define-fun ?1 () (_ BitVec 8) (bvadd |x| #x01))",
        "(assert (bvult ?1 |x|))",
        "(assert (bvule ?1 #x03))",
        "(assert (= |y| |y|))",
        "(check-sat)",
    ]


def test_one_name_with_two_signatures_is_two_names() -> None:
    world = TermWorld()
    x = world.fresh("x", 64)
    one = world.apply("memory", 64, [(x, 64)])
    two = world.apply("memory", 64, [(x, 64), (one, 64)])
    text = Printer().script([world.bits(64).eq(two, world.fresh("memory", 64))])
    assert sorted(re.findall(r"declare-fun (\|[^|]*\|)", text)) == [
        "|memory:64,64>64|",
        "|memory:64>64|",
        "|memory:>64|",
        "|x|",
    ]
    assert answer(text, "QF_UFBV") == "sat"


def test_connectives_have_the_arguments_that_the_standard_asks_for() -> None:
    world = TermWorld()
    b = world.bits(4)
    x = world.fresh("x", 4)
    text = Printer().script([b.conj(b.eq(x, b.const(5))), b.conj(), b.negate(b.disj())])
    assert "(assert true)" in text
    assert "(assert (not false))" in text
    assert "#x5" in text
    assert not re.search(r"\((and|or)( [^ ()]+)?\)", text)


@pytest.mark.parametrize("name", ["a|b", "a\\b", "a\nb", "ü", "a%b", "", "?1", "assert", "a b"])
def test_any_name_is_a_symbol(name: str) -> None:
    world = TermWorld()
    b = world.bits(8)
    doubled = b.add(world.fresh(name, 8), world.fresh("other", 8))
    text = Printer().script([b.eq(doubled, doubled), b.ult(doubled, b.const(9))])
    assert text.isascii()
    assert all(line.startswith("(") and line.endswith(")") for line in text.splitlines())
    assert answer(text, "QF_UFBV") == "sat"


def test_names_that_differ_stay_different() -> None:
    world = TermWorld()
    b = world.bits(8)
    names = ["a|b", "a%7cb", "a%b", "a%25b"]
    words = [world.fresh(name, 8) for name in names]
    text = Printer().script([b.eq(word, b.const(value)) for value, word in enumerate(words)])
    assert text.count("declare-fun") == 4
    assert answer(text, "QF_UFBV") == "sat"


def test_text_does_not_depend_on_what_was_made_before() -> None:
    def texts(printer: Printer, names: str) -> list[str]:
        world = TermWorld()
        b = world.bits(16)
        words = {name: world.fresh(name, 16) for name in names}  # z3 orders equal terms by when it met them
        x, y = words["x"], words["y"]
        product = b.mul(x, y)
        return [printer.script([b.ult(product, b.mul(y, x)), b.eq(x, y)]), printer.script([b.eq(y, b.neg(product))])]

    used = Printer()
    first = texts(used, "xy")
    assert texts(used, "yx") == first
    assert texts(Printer(), "yx") == first
    assert first[0] != first[1]


def test_integers() -> None:
    world = IntegerWorld()
    b = world.bits(8)
    x = world.fresh("x", 8)
    text = Printer().script([*world.assumptions, b.ult(b.mul(x, x), b.const(-3))])
    assert "(declare-fun |x| () Int)" in text
    assert "(- 3)" in text
    assert answer(text, "QF_NIA") == "unsat"


def test_what_has_no_name_in_the_standard_is_a_hole() -> None:
    rotated = z3.RotateLeft(z3.BitVec("x", 8), 3)
    with pytest.raises(Unsupported, match=r"rotate_left in a formula: no SMT-LIB name for it"):
        Printer().script([rotated == 1])
