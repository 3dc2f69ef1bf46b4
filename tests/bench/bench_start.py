"""`python -m proofs check` without arguments, start-up included, beside the interpreter alone: wall seconds.

Run: python tests/bench/bench_start.py. Prints medians and their ratio, measured in turn; no timed test.
"""

import subprocess
import sys
from statistics import median
from time import perf_counter

RUNS = 5
COMMANDS = {
    "python alone": [sys.executable, "-c", "pass"],
    "check": [sys.executable, "-m", "proofs", "check"],
    "check --kernel 6.1": [sys.executable, "-m", "proofs", "check", "--kernel", "6.1"],
    "check --claim all": [sys.executable, "-m", "proofs", "check", "--claim", "all"],
}


def seconds(command: list[str]) -> float:
    started = perf_counter()
    done = subprocess.run(command, stdout=subprocess.DEVNULL, check=False)
    assert done.returncode in (0, 1), done.returncode
    return perf_counter() - started


def main() -> None:
    rows: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for turn in range(RUNS):
        for name, command in COMMANDS.items():
            if turn == 0 or "all" not in name:
                rows[name].append(seconds(command))
    alone = median(rows["python alone"])
    for name, taken in rows.items():
        print(f"{name:<20} {median(taken):7.3f} s  {median(taken) / alone:6.1f} × python alone")


if __name__ == "__main__":
    main()
