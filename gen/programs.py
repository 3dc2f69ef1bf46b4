"""Whole programs that a verifier accepts by construction: map helpers in a row, on branches, in loops, in subprograms,
on maps that are certain, on two that meet, and on what a map-in-map gives.

r6 gathers every call's result with all its bits, r7 is a number that no verifier knows, r9 points to the map `io`,
which holds what goes in and what comes out; r8 is free. In the stack a key lies at r10 -16, a value at r10 -40, a
callback's number at r10 -48.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from hypothesis import strategies as st

from gen.callbacks import callbacks, walk, widest
from gen.insns import arithmetic, condition
from gen.maps import DELETE, LOOKUP, PEEK, PERCPU, POP, PUSH, ROWS, UPDATE, Entry, contents, lines, maps
from gen.words import signed, words
from model.program import Map

IO = Map("io", "array", 4, 64, 1, 0)
RESULT = 32
"""Bytes into `io` where r6 goes at the end; the words in front are input."""
INPUTS = 2
KEY = ("r2 = r10", "r2 += -16")
VALUE = ("r2 = r10", "r2 += -40")
POINTERS = (LOOKUP, PERCPU)


Calls = Mapping[str, tuple[str, ...]]
"""Helpers by map type."""
EVERY: Calls = {kind: row.calls for kind, row in ROWS.items()}


@dataclass(frozen=True, slots=True)
class Generated:
    """A program as assembly text, and a run of it: what the maps hold, and the words (64 bits) at the start of `io`."""

    text: str
    maps: tuple[Map, ...]
    entries: tuple[Entry, ...]
    inputs: tuple[int, ...]


@dataclass(slots=True)
class _Text:
    """A function while it is written; `functions` are those that it needs behind it."""

    draw: st.DrawFn
    maps: tuple[Map, ...]
    calls: Calls
    prefix: str = "l"
    lines: list[str] = field(default_factory=list)
    functions: list[str] = field(default_factory=list)
    labels: int = 0

    def name(self) -> str:
        self.labels += 1
        return f"{self.prefix}{self.labels}"

    def map(self, *helpers: str) -> Map | None:
        """One of the maps on which a program may call one of `helpers` (any, if none is named)."""
        fit = [m for m in self.maps if not helpers or set(helpers) & set(self.on(m))]
        return self.draw(st.sampled_from(fit)) if fit else None

    def on(self, map_: Map) -> tuple[str, ...]:
        """The helpers that a program may call on the map."""
        return self.calls.get(str(map_.type), ()) or ROWS[str(map_.type)].calls

    def function(self, prefix: str) -> "_Text":
        return _Text(self.draw, self.maps, self.calls, prefix)


def _arguments(out: _Text, map_: Map, helper: str) -> list[str]:
    """What goes into r2 and up; r1 holds the map."""
    flags = out.draw(st.sampled_from((0, 0, 0, 1, 2, 3)))
    match helper:
        case "map_update_elem":
            return [*KEY, "r3 = r10", "r3 += -40", f"r4 = {flags}"]
        case "map_push_elem":
            return [*VALUE, f"r3 = {out.draw(st.sampled_from((0, 0, 2)))}"]
        case "map_pop_elem" | "map_peek_elem":
            return list(VALUE)
        case "map_lookup_percpu_elem":
            return [*KEY, f"r3 = {out.draw(st.sampled_from((0, 0, 1, 9999)))}"]
        case "for_each_map_elem":
            visit = out.name()
            other = out.map(LOOKUP, DELETE)
            out.functions += out.draw(callbacks(f"visit_{visit}", map_, other if other and not other.inner else None))
            return walk("r1", f"visit_{visit}", out.draw(st.sampled_from((0, 0, 0, 0, 1))))[
                :-1
            ]  # the call is put behind
    return list(KEY)


def _value(out: _Text, map_: Map) -> list[str]:
    """What is done with the value that r0 points to; NULL has been tested."""
    load = widest(map_.value_size or 1)
    lines = [f"r1 = *({load} *)(r0 +0)"]
    match out.draw(st.sampled_from(("read", "read", "write", "add"))):
        case "write":
            lines += [f"*({load} *)(r0 +0) = {out.draw(signed(16))}"]
        case "add" if (map_.value_size or 0) >= 8:
            lines += ["r2 = r7", "lock *(u64 *)(r0 +0) += r2"]
    return [*lines, "r0 = r1"]


def _call(out: _Text, map_: Map, load: list[str]) -> None:
    """One call on the map that `load` puts into r1; what it gives goes into r6."""
    helper = out.draw(st.sampled_from(out.on(map_)))
    out.lines += [*load, *_arguments(out, map_, helper), f"call {helper}"]
    if helper in POINTERS:
        none = out.name()
        out.lines += [f"if r0 == 0 goto {none}"]
        out.lines += _inner(out, map_) if map_.inner else _value(out, map_)
        out.lines += [f"{none}:"]
    out.lines += ["r6 *= 31", "r6 += r0"]


def _inner(out: _Text, outer: Map) -> list[str]:
    """A call on the inner map that r0 points to; a number is left in r0."""
    assert outer.inner is not None
    call = out.function(f"{out.name()}_")
    _call(call, outer.inner, ["r8 = r0", "r1 = r8"])
    out.functions += call.functions
    return [*call.lines, "r0 = 0"]


def _row(out: _Text) -> None:
    map_ = out.map()
    assert map_ is not None
    _call(out, map_, [f"r1 = map[{map_.name}]"])


def _meeting(out: _Text) -> None:
    """One call that two maps reach, of one type or of two: it stays, unless both are the same map."""
    one = out.map()
    assert one is not None
    calls = set(out.on(one))
    alike = [m for m in out.maps if (m.key_size, m.value_size, m.inner) == (one.key_size, one.value_size, one.inner)]
    alike = [m for m in alike if set(out.on(m)) >= calls]
    others = [m for m in alike if m is not one] or alike  # the same map meets itself where it has no twin
    other, over = out.draw(st.sampled_from([*others, *others, one])), out.name()
    load = [f"r1 = map[{one.name}]", f"if {out.draw(condition(7))} goto {over}", f"r1 = map[{other.name}]", f"{over}:"]
    _call(out, one, load)


def _branch(out: _Text) -> None:
    over = out.name()
    out.lines += [f"if {out.draw(condition(7))} goto {over}"]
    _simple(out)
    if out.draw(st.booleans()):
        end = out.name()
        out.lines += [f"goto {end}", f"{over}:"]
        _simple(out)
        over = end
    out.lines += [f"{over}:"]


def _loop(out: _Text) -> None:
    """One to four rounds; how many a verifier knows, or not."""
    again = out.name()
    known = out.draw(st.booleans())
    out.lines += [f"r8 = {out.draw(st.integers(1, 3))}"] if known else ["r8 = r7", "r8 &= 3", "r8 += 1"]
    out.lines += ["*(u64 *)(r10 -56) = r8", f"{again}:"]
    map_ = out.map(UPDATE, DELETE, PUSH, POP, PEEK) or out.maps[0]
    _call(out, map_, [f"r1 = map[{map_.name}]"])
    out.lines += ["r8 = *(u64 *)(r10 -56)", "r8 += -1", "*(u64 *)(r10 -56) = r8", f"if r8 s> 0 goto {again}"]


def _subprogram(out: _Text) -> None:
    """A static function that is given a map in r1 and r7 in r2; called with one map, or with two of the same kind."""
    name = f"part_{out.name()}"
    one = out.map()
    assert one is not None
    inner = out.function(f"{name}_")
    key, number = out.draw(st.integers(0, 5)), out.draw(signed(16))
    inner.lines += [f".func {name}", "r8 = r1", "r7 = r2", "r6 = 0", *_stack(one, key, number)]
    alike = [m for m in out.maps if _same(m, one)]
    callers = [one, *([out.draw(st.sampled_from([*alike, alike[-1]]))] if out.draw(st.booleans()) else [])]
    _call(inner, one, ["r1 = r8"])
    for caller in callers:
        out.lines += [f"r1 = map[{caller.name}]", "r2 = r7", f"call {name}", "r6 ^= r0"]
    out.functions += [*inner.lines, "r0 = r6", "exit", *inner.functions]


def _same(one: Map, other: Map) -> bool:
    return (one.type, one.key_size, one.value_size, one.inner) == (
        other.type,
        other.key_size,
        other.value_size,
        other.inner,
    )


def _numbers(out: _Text) -> None:
    out.lines += out.draw(arithmetic(6, 7))


def _key(out: _Text) -> None:
    """Another key or value from here on."""
    number = out.draw(st.integers(0, 5))
    out.lines += [out.draw(st.sampled_from((f"*(u32 *)(r10 -16) = {number}", "*(u64 *)(r10 -40) = r7")))]


SIMPLE = (_row, _row, _row, _meeting, _key, _numbers)
STATEMENTS = (*SIMPLE, _branch, _branch, _loop, _subprogram, _subprogram)


def _simple(out: _Text) -> None:
    out.draw(st.sampled_from(SIMPLE))(out)


def _stack(map_: Map, key: int, value: int) -> list[str]:
    """The whole of what a call may read of the stack is there."""
    low = 10 if map_.type == "lpm_trie" else 0
    return [
        f"*(u64 *)(r10 -16) = {key}",
        f"*(u64 *)(r10 -8) = {low}",
        f"*(u64 *)(r10 -40) = {value}",
        "*(u64 *)(r10 -32) = 5",
        "*(u64 *)(r10 -24) = 0",
    ]


@st.composite
def programs(draw: st.DrawFn, most: int = 3, calls: Calls = EVERY) -> Generated:
    """Up to `most` statements on one to three maps, with the `calls` by map type; shrinks to few calls on small maps.

    A template's type that is not among `calls` has all of its own.
    """
    kinds = tuple(calls)
    count = draw(st.integers(1, 3))
    used = tuple(draw(maps(f"m{number}", kinds)) for number in range(count))
    if draw(st.booleans()):  # a twin, so that two maps of one kind can meet
        used = (*used, Map("twin", used[0].type, *_sizes(used[0]), used[0].flags, inner=used[0].inner))
    out = _Text(draw, used, calls)
    out.lines += ["r9 = map[io][0]+0", "r7 = *(u64 *)(r9 +0)", "r6 = *(u64 *)(r9 +8)"]
    out.lines += _stack(used[0], draw(st.integers(0, 5)), draw(signed(16)))
    for _ in range(draw(st.integers(1, most))):
        draw(st.sampled_from(STATEMENTS))(out)
    out.lines += [f"*(u64 *)(r9 +{RESULT}) = r6", "r0 = r6", "exit", *out.functions]
    entries = tuple(entry for m in used for entry in draw(contents(m)))
    directives = dict.fromkeys(line for m in (IO, *used) for line in lines(m))  # a twin has the same template
    text = "\n".join([*directives, *out.lines]) + "\n"
    return Generated(text, used, entries, tuple(draw(words(64)) for _ in range(INPUTS)))


def _sizes(m: Map) -> tuple[int | None, int | None, int | None]:
    return m.key_size, m.value_size, m.max_entries
