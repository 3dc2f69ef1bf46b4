"""What a program calls and points to outside of itself: the interface, and a kernel without maps."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from model.errors import Unsupported
from model.machine.regions import Regions
from model.program import Program
from model.semantics.operation import Address


class Running(Protocol):
    """The machine, as a function sees it that the program calls."""

    @property
    def memory(self) -> Regions: ...

    @property
    def steps(self) -> int:
        """Instructions run so far."""
        ...

    def callback(self, address: int, *arguments: int) -> int:
        """Runs the program's own function at `address` (a 64-bit load of code) to its end and gives its r0.

        Raises `Violation` when no function starts there, or for what the function does wrong.
        """
        ...


Body = Callable[[Running, tuple[int, ...]], int | None]


@dataclass(frozen=True, slots=True)
class Function:
    """A helper, an operation or a kernel function.

    `body` gets the machine (its memory, `machine.callback` for the program's own functions) and the first
    `parameters` argument registers, 64 bits each, unsigned; what it returns goes to r0 (64 bits are kept), None
    leaves r0 unreadable. It raises `Violation` for what the kernel would crash on.
    """

    name: str
    parameters: int
    body: Body


class Kernel(Protocol):
    """Everything outside of the program. `None` means: there is no such thing (the call is a fault)."""

    def helper(self, number: int) -> Function | None:
        """The helper with this id (enum bpf_func_id); calls of programs in `Form.OBJECT`."""
        ...

    def symbol(self, name: str) -> Function | None:
        """The kernel's function of this name: a map's operation ("htab_map_update_elem"), a helper
        ("bpf_map_update_elem"), a kernel function. Calls of programs in `Form.XLATED`, and kfuncs.
        """
        ...

    def address(self, program: Program, slot: int, load: Address) -> int | None:
        """What the 64-bit load at `slot` loads: the address of a map, of a map's value, of a kernel variable.

        `program.refs` tells which. Addresses of the program's own functions are not asked for.
        """
        ...

    def tail_call(self, program_array: int, index: int) -> Program | None:
        """The program at `index` (32 bits) of the map at address `program_array`; with None the call does nothing."""
        ...

    def this_cpu(self, pointer: int) -> int:
        """A per-CPU pointer moved to the area of the CPU that runs the program."""
        ...


def bpf_loop(machine: Running, arguments: tuple[int, ...]) -> int:
    """bpf_loop(nr_loops, callback_fn, callback_ctx, flags) (kernel/bpf/bpf_iter.c, 6.1 to 7.3).

    nr_loops is a u32; the callback gets the index and the context; the loop ends when it returns non-zero.
    The result is the number of calls made, -EINVAL for flags, -E2BIG for more than 2^23 loops.
    """
    loops, callback, context, flags = arguments
    loops &= 0xFFFFFFFF
    if flags:
        return -22
    if loops > 1 << 23:
        return -7
    for index in range(loops):
        if machine.callback(callback, index, context):
            return index + 1
    return loops


def _clock(machine: Running, arguments: tuple[int, ...]) -> int:
    """ktime_get_ns: time is the number of instructions run, so that a run can be repeated."""
    return machine.steps


def _random(machine: Running, arguments: tuple[int, ...]) -> int:
    """get_prandom_u32: a fixed hash of the number of instructions run."""
    return (machine.steps * 2654435761 + 0x9E3779B9) & 0xFFFFFFFF


FUNCTIONS = {
    5: Function("bpf_ktime_get_ns", 0, _clock),
    7: Function("bpf_get_prandom_u32", 0, _random),
    8: Function("bpf_get_smp_processor_id", 0, lambda machine, arguments: 0),
    181: Function("bpf_loop", 4, bpf_loop),
}
"""Helpers that need nothing of the kernel's state, by id."""


HELPERS = range(1, 212)
"""Ids of enum bpf_func_id (include/uapi/linux/bpf.h, 7.3), which gets no more members."""


class Bare:
    """A kernel with `FUNCTIONS`. What a real one has besides is `Unsupported`, what none has is a bad call."""

    def helper(self, number: int) -> Function | None:
        if number in HELPERS and number not in FUNCTIONS:
            raise Unsupported(f"helper {number} without a kernel that has it")
        return FUNCTIONS.get(number)

    def symbol(self, name: str) -> Function | None:
        for function in FUNCTIONS.values():
            if function.name == name:
                return function
        raise Unsupported(f"kernel function {name} without a kernel that has it")

    def address(self, program: Program, slot: int, load: Address) -> int | None:
        raise Unsupported(f"a {load.kind.name.lower().replace('_', ' ')} without a kernel that has it")

    def tail_call(self, program_array: int, index: int) -> Program | None:
        raise Unsupported("tail calls without a kernel that has program arrays")

    def this_cpu(self, pointer: int) -> int:
        raise Unsupported("per-CPU addresses without a kernel that has them")
