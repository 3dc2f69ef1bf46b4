"""Other solvers' answers to a script, and proofs that are kept of it: work for the processes of `proofs.killable`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from model.errors import InputError
from proofs.cnf import Clauses, clauses
from proofs.drup import BadProof, check
from proofs.gates import TooLarge

PACKAGES: Mapping[str, str] = {"cvc5": "cvc5", "bitwuzla": "bitwuzla", "z3": "z3-solver"}
"""Solvers, and the package of each."""
NO_PROOF = "no proof: "
MOST_CONFLICTS = 300_000  # of the solver that a proof is sought with: unlike a time, the same everywhere


@dataclass(frozen=True, slots=True)
class Task:
    """A formula, `proofs.artefacts.formula`: `logic` is what its script sets; `proof` is what is to be checked."""

    text: str
    logic: str
    proof: str = ""


@dataclass(frozen=True, slots=True)
class Options:
    """What `solver` is set to for formulas of some kind, and why."""

    solver: str
    logic: str
    holding: str
    options: Mapping[str, str]
    why: str


OPTIONS: tuple[Options, ...] = (
    Options(
        "cvc5",
        "QF_UFBV",
        "bvmul",
        {"decision": "internal", "bv-assert-input": "true"},
        "states with real products are found in a fourth of the time",
    ),
)


def options_of(solver: str, task: Task) -> Options | None:
    rows = (row for row in OPTIONS if row.solver == solver and row.logic == task.logic and row.holding in task.text)
    return next(rows, None)


def ask(solver: str, task: Task) -> str:
    """ "sat", "unsat", or something else: the solver cannot tell. Raises whatever a solver raises."""
    row = options_of(solver, task)
    return ASKED[solver](task, {} if row is None else row.options)


def _cvc5(task: Task, options: Mapping[str, str]) -> str:
    import cvc5

    solver = cvc5.Solver()
    for name, value in options.items():
        solver.setOption(name, value)
    parser = cvc5.InputParser(solver)
    parser.setStringInput(cvc5.InputLanguage.SMT_LIB_2_6, task.text, "script")
    told = ""
    while not (command := parser.nextCommand()).isNull():
        told += command.invoke(solver, parser.getSymbolManager())
    return told.strip()


def _bitwuzla(task: Task, options: Mapping[str, str]) -> str:
    import bitwuzla

    if "IA" in task.logic:
        return "unknown: bitwuzla has no integers"
    parser = bitwuzla.Parser(bitwuzla.TermManager(), bitwuzla.Options())
    parser.parse(task.text.replace("(check-sat)", ""), True, False)
    return str(parser.bitwuzla().check_sat()).rpartition(".")[2].lower()


def _z3(task: Task, options: Mapping[str, str]) -> str:
    from proofs.smtlib import answer

    return answer(task.text, task.logic)


ASKED: Mapping[str, Callable[[Task, Mapping[str, str]], str]] = {"cvc5": _cvc5, "bitwuzla": _bitwuzla, "z3": _z3}


def prove(task: Task) -> str:
    """A DRUP proof that no state satisfies the formula, checked, and cut to what it needs; or "no proof: " and why."""
    if "BV" not in task.logic:
        return f"{NO_PROOF}{task.logic} has no clauses"
    try:
        made = clauses(task.text)
    except TooLarge:
        return f"{NO_PROOF}too many clauses"
    found = _search(made)
    if isinstance(found, str):
        return f"{NO_PROOF}{found}"
    try:
        kept = [found[index] for index in check(made.clauses, found)]
    except BadProof as error:
        return f"{NO_PROOF}{error}"
    return "".join(f"{line}\n" for line in kept)


def _search(made: Clauses) -> list[str] | str:
    from pysat.solvers import Glucose4

    with Glucose4(bootstrap_with=[list(clause) for clause in made.clauses], with_proof=True) as solver:
        solver.conf_budget(MOST_CONFLICTS)
        answer = solver.solve_limited()
        if answer is None:
            return f"not found in {MOST_CONFLICTS} conflicts"
        if answer:
            return "the clauses are satisfiable"
        return [line for line in solver.get_proof() or [] if line.strip() != "0"]


def holds(task: Task) -> str:
    """ "holds", or why the kept proof proves nothing."""
    try:
        check(clauses(task.text).clauses, task.proof.splitlines())
    except (BadProof, InputError) as error:
        return str(error)
    except TooLarge:
        return "too many clauses"
    return "holds"
