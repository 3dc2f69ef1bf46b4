"""What one row of a bpftool dump says, before any of it is understood: the text and JSON readers meet here."""

from dataclasses import dataclass, field
from typing import Literal

from model.errors import InputError
from model.isa.insn import Insn
from model.program import Line

ByteOrder = Literal["little", "big"]
LD_IMM64 = 0x18
CALL = 0x85
MAX_PROGRAMS = 1 << 14  # of one file
MAX_SLOTS = 1 << 21  # of one file: twice what the kernel accepts in a program, so that memory is bounded


@dataclass(frozen=True, slots=True)
class Opcodes:
    """The bytes of one instruction as the dump shows them, in the byte order of the machine that made it.

    `regs` is the register byte of `struct bpf_insn`, or (JSON) the pair dst, src; `off` has 2 bytes, `imm` 4, or
    12 for a 64-bit load: low half, the second slot's opcode, registers and offset, high half.
    """

    code: int
    regs: int | tuple[int, int]
    off: bytes
    imm: bytes

    def insns(self, order: ByteOrder) -> tuple[Insn, ...]:
        if isinstance(self.regs, tuple):
            dst, src = self.regs
        elif order == "little":
            dst, src = self.regs & 15, self.regs >> 4
        else:
            dst, src = self.regs >> 4, self.regs & 15
        off = int.from_bytes(self.off, order, signed=True)
        low = int.from_bytes(self.imm[:4], order, signed=True)
        first = Insn(self.code, dst, src, off, low)
        if len(self.imm) == 4:
            return (first,)
        return (first, Insn(0, imm=int.from_bytes(self.imm[8:], order, signed=True)))

    def check(self, file: str, place: str) -> None:
        """A 64-bit load has the bytes of two slots, the second one's header all zero; all else has one slot."""
        if (len(self.imm) == 12) != (self.code == LD_IMM64):
            shown = "one slot" if len(self.imm) == 4 else "two slots"
            raise InputError(file, place, f"expected 16 bytes for opcode 0x18 and 8 for others, found {shown}")
        if any(self.imm[4:8]):
            raise InputError(
                file, place, f"expected zero in bytes 8 to 11 of a 64-bit load, found {self.imm[4:8].hex()}"
            )


@dataclass(frozen=True, slots=True)
class Row:
    """One instruction (one slot, or two for a 64-bit load).

    `index` is the slot number that the dump prints, None where it prints none (JSON); `function` the name of
    the function that starts here, None where none does; `line` the source line that the dump shows here.
    """

    index: int | None
    text: str
    opcodes: Opcodes | None
    place: str
    function: str | None = None
    line: Line | None = None


@dataclass(frozen=True, slots=True)
class Header:
    """A program begins; `name` and `type` as bpftool's header of several programs has them, else empty."""

    place: str
    name: str = ""
    type: str = ""


@dataclass(slots=True)
class Listing:
    """The rows of one program, decoded, as they come in.

    `insns` are as the dump shows them; `names` what a call prints before '#' or after it (calls of subprograms),
    `blind` the slots of subprogram calls whose immediate the text does not show, `doubtful` those of 64-bit moves
    of a register to itself that stand without bytes; `places` is where slots that a later fault may have to name
    stand in the file.
    """

    header: Header
    base: int = 0
    insns: list[Insn] = field(default_factory=list)
    names: dict[int, str] = field(default_factory=dict)
    blind: set[int] = field(default_factory=set)
    doubtful: list[int] = field(default_factory=list)
    places: dict[int, str] = field(default_factory=dict)
    functions: dict[int, str] = field(default_factory=dict)
    lines: dict[int, Line] = field(default_factory=dict)


def printable(text: str) -> str:
    """The text with what a terminal might obey, or cannot encode, replaced: names and source lines are untrusted."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else " " if c == "\t" else "\ufffd" for c in text)


def function_name(prototype: str) -> str:
    """The name in a prototype as bpftool prints it ("int prog(struct xdp_md * ctx)"), or in "subprog NAME"."""
    for at, char in enumerate(prototype):
        # A parenthesis after a blank opens the parameters of a function pointer in the result type.
        if char == "(" and at and not prototype[at - 1].isspace() and prototype[at - 1] not in "(*)":
            return prototype[:at].split()[-1].lstrip("*)")
    words = prototype.split()
    return words[-1] if words else ""
