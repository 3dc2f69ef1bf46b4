"""A function of a program run over symbols in memory that is known byte by byte, with small maps in it.

Unlike `proofs.properties.whole`, where memory is a name, here a load gives what was stored, and map operations are what
`model.maps` says. Maps, elements, frames and the context lie at fixed addresses; contents are unknown. A call can have
several outcomes, each a path of its own, so calls are taken out of `model.semantics.step`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from model.errors import Unsupported
from model.isa.opcodes import Imm64
from model.kernel.abi import Abi
from model.kernel.release import CType, Helper, Release
from model.machine.layout import offset
from model.machine.map_objects import per_cpu
from model.machine.maps_kernel import INNER
from model.maps.for_each import WALKS
from model.maps.operations import fits, operation
from model.maps.state import ARRAY_VALUE, Place, Shape, Site, round_up, store
from model.memory import Cells
from model.program import Form, Map, MapRef, Program, SymbolRef
from model.semantics import frames
from model.semantics.call import REGISTER, in_register, narrow, widen
from model.semantics.frames import Unreadable
from model.semantics.load_store import Packet
from model.semantics.operation import Address
from model.semantics.step import ENDED, State, step
from proofs.properties.tracked import Tracked, Truth, Word

CONTEXT, STACK, KEY, MAPS = 0x10000, 0x20000, 0x30000, 0x1_0000_0000
"""Addresses of the callback's context, of the frames (downwards), of for_each's own key, of the maps."""
CONTEXT_SIZE = 64
MAP_STRIDE = 0x1_0000_0000
MOST_BYTES = 256
"""Of a key or value: each byte is a word of its own here."""
MAX_STEPS, MAX_PATHS = 4_000, 64
CALL = 0x85


@dataclass(frozen=True, slots=True)
class Store:
    """A `Memory`: bytes, and each map's state by the map's number (`model.maps`)."""

    cells: Cells[Any, Any]
    states: Mapping[int, Any]

    def load(self, address: Any, size: int) -> Any:
        return self.cells.load(address, size)

    def store(self, address: Any, size: int, value: Any) -> "Store":
        return replace(self, cells=self.cells.store(address, size, value))

    def put(self, number: int, state: Any) -> "Store":
        return replace(self, states={**self.states, number: state})


@dataclass(frozen=True, slots=True)
class Left:
    """A path that left the function."""

    guard: Truth[Any]
    r0: Any
    store: Store


def shape_of(held: Map, release: Release) -> Shape:
    """Raises `Unsupported` for a map of which too little is known, or with elements of more than a few bytes."""
    sizes = held.key_size, held.value_size, held.max_entries
    if held.type is None or any(size is None for size in sizes):
        raise Unsupported(f"map {held.name}, of which the input does not tell type and sizes")
    key, value, most = (size or 0 for size in sizes)
    if max(key, value) > MOST_BYTES:
        raise Unsupported(f"map {held.name}, with keys or values of more than {MOST_BYTES} bytes")
    return Shape(held.type, key, value, most, held.flags or 0, release.version)


def place_of(number: int, shape: Shape, release: Release, const: Callable[[int], Any]) -> Place[Any]:
    """Where map `number` lies; members' offsets are those of the model's machine."""
    base = MAPS + number * MAP_STRIDE
    key = offset(release, "struct rhtab_elem.data" if shape.type == "rhash" else "struct htab_elem.key")
    value = key + round_up(shape.key_size)
    size = value + (8 if shape.percpu else round_up(shape.value_size))
    ref = offset(release, "struct htab_elem.lru_node") + offset(release, "struct bpf_lru_node.ref")
    percpu = const(base + (1 << 30))
    return Place(
        const(base), const(base + (1 << 29)), size + 63 & ~63, key, value, ref, percpu, round_up(shape.value_size)
    )


@dataclass(slots=True)
class SmallRun:
    """`side` names what is unspecified on this side only; a program after is linked (`model.machine.layout.link`).

    Hashes have one bucket, or (`apart`) many, and then what bucket a new element is in is not known.
    """

    world: Tracked[Any, Any]
    release: Release
    abi: Abi
    program: Program
    side: str
    shapes: Mapping[int, Shape]
    apart: bool = False
    _calls: int = 0

    def function(self, start: int, arguments: Sequence[Any], store_: Store, guard: Truth[Any]) -> list[Left]:
        """Every path's end. Raises `Unsupported` beyond the bounds, and where the model has no rule."""
        registers: list[Any] = [None] * frames.REGISTERS
        registers[1 : 1 + len(arguments)] = arguments
        around = _Around(self, start)
        registers[frames.FRAME_POINTER] = around.frame(0)
        pending: list[Any] = [State(tuple(registers), store_, start, guard)]
        found: list[Left] = []
        for _ in range(MAX_STEPS):
            if not pending:
                return found
            state = pending.pop()
            if state.slot == ENDED:
                found.append(Left(state.guard, state.registers[0], state.memory))
                continue
            pending += [after for after in self._step(state) if after.guard.known is not False]
            if len(pending) + len(found) > MAX_PATHS:
                raise Unsupported(f"a run over symbols with more than {MAX_PATHS} paths")
        raise Unsupported(f"a run over symbols of more than {MAX_STEPS} instructions")

    def site(self, number: int, store_: Store) -> Site[Any, Any]:
        b, shape = self.world.bits(REGISTER), self.shapes[number]

        def area(pointer: Any, cpu: Any) -> Any:
            return b.add(pointer, b.const(per_cpu(0, 0))) if cpu.number == 0 else _only_cpu_0()

        place = place_of(number, shape, self.release, b.const)
        return Site(b, store_, shape, place, b.const(0), 1, _unknown_bucket if self.apart else _one_bucket, area)

    def returned(self, value: Any, result: CType, *, slot: str = "", helper: Helper | None = None) -> Any:
        """r0 behind an operation with the C value `value` (64 bits): through `helper`, or directly."""
        word = narrow(self.world, value, result)
        self._calls += 1
        junk = f"{self.side}: unspecified bits of result {self._calls}"
        r0 = in_register(self.world, self.abi.result, word, result, junk) if result.bits else self.world.fresh(junk, 64)
        casts = () if helper is None else (self.release.slots[slot].result, helper.result_cast)
        for cast in casts:
            if cast is not None and cast.bits:
                r0 = widen(self.world, narrow(self.world, r0, cast), cast)
        return r0

    def _step(self, state: Any) -> Iterator[Any]:
        if not 0 <= state.slot < len(self.program.insns):
            raise Unsupported("a path that leaves the program")
        insn = self.program.insns[state.slot]
        if insn.opcode == CALL and insn.src != 1:
            yield from self._call(state)
            return
        high = self.program.insns[state.slot + 1].imm if insn.opcode == 0x18 else 0
        b = self.world.bits(REGISTER)
        imm = self.world.bits(32).const(insn.imm)
        try:
            yield from step(b, state, insn, imm, _no_call, high=high, around=_Around(self, state.slot))
        except Unreadable as empty:
            raise Unsupported(f"a run over symbols in which {empty}") from None

    def _call(self, state: Any) -> Iterator[Any]:
        """A helper on a map, or an operation: each outcome of it."""
        ref, name, helper = self.program.refs.get(state.slot), "", None
        rows = self.release.helpers
        if isinstance(ref, SymbolRef):
            name = ref.name
            helper = next((row for key, row in rows.items() if name in (row.function, f"bpf_{key}")), None)
        elif self.program.form is Form.OBJECT:
            imm = self.program.insns[state.slot].imm
            helper = next((row for row in rows.values() if row.id == imm), None)
        number = self._map(state.registers[1]) if helper is not None or name else None
        if number is None:
            raise Unsupported(f"a call of {name or 'what is no operation of a map'} in a run of a small map")
        shape, slot = self.shapes[number], ""
        if helper is not None:
            slot = helper.slot
            target = self.release.operation(shape.type, slot)
            if target is None:
                raise Unsupported(f"maps of type {shape.type} have no {slot}")
            name = target.name
        prototype = INNER.get(name) or self.release.functions[name].prototype
        if name in WALKS or not fits(name, shape, state.memory.states[number]):
            raise Unsupported(f"{name} of a map of type {shape.type} in a run of a small map")
        registers = state.registers[1 : 1 + len(prototype.params)]
        if any(word is None for word in registers):
            raise Unsupported(f"a call of {name} with an argument that holds nothing")
        values = [narrow(self.world, word, ctype) for word, ctype in zip(registers, prototype.params, strict=True)]
        site, b = self.site(number, state.memory), self.world.bits(REGISTER)
        for outcome in operation(name)(site, state.memory.states[number], *values[1:]):
            guard = b.conj(state.guard, outcome.guard)
            if guard.known is False:
                continue
            effect, memory = outcome.effect(), state.memory
            for write in effect.writes:
                memory = store(b, memory, write)
            if effect.state is not None:
                memory = memory.put(number, effect.state)
            after = frames.scratch(state.registers)
            after[0] = self.returned(outcome.result, prototype.result, slot=slot, helper=helper)
            yield replace(state, registers=tuple(after), memory=memory, guard=guard, slot=state.slot + 1)

    def _map(self, pointer: Any) -> int | None:
        if pointer is None or pointer.number is None or (pointer.number - MAPS) % MAP_STRIDE:
            return None
        number = (pointer.number - MAPS) // MAP_STRIDE
        return number if number in self.shapes else None


