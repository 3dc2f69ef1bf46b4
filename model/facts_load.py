"""What is settled only when a program is loaded: CO-RE relocations.

libbpf 1.x (relo_core.c, bpf_core_patch_insn) writes a number that depends on the kernel's types into the
immediate of an arithmetic instruction, move or 64-bit load, or into the offset of a load or store, whose
access size may change with it; the verifier then has a constant where the object has that of the compile
time. Where the kernel lacks what is asked for, the instruction becomes a call that the verifier
refuses, so no path that it accepts leads there.
"""

from dataclasses import replace

from model.facts_memory import ANYWHERE
from model.facts_values import LATE
from model.isa.insn import Insn
from model.program import Program

_REGISTER = 0x08
_LD_IMM64, _MOVE = 0x18, 0xBF
_JA, _CALL, _EXIT, _SWAP, _MAY_GOTO = 0x00, 0x80, 0x90, 0xD0, 0xE0


def unsettled(program: Program) -> Program:
    """The program for the analysis: relocated immediates are read from register LATE, relocated offsets are ANYWHERE.

    The instruction count and all targets stay. The program itself if nothing in it is relocated.
    """
    if not program.relocated:
        return program
    insns = list(program.insns)
    for slot in program.relocated:
        if 0 <= slot < len(insns):
            insns[slot] = _unsettled(insns[slot])
    return replace(program, insns=tuple(insns))


def _unsettled(insn: Insn) -> Insn:
    opcode = insn.opcode
    group, operation = opcode & 0x07, opcode & 0xF0
    if opcode == _LD_IMM64:
        return Insn(_MOVE, insn.dst, LATE) if insn.src == 0 else insn
    if group in (1, 2, 3):
        return replace(insn, off=ANYWHERE)
    if opcode & _REGISTER:
        return insn
    if group in (4, 7) and operation != _SWAP:
        return replace(insn, opcode=opcode | _REGISTER, src=LATE)
    if group in (5, 6) and operation not in (_JA, _CALL, _EXIT, _MAY_GOTO):  # not libbpf's, and no harm
        return replace(insn, opcode=opcode | _REGISTER, src=LATE)
    return insn
