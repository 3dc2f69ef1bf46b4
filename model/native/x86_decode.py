"""x86-64 bytes to `Step`, by capstone (the extra `abi`)."""

from typing import Any

from model.errors import InputError
from model.native.code import NAMES, Imm, Kind, Mem, Operand, Other, Reg, Step

MASK = (1 << 64) - 1
_LOW = {"al": 0, "cl": 1, "dl": 2, "bl": 3, "spl": 4, "bpl": 5, "sil": 6, "dil": 7}
_HIGH = {"ah": 0, "ch": 1, "dh": 2, "bh": 3}
_STOPS = {"hlt", "int3", "ud0", "ud1"}
_TRAPS = {"ud2"}
_PREFIXES = ("lock ", "rep ", "repe ", "repne ", "notrack ", "bnd ", "xacquire ", "xrelease ")


def _registers() -> dict[str, Reg]:
    table = {name: Reg(number, 64) for number, name in enumerate(NAMES)}
    for number, name in enumerate(NAMES[:8]):
        table[f"e{name[1:]}"], table[name[1:]] = Reg(number, 32), Reg(number, 16)
    for number in range(8, 16):
        table |= {f"r{number}d": Reg(number, 32), f"r{number}w": Reg(number, 16), f"r{number}b": Reg(number, 8)}
    table |= {name: Reg(number, 8) for name, number in _LOW.items()}
    return table | {name: Reg(number, 8, True) for name, number in _HIGH.items()}


_BY_NAME = _registers()


class Decoder:
    """Decodes one instruction at a time."""

    __slots__ = ("_capstone", "_engine", "_registers")

    def __init__(self) -> None:
        """InputError where capstone is not installed."""
        try:
            import capstone
        except ImportError:
            wish = "expected capstone, which is not installed: pip install 'bpf-devirt[abi]'"
            raise InputError("abi-check", "", wish) from None
        self._capstone: Any = capstone
        self._engine: Any = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
        self._engine.detail = True
        self._registers: dict[int, Reg | None] = {0: None}

    def step(self, code: bytes, address: int) -> Step | None:
        """The instruction at the start of `code`; None where there is none."""
        found = next(iter(self._engine.disasm(code[:15], address, 1)), None)
        if found is None:
            return None
        name = str(found.mnemonic)
        for prefix in _PREFIXES:
            name = name.removeprefix(prefix)
        operands = tuple(self._operand(operand) for operand in found.operands)
        kind = self._kind(name)
        target = None
        if kind in (Kind.JUMP, Kind.BRANCH, Kind.CALL) and operands and isinstance(operands[0], Imm):
            target = operands[0].value
        return Step(address, int(found.size), name, operands, kind, target, f"{found.mnemonic} {found.op_str}".strip())

    def _kind(self, name: str) -> Kind:
        if name in ("ret", "retf", "iretq"):
            return Kind.RETURN
        if name in ("call", "lcall"):
            return Kind.CALL
        if name in ("jmp", "ljmp"):
            return Kind.JUMP
        if name.startswith("j") or name in ("loop", "loope", "loopne", "xbegin"):
            return Kind.BRANCH
        return Kind.STOP if name in _STOPS else Kind.TRAP if name in _TRAPS else Kind.PLAIN

    def _register(self, number: int) -> Reg | None:
        if number not in self._registers:
            self._registers[number] = _BY_NAME.get(self._engine.reg_name(number))
        return self._registers[number]

    def _operand(self, operand: Any) -> Operand:
        kinds = self._capstone
        if operand.type == kinds.CS_OP_REG:
            return self._register(operand.reg) or Other()
        if operand.type == kinds.CS_OP_IMM:
            value = int(operand.imm) & MASK
            bits = 8 * int(operand.size)
            if bits == 32 and value >> 31 & 1:  # told as 32 bits, unsigned
                value |= MASK ^ 0xFFFFFFFF
            return Imm(value)
        if operand.type == kinds.CS_OP_MEM:
            memory = operand.mem
            base, index = self._register(memory.base), self._register(memory.index)
            plain = memory.segment == 0 and (memory.base == 0 or base is not None)
            numbers = (None if base is None else base.number, None if index is None else index.number)
            return Mem(*numbers, int(memory.disp), 8 * int(operand.size), plain)
        return Other()
