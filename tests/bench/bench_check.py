"""`check FILE`: instructions a second, over sizes and numbers of sites, each stage's share; beside BPF_PROG_LOAD.

Run: python tests/bench/bench_check.py Prints ratios measured side by side in one run; no timed test.
"""

import resource
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import TypeVar

from synthetic import MAPS, obj, program

from model.facts import analyse
from model.kernel.abi import ABIS
from model.kernel.data import load_release
from model.loaders.detect import load_bytes, load_file
from model.loaders.live import Live, ProgramType, why_not
from model.program import Object
from model.rewrite.config import Config
from model.rewrite.passes import rewrite
from proofs.check_program import check
from proofs.claims import Claims
from proofs.cli import collect_rarely
from proofs.solver import Solver

T = TypeVar("T")
RUNS = 3
BESIDE = [(1_000, 100), (10_000, 0), (10_000, 2_000), (50_000, 5_000)]
CASES = [(1_000, 0), (1_000, 100), (10_000, 0), (10_000, 2_000), (100_000, 0), (100_000, 2_000), (100_000, 20_000)]


def timed(work: Callable[[], T]) -> tuple[float, T]:
    """Best CPU seconds of RUNS, and the result."""
    best, result = float("inf"), None
    for _ in range(RUNS):
        started = process_time()
        result = work()
        best = min(best, process_time() - started)
    assert result is not None
    return best, result


def beside_the_kernel(helper_ids: Mapping[str, int], claims: Claims) -> None:
    """`check` beside BPF_PROG_LOAD of the same instructions, in turn; the kernel also verifies and compiles them."""
    reason = why_not()
    if reason is not None:
        print(f"beside BPF_PROG_LOAD: skipped ({reason})")
        return
    print("\ninstructions   sites   check  kernel  check/kernel (wall seconds, median of 3)")
    for size, sites in BESIDE:
        rows = []
        for _ in range(RUNS):
            started = perf_counter()
            check(load_bytes(obj(size, sites), "x", maps={}, helper_ids=helper_ids).programs[0], claims, Config())
            ours = perf_counter() - started
            rows.append((ours, loaded(size, sites)))
        ours, kernels = (median(column) for column in zip(*rows, strict=True))
        print(f"{size:>12} {sites:>7} {ours:>7.3f} {kernels:>7.3f}  {ours / kernels:.2f}")


def loaded(size: int, sites: int) -> float:
    """Seconds that the running kernel takes to load the program (it is closed at once)."""
    insns, loads = program(size, sites)
    with Live() as live:
        maps = [live.create_map(kind, key, value, entries) for _, kind, key, value, entries in MAPS]
        for slot, index in loads.items():
            insns[slot] = replace(insns[slot], src=1, imm=maps[index])
        started = perf_counter()
        live.load(insns, ProgramType.XDP)
        return perf_counter() - started


def main() -> None:
    release = load_release("newest")
    collect_rarely()
    claims = Claims(release, ABIS["x86_64"], Solver())
    with tempfile.TemporaryDirectory() as folder:
        warm = Path(folder) / "warm.o"
        warm.write_bytes(obj(1_000, 100))
        check(load_file(str(warm), helper_ids=release.helper_ids).programs[0], claims, Config())
        columns = ("sites", "load", "facts", "rewrite", "check", "total")
        print("instructions " + " ".join(f"{name:>7}" for name in columns) + "    insn/s  ratio")
        first = 0.0
        for size, sites in CASES:
            path = Path(folder) / f"{size}-{sites}.o"
            path.write_bytes(obj(size, sites))

            def load(path: Path = path) -> Object:
                return load_file(str(path), helper_ids=release.helper_ids)

            loading, found = timed(load)
            loaded_program = found.programs[0]
            facts_time, facts = timed(lambda: analyse(loaded_program, release))  # noqa: B023
            rewriting, _ = timed(lambda: rewrite(loaded_program, facts, release, Config()))  # noqa: B023
            checking, checked = timed(lambda: check(loaded_program, claims, Config()))  # noqa: B023
            assert len(checked.sites) == sites, (len(checked.sites), sites)
            total = loading + checking
            rate = len(loaded_program.insns) / total
            first = first or rate
            print(
                f"{len(loaded_program.insns):>12} {sites:>7} {loading:>7.3f} {facts_time:>7.3f} {rewriting:>7.3f} "
                f"{checking:>7.3f} {total:>7.3f} {rate:>9.0f}  {rate / first:.2f}"
            )
    beside_the_kernel(release.helper_ids, claims)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"peak memory {peak} MiB; CPU seconds, best of {RUNS}; check holds facts, rewrite, graph and verdicts")


if __name__ == "__main__":
    main()
