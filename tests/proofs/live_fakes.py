"""A kernel that is none: what it would read back is made of the model's rewrite, and can be damaged."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from model.facts import analyse
from model.isa.insn import Insn
from model.kernel.abi import ABIS
from model.kernel.data import load_release
from model.loaders import assembly
from model.loaders.kernel_btf import KernelTypes
from model.loaders.kernel_symbols import Symbols
from model.loaders.live_object import Loaded
from model.loaders.live_xlated import ReadBack, program
from model.program import MapRef, Program
from model.rewrite.config import Config
from model.rewrite.passes import Rewritten, rewrite
from proofs.claims import Claims
from proofs.live_check import Answer, Asked, compared
from proofs.live_equivalence import no_claim
from proofs.solver import Solver

RELEASE = load_release("6.12")
BASE = 0xFFFFFFFF81000000
OFFSETS = {"struct bpf_array.value": 304, "struct htab_elem.key": 48}
Damage = Callable[[list[Insn]], None]


class Types(KernelTypes):
    """Of a kernel of which nothing but `OFFSETS` is known."""

    def __init__(self) -> None:
        self.file = "no kernel"

    def offset(self, struct: str, member: str) -> int | None:
        return OFFSETS.get(f"struct {struct}.{member}")


@dataclass(frozen=True, slots=True)
class Made:
    """A program, the model's rewrite of it, and the symbols under which its calls are found."""

    before: Program
    done: Rewritten
    symbols: Symbols
    distances: Mapping[str, int]


CLAIMS = Claims(RELEASE, ABIS["x86_64"], Solver(20))
NAMES = sorted({name for table in RELEASE.ops.values() for name in table.slots.values()} | set(CLAIMS.symbols))
DISTANCES = {name: 64 * (number + 16) for number, name in enumerate(NAMES)}
SYMBOLS = Symbols([(BASE, "__bpf_call_base"), *((BASE + at, name) for name, at in DISTANCES.items())])


def made(text: str) -> Made:
    before = assembly.load(text, "case", RELEASE.helper_ids).programs[0]
    insns = list(before.insns)
    for slot, ref in before.refs.items():
        if isinstance(ref, MapRef):
            insns[slot] = replace(insns[slot], imm=0)
    before = replace(before, insns=tuple(insns))
    return Made(before, rewrite(before, analyse(before, RELEASE), RELEASE, Config()), SYMBOLS, DISTANCES)


def insns_of(given: Made) -> list[Insn]:
    """As the kernel would show them: map ids from 100, distances of functions, offsets, subprograms by number."""
    found = list(given.done.after.insns)
    for slot, reloc in given.done.relocs.items():
        if reloc.kind == "call":
            found[slot] = replace(found[slot], imm=given.distances[reloc.symbol])
        else:
            add = sum(OFFSETS.get(part, 0) for part in reloc.symbol.split(" + "))
            found[slot] = replace(found[slot], imm=found[slot].imm + add)
    for slot, ref in given.done.after.refs.items():
        if isinstance(ref, MapRef):
            found[slot] = replace(found[slot], imm=100 + ref.map)
    for slot, insn in enumerate(found):
        if insn.opcode == 0x85 and insn.src == 1:
            found[slot] = replace(insn, off=insn.imm, imm=1)
    return found


def answer(
    text: str,
    damage: Damage = lambda insns: None,
    *,
    moved: tuple[int, ...] | None = None,
    removed: frozenset[int] = frozenset(),
) -> Answer:
    """What is said of the program if the kernel reads back the model's own rewrite, `damage`d."""
    given = made(text)
    insns = insns_of(given)
    damage(insns)
    read = ReadBack(tuple(insns), given.done.moved if moved is None else moved, removed)
    ids = {100 + number: number for number in range(len(given.before.maps))}
    after = program(given.before, read, ids, SYMBOLS, frozenset(CLAIMS.symbols))
    asked = Asked(CLAIMS, no_claim, Config(), Types(), SYMBOLS)
    return compared(Loaded(given.before, after, read, -1), asked)
