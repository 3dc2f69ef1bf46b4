"""How fast the machine runs plain ints, in instructions a second per kind of loop: tests/bench/bench_machine.py."""

from time import perf_counter

from model.isa.insn import Insn
from model.machine.machine import Machine
from model.machine.outcome import Returned
from model.machine.regions import CONTEXT_BASE, Region
from model.program import Program

MOV_R0, EXIT = Insn(0xB7, 0), Insn(0x95)
LOOPS = {
    "arithmetic, 64 bits": (Insn(0x07, 0, imm=7), Insn(0x2F, 0, 0), Insn(0xA7, 0, imm=-5), Insn(0x77, 0, imm=3)),
    "arithmetic, 32 bits": (Insn(0x04, 0, imm=7), Insn(0x2C, 0, 0), Insn(0xA4, 0, imm=-5), Insn(0x74, 0, imm=3)),
    "division": (Insn(0x37, 0, imm=7), Insn(0x97, 0, imm=5)),
    "loads and stores": (Insn(0x7B, 10, 0, -8), Insn(0x79, 0, 10, -8), Insn(0x61, 0, 1, 4), Insn(0x63, 1, 0, 4)),
    "branches": (Insn(0x15, 0, off=0, imm=1), Insn(0x3E, 0, 0), Insn(0x05)),
    "byte swaps": (Insn(0xDC, 0, imm=64), Insn(0xD7, 0, imm=32)),
    "calls": (Insn(0x85, 0, 1, imm=4),),
}


def program(body: tuple[Insn, ...], count: int) -> Program:
    """r6 = count; do body while (--r6 != 0); behind it a subprogram that returns 0."""
    loop = (*body, Insn(0x17, 6, imm=1), Insn(0x55, 6, off=-len(body) - 2))
    start = (MOV_R0, Insn(0xB7, 6, imm=count))
    insns = (*start, *loop, MOV_R0, EXIT, MOV_R0, EXIT)
    if body == LOOPS["calls"]:
        insns = (*start, Insn(0x85, 0, 1, imm=len(loop) + 1), *loop[1:], MOV_R0, EXIT, MOV_R0, EXIT)
    return Program("loop", insns)


def main() -> None:
    for name, body in LOOPS.items():
        machine = Machine(limit=10_000_000)
        machine.memory.add(Region("memory", CONTEXT_BASE, bytearray(64)))
        started = perf_counter()
        outcome = machine.run(program(body, 300_000 // (len(body) + 2)), CONTEXT_BASE, 64)
        seconds = perf_counter() - started
        assert isinstance(outcome, Returned), outcome
        print(f"{name:24} {outcome.steps / seconds:12,.0f} instructions/s")
    once = Program("once", (MOV_R0, *[Insn(0x07, 0, imm=i) for i in range(100_000)], EXIT))
    started = perf_counter()
    outcome = Machine().run(once)
    print(f"{'each run once, all new':24} {outcome.steps / (perf_counter() - started):12,.0f} instructions/s")


if __name__ == "__main__":
    main()
