"""Files given to commands: loaded, and narrowed to the programs that were asked for."""

import argparse
import re
from collections.abc import Iterator, Sequence

from model.errors import InputError
from model.facts import Assumption
from model.kernel.release import Release
from model.loaders.detect import load_file
from model.program import Map, Object, Program


def add_selection(parser: argparse._ActionsContainer) -> None:
    parser.add_argument("--maps", metavar="FILE", help="the maps of dumps: output of `bpftool map show -j`")
    parser.add_argument("--section", metavar="NAME", help="only programs of this section")
    parser.add_argument("--program", metavar="NAME", help="only programs of this name")
    parser.add_argument(
        "--assume",
        metavar="[INDEX:]REG=TYPE",
        action="append",
        default=[],
        help="REG holds a map of TYPE when the instruction INDEX (as listed; default: the first) is reached",
    )


def load(path: str, release: Release, maps: str | None) -> Object:
    return load_file(path, maps=maps, helper_ids=release.helper_ids)


def selected(found: Object, options: argparse.Namespace) -> Iterator[Program]:
    """The programs that --section and --program leave; InputError where they leave none of some."""
    programs = [
        program
        for program in found.programs
        if options.section in (None, program.section) and options.program in (None, program.name)
    ]
    if not programs:
        names = ", ".join(f"{p.section}/{p.name}" if p.section else p.name for p in found.programs[:20])
        asked = " ".join(f"--{n} {getattr(options, n)}" for n in ("section", "program") if getattr(options, n))
        wanted = f"expected a program that fits {asked}; there are: {names}" if asked else "expected a program in it"
        raise InputError(found.file, "", wanted)
    yield from programs


def assumptions(texts: Sequence[str], program: Program, release: Release) -> list[Assumption]:
    """`--assume` for one program; InputError names what is wrong with it."""
    return [_assumption(text, program, release) for text in texts]


def _assumption(text: str, program: Program, release: Release) -> Assumption:
    fit = re.fullmatch(r"(?:(\d{1,9}):)?r(\d{1,2})=([a-z_0-9]+)(?:@(\d{1,9}))?", text)
    if fit is None or (fit[1] and fit[4]):
        raise InputError("--assume", text[:80], "expected [INDEX:]REG=TYPE, as 142:r4=array")
    if fit[3] not in release.map_types:
        raise InputError("--assume", text[:80], f"expected a map type: {', '.join(release.map_types)}")
    at = fit[1] or fit[4]
    slot = int(at) - program.base if at else 0
    last = program.base + len(program.insns) - 1
    if not 0 <= slot < len(program.insns):
        raise InputError("--assume", text[:80], f"expected an index from {program.base} to {last} in {program.name}")
    if int(fit[2]) > 9:
        raise InputError("--assume", text[:80], "expected a register from r0 to r9")
    name = f"r{fit[2]} at {program.base + slot}"
    return Assumption(slot, int(fit[2]), Map(name=f"assumed in {name}", type=fit[3]))
