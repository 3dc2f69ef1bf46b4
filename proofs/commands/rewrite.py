"""The program before and after the release's rewrite of map-helper calls, in the kernel's syntax.

A call whose target is known by name only (no kernel is running it) prints `name#?`; --symbols gives the numbers.
"""

import argparse
import json

from model.facts import analyse
from model.rewrite.config import Config
from model.rewrite.passes import Rewritten, rewrite
from proofs.commands.inputs import add_selection, assumptions, load, selected
from proofs.commands.options import abi, add_kernel, kernel
from proofs.report import listing
from proofs.report.text import clean

SUMMARY = "show a program before and after the rewrite"
EXAMPLES = """\
examples:
  python -m proofs rewrite prog.bpf.o                  side by side; | changed, > added
  python -m proofs rewrite --format asm prog.bpf.o     the program after
  python -m proofs rewrite --assume r4=array part.txt  a fragment whose map in r4 is not shown
  sudo python -m proofs rewrite --symbols /proc/kallsyms prog.bpf.o
"""
FORMATS = ("text", "asm", "hex", "json")


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="BPF object, bpftool dump, or assembly text")
    add_kernel(parser)
    parser.add_argument(
        "--format",
        choices=FORMATS,
        default="text",
        help="text: side by side; asm, hex: the program after; json: both, with relocations (default: text)",
    )
    parser.add_argument("--symbols", metavar="FILE", help="addresses of kernel functions, as /proc/kallsyms has them")
    parser.add_argument("--unprivileged", action="store_true", help="as loaded without CAP_PERFMON/CAP_SYS_ADMIN")
    parser.add_argument("--no-jit", action="store_true", help="as loaded with net.core.bpf_jit_enable=0")
    add_selection(parser)


def run(options: argparse.Namespace) -> int:
    release, chosen = kernel(options.kernel), abi(options.arch)
    config = Config(arch=chosen.name, jit=not options.no_jit, unprivileged=options.unprivileged)
    found = load(options.file, release, options.maps)
    done: list[Rewritten] = []
    for program in selected(found, options):
        facts = analyse(
            program, release, assumptions(options.assume, program, release), speculative=config.unprivileged
        )
        done.append(rewrite(program, facts, release, config))
    if options.symbols is not None:
        from proofs.commands.symbols import link, read_symbols

        symbols = read_symbols(options.symbols)
        done = [link(one, symbols, options.symbols) for one in done]
    if options.format == "json":
        print(json.dumps([listing.as_json(one, release) for one in done], indent=1))
        return 0
    for position, one in enumerate(done):
        if position:
            print()
        lines = {
            "text": lambda one=one: listing.side_by_side(one, release),
            "asm": lambda one=one: listing.assembly(one, release),
            "hex": lambda one=one: listing.hexadecimal(one),
        }[options.format]()
        if options.format == "text" or len(done) > 1:
            print(f"; {clean(one.before.name)}{' in ' + clean(one.before.section) if one.before.section else ''}")
        for text in lines:
            print(clean(text))
    return 0
