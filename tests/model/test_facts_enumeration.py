"""Facts against runs: every map that some run of a small program brings to a call is among the facts."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import cycle, product

from hypothesis import given, note
from hypothesis import strategies as st
from test_facts import release

from model.facts import Facts, analyse
from model.isa.insn import Insn
from model.program import Map, MapRef, Program, Subprogram

MAPS = (
    Map("a", "array", 4, 8, 1, 0),
    Map("b", "hash", 4, 8, 1, 0),
    Map("outer", "hash_of_maps", 4, 4, 1, 0, inner=Map("template", "hash", 4, 8, 1, 0)),
)
DRAWN = (0, 1, 2, 3, 4, 5, 6, 7, 8, 1 << 63, (1 << 64) - 1)
POINTER = 0xFFFF888000000000
MASK = (1 << 64) - 1

Word = int | str | None
Op = tuple[str, int, int, int]


class Refused(Exception):
    """The verifier would refuse the program, because of what this path does."""


@dataclass
class Run:
    """One run of a list of operations with the numbers that the random helper returns; `seen` maps op -> map name."""

    ops: list[Op]
    numbers: Iterator[int]
    drawn: int = 0
    seen: dict[tuple[int, str], None] = field(default_factory=dict)

    def go(self, at: int, stop: int, regs: dict[int, Word]) -> None:
        stack: dict[int, Word] = {}
        regs = dict(regs)
        while at < stop:
            kind, a, b, c = self.ops[at]
            at += 1
            match kind:
                case "map":
                    regs[a] = MAPS[b].name
                case "move":
                    regs[a] = self.read(regs, b)
                case "number":
                    regs[a] = b & MASK
                case "add" | "and":
                    value = self.number(regs, a)
                    regs[a] = (value + b if kind == "add" else value & b) & MASK
                case "random":
                    regs[a] = next(self.numbers)
                    self.drawn += 1
                case "spill":
                    stack[b] = self.read(regs, a)
                case "fill":
                    regs[a] = self.read(stack, b)
                case "poke":
                    stack[b] = None
                case "equal" | "differ" | "above":
                    at += c if self.taken(kind, regs, a, b) else 0
                case "lookup":
                    self.lookup(at - 1, regs, a)
                case "use":
                    self.go(stop, len(self.ops), {6: self.read(regs, a)})

    def read(self, store: dict[int, Word], key: int) -> Word:
        value = store.get(key)
        if value is None:
            raise Refused
        return value

    def number(self, regs: dict[int, Word], reg: int) -> int:
        value = self.read(regs, reg)
        if not isinstance(value, int):
            raise Refused
        return value

    def taken(self, kind: str, regs: dict[int, Word], reg: int, right: int) -> bool:
        value = self.read(regs, reg)
        left = POINTER if isinstance(value, str) else value
        assert left is not None
        return {"equal": left == right, "differ": left != right, "above": left > right}[kind]

    def lookup(self, at: int, regs: dict[int, Word], reg: int) -> None:
        value = self.read(regs, reg)
        if not isinstance(value, str):
            raise Refused
        self.seen[at, value] = None
        regs[0] = "template" if value == "outer" else None


def lowered(ops: list[Op], split: int) -> tuple[Program, dict[int, int]]:
    """The operations as instructions; call slot -> operation.

    The second function begins with operation `split` and takes its map from r1.
    """
    sizes = [{"map": 2, "random": 2, "lookup": 5, "use": 2}.get(op[0], 1) for op in ops]
    starts = [sum(sizes[:index]) for index in range(len(ops) + 1)]
    second = starts[split] + 1
    insns: list[Insn] = []
    refs = {}
    sites = {}
    for index, (kind, a, b, c) in enumerate(ops):
        if index == split:
            insns += [Insn(0x95), Insn(0xBF, 6, 1)]
        at = len(insns)
        match kind:
            case "map":
                refs[at] = MapRef(b)
                insns += [Insn(0x18, a, 1), Insn(0)]
            case "move":
                insns += [Insn(0xBF, a, b)]
            case "number" | "add" | "and":
                insns += [Insn({"number": 0xB7, "add": 0x07, "and": 0x57}[kind], a, imm=b)]
            case "random":
                insns += [Insn(0x85, imm=7), Insn(0xBF, a, 0)]
            case "spill":
                insns += [Insn(0x7B, 10, a, b)]
            case "fill":
                insns += [Insn(0x79, a, 10, b)]
            case "poke":
                insns += [Insn(0x72, 10, 0, b + 3, 1)]
            case "equal" | "differ" | "above":
                target = starts[index + 1 + c] + (2 if index >= split else 0)
                insns += [Insn({"equal": 0x15, "differ": 0x55, "above": 0x25}[kind], a, 0, target - at - 1, b)]
            case "lookup":
                key = [Insn(0xBF, 1, a), Insn(0xBF, 2, 10), Insn(0x07, 2, imm=-64), Insn(0x7A, 2)]
                insns += [*key, Insn(0x85, imm=1)]
                sites[at + 4] = index
            case "use":
                insns += [Insn(0xBF, 1, a), Insn(0x85, 0, 1, 0, second - at - 2)]
    insns += [Insn(0x95)]
    program = Program("p", tuple(insns), maps=MAPS, refs=refs, subprograms=(Subprogram("p", 0, len(insns)),))
    return program, sites


REGISTERS = st.sampled_from((6, 7, 8, 9))
SLOTS = st.sampled_from((-8, -16))
NUMBERS = st.sampled_from((0, 1, 2, 5, 7))


def operations(jumps: int, calls: bool) -> st.SearchStrategy[Op]:
    plain = [
        st.tuples(st.just("map"), REGISTERS, st.integers(0, 2), st.just(0)),
        st.tuples(st.just("map"), st.just(6), st.integers(0, 2), st.just(0)),
        st.tuples(st.just("move"), REGISTERS, REGISTERS | st.just(0), st.just(0)),
        st.tuples(st.just("number"), REGISTERS, NUMBERS, st.just(0)),
        st.tuples(st.just("add"), REGISTERS, NUMBERS, st.just(0)),
        st.tuples(st.just("and"), REGISTERS, st.sampled_from((1, 3, 6)), st.just(0)),
        st.tuples(st.just("random"), REGISTERS, st.just(0), st.just(0)),
        st.tuples(st.sampled_from(("spill", "fill")), REGISTERS, SLOTS, st.just(0)),
        st.tuples(st.just("poke"), st.just(0), SLOTS, st.just(0)),
        st.tuples(st.just("lookup"), REGISTERS, st.just(0), st.just(0)),
    ]
    branch = st.tuples(st.sampled_from(("equal", "differ", "above")), REGISTERS, NUMBERS, st.integers(0, jumps))
    use = [st.tuples(st.just("use"), REGISTERS, st.just(0), st.just(0))] if calls else []
    return st.one_of(*plain, branch, branch, *use)


@st.composite
def programs(draw: st.DrawFn) -> tuple[list[Op], int]:
    """Operations of the entry and of the function that "use" calls, with its first operation's number."""
    start: list[Op] = [("random", 9, 0, 0), ("map", 6, 0, 0), ("map", 7, 1, 0), ("number", 8, 1, 0)]
    entry = start + draw(st.lists(operations(4, True), max_size=12)) + [("lookup", draw(REGISTERS), 0, 0)]
    callee: list[Op] = [("move", 7, 6, 0), *draw(st.lists(operations(3, False), max_size=5)), ("lookup", 6, 0, 0)]
    ops: list[Op] = []
    for part in (entry, callee):
        for index, (kind, a, b, c) in enumerate(part):
            ops.append((kind, a, b, min(c, len(part) - index - 1)))
    return ops, len(entry)


