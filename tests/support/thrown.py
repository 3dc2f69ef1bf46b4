"""A process of its own that throws damaged inputs at commands: `thrown.py FIRST COUNT` runs COUNT cases from FIRST on.

Case n is the same in every run. A line of JSON for each that ends otherwise than it may: a verdict (0, 1, 3) or one
line of error (2), without escape codes, within `SECONDS` of its CPU time and `BYTES` of address space. `thrown.py
--show N DIR` writes the inputs of one case and its command, and runs it.
"""

import faulthandler
import gc
import io
import json
import os
import resource
import shlex
import signal
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from random import Random

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support"), str(ROOT / "tests" / "model" / "kernel")]

from kernel_mini_tree import FILES as TREE  # noqa: E402
from kernel_mini_tree import HERE as MINI  # noqa: E402
from mutations import ARTEFACTS, DUMPS, OBJECTS, Inputs, seeds  # noqa: E402

from proofs.cli import main  # noqa: E402
from proofs.commands.output import FORMATS  # noqa: E402

SECONDS = 5.0
BYTES = 1 << 30
DEAD = 60.0
"""Seconds of wall time after which the process ends itself, wherever it is."""
ONE = "dispatch/*/x86_64/*/map_update_elem"


@dataclass(frozen=True, slots=True)
class Case:
    """`files` are written below the directory `D`, which `command` names."""

    command: tuple[str, ...]
    files: dict[str, bytes] = field(default_factory=dict)


class TooSlow(BaseException):
    """Nothing that catches `Exception` hides it."""


Make = Callable[[Random, Inputs], Case]
"""A row of the table of cases."""


def row(kind: str, *commands: str, name: str = "x") -> Make:
    """One of `commands` on an input of the kind, `D/x`; "{kind}" in a command is another damaged input."""

    def make(random: Random, inputs: Inputs) -> Case:
        command = random.choice(commands)
        files = {name: inputs.damaged(random, kind)}
        words = []
        for word in command.split():
            if word.startswith("{"):
                files[word[1:-1]] = inputs.damaged(random, word[1:-1])
                word = f"D/{word[1:-1]}"
            words.append(word)
        return Case(tuple(words), files)

    return make


def source(random: Random, inputs: Inputs) -> Case:
    """A kernel tree with one or two damaged files."""
    files = {f"tree/{name}": text.encode() for name, text in TREE.items()}
    for _ in range(random.choice((1, 1, 2))):
        name = random.choice(sorted(TREE))
        files[f"tree/{name}"] = Inputs({**inputs.good, "one": (TREE[name].encode(),)}).damaged(random, "one")
    files["base.json"] = inputs.good["release"][0]
    command = random.choice((*("extract D/tree",) * 3, "extract D/tree --check D/base.json", GATE))
    return Case(tuple(command.split()), files)


def artefacts(random: Random, inputs: Inputs) -> Case:
    """A directory as `check --smt2` writes it, with one damaged file; the manifest mostly has that file's hash."""
    files = dict(zip(ARTEFACTS, inputs.good["artefacts"], strict=True))
    manifest, name = files["out/manifest.json"], random.choice(ARTEFACTS)
    damaged = Inputs({**inputs.good, "one": (files[name],)}).damaged(random, "one")
    if name != "out/manifest.json" and random.random() < 0.8:
        digest = sha256(damaged).hexdigest().encode()
        files["out/manifest.json"] = manifest.replace(sha256(files[name]).hexdigest().encode(), digest)
    files[name] = damaged
    command = random.choice(("--solver z3", "--solver z3 --proofs", "--solver z3 --match dispatch/*"))
    return Case(("recheck", "D/out", "--jobs", "1", "--timeout", "2", *command.split()), files)


GATE = f"check --tree D/tree --against D/base.json --match {ONE} --claim dispatch"
WORDS = (
    ("explain",),
    ("list",),
    ("check", "--match"),
    ("check", "--kernel"),
    ("check", "--arch"),
    ("check", "--claim"),
    ("rewrite", f"{OBJECTS}/two_maps.o", "--assume"),
    ("run", "D/case", "--mem"),
    ("run", "D/case", "--steps"),
    ("check", "--match", ONE, "--time-limit"),
    ("equiv", "D/case"),
    ("cfg", "D/case", "-o"),
)


def words(random: Random, inputs: Inputs) -> Case:
    """A command's own arguments. A zero byte cannot be in one (execve); relative file names stay in the directory."""
    text = inputs.damaged(random, "word").decode(errors="surrogateescape").replace("\0", "")[:4096]
    given = random.choice(WORDS)
    if given[-1] == "-o":
        text = "D/" + text.replace("/", "_")
    return Case((*given, text), {"case": inputs.good["case"][0]})


