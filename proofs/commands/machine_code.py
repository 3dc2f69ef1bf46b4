"""What `live --machine-code` adds: the machine code of each loaded program beside the Direct claim.

`opened` once, `show` for each program while it is loaded.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from platform import machine

from rich.console import Console

from model.errors import InputError, Unsupported
from model.isa.insn import Insn
from model.kernel.release import Release
from model.loaders.kernel_btf import running_types
from model.loaders.kernel_image import KALLSYMS, KernelImage, NotMapped, running_image
from model.loaders.kernel_symbols import read_symbols
from model.loaders.live import Live
from proofs.callees import Kernel
from proofs.machine_code import MachineCode, read
from proofs.outcome import Exit
from proofs.report.jited import jited_report
from proofs.report.text import clean

OPTION = "--machine-code"


@contextmanager
def opened(release: Release) -> Iterator[Kernel]:
    """The running kernel, whose functions `release` tells. Where its text cannot be read, its symbols alone.

    Raises `Unsupported`, by name, for other machines than x86-64; `InputError` without capstone or symbols.
    """
    with ExitStack() as stack:
        try:
            image = stack.enter_context(running_image())
        except InputError as error:
            if error.file != "--running":
                raise
            image = _without_text(error.expected)
        try:
            kernel = Kernel(image, release)
        except InputError as error:
            raise InputError(OPTION, error.place, error.expected) from None
        yield kernel


def _without_text(why: str) -> KernelImage:
    def refuse(address: int, size: int) -> bytes:
        raise NotMapped(f"the running kernel's text cannot be read ({why})")

    return KernelImage("the running kernel", machine(), read_symbols(KALLSYMS), running_types(), refuse)


def show(out: Console, live: Live, fd: int, insns: Sequence[Insn], kernel: Kernel, names: Sequence[str] = ()) -> Exit:
    """Reports the program behind `fd`, whose rewritten instructions are `insns`; `names` are its functions', in order.

    A program without machine code is open, with the reason.
    """
    try:
        found = read(live, fd, insns, kernel, names)
    except Unsupported as hole:
        out.print(clean(f"machine code: unsupported: {hole}"), markup=False, soft_wrap=True)
        return Exit.OPEN
    jited_report(out, found, kernel)
    return status(found)


def status(found: MachineCode) -> Exit:
    return Exit.REFUTED if found.broken else Exit.OPEN if found.unclear else Exit.PROVED
