"""What an ordinary call is, by helper id or by the name in a dump, and what it leaves behind."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from model.facts_context import Context
from model.facts_values import MASK64, UNKNOWN, Frame, Fresh, MapSet, Place, State, Storage, Value, fresh
from model.kernel.release import Emit, If, Name, Release, Statement
from model.program import ExternRef, Form, Program, SymbolRef


class Result(Enum):
    """What r0 is after the call."""

    LOOKUP = "lookup"  # a value of the map in r1, or NULL; an inner map's template for a map of maps
    STORAGE = "storage"  # a place inside the map in r1: what inlined lookups go on from
    INTEGER = "integer"  # any number, as far as the verifier knows
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Callee:
    """`name` is the helper's without `bpf_`, or the symbol of a dump; `site` says that a fact is wanted.

    `reads_only`: memory that the arguments point to is not written. `callback` is the register with the
    callback's address (None: not known, any), `arguments` tells what it is called with.
    """

    name: str
    site: bool
    result: Result = Result.OTHER
    reads_only: bool = False
    callback: int | None = None
    arguments: str = ""


CALLBACKS = {
    "for_each_map_elem": (2, "for_each"),
    "loop": (2, "loop"),
    "timer_set_callback": (2, "timer"),
    "find_vma": (3, "find_vma"),
    "user_ringbuf_drain": (2, "drain"),
}
"""Helpers that call back: register of the address, rule of `arguments` (set_*_callback_state, 6.1 to 7.3)."""

READERS = frozenset(
    ("map_lookup_elem", "map_lookup_percpu_elem", "map_update_elem", "map_delete_elem", "map_push_elem", "redirect_map")
)
INTEGERS = frozenset(
    (
        "map_update_elem",
        "map_delete_elem",
        "map_push_elem",
        "map_pop_elem",
        "map_peek_elem",
        "get_prandom_u32",
        "ktime_get_ns",
        "ktime_get_boot_ns",
        "get_current_pid_tgid",
        "get_current_uid_gid",
        "get_current_cgroup_id",
    )
)
"""Helpers whose result no verifier narrows (`do_refine_retval_range`, 6.1 to 7.3)."""

NEVER_NULL = ("array", "percpu_array", None)
"""Map types whose lookup is known not to be NULL for some keys (`can_elide_value_nullness`, 7.3; not in 6.12)."""

SLOT_HELPERS = {
    "map_lookup_elem": "map_lookup_elem",
    "map_lookup_percpu_elem": "map_lookup_percpu_elem",
    "map_update_elem": "map_update_elem",
    "map_delete_elem": "map_delete_elem",
    "map_push_elem": "map_push_elem",
    "map_pop_elem": "map_pop_elem",
    "map_peek_elem": "map_peek_elem",
    "map_for_each_callback": "for_each_map_elem",
}


class Callees:
    """Looks up callees for one program under one release; each distinct one once."""

    def __init__(self, program: Program, release: Release) -> None:
        self.program = program
        self.names = {number: name for name, number in release.helper_ids.items()}
        self.names |= {helper.id: name for name, helper in release.helpers.items()}
        self.helpers = release.helpers
        self.operations = _operations(release)
        self.operations |= {helper.function: name for name, helper in release.helpers.items()}
        self.elements = _element_functions(release)
        self.by_id: dict[int, Callee] = {}
        self.by_name: dict[str, Callee] = {}

    def at(self, slot: int) -> Callee:
        """The callee of the ordinary call at `slot`."""
        if self.program.form is Form.OBJECT:
            number = self.program.insns[slot].imm
            found = self.by_id.get(number)
            if found is None:
                name = self.names.get(number, f"helper {number}")
                found = self.by_id[number] = _helper(name, name, name in self.helpers)
            return found
        ref = self.program.refs.get(slot)
        symbol = ref.name if isinstance(ref, SymbolRef) else ""
        found = self.by_name.get(symbol)
        if found is None:
            found = self.by_name[symbol] = self._symbol(symbol)
        return found

    def _symbol(self, symbol: str) -> Callee:
        if symbol in self.elements:
            return Callee(symbol, True, Result.STORAGE, True)
        if symbol in self.operations:
            return _helper(symbol, self.operations[symbol], True)
        return _helper(symbol, symbol.removeprefix("bpf_"), True)


def kfunc(program: Program, slot: int) -> Callee:
    """A kernel function by its extern name; those that set callbacks for a map's member are told apart."""
    ref = program.refs.get(slot)
    name = ref.name if isinstance(ref, ExternRef | SymbolRef) else ""
    timer = name.startswith("bpf_wq_set_callback")
    return Callee(name, False, Result.OTHER, False, None, "timer" if timer else "")


