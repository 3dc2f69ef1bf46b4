"""An instruction that has no meaning in the model, named as its row is."""

from model.errors import Unsupported
from model.isa.codec import form_of
from model.isa.insn import Insn


def name_of(insn: Insn) -> str:
    """The form's name in the RFC's notation, or the opcode where no form has these fields."""
    form = form_of(insn, loaded=True)
    return form.name if form is not None else f"opcode 0x{insn.opcode:02x} with offset {insn.off}"


def hole(insn: Insn, why: str = "") -> Unsupported:
    return Unsupported(f"no meaning for {name_of(insn)}{': ' if why else ''}{why}")
