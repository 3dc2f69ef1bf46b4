"""Callbacks of for_each: with and without an early end, that write values, call helpers, and walk in their turn.

r1 is the map, r2 the key, r3 the value, r4 points to a number of 64 bits, which counts the callbacks.
"""

from hypothesis import strategies as st

from gen.maps import DELETE, FOR_EACH, LOOKUP, ROWS, UPDATE
from gen.words import signed
from model.program import Map

WIDTHS = {"u8": 1, "u16": 2, "u32": 4, "u64": 8}
ZERO = 56
"""Bytes into the map `io` where a 0 lies that no program changes."""
INSIDE = ("nothing", "nothing", "write", "add", "sum", "lookup", "update", "delete", "other", "nested")


def widest(size: int) -> str:
    """The widest load that fits into `size` bytes."""
    return max((name for name, width in WIDTHS.items() if width <= size), key=lambda name: WIDTHS[name])


@st.composite
def callbacks(draw: st.DrawFn, name: str, map_: Map, other: Map | None = None, *, depth: int = 0) -> list[str]:
    """The function `name`, and those that it needs; `other` is a map that it may also call on.

    After the first (or third, or no) callback it asks for an early end.
    """
    size = map_.value_size or 1
    load = widest(size)
    lines = [f".func {name}", "r6 = r1", "r7 = r2", "r8 = r3", "r9 = r4"]
    lines += ["r0 = *(u64 *)(r9 +0)", "r0 += 1", "*(u64 *)(r9 +0) = r0"]
    more: list[str] = []
    match draw(st.sampled_from(INSIDE)):
        case "write":
            lines += [f"*({load} *)(r8 +0) = {draw(signed(16))}"]
        case "add" if size >= 8:
            lines += ["r1 = 3", "lock *(u64 *)(r8 +0) += r1"]
        case "sum" | "add":
            lines += [f"r1 = *({load} *)(r8 +0)", "r0 = *(u64 *)(r9 +0)", "r0 += r1", "*(u64 *)(r9 +0) = r0"]
        case "lookup":
            lines += ["r1 = r6", "r2 = r7", f"call {LOOKUP}", f"if r0 == 0 goto {name}_none"]
            lines += [f"r1 = *({load} *)(r0 +0)", f"*({load} *)(r0 +0) = r1", f"{name}_none:"]
        case "update":
            lines += ["r1 = r6", "r2 = r7", "r3 = r8", f"r4 = {draw(st.integers(0, 3))}", f"call {UPDATE}"]
        case "delete":
            lines += ["r1 = r6", "r2 = r7", f"call {DELETE}"]
        case "other" if other is not None and (other.key_size or 0) <= (map_.key_size or 0):
            helper = draw(st.sampled_from([call for call in (LOOKUP, DELETE) if call in ROWS[str(other.type)].calls]))
            lines += [f"r1 = map[{other.name}]", "r2 = r7", f"call {helper}"]
        case "nested" if depth == 0:
            lines += [*walk("r6", f"{name}_in"), "*(u64 *)(r9 +0) = r0"]
            more = draw(callbacks(f"{name}_in", map_, other, depth=depth + 1))
    lines += ["r0 = 0"]
    end = draw(st.sampled_from((0, 0, 1, 3)))
    if end:
        lines += ["r1 = *(u64 *)(r9 +0)", f"if r1 < {end} goto {name}_on", "r0 = 1", f"{name}_on:"]
    return [*lines, "exit", *more]


def walk(map_register: str, callback: str, flags: int = 0) -> list[str]:
    """A walk with a counter of its own at r10 -48: a 0 that a verifier does not know, or it would follow each round."""
    before = [f"r1 = {map_register}"] if map_register != "r1" else []
    zero = [f"r3 = map[io][0]+{ZERO}", "r3 = *(u64 *)(r3 +0)", "*(u64 *)(r10 -48) = r3"]
    given = [f"r2 = subprog {callback}", "r3 = r10", "r3 += -48", f"r4 = {flags}"]
    return [*before, *zero, *given, f"call {FOR_EACH}"]
