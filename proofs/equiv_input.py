"""The two inputs of `equiv`: any file of the loaders, or what `rewrite --format asm` printed; programs by pairs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from model.errors import InputError
from model.kernel.release import Release
from model.loaders import detect, map_show, rewritten, xlated
from model.loaders.rewritten import Named
from model.program import Object, Program

NAME = 15
"""Characters of a program's name that the kernel keeps (BPF_OBJ_NAME_LEN less the zero)."""


@dataclass(frozen=True, slots=True)
class Source:
    """A file; `relocs` (one mapping a program) where it was printed by `rewrite`, None where not."""

    found: Object
    relocs: Sequence[Mapping[int, Named]] | None = None


@dataclass(frozen=True, slots=True)
class Couple:
    before: Program
    after: Program
    relocs: Mapping[int, Named] | None


def load(path: str, release: Release, maps: str | None) -> Source:
    """Raises `InputError`."""
    data = detect.read_bytes(path)
    known = xlated.NO_MAPS
    if maps is not None:
        known = map_show.load(_text(detect.read_bytes(maps), maps), maps)
    if not data.startswith(b"\x7fELF") and data.lstrip()[:1] not in (b"[", b"{"):
        text = _text(data, path)
        if rewritten.looks_like(text):
            loaded = rewritten.load(text, path, known)
            return Source(loaded.found, loaded.relocs)
    return Source(detect.load_bytes(data, path, maps=known, helper_ids=release.helper_ids))


def _text(data: bytes, file: str) -> str:
    try:
        return data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise InputError(file, f"byte {error.start}", f"expected text in UTF-8: {error.reason}") from None


def couples(before: Source, after: Source, programs: Sequence[Program], name: str | None) -> Iterator[Couple]:
    """Each of `programs` (of `before`) with its counterpart: of the same name, else the only one, else the one at
    the same place of equally many. Raises `InputError` where there is none.
    """
    others = after.found.programs
    for program in programs:
        same = [index for index, other in enumerate(others) if other.name[:NAME] == program.name[:NAME]]
        if len(same) != 1 and len(others) == len(programs) == 1:
            same = [0]
        if len(same) != 1 and len(others) == len(before.found.programs):
            same = [index for index, one in enumerate(before.found.programs) if one is program]
        if len(same) != 1:
            names = ", ".join(other.name for other in others[:10])
            expected = f"expected a program {program.name} (as {before.found.file} has one), found {names}"
            raise InputError(after.found.file, "", expected)
        relocs = None if after.relocs is None else after.relocs[same[0]]
        yield Couple(program, others[same[0]], relocs)
