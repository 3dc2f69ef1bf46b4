"""Checks a directory of proof artefacts by an independent solver, and its proofs: what agrees, and what does not."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal

from model.errors import InputError
from proofs.artefacts import formula
from proofs.check_release import matches
from proofs.killable import Done, each
from proofs.manifest import Entry, Manifest, bytes_of, hash_of, inside
from proofs.second_solver import Task, ask, holds

MOST_BYTES = 64 << 20  # of one file
Outcome = Literal["agrees", "disagrees", "open"]
OUTCOMES: tuple[Outcome, ...] = ("agrees", "disagrees", "open")


@dataclass(slots=True)
class Checked:
    """What was found of an obligation: a solver's `answer` ("" if none was asked), what its `proof` is worth."""

    entry: Entry
    task: Task
    answer: str = ""
    proof: str = ""
    unchecked: str = ""  # why the proof could not be checked to its end
    seconds: float = 0.0  # of the solver on its formula

    @property
    def outcome(self) -> Outcome:
        """Open where neither a solver nor a proof says what the manifest does, or it does not say."""
        if self.proof not in ("", "holds"):
            return "disagrees"
        if self.answer in ("sat", "unsat") and self.entry.expected != "unknown":
            return "agrees" if self.answer == self.entry.expected else "disagrees"
        return "agrees" if self.proof == "holds" else "open"

    @property
    def told(self) -> str:
        found = [f"found {self.answer}"] if self.answer else []
        found += ["its proof holds"] if self.proof == "holds" else []
        found += [f"its proof is refused: {self.proof}"] if self.proof not in ("", "holds") else []
        found += [f"its proof was not checked: {self.unchecked}"] if self.unchecked else []
        return f"expected {self.entry.expected}, {', '.join(found) or self.entry.reason or 'and no proof'}"


@dataclass(slots=True)
class Found:
    """`without` are obligations that have no file, `not_asked` those that only a solver can be asked of."""

    checked: list[Checked]
    without: list[Entry]
    not_asked: int = 0
    formulas: int = 0
    proofs: int = 0
    slowest: list[tuple[float, str]] = field(default_factory=list)


def selected(directory: Path, manifest: Manifest, pattern: str | None) -> Found:
    """What fits the glob `pattern`. All listed files are read first: raises `InputError` where one is not as listed."""
    checked, without = [], []
    for entry in manifest.entries:
        text = _listed(directory, entry.file, entry.sha256) if entry.file else ""
        proof = _listed(directory, entry.proof, entry.proof_sha256) if entry.proof else ""
        if matches(entry.name, pattern):
            if entry.file:
                checked.append(Checked(entry, Task(formula(text), entry.logic, proof)))
            else:
                without.append(entry)
    if not checked and not without:
        raise InputError("--match", str(pattern)[:120], "expected a glob that fits an obligation")
    return Found(checked, without)


def _listed(directory: Path, relative: str, sha256: str) -> str:
    path = inside(directory, relative)
    data = bytes_of(path, MOST_BYTES)
    if hash_of(data) != sha256:
        raise InputError(str(path), "", "expected the bytes whose hash the manifest has: it was changed")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(str(path), f"byte {error.start}", "expected text in UTF-8") from None


def recheck(
    found: Found, solver: str | None, proofs: bool, jobs: int, timeout: float, tell: Callable[[str], None]
) -> None:
    """Fills in answers of `solver` and what the proofs are worth; equal formulas are asked once."""
    if solver is None:  # there are proofs of "unsat" alone
        count = len(found.checked)
        found.checked = [one for one in found.checked if one.entry.expected == "unsat"]
        found.not_asked = count - len(found.checked)
    groups: dict[tuple[str, str], list[Checked]] = {}
    for one in found.checked:
        groups.setdefault((one.task.text, one.task.logic), []).append(one)
    found.formulas = len(groups)
    if solver is not None:
        tasks = [Task(text, logic) for text, logic in groups]
        for done in each(partial(ask, solver), tasks, jobs, timeout):
            same = groups[tasks[done.number].text, tasks[done.number].logic]
            for one in same:
                one.answer, one.seconds = _answer(done), done.seconds
            found.slowest.append((done.seconds, same[0].entry.name))
            tell(same[0].entry.name)
    if proofs:
        _proofs(found, jobs, timeout, tell)
    found.slowest.sort(reverse=True)


def _proofs(found: Found, jobs: int, timeout: float, tell: Callable[[str], None]) -> None:
    groups: dict[Task, list[Checked]] = {}
    for one in found.checked:
        if one.entry.proof:
            groups.setdefault(one.task, []).append(one)
    found.proofs = len(groups)
    tasks = list(groups)
    for done in each(holds, tasks, jobs, timeout):
        for one in groups[tasks[done.number]]:
            one.proof, one.unchecked = done.answer, done.failed
        found.slowest.append((done.seconds, f"{groups[tasks[done.number]][0].entry.name} (proof)"))
        tell(groups[tasks[done.number]][0].entry.name)


def _answer(done: Done) -> str:
    if done.failed:
        return f"unknown: {done.failed}"
    return done.answer if done.answer in ("sat", "unsat") else f"unknown: {done.answer.removeprefix('unknown: ')}"[:300]


def of_outcome(found: Found, outcome: Outcome) -> Sequence[Checked]:
    return [one for one in found.checked if one.outcome == outcome]
