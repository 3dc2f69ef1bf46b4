"""The machine: one program on plain ints, with frames, subprograms, callbacks, helpers and tail calls."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import assert_never

from model.isa.opcodes import Call, Imm64
from model.machine.calls import callee, calls_tail, invoke
from model.machine.code import BITS, CONTROL, UNBOUND, Code, Registers
from model.machine.kernel import Bare, Kernel
from model.machine.outcome import Fault, Limit, Outcome, Returned, Violation
from model.machine.regions import CODE_BASE, Regions
from model.machine.stack import Frame, Stack
from model.program import Program
from model.semantics import frames
from model.semantics import load_store as memory_rows
from model.semantics.load_store import Packet
from model.semantics.operation import (
    Address,
    Branch,
    Exit,
    Goto,
    Invoke,
    MayGoto,
    PacketLoad,
    PerCpu,
    Straight,
    TailCall,
)

STEP_LIMIT = 1_000_000
MAX_TAIL_CALLS = 33
"""MAX_TAIL_CALL_CNT (include/linux/bpf.h, 5.16 and later)."""
_U64 = (1 << 64) - 1
_U32 = (1 << 32) - 1


class _LimitReached(Exception):
    """As many instructions as allowed were run."""


@dataclass(frozen=True, slots=True)
class Step:
    """One instruction that was run: `changed` are the registers that it changed, with their new values."""

    depth: int
    slot: int
    text: str
    changed: dict[int, int | None]


@dataclass(slots=True, eq=False)
class Machine:
    """Runs programs against a `Kernel`; its memory and kernel stay between runs.

    `limit` is the most instructions of a run, callbacks and tail calls included. `trace` is told of each one.
    `packet` is what legacy packet loads read; r6 must then hold `context`. Deterministic: addresses
    are the same in every run.
    """

    kernel: Kernel = field(default_factory=Bare)
    memory: Regions = field(default_factory=Regions)
    limit: int = STEP_LIMIT
    trace: Callable[[Step], None] | None = None
    packet: Packet[int] | None = None
    context: int = 0
    _left: int = 0
    _stack: Stack = field(init=False)
    _codes: dict[int, Code] = field(default_factory=dict)
    _tail_calls: int = 0

    def __post_init__(self) -> None:
        self._stack = Stack(self.memory)

    @property
    def steps(self) -> int:
        return self.limit - self._left

    @property
    def registers(self) -> tuple[int | None, ...]:
        """Those of the function that runs, r0 first, None where one holds nothing; empty between runs."""
        return tuple(self._stack.top.registers) if self._stack.depth else ()

    def run(self, program: Program, *arguments: int) -> Outcome:
        """The program from its first instruction, with up to five arguments in r1, r2, … and nothing in the others.

        Raises `Unsupported` where an instruction has no meaning in the model.
        """
        self._left, self._tail_calls = self.limit, 0
        registers: Registers = [None] * frames.REGISTERS
        registers[1 : 1 + len(arguments)] = [argument & _U64 for argument in arguments]
        try:
            self._stack.push(self._code(program), 0, registers)
            return Returned(self._finish(0), self.steps)
        except (Violation, frames.Unreadable) as wrong:
            frame = self._stack.top
            text = frame.code.text(frame.slot)
            return Fault(frame.code.program.name, frame.slot, text, str(wrong), self.steps)
        except _LimitReached:
            frame = self._stack.top
            return Limit(frame.code.program.name, frame.slot, frame.code.text(frame.slot), self.steps)
        finally:
            while self._stack.depth:
                self._stack.pop()

    def callback(self, address: int, *arguments: int) -> int:
        """See `kernel.Running`."""
        code, slot = self._function_at(address)
        registers: Registers = [None] * frames.REGISTERS
        registers[1 : 1 + len(arguments)] = [argument & _U64 for argument in arguments]
        floor = self._stack.depth
        self._stack.push(code, slot, registers)
        return self._finish(floor)

    def _code(self, program: Program) -> Code:
        code = self._codes.get(id(program))
        if code is None:
            base = CODE_BASE + sum((8 * len(known.slots) + 0xFFF) & ~0xFFF for known in self._codes.values())
            code = self._codes[id(program)] = Code(program, self.memory, base)
        return code

    def _function_at(self, address: int) -> tuple[Code, int]:
        for code in self._codes.values():
            slot, rest = divmod(address - code.base, 8)
            if not rest and code.is_function(slot):
                return code, slot
        raise Violation(f"call of 0x{address:x}, where no function of the program starts")

    def _finish(self, floor: int) -> int:
        """Runs until only `floor` frames are left; the result is r0 of the last one that ended."""
        while True:
            frame = self._stack.top
            if self.trace is None:
                self._burst(frame)
            else:
                self._traced(frame, self.trace)
            result = self._control(frame, floor)
            if result is not None:
                return result

    def _burst(self, frame: Frame) -> None:
        """Instructions of one function up to one that leaves it or asks the kernel."""
        slots, first, registers = frame.code.slots, frame.code.first, frame.registers
        slot, left = frame.slot, self._left
        try:
            while left > 0:
                left -= 1
                following = slots[slot](registers)
                if following < 0:
                    if following == UNBOUND:
                        following = first(slot, registers)
                    if following == CONTROL:
                        return
                slot = following
        finally:
            frame.slot, self._left = slot, left
        raise _LimitReached

    def _traced(self, frame: Frame, trace: Callable[[Step], None]) -> None:
        """As `_burst`, one instruction at a time; what the machine itself does shows in the next instruction's line."""
        while self._left > 0:
            self._left -= 1
            before, slot = list(frame.registers), frame.slot
            text = frame.code.text(slot)
            try:
                following = frame.code.slots[slot](frame.registers)
                if following == UNBOUND:
                    following = frame.code.first(slot, frame.registers)
            finally:
                changed = {i: x for i, (x, y) in enumerate(zip(frame.registers, before, strict=True)) if x != y}
                trace(Step(self._stack.depth - 1, slot, text, changed))
            if following == CONTROL:
                return
            frame.slot = following
        raise _LimitReached

    def _control(self, frame: Frame, floor: int) -> int | None:
        """An instruction that is not the semantics' alone; the result of the run when it ends it."""
        operation = frame.code.control
        frame.readable(operation.reads)
        match operation:
            case Exit():
                return self._exit(frame, floor)
            case Invoke(Call.SUBPROGRAM, distance):
                self._subprogram(frame, frame.slot + 1 + distance)
            case Invoke():
                self._invoke(frame, operation)
            case TailCall():
                self._tail_call(frame)
            case MayGoto(offset):
                jumps = frame.may_goto == 0
                frame.may_goto -= not jumps
                frame.slot = frame.code.goto(frame.slot, frame.slot + 1 + offset) if jumps else frame.slot + 1
            case PacketLoad():
                return self._packet_load(frame, operation, floor)
            case Address():
                frame.registers[operation.dst] = self._address(frame, operation)
                frame.slot += 2
            case PerCpu(dst, src):
                frame.registers[dst] = self.kernel.this_cpu(frame.registers[src]) & _U64
                frame.slot += 1
            case Straight() | Branch() | Goto():
                raise AssertionError("bound as a function of its own")
            case _:
                assert_never(operation)
        return None

    def _exit(self, frame: Frame, floor: int) -> int | None:
        if self._stack.depth > floor + 1:
            self._stack.pop()
            caller = self._stack.top
            caller.registers[:] = frames.leave(caller.registers, frame.registers)
            caller.slot += 1
            return None
        result: int | None = frame.registers[0]
        if result is None:
            raise frames.Unreadable(0)
        self._stack.pop()
        return result

    def _subprogram(self, frame: Frame, target: int) -> None:
        if not frame.code.is_function(target):
            raise Violation(f"call of slot {target}, where no function starts")
        self._stack.push(frame.code, target, frames.enter(frame.registers, 0))

    def _invoke(self, frame: Frame, call: Invoke) -> None:
        if calls_tail(frame, call):
            self._tail_call(frame)
        else:
            invoke(self, frame, callee(self.kernel, frame, call))

    def _tail_call(self, frame: Frame) -> None:
        """bpf_tail_call(ctx, prog_array_map, index): the function goes on as another program, or behind the call.

        (JMP_TAIL_CALL in ___bpf_prog_run, kernel/bpf/core.c; the index is a u32.)
        """
        frame.readable(TailCall().reads)
        context, program_array, index = frame.registers[1:4]
        program = self.kernel.tail_call(program_array, index & _U32)
        if program is None or self._tail_calls >= MAX_TAIL_CALLS:
            frame.registers[:] = frames.scratch(frame.registers)
            frame.slot += 1
            return
        self._tail_calls += 1
        registers: Registers = [None] * frames.REGISTERS
        registers[1] = context
        self._stack.pop()
        self._stack.push(self._code(program), 0, registers)

    def _address(self, frame: Frame, load: Address) -> int:
        if load.kind is Imm64.FUNC:
            return frame.code.base + 8 * (frame.slot + 1 + load.imm)
        address = self.kernel.address(frame.code.program, frame.slot, load)
        if address is None:
            raise Violation("the kernel that runs this has no such map, variable or code")
        return address

    def _packet_load(self, frame: Frame, load: PacketLoad[int], floor: int) -> int | None:
        if self.packet is None or frame.registers[6] != self.context:
            raise Violation("r6 does not hold the context of a packet")
        offset = memory_rows.packet_offset(BITS, self.packet, load.offset(frame.registers))
        inside = memory_rows.packet_inside(BITS, self.packet, offset, load.size)
        frame.registers[:] = frames.scratch(frame.registers)
        if not inside:
            frame.registers[0] = 0
            return self._exit(frame, floor)
        word = self.memory.load(self.packet.data + offset, load.size)
        frame.registers[0] = memory_rows.packet_word(BITS, word, load.size, self.memory.order)
        frame.slot += 1
        return None
