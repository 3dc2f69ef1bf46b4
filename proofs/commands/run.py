"""Runs a program on the model's machine and prints r0 in hex.

FILE is assembly (the kernel's syntax, LLVM's, or that of uBPF and bpf_conformance, also as a test file with
sections `-- asm`, `-- mem`, `-- result`), bytes of instructions (NAME.bin or --format raw) or the same in
hex, a BPF object or a dump; `-` reads it from standard input. The memory's address is in r1, its length in
bytes in r2, both 0 without memory. Legacy packet loads read the memory as the packet of the context in r1.
Maps (`.map` in assembly, those of an object) begin empty; what their operations do, and which ones a helper
reaches, is the release's (--kernel). Of other helpers there are ktime_get_ns, get_prandom_u32,
get_smp_processor_id (the same values in every run) and loop.
"""

import argparse
import re
import sys

from model.errors import InputError
from model.kernel.release import Release
from model.loaders.conformance import hex_bytes
from model.machine.kernel import Bare
from model.machine.machine import STEP_LIMIT, Machine, Step
from model.machine.maps_kernel import MapsKernel
from model.machine.outcome import Fault, Limit, Returned
from model.machine.regions import CONTEXT_BASE, Region, Regions
from model.program import Program
from model.semantics.load_store import Packet
from proofs.commands.options import kernel
from proofs.outcome import Exit
from proofs.run_input import FORMATS, read

SUMMARY = "run a program on the model's machine and print r0"
EXAMPLES = """\
exit status: 0 the program ended, and its r0 is in the output; 1 a fault (also one that the test file demands with
`-- error`), the step limit, or another r0 than a test file's `-- result`; 2 bad usage or bad input; 3 an instruction
that has no meaning in the model.

examples:
  python -m proofs run prog.asm --mem 'aa bb 11 cc'
  python -m proofs run add.data --trace             a test of bpf_conformance, with its own memory
  python -m proofs run maps.asm --kernel 6.1        a program with .map lines
  echo 'b7000000050000009500000000000000' | python -m proofs run -
"""
ETHERNET_HEADER = 14
MOST_STEPS = 1 << 40


def steps(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,13}", text) or not 0 < int(text) <= MOST_STEPS:
        raise argparse.ArgumentTypeError(f"expected a number of instructions, 1 to {MOST_STEPS}, not {text!r}")
    return int(text)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="the program; - is standard input")
    parser.add_argument("memory", metavar="HEX", nargs="?", help="the same as --mem HEX")
    parser.add_argument("--mem", metavar="HEX", help="the memory's bytes in hex (default: a test file's, else none)")
    parser.add_argument("--trace", action="store_true", help="each instruction and what it changes, on standard error")
    parser.add_argument(
        "--steps",
        metavar="N",
        type=steps,
        default=STEP_LIMIT,
        help=f"the most instructions to run (default: {STEP_LIMIT:,})",
    )
    parser.add_argument(
        "--format", choices=FORMATS, default="auto", help="what FILE holds (default: told by its contents)"
    )
    parser.add_argument("--raw", dest="format", action="store_const", const="raw", help="the same as --format raw")
    parser.add_argument("--program", metavar="NAME", help="which program of a file with several")
    parser.add_argument(
        "--kernel",
        metavar="RELEASE",
        default="newest",
        help="whose maps and helpers a program with maps meets (default: the newest)",
    )


def machine(
    memory: bytes | None, limit: int, *, trace: bool, release: Release | None = None
) -> tuple[Machine, tuple[int, int]]:
    """A machine with `memory` at r1, and the program's first two arguments; with maps if a release is given."""
    regions = Regions()
    around = Bare() if release is None else MapsKernel(regions, release)
    made = Machine(around, regions, limit, _print_step if trace else None)
    if not memory:
        return made, (0, 0)
    made.memory.add(Region("memory", CONTEXT_BASE, bytearray(memory)))
    made.context = CONTEXT_BASE
    made.packet = Packet(CONTEXT_BASE, len(memory), ETHERNET_HEADER, 0)
    return made, (CONTEXT_BASE, len(memory))


def run(options: argparse.Namespace) -> int:
    if options.mem is not None and options.memory is not None:
        raise InputError("--mem", "", "expected the memory once, found it twice")
    given = options.mem if options.mem is not None else options.memory
    memory = hex_bytes(given, "--mem", "") if given is not None else None
    found = read(options.file, options.format, options.program)
    release = kernel(options.kernel) if found.program.maps else None
    given_memory = found.memory if memory is None else memory
    runner, registers = machine(given_memory, options.steps, trace=options.trace, release=release)
    outcome = runner.run(found.program, *registers)
    match outcome:
        case Returned(value):
            print(f"0x{value:x}")
            if found.result not in (None, value):
                return _say(f"{options.file}: r0 is 0x{value:x}, the file's result is 0x{found.result:x}")
            if found.fails:
                return _say(f"{options.file}: r0 is 0x{value:x}, the file demands an error")
            return Exit.PROVED
        case Fault(_, slot) | Limit(_, slot):
            return _say(f"{options.file}: {outcome}{_source(found.program, slot, options.file)}")


def _source(program: Program, slot: int, file: str) -> str:
    """Where the instruction comes from, where that is known."""
    line = program.lines.get(slot)
    if line is None or not line.line:
        return ""
    return f" (line {line.line})" if line.file in ("", file) else f" ({line.file}:{line.line})"


def _say(message: str) -> int:
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in message)
    print(f"bpf-devirt: {shown}", file=sys.stderr)
    return Exit.REFUTED


def _print_step(step: Step) -> None:
    changed = "  ".join(f"r{i} = {'nothing' if x is None else f'0x{x:x}'}" for i, x in step.changed.items())
    text = f"{'  ' * step.depth}{step.slot:5}: {step.text}"
    print(f"{text:<50} {changed}".rstrip(), file=sys.stderr)
