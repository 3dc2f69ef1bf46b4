"""One row of a dump -> the instruction's slots. Bytes, where the dump shows them, say it all; text says most.

What the text does not hold is listed in `model.isa.text`. With bytes, text and bytes must agree in all else.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import islice

from model.errors import InputError
from model.isa.codec import form_of
from model.isa.insn import Insn
from model.isa.parse import ParsedInsn, parse_insn
from model.isa.text import format_insn
from model.loaders.xlated_rows import CALL, ByteOrder, Header, Row

_CACHE_LIMIT = 1 << 15
_UNDECIDED_ROWS = 1 << 12


@dataclass(frozen=True, slots=True)
class Decoded:
    """The slots as the dump has them; `name` is a call's symbol ("" without); `blind` says that the text of a call
    of a subprogram stands without its bytes, so that its immediate is not known (`off` is what the text shows).
    """

    insns: tuple[Insn, ...]
    name: str = ""
    blind: bool = False


def byte_order(rows: Iterable[Header | Row], file: str) -> ByteOrder:
    """The order of the machine that made the dump: the one in which bytes agree with their text.

    Most single instructions tell. Without bytes there is no telling, and none is needed.
    """
    for row in islice(rows, _UNDECIDED_ROWS):
        if isinstance(row, Header) or row.opcodes is None:
            continue
        parsed = _parse(row, file)
        little = _agree(parsed, row.opcodes.insns("little"))
        if little != _agree(parsed, row.opcodes.insns("big")):
            return "little" if little else "big"
    return "little"


class Decoder:
    """Rows of one file, in one byte order. Equal rows are decoded once."""

    def __init__(self, file: str, order: ByteOrder) -> None:
        self.file = file
        self.order = order
        self._known: dict[tuple[str, object], Decoded] = {}

    def decode(self, row: Row) -> Decoded:
        """Raises `InputError` for text that is no instruction, that leaves fields open, or that its bytes belie."""
        key = (row.text, row.opcodes)
        decoded = self._known.get(key)
        if decoded is None:
            decoded = self._decode(row)
            if len(self._known) < _CACHE_LIMIT:
                self._known[key] = decoded
        return decoded

    def _decode(self, row: Row) -> Decoded:
        parsed = _parse(row, self.file)
        name = (parsed.name or "") if parsed.target in ("call", "subprogram") else ""
        if row.opcodes is None:
            return self._from_text(parsed, name, row)
        insns = row.opcodes.insns(self.order)
        if not _agree(parsed, insns):
            high = insns[1].imm if len(insns) == 2 else 0
            expected = f"expected bytes that agree with the text {row.text[:80]!a}, found those of "
            raise InputError(self.file, row.place, expected + repr(format_insn(insns[0], high)))
        return Decoded(insns, name)

    def _from_text(self, parsed: ParsedInsn, name: str, row: Row) -> Decoded:
        insn = parsed.insn
        if parsed.target == "subprogram":
            return Decoded((replace(insn, off=insn.imm, imm=0),), name, blind=True)
        if parsed.unknown and parsed.target != "call":
            fields = ", ".join(sorted(parsed.unknown))
            expected = f"expected bytes (`opcodes`): the text {row.text[:80]!a} does not tell {fields}"
            raise InputError(self.file, row.place, expected)
        if parsed.high is None:
            return Decoded((insn,), name)
        return Decoded((insn, Insn(0, imm=parsed.high)), name)


def _parse(row: Row, file: str) -> ParsedInsn:
    return parse_insn(row.text, file=file, place=row.place)


def _agree(parsed: ParsedInsn, insns: tuple[Insn, ...]) -> bool:
    """Whether the bytes' own text says the same as the text, spelling and what no text holds apart."""
    insn, high = insns[0], insns[1].imm if len(insns) == 2 else None
    if parsed.insn.opcode != insn.opcode:
        return False
    if insn.opcode == CALL:
        return _calls_agree(parsed, insn)
    if parsed.insn == insn and parsed.high == high and not parsed.unknown:
        return True
    form = form_of(insn, loaded=True)
    if form is None:
        return False
    if parsed.unknown:
        return True  # BUG_…: the text has the opcode alone
    shown = format_insn(insn, high or 0)
    if "BUG_" in shown:  # bytes that are no instruction: a 64-bit load whose second half is not what its kind wants
        return False
    if parse_insn(shown) == parsed:
        return True
    # A bpftool from before 6.6 shows no offset of arithmetic: signed division is "/=", a sign-extending move, an
    # address-space cast and a per-CPU address are "r1 = r2" (kernel/bpf/disasm.c, 6.1).
    older = replace(insn, off=0, imm=insn.imm if form.text.endswith("{imm}") else 0)
    return bool(insn.off) and insn.opcode & 7 in (4, 7) and parsed.insn == older


def _calls_agree(parsed: ParsedInsn, insn: Insn) -> bool:
    """bpftool prints the offset of a call of a subprogram, and a kfunc's call (source 2) like a helper's."""
    if insn.dst or insn.src not in (0, 1, 2):
        return False
    if parsed.target == "subprogram":
        return insn.src == 1 and parsed.insn.imm == insn.off
    return insn.src != 1 and "imm" not in parsed.unknown and parsed.insn.imm == insn.imm
