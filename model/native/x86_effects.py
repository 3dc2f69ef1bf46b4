"""What one x86-64 instruction does to a `State` (Intel SDM, volume 2): the upper halves of registers, no more.

A write of 32 bits clears the upper half, one of 8 or 16 bits keeps it (SDM, volume 1, 3.4.1.1). An instruction without
a rule leaves every register that it may write unknown.
"""

from collections.abc import Callable

from model.native.arithmetic import LOW_ONLY, WHOLE, result
from model.native.code import RAX, RBP, RBX, RCX, RDI, RDX, RSI, RSP, Mem, Operand, Reg, Step
from model.native.state import Report, State, moved, of_width, place, put, read, write
from model.native.values import (
    FULL,
    SIGN,
    SMALL,
    UNKNOWN,
    ZERO,
    Upper,
    Value,
    extended,
    join,
    of,
    single,
)

Rule = Callable[[State, Step, Report], None]

NOTHING = frozenset(
    (
        *("endbr64", "endbr32", "lfence", "mfence", "sfence", "pause", "serialize", "fwait", "emms", "int", "verw"),
        *("cld", "std", "cli", "sti", "clac", "stac", "swapgs", "clflush", "clflushopt", "clwb", "wbinvd", "invlpg"),
    )
)
IMPLICIT = (RAX, RCX, RDX, RBX, RSI, RDI)


def width(operand: Operand) -> int:
    return operand.bits if isinstance(operand, Reg | Mem) else 64


def effect(state: State, step: Step, report: Report) -> None:
    """Changes `state`. Jumps, calls and returns change nothing here."""
    name = step.name
    if name in NOTHING or name.startswith(("prefetch", "nop")):
        return
    rule = RULES.get(name)
    if rule is None and name.startswith("cmov"):
        rule = _cmov
    if rule is None and name.startswith("set"):
        rule = _set
    if rule is None and (name in LOW_ONLY or name in WHOLE):
        rule = _arithmetic
    (rule or _other)(state, step, report)


def full_use(value: Value, step: Step, report: Report, how: str) -> None:
    for parameter in value.taint:
        report(parameter, step, how, True)


def _mov(state: State, step: Step, report: Report) -> None:
    target, source = step.operands
    write(state, target, read(state, source, width(target), step, report), step, report)


def _movzx(state: State, step: Step, report: Report) -> None:
    target, source = step.operands
    read(state, source, width(source), step, report)
    write(state, target, of(SMALL), step, report)


def _movsx(state: State, step: Step, report: Report) -> None:
    target, source = step.operands
    value = read(state, source, width(source), step, report)
    narrow = width(source) < 32
    write(state, target, of(SIGN) if narrow else extended(value), step, report)


def _lea(state: State, step: Step, report: Report) -> None:
    target, memory = step.operands
    assert isinstance(memory, Mem)
    registers = [state.regs[number] for number in (memory.base, memory.index) if number is not None]
    if memory.index is None and registers and any(atom.upper is Upper.STACK for atom in registers[0].atoms):
        value = moved(registers[0], memory.disp)
    else:
        value = of(FULL, taint=[parameter for register in registers for parameter in register.taint])
    write(state, target, value, step, report)


def _push(state: State, step: Step, report: Report) -> None:
    value = read(state, step.operands[0], 64, step, report) if step.operands else UNKNOWN  # pushfq
    state.regs[RSP] = moved(state.regs[RSP], -8)
    at = single(state.regs[RSP], Upper.STACK)
    if at is not None:
        put(state, at, 64, value)


def _pop(state: State, step: Step, report: Report) -> None:
    value = read(state, Mem(RSP, None, 0, 64, True), 64, step, report)
    state.regs[RSP] = moved(state.regs[RSP], 8)
    if step.operands:
        write(state, step.operands[0], value, step, report)


def _leave(state: State, step: Step, report: Report) -> None:
    state.regs[RSP] = state.regs[RBP]
    value = read(state, Mem(RSP, None, 0, 64, True), 64, step, report)
    state.regs[RSP] = moved(state.regs[RSP], 8)
    state.regs[RBP] = value


