"""The Direct claim against what the machine runs: a loaded program's machine code as a second graph.

Every call of the kernel's own form of the program has one call in the machine code, in the same order, of the same
target; nothing leaves the program indirectly but tail calls, which are told apart. What a callee does indirectly in its
own body (a helper's dispatch, callbacks) is listed with it, and is never counted as removed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from model.isa.insn import Insn
from model.isa.opcodes import CALL, GOTOX, Call
from model.loaders.live import Live
from model.loaders.live_jited import jited
from model.native.jited import INDIRECT, TAIL_CALLS, Event, Part, What, events
from proofs.callees import Callee, Kernel, Role

TAIL_CALL = 12  # BPF_FUNC_tail_call: how a dump has the instruction that jumps (bpf_insn_prepare_dump)
OF_THE_JIT = ("clear_bhb_loop", "__bhi_args")
"""What the JIT calls of its own accord (emit_spectre_bhb_barrier, emit_fineibt)."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the instruction at `slot` has to be in machine code; `target` for calls."""

    slot: int
    role: Role
    target: int | None


@dataclass(frozen=True, slots=True)
class Site:
    """`event` is what the machine code has there; `trouble` says what does not agree, "" where all does."""

    slot: int
    role: Role
    name: str
    event: Event
    callee: Callee | None = None
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class MachineCode:
    """`broken` and `unclear` are lines; the claim holds where both are empty. `sites` is empty where the calls of the
    two forms could not be matched; `events` is all of the machine code's.
    """

    parts: tuple[Part, ...]
    events: tuple[Event, ...]
    sites: tuple[Site, ...]
    broken: tuple[str, ...]
    unclear: tuple[str, ...]


def read(live: Live, fd: int, insns: Sequence[Insn], kernel: Kernel, names: Sequence[str] = ()) -> MachineCode:
    """Of the program behind `fd`, whose rewritten instructions are `insns` (`Live.xlated`).

    `names` are its functions', in order. Raises as `jited` does.
    """
    return match([Part(*one) for one in jited(live, fd)], insns, kernel, names)


def match(parts: Sequence[Part], insns: Sequence[Insn], kernel: Kernel, names: Sequence[str] = ()) -> MachineCode:
    """The two forms side by side."""
    found = [event for part in parts for event in events(part, kernel.decode, kernel.names)]
    found = [event for event in found if not _of_the_jit(event, kernel)]
    unread = [event for event in found if event.what is What.UNREAD]
    unclear = [f"{_at(parts, event.address)}: not read: {event.via}" for event in unread]
    broken = [f"{_at(parts, event.address)}: {event.via}: a jump out of the program" for event in _left(found)]
    wanted = list(_wanted(insns, parts, kernel.base))
    leaving = [event for event in found if event.what not in (What.UNREAD, What.LEAVES)]
    sites: list[Site] = []
    if len(wanted) == len(leaving):
        sites = [_site(one, event, parts, kernel, names) for one, event in zip(wanted, leaving, strict=True)]
        broken += [f"{site.slot}: {site.trouble}" for site in sites if site.trouble]
        nameless = [site for site in sites if site.callee is not None and not site.callee.named]
        unclear += [f"{site.slot}: what is called has no symbol: {site.name}" for site in nameless]
    else:
        unclear.append(
            f"{len(wanted)} call{'' if len(wanted) == 1 else 's'} in the program, {len(leaving)} in its machine code"
        )
        indirect = [event for event in leaving if event.what in INDIRECT]
        if not any(one.role is Role.GOTO for one in wanted):
            broken += [f"{_at(parts, event.address)}: {event.what.value} by {event.via}" for event in indirect]
    return MachineCode(tuple(parts), tuple(found), tuple(sites), tuple(broken), tuple(unclear))


def _wanted(insns: Sequence[Insn], parts: Sequence[Part], base: int) -> Iterator[Wanted]:
    """As the JIT reads the instructions (do_jit: BPF_CALL, BPF_TAIL_CALL, BPF_JA | BPF_X). A call of an own function
    has the function's number (jit_subprogs).
    """
    for slot, insn in enumerate(insns):
        if insn.opcode == GOTOX:
            yield Wanted(slot, Role.GOTO, None)
        elif insn.opcode != CALL:
            continue
        elif insn.src == Call.SUBPROGRAM:
            yield Wanted(slot, Role.OWN, parts[insn.imm].address if 0 <= insn.imm < len(parts) else None)
        elif insn.src == Call.HELPER and insn.imm == TAIL_CALL:
            yield Wanted(slot, Role.TAIL_CALL, None)
        else:
            role = Role.KFUNC if insn.src == Call.KFUNC else Role.HELPER
            yield Wanted(slot, role, (base + insn.imm) % (1 << 64))


def _site(wanted: Wanted, event: Event, parts: Sequence[Part], kernel: Kernel, names: Sequence[str]) -> Site:
    match wanted.role:
        case Role.TAIL_CALL:
            trouble = "" if event.what in TAIL_CALLS else f"expected a tail call, found {_told(event, parts, kernel)}"
            return Site(wanted.slot, wanted.role, "", event, None, trouble)
        case Role.GOTO:
            jumps = event.what is What.INDIRECT_JUMP
            trouble = "" if jumps else f"expected an indirect jump, found {_told(event, parts, kernel)}"
            return Site(wanted.slot, wanted.role, "", event, None, trouble)
        case Role.OWN:
            number = next((n for n, part in enumerate(parts) if part.address == wanted.target), None)
            known = number is not None and number < len(names)
            name = "no function" if number is None else names[number] if known else f"function {number}"
            return Site(wanted.slot, wanted.role, name, event, None, _trouble(wanted, name, event, parts, kernel))
    callee = kernel.callee(wanted.target or 0)
    role = Role.KFUNC if wanted.role is Role.KFUNC else callee.role
    return Site(wanted.slot, role, callee.name, event, callee, _trouble(wanted, callee.name, event, parts, kernel))


def _trouble(wanted: Wanted, name: str, event: Event, parts: Sequence[Part], kernel: Kernel) -> str:
    if event.what is What.CALL and event.target == wanted.target:
        return ""
    return f"expected a call of {name}, found {_told(event, parts, kernel)}"


def _told(event: Event, parts: Sequence[Part], kernel: Kernel) -> str:
    if event.what is What.CALL and event.target is not None:
        return f"a call of {_at(parts, event.target) or kernel.place(event.target)}"
    return f"{event.what.value} by {event.via}"


def _left(found: Sequence[Event]) -> list[Event]:
    return [event for event in found if event.what is What.LEAVES]


def _of_the_jit(event: Event, kernel: Kernel) -> bool:
    names = kernel.names(event.target) if event.what is What.CALL and event.target is not None else ()
    return any(name.startswith(OF_THE_JIT) for name in names)


def _at(parts: Sequence[Part], address: int) -> str:
    """A place in the program, by function and offset; "" for others."""
    found = (f"function {n}+{address - part.address:#x}" for n, part in enumerate(parts) if part.holds(address))
    return next(found, "")
