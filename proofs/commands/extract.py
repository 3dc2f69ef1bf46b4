"""Reads a kernel source tree and writes it as a release file, for `--kernel FILE`; or compares it with one.

No build and no preprocessor are needed. What cannot be read is named (file, line, construct) and left out;
claims that need it are `unsupported`. Where there is no tree, `--facts` takes a table of the release's map operations
(JSON with map_types, slot_prototypes and ops); what the table does not tell comes from rows in the data and from the
releases around it where these are alike, and the file says of each part which.

With --check: exit status 0 no differences, 1 differences, 2 bad input.
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path

from model.errors import InputError
from model.kernel.convert import convert, extracted
from model.kernel.data import dump_release
from model.kernel.extract import extract
from model.kernel.facts_table import load_facts
from model.kernel.release import Release
from model.kernel.release_facts import compare
from proofs.commands.options import kernel
from proofs.report.differences import differences_report
from proofs.report.text import clean, console

SUMMARY = "read a kernel source tree into a release file, or compare it with one"
EXAMPLES = """\
examples:
  python -m proofs extract linux-6.12 -o my.json
  python -m proofs check --kernel ./my.json
  python -m proofs extract linux-6.12 --check 6.12       what the tree has otherwise than the data
  python -m proofs extract linux-6.13 --check ./my.json  than a release file
  python -m proofs extract --facts ops-6.18.2.json -o 6.18.json
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("tree", metavar="TREE", type=Path, nargs="?", help="a kernel source tree, 4.19 or later")
    parser.add_argument("--facts", metavar="FILE", type=Path, help="a table of map operations in place of TREE")
    parser.add_argument("-o", "--output", metavar="FILE", type=Path, help="where to write (default: standard output)")
    parser.add_argument(
        "--check", metavar="RELEASE", help="compare with a release in the data, or with a release file, row by row"
    )


def run(options: argparse.Namespace) -> int:
    if (options.tree is None) == (options.facts is None):
        options.usage("expected TREE or --facts FILE")
    known = None if options.check is None else _known(options.check)
    release = extract(options.tree) if options.facts is None else convert(load_facts(options.facts), extracted())
    for note in release.unread:
        print(clean(f"not read: {note}"), file=sys.stderr)
    text = dump_release(release)
    if options.output is not None:
        write_whole(options.output, text)
        rows = f"{len(release.map_types)} map types, {len(release.helpers)} helpers, {len(release.rewrites)} rewrites"
        print(f"wrote {options.output}: Linux {release.version}, {rows}", file=sys.stderr)
    elif known is None:
        print(text, end="")
    if known is None:
        return 0
    found = compare(known, release)
    differences_report(console(), release, options.check, known, found)
    return 1 if found.differences else 0


def _known(text: str) -> Release:
    try:
        return kernel(text)
    except InputError as error:
        if error.file != "--kernel":
            raise
        raise InputError("--check", error.place, error.expected) from None


def write_whole(path: Path, text: str) -> None:
    """All of `text` or nothing: written beside `path`, then moved over it."""
    try:
        if path.exists() and not path.is_file():  # /dev/stdout and the like
            path.write_text(text, encoding="utf-8")
            return
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                stream.write(text)
            mask = os.umask(0)
            os.umask(mask)
            os.chmod(name, 0o666 & ~mask)
            os.replace(name, path)
        except BaseException:
            os.unlink(name)
            raise
    except OSError as error:
        raise InputError(str(path), "", f"cannot be written: {error.strerror}") from None
