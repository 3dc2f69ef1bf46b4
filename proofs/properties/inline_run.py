"""An inlined sequence run over any world: each way through its instructions to its end, apart from the others."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal

from model.bits import B, W
from model.errors import Unsupported
from model.isa.insn import Insn
from model.kernel.abi import Abi
from model.memory import Outside
from model.semantics.c_emit import Emitted
from model.semantics.c_macros import this_cpu_address
from model.semantics.call import REGISTER, Callee, address_of, call_address
from model.semantics.operation import Address
from model.semantics.step import State, step
from model.world import World

MAX_STEPS = 256  # instructions on all ways through one sequence; a map_gen_lookup emits at most 32 (INSN_BUF_SIZE)


@dataclass(frozen=True, slots=True)
class Kernel(Generic[W, B]):
    """What is around the sequence (`model.semantics.step.Surroundings`): per-CPU areas, and nothing else it may use."""

    world: World[W, B]
    order: Literal["little", "big"] = "little"

    def this_cpu(self, pointer: W) -> W:
        return this_cpu_address(self.world, pointer)

    def frame(self, depth: int) -> W:
        raise Unsupported("a subprogram call in an inlined lookup")

    def packet(self) -> Any:
        raise Unsupported("a packet load in an inlined lookup")

    def address(self, load: Address) -> W:
        raise Unsupported("a 64-bit immediate load in an inlined lookup")

    def may_goto(self, state: State[W, B]) -> B:
        raise Unsupported("may_goto in an inlined lookup")


@dataclass(slots=True)
class Sequencer(Generic[W, B]):
    """Runs sequences; `callees` are the functions whose addresses are known to differ from all other code."""

    world: World[W, B]
    abi: Abi
    callees: Sequence[Callee]
    _calls: int = 0

    def ends(self, emitted: Sequence[Emitted[W]], start: State[W, B]) -> list[State[W, B]]:
        """The states behind the last instruction, in the order of "taken, not taken".

        Raises `Unsupported` for a jump backwards or out of the sequence.
        """
        b = self.world.bits(REGISTER)
        pending: list[State[W, B]] = [start]
        ended: list[State[W, B]] = []
        for _ in range(MAX_STEPS):
            if not pending:
                return ended
            state = pending.pop()
            if state.slot == len(emitted):
                ended.append(state)
                continue
            if state.slot > len(emitted):
                raise Unsupported("an inlined lookup jumps behind its own end")
            one = emitted[state.slot]
            imm = self._distance(one.symbol) if one.imm is None else one.imm
            successors = list(step(b, state, one.insn, imm, self._call, around=Kernel(self.world)))
            if any(successor.slot <= state.slot for successor in successors):
                raise Unsupported("an inlined lookup jumps backwards")
            pending += reversed(successors)
        raise Unsupported(f"an inlined lookup takes more than {MAX_STEPS} steps")

    def _distance(self, symbol: str) -> W:
        """BPF_CALL_IMM: the low 32 bits of symbol - __bpf_call_base (include/linux/filter.h)."""
        b = self.world.bits(REGISTER)
        return b.extract(b.sub(address_of(self.world, symbol), address_of(self.world, "__bpf_call_base")), 31, 0)

    def _call(self, state: State[W, B], insn: Insn, imm: W) -> State[W, B]:
        """The JIT's call of a kernel function: __bpf_call_base + sext(imm); r1 to r5 are scratch behind it."""
        world, b = self.world, self.world.bits(REGISTER)
        self._calls += 1
        side = f"inlined, call {self._calls}"
        target = b.add(address_of(world, "__bpf_call_base"), world.bits(32).sext(imm, REGISTER))
        outside: Any = state.memory
        done = call_address(world, self.abi, self.callees, target, state.registers[1:6], outside, side)
        scratch = tuple(world.fresh(f"{side}: scratch r{i}", REGISTER) for i in range(1, 6))
        memory: Outside[W, B] = done.outside
        return State((done.register, *scratch, *state.registers[6:]), memory, state.slot + 1, state.guard)
