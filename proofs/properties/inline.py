"""Inline(release, map type, map_lookup_elem): what `map_gen_lookup` emits does what the operation does.

For every key and every map that the release can allocate (`model.maps.allocation`). One side is the operation's C,
the other the emitted instructions, run one by one; both are data of the release. A function that the sequence calls
itself has an unknown body on both sides. With `inner`, the sequence is made for the template of an inner map and run
on any map that may stand in its place (`model.maps.templates`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from model.bits import B, Bits, W
from model.errors import Unsupported
from model.isa.insn import Insn
from model.kernel.abi import Abi
from model.kernel.c_body import Body, Integer, Pointer, Struct, Type, Void
from model.kernel.release import CType, Decline, Field, GenLookup, Prototype
from model.maps.allocation import ARRAYS, NAMES, STRUCTS, Parameters, Rule, bits_of, parameters
from model.maps.templates import compared, let_in, template
from model.memory import Outside
from model.semantics.c import Runner
from model.semantics.c_emit import Emitted, Emitter, Way
from model.semantics.c_state import Left, offset_of
from model.semantics.c_types import Value
from model.semantics.call import REGISTER, Callee, enter, in_register
from model.semantics.step import State
from model.world import World
from proofs.properties.inline_run import Sequencer

R0 = "r0/"  # one part for each way through the instructions: the solver is best at them one by one
WHOLE = ("callee_saved", "memory", "kernel", "callbacks")
REACH = "reach/"
DEAD = "dead/"
CLOBBER = (Insn(0x85), Insn(0xA7, 6, imm=1))
"""Faults to plant behind a sequence: a call of what is at __bpf_call_base, no function of a map; r6 ^= 1."""
# Values that a counterexample should have, best first: those at the edge of the type, and small ones.
SMALL = {"value_size": (1, 17), "map_flags": (0,), "bypass_spec_v1": (1,), "key_size": (1,)}
ENTRIES = (1 << 31, 1, 2)
KEYS = (1 << 31, 0, 1)
VARIABLES = {"map": "bpf_map", "array": "bpf_array"}  # C variables of the map_gen_lookup functions -> their structures


@dataclass(frozen=True, slots=True)
class Dead:
    """A path that no map of the type takes: `path` begins or holds this text; `reason` names the check that says so."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class Inline:
    """The claim. `allocation` has the rows that bound the map's parameters, `copied` the members that the template of
    an inner map has. `percpu` is what the JIT says of per-CPU instructions, `limit` the instructions that are too
    many for a patch, `inner` the `map_meta_equal` of the type for the claim on inner maps, "" for the map itself.
    `bounded` leaves maps of 2^31 entries or more out."""

    abi: Abi
    map_type: str
    allocation: tuple[Rule, ...]
    copied: tuple[str, ...]
    lookup: GenLookup
    operation: str
    bodies: tuple[Body, ...]
    layout: tuple[tuple[str, int], ...]
    percpu: bool
    limit: int
    inner: str = ""
    bounded: bool = False
    dead: tuple[Dead, ...] = ()
    extra: tuple[Insn, ...] = ()  # behind each sequence: not empty in a planted fault only

    def __call__(self, world: World[W, B]) -> Mapping[str, B]:
        b = world.bits(REGISTER)
        registers = tuple(world.fresh(f"r{i}", REGISTER) for i in range(11))
        before = Outside(world, world.fresh("memory", 64), world.fresh("kernel", 64), world.fresh("callbacks", 64))
        there, seen = self._parameters(world)
        operation, reached = self._operation(world, registers, before, there)
        ways = self._ways(world, seen)
        sequencer = Sequencer(world, self.abi, [_callee(body) for body in self.bodies if body.steps is None])
        ended: list[tuple[str, State[W, B]]] = []
        for way in ways:
            if way.errno:
                reached.append((f"declined/{_slug(way.label)}", way.guard))
                continue
            emitted = (*way.emitted, *(Emitted(insn, world.bits(32).const(insn.imm)) for insn in self.extra))
            ends = sequencer.ends(emitted, State(registers, before, 0, way.guard))
            label = _slug(way.label)
            ended += [(f"{label}/{i + 1}", end) for i, end in enumerate(ends)]
        reached += [(f"inlined/{label}", end.guard) for label, end in ended]
        self._show(world, registers, before, (there, seen), operation, ended)
        parts = self._equal(world, registers, operation, ended)
        self._index_lemma(world, before.load(registers[2], 4), there)
        kept = [way for way in ways if not way.errno]
        parts["fits"] = _none(world, [way.guard for way in kept if not 0 < len(way.emitted) < self.limit])
        parts["declines"] = _none(world, [way.guard for way in ways if way.errno not in ("", "EOPNOTSUPP")])
        for name, guard in reached:
            dead = self._is_dead(name)
            parts[(DEAD if dead else REACH) + name] = b.negate(guard) if dead else guard
        return parts

    def reason(self, part: str) -> str:
        return next((row.reason for row in self.dead if part.startswith(DEAD) and row.path in part), "")

    def planted(self, part: str) -> "Inline":
        """Each sequence with a call of unknown code at its end, r6 clobbered; a limit or an error that does not fit; an
        allocation without the checks that make a path dead.
        """
        if part.startswith(DEAD):
            return replace(self, allocation=())
        if part == "fits":
            return replace(self, limit=1)
        if part == "declines":
            return replace(self, lookup=replace(self.lookup, body=(Decline("EINVAL"),)))
        return replace(self, extra=CLOBBER)

    def _is_dead(self, path: str) -> bool:
        return any(row.path in path for row in self.dead)

    def _parameters(self, world: World[W, B]) -> tuple[Parameters[W], Parameters[W]]:
        """The map's members, and those that map_gen_lookup sees: the same, or an inner map's template's."""
        if not self.inner:
            there = parameters(world, self.map_type, "map")
            self._allocated(world, there)
            return there, there
        origin = parameters(world, self.map_type, "template")
        self._allocated(world, origin)
        seen = template(world, self.copied, origin)
        there = let_in(world, self.inner, self.map_type, seen)
        self._allocated(world, there)
        return there, seen

    def _allocated(self, world: World[W, B], words: Parameters[W]) -> None:
        for rule in self.allocation:
            world.assume(rule.source, rule.holds(world, words))
        if self.bounded:
            b = world.bits(bits_of("max_entries"))
            world.assume("the map has fewer than 2^31 entries", b.ult(words.max_entries, b.const(1 << 31)))

    def _operation(
        self, world: World[W, B], registers: Sequence[W], before: Outside[W, B], there: Parameters[W]
    ) -> tuple[Left[W, B], list[tuple[str, B]]]:
        """The operation's C, and each of its paths with its condition."""
        b = world.bits(REGISTER)
        layout = dict(self.layout)

        def loaded(struct: str, member: str, address: W, word: W) -> W:
            """A map's parameters do not change after its allocation, whatever else is written."""
            if STRUCTS.get(member) != struct:
                return word
            home = b.add(registers[1], offset_of(world, layout, struct, member))
            return world.bits(bits_of(member)).ite(b.eq(address, home), getattr(there, member), word)

        def unknown(
            body: Body, values: Sequence[Value[W]], outside: Outside[W, B]
        ) -> tuple[Value[W] | None, Outside[W, B]]:
            callee = _callee(body)
            handed = [
                in_register(world, self.abi.argument, value.word, ctype, f"operation: argument {i}, upper bits")
                for i, (value, ctype) in enumerate(zip(values, callee.prototype.params, strict=True))
            ]
            done = enter(world, self.abi, callee, handed, outside, "operation")
            if isinstance(body.result, Void):
                return None, done.outside
            word = b.extract(done.register, callee.prototype.result.bits - 1, 0)
            return Value(body.result, word), done.outside

        runner = Runner(world, {body.function: body for body in self.bodies}, layout, unknown, loaded)
        arguments = [Value(Pointer(Struct("bpf_map")), registers[1]), Value(Pointer(Void()), registers[2])]
        left = runner.call(self.operation, arguments, before, b.true())
        if left.value is None or not isinstance(left.value.type, Pointer):
            raise Unsupported(f"{self.operation} returns no pointer")
        return left, [(f"operation/{_slug((name,))}", guard) for name, guard in _merged(b, runner.leaves)]

    def _index_lemma(self, world: World[W, B], key: W, there: Parameters[W]) -> None:
        """`IndexMask`, for this map and key: follows from the rows assumed, and spares the solver the search."""
        if self.map_type in ARRAYS:
            world.assume("lemma: an index in bounds keeps its bits", index_kept(world, key, there))

    def _ways(self, world: World[W, B], seen: Parameters[W]) -> list[Way[W, B]]:
        def member(field: Field) -> Value[W]:
            variable, _, name = field.path.partition(".")
            if STRUCTS.get(name) is None or VARIABLES.get(variable) not in ("bpf_array", STRUCTS[name]):
                raise Unsupported(f"no parameter of a map: {field.path}")
            if field.bits != bits_of(name) or field.signed:
                raise Unsupported(f"{field.path} has another type than {name} is known to have")
            return Value(Integer(field.bits, False, field.bits == 8), getattr(seen, name))

        return Emitter(world, dict(self.layout), member, self.percpu).ways(self.lookup)

    def _equal(
        self,
        world: World[W, B],
        registers: Sequence[W],
        operation: Left[W, B],
        ended: Sequence[tuple[str, State[W, B]]],
    ) -> dict[str, B]:
        b = world.bits(REGISTER)
        assert operation.value is not None
        result = operation.value.word
        parts: dict[str, list[B]] = {part: [] for part in WHOLE}
        alone: dict[str, B] = {}
        for label, end in ended:
            outside: Any = end.memory
            kept = b.conj(*[b.eq(registers[i], end.registers[i]) for i in range(6, 11)])
            for part, equal in (
                ("callee_saved", kept),
                ("memory", b.eq(operation.outside.memory, outside.memory)),
                ("kernel", b.eq(operation.outside.kernel, outside.kernel)),
                ("callbacks", b.eq(operation.outside.callbacks, outside.callbacks)),
            ):
                parts[part].append(b.disj(b.negate(end.guard), equal))
            if not self._is_dead(f"inlined/{label}"):  # of a path that no map takes, `dead/` says all there is
                alone[f"{R0}{label}"] = b.disj(b.negate(end.guard), b.eq(result, end.registers[0]))
        return alone | {part: b.conj(*conditions) for part, conditions in parts.items()}

    def _show(
        self,
        world: World[W, B],
        registers: Sequence[W],
        before: Outside[W, B],
        maps: tuple[Parameters[W], Parameters[W]],
        operation: Left[W, B],
        ended: Sequence[tuple[str, State[W, B]]],
    ) -> None:
        """The map, the key and both results; small and round values are easier to read."""
        b = world.bits(REGISTER)
        assert operation.value is not None
        free = bool(self.inner) and "max_entries" not in compared(self.inner)  # so that it is what can differ
        whose = ("map", "template") if self.inner else ("map",)
        small = SMALL | {"max_entries": ENTRIES[1:] if free else ENTRIES}
        for name in NAMES:
            for label, words in zip(whose, maps, strict=False):
                bits, word = world.bits(bits_of(name)), getattr(words, name)
                world.show(f"{label}->{name}", bits.width, word)
                for value in small.get(name, ()):
                    world.prefer(bits.eq(word, bits.const(value)))
        narrow = world.bits(32)
        key = before.load(registers[2], 4)
        world.show("the key's first 4 bytes", 32, key)
        for value in KEYS[1:] if free else KEYS:
            world.prefer(narrow.eq(key, narrow.const(value)))
        result = b.const(0)
        for _, end in ended:
            result = b.ite(end.guard, end.registers[0], result)
        world.show("operation: r0", REGISTER, operation.value.word)
        world.show("inlined: r0", REGISTER, result)
        world.prefer(b.eq(registers[1], b.const(0xFFFF888100000000)))
        world.prefer(b.eq(registers[2], b.const(0xFFFFC90000000000)))


