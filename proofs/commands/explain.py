"""What an obligation states and assumes, in words. NAME is an obligation's name as reports print it, or a glob on names
(or on paths that they begin with), or a family: dispatch, inline, callback, patching, direct, whole.
"""

import argparse
from itertools import islice

from model.errors import InputError
from proofs.check_claims import FAMILIES
from proofs.explain import HOW, MODULES, Explained, explained, statement
from proofs.report.text import clean, console

SUMMARY = "print an obligation's statement and assumptions"
EXAMPLES = """\
examples:
  python -m proofs explain dispatch
  python -m proofs explain dispatch/6.1/x86_64/hash/map_update_elem/r0
  python -m proofs explain 'inline/7.3/array/*/fits'
"""
MOST = 200


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="a family, an obligation's name, or a glob")


def run(options: argparse.Namespace) -> int:
    out = console()
    name: str = options.name
    family = name.partition("/")[0]
    text = statement(family)
    if name in MODULES:
        out.print(text, markup=False, soft_wrap=True)
        return 0
    found = list(islice(explained(name), MOST + 1)) if family in ("dispatch", *FAMILIES) else []
    if not found:
        raise InputError("explain", name[:120], "expected the name of an obligation (check --verbose prints them)")
    out.print(text.partition("\n\n")[0], markup=False, soft_wrap=True)
    for one in found[:MOST]:
        for line in lines(one):
            out.print(clean(line), markup=False, soft_wrap=True)
    if len(found) > MOST:
        out.print(f"\nand more: {MOST} are shown", markup=False)
    return 0


def lines(one: Explained) -> list[str]:
    obligation = one.obligation
    wanted = "in every state" if obligation.expect == "valid" else "in some state"
    told = ["", obligation.name]
    told += [f"  says: {one.says}"] if one.says else []
    told += [f"  must hold {wanted} that the assumptions allow", f"  from: {obligation.origin}"]
    told += [f"  decided over: {HOW[obligation.over]}"]
    told += [f"  assumes: {text}" for text in one.assumptions]
    return told
