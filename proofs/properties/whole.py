"""Whole(before, after): both programs run over symbols from one state, all paths to a bound, end in one state.

The second way beside composition: it knows neither facts nor decisions nor sequences, only what instructions and calls
mean. From the entry, and from each callback with any arguments, every path is followed by `model.semantics.step`; the
ends of the program after are joined and held against each end of the program before. A function's frames and context
are known byte by byte, other memory is equal where the same stores made it (`proofs.properties.whole_memory`).

Both are taken to be programs that the verifier accepts: that no access is out of bounds is not claimed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Generic, Literal

from model.bits import B, W
from model.errors import Unsupported
from model.isa.insn import Insn
from model.isa.opcodes import Imm64
from model.kernel.abi import Abi
from model.kernel.release import Release
from model.machine.layout import Reloc
from model.memory import Outside
from model.program import ExternRef, Form, MapRef, Program, SymbolRef
from model.semantics import frames
from model.semantics.c_macros import this_cpu_address
from model.semantics.c_state import offset_of
from model.semantics.frames import Unreadable
from model.semantics.load_store import Packet
from model.semantics.operation import Address
from model.semantics.step import ENDED, State, step
from model.world import World
from proofs.pair_kernel import SYMBOLS, WIDTHS, order_of
from proofs.properties.paths import taken
from proofs.properties.planted import faulty_ends
from proofs.properties.tracked import Tracked, Truth, Word
from proofs.properties.whole_calls import MAP, NO_RETURN, Calls
from proofs.properties.whole_ends import CONTEXT, End, same_ends, show
from proofs.properties.whole_handed import hand
from proofs.properties.whole_memory import Owned, Region
from proofs.properties.whole_ways import faulted, faults, tail_call

MAX_STEPS = 4_000
"""Instructions on all paths of one function, its callees included."""
MAX_PATHS = 64
REGISTER = 64


class Bound(Unsupported):
    """More paths or instructions than are followed."""


@dataclass(frozen=True, slots=True)
class Side:
    """One program. `relocs` as in `model.rewrite.patch.Patched`; `symbols` names helpers by their functions."""

    name: Literal["before", "after"]
    program: Program
    relocs: Mapping[int, Reloc]


@dataclass(frozen=True, eq=False)
class Whole:
    """The claim; the programs' maps have one numbering. `layout` has the offsets that the build of `after` decided.

    `functions` has, for each function whose behaviour counts, its name and where it starts on both sides; the first is
    the entry, the others are what the kernel calls. `faulty` is for planted faults. Two claims
    are one only if they are one object.
    """

    release: Release
    abi: Abi
    before: Side
    after: Side
    layout: Mapping[str, int]
    functions: tuple[tuple[str, int, int], ...]
    faulty: bool = False

    def __call__(self, world: World[W, B]) -> Mapping[str, B]:
        tracked = Tracked(world)
        parts: dict[str, B] = {}
        for index, (name, start, other) in enumerate(self.functions):
            arguments = (1,) if index == 0 else tuple(frames.ARGUMENTS)
            one = Run(self, tracked, self.before, name, arguments, entry=index == 0).ends(start)
            two = Run(self, tracked, self.after, name, arguments, entry=index == 0).ends(other)
            found = taken(tracked, name, "before", [(end.label, end) for end in one])
            found |= taken(tracked, name, "after", [(end.label, end) for end in two])
            two = faulty_ends(tracked, two) if self.faulty else two
            for key, condition in (same_ends(tracked, name, one, two) | found).items():
                parts[key] = tracked.bits(REGISTER).condition(condition)
            show(tracked, name, one, two)
        return parts

    def reason(self, part: str) -> str:
        return ""

    @cached_property
    def _planted(self) -> "Whole":
        return replace(self, faulty=True)

    def planted(self, part: str) -> "Whole":
        """The program after with faults at the end of each of its paths."""
        return self._planted

    def number(self, side: Side, start: int) -> int | None:
        """What the function that starts there on this side is called on both: its place in `functions`, or else among
        the program's own.
        """
        which = 1 if side.name == "before" else 2
        starts = [row[which] for row in self.functions] or [one.start for one in side.program.subprograms]
        return starts.index(start) if start in starts else None


@dataclass(slots=True)
class Run(Generic[W, B]):
    """One function on one side, from unknown arguments; `entry` tells that r1 is the program's context."""

    claim: Whole
    world: Tracked[W, B]
    side: Side
    function: str
    arguments: Sequence[int]
    entry: bool = False

    def ends(self, start: int) -> list[End[W, B]]:
        """Every path's end. Raises `Unsupported` beyond the bounds."""
        world = self.world
        registers: list[Any] = [None] * frames.REGISTERS
        for number in self.arguments:
            registers[number] = world.fresh(f"{self.function}: r{number}", REGISTER)
        registers[frames.FRAME_POINTER] = self.frame(0)
        outside: Any = Outside(world, *(world.fresh(name, 64) for name in ("memory", "kernel", "callbacks")))
        regions = {registers[1].base: Region(CONTEXT)} if self.entry else {}
        memory: Any = Owned(world, outside, regions, order=order_of(self.claim.abi)).framed(self._base(0))
        return self.follow(State(tuple(registers), memory, start, world.bits(REGISTER).true()))

    def follow(self, state: Any) -> list[End[W, B]]:
        """Every path's end from `state` on. Raises `Unsupported` beyond the bounds."""
        calls = self._calls()
        pending: list[tuple[str, Any]] = [("", state)]
        found: list[End[W, B]] = []
        for _ in range(MAX_STEPS):
            if not pending:
                return found
            label, state = pending.pop()
            if state.slot == ENDED:
                r0 = self._anything(0, ENDED) if state.registers[0] is None else state.registers[0]
                own = state.memory.closed() if isinstance(state.memory, Owned) else None
                found.append(End(label or "-", state.guard, r0, own.outside if own else state.memory, own))
                continue
            ways = zip("TN", self._step(state, calls), strict=False)
            possible = [(way, successor) for way, successor in ways if successor.guard.known is not False]
            forked = len(possible) > 1
            pending += [(label + way if forked else label, successor) for way, successor in possible]
            if len(pending) + len(found) > MAX_PATHS:
                raise Bound(f"{self.function}, {self.side.name}: a run over symbols with more than {MAX_PATHS} paths")
        where = f"{self.function}, {self.side.name}, path {pending[-1][0] or '-'}"
        raise Bound(f"{where}: a run over symbols of more than {MAX_STEPS} instructions")

    def _calls(self) -> "Calls[W, B]":
        claim = self.claim
        layout = {**claim.release.layout, **claim.layout}
        side = f"{self.function}, {self.side.name}"
        return Calls(self.world, claim.release, claim.abi, self.side.program.maps, layout, side)

    def _step(self, state: Any, calls: "Calls[W, B]") -> list[Any]:
        program = self.side.program
        if not 0 <= state.slot < len(program.insns):
            raise Unsupported("a path that leaves the program")
        insn = program.insns[state.slot]
        high = program.insns[state.slot + 1].imm if insn.opcode == 0x18 else 0
        depth = len(state.callers)
        if isinstance(state.memory, Owned):
            if insn.opcode == 0x85 and self._callee(state.slot)[0] == "tail_call":
                return tail_call(self.world, state, [self._read(state, number) for number in (1, 2, 3)], calls)
            if faults(state, insn):
                return [faulted(self.world, state, f"{self.function}, {self.side.name}: a fault at {state.slot}")]

        def call(before: Any, made: Insn, imm: Any) -> Any:
            return self._call(before, calls)

        b, around = self.world.bits(REGISTER), _Around(self, state.slot)
        while True:
            try:
                found = list(step(b, state, insn, self._immediate(state.slot, insn), call, high=high, around=around))
                return [self._entered(one) if len(one.callers) > depth else one for one in found]
            except Unreadable as empty:
                registers = list(state.registers)
                registers[empty.register] = self._anything(empty.register, state.slot)
                state = replace(state, registers=tuple(registers))

    def _entered(self, state: Any) -> Any:
        """A function of the program has begun, in a frame of its own."""
        if not isinstance(state.memory, Owned):
            return state
        return replace(state, memory=state.memory.framed(self._base(len(state.callers))))

    def _anything(self, register: int, slot: int) -> Word[W]:
        """What a register that holds nothing may give: no verifier lets a program read it, so it may be anything."""
        return self.world.fresh(
            f"{self.function}, {self.side.name}: r{register} at {slot}, which holds nothing", REGISTER
        )

    def _read(self, state: Any, register: int) -> Word[W]:
        word: Word[W] | None = state.registers[register]
        return self._anything(register, state.slot) if word is None else word

    def _immediate(self, slot: int, insn: Insn) -> Word[W]:
        """The immediate, 32 bits; offsets that no build has decided are unknown, and the same for all who ask."""
        reloc = self.side.relocs.get(slot)
        if reloc is None or reloc.kind == "call":
            return self.world.bits(32).const(insn.imm)
        if reloc.kind != "offset":
            raise Unsupported(f"an instruction with a displacement that is not known: {reloc.symbol}")
        b = self.world.bits(REGISTER)
        total = b.const(insn.imm)
        for term in reloc.symbol.split(" + "):
            struct, _, member = term.removeprefix("struct ").partition(".")
            if not member:
                raise Unsupported(f"an instruction with {term} of a map in it")
            layout = {**self.claim.release.layout, **self.claim.layout}
            total = b.add(total, offset_of(self.world, layout, struct, member))
        return b.extract(total, 31, 0)

    def _call(self, state: Any, calls: "Calls[W, B]") -> Any:
        """A call of a helper, an operation or a function that an inlined lookup calls."""
        helper, symbol = self._callee(state.slot)
        known = helper in self.claim.release.helpers or (not helper and calls.known(symbol))
        registers = [self._read(state, number) if known else state.registers[number] for number in frames.ARGUMENTS]
        memory, handed = state.memory, None
        if isinstance(memory, Owned):
            slot = calls.slot(helper, symbol, registers[0])
            handed = hand(memory, [] if helper in WIDTHS else registers, calls.held(registers[0]), slot)
            registers, memory = list(handed.registers), handed.outside
        if helper in self.claim.release.helpers:
            done = calls.helper(helper, registers, memory, state.guard)
        elif helper in WIDTHS:
            done = calls.number(helper, WIDTHS[helper], memory)
        elif known:
            done = calls.direct(symbol, registers, memory, state.guard)
        elif not (helper or symbol) or helper in NO_RETURN or symbol.removeprefix("bpf_") in NO_RETURN:
            raise Unsupported(f"a call of {helper or symbol or 'a function without a name'} in a run over symbols")
        else:
            done = calls.unknown(helper or symbol, registers, memory)
        after = frames.scratch(state.registers)
        after[0] = done.register
        left = done.outside if handed is None else handed.left(done.outside)
        return replace(state, registers=tuple(after), memory=left, slot=state.slot + 1)

    def _callee(self, slot: int) -> tuple[str, str]:
        """The helper that is called, and the kernel's function where one is named."""
        release, program = self.claim.release, self.side.program
        ref = program.refs.get(slot)
        if isinstance(ref, ExternRef):
            return "", ref.name
        if isinstance(ref, SymbolRef):
            by_function = {row.function: name for name, row in release.helpers.items()}
            name = by_function.get(ref.name, SYMBOLS.get(ref.name, ref.name.removeprefix("bpf_")))
            return name if name in release.helper_ids else "", ref.name
        if program.form is Form.OBJECT and program.insns[slot].src == 0:
            number = program.insns[slot].imm
            return next((name for name, id_ in release.helper_ids.items() if id_ == number), ""), ""
        return "", ""

    def frame(self, depth: int) -> Word[W]:
        return self.world.fresh(self._base(depth), REGISTER)

    def _base(self, depth: int) -> str:
        return f"{self.function}: frame {depth}"