def index_kept(world: World[W, B], key: W, there: Parameters[W]) -> B:
    """key < max_entries gives key & index_mask == key."""
    b = world.bits(32)
    inside = b.ult(key, there.max_entries)
    return b.disj(b.negate(inside), b.eq(b.bvand(key, there.index_mask), key))


@dataclass(frozen=True, slots=True)
class IndexMask:
    """The lemma that claims on arrays use: an index in bounds keeps its bits under index_mask."""

    map_type: str
    more: int = 0  # entries that the mask is not made for: not 0 in a planted fault only

    def __call__(self, world: World[W, B]) -> Mapping[str, B]:
        b = world.bits(32)
        there = parameters(world, self.map_type, "map")
        there = replace(there, max_entries=b.add(there.max_entries, b.const(self.more)))
        return {"index_mask": index_kept(world, world.fresh("key", 32), there)}

    def reason(self, part: str) -> str:
        return ""

    def planted(self, part: str) -> "IndexMask":
        return replace(self, more=1)


def _merged(b: Bits[W, B], leaves: Sequence[tuple[str, B]]) -> list[tuple[str, B]]:
    """Each label once, with the condition that one of its paths is taken."""
    table: dict[str, list[B]] = {}
    for label, guard in leaves:
        table.setdefault(label, []).append(guard)
    return [(label, b.disj(*guards)) for label, guards in table.items()]


def _none(world: World[W, B], wrong: Sequence[B]) -> B:
    """None of `wrong` holds."""
    b = world.bits(REGISTER)
    return b.conj(b.true(), *[b.negate(condition) for condition in wrong])


def _slug(label: Sequence[str]) -> str:
    """A path's label without blanks, for names."""
    return ",".join(part.removeprefix("not !") for part in label).replace(" ", "-") or "always"


def _callee(body: Body) -> Callee:
    return Callee(body.function, Prototype(_ctype(body.result), tuple(_ctype(param.type) for param in body.params)))


def _ctype(kind: Type) -> CType:
    match kind:
        case Integer(bits, signed, _):
            return CType("", bits, signed)
        case Pointer(_):
            return CType("", REGISTER, False, True)
        case Void():
            return CType("", 0, False)
    raise Unsupported(f"an argument or result of type {kind}")
