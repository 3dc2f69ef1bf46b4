"""Reads a kernel source tree and writes it as a release file, for `--kernel FILE`.

No build and no preprocessor are needed. What cannot be read is named (file, line, construct) and left out;
claims that need it are `unsupported`.
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path

from model.errors import InputError
from model.kernel.data import dump_release
from model.kernel.extract import extract

SUMMARY = "read a kernel source tree into a release file"
EXAMPLES = """\
examples:
  python -m proofs extract linux-6.12 -o my.json
  python -m proofs check --kernel ./my.json
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("tree", metavar="TREE", type=Path, help="a kernel source tree, 4.19 or later")
    parser.add_argument("-o", "--output", metavar="FILE", type=Path, help="where to write (default: standard output)")


def run(options: argparse.Namespace) -> int:
    release = extract(options.tree)
    text = dump_release(release)
    for note in release.unread:
        print(f"not read: {note}", file=sys.stderr)
    if options.output is None:
        print(text, end="")
    else:
        write_whole(options.output, text)
        rows = f"{len(release.map_types)} map types, {len(release.helpers)} helpers, {len(release.rewrites)} rewrites"
        print(f"wrote {options.output}: Linux {release.version}, {rows}", file=sys.stderr)
    return 0


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
