"""What a call costs on the running kernel: the same call, direct (or inlined) and through the dispatch.

Two programs of the same instructions. In both the map's address is loaded, and loaded again behind a branch that is
never taken, which the verifier cannot know: the same map again leaves the call direct, another map of the same type
poisons it. What the loop around costs is measured with a third program, which has no calls, and taken off.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from statistics import median, quantiles
from time import thread_time_ns

from model.errors import InputError
from model.isa.insn import Insn
from model.isa.opcodes import Call
from model.loaders import assembly
from model.loaders.live import Live, ProgramType
from model.loaders.live_program import create_all, load
from model.program import Program

CALLS = 16
"""Calls in a row in one run of a program."""
SLICE = 2_000_000
"""Nanoseconds of one measurement, about."""
MOST = 1 << 20
"""Runs in one measurement, at most."""
CALL = 0x85


@dataclass(frozen=True, slots=True)
class Case:
    """One row: what is called on which map (`.map NAME` is put in front), and what was published of it.

    `arguments` set r2 and up; `first` runs once and may call on r1 = the map. `published` is nanoseconds a call, before
    and after, with their source, "" where there is none.
    """

    helper: str
    map: str
    arguments: tuple[str, ...]
    first: tuple[str, ...] = ()
    published: str = ""
    callback: bool = False

    @property
    def name(self) -> str:
        return f"{self.helper} {self.map.split()[0]}"


KEY = ("r2 = r10", "r2 += -8")
VALUE = ("r2 = r10", "r2 += -16")
UPDATE = (*KEY, "r3 = r10", "r3 += -16", "r4 = 0")
INSERT = (*UPDATE, "call map_update_elem")
CASES = (
    Case("map_lookup_elem", "array 4 8 4", KEY),
    Case("map_lookup_elem", "hash 4 8 4", KEY, INSERT),
    Case("map_lookup_elem", "lru_percpu_hash 4 8 64", KEY, INSERT),
    Case("map_update_elem", "array 4 8 4", UPDATE),
    Case("map_update_elem", "hash 4 8 4", UPDATE, INSERT),
    Case("map_delete_elem", "hash 4 8 4", KEY),
    Case("map_push_elem", "queue 0 8 4", (*VALUE, "r3 = 2")),
    Case("map_pop_elem", "stack 0 8 4", VALUE),
    Case("map_peek_elem", "queue 0 8 4", VALUE, (*VALUE, "r3 = 2", "call map_push_elem")),
    Case("redirect_map", "devmap 4 4 4", ("r2 = 0", "r3 = 2")),
    Case(
        "for_each_map_elem",
        "array 4 8 1",
        ("r2 = subprog visit", "r3 = 0", "r4 = 0"),
        published="80.8 / 70 to 73 (commit 0640c77c46cb)",
        callback=True,
    ),
    Case("map_lookup_percpu_elem", "percpu_array 4 8 4", (*KEY, "r3 = 0")),
)


def text(case: Case, form: str) -> str:
    """The program: `form` is "direct", "indirect", or "empty" (no calls)."""
    again = "other" if form == "indirect" else "one"
    lines = [f".map one {case.map}", f".map other {case.map}"]
    lines += ["r7 = *(u32 *)(r1 +12)", "*(u64 *)(r10 -8) = 0", "*(u64 *)(r10 -16) = 7"]
    lines += ["r1 = map[one]", *case.first] if case.first else []
    for number in range(CALLS):
        lines += ["r1 = map[one]", f"if r7 != 0x7eadbee goto same{number}", f"r1 = map[{again}]", f"same{number}:"]
        lines += [*case.arguments, "r0 = 0" if form == "empty" else f"call {case.helper}"]
    lines += ["r0 = 2", "exit"]
    if case.callback:
        lines += [".func visit", "r0 = 0", "exit"]
    return "\n".join(lines) + "\n"


@dataclass(frozen=True, slots=True)
class Measured:
    """Nanoseconds a call: the medians, and the quartiles of the ratios of pairs measured side by side.

    `removed` tells whether the two programs' calls differ, so that there is something to compare; `target` is the
    immediate of the direct form's call, None where no call is left (inlined).
    """

    case: Case
    before: float
    after: float
    quartiles: tuple[float, float, float]
    rounds: int
    removed: bool
    target: int | None


def sites(insns: Sequence[Insn], behind: int) -> list[int]:
    """The immediates of the calls of kernel functions behind the first `behind` of them."""
    calls = [insn.imm for insn in insns if insn.opcode == CALL and insn.src == Call.HELPER]
    return calls[behind:]


def measure(
    live: Live, case: Case, rounds: int, helper_ids: Mapping[str, int], types: Mapping[str, int]
) -> Measured | None:
    """`rounds` times all three programs, in every order in turn; None where the calls cost too little to be seen.

    Raises `Refused` where the running kernel has no such map or helper.
    """
    made: dict[str, Program] = {
        form: assembly.load(text(case, form), case.name, helper_ids).programs[0]
        for form in ("direct", "indirect", "empty")
    }
    fds = create_all(live, made["direct"].maps, types)
    kind = (
        ProgramType.XDP if case.helper == "redirect_map" else ProgramType.SCHED_CLS
    )  # a test run of XDP waits for RCU
    loaded = {form: load(live, program, kind, fds) for form, program in made.items()}
    first = len(case.first) > 0
    direct, indirect = (sites(live.xlated(loaded[form]), first) for form in ("direct", "indirect"))
    repeat = _repeat(live, loaded["indirect"])
    times: dict[str, list[float]] = {form: [] for form in loaded}
    for order, _ in zip(_orders(tuple(loaded)), range(rounds), strict=False):
        for form in order:
            started = thread_time_ns()
            live.run(loaded[form], data=bytes(64), repeat=repeat)
            times[form].append((thread_time_ns() - started) / repeat / CALLS)
    empty = median(times["empty"])
    pairs = [(b - empty, a - empty) for b, a in zip(times["indirect"], times["direct"], strict=True)]
    ratios = [before / after for before, after in pairs if before > 0 and after > 0]
    if len(ratios) < max(2, rounds // 2):
        return None
    low, middle, high = quantiles(ratios, n=4)
    return Measured(
        case,
        median(before for before, _ in pairs),
        median(after for _, after in pairs),
        (low, middle, high),
        len(ratios),
        direct != indirect,
        direct[-1] if direct and len(direct) == len(indirect) else None,
    )


def _orders(forms: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    while True:
        yield from permutations(forms)


def _repeat(live: Live, program: int) -> int:
    """So many runs take about `SLICE`."""
    repeat = 64
    while repeat < MOST:
        started = thread_time_ns()
        live.run(program, data=bytes(64), repeat=repeat)
        spent = thread_time_ns() - started
        if spent * 4 >= SLICE:
            return max(1, min(MOST, repeat * SLICE // max(spent, 1)))
        repeat *= 4
    return MOST


def chosen(pattern: str, matches: Callable[[str, str], bool]) -> list[Case]:
    """The cases whose "HELPER TYPE" or helper fits `pattern`. Raises `InputError` where none does."""
    found = [case for case in CASES if matches(case.name, pattern) or matches(case.helper, pattern)]
    if not found:
        raise InputError("--match", pattern[:80], f"expected one of {', '.join(case.name for case in CASES)}")
    return found
