"""Where the calls of subprograms in a dump go.

A dump shows the kernel's working copy of a program, in which a call of a subprogram (source 1) means:

| off | imm | of what, in kernel/bpf |
|---|---|---|
| relative target, cut to 16 bits | index of the subprogram | a JITed program (verifier.c, `jit_subprogs`, 6.1) |
| the same, 0 where 16 bits are too few | index | 7.3 (syscall.c, `prepare_dump_pseudo_call`) |
| relative target, cut to 16 bits | address | an interpreted program (core.c, `bpf_patch_call_args`, 6.1) |
| as above | 0 | restricted kernel pointers (syscall.c, `bpf_insn_prepare_dump`) |
| index of the subprogram | relative target | 7.3's working copy itself (fixups.c, `bpf_jit_subprogs`) |
| 0 | relative target | a program that the kernel left as it was (offloaded) |

Relative is to the next slot. Offset 0 is never a target: a function does not end in a call. What the table
leaves open is settled by where functions start, which a dump with BTF shows.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from model.errors import InputError
from model.isa.insn import Insn
from model.loaders.xlated_rows import CALL, LD_IMM64, Listing

_REACH = 1 << 16  # values of a 16-bit offset


@dataclass(frozen=True, slots=True)
class Functions:
    """Where functions start in a program of `size` slots: sorted slots, the same as a set, slots by name."""

    size: int
    starts: Sequence[int]
    known: frozenset[int]
    named: dict[str, list[int]]


def functions(listing: Listing) -> Functions:
    known = set(listing.functions)
    if listing.base == 0:
        known.add(0)
    named: dict[str, list[int]] = {}
    for slot, name in listing.functions.items():
        named.setdefault(name, []).append(slot)
    return Functions(len(listing.insns), sorted(known), frozenset(known), named)


def resolve(listing: Listing, file: str) -> dict[int, int]:
    """Call or callback load (slot) -> target (slot); outside of the listing only where that is a fragment.

    Rewrites the listing's instructions to `imm` relative to the next slot and nothing else. Raises
    `InputError` where a dump from slot 0 on does not tell a call's target.
    """
    known = functions(listing)
    targets: dict[int, int] = {}
    for slot, insn in enumerate(listing.insns):
        if insn.opcode == CALL and insn.src == 1:
            target = _target(slot, insn, listing, known)
            if target is None:
                expected = "expected a call whose target the dump tells (with `opcodes` it may tell more)"
                raise InputError(file, listing.places[slot], expected)
            listing.insns[slot] = Insn(CALL, insn.dst, 1, 0, target - slot - 1)
        elif insn.opcode == LD_IMM64 and insn.src == 4:
            # kernel/bpf/verifier.c, jit_subprogs: imm as at load; the second half keeps the subprogram's index.
            target = slot + 1 + insn.imm
            listing.insns[slot + 1] = Insn(0)
        else:
            continue
        _check(slot, target, listing, file)
        targets[slot] = target
    return targets


def _target(slot: int, insn: Insn, listing: Listing, known: Functions) -> int | None:
    """A known function's start if the table allows one; else the plain reading (no BTF, or outside of a fragment)."""
    for target in _candidates(slot, insn, listing, known):
        if target in known.known:
            return target
    if insn.off:
        return slot + 1 + insn.off
    return slot + 1 + insn.imm if insn.imm and slot not in listing.blind else None


def _candidates(slot: int, insn: Insn, listing: Listing, known: Functions) -> Iterator[int]:
    after = slot + 1
    starts = known.starts
    index = 0 if slot in listing.blind or not 0 < insn.imm < len(starts) else insn.imm
    relative = 0 if slot in listing.blind else insn.imm
    if insn.off:
        yield after + insn.off
        if 0 < insn.off < len(starts) and relative and starts[insn.off] == after + relative:
            yield after + relative
        wrapped = [t for t in range((after + insn.off) % _REACH, known.size, _REACH) if t in known.known]
        if len(wrapped) == 1:
            yield wrapped[0]
        if index and starts[index] in wrapped:
            yield starts[index]
        return
    if index and not -_REACH // 2 <= starts[index] - after < _REACH // 2:
        yield starts[index]
    if relative:
        yield after + relative
    yield from _by_name(listing.names.get(slot, ""), known)


def _by_name(name: str, known: Functions) -> Iterator[int]:
    """The one function that a symbol "bpf_prog_TAG_name" is of (kernel/bpf/core.c, `bpf_get_prog_name`)."""
    same = known.named.get(symbol_function(name), [])
    if len(same) == 1:
        yield same[0]


def symbol_function(symbol: str) -> str:
    """The function's name in a JIT symbol, "" where it has none: the tag is 16 hexadecimal digits."""
    rest = symbol.removeprefix("bpf_prog_")
    if rest == symbol or len(rest) < 18 or rest[16] != "_":
        return ""
    return rest[17:]


def _check(slot: int, target: int, listing: Listing, file: str) -> None:
    """A listing from slot 0 on may miss its end, so a target may lie behind it; before slot 0 there is nothing."""
    if target + listing.base < 0:
        place = listing.places[slot]
        raise InputError(file, place, f"expected a target from slot 0 on, found {target + listing.base}")
