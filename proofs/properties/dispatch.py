"""Dispatch(release, ABI, map type, helper): the helper's indirect call and the direct call end in the same state.

Both sides are run step by step over any world. Helper side: the casts of `BPF_CALL_n`, the load of
`map->ops`, the load of the slot, the C call with the slot's declared prototype, the conversions of the
return statement. Direct side: the patch's instructions, the call's target from its 32-bit immediate, r1 to
r5 handed over as they are, r0 the return register as the operation leaves it. The operation's body is
unknown, so what is proved holds for any body.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from model.bits import B, Bits, W
from model.errors import Unsupported
from model.isa.insn import Insn
from model.kernel.abi import Abi, Extension
from model.kernel.release import CType, Prototype
from model.memory import Outside
from model.semantics.call import REGISTER, Callee, Return, address_of, call_address, in_register, narrow, widen
from model.semantics.step import State, step
from model.world import World

PARTS = ("target", "arguments", "r0", "callee_saved", "memory", "kernel", "callbacks")
REACH = "reach/"
FRONT = Insn(0xA7, 1, imm=1)  # r1 ^= 1
BEHIND = {
    "r0": Insn(0xA7, 0, imm=1),  # r0 ^= 1
    "callee_saved": Insn(0xA7, 6, imm=1),  # r6 ^= 1
    "memory": Insn(0x72, 10, off=-8),  # *(u8 *)(r10 - 8) = 0
}
"""Faults to plant in a patch: what is wrong then is the part of this name; in front of the call, its arguments."""
MAX_STEPS = 256  # instructions on all paths of one patch; a map_gen_lookup emits at most 32 (INSN_BUF_SIZE)


@dataclass(frozen=True, slots=True)
class HelperBody:
    """The helper as its C has it (`model.kernel.release.Helper`), without names and places."""

    params: tuple[CType, ...]
    slot: str
    arguments: tuple[int, ...]
    cast: CType | None


@dataclass(frozen=True, slots=True)
class CallImmediate:
    """BPF_CALL_IMM(symbol): the low `bits` of symbol - `base` + `addend`, sign-extended to the 32 bits of imm."""

    base: str = "__bpf_call_base"
    addend: int = 0
    bits: int = 32


@dataclass(frozen=True, slots=True)
class Dispatch:
    """The claim. `table` is the map's `struct bpf_map_ops` (member, symbol), `declared` the members' prototypes.

    `expected` is the operation that the direct call must reach; `patch` with its `relocs` (index, symbol) is what
    the rewrite puts in place of the helper call. Symbols are canonical (see `canonical`).
    """

    abi: Abi
    helper: HelperBody
    table: tuple[tuple[str, str], ...]
    declared: tuple[tuple[str, Prototype], ...]
    functions: tuple[Callee, ...]
    expected: str
    patch: tuple[Insn, ...]
    relocs: tuple[tuple[int, str], ...]
    immediate: CallImmediate = CallImmediate()

    def __call__(self, world: World[W, B]) -> Mapping[str, B]:
        b = world.bits(REGISTER)
        registers = tuple(world.fresh(f"r{i}", REGISTER) for i in range(11))
        before = Outside(world, world.fresh("memory", 64), world.fresh("kernel", 64), world.fresh("callbacks", 64))
        self._static_tables(world, before, registers[1])
        helper, target, _ = self._helper_side(world, before, registers)
        ends, direct, reached = self._direct_side(world, before, registers)
        after = joined(b, ends)
        outside: Any = after.memory
        self._show(
            world,
            registers,
            (target, *helper.seen, helper.register, *_names(helper.outside)),
            (reached, *direct.seen, after.registers[0], *_names(outside)),
        )
        self._prefer(world, helper)
        return {
            "target": b.conj(after.guard, b.eq(reached, address_of(world, self.expected))),
            "arguments": b.conj(*[b.eq(x, y) for x, y in zip(helper.seen, direct.seen, strict=True)]),
            "r0": b.eq(helper.register, after.registers[0]),
            "callee_saved": b.conj(*[b.eq(registers[i], after.registers[i]) for i in range(6, 11)]),
            "memory": b.eq(helper.outside.memory, outside.memory),
            "kernel": b.eq(helper.outside.kernel, outside.kernel),
            "callbacks": b.eq(helper.outside.callbacks, outside.callbacks),
            f"{REACH}helper": b.eq(target, address_of(world, self.expected)),
            **{f"{REACH}direct/{i}": end.guard for i, end in enumerate(ends, 1)},
        }

    def planted(self, part: str) -> "Dispatch":
        """The patch with an instruction too many, in front of the call or behind it, or with a wrong immediate."""
        if part == "target":
            return replace(self, immediate=replace(self.immediate, addend=self.immediate.addend + 1))
        if part in BEHIND:
            return replace(self, patch=(*self.patch, BEHIND[part]))
        return replace(self, patch=(FRONT, *self.patch), relocs=tuple((at + 1, symbol) for at, symbol in self.relocs))

    def reason(self, part: str) -> str:
        """Why `part` can fail, in one line, where narrow types are the reason; else "" """
        operation = next(callee.prototype for callee in self.functions if callee.symbol == self.expected)
        if part == "r0" and 0 < operation.result.bits < REGISTER and self.abi.result is Extension.NOBODY:
            sign = "signed" if operation.result.signed else "unsigned"
            return (
                f"the operation returns {operation.result.bits} bits ({sign}) and this ABI leaves the rest of the "
                "return register unspecified: the helper extends the value to 64 bits, a direct call does not"
            )
        narrow_at = [i + 1 for i, ctype in enumerate(operation.params) if ctype.bits < REGISTER]
        if narrow_at and self.abi.argument is not Extension.NOBODY:
            return (
                f"the operation's argument {narrow_at[0]} is narrower than a register and this ABI lets it rely on "
                "the caller's extension: the helper extends, the program hands over the register as it is"
            )
        return ""

    def _static_tables(self, world: World[W, B], before: Outside[W, B], map_pointer: W) -> None:
        """r1 holds a map of the type: its `ops` is the type's table, whose members are the type's operations."""
        b = world.bits(REGISTER)
        symbols = sorted({callee.symbol for callee in self.functions})
        for i, one in enumerate(symbols):
            for other in symbols[:i]:
                different = b.negate(b.eq(address_of(world, one), address_of(world, other)))
                world.assume("two functions have two addresses", different)
        table = world.fresh("map->ops", REGISTER)
        at_ops = b.add(map_pointer, world.fresh("offsetof(struct bpf_map, ops)", REGISTER))
        world.pin("load64", REGISTER, [(at_ops, 64), (before.memory, 64)], table)
        for slot, symbol in self.table:
            at_slot = b.add(table, world.fresh(f"offsetof(struct bpf_map_ops, {slot})", REGISTER))
            world.pin("load64", REGISTER, [(at_slot, 64), (before.memory, 64)], address_of(world, symbol))

    def _helper_side(
        self, world: World[W, B], before: Outside[W, B], registers: tuple[W, ...]
    ) -> tuple[Return[W, B], W, W]:
        """The helper's C; its return value has become the 64 bits of r0."""
        b = world.bits(REGISTER)
        helper = self.helper
        values = [narrow(world, registers[1 + i], ctype) for i, ctype in enumerate(helper.params)]
        map_pointer = values[0]
        ops = before.load(b.add(map_pointer, world.fresh("offsetof(struct bpf_map, ops)", REGISTER)), 8)
        target = before.load(b.add(ops, world.fresh(f"offsetof(struct bpf_map_ops, {helper.slot})", REGISTER)), 8)
        declared = dict(self.declared)[helper.slot]
        if len(helper.arguments) > len(declared.params):
            raise Unsupported(f"the helper hands over more arguments than {helper.slot} declares")
        handed = []
        for position in range(5):
            junk = f"helper: register of argument {position + 1}"
            if position < len(helper.arguments):
                index, ctype = helper.arguments[position], declared.params[position]
                value = narrow(world, widen(world, values[index], helper.params[index]), ctype)
                handed.append(in_register(world, self.abi.argument, value, ctype, junk + ", upper bits"))
            else:
                handed.append(world.fresh(junk, REGISTER))
        done = call_address(world, self.abi, self.functions, target, handed, before, "helper")
        r0 = done.register
        for converted in (declared.result, helper.cast):
            if converted is not None and converted.bits:
                r0 = widen(world, narrow(world, r0, converted), converted)
        return replace(done, register=r0), target, done.register

    def _direct_side(
        self, world: World[W, B], before: Outside[W, B], registers: tuple[W, ...]
    ) -> tuple[list[State[W, B]], Return[W, B], W]:
        """The patch until it is left: the state at the end of each path, the last call and that call's target."""
        b = world.bits(REGISTER)
        none = Return(registers[0], registers[1:6], before)
        made: list[tuple[W, Return[W, B]]] = []
        relocs = dict(self.relocs)

        def call(state: State[W, B], insn: Insn, imm: W) -> State[W, B]:
            """The JIT's call of a kernel function: `__bpf_call_base + sext(imm)` (do_jit and its like on each JIT)."""
            target = b.add(address_of(world, "__bpf_call_base"), world.bits(32).sext(imm, REGISTER))
            outside: Any = state.memory
            side = f"direct, call {len(made) + 1}"
            done = call_address(world, self.abi, self.functions, target, state.registers[1:6], outside, side)
            made.append((target, done))
            scratch = tuple(world.fresh(f"{side}: scratch r{i}", REGISTER) for i in range(1, 6))
            kept = (done.register, *scratch, *state.registers[6:])
            return State(kept, done.outside, state.slot + 1, state.guard)

        def immediate(slot: int, insn: Insn) -> W:
            if slot not in relocs:
                return world.bits(32).const(insn.imm)
            rule = self.immediate
            distance = b.sub(address_of(world, relocs[slot]), address_of(world, rule.base))
            kept = b.extract(b.add(distance, b.const(rule.addend)), rule.bits - 1, 0)
            return world.bits(rule.bits).sext(kept, 32)

        ends = run(b, self.patch, State(registers, before, 0, b.true()), immediate, call)
        target, done = made[-1] if made else (b.const(0), none)
        return ends, done, target

    def _show(self, world: World[W, B], registers: Sequence[W], helper: Sequence[W], direct: Sequence[W]) -> None:
        """What both sides start from, and each side's values in the order in which they come to be."""
        count = len(self.helper.params)
        for i in range(1, 1 + count):
            world.show(f"r{i}", REGISTER, registers[i])
        seen = [f"argument {i + 1} as the operation may see it" for i in range(5)]
        labels = [
            "target",
            *seen,
            "r0",
            *[f"{what} after the call, by name," for what in ("memory", "kernel", "callbacks")],
        ]
        for side, words in (("helper", helper), ("direct", direct)):
            for label, word in zip(labels, words, strict=True):
                world.show(f"{side}: {label}", REGISTER, word)

    def _prefer(self, world: World[W, B], helper: Return[W, B]) -> None:
        """An errno that each operation can return, unspecified bits of zero: what a person expects to see."""
        b = world.bits(REGISTER)
        result = dict(self.declared)[self.helper.slot].result
        if not result.pointer and result.bits:
            world.prefer(b.eq(helper.register, b.const(-22)))
        for callee in self.functions:
            width = REGISTER - callee.prototype.result.bits
            if 0 < width < REGISTER:
                rest = world.bits(width)
                name = "direct, call 1: unspecified upper bits of the result"
                world.prefer(rest.eq(world.fresh(name, width), rest.const(0)))
        world.prefer(b.eq(address_of(world, "__bpf_call_base"), b.const(0xFFFFFFFF81200000)))
        for i, callee in enumerate(self.functions):
            world.prefer(b.eq(address_of(world, callee.symbol), b.const(0xFFFFFFFF81210000 + 0x1000 * i)))
        for i in range(1, 11):
            register = world.fresh(f"r{i}", REGISTER)
            pointer = i > len(self.helper.params) or self.helper.params[i - 1].pointer
            if pointer:
                world.prefer(b.eq(register, b.const(0xFFFF888100000000 + 0x1000 * i)))
                continue
            # A number: 0; or what 32-bit code leaves, with the sign bit set; or more than 32 bits.
            for number in (0, 1 << 31, 1 << 32):
                world.prefer(b.eq(register, b.const(number)))


