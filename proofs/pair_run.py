"""One input, both programs: what each leaves on the model's machine, and the step where the two part."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from model.errors import Unsupported
from model.kernel.abi import Abi
from model.kernel.release import CType, Release
from model.machine.kernel import Function, Running
from model.machine.machine import Machine, Step
from model.machine.map_objects import Made, per_cpu
from model.machine.maps_kernel import INNER, MapsKernel
from model.machine.outcome import Fault, Limit, Outcome, Violation
from model.machine.regions import CODE_BASE, CONTEXT_BASE, Region, Regions
from model.maps.state import ARRAY_VALUE
from model.program import Map, MapRef, Program
from model.semantics.operation import Address

STEPS = 20_000
CONTEXT = 256
"""Bytes of the context, which is plain memory here."""
WIDTHS: Mapping[str, int] = {
    "get_prandom_u32": 32,
    "ktime_get_ns": 64,
    "ktime_get_boot_ns": 64,
    "ktime_get_coarse_ns": 64,
    "ktime_get_tai_ns": 64,
    "jiffies64": 64,
    "get_current_pid_tgid": 64,
    "get_current_uid_gid": 64,
}
"""Helpers whose whole effect is a number that may be any of so many bits (include/uapi/linux/bpf.h)."""
BIG_ENDIAN = frozenset({"s390x", "mips64", "sparc64"})
SYMBOLS = {"bpf_user_rnd_u32": "get_prandom_u32"}
ALL_ONES = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Entry:
    """An element that a map of the program (by number) holds before the run; queues and stacks have no key."""

    map: int
    key: bytes
    value: bytes


@dataclass(frozen=True, slots=True)
class Input:
    """`numbers` are the results of the helpers of `WIDTHS`, in the order of their calls (0 behind the last); `ones`
    fills the bits that an ABI leaves open above a narrow result, which are 0 else.
    """

    context: bytes = bytes(CONTEXT)
    entries: tuple[Entry, ...] = ()
    numbers: tuple[int, ...] = ()
    ones: bool = False


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
    """How a run ended, what the maps (by number) and the context hold then, and the keys that were asked for.

    `size` is about the bytes of all maps.
    """

    outcome: Outcome
    maps: Mapping[int, Any]
    context: bytes
    keys: tuple[tuple[int, bytes], ...]
    calls: int
    moments: tuple[Moment, ...] = ()
    size: int = 0


@dataclass(slots=True)
class Kernel:
    """`MapsKernel` with numbers from the input, and a list of the keys that the program uses."""

    maps: MapsKernel
    numbers: Sequence[int]
    used: Mapping[int, int]  # a map's address -> its number
    calls: int = 0
    keys: list[tuple[int, bytes]] = field(default_factory=list)
    result: int | None = None  # of the last call, until it is taken

    def helper(self, number: int) -> Function | None:
        name = next((name for name, id_ in self.maps.release.helper_ids.items() if id_ == number), "")
        if name in WIDTHS:
            return Function(name, 0, self._number(WIDTHS[name]))
        if name not in self.maps.release.helpers and name != "get_smp_processor_id":
            raise Unsupported(f"a run of helper {name or number}")
        found = self.maps.helper(number)
        return None if found is None else self._noted(found)

    def symbol(self, name: str) -> Function | None:
        helper = SYMBOLS.get(name, name.removeprefix("bpf_"))
        if helper in WIDTHS:
            return Function(name, 0, self._number(WIDTHS[helper]))
        found = self.maps.symbol(name)
        if found is None:
            raise Unsupported(f"a run of {name}")
        if name in self.maps.release.functions or name in INNER:
            found = replace(found, body=self._of_the_type(name, found))
        return self._noted(found)

    def address(self, program: Program, slot: int, load: Address) -> int | None:
        return self.maps.address(program, slot, load)

    def tail_call(self, program_array: int, index: int) -> Program | None:
        raise Unsupported("a run with tail calls")

    def this_cpu(self, pointer: int) -> int:
        return self.maps.this_cpu(pointer)

    def _number(self, width: int) -> Callable[[Running, tuple[int, ...]], int]:
        def body(machine: Running, arguments: tuple[int, ...]) -> int:
            self.calls += 1
            drawn = self.numbers[self.calls - 1] if self.calls <= len(self.numbers) else 0
            self.result = drawn & ((1 << width) - 1)
            return self.result

        return body

    def _of_the_type(self, name: str, found: Function) -> Callable[[Running, tuple[int, ...]], int | None]:
        """An operation run on a map of another type reads one structure as another: no model says what then."""

        def body(machine: Running, arguments: tuple[int, ...]) -> int | None:
            made = self.maps.objects.at(arguments[0])
            row = self.maps.release.map_types.get(made.shape.type)
            slots = self.maps.release.ops[row.ops].slots if row is not None and row.ops else {}
            if name not in slots.values() and name not in INNER:
                raise Unsupported(f"a run of {name} on a map of type {made.shape.type}")
            return found.body(machine, arguments)

        return body

    def _noted(self, found: Function) -> Function:
        def body(machine: Running, arguments: tuple[int, ...]) -> int | None:
            if len(arguments) >= 2 and arguments[0] in self.used:
                made = self.maps.objects.at(arguments[0])
                size = made.shape.key_size or made.shape.value_size
                try:
                    key = (self.used[arguments[0]], machine.memory.read(arguments[1], size))
                except Violation:
                    key = None  # a callback's address, or what the function itself will complain of
                if key is not None and key not in self.keys:
                    self.keys.append(key)
            self.result = found.body(machine, arguments)
            return self.result

        return replace(found, body=body)


def order_of(abi: Abi) -> Literal["little", "big"]:
    return "big" if abi.name in BIG_ENDIAN else "little"


def used_maps(program: Program) -> list[int]:
    return sorted({ref.map for ref in program.refs.values() if isinstance(ref, MapRef)})


def run(program: Program, maps: Sequence[int], release: Release, abi: Abi, given: Input, *, trace: bool = False) -> End:
    """The program's run with `given`; `maps` are the numbers of those to make, in the order of their addresses.

    Raises `Unsupported` where the machine has no meaning for what the program does.
    """
    memory = Regions(order_of(abi))
    upper = _ones if given.ones else _zeros
    kernel = MapsKernel(memory, release, abi=abi, cpus=1, cpu=0, upper=upper)
    made = {number: _made(kernel, program.maps[number]) for number in maps}
    _fill(kernel, made, given.entries)
    context = memory.add(Region("context", CONTEXT_BASE, bytearray(given.context)))
    around = Kernel(kernel, given.numbers, {one.address: number for number, one in made.items()})
    machine = Machine(around, memory, limit=STEPS)
    moments: list[Moment] = []
    if trace:
        machine.trace = _tracer(machine, around, moments)
    outcome = machine.run(program, CONTEXT_BASE)
    contents = {number: _contents(kernel, one) for number, one in made.items()}
    size = sum(one.shape.value_size * one.shape.max_entries for one in made.values() if "array" in one.shape.type)
    return End(outcome, contents, bytes(context.data), tuple(around.keys), around.calls, tuple(moments), size)


def _zeros(value: int, ctype: CType) -> int:
    return value


def _ones(value: int, ctype: CType) -> int:
    return value | (ALL_ONES << ctype.bits & ALL_ONES)


def _tracer(machine: Machine, around: Kernel, moments: list[Moment]) -> Callable[[Step], None]:
    def note(step: Step) -> None:
        registers = machine.registers  # a step tells only what changed
        r0 = moments[-1].registers[0] if moments else None
        if around.result is not None:
            r0, around.result = around.result & ALL_ONES, None
        moments.append(Moment(step.slot, r0, tuple(registers), frozenset(step.changed)))

    return note


def _made(kernel: MapsKernel, map_: Map) -> Made:
    """The map; a map of maps has a map of its template under the key 0."""
    if map_.type == "prog_array":
        raise Unsupported(f"a run with a map of type {map_.type}")
    made = kernel.map(map_)
    if map_.inner is not None:
        kernel.put_inner(made, bytes(made.shape.key_size), kernel.map(map_.inner))
    return made


def _fill(kernel: MapsKernel, made: Mapping[int, Made], entries: Sequence[Entry]) -> None:
    for entry in entries:
        one = made[entry.map]
        slot = "map_update_elem" if entry.key else "map_push_elem"
        function = kernel.release.operation(one.shape.type, slot)
        if function is None:
            raise Unsupported(f"an element put into a map of type {one.shape.type}")
        places = [kernel.memory.place("a key or value", data).base for data in (entry.key, entry.value) if data]
        kernel.operate(one, function.name, *places, 0)


def _contents(kernel: MapsKernel, made: Made) -> Any:
    """The map's state and the bytes of its elements."""
    shape, memory = made.shape, kernel.memory
    if "array" in shape.type:
        if shape.percpu:
            places = [per_cpu(made.place.percpu + i * made.place.percpu_stride, 0) for i in range(shape.max_entries)]
            return [memory.read(place, shape.value_size) for place in places]
        return memory.read(made.address + ARRAY_VALUE, shape.elem_size * shape.max_entries)
    elements = [
        memory.read(made.place.pool + number * made.place.stride, made.element_size) for number in sorted(made.elements)
    ]
    if shape.percpu:
        elements += [
            memory.read(per_cpu(made.place.percpu + number * made.place.percpu_stride, 0), shape.value_size)
            for number in sorted(made.elements)
        ]
    return made.state, elements


