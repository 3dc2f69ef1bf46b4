"""What is there: releases, ABIs, map types, helpers, claims."""

import argparse

from rich.table import Table

from model.errors import InputError
from model.kernel.abi import ABIS
from model.kernel.data import available, load_release
from proofs.report.text import console, put

SUMMARY = "list releases, ABIs, map types, helpers and claims"
EXAMPLES = """\
examples:
  python -m proofs list              everything
  python -m proofs list releases     one kind
"""
CLAIMS = (
    (
        "dispatch",
        "the helper's indirect call and the direct call end in one state",
        "dispatch/RELEASE/ARCH/TYPE/HELPER/PART",
    ),
    ("inline", "what map_gen_lookup emits equals the operation's C", "inline/RELEASE/TYPE/map_lookup_elem/PART"),
    ("callback", "for_each: elements, order, arguments, end and result", "callback/RELEASE/TYPE/PART"),
    (
        "rewrite",
        "division guards and zero extension do what the instruction does",
        "rewrite/RELEASE/ARCH/ROW/INSN/PART",
    ),
    ("patching", "after a patch, everything points where it pointed", "for each program: `check FILE`"),
    ("direct", "no dispatch is reachable but at the listed sites", "for each program: `check FILE`"),
)
KINDS = ("releases", "archs", "types", "helpers", "claims")


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("kinds", metavar="KIND", nargs="*", help=f"of {', '.join(KINDS)} (default: all)")


def run(options: argparse.Namespace) -> int:
    out = console()
    kinds = options.kinds or KINDS
    for kind in kinds:
        if kind not in KINDS:
            raise InputError("list", kind[:80], f"expected of {', '.join(KINDS)}")
    for position, kind in enumerate(kinds):
        if position:
            out.print()
        put(out, _table(kind))
    return 0


def _table(kind: str) -> Table:
    newest = load_release("newest")
    table = Table(box=None, pad_edge=False, title_justify="left")
    if kind == "releases":
        for column in ("release", "version", "map types", "helpers rewritten", "origin"):
            table.add_column(column, no_wrap=True)
        for name in available():
            release = load_release(name)
            counts = (str(len(release.map_types)), str(len(release.rewrites)))
            table.add_row(name, release.version, *counts, release.origin)
    elif kind == "archs":
        for column in ("arch", "who extends a narrow argument", "a narrow result", "document"):
            table.add_column(column)
        for abi in ABIS.values():
            table.add_row(abi.name, abi.argument.name.lower(), abi.result.name.lower(), abi.document)
    elif kind == "types":
        for column in ("map type", "number", "operations"):
            table.add_column(column, no_wrap=True)
        for row in newest.map_types.values():
            table.add_row(row.name, str(row.number), row.ops or "none")
    elif kind == "helpers":
        for column in ("helper", "id", "slot", "rewritten", "source"):
            table.add_column(column, no_wrap=True)
        for helper in newest.helpers.values():
            rewritten = "direct call" if newest.rewrite(helper.name) else "no"
            table.add_row(f"bpf_{helper.name}", str(helper.id), helper.slot, rewritten, f"{helper.file}:{helper.line}")
    else:
        for column in ("claim", "says", "names"):
            table.add_column(column)
        for name, says, names in CLAIMS:
            table.add_row(name, says, names)
    return table
