"""A kernel release as data: what its map operations, helpers and rewrites are.

Everything here is read from `releases/*.json`, which `model.kernel.extract` writes from a source tree.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from model.errors import Unsupported
from model.kernel.c_body import Body
from model.kernel.evidence import Checked, Returned


@dataclass(frozen=True, slots=True)
class CType:
    """A C type of a parameter or result. `bits` is 0 for void; pointers are 64 bits, unsigned."""

    c: str
    bits: int
    signed: bool
    pointer: bool = False


@dataclass(frozen=True, slots=True)
class Prototype:
    result: CType
    params: tuple[CType, ...]


@dataclass(frozen=True, slots=True)
class Function:
    """A kernel function with its place in the source."""

    name: str
    prototype: Prototype
    file: str
    line: int


def place(file: str, line: int) -> str:
    """ "kernel/bpf/helpers.c:49", the file alone where the line is not known (0)."""
    return f"{file}:{line}" if line else file


@dataclass(frozen=True, slots=True)
class OpsTable:
    """One `struct bpf_map_ops` initializer; `slots` maps member -> function name, absent where NULL."""

    symbol: str
    slots: Mapping[str, str]
    file: str
    line: int


@dataclass(frozen=True, slots=True)
class MapType:
    """`name` is the enum's name in lower case without BPF_MAP_TYPE_; `number` its value; `ops` the table's symbol."""

    name: str
    number: int
    ops: str | None


@dataclass(frozen=True, slots=True)
class Helper:
    """A helper that dispatches through `map->ops`.

    `prototype` has the parameter types of its `BPF_CALL_n` declaration and the type that its body's
    value is converted from (the `u64` that every helper returns is implied). `slot` is the member of
    `struct bpf_map_ops` that the body calls, `arguments` the indexes of the helper's parameters that
    it hands over, in the operation's order; `result_cast` an explicit cast of the call's value in the
    return statement (`(unsigned long)`), or None. `line` is 0 where it is not known (a release that is from no tree).
    """

    name: str
    id: int
    function: str
    params: tuple[CType, ...]
    slot: str
    arguments: tuple[int, ...]
    result_cast: CType | None
    file: str
    line: int


@dataclass(frozen=True, slots=True)
class Acceptance:
    """What the verifier says of one (map type, helper).

    `condition` is "" when it holds for every program, else who may ("sock_ops programs, …").
    """

    accepted: bool
    condition: str
    reason: str


@dataclass(frozen=True, slots=True)
class DirectCall:
    """A rewrite row: `helper`'s call becomes a call of `ops->slot`.

    `prototype` is what the pass's BUILD_BUG_ON demands of the slot. `line` is 0 where it is not known.
    """

    helper: str
    slot: str
    prototype: Prototype | None
    function: str
    file: str
    line: int


# The C of a `map_gen_lookup`, as data: enough of C to emit instructions, and no more. JSON shapes are
# lists whose first element names the node; the dataclasses mirror them one to one.


@dataclass(frozen=True, slots=True)
class Const:
    value: int


@dataclass(frozen=True, slots=True)
class Name:
    """A symbol of the kernel that is no field: BPF_REG_0, BPF_W, BPF_JGE, __htab_map_lookup_elem, EOPNOTSUPP."""

    name: str


@dataclass(frozen=True, slots=True)
class Field:
    """A member of the map, by path from the C variable: "map.max_entries", "array.index_mask", "map.map_flags"."""

    path: str
    bits: int
    signed: bool


@dataclass(frozen=True, slots=True)
class Offset:
    """`offsetof(struct tag, member)`: a number only once a build's layout is known.

    `struct` is the tag alone ("htab_elem"); `Release.layout` has the key "struct htab_elem.key" where it is known.
    """

    struct: str
    member: str


@dataclass(frozen=True, slots=True)
class SizeOf:
    c: str


@dataclass(frozen=True, slots=True)
class Apply:
    """An operator ("+", "&", "!") or a function-like macro ("is_power_of_2", "ilog2", "round_up") on arguments."""

    function: str
    arguments: "tuple[Expr, ...]"


Expr = Const | Name | Field | Offset | SizeOf | Apply


@dataclass(frozen=True, slots=True)
class Emit:
    """`*insn++ = MACRO(arguments)`; `macro` is include/linux/filter.h's name (BPF_ALU64_IMM, BPF_EMIT_CALL, …)."""

    macro: str
    arguments: tuple[Expr, ...]
    line: int


