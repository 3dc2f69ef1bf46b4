"""Reads a kernel's machine code: do map helpers and map operations extend their results and use their arguments as
the ABI's row says?

VMLINUX is an ELF kernel with symbols, one without them or a bzImage (give --symbols), or a core such as /proc/kcore.
The functions are those of a release (--kernel; default: the nearest to the image's version); their prototypes come from
the image's BTF where it has one. Needs capstone: pip install 'bpf-devirt[abi]'.
"""

import argparse
from pathlib import Path

from model.errors import InputError
from model.kernel.abi import ABIS
from model.kernel.nearest import nearest
from model.loaders.kernel_image import KernelImage, NotMapped, open_image, running_image
from proofs.abi_check import Agreement, check
from proofs.commands.options import kernel
from proofs.outcome import Exit
from proofs.report.machine_code import machine_code_report
from proofs.report.text import console

SUMMARY = "compare compiled kernel code with the ABI's row"
EXAMPLES = """\
examples:
  python -m proofs abi-check vmlinux                            with symbols and BTF
  python -m proofs abi-check --symbols System.map vmlinuz --kernel 6.1
  python -m proofs abi-check --running                          the running kernel's text, as root
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("image", metavar="VMLINUX", type=Path, nargs="?", help="ELF vmlinux or bzImage")
    parser.add_argument("--running", action="store_true", help="the running kernel instead (root)")
    parser.add_argument("--symbols", metavar="FILE", type=Path, help="System.map, or a copy of /proc/kallsyms")
    parser.add_argument("--kernel", metavar="RELEASE", help="whose functions (default: nearest to the image's version)")
    parser.add_argument("--verbose", action="store_true", help="also functions with nothing narrow")


def run(options: argparse.Namespace) -> int:
    if options.running == (options.image is not None):
        raise InputError("abi-check", "", "expected either VMLINUX or --running")
    if options.running and options.symbols is not None:
        raise InputError("--symbols", str(options.symbols), "expected VMLINUX with it")
    opened = running_image() if options.running else open_image(options.image, options.symbols)
    with opened as image:
        return _check(image, options)


def _check(image: KernelImage, options: argparse.Namespace) -> int:
    if options.kernel is not None:
        release = kernel(options.kernel)
    elif options.running:
        release = kernel("running")
    else:
        try:
            release = nearest(image.version())
        except InputError:
            raise InputError(image.file, "", "expected a version in its banner, or --kernel RELEASE") from None
    try:
        rows = list(check(release, ABIS.get(image.machine, ABIS["x86_64"]), image))
    except NotMapped as error:
        raise InputError(image.file, "", str(error)) from None
    machine_code_report(console(), image, release, ABIS[image.machine], rows, verbose=options.verbose)
    found = {row.agreement for row in rows}
    if Agreement.CONTRADICTS in found:
        return Exit.REFUTED
    return Exit.OPEN if Agreement.CANNOT_TELL in found or found <= {Agreement.NOT_THERE} else Exit.PROVED
