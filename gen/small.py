"""Programs small enough to be run over symbols: map-helper calls in a row, on branches, in static subprograms.

Each call's result goes into the program's result with all its bits, so that what a call leaves can be seen.
"""

from dataclasses import dataclass

from hypothesis import strategies as st

MAPS = {
    "numbers": ".map numbers array 4 8 4",
    "names": ".map names hash 4 8 2",
    "recent": ".map recent lru_hash 4 8 4",
    "fifo": ".map fifo queue 0 8 2",
    "pile": ".map pile stack 0 8 2",
}
KEYED = ("numbers", "names", "recent")
CALLS = (
    *((name, what) for name in KEYED for what in ("lookup", "update", "delete", "for_each")),
    *((name, what) for name in ("fifo", "pile") for what in ("push", "pop", "peek")),
)
TO_KEY = ["r2 = r10", "r2 += -8"]
TO_VALUE = ["r2 = r10", "r2 += -16"]
ARGUMENTS = {
    "lookup": TO_KEY,
    "delete": TO_KEY,
    "update": [*TO_KEY, "r3 = r10", "r3 += -16", "r4 = {flags}"],
    "for_each": ["r2 = subprog visit", "r3 = 0", "r4 = {flags}"],
    "push": [*TO_VALUE, "r3 = {flags}"],
    "pop": TO_VALUE,
    "peek": TO_VALUE,
}


@dataclass(frozen=True, slots=True)
class Generated:
    """`narrow` tells of a call that the rewrite makes direct and whose operation returns an int up to 6.1."""

    text: str
    narrow: bool


@dataclass(slots=True)
class _Lines:
    lines: list[str]
    labels: int = 0
    narrow: bool = False
    visits: bool = False

    def label(self) -> str:
        self.labels += 1
        return f"l{self.labels}"


def _call(out: _Lines, name: str, what: str, flags: int) -> None:
    """One call on one map; what it gives is added to r6."""
    out.lines += [f"r1 = map[{name}]", *(line.format(flags=flags) for line in ARGUMENTS[what])]
    helper = "for_each_map_elem" if what == "for_each" else f"map_{what}_elem"
    out.lines.append(f"call bpf_{helper}")
    out.visits |= what == "for_each"
    if what == "lookup":
        none = out.label()
        out.lines += [f"if r0 == 0 goto {none}", "r0 = *(u64 *)(r0 +0)", "r6 += r0", f"{none}:"]
    else:
        out.narrow = True
        out.lines.append("r6 += r0")


def _either(out: _Lines, one: str, other: str, number: int) -> None:
    """One call that two maps reach: it stays as it is."""
    meet = out.label()
    out.lines += [*TO_KEY, f"r1 = map[{one}]", f"if r7 == {number} goto {meet}", f"r1 = map[{other}]"]
    out.lines += [f"{meet}:", "call bpf_map_delete_elem", "r6 += r0"]


def _start(key: int) -> list[str]:
    return ["r6 = 0", f"*(u64 *)(r10 -8) = {key}", "*(u64 *)(r10 -16) = 5"]


@st.composite
def programs(draw: st.DrawFn, most: int = 3) -> Generated:
    """Up to `most` calls, each in a row with the others, behind a branch, or in a subprogram of its own."""
    main = _Lines(["r7 = *(u32 *)(r1 +0)", *_start(draw(st.integers(0, 5)))])
    functions: list[str] = []
    for index in range(draw(st.integers(1, most))):
        number, flags = draw(st.integers(0, 3)), draw(st.sampled_from((0, 0, 1, 2, 8)))
        name, what = draw(st.sampled_from(CALLS))
        where = draw(st.sampled_from(("row", "row", "branch", "subprogram", "either")))
        match where:
            case "row":
                _call(main, name, what, flags)
            case "branch":
                over = main.label()
                main.lines.append(f"if r7 {draw(st.sampled_from(('==', '!=', '>', 's<')))} {number} goto {over}")
                _call(main, name, what, flags)
                main.lines.append(f"{over}:")
            case "subprogram":
                inner = _Lines([f".func part{index}", *_start(number)], labels=100 * (index + 1))
                _call(inner, name, what, flags)
                functions += [*inner.lines, "r0 = r6", "exit"]
                main.narrow |= inner.narrow
                main.visits |= inner.visits
                main.lines += [f"call part{index}", "r6 += r0"]
            case "either":
                _either(main, *draw(st.sampled_from((("numbers", "names"), ("names", "recent")))), number)
    main.lines += ["r0 = r6", "exit", *functions]
    if main.visits:
        main.lines += [".func visit", "r0 = *(u64 *)(r3 +0)", "r0 &= 1", "exit"]
    return Generated("\n".join([*MAPS.values(), *main.lines]) + "\n", main.narrow)