def _arithmetic(state: State, step: Step, report: Report) -> None:
    """Two operands, or one, or (imul, shld) three, of which the first is written."""
    target, *sources = step.operands
    if step.name == "imul" and not sources:
        _multiply(state, step, report)
        return
    bits = width(target)
    given = sources if len(sources) == 2 and step.name == "imul" else step.operands
    values = [read(state, operand, bits, step, report) for operand in given]
    if step.name in WHOLE and bits == 64:
        for value in values:
            full_use(value, step, report, f"used in 64 bits by {step.name}")
    write(state, target, result(step, bits, values), step, report)


def _compare(state: State, step: Step, report: Report) -> None:
    bits = width(step.operands[0])
    values = [read(state, operand, bits, step, report) for operand in step.operands]
    for value in values if bits == 64 else ():
        full_use(value, step, report, "compared in 64 bits")


def _cmov(state: State, step: Step, report: Report) -> None:
    target, source = step.operands
    bits = width(target)
    values = [read(state, operand, bits, step, report) for operand in (target, source)]
    write(state, target, join(*values), step, report)


def _set(state: State, step: Step, report: Report) -> None:
    write(state, step.operands[0], of(SMALL), step, report)


def _xchg(state: State, step: Step, report: Report) -> None:
    one, two = step.operands
    values = [read(state, operand, width(one), step, report) for operand in (one, two)]
    write(state, one, values[1], step, report)
    write(state, two, values[0], step, report)


def _xadd(state: State, step: Step, report: Report) -> None:
    target, source = step.operands
    bits = width(target)
    for operand in (target, source):
        full_use(read(state, operand, bits, step, report), step, report, "used in 64 bits by xadd")
    write(state, target, of_width(bits), step, report)
    write(state, source, of_width(bits), step, report)


def _cmpxchg(state: State, step: Step, report: Report) -> None:
    target, source = step.operands
    bits = width(target)
    accumulator = Reg(RAX, bits)
    for operand in (target, source, accumulator):
        full_use(read(state, operand, bits, step, report), step, report, "used in 64 bits by cmpxchg")
    write(state, target, of_width(bits), step, report)
    state.regs[RAX] = join(state.regs[RAX], of_width(bits))  # it stays as it is where both are equal


def _multiply(state: State, step: Step, report: Report) -> None:
    """mul, div and their kin: rdx:rax and one operand."""
    bits = width(step.operands[0])
    for operand in (step.operands[0], Reg(RAX, bits), Reg(RDX, bits)):
        value = read(state, operand, bits, step, report)
        if not (operand == Reg(RDX, bits) and step.name in ("mul", "imul")):
            full_use(value, step, report, f"used in 64 bits by {step.name}")
    for number in (RAX, RDX):
        write(state, Reg(number, bits), of_width(bits), step, report)


def _widen(state: State, step: Step, report: Report) -> None:
    match step.name:
        case "cdqe":
            state.regs[RAX] = extended(state.regs[RAX])
        case "cwde":
            state.regs[RAX] = of(ZERO)
        case "cdq":
            state.regs[RDX] = of(ZERO)
        case "cqo":
            full_use(state.regs[RAX], step, report, "used in 64 bits by cqo")
            state.regs[RDX] = of(FULL)


def _other(state: State, step: Step, report: Report) -> None:
    touched = set(IMPLICIT)
    for operand in step.operands:
        if isinstance(operand, Mem):
            place(state, operand, step, report)
        elif isinstance(operand, Reg):
            touched.add(operand.number)
    for number in touched:
        for parameter in state.regs[number].taint:
            report(parameter, step, f"may be used by {step.name}", False)
        state.regs[number] = UNKNOWN
    state.slots.clear()


RULES: dict[str, Rule] = {
    **dict.fromkeys(("mov", "movabs"), _mov),
    "movzx": _movzx,
    **dict.fromkeys(("movsx", "movsxd"), _movsx),
    "lea": _lea,
    **dict.fromkeys(("push", "pushfq"), _push),
    **dict.fromkeys(("pop", "popfq"), _pop),
    "leave": _leave,
    **dict.fromkeys(("cmp", "test", "bt"), _compare),
    "xchg": _xchg,
    "xadd": _xadd,
    "cmpxchg": _cmpxchg,
    **dict.fromkeys(("mul", "div", "idiv"), _multiply),
    **dict.fromkeys(("cdqe", "cwde", "cdq", "cqo"), _widen),
}
