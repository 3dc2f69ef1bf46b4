"""What one instruction does, with its fields already decoded: the values that `model.semantics.bind` makes.

Straight-line instructions change registers and memory only; the rest say where to go on. `reads` are the
registers that an instruction reads: a register that holds nothing (None) must not be read. `slots` is the
number of slots (8 bytes each) that the instruction takes. What is done often is one function for all
instructions of a form, and this instruction's operands beside it.
"""

from collections.abc import Callable, MutableSequence, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple

from model.bits import B, W
from model.isa.insn import Insn
from model.isa.opcodes import Call, Imm64
from model.memory import Memory

Effect = Callable[[MutableSequence[W], Memory[W], int, Any, Any], Memory[W]]
"""Changes the registers (r0 first, 64 bits each) in place and gives the memory after: registers, memory, operands."""

Taken = Callable[[Sequence[W], int, Any], B]
"""Whether a branch is taken: registers, operands."""


class Straight(NamedTuple, Generic[W]):
    """Goes on behind itself. `effect` takes the operands `dst`, `src` and `offset`.

    `dst` is a register's number, `src` another's or the word of an immediate, `offset` a word of 64 bits; what
    the form does not have is None. A tuple, as one is made for every instruction that a machine reaches.
    """

    effect: Effect[W]
    dst: int
    src: Any
    offset: Any
    reads: tuple[int, ...] = ()
    slots: int = 1


class Branch(NamedTuple, Generic[W, B]):
    """Goes on `jump` slots behind itself where `taken` holds, else directly behind itself (RFC 9669, section 4.3).

    `taken` takes the operands `dst` and `src`, as in `Straight`.
    """

    taken: Taken[W, B]
    dst: int
    src: Any
    jump: int
    reads: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Goto:
    """JA of class JMP (16-bit offset) and of class JMP32 (32-bit immediate): section 4.3."""

    offset: int
    reads: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class MayGoto:
    """may_goto (BPF_JCOND, include/uapi/linux/bpf.h): goes on behind itself while its budget lasts, else jumps."""

    offset: int
    reads: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Invoke:
    """CALL (section 4.3): of a helper or kernel function by number, or of the subprogram `target` slots behind it.

    `target` is signed: the helper's id, the kernel function's BTF id, or the distance.
    """

    kind: Call
    target: int
    reads: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Exit:
    """EXIT: back to the caller, or the end of the program with r0 as its result (section 4.3)."""

    reads: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TailCall:
    """BPF_TAIL_CALL (include/linux/filter.h): what the rewrite makes of a call of the helper tail_call."""

    reads: tuple[int, ...] = (1, 2, 3)


@dataclass(frozen=True, slots=True)
class PacketLoad(Generic[W]):
    """Legacy packet load (section 5.5): `offset` gives the packet offset of the field, 32 bits, size in bytes."""

    offset: Callable[[Sequence[W]], W]
    size: int
    reads: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Address:
    """A 64-bit load of something that has no value in the instruction: map, map value, variable, code (section 5.4)."""

    dst: int
    kind: Imm64
    imm: int
    high: int
    reads: tuple[int, ...] = ()
    slots: int = 2


@dataclass(frozen=True, slots=True)
class PerCpu:
    """BPF_MOV64_PERCPU_REG (include/linux/filter.h, 6.10 and later): dst is src moved to this CPU's area."""

    dst: int
    src: int
    reads: tuple[int, ...]


Operation = Straight[W] | Branch[W, B] | Goto | MayGoto | Invoke | Exit | TailCall | PacketLoad[W] | Address | PerCpu

Maker = Callable[[Insn, W, int], Operation[W, B]]
"""The operations of one form's instructions, from an instruction, its immediate (32 bits), the second slot's.

Raises `Unsupported` where this instruction of the form has no meaning.
"""