def _one_bucket(key: Any) -> int:
    return 0


def _unknown_bucket(key: Any) -> int:
    raise Unsupported("a new element of a hash: its bucket depends on its key")


def _only_cpu_0() -> Any:
    raise Unsupported("another CPU's area in a run of a small map")


def _no_call(state: Any, insn: Any, imm: Any) -> Any:
    raise Unsupported("a call inside of a step")


@dataclass(frozen=True, slots=True)
class _Around:
    """`model.semantics.step.Surroundings`."""

    run: SmallRun
    slot: int
    order: Literal["little", "big"] = "little"

    def frame(self, depth: int) -> Word[Any]:
        return self.run.world.bits(REGISTER).const(STACK - depth * 0x400)

    def packet(self) -> Packet[Word[Any]]:
        raise Unsupported("a packet load in a run of a small map")

    def this_cpu(self, pointer: Word[Any]) -> Word[Any]:
        b = self.run.world.bits(REGISTER)
        return b.add(pointer, b.const(per_cpu(0, 0)))

    def may_goto(self, state: Any) -> Truth[Any]:
        raise Unsupported("may_goto in a run of a small map")

    def address(self, load: Address) -> Word[Any]:
        ref, b = self.run.program.refs.get(self.slot), self.run.world.bits(REGISTER)
        if not isinstance(ref, MapRef) or load.kind not in (Imm64.MAP_FD, Imm64.MAP_VALUE):
            raise Unsupported("a 64-bit load of something other than a map in a run of a small map")
        base = MAPS + ref.map * MAP_STRIDE
        if ref.offset is None:
            return b.const(base)
        shape = self.run.shapes.get(ref.map)
        if shape is None or shape.type != "array":
            raise Unsupported("the address of a value of a map that is no array")
        return b.const(base + ARRAY_VALUE + ref.offset)
