"""What a call in a run over symbols is shown of the caller's own memory, and what it leaves there.

The operations of maps read a key and a value, and pop and peek write a value (bpf_map_ops, include/linux/bpf.h): they
are handed those bytes, wherever in its frame a program has them. Every other call that is given an address of own
memory may read and write all of it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from model.kernel.release import Release
from model.machine.maps_kernel import INNER
from model.memory import Outside
from model.program import Map
from proofs.properties.tracked import Tracked, Word
from proofs.properties.whole_memory import REGISTER, Byte, Owned, joined

KEY, VALUE = "key", "value"
READS: Mapping[str, Mapping[int, str]] = {
    "map_lookup_elem": {1: KEY},
    "map_lookup_percpu_elem": {1: KEY},
    "map_update_elem": {1: KEY, 2: VALUE},
    "map_delete_elem": {1: KEY},
    "map_push_elem": {1: VALUE},
    "map_peek_elem": {1: VALUE},
    "map_pop_elem": {},
}
"""By slot of the table: arguments (r1 is 0) whose memory the operation reads."""
WRITES: Mapping[str, int] = {"map_pop_elem": 1, "map_peek_elem": 1}
READS_ON_PEEK = "bloom_filter"
"""The type whose peek reads the value and writes none (bloom_map_peek_elem, kernel/bpf/bloom_filter.c, 7.3)."""
WHOLE = (1, 2, 4, 8)
"""Sizes of keys that a kernel function loads as one word."""


def slot_of(release: Release, held: Map | None, symbol: str) -> str:
    """The slot of the map's table that has the function `symbol`; "" where none has."""
    if symbol in INNER:
        return "map_lookup_elem"
    row = release.map_types.get(held.type or "") if held is not None else None
    slots = release.ops[row.ops].slots if row is not None and row.ops else {}
    return next((slot for slot, name in slots.items() if name == symbol and slot in READS), "")


@dataclass(frozen=True, slots=True)
class Handed:
    """`registers` and `outside` as the callee gets them. `all_` says that it may write to all own memory, `buffer` that
    it writes to so many bytes at an address of the caller: (argument, address, bytes).
    """

    memory: Owned
    registers: Sequence[Any]
    outside: Outside[Any, Any]
    all_: bool = False
    buffer: tuple[int, Word[Any], int] | None = None

    def left(self, outside: Outside[Any, Any]) -> Owned:
        """The caller's memory behind the call, which left `outside`."""
        if outside.memory is self.outside.memory:
            outside = replace(outside, memory=self.memory.outside.memory)
        made = replace(self.memory, outside=outside)
        if self.all_:
            return made.hidden(outside.memory)
        if self.buffer is not None:
            argument, address, size = self.buffer
            b = made.world.bits(REGISTER)
            for i in range(size):
                here, there = b.add(address, b.const(i)), b.add(_place(made.world, argument), b.const(i))
                seen = [(there, REGISTER), (outside.memory, REGISTER)]
                made = made.store(here, 1, made.world.apply("load8", 8, seen))
        return made


def hand(memory: Owned, registers: Sequence[Any], held: Map | None, slot: str) -> Handed:
    """A call with r1 to r5 in `registers` (None: nothing in it) of the operation in `slot` of the map `held`."""
    closed = memory.closed()
    own = [i for i, word in enumerate(registers) if word is not None and closed.owns(word)]
    sizes = {KEY: held.key_size, VALUE: held.value_size} if held is not None else {}
    if not own:
        return Handed(closed, registers, closed.outside)
    reads = {i: sizes.get(what) for i, what in READS.get(slot, {}).items()}
    written = WRITES.get(slot) if held is not None and held.type != READS_ON_PEEK else None
    if written is not None:
        reads = {written: sizes.get(VALUE)}
    if slot not in READS or any(not reads.get(i) or not registers[i].base for i in own):
        shown = closed.shown()
        return Handed(shown, registers, shown.outside, all_=True)
    given = list(registers)
    for i in own:
        given[i] = _place(closed.world, i)
    if written is not None:
        return Handed(closed, given, closed.outside, buffer=(written, registers[written], reads[written] or 0))
    return Handed(closed, given, _with(closed, registers, own, reads))


def _place(world: Tracked[Any, Any], argument: int) -> Word[Any]:
    """Where a callee finds the bytes of an argument: the same place, wherever they are in the caller's frame."""
    return world.fresh(f"bytes in argument {argument + 1}", REGISTER)


def _with(memory: Owned, registers: Sequence[Any], own: Sequence[int], sizes: Mapping[int, int | None]) -> Any:
    """The world outside together with the bytes of the arguments `own`."""
    world, outside = memory.world, memory.outside
    seen: list[tuple[Word[Any], int]] = [(outside.memory, REGISTER)]
    bytes_ = {i: memory.bytes(registers[i], sizes[i] or 0) for i in own}
    for some in bytes_.values():
        seen += [(joined(world, [byte]), 8) for byte in some]
    name = ", ".join(f"{sizes[i]} in argument {i + 1}" for i in own)
    made = replace(outside, memory=world.apply(f"memory with bytes: {name}", REGISTER, seen))
    for i, some in bytes_.items():
        if len(some) in WHOLE:
            at = [(_place(world, i), REGISTER), (made.memory, REGISTER)]
            world.pin(f"load{8 * len(some)}", 8 * len(some), at, joined(world, _in_order(memory, some)))
    return made


def _in_order(memory: Owned, bytes_: Sequence[Byte]) -> Sequence[Byte]:
    return bytes_ if memory.order == "little" else bytes_[::-1]
