"""A campaign's directory: failures, the first program of each kind of site, and where to go on.

failures/JUDGE-HELPERS.asm   interesting/TYPE-HELPER-KIND.asm   campaign.json {"seed": N, "next": SHARD}
"""

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gen.campaign import Failure, Tally
from gen.cases import read, written
from gen.programs import Generated
from model.errors import InputError

MOST_BYTES = 4 << 20
_SEED = 1 << 64


@dataclass(slots=True)
class Corpus:
    """The directory `path`, made if it is not there. Raises `InputError` where it cannot be read or written."""

    path: Path

    def __post_init__(self) -> None:
        for name in ("failures", "interesting"):
            try:
                (self.path / name).mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise InputError(str(self.path / name), "", f"cannot be made: {error.strerror}") from None

    def where(self) -> tuple[int, int] | None:
        """The seed and the next shard of the campaign that was here before; None where there was none."""
        place = self.path / "campaign.json"
        if not place.exists():
            return None
        wish = 'expected {"seed": NUMBER, "next": NUMBER}, as fuzz writes it'
        try:
            found = json.loads(text_of(place))
        except (ValueError, RecursionError):
            raise InputError(str(place), "", wish) from None
        numbers = [found.get(name) for name in ("seed", "next")] if isinstance(found, dict) else []
        match numbers:
            case [int(seed), int(following)] if 0 <= seed < _SEED and 0 <= following < _SEED:
                return seed, following
        raise InputError(str(place), "", wish)

    def go_on(self, seed: int, following: int) -> None:
        """A kill at any time leaves the old or the new file."""
        self._write(self.path / "campaign.json", json.dumps({"seed": seed, "next": following}) + "\n")

    def keep(self, found: Tally, notes: tuple[str, ...]) -> None:
        """Files of this name stay as they are."""
        for name, failure in found.failures.items():
            self._new(self.path / "failures" / f"{_file(name)}.asm", file_of(failure, notes))
        for site, made in found.new.items():
            self._new(self.path / "interesting" / f"{_file('-'.join(site))}.asm", written(made, notes))

    def failures(self) -> Iterator[tuple[str, Generated]]:
        """The failures of before, by name, in order."""
        for place in sorted((self.path / "failures").glob("*.asm")):
            yield place.stem, read(text_of(place), str(place))

    def _new(self, place: Path, text: str) -> None:
        if not place.exists():
            self._write(place, text)

    def _write(self, place: Path, text: str) -> None:
        part = place.with_suffix(".part")
        try:
            part.write_text(text, encoding="utf-8")
            os.replace(part, place)
        except OSError as error:
            raise InputError(str(place), "", f"cannot be written: {error.strerror}") from None


def file_of(failure: Failure, notes: tuple[str, ...] = ()) -> str:
    return written(failure.case, (*notes, f"judge {failure.judge}", failure.why))


def text_of(place: Path) -> str:
    """Raises `InputError` for what is no text, or too long."""
    try:
        with place.open("rb") as stream:
            data = stream.read(MOST_BYTES + 1)
        text = data.decode("utf-8")
    except OSError as error:
        raise InputError(str(place), "", f"cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise InputError(str(place), f"byte {error.start}", "expected text in UTF-8") from None
    if len(data) > MOST_BYTES:
        raise InputError(str(place), "", f"expected at most {MOST_BYTES >> 20} MiB")
    return text


def _file(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_+.-]", "_", name)[:120]
