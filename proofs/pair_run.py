"""One input, both programs: what each leaves on the model's machine, and the step where the two part."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from model.isa.insn import Insn
from model.kernel.abi import Abi
from model.kernel.release import CType, Release
from model.machine.contents import Contents, put, visible
from model.machine.machine import Machine, Step
from model.machine.map_objects import Made
from model.machine.maps_kernel import MapsKernel
from model.machine.outcome import Outcome, Violation
from model.machine.regions import CONTEXT_BASE, Region, Regions
from model.program import Map, MapRef, Program
from model.semantics.load_store import Packet
from proofs.pair_kernel import Event, Kernel, order_of
from proofs.pair_packet import BASE as PACKET_BASE
from proofs.pair_packet import Layout

STEPS = 20_000
CONTEXT = 256
"""Bytes of the context, which is plain memory here."""
ALL_ONES = (1 << 64) - 1


STORES = (2, 3)
SIZES = {0x00: 4, 0x08: 2, 0x10: 1, 0x18: 8}
PROGRAMS = "prog_array"
ETHERNET = 14
"""Bytes in front of the network header of a packet."""


@dataclass(frozen=True, slots=True)
class Entry:
    """An element that a map of the program (by number) holds before the run; queues and stacks have no key. That of a
    program array is a program which returns `value`.
    """

    map: int
    key: bytes
    value: bytes


@dataclass(frozen=True, slots=True)
class Input:
    """`packet` is there for programs whose context has one. `numbers` are the results of the helpers of `WIDTHS`, in
    the order of their calls (0 behind the last); `ones` fills the bits that an ABI leaves open above a narrow result,
    which are 0 else.
    """

    context: bytes = bytes(CONTEXT)
    entries: tuple[Entry, ...] = ()
    numbers: tuple[int, ...] = ()
    ones: bool = False
    packet: bytes = b""


@dataclass(frozen=True, slots=True)
class Moment:
    """One instruction that was run: its slot, r0 before it, the registers behind it (None: nothing to be read), those
    that it changed. What the kernel does in a call shows in the next moment.
    """

    slot: int
    r0: int | None
    registers: tuple[int | None, ...]
    changed: frozenset[int]


@dataclass(frozen=True, slots=True)
class End:
    """How a run ended, what the maps (by number), the context and the packet hold then, and the keys that were asked
    for. `size` is about the bytes of all maps. `moments` and `events` are there where the run was traced.
    """

    outcome: Outcome
    maps: Mapping[int, Contents]
    context: bytes
    packet: bytes
    keys: tuple[tuple[int, bytes], ...]
    calls: int
    moments: tuple[Moment, ...] = ()
    events: tuple[Event, ...] = ()
    size: int = 0


def used_maps(program: Program) -> list[int]:
    return sorted({ref.map for ref in program.refs.values() if isinstance(ref, MapRef)})


def run(
    program: Program,
    maps: Mapping[int, Map],
    release: Release,
    abi: Abi,
    given: Input,
    layout: Layout | None = None,
    *,
    trace: bool = False,
) -> End:
    """The program's run with `given`; `layout` tells where the context has the packet.

    `maps` are those of either program by number, in the order of their addresses. Raises `Unsupported` where the
    machine has no meaning for what the program does.
    """
    memory = Regions(order_of(abi))
    upper = _ones if given.ones else _zeros
    kernel = MapsKernel(memory, release, abi=abi, cpus=1, cpu=0, upper=upper)
    made = {number: _made(kernel, one) for number, one in maps.items()}
    _fill(kernel, made, given.entries)
    bytes_ = given.context if layout is None else layout.filled(given.context, given.packet)
    context = memory.add(Region("context", CONTEXT_BASE, bytearray(bytes_)))
    packet = Region("packet", PACKET_BASE, bytearray(given.packet))
    around = Kernel(kernel, given.numbers, {one.address: number for number, one in made.items()})
    machine = Machine(around, memory, limit=STEPS)
    if layout is not None:
        memory.add(packet)
        machine.packet, machine.context = Packet(PACKET_BASE, len(given.packet), ETHERNET, 0), CONTEXT_BASE
    moments: list[Moment] = []
    if trace:
        around.events = []
        machine.trace = _tracer(machine, around, program, moments)
    outcome = machine.run(program, CONTEXT_BASE)
    contents = {number: visible(kernel, one) for number, one in made.items()}
    size = sum(one.shape.value_size * one.shape.max_entries for one in made.values() if "array" in one.shape.type)
    events = tuple(around.events or ())
    left = bytes(context.data), bytes(packet.data)
    return End(outcome, contents, *left, tuple(around.keys), around.calls, tuple(moments), events, size)


def _zeros(value: int, ctype: CType) -> int:
    return value


def _ones(value: int, ctype: CType) -> int:
    return value | (ALL_ONES << ctype.bits & ALL_ONES)


def _tracer(machine: Machine, around: Kernel, program: Program, moments: list[Moment]) -> Callable[[Step], None]:
    def note(step: Step) -> None:
        registers = machine.registers  # a step tells only what changed
        r0 = moments[-1].registers[0] if moments else None
        if around.result is not None:
            r0, around.result = around.result & ALL_ONES, None
        moments.append(Moment(step.slot, r0, tuple(registers), frozenset(step.changed)))
        around.slot = step.slot
        insn = None if around.away or step.slot >= len(program.insns) else program.insns[step.slot]
        if insn is not None and insn.opcode & 7 in STORES:
            _store(around, insn, registers[insn.dst])

    return note


def _store(around: Kernel, insn: Insn, base: int | None) -> None:
    """Notes what was stored outside of the stack."""
    size = SIZES[insn.opcode & 0x18]
    try:
        address = ((base or 0) + insn.off) & ALL_ONES
        region = around.maps.memory.find(address, size)
        if not region.name.startswith("stack"):
            value = around.maps.memory.read(address, size).hex()
            around.note(f"a store of {value} at {region.name} + {address - region.base}")
    except Violation:
        pass  # the run ends here


def _made(kernel: MapsKernel, map_: Map) -> Made:
    """The map; a map of maps has a map of its template under the key 0."""
    made = kernel.map(map_)
    if map_.inner is not None:
        kernel.put_inner(made, bytes(made.shape.key_size), kernel.map(map_.inner))
    return made


def _fill(kernel: MapsKernel, made: Mapping[int, Made], entries: Sequence[Entry]) -> None:
    for entry in entries:
        one = made[entry.map]
        if one.shape.type == PROGRAMS:
            result = int.from_bytes(entry.value, "little")
            stub = (Insn(0x18, 0, 0, 0, _signed(result & 0xFFFFFFFF)), Insn(0, imm=_signed(result >> 32)), Insn(0x95))
            one.programs[int.from_bytes(entry.key, kernel.memory.order)] = Program(f"program {entry.key.hex()}", stub)
            continue
        put(kernel, one, entry.key, entry.value)


def _signed(word: int) -> int:
    return word - (1 << 32) if word >> 31 else word
