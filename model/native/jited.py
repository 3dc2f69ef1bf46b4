"""A program's machine code as the x86 JIT made it: its calls, its tail calls, and whatever leaves it indirectly.

The shapes are those of arch/x86/net/bpf_jit_comp.c, 5.10 to 7.3 (the same from release to release but for constants),
and for indirect branches also of 4.19 and 5.4, whose JIT writes the retpoline out. An image is instructions and nothing
else, one after the other, so it is read from its start to its end.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from model.native.code import RAX, RBP, RDX, RSI, RSP, Imm, Kind, Mem, Reg, Step
from model.native.thunks import is_return, thunk, thunk_register

LIMITS = (32, 33)
"""MAX_TAIL_CALL_CNT, until 5.16 and since."""
PATCH = 5
"""X86_PATCH_SIZE: a call, a jump, or the no-operation in its place."""
SHAPE = 32
"""Instructions of one tail call, at most: five registers, the counter and the frame are popped."""
Names = Callable[[int], tuple[str, ...]]
Decode = Callable[[bytes, int], Step | None]


@dataclass(frozen=True, slots=True)
class Part:
    """One function of a program, from the address that its callers call."""

    address: int
    code: bytes

    @property
    def end(self) -> int:
        return self.address + len(self.code)

    def holds(self, address: int) -> bool:
        return self.address <= address < self.end


class What(Enum):
    CALL = "call"
    TAIL_PATCHED = "tail call, patched"  # a jump that the kernel patches when the array changes
    TAIL_INDIRECT = "tail call, indirect"
    INDIRECT_CALL = "indirect call"
    INDIRECT_JUMP = "indirect jump"
    LEAVES = "jump out of the program"
    UNREAD = "not read"


TAIL_CALLS = (What.TAIL_PATCHED, What.TAIL_INDIRECT)
INDIRECT = (What.INDIRECT_CALL, What.INDIRECT_JUMP)


@dataclass(frozen=True, slots=True)
class Event:
    """`target` is a direct one's, None for a patched tail call whose element was empty; `via` the thunk's name, or the
    instruction that branches.
    """

    address: int
    what: What
    target: int | None
    via: str


def events(part: Part, decode: Decode, names: Names) -> tuple[Event, ...]:
    """All that is not plain work or a branch within `part`, in order of address."""
    steps, unread = _steps(part, decode)
    return _Reader(part, steps, names).events() + unread


def _steps(part: Part, decode: Decode) -> tuple[list[Step], tuple[Event, ...]]:
    steps: list[Step] = []
    at = 0
    while at < len(part.code):
        step = decode(part.code[at : at + 15], part.address + at)
        if step is None:
            return steps, (Event(part.address + at, What.UNREAD, None, part.code[at : at + 8].hex(" ")),)
        steps.append(step)
        at += step.size
    return steps, ()


class _Reader:
    """One function; `index` counts instructions."""

    def __init__(self, part: Part, steps: Sequence[Step], names: Names) -> None:
        self.part, self.steps, self.names = part, steps, names
        self.at = {step.address: index for index, step in enumerate(steps)}
        self.known: set[int] = set()  # jumps that belong to a tail call told already

    def events(self) -> tuple[Event, ...]:
        found = []
        for index, step in enumerate(self.steps):
            event = self._event(index, step)
            if event is not None:
                found.append(event)
        return tuple(found)

    def _event(self, index: int, step: Step) -> Event | None:
        match step.kind:
            case Kind.CALL:
                return self._call(step)
            case Kind.JUMP:
                return None if index in self.known else self._jump(index, step)
            case Kind.BRANCH:
                return self._branch(index, step)
            case Kind.TRAP:
                return Event(step.address, What.UNREAD, None, step.text)
        return None

    def _call(self, step: Step) -> Event:
        if step.target is None:
            return Event(step.address, What.INDIRECT_CALL, None, step.text)
        if name := thunk(self.names(step.target)):
            return Event(step.address, What.INDIRECT_CALL, None, name)
        if self.part.holds(step.target) and step.target != self.part.address:
            return self._written_out(step, step.target)
        return Event(step.address, What.CALL, step.target, "")

    def _written_out(self, step: Step, target: int) -> Event:
        """RETPOLINE_RCX_BPF_JIT and its kin (until 5.9): a call within, whose return address is overwritten."""
        index = self.at.get(target)
        pair = self.steps[index : index + 2] if index is not None else []
        if len(pair) == 2 and pair[0].name == "mov" and pair[1].kind is Kind.RETURN:
            memory, source = pair[0].operands
            if isinstance(memory, Mem) and (memory.base, memory.disp) == (RSP, 0) and isinstance(source, Reg):
                what = self._jump_kind(self.at[step.address], source.number)
                return Event(step.address, what, None, f"a retpoline written out, {pair[0].text}")
        return Event(step.address, What.UNREAD, None, f"{step.text} (a call into the middle)")

    def _jump(self, index: int, step: Step) -> Event | None:
        if step.target is None:
            register = step.operands[0] if step.operands else None
            number = register.number if isinstance(register, Reg) else None
            return Event(step.address, self._jump_kind(index, number), None, step.text)
        if self.part.holds(step.target):
            return self._within(step)
        names = self.names(step.target)
        if is_return(names):
            return None
        if name := thunk(names):
            return Event(step.address, self._jump_kind(index, thunk_register(name)), None, name)
        return Event(step.address, What.LEAVES, step.target, step.text)

    def _within(self, step: Step) -> Event | None:
        """A branch within the function must lead to an instruction that was read."""
        if step.target in self.at or not self.part.holds(step.target or 0):
            return None
        return Event(step.address, What.UNREAD, None, f"{step.text} (a jump into the middle)")

    def _branch(self, index: int, step: Step) -> Event | None:
        if step.target is None or not self.part.holds(step.target):
            return Event(step.address, What.LEAVES, step.target, step.text)
        return self._patched(index, step) or self._within(step)

    def _jump_kind(self, index: int, register: int | None) -> What:
        """Whether an indirect jump is emit_bpf_tail_call_indirect's: `array->ptrs[index]`, and then its `bpf_func`
        behind the prologue.
        """
        back = [step for step in self.steps[max(index - SHAPE, 0) : index] if step.name != "lfence"][::-1]
        if register is None or len(back) < 2:
            return What.INDIRECT_JUMP
        adds = back[0].name == "add" and back[0].operands[0] == Reg(register, 64)
        if not adds or not isinstance(back[0].operands[1], Imm) or _loaded(back[1], register) != (register, None):
            return What.INDIRECT_JUMP
        for step in back[2:]:
            if _loaded(step, register) == (RSI, RDX):
                return What.TAIL_INDIRECT
            if step.kind not in (Kind.PLAIN, Kind.BRANCH):
                break
        return What.INDIRECT_JUMP

    def _patched(self, index: int, step: Step) -> Event | None:
        """emit_bpf_tail_call_direct: the counter's test, a jump or no-operation over the rest (the bypass), the frame
        taken down, and last a no-operation or a jump to the program that is called.
        """
        if not _counts(self.steps[max(index - 1, 0)]) or step.name not in ("ja", "jae"):
            return None
        first = index + 1
        while first < min(index + 3, len(self.steps)) and _adds_to_counter(self.steps[first]):
            first += 1
        last = self.at.get(step.target or 0, 0) - 1
        if not first < last < min(index + SHAPE, len(self.steps)):
            return None
        bypass, poked = self.steps[first], self.steps[last]
        skips = bypass.kind is Kind.JUMP and bypass.target == step.target
        if not (_patchable(bypass) and _patchable(poked)) or not (skips or bypass.kind is Kind.PLAIN):
            return None
        if poked.target is not None and (self.part.holds(poked.target) or thunk(self.names(poked.target))):
            return None
        self.known.add(last)
        target = None if skips else poked.target
        return Event(step.address, What.TAIL_PATCHED, target, "" if target is None else poked.text)


def _loaded(step: Step, register: int) -> tuple[int | None, int | None] | None:
    """Base and index of what `step` loads into `register`; None where it does something else."""
    if step.name != "mov" or step.operands[0] != Reg(register, 64):
        return None
    memory = step.operands[1]
    return (memory.base, memory.index) if isinstance(memory, Mem) and memory.plain else None


def _counts(step: Step) -> bool:
    """cmp eax, N; cmp qword [rax], N; cmp dword [rbp - …], N."""
    if step.name != "cmp" or not isinstance(step.operands[1], Imm) or step.operands[1].value not in LIMITS:
        return False
    match step.operands[0]:
        case Reg(number, 32):
            return number == RAX
        case Mem(base, None, _, _, True):
            return base in (RAX, RBP)
    return False


def _adds_to_counter(step: Step) -> bool:
    """add eax, 1; mov [rbp - …], eax (until 6.10; later ones add behind the bypass)."""
    if step.name == "add":
        return step.operands[0] == Reg(RAX, 32)
    return step.name == "mov" and step.operands[1] == Reg(RAX, 32) and isinstance(step.operands[0], Mem)


def _patchable(step: Step) -> bool:
    return step.size == PATCH and (step.name == "nop" or (step.kind is Kind.JUMP and step.target is not None))