def _helper(name: str, role: str, site: bool) -> Callee:
    result = Result.OTHER
    if role in ("map_lookup_elem", "map_lookup_percpu_elem"):
        result = Result.LOOKUP
    elif role in INTEGERS:
        result = Result.INTEGER
    register, arguments = CALLBACKS.get(role, (None, ""))
    return Callee(name, site, result, role in READERS, register, arguments)


def _operations(release: Release) -> dict[str, str]:
    """Operation's symbol -> helper that it stands for."""
    found: dict[str, str] = {}
    for table in release.ops.values():
        for slot, function in table.slots.items():
            if slot in SLOT_HELPERS:
                found[function] = SLOT_HELPERS[slot]
    return found


def _element_functions(release: Release) -> frozenset[str]:
    """Functions that inlined lookups call for an element (`__htab_map_lookup_elem`)."""
    names: set[str] = set()
    for gen in release.gen_lookup.values():
        for emit in _emits(gen.body):
            if emit.macro == "BPF_EMIT_CALL":
                names |= {argument.name for argument in emit.arguments if isinstance(argument, Name)}
    return frozenset(names)


def _emits(body: tuple[Statement, ...]) -> Iterator[Emit]:
    pending = list(reversed(body))
    while pending:
        statement = pending.pop()
        if isinstance(statement, Emit):
            yield statement
        elif isinstance(statement, If):
            pending += reversed(statement.then + statement.otherwise)


def result(ctx: Context, callee: Callee, state: State, slot: int) -> Value | None:
    """r0 after the call, from the registers before it.

    The first test of a lookup's result for NULL goes both ways, but not surely with an array.
    """
    if callee.result is Result.INTEGER:
        return fresh(slot, MASK64)
    map_pointer = state.get(1)
    if callee.result is Result.OTHER or not isinstance(map_pointer, MapSet):
        return None
    if callee.result is Result.STORAGE:
        return UNKNOWN if map_pointer.unknown else Storage(map_pointer.keys)
    inner = ctx.inner(map_pointer.keys)
    if map_pointer.unknown:
        return MapSet(inner.keys, True) if inner else UNKNOWN
    null = -1 if any(ctx.map_of(key).type in NEVER_NULL for key in map_pointer.keys) else slot
    return MapSet(inner.keys, inner.unknown, null) if inner else Storage(map_pointer.keys, null)


def callback_arguments(callee: Callee, state: State) -> State:
    """r1 to r5 of the callback at its entry, as set_*_callback_state of 6.1 to 7.3 set them; the frame is its own.

    A rule that is not known hands over unknown values.
    """
    first = state.get(1)
    context: dict[int, Value | None]
    match callee.arguments:
        case "for_each":
            storage = Storage(first.keys) if isinstance(first, MapSet) and first.keys else None
            context = {1: first, 2: storage, 3: storage, 4: state.get(3)}
        case "loop" | "drain":
            context = {2: state.get(3)}
        case "find_vma":
            context = {1: first, 3: state.get(4)}
        case "timer":
            held = MapSet(first.keys) if isinstance(first, Storage) else UNKNOWN
            storage = first if isinstance(first, Storage) else None
            context = {1: held, 2: storage, 3: storage}
        case _:
            context = dict.fromkeys(range(1, 6), UNKNOWN)
    return passed(context)


def passed(registers: dict[int, Value | None] | State) -> State:
    """Argument registers as a callee has them: pointers only (a global function is verified with any number)."""
    arguments: State = {}
    for reg in range(1, 6):
        value = registers.get(reg)
        if isinstance(value, Frame):
            arguments[reg] = Place.OUTER
        elif value is not None and not isinstance(value, int | Fresh) and value is not Place.PLAIN:
            arguments[reg] = value
    return arguments


def reaches_frame(value: Value | None) -> bool:
    """Whether a callee with this argument may store to the caller's frame, or to one further out."""
    return isinstance(value, Frame) or value is Place.OUTER or (isinstance(value, MapSet) and value.unknown)


def surely_called(callee: Callee, state: State) -> bool:
    """Whether the verifier follows the callback: bpf_loop's not where it knows that there are no rounds."""
    rounds = state.get(1)
    return callee.arguments != "loop" or isinstance(rounds, Fresh) or (isinstance(rounds, int) and rounds > 0)


def returned(state: State) -> Value | None:
    """r0 as a caller gets it: no number (a global function's result is any), no pointer into a frame that is gone."""
    value = state.get(0)
    if isinstance(value, int | Fresh | Frame) or value is Place.PLAIN:
        return None
    return UNKNOWN if value is Place.OUTER else value
