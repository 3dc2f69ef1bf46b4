"""Shows a failure of a campaign again, on every judge: what each side leaves, and where they differ.

FILE is a case as `fuzz` writes it (assembly with `; input` and `; entry` lines in front).
"""

import argparse
from pathlib import Path

from proofs.commands.options import abi, add_kernel, kernel
from proofs.outcome import Exit
from proofs.report.text import clean, console

SUMMARY = "run a campaign's case again on every judge"
EXAMPLES = """\
exit status: 0 no judge fails; 1 one does; 2 bad usage or bad input; 3 none fails, and some could not judge.

examples:
  python -m proofs replay out/failures/model-0123456789ab.asm
  python -m proofs replay case.asm --judge model,smt --kernel 6.1
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", metavar="FILE", nargs="+", help="cases")
    parser.add_argument(
        "--judge", metavar="NAMES", help="of model, smt, kernel (default: all; the kernel where it may be asked)"
    )
    add_kernel(parser)


def run(options: argparse.Namespace) -> int:
    from gen.cases import read
    from gen.corpus import text_of
    from gen.oracles import fits, program
    from model.loaders.live import why_not
    from proofs.commands.campaign_judges import judges

    release, chosen = kernel(options.kernel), abi(options.arch)
    out = console()
    names = options.judge or "model,smt" + ("" if why_not() else ",kernel")
    bound = {judge.name: judge.bind() for judge in judges(names, release, chosen)}
    if options.judge is None and (reason := why_not()):
        out.print(f"kernel: not asked ({reason})", markup=False)
    cases = [(file, read(text_of(Path(file)), file)) for file in options.files]
    for file, case in cases:
        maps = program(case, release, file).maps
        for entry in case.entries:
            fits(entry, maps, file)
    status = Exit.PROVED
    for file, case in cases:
        for name, judge in bound.items():
            seen = judge(case)
            word = "fails" if seen.failure else "cannot judge" if seen.refused else "holds"
            out.print(clean(f"{file}: {name}: {word}"), markup=False)
            for line in (seen.failure or seen.refused).splitlines():
                out.print(f"  {clean(line)}", markup=False, soft_wrap=True)
            if seen.failure:
                status = Exit.REFUTED
            elif seen.refused and status == Exit.PROVED:
                status = Exit.OPEN
    return status