@dataclass(frozen=True, slots=True)
class _Around(Generic[W, B]):
    """`model.semantics.step.Surroundings` of the instruction at `slot`."""

    run: Run[W, B]
    slot: int

    @property
    def order(self) -> Literal["little", "big"]:
        return order_of(self.run.claim.abi)

    def frame(self, depth: int) -> Word[W]:
        return self.run.frame(depth)

    def packet(self) -> Packet[Word[W]]:
        raise Unsupported("a packet load in a run over symbols")

    def this_cpu(self, pointer: Word[W]) -> Word[W]:
        return this_cpu_address(self.run.world, pointer)

    def may_goto(self, state: Any) -> Truth[B]:
        raise Unsupported("may_goto in a run over symbols")

    def address(self, load: Address) -> Word[W]:
        """A map by its number, a function by its place among the program's: the same on both sides."""
        world, program = self.run.world, self.run.side.program
        ref = program.refs.get(self.slot)
        if isinstance(ref, MapRef):
            if ref.offset is None:
                return world.fresh(f"{MAP}{ref.map}", REGISTER)
            base = world.fresh(f"value of map {ref.map}", REGISTER)
            return world.bits(REGISTER).add(base, world.bits(REGISTER).const(ref.offset))
        if load.kind is Imm64.FUNC:
            number = self.run.claim.number(self.run.side, self.slot + 1 + load.imm)
            if number is not None:
                return world.fresh(f"&function {number}", REGISTER)
        raise Unsupported("a 64-bit load of something that a run over symbols has no name for")
