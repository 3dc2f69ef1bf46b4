"""What `live --machine-code` adds: the machine code of each loaded program beside the Direct claim.

`opened` once, `show` for each program while it is loaded; `files` does both for objects, assembly and generated cases.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from platform import machine

from rich.console import Console

from model.errors import InputError, ModelError, Unsupported
from model.isa.insn import Insn
from model.kernel.release import Release
from model.loaders import elf, live_object
from model.loaders.detect import load_file, read_bytes
from model.loaders.kernel_btf import running_types
from model.loaders.kernel_image import KALLSYMS, KernelImage, NotMapped, running_image
from model.loaders.kernel_symbols import read_symbols
from model.loaders.live import Live
from model.program import Form
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


def files(out: Console, names: Sequence[str], release: Release, type_: str = "") -> Exit:
    """Each program of each file is loaded, reported and unloaded. One that the kernel or the loader refuses is open,
    with the reason. `type_` is the program type ("sched_cls") where a section's name does not tell it: of assembly.
    """
    done = [Exit.PROVED]
    with opened(release) as kernel:
        types = kernel.image.types or running_types()
        numbers = {name: row.number for name, row in release.map_types.items()}
        known = live_object.Kernel(types, kernel.image.symbols, numbers)
        for name in names:
            parts = elf.parts(data, name) if (data := read_bytes(name)).startswith(b"\x7fELF") else None
            found = parts.found if parts is not None else load_file(name, helper_ids=release.helper_ids)
            if not found.programs or any(program.form is Form.XLATED for program in found.programs):
                raise InputError(name, "", "expected programs as they are loaded")
            for number, program in enumerate(found.programs):
                out.print(clean(f"{name}: {program.name}"), markup=False, soft_wrap=True)
                kind = type_ if parts is None else ""
                with Live() as live:
                    session = live_object.Session(live, known, found, parts, type=kind)
                    done.append(_loaded(out, session, number, kernel))
    return next(exit_ for exit_ in (Exit.REFUTED, Exit.OPEN, Exit.PROVED) if exit_ in done)


def _loaded(out: Console, session: live_object.Session, number: int, kernel: Kernel) -> Exit:
    try:
        loaded = session.load(number)
    except ModelError as error:
        out.print(clean(f"not loaded: {str(error).splitlines()[0]}"), markup=False, soft_wrap=True)
        return Exit.OPEN
    own = [part.name for part in loaded.after.subprograms]
    return show(out, session.live, loaded.fd, loaded.read.insns, kernel, own)
