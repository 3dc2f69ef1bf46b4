"""The kernel that both programs of a pair meet: numbers from the input, and a list of what the program does to it."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Literal

from model.errors import Unsupported
from model.kernel.abi import Abi
from model.machine.kernel import Function, Running
from model.machine.map_objects import Made
from model.machine.maps_kernel import INNER, MapsKernel
from model.machine.outcome import Violation
from model.machine.regions import CODE_BASE, Regions
from model.program import Program
from model.semantics.operation import Address

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
PLAIN = frozenset({"get_smp_processor_id", "loop"})
"""Other helpers that can be run."""
PURE = frozenset({"map_lookup_elem", "map_lookup_percpu_elem"})
"""Slots whose calls are no event: a program after may have them in its own instructions."""
SHOWN = 32
"""Bytes of a key or value in an event's text."""


@dataclass(frozen=True, slots=True)
class Event:
    """What a program does to its surroundings at `slot`: `what` is the same text where it is the same deed."""

    slot: int
    what: str


def order_of(abi: Abi) -> Literal["little", "big"]:
    return "big" if abi.name in BIG_ENDIAN else "little"


@dataclass(frozen=True, slots=True)
class _Watched:
    """The machine, with the callbacks that a function makes noted."""

    machine: Running
    kernel: "Kernel"

    @property
    def memory(self) -> Regions:
        return self.machine.memory

    @property
    def steps(self) -> int:
        return self.machine.steps

    def callback(self, address: int, *arguments: int) -> int:
        made = self.kernel.made(arguments[0]) if len(arguments) == 4 else None
        if made is not None:
            key = _bytes(self.memory, arguments[1], made.shape.key_size)
            value = _bytes(self.memory, arguments[2], made.shape.value_size)
            self.kernel.note(f"a callback with key {key}, value {value} of map {made.map.name}")
        result = self.machine.callback(address, *arguments)
        self.kernel.note(f"the callback returns 0x{result:x}")
        return result


@dataclass(slots=True)
class Kernel:
    """`MapsKernel` with numbers from the input; `keys` are those that the program uses, `slot` where it is.

    `events` is None where nothing is noted.
    """

    maps: MapsKernel
    numbers: Sequence[int]
    used: Mapping[int, int]  # a map's address -> its number
    calls: int = 0
    keys: list[tuple[int, bytes]] = field(default_factory=list)
    result: int | None = None  # of the last call, until it is taken
    slot: int = 0
    away: bool = False  # in another program, by a tail call
    events: list[Event] | None = None

    def helper(self, number: int) -> Function | None:
        name = next((name for name, id_ in self.maps.release.helper_ids.items() if id_ == number), "")
        if name in WIDTHS:
            return Function(name, 0, self._number(name))
        row = self.maps.release.helpers.get(name)
        if row is None and name not in PLAIN:
            raise Unsupported(f"a run of helper {name or number}")
        found = self.maps.helper(number)
        return None if found is None else self._noted(found, row.slot if row is not None else name)

    def symbol(self, name: str) -> Function | None:
        helper = SYMBOLS.get(name, name.removeprefix("bpf_"))
        if helper in WIDTHS:
            return Function(name, 0, self._number(helper))
        found = self.maps.symbol(name)
        if found is None:
            raise Unsupported(f"a run of {name}")
        row = self.maps.release.helpers.get(helper)
        if name in self.maps.release.functions or name in INNER:
            found = replace(found, body=self._of_the_type(name, found))
        return self._noted(found, row.slot if row is not None else name)

    def address(self, program: Program, slot: int, load: Address) -> int | None:
        return self.maps.address(program, slot, load)

    def tail_call(self, program_array: int, index: int) -> Program | None:
        if program_array in self.used:
            self._key(self.used[program_array], index.to_bytes(4, self.maps.memory.order))
        self.note(f"a tail call to index {index}")
        found = self.maps.tail_call(program_array, index)
        self.away |= found is not None
        return found

    def this_cpu(self, pointer: int) -> int:
        return self.maps.this_cpu(pointer)

    def note(self, what: str) -> None:
        if self.events is not None:
            self.events.append(Event(self.slot, what))

    def made(self, address: int) -> Made | None:
        return self.maps.objects.by_address.get(address)

    def _number(self, name: str) -> Callable[[Running, tuple[int, ...]], int]:
        def body(machine: Running, arguments: tuple[int, ...]) -> int:
            self.note(f"a call of {name}")
            self.calls += 1
            drawn = self.numbers[self.calls - 1] if self.calls <= len(self.numbers) else 0
            self.result = drawn & ((1 << WIDTHS[name]) - 1)
            return self.result

        return body

    def _slots(self, made: Made) -> Mapping[str, str]:
        row = self.maps.release.map_types.get(made.shape.type)
        return self.maps.release.ops[row.ops].slots if row is not None and row.ops else {}

    def _of_the_type(self, name: str, found: Function) -> Callable[[Running, tuple[int, ...]], int | None]:
        """An operation run on a map of another type reads one structure as another: no model says what then."""

        def body(machine: Running, arguments: tuple[int, ...]) -> int | None:
            made = self.maps.objects.at(arguments[0])
            if name not in self._slots(made).values() and name not in INNER:
                raise Unsupported(f"a run of {name} on a map of type {made.shape.type}")
            return found.body(machine, arguments)

        return body

    def _noted(self, found: Function, name: str) -> Function:
        """`name` is the slot of a helper, or a function's name."""

        def body(machine: Running, arguments: tuple[int, ...]) -> int | None:
            made = self.made(arguments[0]) if arguments else None
            if made is not None and len(arguments) >= 2 and made.address in self.used:
                size = made.shape.key_size or made.shape.value_size
                with suppress(Violation):  # a callback's address, or what the function itself will complain of
                    self._key(self.used[made.address], machine.memory.read(arguments[1], size))
            if self.events is not None:
                self._call(machine, made, name, arguments)
            self.result = found.body(_Watched(machine, self), arguments)
            return self.result

        return replace(found, body=body)

    def _key(self, number: int, key: bytes) -> None:
        if (number, key) not in self.keys:
            self.keys.append((number, key))

    def _call(self, machine: Running, made: Made | None, name: str, arguments: tuple[int, ...]) -> None:
        """Notes a call by the slot of its map's table, so that a helper and the operation itself are one deed."""
        slots = {} if made is None else {function: slot for slot, function in self._slots(made).items()}
        slot = "map_lookup_elem" if name in INNER else slots.get(name, name)
        if slot in PURE:
            return
        told = [_argument(machine, made, slot, i, word) for i, word in enumerate(arguments) if i or made is None]
        where = f" of map {made.map.name}" if made is not None else ""
        self.note(f"{slot}{where}: {', '.join(told)}")


def _argument(machine: Running, made: Made | None, slot: str, position: int, word: int) -> str:
    if word >= CODE_BASE:
        return "a function"
    if made is not None and position == 1 and slot != "map_pop_elem":
        size = made.shape.key_size or made.shape.value_size
        return f"{'key' if made.shape.key_size else 'value'} {_bytes(machine.memory, word, size)}"
    if made is not None and position == 2 and slot == "map_update_elem":
        return f"value {_bytes(machine.memory, word, made.shape.value_size)}"
    try:
        return f"an address in {machine.memory.find(word, 1).name}"
    except Violation:
        return f"0x{word:x}"


def _bytes(memory: Regions, address: int, size: int) -> str:
    try:
        return memory.read(address, min(size, SHOWN)).hex() + ("…" if size > SHOWN else "")
    except Violation:
        return f"at 0x{address:x}"
