"""Baselines: refutations that are known, by obligation name or glob, each with its reason and a link.

    [[known]]
    name = "dispatch/6.1/x86_64/*"
    reason = "int results, fixed in 6.4"
    link = "https://git.kernel.org/linus/d7ba4cc900bf"

A known refutation is shown apart and fails nothing. What is unknown or unsupported is never covered.
"""

import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from model.errors import InputError
from proofs.check_release import matches
from proofs.report.record import Record

MOST_BYTES = 4 << 20
WISH = "expected [[known]] tables, each with name, reason and, if there is one, link, all of them text"


@dataclass(frozen=True, slots=True)
class Known:
    """`name` is a glob on records' and obligations' names, or on a path that they begin with."""

    name: str
    reason: str
    link: str = ""

    def covers(self, record: Record) -> bool:
        """Whether the entry speaks of the record: of all of its refuted parts, if it names parts."""
        if matches(record.name, self.name):
            return True
        parts = record.refutations or record.parts
        return bool(parts) and all(matches(part.name, self.name) for part in parts)


@dataclass(frozen=True, slots=True)
class Applied:
    """`stale` are entries of which this run had a record, and none that is refuted; `unused` those that fit nothing."""

    records: tuple[Record, ...]
    stale: tuple[Known, ...]
    unused: tuple[Known, ...]


def read(path: Path) -> tuple[Known, ...]:
    """Raises `InputError` for what is no baseline."""
    try:
        with path.open("rb") as stream:
            data = stream.read(MOST_BYTES + 1)
    except OSError as error:
        raise InputError(str(path), "", f"cannot be read: {error.strerror}") from None
    if len(data) > MOST_BYTES:
        raise InputError(str(path), "", f"expected at most {MOST_BYTES >> 20} MiB")
    try:
        found = tomllib.loads(data.decode("utf-8"))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InputError(str(path), "", f"expected TOML: {error}") from None
    except UnicodeDecodeError as error:
        raise InputError(str(path), f"byte {error.start}", "expected text in UTF-8") from None
    rows = found.get("known", [])
    if found.keys() - {"known"} or not isinstance(rows, list):
        raise InputError(str(path), ", ".join(sorted(found.keys() - {"known"}))[:80], WISH)
    return tuple(_known(path, number, row) for number, row in enumerate(rows, 1))


def _known(path: Path, number: int, row: object) -> Known:
    place = f"known {number}"
    if not isinstance(row, dict) or row.keys() - {"name", "reason", "link"}:
        raise InputError(str(path), place, WISH)
    fields = [row.get(name, "") for name in ("name", "reason", "link")]
    if not all(isinstance(text, str) for text in fields) or not fields[0] or not fields[1]:
        raise InputError(str(path), place, WISH)
    return Known(*fields)


def apply(records: Iterable[Record], entries: Sequence[Known]) -> Applied:
    """Refuted records that an entry covers carry its reason; the first entry that fits is the one."""
    done: list[Record] = []
    hit: set[Known] = set()
    idle: set[Known] = set()
    for record in records:
        fit = [entry for entry in entries if entry.covers(record)]
        if record.verdict != "refuted":
            idle.update(fit)
            done.append(record)
            continue
        hit.update(fit)
        done.append(replace(record, baseline=_told(fit[0])) if fit else record)
    stale = tuple(entry for entry in entries if entry in idle and entry not in hit)
    unused = tuple(entry for entry in entries if entry not in idle and entry not in hit)
    return Applied(tuple(done), stale, unused)


def _told(entry: Known) -> str:
    return f"{entry.reason} ({entry.link})" if entry.link else entry.reason


def written(records: Iterable[Record], known: Sequence[Known] = ()) -> str:
    """A baseline of every refuted record, in order; entries of `known` that still cover one stay as they are."""
    lines = ["# Known refutations. Each needs a reason that a reader believes, and a link.", ""]
    kept: dict[str, Known] = {}
    for record in records:
        if record.verdict != "refuted":
            continue
        fit = next((entry for entry in known if entry.covers(record)), None)
        why = next((part.reason for part in record.refutations), "") or record.reason or record.what
        entry = fit or Known(record.name, why)
        kept.setdefault(entry.name, entry)
    for entry in kept.values():
        lines += ["[[known]]", f"name = {_text(entry.name)}", f"reason = {_text(entry.reason)}"]
        lines += [f"link = {_text(entry.link)}", ""]
    return "\n".join(lines)


def _text(text: str) -> str:
    """A TOML basic string."""
    plain = (c if c.isprintable() and c not in '\\"' else f"\\U{ord(c):08x}" for c in text)
    return f'"{"".join(plain)}"'
