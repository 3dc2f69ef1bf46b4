"""A directory of proof artefacts: every obligation as a script in SMT-LIB, proofs, and the manifest."""

import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from model.errors import InputError
from model.kernel.abi import Abi
from model.kernel.release import Release
from proofs.explain import says
from proofs.manifest import NAME, Entry, Manifest, hash_of, read, text_of
from proofs.obligation import Verdict
from proofs.outcome import why, word
from proofs.properties.products import product_obligations
from proofs.question import question
from proofs.smtlib import Printer
from proofs.solver import Result, Solver

TRUSTED = (
    "that a formula states what the claim's name says: proofs/properties over model, proofs/symbolic.py (terms), "
    "proofs/question.py (what is asserted) and proofs/smtlib.py (the text)",
    "that the rows of the releases are what the kernel does; where each is from is told under releases",
    "of an answer: the solver that gave it. A second solver's answer takes z3 out of what is trusted",
)
OF_PRODUCTS = (
    "of a formula over products: that the axioms in it are instances of what products/* states, which is here too",
    "of products/monotone: that a claim on integers which has every product below 2^64 holds of 64-bit words",
)
OF_PROOFS = (
    "of an answer with a proof: no solver; only proofs/cnf.py and proofs/gates.py (the script as clauses) and "
    "proofs/drup.py (the check), which are run anew on the script by recheck --proofs",
)


@dataclass(frozen=True, slots=True)
class Subject:
    """What the claims are about, and the versions of what decided them."""

    releases: Sequence[Release]
    abis: Sequence[Abi]
    tools: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Script:
    """An entry with its file's text."""

    entry: Entry
    text: str = ""


def scripts(results: Iterable[Result], holes: Mapping[str, Verdict], solver: Solver) -> Iterator[Script]:
    """One for each result, then for each claim that has none; what formulas rest on comes last."""
    printer, rests = Printer(), False
    for result in results:
        made = _script(result, solver, printer)
        rests |= made.entry.over == "products"
        yield made
    for name, verdict in holes.items():
        yield Script(Entry(name, word(verdict), "", says(name), "", why(verdict)))
    for result in solver.decide_all(product_obligations()) if rests else ():
        yield _script(result, solver, printer)


def _script(result: Result, solver: Solver, printer: Printer) -> Script:
    obligation, verdict = result.obligation, result.verdict
    entry = Entry(obligation.name, word(verdict), "", says(obligation.name), obligation.origin, why(verdict))
    asked = question(result, solver)
    if asked is None:
        return Script(entry if entry.reason else replace(entry, reason="no formula was asked"))
    entry = replace(
        entry, expected=asked.expected, over=asked.over, logic=asked.logic, file=path_of(obligation.name) + ".smt2"
    )
    text = _head(entry) + f"(set-logic {asked.logic})\n" + printer.script(asked.conditions)
    return Script(replace(entry, sha256=hash_of(text.encode())), text)


def _head(entry: Entry) -> str:
    told = [("obligation", entry.name), ("says", entry.statement), ("from", entry.origin), ("verdict", entry.verdict)]
    told += [("products", "an unknown function, with axioms")] if entry.over == "products" else []
    lines = [f"; {what}: {_plain(text)}" for what, text in told if text]
    return "\n".join([*lines, "(set-info :smt-lib-version 2.6)", f"(set-info :status {entry.expected})", ""])


def _plain(text: str) -> str:
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def formula(text: str) -> str:
    """A script without what is not asked: equal formulas have equal text."""
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith((";", "(set-info ")))


def path_of(name: str) -> str:
    """An obligation's name as a path: other characters than letters, digits and a few signs as %XX, none too long."""
    return "/".join(map(_component, name.split("/")))


def _component(text: str) -> str:
    plain = re.sub(r"[^A-Za-z0-9_.,=+()-]", lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode()), text)
    if plain.startswith((".", "-")) or not plain:
        plain = "%" + plain
    return plain if len(plain) <= 200 else f"{plain[:150]}%{hash_of(text.encode())[:32]}"


def manifest(made: Sequence[Script], subject: Subject, proofs: bool) -> Manifest:
    entries = tuple(one.entry for one in made)
    trusted = TRUSTED + (OF_PRODUCTS if any(entry.over == "products" for entry in entries) else ())
    releases = tuple(
        {
            "name": one.name,
            "version": one.version,
            "origin": one.origin,
            "provenance": {key: sorted(sources) for key, sources in one.provenance.items()},
        }
        for one in subject.releases
    )
    abis = tuple(one.name for one in subject.abis)
    return Manifest(subject.tools, releases, abis, trusted + (OF_PROOFS if proofs else ()), entries)


def refuse_foreign(directory: Path) -> None:
    """Raises `InputError` unless the directory can be written: none, an empty one, or one of ours and nothing else."""
    if not directory.exists() and not directory.is_symlink():
        if not directory.absolute().parent.is_dir():
            raise InputError(str(directory), "", "cannot be made: the folder above is not there")
        return
    if not directory.is_dir() or directory.is_symlink():
        raise InputError(str(directory), "", "expected a folder")
    found = {str(path.relative_to(directory)) for path in directory.rglob("*") if not path.is_dir()}
    if not found and not any(directory.iterdir()):
        return
    wish = "expected an empty folder, or one that holds proof artefacts and nothing else"
    if NAME not in found:
        raise InputError(str(directory), "", wish)
    listed = {NAME, *(name for entry in read(directory).entries for name in (entry.file, entry.proof))}
    for name in sorted(found - listed):
        raise InputError(str(directory), name[:120], wish)


def write(directory: Path, made: Manifest, files: Mapping[str, str]) -> None:
    """All or nothing: written beside `directory`, then moved to its place."""
    refuse_foreign(directory)
    target = directory.absolute()
    try:
        fresh = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}."))
        try:
            for name, text in {**files, NAME: text_of(made)}.items():
                path = fresh / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8", newline="")
            fresh.chmod(0o755)
            if target.exists():
                shutil.rmtree(target)
            os.replace(fresh, target)
        except BaseException:
            shutil.rmtree(fresh, ignore_errors=True)
            raise
    except OSError as error:
        raise InputError(str(directory), "", f"cannot be written: {error.strerror}") from None