@dataclass(frozen=True, slots=True)
class If:
    condition: Expr
    then: "tuple[Statement, ...]"
    otherwise: "tuple[Statement, ...]"


@dataclass(frozen=True, slots=True)
class Decline:
    """`return -ERRNO`: no inline form; `errno` by name ("EOPNOTSUPP": fall through to the direct call)."""

    errno: str


@dataclass(frozen=True, slots=True)
class Opaque:
    """A statement that the extractor could not read: source text and place. Makes the sequence `Unsupported`."""

    text: str
    line: int


Statement = Emit | If | Decline | Opaque


PERCPU_INSN = "bpf_jit_supports_percpu_insn"
HOLES = ("accepted", "condition", "helper", "ops", "percpu_insn", "rewrite", "slot", "type")
"""What a key of `Release.holes` begins with."""


@dataclass(frozen=True, slots=True)
class GenLookup:
    """One `map_gen_lookup` function: its body as data."""

    function: str
    body: tuple[Statement, ...]
    file: str
    line: int


@dataclass(frozen=True, slots=True)
class Release:
    """One kernel release. Keys: `map_types` by type name, `helpers` by helper name without the `bpf_`
    prefix ("map_update_elem", "for_each_map_elem"), `functions` and `ops` by symbol, `slots` by member.

    `functions` has the functions in slots under their symbol (under "symbol@file" where two files have
    static functions of one name; `Function.name` is the symbol always).
    `helper_ids` has every helper of the release (name without prefix -> id), not only those on maps.
    `accepted[helper][type]` is there for every helper in `helpers` and every map type.
    `rewrites` is what the post-verification pass turns into direct calls, in the source's order.
    `gen_lookup` is keyed by function name (the value of slot "map_gen_lookup"). `meta_equal` maps a type
    to the function that decides which inner maps fit a template, `callbacks` lists operations that
    call back into the program (and so hold an indirect call of their own). `insn_buf` is the limit of a
    patch in instructions (this many are too many; 0 where it was not read). `poison_for_each` is "refused",
    "stays", or "" where the release has no for_each. `layout` holds the offsets that are
    known without a build ("struct htab_elem.key" -> bytes). `percpu_insn` names the architectures whose
    JIT has `bpf_jit_supports_percpu_insn()` true (names as in `model.kernel.abi`). `unread` lists what the
    extractor could not read: one line each, with file, line and construct. `holes` says what of the release cannot be
    trusted for it, with the reason: "helper:NAME" (its body), "rewrite:NAME" (what the pass makes of it),
    "condition:WHAT" (a condition of the pass), "type:NAME" and "ops:SYMBOL" (operations), "slot:MEMBER" (of struct
    bpf_map_ops), "accepted:TYPE/HELPER" (the verifier's word), "percpu_insn:ARCH"; "*" stands for every name.
    A claim is made only where no hole touches it (`hole`, `type_hole`). `bodies` has, by function name, the
    `map_lookup_elem` of every type with a `map_gen_lookup`, each `map_for_each_callback`, and the functions that
    these call. `returns` has, by function key, what the operations of accepted pairs return, where that is a number;
    `checked` is by helper name.
    `provenance` is empty for a release that was extracted from a tree as a whole; else it says where each part came
    from: section ("helpers", "gen_lookup") -> source -> keys of the rows that are from there, () for all of them.
    """

    name: str
    version: str
    origin: str
    map_types: Mapping[str, MapType]
    ops: Mapping[str, OpsTable]
    functions: Mapping[str, Function]
    slots: Mapping[str, Prototype]
    helpers: Mapping[str, Helper]
    helper_ids: Mapping[str, int]
    accepted: Mapping[str, Mapping[str, Acceptance]]
    rewrites: tuple[DirectCall, ...]
    gen_lookup: Mapping[str, GenLookup]
    meta_equal: Mapping[str, str]
    callbacks: frozenset[str]
    insn_buf: int
    poison_for_each: str
    layout: Mapping[str, int]
    percpu_insn: frozenset[str] = frozenset()
    unread: tuple[str, ...] = ()
    bodies: Mapping[str, Body] = field(default_factory=dict)
    holes: Mapping[str, str] = field(default_factory=dict)
    returns: Mapping[str, tuple[Returned, ...]] = field(default_factory=dict)
    checked: Mapping[str, Checked] = field(default_factory=dict)
    provenance: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)

    def operation(self, map_type: str, slot: str) -> Function | None:
        """The function in `slot` of the operations of `map_type`; None where the slot is NULL or there is no table.

        Raises Unsupported where the operations, or the definition of the function in the slot, were not read.
        """
        if unread := self.type_hole(map_type):
            raise Unsupported(f"{self.name}: operations of {map_type} were not read: {unread}")
        row = self.map_types.get(map_type)
        if row is None or row.ops is None:
            return None
        name = self.ops[row.ops].slots.get(slot)
        if name is not None and name not in self.functions:
            raise Unsupported(f"{self.name}: no prototype was read for {name} ({row.ops}.{slot})")
        return None if name is None else self.functions[name]

    def rewrite(self, helper: str) -> DirectCall | None:
        """The direct-call row for `helper`, None where this release leaves it alone."""
        return next((row for row in self.rewrites if row.helper == helper), None)

    def type_hole(self, map_type: str) -> str:
        """Why the operations of `map_type` cannot be trusted, "" where they were read."""
        row = self.map_types.get(map_type)
        keys = [f"type:{map_type}", "type:*"] + ([] if row is None else [f"ops:{row.ops}"])
        return self._first(keys, "slot:")

    def acceptance_hole(self, helper: str, map_type: str) -> str:
        """Why it cannot be told whether the verifier accepts the pair, "" where that was read."""
        return self._first([f"accepted:{kind}/{name}" for kind in (map_type, "*") for name in (helper, "*")])

    def rewrite_hole(self, helper: str) -> str:
        """Why it cannot be told what the pass makes of calls of `helper`, "" where that was read."""
        keys = [f"helper:{helper}", f"rewrite:{helper}", "rewrite:*"]
        return self._first(keys, "condition:" if self.rewrite(helper) is not None else "")

    def hole(self, helper: str, map_type: str) -> str:
        """Why nothing can be claimed of the pair, "" where all that decides on it was read."""
        return self.acceptance_hole(helper, map_type) or self.type_hole(map_type) or self.rewrite_hole(helper)

    def lookup_hole(self, map_type: str, arch: str) -> str:
        """Why nothing can be claimed of inlined lookups of `map_type` on `arch`, "" where all was read."""
        hole = self.hole("map_lookup_elem", map_type)
        jit = self._first([f"percpu_insn:{arch}"])
        if hole or not jit:
            return hole
        row = self.map_types.get(map_type)
        slots = {} if row is None or row.ops is None else self.ops[row.ops].slots
        lookup = self.gen_lookup.get(slots.get("map_gen_lookup", ""))
        return jit if lookup is not None and PERCPU_INSN in repr(lookup.body) else ""

    def lost(self, kind: str) -> tuple[str, ...]:
        """Names that only holes of `kind` ("helper", "rewrite", "type") know, "*" apart."""
        known = self.map_types if kind == "type" else self.helpers
        names = [key.partition(":")[2] for key in self.holes if key.startswith(f"{kind}:")]
        return tuple(name for name in names if name != "*" and name not in known)

    def _first(self, keys: Iterable[str], prefix: str = "") -> str:
        """The reason of the first of `keys` that is a hole, or of the first hole that begins with `prefix`."""
        found = next((self.holes[key] for key in keys if key in self.holes), "")
        return found or next((why for key, why in self.holes.items() if prefix and key.startswith(prefix)), "")
