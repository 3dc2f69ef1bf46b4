"""From the decoded rows of one dump to a `Program`: subprograms, maps, symbols, and what the dump withholds."""

from collections.abc import Mapping
from dataclasses import replace

from model.errors import InputError
from model.isa.insn import Insn
from model.loaders.xlated_calls import resolve, symbol_function
from model.loaders.xlated_rows import CALL, LD_IMM64, Listing
from model.program import Form, Map, MapRef, Program, Ref, Subprogram, SymbolRef

_JA, _JA32, _GOTOX, _EXIT = 0x05, 0x06, 0x0D, 0x95
# What a call prints in place of a symbol: the disassembler's names of helper 0, of none, and of a kfunc
# (kernel/bpf/disasm.c, `__func_get_name`), and the symbol at distance 0 from the call base.
NO_SYMBOL = frozenset({"", "unknown", "bpf_unspec", "kernel-function", "__bpf_call_base"})
_MAP_SOURCES = {1: 1, 2: 2, 5: 1, 6: 2}  # pseudo source of a 64-bit load -> 1 (map) or 2 (value); 5, 6 name it by index


def build(listing: Listing, file: str, maps: Mapping[int, Map], number: int) -> Program:
    """The `number`th program of the file, from 0. Raises `InputError` on targets that no dump can hold."""
    targets = resolve(listing, file)
    cut = _jumps_leave(listing, file) | any(not 0 <= t < len(listing.insns) for t in targets.values())
    fragment = listing.base != 0 or cut or _falls_through(listing)
    name = listing.functions.get(0) or listing.header.name or ("program" if number == 0 else f"program#{number + 1}")
    used, refs = _refs(listing, maps)
    hidden, notes = _withheld(listing, refs)
    if fragment and listing.base == 0:
        notes = (*notes, "the listing does not hold the whole program: it ends early or jumps leave it")
    subprograms = _subprograms(listing, targets, name)
    return Program(
        name=name,
        insns=tuple(listing.insns),
        maps=used,
        subprograms=subprograms,
        refs=refs,
        lines=listing.lines,
        form=Form.XLATED,
        type=listing.header.type,
        base=listing.base,
        fragment=fragment,
        hidden=hidden,
        notes=notes,
        entries=() if fragment else _entries(subprograms, targets),
    )


def _distance(insn: Insn) -> int | None:
    """Of a jump, from the next slot; None for what does not jump (RFC 9669, section 4.3; may_goto is opcode 0xe5)."""
    if insn.opcode & 7 not in (5, 6) or insn.opcode in (CALL, _EXIT, _GOTOX) or insn.opcode == 0x8D:
        return None
    return insn.imm if insn.opcode == _JA32 else insn.off


def _jumps_leave(listing: Listing, file: str) -> bool:
    """Whether a jump goes behind the listing or before its base."""
    size, base, leaves = len(listing.insns), listing.base, False
    insns = listing.insns
    for slot, insn in enumerate(insns):
        distance = _distance(insn)
        if distance is None:
            continue
        target = slot + 1 + distance
        if not 0 <= target < size:
            leaves = True
            if target + base < 0:
                raise InputError(file, listing.places[slot], f"expected a target from slot 0 on, found {target + base}")
        elif target and insns[target - 1].opcode == LD_IMM64:
            expected = f"expected a jump to an instruction, slot {target + base} is the second half of a 64-bit load"
            raise InputError(file, listing.places[slot], expected)
    return leaves


def _falls_through(listing: Listing) -> bool:
    """A whole program ends in exit or a jump (kernel/bpf/verifier.c, `check_subprogs`)."""
    return listing.insns[-1].opcode not in (_EXIT, _JA, _JA32, _GOTOX)


def _subprograms(listing: Listing, targets: Mapping[int, int], name: str) -> tuple[Subprogram, ...]:
    size = len(listing.insns)
    names = dict(listing.functions)
    for slot, target in targets.items():
        if 0 <= target < size and target not in names:
            symbol = symbol_function(listing.names.get(slot, ""))
            names[target] = symbol or f"subprog@{target + listing.base}"
    if listing.base == 0:
        names.setdefault(0, name)
    elif names:
        names.setdefault(0, f"part@{listing.base}")  # the end of a function that starts before the fragment
    if not names:
        return ()
    starts = sorted(names)
    ends = [*starts[1:], size]
    return tuple(Subprogram(names[start], start, end) for start, end in zip(starts, ends, strict=True))


def _entries(subprograms: tuple[Subprogram, ...], targets: Mapping[int, int]) -> tuple[int, ...]:
    """What nothing in the program names: the kernel has dropped what it did not verify, so it enters that by itself."""
    named = {0, *targets.values()}
    return tuple(subprogram.start for subprogram in subprograms if subprogram.start not in named)


def _refs(listing: Listing, maps: Mapping[int, Map]) -> tuple[tuple[Map, ...], dict[int, Ref]]:
    used: list[Map] = []
    number_of: dict[str, int] = {}
    refs: dict[int, Ref] = {}
    for slot, insn in enumerate(listing.insns):
        if insn.opcode == LD_IMM64 and insn.src in _MAP_SOURCES:
            id = insn.imm & 0xFFFFFFFF
            by_id = insn.src in (1, 2)
            name = f"map[id:{id}]" if by_id else f"map[idx:{id}]"
            if name not in number_of:
                number_of[name] = len(used)
                used.append((maps.get(id) if by_id else None) or Map(name, None, id=id if by_id else None))
            source = _MAP_SOURCES[insn.src]
            if source != insn.src:
                listing.insns[slot] = replace(insn, src=source)
            offset = listing.insns[slot + 1].imm & 0xFFFFFFFF if source == 2 else None
            refs[slot] = MapRef(number_of[name], offset)
        elif insn.opcode == CALL and insn.src != 1:
            name = listing.names.get(slot, "")
            if name not in NO_SYMBOL and not name.startswith("0x"):
                refs[slot] = SymbolRef(name)
    return tuple(used), refs


def _withheld(listing: Listing, refs: Mapping[int, Ref]) -> tuple[bool, tuple[str, ...]]:
    """Whether call immediates are withheld, and notes on this and on what else the dump leaves open.

    A kernel that may not show addresses puts 0 into every call's immediate (kernel/bpf/syscall.c,
    `bpf_insn_prepare_dump`), except of tail calls, which it prints as helper 12. 0 is no target that a
    call can have: helper 0 is none, and distance 0 is `__bpf_call_base` itself.
    """
    calls = withheld = unnamed = 0
    for slot, insn in enumerate(listing.insns):
        if insn.opcode == CALL and insn.src != 1:
            calls += 1
            if slot not in refs:
                withheld += insn.imm == 0
                unnamed += insn.imm != 0
    notes = []
    if withheld:
        notes.append(
            f"the kernel withheld the target of {withheld} of {calls} calls (restricted kernel pointers): "
            "what they call cannot be told"
        )
    if unnamed:
        notes.append(f"{unnamed} of {calls} calls go to an address that the dump has no symbol for")
    if listing.doubtful:
        # kernel/bpf/disasm.c of 6.1 does not look at the offset, in which 6.10 and later put BPF_ADDR_PERCPU.
        slot = listing.base + listing.doubtful[0]
        notes.append(
            f"slot {slot} moves a register to itself: a bpftool older than the kernel prints a per-CPU address so; "
            "a dump with `opcodes` would tell"
        )
    return withheld > 0, tuple(notes)
