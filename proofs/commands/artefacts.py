"""`--smt2 DIR` and `--proof`: the obligations of a run as files that other solvers and a small checker can check."""

import argparse
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from model.errors import InputError
from proofs.artefacts import Script, Subject, formula, manifest, refuse_foreign, scripts, write
from proofs.check_matrix import Square
from proofs.killable import each
from proofs.manifest import hash_of
from proofs.obligation import Verdict
from proofs.report.text import clean, console
from proofs.second_solver import NO_PROOF, Task, prove
from proofs.solver import Result, Solver

PROOF_SECONDS = 300.0  # for one proof with its check


def add_artefacts(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("proof artefacts (see `recheck`)")
    group.add_argument("--smt2", metavar="DIR", help="write each obligation as SMT-LIB 2, and what it should say")
    group.add_argument(
        "--proof", action="store_true", help="with proofs that a small checker accepts (needs the extra proof)"
    )


def ready(options: argparse.Namespace) -> None:
    """Refuses what cannot be done before anything else is."""
    if options.proof and options.smt2 is None:
        raise InputError("--proof", "", "expected --smt2 DIR with it")
    if options.smt2 is None:
        return
    if options.files or options.tree is not None:
        raise InputError("--smt2", "", "expected no FILE and no --tree with it")
    if options.proof:
        need("pysat", "proof")
    refuse_foreign(Path(options.smt2))


def need(module: str, extra: str) -> None:
    if find_spec(module) is None:
        raise InputError(f"package {module}", "", f"expected it to be installed: pip install 'bpf-devirt[{extra}]'")


def keep(options: argparse.Namespace, squares: Sequence[Square], solver: Solver) -> None:
    """Writes the directory that `--smt2` names, if it does."""
    if options.smt2 is None:
        return
    made = list(scripts(_results(squares), _holes(squares), solver))
    files = {one.entry.file: one.text for one in made if one.entry.file}
    if len(files) < sum(bool(one.entry.file) for one in made):
        raise InputError("--smt2", "", "expected obligations of different names")
    if options.proof:
        made = _with_proofs(made, files)
    subject = Subject(
        list({square.release.name: square.release for square in squares}.values()),
        list({square.abi.name: square.abi for square in squares}.values()),
        _tools(options.proof),
    )
    write(Path(options.smt2), manifest(made, subject, options.proof), files)
    if not options.quiet and options.format == "text":
        console().print(clean(f"{options.smt2}: {told(made)}"), markup=False, soft_wrap=True)


def told(made: Sequence[Script]) -> str:
    formulas = len({formula(one.text) for one in made if one.text})
    without = sum(not one.text for one in made)
    text = f"{len(made) - without} obligations as SMT-LIB, {formulas} formulas"
    text += f", {proofs} proofs" if (proofs := sum(bool(one.entry.proof) for one in made)) else ""
    return text + (f"; {without} without a formula" if without else "")


def _results(squares: Sequence[Square]) -> Iterable[Result]:
    return (result for square in squares for entry in square.entries for result in entry.results)


def _holes(squares: Sequence[Square]) -> Mapping[str, Verdict]:
    entries = (entry for square in squares for entry in square.entries)
    return {entry.name: entry.verdict for entry in entries if not entry.results}


def _tools(proof: bool) -> dict[str, str]:
    from proofs.cli import product_version

    found = {"bpf-devirt": product_version()}
    for package in ("z3-solver", *(("python-sat",) if proof else ())):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "unknown"
    return found


def _with_proofs(made: Sequence[Script], files: dict[str, str]) -> list[Script]:
    """Puts a proof of each formula with the answer "unsat" into `files`, where one was found."""
    wanted = {formula(one.text): one.entry.logic for one in made if one.entry.expected == "unsat"}
    tasks = [Task(text, logic) for text, logic in wanted.items()]
    found: dict[str, str] = {}
    for done in each(prove, tasks, os.cpu_count() or 1, PROOF_SECONDS):
        found[tasks[done.number].text] = f"{NO_PROOF}{done.failed}" if done.failed else done.answer
    return [_with_proof(one, found.get(formula(one.text), ""), files) for one in made]


def _with_proof(one: Script, proof: str, files: dict[str, str]) -> Script:
    if one.entry.expected != "unsat":
        return one
    if proof.startswith(NO_PROOF):
        return Script(replace(one.entry, reason=proof), one.text)
    path = f"drup/{hash_of(formula(one.text).encode())[:40]}.drup"
    files[path] = proof
    return Script(replace(one.entry, proof=path, proof_sha256=hash_of(proof.encode())), one.text)
