"""Words as clauses: each operation's values by hand (SMT-LIB's FixedSizeBitVectors), by unit propagation alone."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model.bits import IntBits
from model.errors import InputError
from proofs import gates
from proofs.cnf import BINARY, ORDER, clauses
from proofs.drup import BadProof, check
from proofs.gates import TooLarge


def contradicts(text: str) -> bool:
    """Whether unit propagation alone refutes the script: enough where all inputs are given."""
    try:
        check(clauses(text).clauses, [])
    except BadProof:
        return False
    return True


def binary(name: str, a: int, b: int, width: int, result: str) -> str:
    sort = f"(_ BitVec {width})"
    return (
        f"(declare-fun |a| () {sort})(declare-fun |b| () {sort})"
        f"(assert (= |a| #b{a:0{width}b}))(assert (= |b| #b{b:0{width}b}))"
        f"(assert (not (= ({name} |a| |b|) {result})))(check-sat)"
    )


def is_value(name: str, a: int, b: int, value: int, width: int = 8, out: int = 8) -> bool:
    """Whether the clauses force exactly `value`: its bits, and not the others."""
    forced = contradicts(binary(name, a, b, width, f"#b{value:0{out}b}"))
    return forced and not contradicts(binary(name, a, b, width, f"#b{value ^ 1:0{out}b}"))


VALUES = [
    ("bvadd", 0xFF, 0x02, 0x01),
    ("bvadd", 0x35, 0x4C, 0x81),
    ("bvsub", 0x01, 0x02, 0xFF),
    ("bvsub", 0x80, 0x01, 0x7F),
    ("bvmul", 0x13, 0x17, 0xB5),  # 19 * 23 = 437 = 0x1b5
    ("bvmul", 0xFF, 0xFF, 0x01),
    ("bvudiv", 0xFF, 0x10, 0x0F),
    ("bvudiv", 200, 7, 28),
    ("bvudiv", 0x35, 0x00, 0xFF),
    ("bvurem", 200, 7, 4),
    ("bvurem", 0x35, 0x00, 0x35),
    ("bvsdiv", 0xF9, 0x02, 0xFD),  # -7 / 2 = -3
    ("bvsdiv", 0x07, 0xFE, 0xFD),
    ("bvsdiv", 0xF9, 0xFE, 0x03),
    ("bvsdiv", 0x80, 0xFF, 0x80),
    ("bvsdiv", 0x05, 0x00, 0xFF),
    ("bvsdiv", 0xFB, 0x00, 0x01),
    ("bvsrem", 0xF9, 0x02, 0xFF),  # -7 rem 2 = -1
    ("bvsrem", 0x07, 0xFE, 0x01),
    ("bvsrem", 0xFB, 0x00, 0xFB),
    ("bvand", 0xC5, 0x9A, 0x80),
    ("bvor", 0xC5, 0x9A, 0xDF),
    ("bvxor", 0xC5, 0x9A, 0x5F),
    ("bvxor", 0xFF, 0x0F, 0xF0),
    ("bvshl", 0xC5, 0x03, 0x28),
    ("bvshl", 0xC5, 0x08, 0x00),
    ("bvshl", 0xC5, 0x80, 0x00),
    ("bvlshr", 0xC5, 0x03, 0x18),
    ("bvlshr", 0xC5, 0xFF, 0x00),
    ("bvashr", 0xC5, 0x03, 0xF8),
    ("bvashr", 0x45, 0x03, 0x08),
    ("bvashr", 0xC5, 0x09, 0xFF),
]
TRUTHS = [
    ("bvult", 0x7F, 0x80, True),
    ("bvult", 0x80, 0x80, False),
    ("bvule", 0x80, 0x80, True),
    ("bvule", 0x81, 0x80, False),
    ("bvugt", 0x81, 0x80, True),
    ("bvugt", 0x80, 0x80, False),
    ("bvuge", 0x80, 0x80, True),
    ("bvuge", 0x7F, 0x80, False),
    ("bvslt", 0x80, 0x7F, True),
    ("bvslt", 0x00, 0xFF, False),
    ("bvslt", 0x05, 0x05, False),
    ("bvsle", 0x80, 0x80, True),
    ("bvsle", 0x00, 0xFF, False),
    ("bvsgt", 0x00, 0xFF, True),
    ("bvsgt", 0x80, 0x80, False),
    ("bvsge", 0xFF, 0xFF, True),
    ("bvsge", 0x80, 0x00, False),
]


@pytest.mark.parametrize(("name", "a", "b", "value"), VALUES)
def test_values_by_hand(name: str, a: int, b: int, value: int) -> None:
    assert is_value(name, a, b, value)


@pytest.mark.parametrize(("name", "a", "b", "truth"), TRUTHS)
def test_truths_by_hand(name: str, a: int, b: int, truth: bool) -> None:
    assert contradicts(binary(name, a, b, 8, str(truth).lower()))
    assert not contradicts(binary(name, a, b, 8, str(not truth).lower()))


def test_a_concatenation_has_its_first_argument_on_top() -> None:
    assert is_value("concat", 0xC5, 0x9A, 0xC59A, out=16)


def test_every_row_has_a_value_by_hand() -> None:
    assert {name for name, *_ in VALUES} | {"concat"} == BINARY.keys()
    assert {name for name, *_ in TRUTHS} == ORDER.keys()


@pytest.mark.parametrize("name", sorted(BINARY.keys() - {"concat"}))
def test_a_row_that_is_another_operation_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = [(a, b, value) for one, a, b, value in VALUES if one == name]
    for other in BINARY.keys() - {name, "concat"}:
        with monkeypatch.context() as patched:
            patched.setitem(BINARY, name, BINARY[other])
            assert not all(is_value(name, a, b, value) for a, b, value in wanted), other


@pytest.mark.parametrize(
    ("term", "value"),
    [
        ("((_ extract 5 2) |a|)", "#b0001"),
        ("((_ zero_extend 4) |a|)", "#x0c5"),
        ("((_ sign_extend 4) |a|)", "#xfc5"),
        ("(bvnot |a|)", "#x3a"),
        ("(bvneg |a|)", "#x3b"),
        ("(ite (= |a| #xc5) #x01 #x02)", "#x01"),
        ("(ite (distinct |a| #xc5) #x01 #x02)", "#x02"),
        ("(ite (xor (= |a| #xc5) true) #x01 #x02)", "#x02"),
        ("(ite (=> (= |a| #xc5) false) #x01 #x02)", "#x02"),
        ("(ite (or (= |a| #x00) (= |a| #xc5)) #x01 #x02)", "#x01"),
        ("(ite (and (= |a| #xc5) (= |a| #x00)) #x01 #x02)", "#x02"),
        ("(bvadd |a| #x01 #x01)", "#xc7"),
    ],
)
def test_terms_by_hand(term: str, value: str) -> None:
    text = "(set-logic QF_UFBV)(declare-fun |a| () (_ BitVec 8))(assert (= |a| #xc5))(assert (not (= {} {})))"
    assert contradicts(text.format(term, value))
    assert not contradicts(text.format(term, value[:-1] + ("1" if value[-1] == "0" else "0")))


UNSIGNED = {"bvudiv": "udiv", "bvurem": "urem", "bvsdiv": "sdiv", "bvsrem": "srem", "bvshl": "shl", "bvlshr": "lshr"}
NAMES = {"bvadd": "add", "bvsub": "sub", "bvmul": "mul", "bvashr": "ashr", "bvxor": "bvxor", **UNSIGNED}


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(sorted(NAMES)), st.integers(1, 13), st.data())
def test_widths_that_are_no_power_of_two(name: str, width: int, data: st.DataObject) -> None:
    a, b = (data.draw(st.integers(0, (1 << width) - 1)) for _ in range(2))
    value = getattr(IntBits(width), NAMES[name])(a, b)
    assert is_value(name, a, b, value, width, width)


FUNCTIONS = "(declare-fun |f| ((_ BitVec 8) Bool) (_ BitVec 8))(declare-fun |p| ((_ BitVec 8)) Bool)"
WORDS = "(declare-fun |a| () (_ BitVec 8))(declare-fun |b| () (_ BitVec 8))(declare-fun |t| () Bool)"


@pytest.mark.parametrize(
    ("asserted", "refuted"),
    [
        ("(= |a| |b|) (distinct (|f| |a| |t|) (|f| |b| |t|))", True),
        ("(= |a| |b|) (distinct (|f| |a| |t|) (|f| |b| (not |t|)))", False),
        ("(= (|f| |a| |t|) #x00) (not (= (|f| |b| |t|) #x00))", False),
        ("(= |a| |b|) (|p| |a|) (not (|p| |b|))", True),
        ("(|p| |a|) (not (|p| |b|))", False),
        ("(= |a| (|f| |b| |t|)) (= |b| #x07) (not (= (|f| |a| |t|) (|f| (|f| #x07 |t|) |t|)))", True),
        ("(= (|f| |a| true) |b|) (= |t| true) (distinct (|f| |a| |t|) |b|)", True),
    ],
)
def test_a_function_has_one_value_for_equal_arguments(asserted: str, refuted: bool) -> None:
    values = "(assert (= |a| #x01))(assert |t|)" if "|a| |b|" not in asserted and not refuted else ""
    text = FUNCTIONS + WORDS + values + f"(assert (and {asserted}))"
    solvers = pytest.importorskip("pysat.solvers")
    with solvers.Glucose4(bootstrap_with=[list(one) for one in clauses(text).clauses]) as solver:
        assert solver.solve() is not refuted


@pytest.mark.parametrize(
    "text",
    [
        "(",
        ")",
        "x",
        "()",
        "(assert)",
        "(exit)",
        "(assert |a|)",
        "(declare-fun |a| () (_ BitVec 0))",
        "(declare-fun |a| () (_ BitVec 99999999999))",
        "(declare-fun |a| () Int)",
        "(declare-fun |a| () Bool)(declare-fun |a| () Bool)",
        "(assert #x01)",
        "(assert (= #x01 #b1))",
        "(assert (bvult #x01 true))",
        "(assert (not true true))",
        "(assert (= ((_ extract 9 0) #x01) #x01))",
        "(assert (= ((_ extract 0 4) #x01) #x01))",
        "(assert (= ((_ zero_extend 9999) #x01) #x01))",
        "(assert (forall ((x Bool)) x))",
        "(define-fun ?1 () (_ BitVec 4) #x01)",
        "(define-fun ?1 () Bool true)(define-fun ?1 () Bool false)",
        "(declare-fun |f| (Bool) Bool)(assert (|f| #x01))",
        "(declare-fun |f| (Bool) Bool)(assert |f|)",
        "(assert |a",
        "(assert " + "(not " * 5000 + "true" + ")" * 5000 + ")",
    ],
)
def test_what_is_no_script_of_ours_is_refused(text: str) -> None:
    with pytest.raises(InputError) as refused:
        clauses(text)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 200


def test_a_script_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gates, "MOST_CLAUSES", 1000)
    text = "(declare-fun |a| () (_ BitVec 32))(declare-fun |b| () (_ BitVec 32))(assert (= |a| (bvmul |a| |b|)))"
    with pytest.raises(TooLarge):
        clauses(text)
