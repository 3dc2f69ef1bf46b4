"""Programs as listings: the kernel's syntax, one line a slot, before and after side by side, or as bytes."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from model.isa.codec import encode
from model.isa.text import format_insn
from model.kernel.release import Release
from model.program import ExternRef, Form, MapRef, Program, SymbolRef
from model.rewrite.passes import Rewritten
from model.rewrite.patch import Reloc

WIDE = 0x18


def operand(program: Program, slot: int, helpers: Mapping[int, str]) -> str | None:
    """The name in the text of a slot: a call's target, or what a 64-bit load takes the address of."""
    insn = program.insns[slot]
    match program.refs.get(slot):
        case MapRef(index, offset):
            found = program.maps[index]
            name = f"map[id:{found.id}]" if found.id is not None else f"map[{found.name}]"
            return name if offset is None else f"{name}[0]+{offset}"
        case SymbolRef(name):
            return name
        case ExternRef(name, kind, _):
            return name if insn.opcode != WIDE else f"extern[{kind}:{name}]"
    if insn.opcode == 0x85 and insn.src == 0 and program.form is Form.OBJECT:
        return f"bpf_{helpers[insn.imm]}" if insn.imm in helpers else None
    if insn.opcode == 0x85 and insn.src == 1:
        target = slot + 1 + insn.imm
        return next((row.name for row in program.subprograms if row.start == target), None)
    return None


def line(program: Program, slot: int, helpers: Mapping[int, str], reloc: Reloc | None = None) -> str:
    """The text of one slot, index in front: "149: (85) call bpf_for_each_map_elem#164"."""
    insn = program.insns[slot]
    high = program.insns[slot + 1].imm if insn.opcode == WIDE and slot + 1 < len(program.insns) else 0
    name = operand(program, slot, helpers)
    unlinked = reloc is not None and reloc.kind == "call"
    imm_name = off_name = None
    if reloc is not None and reloc.kind == "offset":
        imm_name = _sum(reloc.symbol, insn.imm)
    if reloc is not None and reloc.kind == "displacement":
        off_name = _sum(reloc.symbol, insn.off)
    text = format_insn(insn, high, name, number=not unlinked, imm_name=imm_name, off_name=off_name)
    return f"{program.base + slot:4d}: {text}"


def _sum(symbol: str, rest: int) -> str:
    """`offsetof(struct bpf_array, value)` for "struct bpf_array.value", with what is added to it."""
    members = []
    for term in symbol.split(" + "):
        struct, _, member = term.partition(".")
        members.append(f"offsetof({struct}, {member})" if member else term)
    return " + ".join(members + ([str(rest)] if rest else []))


def slots(program: Program) -> Iterator[int]:
    """The slots that a listing shows: all but the second ones of 64-bit loads."""
    second = False
    for slot, insn in enumerate(program.insns):
        if not second:
            yield slot
        second = not second and insn.opcode == WIDE


def helper_names(release: Release) -> dict[int, str]:
    return {number: name for name, number in release.helper_ids.items()}


def side_by_side(done: Rewritten, release: Release) -> Iterator[str]:
    """Before left, after right; `|` marks lines that a patch changed, `>` those that it added."""
    before, after, helpers = done.before, done.after, helper_names(release)
    left = {slot: line(before, slot, helpers) for slot in slots(before)}
    width = max((len(text) for text in left.values()), default=0)
    patched = {decision.slot for decision in done.decisions if decision.patch is not None}
    names = {row.start: row.name for row in before.subprograms}
    for slot, text in left.items():
        if slot in names:
            yield f"{names[slot]}:"
        if slot in before.lines:
            yield f"; {before.lines[slot].text.strip()}"
        start, end = done.moved[slot], done.moved[slot + 1]
        mark = "|" if slot in patched else " "
        yield f"{text:<{width}} {mark} {line(after, start, helpers, done.relocs.get(start))}"
        if slot in patched:
            for extra in range(start + 1, end):
                yield f"{'':<{width}} > {line(after, extra, helpers, done.relocs.get(extra))}"


def assembly(done: Rewritten, release: Release) -> Iterator[str]:
    """The program after, as text in the kernel's syntax."""
    helpers = helper_names(release)
    names = {row.start: row.name for row in done.after.subprograms}
    for slot in slots(done.after):
        if slot in names:
            yield f"{names[slot]}:"
        yield line(done.after, slot, helpers, done.relocs.get(slot))


def hexadecimal(done: Rewritten) -> Iterator[str]:
    """The bytes of the program after, 16 digits a slot; what is only known by name has its name behind."""
    for slot, insn in enumerate(done.after.insns):
        reloc = done.relocs.get(slot)
        name = operand(done.after, slot, {}) if insn.opcode == WIDE else None
        note = f"  {reloc.kind} {reloc.symbol}" if reloc is not None else f"  {name}" if name else ""
        yield encode((insn,)).hex() + note


def as_json(done: Rewritten, release: Release) -> dict[str, Any]:
    """Both programs as data: slots with their text and bytes, relocations, decisions, and where each slot went."""
    helpers = helper_names(release)

    def side(program: Program, relocs: Mapping[int, Reloc]) -> list[dict[str, Any]]:
        rows = []
        for slot in slots(program):
            wide = program.insns[slot].opcode == WIDE
            insns: Sequence[Any] = program.insns[slot : slot + (2 if wide else 1)]
            row: dict[str, Any] = {
                "slot": slot,
                "text": line(program, slot, helpers, relocs.get(slot)).partition(": ")[2],
                "bytes": encode(tuple(insns)).hex(),
            }
            if slot in relocs:
                row["relocation"] = {"kind": relocs[slot].kind, "symbol": relocs[slot].symbol}
            rows.append(row)
        return rows

    decisions = [
        {
            "slot": decision.slot,
            "helper": decision.helper,
            "kind": decision.kind.value,
            "function": decision.function,
            "reason": decision.reason,
            "maps": [pointer.map.name for pointer in decision.pointers],
        }
        for decision in done.decisions
    ]
    return {
        "program": done.before.name,
        "section": done.before.section,
        "before": side(done.before, {}),
        "after": side(done.after, done.relocs),
        "moved": list(done.moved),
        "decisions": decisions,
    }
