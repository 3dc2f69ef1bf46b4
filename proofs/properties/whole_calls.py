"""What calls of kernel functions do in a bounded run over symbols: helpers through `map->ops`, operations directly.

An operation's body is its C where the release has it read (lookups), else unknown: a function of what it can observe.
Both sides use the same bodies; how a body is reached, and what becomes of its result, is what they differ in.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic

from model.bits import B, W
from model.errors import Unsupported
from model.kernel.abi import Abi
from model.kernel.c_body import Body, Integer, Pointer, Void
from model.kernel.release import CType, Helper, Prototype, Release
from model.machine.maps_kernel import INNER
from model.maps.allocation import STRUCTS, bits_of
from model.maps.state import Shape
from model.memory import Outside
from model.program import Map
from model.semantics.c import Runner
from model.semantics.c_state import offset_of
from model.semantics.c_types import Value
from model.semantics.call import REGISTER, Callee, Return, address_of, choose, enter, in_register, narrow, widen
from proofs.properties.tracked import Tracked, Truth, Word
from proofs.properties.whole_handed import slot_of

Registers = Sequence[Word[W]]
NO_RETURN = frozenset({"tail_call", "throw"})
"""Functions behind which the program need not go on."""
MAP = "&map "
"""A map's address is the unknown of this name and the map's number."""


@dataclass(slots=True)
class Calls(Generic[W, B]):
    """`side` names what is unspecified on this side only. `layout` has members' offsets that a build has decided."""

    world: Tracked[W, B]
    release: Release
    abi: Abi
    maps: Sequence[Map]
    layout: Mapping[str, int]
    side: str
    _count: int = field(default=0)

    def helper(self, name: str, registers: Registers[W], outside: "Outside[Word[W], Truth[B]]", guard: Truth[B]) -> Any:
        """The helper's C: casts, loads of `map->ops` and the slot, the C call, the conversions of its result."""
        row = self.release.helpers[name]
        side, b = self._next(), self.world.bits(REGISTER)
        values = [narrow(self.world, registers[i], ctype) for i, ctype in enumerate(row.params)]
        callees = self._table(row, values[0], outside)
        declared = self.release.slots[row.slot]
        handed = self._handed(row, declared, values, side)
        at_ops = b.add(values[0], self.world.fresh("offsetof(struct bpf_map, ops)", REGISTER))
        ops = outside.load(at_ops, 8)
        at_slot = b.add(ops, self.world.fresh(f"offsetof(struct bpf_map_ops, {row.slot})", REGISTER))
        target = outside.load(at_slot, 8)
        left = self._reached(target, callees, handed, outside, guard, side, values[0])
        r0 = left.register
        for converted in (declared.result, row.result_cast):
            if converted is not None and converted.bits:
                r0 = widen(self.world, narrow(self.world, r0, converted), converted)
        return replace(left, register=r0)

    def direct(
        self, symbol: str, registers: Registers[W], outside: "Outside[Word[W], Truth[B]]", guard: Truth[B]
    ) -> Any:
        """A call of the function itself: r1 to r5 as they are, r0 the return register as the function leaves it."""
        known = self.release.functions.get(symbol)
        prototype = INNER.get(symbol) if known is None else known.prototype
        if prototype is None:
            raise Unsupported(f"a call of {symbol} in a run over symbols")
        return self._body(Callee(symbol, prototype), registers, outside, guard, self._next(), registers[0])

    def number(self, name: str, width: int, outside: "Outside[Word[W], Truth[B]]") -> Any:
        """A helper whose whole effect is a number: unknown, and another one each time."""
        seen = [(outside.memory, 64), (outside.kernel, 64), (outside.callbacks, 64)]
        word = self.world.apply(f"{name}: result", width, seen)
        after = replace(outside, kernel=self.world.apply(f"{name}: kernel", 64, seen))
        return Return(self.world.bits(width).zext(word, REGISTER), (), after)

    def unknown(self, name: str, registers: Sequence[Word[W] | None], outside: "Outside[Word[W], Truth[B]]") -> Any:
        """A function of the kernel that no row tells of: any function of all argument registers and of the state."""
        b, name = self.world.bits(REGISTER), name.removeprefix("bpf_")
        words = [b.const(0) if word is None else word for word in registers]
        seen = [(word, 64) for word in (*words, outside.memory, outside.kernel, outside.callbacks)]
        r0, *left = (self.world.apply(f"{name}: {what}", 64, seen) for what in ("r0", "memory", "kernel", "callbacks"))
        return Return(r0, (), Outside(self.world, *left))

    def known(self, symbol: str) -> bool:
        """Whether the release tells the prototype of the function."""
        return symbol in self.release.functions or symbol in INNER

    def held(self, pointer: Word[W] | None) -> Map | None:
        """The program's own map that a register holds, if it does."""
        if pointer is None or not pointer.base.startswith(MAP) or pointer.offset:
            return None
        return self.maps[int(pointer.base.removeprefix(MAP))]

    def slot(self, helper: str, symbol: str, pointer: Word[W] | None) -> str:
        """The slot of the map's table that is called; "" for any other function."""
        if helper in self.release.helpers:
            return self.release.helpers[helper].slot
        return slot_of(self.release, self.held(pointer), symbol)

    def _next(self) -> str:
        self._count += 1
        return f"{self.side}, call {self._count}"

    def map_of(self, pointer: Word[W]) -> Map:
        """The map that a register holds. Raises `Unsupported` where that is not one of the program's maps for sure."""
        found = self.held(pointer)
        if found is None:
            raise Unsupported("a run over symbols of a call whose map is not loaded by the program itself")
        return found

    def _table(self, row: Helper, pointer: Word[W], outside: "Outside[Word[W], Truth[B]]") -> list[Callee]:
        """The functions that can be in the slot, and what memory holds: the map's ops, and the slot of each type's."""
        b = self.world.bits(REGISTER)
        held = self.map_of(pointer)
        callees: dict[str, Callee] = {}
        kinds = dict.fromkeys(one.type for one in self.maps if one.type is not None)
        for kind in kinds:
            function = self.release.operation(kind, row.slot)
            ops = self.world.fresh(f"ops of {kind}", REGISTER)
            if kind == held.type:
                at_ops = b.add(pointer, self.world.fresh("offsetof(struct bpf_map, ops)", REGISTER))
                self.world.pin("load64", REGISTER, [(at_ops, 64), (outside.memory, 64)], ops)
            if function is not None:
                callees[function.name] = Callee(function.name, function.prototype)
                at_slot = b.add(ops, self.world.fresh(f"offsetof(struct bpf_map_ops, {row.slot})", REGISTER))
                address = address_of(self.world, function.name)
                self.world.pin("load64", REGISTER, [(at_slot, 64), (outside.memory, 64)], address)
        symbols = sorted(callees)
        for i, one in enumerate(symbols):
            for other in symbols[:i]:
                different = b.negate(b.eq(address_of(self.world, one), address_of(self.world, other)))
                self.world.assume("two functions have two addresses", different)
        return list(callees.values())

    def _handed(self, row: Helper, declared: Prototype, values: Sequence[Word[W]], side: str) -> list[Word[W]]:
        """The five argument registers of the helper's own call."""
        handed = []
        for position in range(5):
            junk = f"{side}: register of argument {position + 1}"
            if position < len(row.arguments):
                index, ctype = row.arguments[position], declared.params[position]
                value = narrow(self.world, widen(self.world, values[index], row.params[index]), ctype)
                handed.append(in_register(self.world, self.abi.argument, value, ctype, junk + ", upper bits"))
            else:
                handed.append(self.world.fresh(junk, REGISTER))
        return handed

    def _reached(
        self,
        target: Word[W],
        callees: Sequence[Callee],
        handed: Registers[W],
        outside: "Outside[Word[W], Truth[B]]",
        guard: Truth[B],
        side: str,
        pointer: Word[W],
    ) -> Any:
        """A call through the address `target`: of whichever of `callees` is there, or of code that is not known."""
        b = self.world.bits(REGISTER)
        here = [(b.eq(target, address_of(self.world, callee.symbol)), callee) for callee in callees]
        sure = [callee for condition, callee in here if condition.known]
        if sure:  # the others have other addresses
            return self._body(sure[0], handed, outside, guard, side, pointer)
        left = self._elsewhere(side, handed)
        for condition, callee in here:
            left = choose(b, condition, self._body(callee, handed, outside, guard, side, pointer), left)
        return left

    def _elsewhere(self, side: str, registers: Registers[W]) -> Any:
        words = [self.world.fresh(f"{side}: unknown code: {what}", 64) for what in ("r0", "memory", "kernel", "calls")]
        return Return(words[0], tuple(registers[:5]), Outside(self.world, *words[1:]))

    def _body(
        self,
        callee: Callee,
        registers: Registers[W],
        outside: "Outside[Word[W], Truth[B]]",
        guard: Truth[B],
        side: str,
        pointer: Word[W],
    ) -> Any:
        """What `callee` leaves: by its C where that was read, else unknown."""
        body = self.release.bodies.get(callee.symbol)
        if body is None or body.steps is None or callee.symbol in self.release.callbacks:  # a walk: Callback's claim
            return enter(self.world, self.abi, callee, registers, outside, side)
        runner = Runner(self.world, self.release.bodies, self.layout, self._unknown(side), self._loaded(pointer))
        arguments = [
            Value(param.type, narrow(self.world, register, ctype))
            for param, register, ctype in zip(body.params, registers, callee.prototype.params, strict=False)
        ]
        left = runner.call(callee.symbol, arguments, outside, guard)
        if left.value is None:
            raise Unsupported(f"{callee.symbol} returns nothing")
        return Return(left.value.word, tuple(registers[:5]), left.outside)

    def _unknown(self, side: str) -> Any:
        """A function that a body calls, known by its prototype only."""

        def call(body: Body, values: Any, outside: Any) -> Any:
            prototype = Prototype(_ctype(body.result), tuple(_ctype(param.type) for param in body.params))
            handed = [
                in_register(self.world, self.abi.argument, value.word, ctype, f"{side}, inside: argument {i}")
                for i, (value, ctype) in enumerate(zip(values, prototype.params, strict=True))
            ]
            done = enter(self.world, self.abi, Callee(body.function, prototype), handed, outside, side)
            if isinstance(body.result, Void):
                return None, done.outside
            word = self.world.bits(REGISTER).extract(done.register, prototype.result.bits - 1, 0)
            return Value(body.result, word), done.outside

        return call

    def _loaded(self, pointer: Word[W]) -> Any:
        """A map's parameters are what it was made with, whatever else is written."""
        held = self.map_of(pointer)

        def loaded(struct: str, member: str, address: Word[W], word: Word[W]) -> Word[W]:
            value = _parameter(held, member, self.release.version)
            if STRUCTS.get(member) != struct or value is None:
                return word
            b, bits = self.world.bits(REGISTER), self.world.bits(bits_of(member))
            home = b.add(pointer, offset_of(self.world, self.layout, struct, member))
            return bits.ite(b.eq(address, home), bits.const(value), word)

        return loaded


def _parameter(held: Map, member: str, version: str) -> int | None:
    """A member of the map's structures as its allocation sets it; None where the input does not tell."""
    sizes = held.key_size, held.value_size, held.max_entries
    if held.type is None or any(size is None for size in sizes):
        return None
    key_size, value_size, most = (size or 0 for size in sizes)
    shape = Shape(held.type, key_size, value_size, most, held.flags or 0, version)
    if member == "map_flags":
        return held.flags
    if member == "bypass_spec_v1":
        return 1
    found: int | None = getattr(shape, member, None)
    return found


def _ctype(kind: Any) -> CType:
    match kind:
        case Integer(bits, signed, _):
            return CType("", bits, signed)
        case Pointer(_):
            return CType("", REGISTER, False, True)
        case Void():
            return CType("", 0, False)
    raise Unsupported(f"an argument or result of type {kind}")
