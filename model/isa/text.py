"""Instructions as the kernel prints them: print_bpf_insn (kernel/bpf/disasm.c, 7.3) and bpftool's names.

`model.isa.parse` reads the text back. The kernel's text does not hold every bit; these forms lose some:

* `{ZEXT, X, ALU}` prints like `{MOV, X, ALU}`: the immediate 1 is gone.
* `{CALL, K, JMP} 1 dumped` prints the offset; the immediate is gone.
* `{CALL, K, JMP} 2` prints like a helper call where the kfunc has a name, and never its offset.
* `{CALL_ARGS, …}`, `{TAIL_CALL, …}` print alike; the opcode before the text tells them apart.
* `{IMM, DW, LD} 3` and `{IMM, DW, LD} 5` print their 64 bits only, as `{IMM, DW, LD} 0` does.
* `{IMM, DW, LD} 4 dumped` does not print the second slot's immediate.
* `{PROBE_MEM…}` loads and stores print as `BUG_…` with the opcode only (`{PROBE_ATOMIC, …}` did so up to 6.12).
"""

from model.isa.codec import form_of
from model.isa.forms import Form
from model.isa.insn import Insn
from model.isa.opcodes import CALL, WIDE, Call

U32 = (1 << 32) - 1


def _call(insn: Insn, name: str | None, number: bool) -> str:
    if insn.src == Call.SUBPROGRAM:
        distance = insn.off or insn.imm  # bpftool prints the offset, which a dump has; objects have it in imm
        return f"call pc{distance:+d}" + (f"#{name}" if name else "")
    fallback = "kernel-function" if insn.src == Call.KFUNC else "unknown"
    return f"call {name or fallback}#{insn.imm if number else '?'}"


def format_insn(
    insn: Insn,
    high: int = 0,
    name: str | None = None,
    *,
    number: bool = True,
    imm_name: str | None = None,
    off_name: str | None = None,
) -> str:
    """The text after the index, opcode in front: "(07) r3 += -24".

    `high` is the second slot's immediate of a wide load. `name` is the call target's ("htab_map_update_elem")
    or a wide load's whole operand ("map[id:35][0]+8"). `number=False` prints `#?` for a call whose target is
    known by name only; `imm_name` and `off_name` stand for an immediate or offset that is no number yet
    ("offsetof(struct bpf_array, value)"). A slot that is not valid prints as `BUG_` and its opcode.
    """
    prefix = f"({insn.opcode:02x}) "
    if insn.opcode == CALL:
        return prefix + _call(insn, name, number)
    form = form_of(insn, loaded=True, high=high)
    if form is None:
        return f"{prefix}BUG_{insn.opcode:02x}"
    if form.text.startswith("BUG_"):
        return form.text
    if insn.opcode == WIDE and name is not None:
        return f"{prefix}r{insn.dst} = {name}"
    return prefix + _fill(form, insn, high, imm_name, off_name)


def _fill(form: Form, insn: Insn, high: int, imm_name: str | None, off_name: str | None) -> str:
    imm = insn.imm
    signed = imm_name or (f"{imm:+d}" if "pc{imm}" in form.text or "subprog[" in form.text else str(imm))
    return form.text.format(
        dst=insn.dst,
        src=insn.src,
        off=f"+{off_name}" if off_name else f"{insn.off:+d}",
        imm=signed,
        uimm=imm_name or f"0x{imm & U32:x}",
        id=imm & U32,
        wide=f"0x{(high & U32) << 32 | imm & U32:x}",
        high=high & U32,
    )
