"""The program as a kernel rewrote it, held against the model's rewrite, site by site."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from model.isa.insn import Insn
from model.kernel.release import Release
from model.program import Program
from model.rewrite.direct_call import Decision, Kind
from model.rewrite.passes import Rewritten

CALL = 0x85
JUMPS = (5, 6)
"""BPF_JMP, BPF_JMP32: the low three bits of an opcode."""


@dataclass(frozen=True, slots=True)
class Read:
    """One site: what the model expects there and what the kernel has, as text. `agrees` None: nothing can be told."""

    slot: int
    helper: str
    expected: str
    found: str
    agrees: bool | None


def distances(insns: Iterable[Insn]) -> set[int]:
    """The immediates of all calls of kernel functions: address - __bpf_call_base."""
    return {insn.imm for insn in insns if insn.opcode == CALL and insn.src == 0}


def read(done: Rewritten, insns: Sequence[Insn], release: Release, names: Mapping[int, Sequence[str]]) -> list[Read]:
    """A `Read` for every site; `names` are those of functions by distance. Linear.

    Sites are found by their places: if another pass moved the program's jumps and calls, nothing is told of any.
    """
    aligned = _aligned(done.after, insns)
    found = []
    for decision in done.decisions:
        start, end = done.moved[decision.slot], done.moved[decision.slot + 1]
        if not aligned:
            text = f"another pass changed the program ({len(insns)} instructions, {len(done.after.insns)} expected)"
            found.append(Read(decision.slot, decision.helper, expected_text(decision, release), text, None))
        else:
            found.append(_site(decision, done, range(start, end), insns, release, names))
    return found


def _aligned(after: Program, insns: Sequence[Insn]) -> bool:
    if len(after.insns) != len(insns):
        return False
    pairs = zip(after.insns, insns, strict=True)
    return all(one.opcode == now.opcode for one, now in pairs if one.opcode & 7 in JUMPS or now.opcode & 7 in JUMPS)


def _site(
    decision: Decision,
    done: Rewritten,
    place: range,
    insns: Sequence[Insn],
    release: Release,
    names: Mapping[int, Sequence[str]],
) -> Read:
    expected = expected_text(decision, release)
    now = [insns[slot] for slot in place]
    match decision.kind:
        case Kind.DIRECT | Kind.STAYS:
            called = names.get(now[0].imm, ()) if now[0].src == 0 else ()
            wanted = functions_of(decision, release)
            shown = next(
                (name for name in called if name in wanted), called[0] if called else "a function without a name"
            )
            return Read(decision.slot, decision.helper, expected, shown, bool(set(called) & wanted))
        case Kind.INLINED:
            same = all(_same(done, slot, one, names) for slot, one in zip(place, now, strict=True))
            shown = "inlined" if same else "another sequence"
            return Read(decision.slot, decision.helper, expected, f"{shown}, {len(now)} instructions", same)
    return Read(decision.slot, decision.helper, expected, "not judged", None)


def _same(done: Rewritten, slot: int, now: Insn, names: Mapping[int, Sequence[str]]) -> bool:
    """But for what only a build of the kernel tells, all of an instruction."""
    model, reloc = done.after.insns[slot], done.relocs.get(slot)
    if (model.opcode, model.dst, model.src) != (now.opcode, now.dst, now.src):
        return False
    if reloc is None:
        return model == now
    if reloc.kind == "call":
        return reloc.symbol in names.get(now.imm, ())
    return model.off == now.off if reloc.kind == "offset" else model.imm == now.imm


def functions_of(decision: Decision, release: Release) -> set[str]:
    if decision.kind is Kind.DIRECT:
        return {str(decision.function)}
    helper = release.helpers.get(decision.helper)
    return {f"bpf_{decision.helper}", *([helper.function] if helper is not None else [])}


def expected_text(decision: Decision, release: Release) -> str:
    match decision.kind:
        case Kind.DIRECT:
            return str(decision.function)
        case Kind.INLINED:
            return f"inlined, {len(decision.patch.insns) if decision.patch else 0} instructions"
        case Kind.STAYS:
            return f"bpf_{decision.helper} ({decision.reason})"
    return f"{decision.kind.value}: {decision.reason}"