def _names(outside: Outside[W, B]) -> tuple[W, W, W]:
    return outside.memory, outside.kernel, outside.callbacks


def run(
    b: Bits[W, B],
    patch: Sequence[Insn],
    start: State[W, B],
    immediate: Any,
    call: Any,
    visit: Callable[[State[W, B], Insn], None] = lambda state, insn: None,
) -> list[State[W, B]]:
    """All paths of `patch` (jumps go forward) at its end; `visit` is told of each instruction that a path comes to.

    Raises `Unsupported` for a jump backwards or out of the patch.
    """
    pending = [start]
    ended: list[State[W, B]] = []
    for _ in range(MAX_STEPS):
        if not pending:
            break
        state = pending.pop()
        if state.slot == len(patch):
            ended.append(state)
            continue
        if state.slot > len(patch):
            raise Unsupported("a patch jumps behind its own end")
        insn = patch[state.slot]
        visit(state, insn)
        for successor in step(b, state, insn, immediate(state.slot, insn), call):
            if successor.slot <= state.slot:
                raise Unsupported("a patch jumps backwards")
            pending.append(successor)
    if pending:
        raise Unsupported(f"a patch takes more than {MAX_STEPS} steps")
    return ended


def joined(b: Bits[W, B], ends: Sequence[State[W, B]]) -> State[W, B]:
    """The state behind whichever path is taken."""
    end = ends[0]
    for state in ends[1:]:
        end = _join(b, state, end)
    return end


def _join(b: Bits[W, B], one: State[W, B], other: State[W, B]) -> State[W, B]:
    registers = tuple(b.ite(one.guard, x, y) for x, y in zip(one.registers, other.registers, strict=True))
    x: Any = one.memory
    y: Any = other.memory
    outside = Outside(
        x.world,
        b.ite(one.guard, x.memory, y.memory),
        b.ite(one.guard, x.kernel, y.kernel),
        b.ite(one.guard, x.callbacks, y.callbacks),
    )
    return State(registers, outside, one.slot, b.disj(one.guard, other.guard))
