"""The control-flow graph of each program after the rewrite, down to the kernel functions that it reaches.

Nodes: instruction blocks, subprogram returns, call sites that dispatch, helpers, map operations. Edges say
what they are; indirect branches (dispatch, callback, tail call) stand out.
"""

import argparse
from pathlib import Path

from model.errors import InputError
from model.rewrite.config import Config
from proofs.check_program import check
from proofs.claims import Claims
from proofs.commands.extract import write_whole
from proofs.commands.inputs import add_selection, assumptions, load, selected
from proofs.commands.options import abi, add_kernel, kernel
from proofs.report.graph import FORMATS, render
from proofs.solver import Solver

SUMMARY = "draw the control-flow graph of a program after the rewrite"
EXAMPLES = """\
examples:
  python -m proofs cfg prog.bpf.o               Graphviz text on standard output
  python -m proofs cfg prog.bpf.o -o out.svg    a picture; also .dot and .json
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="BPF object, bpftool dump, or assembly text")
    parser.add_argument("-o", "--output", metavar="FILE", type=Path, help=f"by its ending: {', '.join(FORMATS)}")
    add_kernel(parser)
    add_selection(parser)


def run(options: argparse.Namespace) -> int:
    ending = options.output.suffix if options.output is not None else ".dot"
    if ending not in FORMATS:
        raise InputError(str(options.output), "", f"expected a name that ends in {', '.join(FORMATS)}")
    release, chosen = kernel(options.kernel), abi(options.arch)
    claims = Claims(release, chosen, Solver())
    found = load(options.file, release, options.maps)
    checked = [
        check(program, claims, Config(arch=chosen.name), assumptions(options.assume, program, release))
        for program in selected(found, options)
    ]
    for one in checked:
        if one.direct is None:
            raise InputError(found.file, one.program.name, f"expected a program with a graph: {one.hole}")
    text = render([one for one in checked if one.direct is not None], ending)
    if options.output is None:
        print(text, end="")
    else:
        write_whole(options.output, text)
    return 0
