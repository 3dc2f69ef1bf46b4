"""The command line: one parser, one way out for errors."""

import argparse
import contextlib
import gc
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version

from model.errors import InputError, Unsupported
from proofs.outcome import Exit

COMMANDS = (
    "check",
    "equiv",
    "rewrite",
    "run",
    "list",
    "cfg",
    "extract",
    "abi-check",
    "mutants",
    "explain",
    "fuzz",
    "replay",
    "live",
    "bench",
    "vm",
    "recheck",
)
DESCRIPTION = """\
Checks the claim of the Linux BPF verifier's devirtualization of map helper calls: the program after the
rewrite means what the program before meant, and no indirect dispatch is left that could have been direct.
"""
EPILOG = """\
exit status: 0 all proved; 1 something refuted; 2 bad usage or bad input; 3 nothing refuted, but something
unknown or unsupported.

examples:
  python -m proofs check                       every Dispatch claim of the newest release, x86-64
  python -m proofs check --kernel 6.1          the same of Linux 6.1: refuted, with counterexamples
  python -m proofs check prog.bpf.o            the map-helper call sites of an object's programs
  python -m proofs rewrite prog.bpf.o          before and after, side by side
"""


def product_version() -> str:
    try:
        return version("bpf-devirt")
    except PackageNotFoundError:
        return "unknown (not installed)"


def parser(names: Sequence[str] = COMMANDS) -> argparse.ArgumentParser:
    """The parser for the commands `names` (importing only their modules: start-up time)."""
    top = argparse.ArgumentParser(
        prog="python -m proofs",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    text = f"bpf-devirt {product_version()}"
    top.add_argument("--version", action="version", version=text)
    top.set_defaults(usage=top.error)
    commands = top.add_subparsers(title="commands", metavar="COMMAND", dest="command")
    for name in names:
        module = import_module(f"proofs.commands.{name.replace('-', '_')}")
        command = commands.add_parser(
            name,
            help=module.SUMMARY,
            description=module.__doc__,
            epilog=module.EXAMPLES,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.add_argument("--version", action="version", version=text)
        module.arguments(command)
        command.set_defaults(run=module.run, usage=command.error)
    return top


def collect_rarely() -> None:
    """Large programs are many small values without cycles: looking for cycles less often saves a quarter."""
    gc.set_threshold(100_000, 50, 50)


def main(arguments: Sequence[str] | None = None) -> int:
    given = list(sys.argv[1:] if arguments is None else arguments)
    top = parser(given[:1] if given and given[0] in COMMANDS else COMMANDS)
    chosen, rest = top.parse_known_args(given)
    if rest:
        chosen.usage(f"unrecognized arguments: {' '.join(rest)}")
    if chosen.command is None:
        top.print_help(sys.stderr)
        return Exit.BAD_INPUT
    collect_rarely()
    if sys.stdout is None:  # closed by the caller
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    try:
        status: int = chosen.run(chosen)
        sys.stdout.flush()
        return status
    except InputError as error:
        return _fail(str(error), Exit.BAD_INPUT)
    except Unsupported as hole:
        return _fail(f"unsupported: {hole}", Exit.OPEN)
    except BrokenPipeError:  # the reader is gone (`| head`): not our error, and nothing more can be said
        _forget_output()
        return 128 + 13
    except OSError as error:
        _forget_output()
        return _fail(f"output cannot be written: {error.strerror}", Exit.BAD_INPUT)
    except KeyboardInterrupt:
        return _fail("interrupted", 128 + 2)


def _forget_output() -> None:
    """What is still buffered cannot be written: it must not be tried again at the interpreter's end."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(message: str, status: int) -> int:
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in message)
    print(f"bpf-devirt: {shown}", file=sys.stderr)
    return status
