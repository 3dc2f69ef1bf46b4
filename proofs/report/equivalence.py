"""What `equiv` prints: the verdict, each rewritten call, and when refuted the input, the step and both results."""

from collections.abc import Iterator, Sequence

from rich.console import Console

from model.kernel.abi import Abi
from model.kernel.release import Release
from model.machine.contents import Contents
from model.machine.outcome import Outcome, Returned
from model.program import Map, Program
from proofs.equivalence import Equivalence
from proofs.obligation import Proved, Refuted, Shown, Verdict
from proofs.outcome import why, word
from proofs.pair_ends import Parting, Split
from proofs.pair_packet import layout_of
from proofs.pair_run import PROGRAMS, Entry
from proofs.pair_search import Witness
from proofs.report.listing import helper_names, line
from proofs.report.text import clean, refutation
from proofs.site import Site, described
from proofs.whole import Answer, Second

LISTED = 20


def report(out: Console, both: Answer, release: Release, abi: Abi, files: tuple[str, str]) -> None:
    for text in lines(both, release, abi, files):
        out.print(clean(text), markup=False, soft_wrap=True)


def lines(both: Answer, release: Release, abi: Abi, files: tuple[str, str]) -> Iterator[str]:
    answer = both.first
    before, after = answer.before, answer.after
    kinds = ", ".join(f"{count} {kind}" for kind, count in _counts(answer).items()) or "none"
    yield f"{before.name}: {files[0]} and {files[1]}, as Linux {release.version} ({release.name}), {abi.name}"
    yield f"  {len(before.insns)} instructions before, {len(after.insns)} after; rewritten map-helper calls: {kinds}"
    yield f"  {word(both.verdict)}{_reason(both.verdict)}"
    if word(both.verdict) != word(answer.verdict):
        yield f"  by composition: {word(answer.verdict)}{_reason(answer.verdict)}"
    for name, value in answer.offsets.items():
        if value:
            yield f"  as AFTER has it: the offset of {name} is {value}"
    yield from _parts(answer)
    where = answer.at
    if not isinstance(both.verdict, Proved) and where is not None:
        yield from _both(answer, release, *where)
    if isinstance(answer.verdict, Refuted):
        yield from _sites(answer)
    if answer.witness is not None:
        yield from _witness(answer, answer.witness, release)
    elif answer.untried.startswith("on no") and isinstance(answer.verdict, Refuted):
        yield "  refuted by the structure: no input that was tried shows a difference"
    elif answer.untried and not isinstance(both.verdict, Proved):
        yield f"  {answer.untried if answer.untried.startswith('on no') else f'not run: {answer.untried}'}"
    if both.second is not None:
        yield from symbolic_lines(answer, both.second)


def _counts(answer: Equivalence) -> dict[str, int]:
    kinds: dict[str, int] = {}
    for site in answer.sites:
        kinds[site.decision] = kinds.get(site.decision, 0) + 1
    return kinds


def _reason(verdict: Verdict) -> str:
    return f": {why(verdict)}" if why(verdict) else ""


def _parts(answer: Equivalence) -> Iterator[str]:
    told = {why(answer.verdict)}
    for site in answer.sites:
        reason = why(site.verdict)
        if reason and reason not in told:
            told.add(reason)
            yield f"  {answer.before.base + site.slot}: {site.helper}: {word(site.verdict)}: {reason}"
    for name, verdict in answer.parts.items():
        if why(verdict) and why(verdict) not in told:
            yield f"  {name}: {word(verdict)}: {why(verdict)}"
        if isinstance(verdict, Refuted):
            yield f"  {name}: refuted: {'; '.join(_plain(shown) for shown in verdict.counterexample.shown)}"


def _plain(shown: Shown) -> str:
    return f"{shown.label} {shown.value}"


def _both(answer: Equivalence, release: Release, slot: int, at: int) -> Iterator[str]:
    """The lines of both versions where the two part, with the source line where it is known."""
    source = _source(answer.before, slot)
    yield f"  at{source}:"
    yield f"    before  {_line(answer.before, slot, release)}"
    end = answer.moved[slot + 1] if answer.gap is None and slot + 1 < len(answer.moved) else at + 1
    for place in range(at, max(min(end, at + 12), at + 1)):
        yield f"    {'after ' if place == at else '      '}  {_line(answer.after, place, release)}"