ONE_DUMP = f"{DUMPS}/walk.opcodes.txt"
PROGRAM = (
    "check D/x",
    "check D/x --kernel 6.1 --format json --time-limit 1",
    *(f"check D/x --format {name} --time-limit 1" for name in FORMATS),
)
SHOWN = ("rewrite D/x", "rewrite D/x --format json", "rewrite D/x --format asm", "cfg D/x", "cfg D/x -o D/out.svg")
PAIR = (f"equiv D/x {OBJECTS}/two_maps.o", f"equiv {OBJECTS}/two_maps.o D/x", "equiv D/x D/x --time-limit 2")
TABLE: tuple[tuple[int, Make], ...] = (
    (18, row("object", *PROGRAM, *SHOWN, *PAIR, "run D/x", f"check D/x {OBJECTS}/for_each.o --unprivileged")),
    (12, row("dump", *PROGRAM, *SHOWN, *PAIR, f"check D/x --maps {DUMPS}/maps.json", "check D/x --maps {maps}")),
    (12, row("json", *PROGRAM, *SHOWN, *PAIR, f"check D/x --maps {DUMPS}/maps.json", "check D/x --maps {maps}")),
    (6, row("maps", f"check {ONE_DUMP} --maps D/x", f"rewrite {ONE_DUMP} --maps D/x")),
    (
        6,
        row(
            "baseline",
            f"check --kernel 6.1 --match {ONE} --baseline D/x",
            f"check --kernel 6.1 --match {ONE} --baseline D/x --strict-baseline --write-baseline D/out --format sarif",
        ),
    ),
    (
        14,
        row(
            "release",
            f"check --kernel D/x.json --match {ONE} --time-limit 1",
            "check --kernel D/x.json --claim inline --match inline/*/array/* --time-limit 1",
            "check --kernel D/x.json --claim callback --match callback/*/array/* --time-limit 1",
            f"check --kernel D/x.json {OBJECTS}/two_maps.o",
            f"rewrite --kernel D/x.json {OBJECTS}/map_calls.o",
            f"extract {MINI} --check D/x.json",
            f"check --tree {MINI} --against D/x.json --claim dispatch --match {ONE}",
            f"check --kernel D/x.json,7.3 --match {ONE} --time-limit 1",
            name="x.json",
        ),
    ),
    (6, row("case", "replay D/x --judge model", "replay D/x --judge model --kernel 6.1")),
    (2, row("case", "replay D/x --judge model,smt")),
    (4, row("after", f"equiv {OBJECTS}/for_each.o D/x", "check D/x", "rewrite D/x", "run D/x")),
    (8, row("assembly", *PROGRAM, *SHOWN, *PAIR, "run D/x", "run D/x --mem 0011aabb --trace", "equiv D/x {assembly}")),
    (4, row("foreign", "run D/x", "run D/x --mem 0011aabb --trace", "check D/x")),
    (4, row("raw", "run D/x", "run D/x --raw", "run D/x --format hex", "check D/x", "run D/x --mem 00")),
    (2, row("symbols", f"rewrite {OBJECTS}/map_calls.o --symbols D/x", f"abi-check {__file__} --symbols D/x")),
    (3, row("facts", "extract --facts D/x", "extract --facts D/x --check 6.6")),
    (4, row("vmlinux", "abi-check D/x", "abi-check D/x --kernel 6.1", "abi-check D/x --symbols {symbols}")),
    (6, source),
    (3, artefacts),
    (6, words),
)


def case(number: int, inputs: Inputs) -> Case:
    random = Random(number)
    (make,) = random.choices([make for _, make in TABLE], [weight for weight, _ in TABLE])
    return make(random, inputs)


@contextmanager
def written(made: Case) -> Iterator[tuple[str, list[str]]]:
    with tempfile.TemporaryDirectory(prefix="thrown") as place:
        for name, data in made.files.items():
            path = Path(place, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        yield place, [word.replace("D/", f"{place}/") if word.startswith("D/") else word for word in made.command]


def slow(number: int, frame: object) -> None:
    raise TooSlow


def fault(command: list[str]) -> str:
    """Runs the command here; what is wrong with how it ended, or ""."""
    out, err = io.StringIO(), io.StringIO()
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        with redirect_stdout(out), redirect_stderr(err), warnings.catch_warnings():
            warnings.simplefilter("error")
            status = main(command)
    except TooSlow:
        return f"slower than {SECONDS:g} s: {traceback.format_exc()[-1500:]}"
    except SystemExit as end:  # argparse: a line on usage, then its error
        return "" if end.code == 2 and " error: " in err.getvalue() else f"ends with {end.code!r}: {err.getvalue()}"
    except BaseException:
        return traceback.format_exc()[-3000:]
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return wrong(status, out.getvalue(), err.getvalue())


def wrong(status: int, out: str, err: str) -> str:
    told = [line for line in err.splitlines() if not line.startswith("not read: ")]
    if status not in (0, 1, 2, 3):
        return f"status {status}: {err[-500:]}"
    if status == 2 and (len(told) != 1 or not told[0].startswith("bpf-devirt: ")):
        return f"status 2 with {len(told)} lines: {err[-500:]}"
    if any(not (c.isprintable() or c in "\n\t") for c in out + err):
        return f"prints control characters: {out[-300:]!r} {err[-300:]!r}"
    return "Traceback" if "Traceback" in err else ""


def limited() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
    signal.signal(signal.SIGPROF, slow)


def throw(first: int, count: int) -> None:
    inputs = Inputs(seeds())
    for number in range(first, first + count):
        made = case(number, inputs)
        faulthandler.dump_traceback_later(DEAD, exit=True)
        with written(made) as (place, command):
            os.chdir(place)
            print(json.dumps({"case": number}), flush=True)
            found = fault(command)
            os.chdir("/")
        if found:
            print(json.dumps({"case": number, "command": made.command, "fault": found}), flush=True)
        gc.collect()
    faulthandler.cancel_dump_traceback_later()


def show(number: int, place: Path) -> None:
    made = case(number, Inputs(seeds()))
    for name, data in made.files.items():
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    command = [word.replace("D/", f"{place}/") if word.startswith("D/") else word for word in made.command]
    print("python -m proofs", shlex.join(command))
    print(fault(command) or "no fault")


if __name__ == "__main__":
    limited()
    if sys.argv[1] == "--show":
        show(int(sys.argv[2]), Path(sys.argv[3]))
    else:
        throw(int(sys.argv[1]), int(sys.argv[2]))
