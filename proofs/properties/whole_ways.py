"""Ways out of a program other than its exit, in a run over symbols: another program by a tail call, a fault."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from model.bits import B, W
from model.errors import Unsupported
from model.isa.insn import Insn
from model.semantics import frames
from model.semantics.step import ENDED
from proofs.properties.tracked import Tracked, Word
from proofs.properties.whole_calls import Calls
from proofs.properties.whole_handed import hand
from proofs.properties.whole_memory import REGISTER

LOAD, STORES = 1, (2, 3)
"""Classes of instructions (RFC 9669, section 3.1) with an address in src, and in dst."""


def tail_call(world: Tracked[W, B], state: Any, given: Sequence[Word[W]], calls: Calls[W, B]) -> list[Any]:
    """On to another program, which ends this one and may do anything; or behind the call (bpf_tail_call).

    Which of the two, the arguments and the state of the kernel tell; the index, in r3, is a u32.
    """
    if state.callers:
        raise Unsupported("a tail call of a function that was called in a run over symbols")
    b = world.bits(REGISTER)
    index = world.bits(32).zext(b.extract(given[2], 31, 0), REGISTER)
    handed = hand(state.memory, [*given[:2], index], None, "")
    made = calls.unknown("tail_call", handed.registers, handed.outside)
    stays = b.eq(calls.unknown("tail_call: stays", handed.registers, handed.outside).register, b.const(0))
    behind: list[Any] = frames.scratch(state.registers)
    away, left = (made.register, *behind[1:]), handed.left(made.outside)
    return [
        replace(state, registers=away, memory=left, guard=b.conj(state.guard, b.negate(stays)), slot=ENDED),
        replace(state, registers=tuple(behind), guard=b.conj(state.guard, stays), slot=state.slot + 1),
    ]


def faults(state: Any, insn: Insn) -> bool:
    """Whether an instruction loads or stores at an address that is a plain number, as NULL with an offset is."""
    kind = insn.opcode & 7
    if kind != LOAD and kind not in STORES:
        return False
    base = state.registers[insn.src if kind == LOAD else insn.dst]
    return base is not None and base.number is not None


def faulted(world: Tracked[W, B], state: Any, what: str) -> Any:
    """The run ends there, and in nothing that the other side ends in."""
    rest = state.registers[1:]
    return replace(state, registers=(world.fresh(what, REGISTER), *rest), slot=ENDED, callers=())