def _line(program: Program, slot: int, release: Release) -> str:
    if not 0 <= slot < len(program.insns):
        return f"{program.base + slot:4d}: (no instruction)"
    return line(program, slot, helper_names(release))


def _source(program: Program, slot: int) -> str:
    found = next((program.lines[at] for at in range(slot, -1, -1) if at in program.lines), None)
    return f" {found.file}:{found.line}: {found.text.strip()}" if found is not None and found.line else ""


def _sites(answer: Equivalence) -> Iterator[str]:
    """The first refuted claim with its values; the others of its kind by name."""
    seen: set[str] = set()
    for site in answer.sites:
        for result in site.results:
            if not isinstance(result.verdict, Refuted) or result.obligation.name in seen:
                continue
            if not seen:
                yield f"  the call at {answer.before.base + site.slot}, {site.helper} on {_maps(site)}:"
                yield from (f"    {text}" for text in refutation(result))
            else:
                yield f"  {answer.before.base + site.slot}: also refuted: {result.obligation.name}"
            seen.add(result.obligation.name)


def _maps(site: Site) -> str:
    return ", ".join(described(pointer) for pointer in site.maps)


def _witness(answer: Equivalence, found: Witness, release: Release) -> Iterator[str]:
    before = answer.before
    given = found.given
    yield "  an input that shows it, run on the model's machine:"
    yield "    r1 = the context's address, r10 = the end of the stack"
    yield f"    context: {_hex(given.context)}"
    if layout_of(before) is not None:
        yield f"    packet: {len(given.packet)} bytes: {_hex(given.packet)}"
    maps = [*before.maps, *answer.after.maps[len(before.maps) :]]
    for number in sorted(found.before.maps):
        one = maps[number]
        entries = [entry for entry in given.entries if entry.map == number]
        yield f"    map {one.name} ({one.type}): {_entries(entries, one.type or '')}"
    if given.numbers:
        yield f"    numbers from helpers, in order: {', '.join(f'0x{number:x}' for number in given.numbers)}"
    if given.ones:
        yield "    bits that the ABI leaves open above a narrow result: ones"
    if found.parts is not None:
        yield from _parting(answer, found.parts)
    if found.split is not None and (found.parts is None or found.what != "r0"):
        yield from _split(answer, found.split, release)
    elif found.parts is None:
        yield "    the two make the same calls, callbacks and stores outside of the stack; they part in the end only"
    yield from _ends(found, maps)


def _parting(answer: Equivalence, parts: Parting) -> Iterator[str]:
    before = answer.before
    where = f"behind {before.base + parts.slot} before and {answer.after.base + parts.after} after"
    if parts.register is None:
        slots = before.base + parts.values[0], answer.after.base + parts.values[1]
        yield f"    the two part {where}: one goes on at {slots[0]}, the other at {slots[1]}"
    else:
        yield f"    the two part {where}, in r{parts.register}:"
        yield f"      before  {_value(parts.values[0])}"
        yield f"      after   {_value(parts.values[1])}"


def _split(answer: Equivalence, found: Split, release: Release) -> Iterator[str]:
    """The first call or store that one of the two makes and the other does not."""
    yield f"    the two part in what they do, at deed {found.number} (calls, callbacks, stores outside of the stack):"
    for side, program, event in (("before", answer.before, found.before), ("after ", answer.after, found.after)):
        if event is None:
            yield f"      {side}  nothing more"
        else:
            yield f"      {side}  {_line(program, event.slot, release)}"
            yield f"                    {event.what}"