def runs(ops: list[Op], split: int) -> Iterator[tuple[dict[tuple[int, str], None], bool]]:
    """What each run sees, and whether nothing follows from what no run sees: refused, or too many numbers drawn."""
    for numbers in product(DRAWN, repeat=min(sum(op[0] == "random" for op in ops), 2)):
        run = Run(ops, cycle(numbers))
        try:
            run.go(0, split, {})
        except Refused:
            yield run.seen, True
        else:
            yield run.seen, run.drawn > 2


def known(facts: Facts, sites: dict[int, int]) -> dict[int, set[str]]:
    return {sites[slot]: {pointer.map.name for pointer in site.pointers} for slot, site in facts.sites.items()}


@given(programs())
def test_every_map_that_a_run_brings_is_known(case: tuple[list[Op], int]) -> None:
    ops, split = case
    program, sites = lowered(ops, split)
    facts = analyse(program, release())
    found = known(facts, sites)
    note(f"{ops} {found}")
    seen: dict[tuple[int, str], None] = {}
    partial = False
    for brought, more in runs(ops, split):
        seen |= brought
        partial |= more
    for operation, name in seen:
        assert name in found[operation]
    if partial:
        return
    for slot, site in facts.sites.items():
        if site.sure_poison:
            assert len({name for operation, name in seen if operation == sites[slot]}) > 1
