"""The checker of proofs, on clauses by hand; whatever it accepts is tried by all assignments."""

from itertools import product

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from proofs import drup
from proofs.drup import BadProof, check

ALL_FOUR = [(1, 2), (1, -2), (-1, 2), (-1, -2)]
HOLES = 3


def pigeons() -> list[tuple[int, ...]]:
    """Four pigeons in three holes, at most one in each: variable 3 p + h + 1 is pigeon p in hole h."""
    at = [[3 * p + h + 1 for h in range(HOLES)] for p in range(HOLES + 1)]
    placed = [tuple(row) for row in at]
    return placed + [(-at[p][h], -at[q][h]) for h in range(HOLES) for p in range(HOLES + 1) for q in range(p)]


def satisfiable(clauses: list[tuple[int, ...]]) -> bool:
    most = max((abs(literal) for clause in clauses for literal in clause), default=0)
    return any(
        all(any(values[abs(literal) - 1] == (literal > 0) for literal in clause) for clause in clauses)
        for values in product((False, True), repeat=most)
    )


@pytest.mark.parametrize("proof", [["1 0"], ["2 0"], ["-1 0"], ["1 0", "0"], ["1 2 0", "d 1 2 0", "1 0"]])
def test_proofs_that_hold(proof: list[str]) -> None:
    assert check(ALL_FOUR, proof) in ([0], [1], [2])


def test_only_what_the_end_rests_on_is_kept() -> None:
    clauses = [*ALL_FOUR, (3, 4), (3, -4)]
    assert check(clauses, ["3 0", "1 0"]) == [1]
    assert check([(1,), (-1,)], []) == []
    assert check([(1,), ()], ["7 0"]) == []


@pytest.mark.parametrize(
    ("clauses", "proof", "why"),
    [
        (ALL_FOUR, [], "line 0: the proof ends"),
        (ALL_FOUR, ["1 2 0"], "line 1: the proof ends"),
        (ALL_FOUR, ["3 0"], "line 1: the clause does not follow"),
        (ALL_FOUR, ["0"], "line 1: the clause does not follow"),
        (ALL_FOUR[:3], ["1 0", "2 0", "0"], "line 3: the clause does not follow"),
        (ALL_FOUR[:3], ["1 0", "-2 0"], "line 2: the clause does not follow"),
        ([], ["0"], "line 1: the clause does not follow"),
        (ALL_FOUR, ["1"], "line 1: expected numbers"),
        (ALL_FOUR, ["1 0 0"], "line 1: expected numbers"),
        (ALL_FOUR, ["x 0"], "line 1: expected numbers"),
        (ALL_FOUR, [""], "line 1: expected numbers"),
        (ALL_FOUR, ["1  0"], "line 1: expected numbers"),
        (ALL_FOUR, ["+1 0"], "line 1: expected numbers"),
        (ALL_FOUR, ["٣ 0"], "line 1: expected numbers"),
        (ALL_FOUR, ["99999999999999999999 0"], "line 1: expected numbers"),
        (ALL_FOUR, ["d 1 0"], "line 1: the proof ends"),
    ],
)
def test_proofs_that_are_refused(clauses: list[tuple[int, ...]], proof: list[str], why: str) -> None:
    with pytest.raises(BadProof, match=f"^{why}"):
        check(clauses, proof)


def test_a_damaged_proof_is_refused() -> None:
    solvers = pytest.importorskip("pysat.solvers")
    with solvers.Glucose4(bootstrap_with=[list(one) for one in pigeons()], with_proof=True) as solver:
        assert solver.solve() is False
        found = [line for line in solver.get_proof() if line != "0"]
    kept = [found[index] for index in check(pigeons(), found)]
    assert 1 <= len(kept) <= len(found)
    assert check(pigeons(), kept)
    with pytest.raises(BadProof, match="the proof ends"):
        check(pigeons(), kept[:-1])
    with pytest.raises(BadProof, match="line 1: the clause does not follow"):
        check(pigeons(), kept[-1:])
    turned = " ".join(str(-int(literal)) for literal in kept[0].split())
    with pytest.raises(BadProof):
        check(pigeons(), [turned])
    for missing in pigeons():  # without any one clause there is a way to place them, so no proof can hold
        with pytest.raises(BadProof):
            check([clause for clause in pigeons() if clause != missing], kept)


LITERALS = st.integers(1, 5).flatmap(lambda number: st.sampled_from([number, -number]))
CLAUSES = st.lists(st.lists(LITERALS, min_size=1, max_size=3).map(tuple), min_size=4, max_size=24)
PROOFS = st.lists(st.lists(LITERALS, max_size=3), max_size=8)


@settings(max_examples=400, deadline=None)
@given(CLAUSES, PROOFS)
def test_nothing_is_accepted_that_is_not_so(clauses: list[tuple[int, ...]], proof: list[list[int]]) -> None:
    lines = [" ".join(map(str, [*clause, 0])) for clause in proof]
    try:
        kept = check(clauses, lines)
    except BadProof:
        return
    assert not satisfiable(clauses)
    assert kept == sorted(set(kept))
    check(clauses, [lines[index] for index in kept])


@settings(max_examples=200, deadline=None)
@given(CLAUSES)
def test_the_solver_s_proofs_are_accepted(clauses: list[tuple[int, ...]]) -> None:
    solvers = pytest.importorskip("pysat.solvers")
    assume(not satisfiable(clauses))
    with solvers.Glucose4(bootstrap_with=[list(one) for one in clauses], with_proof=True) as solver:
        assert solver.solve() is False
        check(clauses, [line for line in solver.get_proof() or [] if line != "0"])


def test_time_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drup, "MOST_STEPS", 50)
    chain = [(-number, number + 1) for number in range(1, 100)]
    with pytest.raises(BadProof, match="more than 50 steps"):
        check([*chain, (1,), (-100,)], [])
