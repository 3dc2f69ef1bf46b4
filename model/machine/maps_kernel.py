"""A kernel with maps: helpers that dispatch through the map's table, and the operations themselves by name.

Both ways end in `model.maps`, at the behaviour of one function name: a helper finds the name in the table of the map
that r1 holds (`Release.operation`), a direct call has it already. So a call rewritten to the wrong operation, or one
whose arguments or result are handed over differently, shows in the run.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from model.errors import Unsupported
from model.kernel.abi import ABIS, Abi, Extension
from model.kernel.release import CType, Helper, Prototype, Release
from model.machine.kernel import FUNCTIONS, Function, Running
from model.machine.map_objects import BITS, Made, MapObjects, per_cpu
from model.machine.outcome import Violation
from model.machine.regions import Region, Regions
from model.maps.errors import E2BIG, EINVAL
from model.maps.for_each import WALKS, Visit, Walk, flags_refused, going_on
from model.maps.operations import fits, operation
from model.maps.state import ARRAY_VALUE
from model.program import Map, MapRef, Program
from model.semantics.operation import Address

_U64 = (1 << 64) - 1
POINTER = CType("void *", 64, False, True)
INNER: Mapping[str, Prototype] = {
    name: Prototype(POINTER, (POINTER, POINTER)) for name in ("__htab_map_lookup_elem", "rhtab_lookup_elem")
}
"""Functions that inlined lookups call and that are in no table."""


INITIALISED = (".data", ".rodata", ".kconfig")
"""Names of maps that do not begin with zeroes."""


def zero_upper(value: int, ctype: CType) -> int:
    """What compilers for x86-64 leave above a narrow result most of the time: nothing."""
    return value


@dataclass(slots=True, eq=False)
class MapsKernel:
    """A `Kernel`. `upper` gives the whole result register of a function whose narrow value it is given (at its own
    width), where the ABI leaves the bits above it open. `cpus` is the number of possible CPUs, `cpu` the running one.
    """

    memory: Regions
    release: Release
    abi: Abi = field(default_factory=lambda: ABIS["x86_64"])
    cpus: int = 2
    cpu: int = 0
    upper: Callable[[int, CType], int] = zero_upper
    objects: MapObjects = field(init=False)
    _made: dict[int, Made] = field(default_factory=dict)
    _helpers: dict[int, Function] = field(init=False)
    _symbols: dict[str, Function] = field(init=False)
    _keys: list[Region] = field(default_factory=list)
    _walks: int = 0

    def __post_init__(self) -> None:
        self.objects = MapObjects(self.memory, self.release, self.cpus, self.cpu)
        known = {**FUNCTIONS, 8: Function("bpf_get_smp_processor_id", 0, lambda machine, arguments: self.cpu)}
        self._helpers = {number: known[number] for number in known if number in self.release.helper_ids.values()}
        for row in self.release.helpers.values():
            self._helpers[row.id] = self._dispatching(row)
        self._symbols = {function.name: function for function in self._helpers.values()}
        self._symbols |= {f"bpf_{row.name}": self._helpers[row.id] for row in self.release.helpers.values()}

    # the protocol

    def helper(self, number: int) -> Function | None:
        """Raises `Unsupported` for a helper that the release has and the model has not."""
        found = self._helpers.get(number)
        if found is None and number in self.release.helper_ids.values():
            raise Unsupported(f"what helper {number} of {self.release.name} does is not modelled")
        return found

    def symbol(self, name: str) -> Function | None:
        found = self._symbols.get(name)
        if found is None:
            prototype = self._prototype(name)
            if prototype is None:
                raise Unsupported(f"what the kernel function {name} does is not modelled")
            found = self._symbols[name] = self._direct(name, prototype)
        return found

    def address(self, program: Program, slot: int, load: Address) -> int | None:
        ref = program.refs.get(slot)
        if not isinstance(ref, MapRef):
            return None
        made = self.map(program.maps[ref.map])
        if ref.offset is None:
            return made.address
        if made.map.name.endswith(INITIALISED):
            raise Unsupported(f"{made.map.name}, whose first values are not read from the object")
        if made.shape.type != "array" or made.shape.max_entries != 1 or ref.offset >= made.shape.value_size:
            raise Violation(f"the address of byte {ref.offset} of the only value of {made.map.name}")
        return made.address + ARRAY_VALUE + ref.offset

    def tail_call(self, program_array: int, index: int) -> Program | None:
        made = self.objects.at(program_array)
        return made.programs.get(index) if index < made.shape.max_entries else None

    def this_cpu(self, pointer: int) -> int:
        return per_cpu(pointer, self.cpu)

    # maps, from outside of the program

    def map(self, map_: Map) -> Made:
        """The map that stands for `map_` in this machine, made at first sight. One `Map` value is one map."""
        made = self._made.get(id(map_))
        if made is None:
            made = self._made[id(map_)] = self.objects.make(map_)
        return made

    def operate(self, made: Made, name: str, *arguments: int) -> int:
        """The operation `name` on a map; arguments at the width of their types; the result as a signed number."""
        site = self.objects.site(made)
        return BITS.signed(self.objects.apply(made, operation(name)(site, made.state, *arguments)))

    def put_inner(self, outer: Made, key: bytes, inner: Made) -> int:
        """An inner map put into a map of maps, as the system call does it: 0, or -errno.

        (fd_array_map_update_elem, fd_htab_map_update_elem: the value is the map's address. Whether the outer map's
        template lets it in is not asked.)
        """
        pointer = inner.address.to_bytes(8, self.memory.order)
        if outer.shape.type == "array_of_maps":
            index = int.from_bytes(key, self.memory.order)
            if index >= outer.shape.max_entries:
                return -E2BIG
            region = self.memory.find(outer.address + ARRAY_VALUE + 8 * index, 8)
            at = outer.address + ARRAY_VALUE + 8 * index - region.base
            region.data[at : at + 8] = pointer
            return 0
        held, value = (
            self.memory.place(f"argument of the update of {outer.map.name}", data) for data in (key, pointer)
        )
        result = self.operate(outer, "htab_map_update_elem", held.base, value.base, 0)
        for region in (held, value):
            self.memory.remove(region)
        return result

    # helpers

    def _dispatching(self, row: Helper) -> Function:
        """The helper's C: its casts, the load of the slot, the call through it, the conversions of its result."""
        slot = self.release.slots[row.slot]

        def body(machine: Running, arguments: tuple[int, ...]) -> int:
            values = [_narrow(value, ctype) for value, ctype in zip(arguments, row.params, strict=True)]
            made = self.objects.at(values[0])
            target = self.release.operation(made.shape.type, row.slot)
            if target is None:
                raise Violation(f"{row.function} jumps to address 0: maps of type {made.shape.type} have no {row.slot}")
            handed = [_widen(values[index], row.params[index]) for index in row.arguments]
            result = self._call(machine, target.name, target.prototype, handed)
            for converted in (slot.result, row.result_cast):
                if converted is not None and converted.bits:
                    result = _widen(_narrow(result, converted), converted)
            return result

        return Function(row.function, len(row.params), body)

    def _prototype(self, name: str) -> Prototype | None:
        if name in INNER:
            return INNER[name]
        function = self.release.functions.get(name)
        return None if function is None else function.prototype

    def _direct(self, name: str, prototype: Prototype) -> Function:
        """A call of the operation itself: r1 to r5 as they are, r0 as the function leaves it."""

        def body(machine: Running, arguments: tuple[int, ...]) -> int:
            return self._call(machine, name, prototype, arguments)

        return Function(name, len(prototype.params), body)

    def _call(self, machine: Running, name: str, prototype: Prototype, arguments: tuple[int, ...] | list[int]) -> int:
        """The C function `name`: arguments from whole registers, the result as a whole register."""
        made = self.objects.at(arguments[0])
        values = [_narrow(value, ctype) for value, ctype in zip(arguments, prototype.params, strict=True)]
        if not fits(name, made.shape, made.state):
            raise Violation(f"{name} takes {made.map.name}, of type {made.shape.type}, for a map of its own type")
        walk = WALKS.get(name)
        if walk is not None:
            result = self._walk(machine, made, walk, values)
        else:
            site = self.objects.site(made)
            result = self.objects.apply(made, operation(name)(site, made.state, *values[1:]))
        return self._left(result, prototype.result)

    def _left(self, result: int, ctype: CType) -> int:
        """The result register: the bits above a narrow value are the ABI's."""
        value = _narrow(result, ctype)
        if ctype.bits in (0, 64):
            return value
        if self.abi.result is Extension.NOBODY:
            return self.upper(value, ctype)
        signed = ctype.signed or (self.abi.result is Extension.SIGN and ctype.bits == 32)
        return _widen(value, CType(ctype.c, ctype.bits, signed))

    # for_each

    def _walk(self, machine: Running, made: Made, walk: Walk, values: list[int]) -> int:
        """The walk's loop around the program's callback; a walk inside of a callback has a key of its own."""
        _, callback, context, flags = values
        if flags_refused(BITS, flags):
            return -EINVAL & _U64
        site = self.objects.site(made)
        count, at = 0, walk.first(site, made.state)
        self._walks += 1
        try:
            while at is not None:
                visit = walk.visit(site, made.state, at)
                count += 1
                result = machine.callback(callback, made.address, self._key(visit), visit.value, context)
                if not going_on(BITS, result):
                    break
                at = walk.following(site, made.state, at)
        finally:
            self._walks -= 1
        return count

    def _key(self, visit: Visit[int]) -> int:
        """The address of the key; an index is put where the C function has its local variable."""
        if visit.key is not None:
            return visit.key
        if visit.index is None:
            raise Unsupported("a walk without keys")
        while len(self._keys) < self._walks:
            self._keys.append(self.memory.place("key of for_each", bytes(4)))
        region = self._keys[self._walks - 1]
        region.data[:] = visit.index.to_bytes(4, self.memory.order)
        return region.base


def _narrow(value: int, ctype: CType) -> int:
    return value & ((1 << ctype.bits) - 1)


def _widen(value: int, ctype: CType) -> int:
    """C's conversion to 64 bits."""
    if ctype.signed and value >> (ctype.bits - 1):
        return value | (_U64 << ctype.bits & _U64)
    return value