def differ(before: End, after: End) -> str:
    """In what two ends differ that a program's user can see; "" where they agree or where a run was cut short."""
    one, two = before.outcome, after.outcome
    if isinstance(one, Limit) or isinstance(two, Limit) or isinstance(one, Fault):
        return ""
    if isinstance(two, Fault):
        return f"the program after ends with a {two}"
    if one.value != two.value:
        return "r0"
    if before.context != after.context:
        return "the context"
    changed = [number for number in before.maps if before.maps[number] != after.maps[number]]
    return f"map {changed[0]}" if changed else ""


@dataclass(frozen=True, slots=True)
class Parting:
    """The instruction (slots before and after) behind which `register` differs, with both values; where the two go on
    at different places `register` is None and the values are the next slots.
    """

    slot: int
    after: int
    register: int | None
    values: tuple[int, int]


def parting(before: Sequence[Moment], after: Sequence[Moment], moved: Sequence[int]) -> Parting | None:
    """Where two traces of one input part: at the first instruction, or patch, that leaves something else."""
    starts = {at: slot for slot, at in reversed(list(enumerate(moved[:-1])))}
    arrivals = ((starts[moment.slot], moment) for moment in after if moment.slot in starts)
    last: tuple[int, int] | None = None
    for one, (slot, two) in zip(before, arrivals, strict=False):
        if one.slot != slot:
            return None if last is None else Parting(*last, None, (one.slot, two.slot))
        if last is not None and one.r0 is not None and two.r0 is not None and one.r0 != two.r0:
            return Parting(*last, 0, (one.r0, two.r0))
        here = one.slot, two.slot
        single = moved[one.slot + 1] == two.slot + 1
        for register, (mine, other) in enumerate(zip(one.registers[:10], two.registers, strict=False)):
            if mine is None or other is None or mine == other or _moved(mine, moved) == other:
                continue
            pair = mine, other
            if register not in one.changed | two.changed:
                return None if last is None else Parting(*last, register, pair)
            if single:
                return Parting(*here, register, pair)
        last = here
    return None


def _moved(word: int, moved: Sequence[int]) -> int:
    """A word that is the address of one of the program's own instructions, where that went."""
    slot, rest = divmod(word - CODE_BASE, 8)
    return CODE_BASE + 8 * moved[slot] if not rest and 0 <= slot < len(moved) else word