def _ends(found: Witness, maps: Sequence[Map]) -> Iterator[str]:
    """Both results, and what else differs."""
    number = int(found.what.removeprefix("map ")) if found.what.startswith("map ") else None
    named = f"map {maps[number].name}" if number is not None else found.what
    yield f"    what differs at the end: {named or 'nothing that can be seen'}"
    yield f"      before  {_end(found.before.outcome)}"
    yield f"      after   {_end(found.after.outcome)}"
    if found.what == "the context":
        yield from _bytes("the context", found.before.context, found.after.context)
    elif found.what == "the packet":
        yield from _bytes("the packet", found.before.packet, found.after.packet)
    elif number is not None:
        yield from _contents(maps[number], found.before.maps[number], found.after.maps[number])


def _bytes(what: str, one: bytes, other: bytes) -> Iterator[str]:
    """The first eight bytes from where two contents differ, as they lie in memory and as a number."""
    at = next((i // 8 * 8 for i, (x, y) in enumerate(zip(one, other, strict=False)) if x != y), 0)
    for side, data in (("before", one), ("after ", other)):
        part = data[at : at + 8]
        yield f"      {what}, byte {at}: {side}  {part.hex(' ')}  {_value(int.from_bytes(part, 'little'))}"


def _contents(one: Map, before: Contents, after: Contents) -> Iterator[str]:
    """The elements that are not the same on both sides, by key, as bytes and the first eight as a number."""
    keys = [key for key in dict.fromkeys([*before, *after]) if before.get(key) != after.get(key)]
    for key in keys[:LISTED]:
        yield f"      element {key.hex()} of {one.name}:"
        for side, held in (("before", before.get(key)), ("after ", after.get(key))):
            number = f"  {_value(int.from_bytes(held[:8], 'little'))}" if held is not None and len(held) <= 8 else ""
            yield f"        {side}  {f'{held.hex()}{number}' if held is not None else 'is not there'}"
    if len(keys) > LISTED:
        yield f"      … {len(keys) - LISTED} more elements"


def _end(outcome: Outcome) -> str:
    return f"r0 = {_value(outcome.value)}" if isinstance(outcome, Returned) else str(outcome)


def _value(value: int) -> str:
    signed = value - (1 << 64) if value >> 63 else value
    return f"0x{value:016x} ({signed})"


def _number(data: bytes) -> int:
    return int.from_bytes(data, "little")


def _hex(data: bytes) -> str:
    """Bytes up to the last that is not zero."""
    short = data.rstrip(b"\0")
    if short == data and data:
        return data.hex(" ")
    return f"{short.hex(' ')}, then zeros" if short else f"{len(data)} zeros"


def _entries(entries: list[Entry], kind: str) -> str:
    if kind == PROGRAMS:
        told = [f"{entry.key.hex()}: a program that returns 0x{_number(entry.value):x}" for entry in entries]
        return f"{{{', '.join(told)}}}" if told else "empty"
    if not entries:
        return "zeros" if "array" in kind else "empty"
    told = [f"{entry.key.hex() or 'element'}: {entry.value.hex()}" for entry in entries[:LISTED]]
    more = f", … {len(entries) - LISTED} more" if len(entries) > LISTED else ""
    return f"{{{', '.join(told)}}}{more}"


def symbolic_lines(answer: Equivalence, second: Second) -> Iterator[str]:
    """The second way's verdict, and whether the two ways agree."""
    yield f"  run over symbols: {word(second.verdict)}{_reason(second.verdict)}"
    if second.results:
        count, seconds = len(second.results), sum(result.seconds for result in second.results)
        yield f"    {second.paths} paths, {count} obligations, {seconds:.2f} s in the solver"
    open_ = [result for result in second.results if why(result.verdict)]
    for result in open_[:LISTED]:
        yield f"    {word(result.verdict)} {result.obligation.name}: {why(result.verdict)}"
    if len(open_) > LISTED:
        yield f"    … {len(open_) - LISTED} more"
    broken = [result for result in second.results if isinstance(result.verdict, Refuted)]
    if broken and isinstance(second.verdict, Refuted):
        yield from (f"    {text}" for text in refutation(broken[0]))
    first, other = word(answer.verdict), word(second.verdict)
    if {first, other} == {"proved", "refuted"}:
        yield "    the two ways do not agree: one of them is wrong, or what differs is never used"
