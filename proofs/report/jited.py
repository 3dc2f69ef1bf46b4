"""The report of `--machine-code`: a line for each call of the program, and what is left behind it."""

from collections import Counter
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from model.native.jited import TAIL_CALLS, What
from proofs.callees import Callee, Inside, Kernel, Role, Way
from proofs.machine_code import MachineCode, Site
from proofs.report.text import clean, put

COLUMNS = ("slot", "helper", "kind", "machine code calls", "indirect in the callee's own body")
OFF = "the kernel does not show its jump labels: ways behind a label that is off here were not followed"
HOW = {What.TAIL_PATCHED: "patched in place (a direct jump, or none)", What.TAIL_INDIRECT: "indirect"}
LEFT = {
    Way.DISPATCH: ("dispatch through map->ops", "dispatches through map->ops"),
    Way.CALLBACK: ("callback through a pointer", "callbacks through a pointer"),
    Way.OTHER: ("other indirect branch", "other indirect branches"),
}


def jited_report(out: Console, found: MachineCode, kernel: Kernel) -> None:
    """The program's name stands above it."""
    if found.sites:
        table = Table(box=None, pad_edge=False, padding=(0, 1))
        for column in COLUMNS:
            table.add_column(column, no_wrap=True)
        for site in found.sites:
            table.add_row(*row(site, kernel))
        put(out, table)
    for line in [*summary(found), *([] if kernel.labels or not any(site.callee for site in found.sites) else [OFF])]:
        out.print(clean(line), markup=False, soft_wrap=True)


def row(site: Site, kernel: Kernel) -> tuple[str, ...]:
    helper = site.callee.helper if site.callee is not None else ""
    return (str(site.slot), helper or "-", site.role.value, clean(_called(site, kernel)), clean(_inside(site.callee)))


def _called(site: Site, kernel: Kernel) -> str:
    event = site.event
    if site.trouble:
        return "NOT AS EXPECTED"
    if event.what is What.TAIL_PATCHED:
        where = "a no-operation: the element is empty" if event.target is None else f"jmp {event.target:#x}"
        return f"patched in place, {where}"
    return site.name if event.what is What.CALL else f"{event.what.value}: {event.via}"


def _inside(callee: Callee | None) -> str:
    if callee is None:
        return "-"
    told = [_one(one, callee) for one in callee.inside] + (["not known"] if callee.unread else [])
    return "; ".join(told) or "-"


def _one(one: Inside, callee: Callee) -> str:
    name, _, offset = one.place.partition("+")
    place = f"+{offset}" if name == callee.name else one.place
    what = f"{one.way.value} ({one.through})" if one.through else one.way.value
    often = ", once an element" if one.way is Way.CALLBACK and callee.helper == "for_each_map_elem" else ""
    return f"{place} {one.via}: {what}{often}"


def summary(found: MachineCode) -> list[str]:
    """What holds, what does not, and what is left."""
    size = sum(len(part.code) for part in found.parts)
    calls = sum(event.what is What.CALL for event in found.events)
    head = (
        f"machine code: {_many(size, 'byte')} in {_many(len(found.parts), 'function')}, {_many(calls, 'direct call')}"
    )
    lines = [*(f"broken: {line}" for line in found.broken), *(f"not told: {line}" for line in found.unclear)]
    if lines:
        lines.append(head)
    else:
        jumps = any(site.role is Role.GOTO for site in found.sites)
        own = "no indirect call and no retpoline call" if jumps else "no indirect call or jump, no retpoline"
        lines.append(f"{head}; in the program's own code {own}{_apart(found)}")
    if told := _tail_calls(found):
        lines.append(told)
    if left := _left(found.sites):
        lines.append(f"left in what it calls, a site each: {', '.join(left)}")
    reasons = dict.fromkeys(why for site in found.sites if site.callee for why in site.callee.unread)
    return lines + [f"not known: {why}" for why in reasons]


def _apart(found: MachineCode) -> str:
    """Nothing indirect is hidden: an indirect tail call is a jump through a register or a thunk."""
    count = sum(event.what is What.TAIL_INDIRECT for event in found.events)
    return f", apart from {_many(count, 'tail call')}" if count else ""


def _tail_calls(found: MachineCode) -> str:
    tally = Counter(event.what for event in found.events if event.what in TAIL_CALLS)
    return ", ".join(f"{_many(tally[what], 'tail call')} {HOW[what]}" for what in TAIL_CALLS if tally[what])


def _left(sites: Sequence[Site]) -> list[str]:
    tally = Counter(way for site in sites if site.callee for way in {one.way for one in site.callee.inside})
    told = [f"{tally[way]} {LEFT[way][tally[way] > 1]}" for way in Way if tally[way]]
    open_ = sum(bool(site.callee and site.callee.unread) for site in sites)
    return told + ([f"{open_} not known"] if open_ else [])


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
