"""CallRewrite(release, row, instruction): what the pass puts in place of an instruction does what that one does.

Here: instructions on numbers (`model.rewrite.other_alu`). One side is the instruction by RFC 9669, the other the patch,
run one instruction at a time. A division that the hardware does not define (by zero; the least number by -1) gives no
value there, but a trap or anything: the patch must not come to one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic

from model.bits import B, Bits, W
from model.errors import Unsupported
from model.isa.insn import Insn
from model.memory import Outside
from model.semantics.step import State, step
from model.world import World
from proofs.properties.dispatch import joined, run

REGISTER = 64
COUNT = 12  # r0 to r10, and the register that only patches use
PARTS = ("registers", "memory", "defined", "lemma")
REACH = "reach/"
ALU, ALU64, DIV, MOD, BY_REGISTER = 4, 7, 0x30, 0x90, 8


@dataclass(frozen=True, slots=True)
class Divider:
    """What the processor's division leaves undefined: `zero` a divisor of 0, `overflow` the least number by -1."""

    zero: bool
    overflow: bool


class Divisions(Generic[W, B]):
    """`Bits` whose quotients and remainders are unknown functions of their operands, the same on both sides.

    But for a divisor of -1, of which all is known (`Rewritten._lemma`): 64-bit division is a riddle to a solver.
    """

    def __init__(self, world: World[W, B], bits: Bits[W, B]) -> None:
        self._world, self._bits = world, bits

    def __getattr__(self, name: str) -> Any:
        return getattr(self._bits, name)

    def at(self, width: int) -> "Divisions[W, B]":
        return Divisions(self._world, self._bits.at(width))

    def _unknown(self, name: str, x: W, y: W) -> W:
        width = self._bits.width
        return self._world.apply(f"{name}{width}", width, [(x, width), (y, width)])

    def udiv(self, x: W, y: W) -> W:
        return self._unknown("udiv", x, y)

    def urem(self, x: W, y: W) -> W:
        return self._unknown("urem", x, y)

    def sdiv(self, x: W, y: W) -> W:
        b = self._bits
        return b.ite(b.eq(y, b.const(-1)), b.neg(x), self._unknown("sdiv", x, y))

    def srem(self, x: W, y: W) -> W:
        b = self._bits
        return b.ite(b.eq(y, b.const(-1)), b.const(0), self._unknown("srem", x, y))


@dataclass(frozen=True, slots=True)
class Rewritten:
    """The claim. `before` is one instruction, `after` what stands in its place (jumps go forward, within it).

    `wrong` is a planted fault of the lemma.
    """

    before: Insn
    after: tuple[Insn, ...]
    divider: Divider
    wrong: int = 0

    def __call__(self, world: World[W, B]) -> Mapping[str, B]:
        real = world.bits(REGISTER)
        b: Any = Divisions(world, real)
        registers = tuple(world.fresh(f"r{i}" if i < COUNT - 1 else "ax", REGISTER) for i in range(COUNT))
        outside = Outside(world, world.fresh("memory", 64), world.fresh("kernel", 64), world.fresh("callbacks", 64))
        start = State(registers, outside, 0, b.true())

        def immediate(slot: int, insn: Insn) -> W:
            return world.bits(32).const(insn.imm)

        (wanted,) = step(b, start, self.before, immediate(0, self.before), _call)
        undefined: list[B] = []

        def visit(state: State[W, B], insn: Insn) -> None:
            undefined.append(self._undefined(b, state, insn))

        ends = run(b, self.after, start, immediate, _call, visit)
        end = joined(b, ends)
        used = sorted({self.before.dst, self.before.src})
        for i in used:
            world.show(f"r{i}", REGISTER, registers[i])
        world.show(f"before: r{self.before.dst}", REGISTER, wanted.registers[self.before.dst])
        world.show(f"after: r{self.before.dst}", REGISTER, end.registers[self.before.dst])
        for i in used:
            for number in (0, 1 << 31, 1 << 63, (1 << 64) - 1):
                world.prefer(b.eq(registers[i], b.const(number)))
        same = [b.eq(x, y) for x, y in zip(wanted.registers[:11], end.registers[:11], strict=True)]
        return {
            "registers": b.conj(end.guard, *same),
            "lemma": self._lemma(world.bits(self.width), world.fresh("lemma: x", self.width)),
            "memory": b.eq(wanted.memory.memory, end.memory.memory),  # type: ignore[attr-defined]
            "defined": b.conj(*[b.negate(one) for one in undefined]),
            **{f"{REACH}{number}": state.guard for number, state in enumerate(ends, 1)},
        }

    @property
    def width(self) -> int:
        return REGISTER if self.before.opcode & 7 == ALU64 else 32

    def _lemma(self, b: Bits[W, B], x: W) -> B:
        """What `Divisions` takes for granted of real division: x s/ -1 = -x, x s% -1 = 0."""
        minus = b.const(-1)
        negated = b.eq(b.sdiv(x, minus), b.add(b.neg(x), b.const(self.wrong)))
        return b.conj(negated, b.eq(b.srem(x, minus), b.const(0)))

    def _undefined(self, b: Bits[W, B], state: State[W, B], insn: Insn) -> B:
        """Whether this path comes to a division that the hardware does not define."""
        never = b.negate(b.true())
        if insn.opcode & 7 not in (ALU, ALU64) or insn.opcode & 0xF0 not in (DIV, MOD):
            return never
        width = REGISTER if insn.opcode & 7 == ALU64 else 32
        at = b.at(width)
        dst = b.extract(state.registers[insn.dst], width - 1, 0)
        if insn.opcode & BY_REGISTER:
            src = b.extract(state.registers[insn.src], width - 1, 0)
        else:
            src = at.const(insn.imm)
        zero = b.conj(state.guard, at.eq(src, at.const(0))) if self.divider.zero else never
        if insn.off != 1 or not self.divider.overflow:
            return zero
        least = at.eq(dst, at.const(1 << (width - 1)))
        return b.disj(zero, b.conj(state.guard, at.eq(src, at.const(-1)), least))

    def reason(self, part: str) -> str:
        """Why `part` can fail, in one line; "" where the values say it all."""
        if part == "defined":
            return (
                "the patch comes to a division that the processor does not define (by zero, or the least number by "
                "-1): it traps, or gives anything"
            )
        return ""

    def planted(self, part: str) -> "Rewritten":
        """A patch that changes one bit more, stores, or divides without a guard."""
        dst = self.before.dst
        match part:
            case "registers":
                return replace(self, after=(*self.after, Insn(0xA7, dst, imm=1)))
            case "lemma":
                return replace(self, wrong=1)
            case "memory":
                return replace(self, after=(*self.after, Insn(0x7B, 10, dst, off=-8)))
            case "defined":
                bare = Insn(self.before.opcode | BY_REGISTER, dst, 3, self.before.off)
                return replace(self, after=(bare,), divider=Divider(zero=True, overflow=True))
        raise Unsupported(f"no fault for {part}")


def _call(state: State[W, B], insn: Insn, imm: W) -> State[W, B]:
    raise Unsupported("a call in a patch of an instruction on numbers")
