"""How fast the machine runs plain ints: tests/bench/bench_machine.py. Prints instructions a second of processor time.

Each kind of code runs as a loop, where a slot runs often, and as one long line, where each slot runs once and every
immediate is another one. The last lines are a file of assembly through `python -m proofs run`.
"""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import process_time

from model.isa.codec import form_of
from model.isa.forms import IMM
from model.isa.insn import Insn
from model.isa.opcodes import WIDE
from model.isa.text import format_insn
from model.machine.machine import Machine
from model.machine.outcome import Returned
from model.machine.regions import CONTEXT_BASE, Region
from model.program import Program
from proofs.run_input import read

COUNT = 100_000
RUNS = 3
"""The best one counts: the processor may have other work."""
MOV_R0, EXIT = Insn(0xB7, 0), Insn(0x95)
START = (MOV_R0, Insn(0x7A, 10, off=-8))
BODIES = {
    "arithmetic, 64 bits": (Insn(0x07, 0, imm=7), Insn(0x2F, 0, 0), Insn(0xA7, 0, imm=-5), Insn(0x77, 0, imm=3)),
    "arithmetic, 32 bits": (Insn(0x04, 0, imm=7), Insn(0x2C, 0, 0), Insn(0xA4, 0, imm=-5), Insn(0x74, 0, imm=3)),
    "division": (Insn(0x37, 0, imm=7), Insn(0x97, 0, imm=5)),
    "loads and stores": (Insn(0x7B, 10, 0, -8), Insn(0x79, 0, 10, -8), Insn(0x61, 0, 1, 4), Insn(0x63, 1, 0, 4)),
    "branches": (Insn(0x15, 0, off=0, imm=1), Insn(0x3E, 0, 0), Insn(0x05)),
    "byte swaps": (Insn(0xDC, 0, imm=64), Insn(0xD7, 0, imm=32)),
    "64-bit immediates": (Insn(WIDE, 0, imm=1), Insn(0, imm=2)),
}
BODIES["mixed"] = tuple(insn for body in BODIES.values() for insn in body)
BODIES["calls"] = (Insn(0x85, 0, 1),)


def linked(insns: tuple[Insn, ...]) -> Program:
    """With a subprogram behind, which returns 0 and which every call calls."""
    function = len(insns) + 1
    calls = {slot: replace(insn, imm=function - slot - 1) for slot, insn in enumerate(insns) if insn.opcode == 0x85}
    return Program("bench", (*(calls.get(slot, insn) for slot, insn in enumerate(insns)), EXIT, MOV_R0, EXIT))


def loop(body: tuple[Insn, ...]) -> Program:
    """r6 = n; do body while (--r6 != 0)."""
    again = (Insn(0x17, 6, imm=1), Insn(0x55, 6, off=-len(body) - 2))
    return linked((*START, Insn(0xB7, 6, imm=COUNT // (len(body) + 2)), *body, *again))


def once(body: tuple[Insn, ...]) -> Program:
    """The body again and again, with any immediate where the form takes any."""
    random = Random(1)

    def some(insn: Insn) -> Insn:
        form = form_of(insn, loaded=False)
        any_value = insn.opcode == 0 or (form is not None and form.imm is IMM and insn.opcode != 0x85)
        return replace(insn, imm=random.choice(IMM)) if any_value else insn

    return linked((*START, *(some(insn) for _ in range(COUNT // len(body)) for insn in body)))


def speed(program: Program) -> float:
    """Instructions a second, what is made ready on the way included."""
    machine = Machine(limit=10_000_000)
    machine.memory.add(Region("memory", CONTEXT_BASE, bytearray(64)))
    started = process_time()
    outcome = machine.run(program, CONTEXT_BASE, 64)
    seconds = process_time() - started
    assert isinstance(outcome, Returned), outcome
    return outcome.steps / seconds


def text(program: Program) -> str:
    lines, insns = [], iter(program.insns)
    for insn in insns:
        high = next(insns).imm if insn.opcode == WIDE else 0
        lines.append(format_insn(insn, high).partition(") ")[2] + "\n")
    return "".join(lines)


def from_a_file(program: Program) -> None:
    """The same program as assembly: read, and through the command."""
    with TemporaryDirectory() as directory:
        file = Path(directory, "once.asm")
        file.write_text(text(program))
        started = process_time()
        assert read(str(file), "auto", None).program.insns == program.insns
        print(f"{'reading it as a file':24} {len(program.insns) / (process_time() - started):12,.0f}")
        command = [sys.executable, "-m", "proofs", "run", str(file), "--mem", "00" * 64]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        took = os.times()
        seconds = took.children_user + took.children_system
        print(f"{'python -m proofs run':24} {len(program.insns) / seconds:12,.0f}  ({seconds:.2f} s)")


def main() -> None:
    print(f"{'instructions a second':24} {'in a loop':>12} {'each once':>12}")
    for name, body in BODIES.items():
        looped, straight = (max(speed(make(body)) for _ in range(RUNS)) for make in (loop, once))
        print(f"{name:24} {looped:12,.0f} {straight:12,.0f}", flush=True)
    print(f"\n{COUNT:,} slots of mixed code, each once:")
    from_a_file(once(BODIES["mixed"]))


if __name__ == "__main__":
    main()
