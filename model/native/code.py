"""Machine instructions of x86-64 as plain values, independent of the disassembler."""

from dataclasses import dataclass
from enum import Enum

# The numbers of general registers, in the encoding's order (Intel SDM, volume 2, table 3-1).
RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI = range(8)
REGISTERS = 16
NAMES = ("rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", *(f"r{number}" for number in range(8, 16)))
ARGUMENTS = (RDI, RSI, RDX, RCX, 8, 9)
"""System V AMD64 psABI, 3.2.3: integer arguments, in order."""
CALLER_SAVED = (RAX, RCX, RDX, RSI, RDI, 8, 9, 10, 11)


@dataclass(frozen=True, slots=True)
class Reg:
    """`number` of the whole register; `bits` 8, 16, 32 or 64; `high` for ah, bh, ch, dh."""

    number: int
    bits: int
    high: bool = False


@dataclass(frozen=True, slots=True)
class Imm:
    """Sign-extended to 64 bits, as an unsigned number."""

    value: int


@dataclass(frozen=True, slots=True)
class Mem:
    """`base` and `index` are register numbers; `plain` says that no segment and no rip are in the address."""

    base: int | None
    index: int | None
    disp: int
    bits: int
    plain: bool


@dataclass(frozen=True, slots=True)
class Other:
    """A vector, segment or control register."""


Operand = Reg | Imm | Mem | Other


class Kind(Enum):
    PLAIN = "plain"
    JUMP = "jump"
    BRANCH = "branch"  # conditional
    CALL = "call"
    RETURN = "return"
    STOP = "stop"  # hlt, int3: nothing follows
    TRAP = "trap"  # ud2: the handler may go on behind it (WARN)


@dataclass(frozen=True, slots=True)
class Step:
    """One instruction. `target` is a jump's or call's where the instruction holds it; `text` is for messages."""

    address: int
    size: int
    name: str
    operands: tuple[Operand, ...]
    kind: Kind
    target: int | None
    text: str

    @property
    def next(self) -> int:
        return self.address + self.size
