"""Loads programs into the running kernel (root), reads back what it made of them, and holds that against the model.

For each program of each FILE (a BPF ELF object, or assembly text): does the kernel agree with the model's rewrite at
each map-helper call (the function called, the inlined instructions one by one, or that the call stays), what did other
passes of the verifier do, and is the result proved to mean what was loaded. What another pass did is told by its name,
and is not proved where there is no claim on it. Programs are loaded and read, never attached; everything is closed at
the end, however that comes.
"""

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from platform import machine

from rich.console import Console

from model.errors import InputError
from model.kernel.data import load_release
from model.loaders import elf
from model.loaders.detect import load_bytes, read_bytes
from model.loaders.kernel_btf import running_types
from model.loaders.kernel_symbols import read_symbols
from model.loaders.live import Live
from model.loaders.live_object import Kernel, Loaded, Session
from model.program import Form, Object
from model.rewrite.config import Config
from proofs.claims import Claims
from proofs.commands import machine_code
from proofs.commands.options import abi, kernel, positive_seconds
from proofs.limit import Limit, interruptible
from proofs.live_check import Answer, Asked, judge
from proofs.live_rows import RowClaims
from proofs.outcome import Exit
from proofs.report.live import Tally, lines
from proofs.report.text import clean, console
from proofs.solver import DEFAULT_TIMEOUT, Solver

SUMMARY = "load programs into the running kernel and hold its rewrite against the model's"
EXAMPLES = """\
exit status: 0 the kernel agrees with the model everywhere and all is proved; 1 they differ, or something is refuted;
2 bad usage or bad input; 3 something is unknown or unsupported, or nothing could be loaded; 130 interrupted.
What the kernel or the loader refuses is counted, and no verdict.

examples:
  python -m proofs live prog.bpf.o
  python -m proofs live --verbose --program count prog.bpf.o
  python -m proofs live case.asm --type sched_cls
  python -m proofs live --kernel 6.18 /usr/lib/x86_64-linux-gnu/bpf/*.o
"""
KALLSYMS = Path("/proc/kallsyms")
MACHINES = {"aarch64": "arm64"}
"""ABIs that `uname` has other names for."""
JIT = Path("/proc/sys/net/core/bpf_jit_enable")


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", metavar="FILE", nargs="+", help="BPF object or assembly text")
    parser.add_argument(
        "--kernel", metavar="RELEASE", default="running", help="the model's release (default: what the kernel tells)"
    )
    parser.add_argument("--section", metavar="NAME", help="only programs of this section")
    parser.add_argument("--program", metavar="NAME", help="only programs of this name")
    parser.add_argument("--type", metavar="TYPE", default="", help="of all programs (xdp, sched_cls, …)")
    parser.add_argument("--verbose", action="store_true", help="every call and every part of the proof")
    parser.add_argument("--machine-code", action="store_true", help="each program's machine code too (extra: abi)")
    parser.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=positive_seconds,
        default=DEFAULT_TIMEOUT,
        help=f"the solver's limit for one obligation (default: {DEFAULT_TIMEOUT:g})",
    )
    parser.add_argument("--time-limit", metavar="SECONDS", type=positive_seconds, help="of the whole run")


@dataclass(slots=True)
class _Run:
    """`more` is called with each program while it is loaded, and gives its own exit status."""

    options: argparse.Namespace
    asked: Asked
    limit: Limit
    out: Console
    total: Tally = field(default_factory=Tally)
    exits: set[Exit] = field(default_factory=set)
    more: Callable[[Live, Loaded], Exit] | None = None

    def file(self, session: Session, numbers: Sequence[int], name: str) -> None:
        tally = Tally()
        for number in numbers:
            if self.limit.over:
                break
            answer = judge(session, number, self.asked, lambda answer, loaded: self._seen(session.live, answer, loaded))
            if answer.refused:
                self.say(lines(answer, verbose=self.options.verbose))
            tally.add(answer)
            self.total.add(answer)
            self.exits.add(answer.exit)
        self.say([*tally.lines(name), ""])
        self.out.file.flush()  # a reader of a pipe sees each file when it is done

    def say(self, texts: Iterable[str]) -> None:
        for text in texts:
            self.out.print(clean(text), markup=False, soft_wrap=True)

    def _seen(self, live: Live, answer: Answer, loaded: Loaded) -> None:
        """While the program is loaded."""
        self.say(lines(answer, verbose=self.options.verbose))
        if self.more is not None:
            self.exits.add(self.more(live, loaded))


def run(options: argparse.Namespace) -> int:
    helpers = load_release("newest").helper_ids
    given = [_read(path, options, helpers) for path in options.files]
    release, chosen = kernel(options.kernel), abi(MACHINES.get(machine(), machine()))
    limit = Limit(options.time_limit)
    solver = Solver(options.timeout, limit)
    claims = Claims(release, chosen, solver)
    types, symbols = running_types(), read_symbols(KALLSYMS)
    numbers = {name: row.number for name, row in release.map_types.items()}
    config = Config(arch=chosen.name, jit=_jit())
    known = Kernel(types, symbols, numbers)
    asked = Asked(claims, RowClaims(release, chosen, solver), config, types, symbols)
    done = _Run(options, asked, limit, console())
    with ExitStack() as stack:
        stack.enter_context(interruptible(limit))
        if options.machine_code:
            image = stack.enter_context(machine_code.opened(release))
            done.more = lambda live, loaded: machine_code.show(
                done.out, live, loaded.fd, loaded.read.insns, image, [part.name for part in loaded.after.subprograms]
            )
        for parts, found, wanted in given:
            if limit.over:
                break
            with Live() as live:
                session = Session(live, known, found, parts, frozenset(claims.symbols), options.type)
                done.file(session, wanted, found.file)
    done.say(done.total.lines("all"))
    if limit.over:
        done.say([f"not all was looked at: {limit.reason()}"])
    return _exit(done, limit)


def _exit(done: _Run, limit: Limit) -> int:
    if limit.interrupted:
        return 130
    if Exit.REFUTED in done.exits:
        return Exit.REFUTED
    judged = sum(done.total.programs.values()) - done.total.programs["refused"]
    return Exit.PROVED if done.exits <= {Exit.PROVED} and judged and not limit.over else Exit.OPEN


Given = tuple[elf.Parts | None, Object, list[int]]


def _read(path: str, options: argparse.Namespace, helpers: Mapping[str, int]) -> Given:
    """All files are read before the first program is loaded. Raises `InputError`."""
    data = read_bytes(path)
    parts = elf.parts(data, path) if data.startswith(b"\x7fELF") else None
    found = parts.found if parts is not None else load_bytes(data, path, maps={}, helper_ids=helpers)
    if any(program.form is Form.XLATED for program in found.programs):
        raise InputError(path, "", "expected programs as they are loaded, found a kernel's dump")
    wanted = [
        number
        for number, program in enumerate(found.programs)
        if options.section in (None, program.section) and options.program in (None, program.name)
    ]
    if not wanted:
        raise InputError(path, "", "expected a program in it that fits --section and --program")
    return parts, found, wanted


def _jit() -> bool:
    """Whether the kernel compiles programs: the rewrite asks that. Where the file is not there, it always does."""
    try:
        return JIT.read_text(encoding="ascii").strip() != "0"
    except OSError:
        return True
