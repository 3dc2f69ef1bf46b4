"""The README's five recipes, run line by line; its other commands, parsed; its paths, looked for."""

import difflib
import re
import shlex
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kernel_mini_tree import write_tree
from shell import shell

from model.kernel.data import load_release
from model.loaders.detect import load_file
from model.loaders.live import Live, ProgramType, why_not
from model.loaders.live_program import create_all, load
from proofs.cli import parser

ROOT = Path(__file__).resolve().parent.parent
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
DATA = ROOT / "tests" / "data"
BAG = "kernel/bpf/bag.c"
LONG, INT = "static long bag_put(", "static int bag_put("


def section(title: str) -> str:
    return TEXT.split(f"\n## {title}\n")[1].split("\n## ")[0]


def blocks(text: str) -> list[list[str]]:
    """Indented lines, block by block."""
    return [[line[4:] for line in block.splitlines()] for block in re.findall(r"(?:^    .*\n)+", text, re.MULTILINE)]


RECIPES = dict(zip(("release", "object", "dump", "tree", "campaign"), blocks(section("Five recipes")), strict=True))


def status(line: str) -> int:
    """What the README says: `# 1` behind a command, 0 without."""
    found = re.search(r"\s# (\d)(?:: [^#]*)?$", line)
    return int(found[1]) if found else 0


def run(name: str, place: Path, change: Callable[[str], str] = str, **stand_ins: str) -> dict[str, str]:
    """Each line of the recipe, with the exit status that the README tells; what each printed."""
    printed = {}
    for line in RECIPES[name]:
        done = shell(change(line), place, stand_ins)
        assert done.returncode == status(line), f"{line}\n{done.stdout}\n{done.stderr}"
        printed[line] = done.stdout
    return printed


def test_a_release(tmp_path: Path) -> None:
    run("release", tmp_path)
    assert "dispatch/6.1/x86_64/hash/map_update_elem" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_an_object(tmp_path: Path) -> None:
    shutil.copy(DATA / "objects" / "two_maps.o", tmp_path / "prog.bpf.o")
    checked, rewritten = run("object", tmp_path).values()
    assert "direct" in checked
    assert "call htab_map_update_elem#?" in rewritten


def test_a_dump(tmp_path: Path) -> None:
    """bpftool prints the dump of a 6.18 in the tests' data, and checks how it is called."""
    text, maps = DATA / "dumps" / "live" / "two_maps.same_map.txt", DATA / "dumps" / "live" / "maps.json"
    stand_in = f"""case "$*" in
"prog dump xlated id 7 opcodes") cat {shlex.quote(str(text))} ;;
"map show -j") cat {shlex.quote(str(maps))} ;;
*) exit 9 ;;
esac"""
    *_, checked = run("dump", tmp_path, bpftool=stand_in).values()
    assert "1 program in 1 file" in checked


@pytest.mark.live
def test_a_dump_of_the_running_kernel(tmp_path: Path) -> None:
    """A program that is loaded here, through the real bpftool."""
    if reason := why_not():
        pytest.skip(reason)
    if shutil.which("bpftool") is None:
        pytest.skip("bpftool is not installed")
    release = load_release("newest")
    found = load_file(str(DATA / "objects" / "two_maps.o"), helper_ids=release.helper_ids)
    (program,) = (one for one in found.programs if one.name == "two_types")
    types = {name: row.number for name, row in release.map_types.items()}
    with Live() as live:
        loaded = load(live, program, ProgramType.SCHED_CLS, create_all(live, program.maps, types))
        number = re.search(r"prog_id:\s*(\d+)", Path(f"/proc/self/fdinfo/{loaded}").read_text(encoding="utf-8"))
        assert number is not None
        *_, checked = run("dump", tmp_path, lambda line: line.replace("id 7 ", f"id {number[1]} ")).values()
    assert "necessary" in checked


def test_a_tree(tmp_path: Path) -> None:
    tree = write_tree(tmp_path / "linux")
    before = (tree / BAG).read_text(encoding="utf-8")
    after = before.replace(LONG, INT)
    lines = difflib.unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), f"a/{BAG}", f"b/{BAG}"
    )
    (tmp_path / "my.patch").write_text("".join(lines), encoding="utf-8")
    *_, checked = run("tree", tmp_path).values()
    assert (tree / BAG).read_text(encoding="utf-8") == after
    assert "newly refuted: dispatch/x86_64/bag/" in checked
    assert (tmp_path / "out.sarif").exists()


def test_a_campaign(tmp_path: Path) -> None:
    campaign, again = run("campaign", tmp_path).values()
    assert re.search(r"100 programs, .* [1-9]\d* failures", campaign)
    assert "model: fails" in again
    assert "model: holds" not in again


def commands() -> Iterator[str]:
    for block in blocks(TEXT):
        for line in block:
            yield from (part[1] for part in re.finditer(r"(?:python -m proofs|bpf-devirt) ([^;&|]*)", line))


@pytest.mark.parametrize("command", list(commands()))
def test_the_parser_takes_every_command(command: str) -> None:
    words = shlex.split(command, comments=True)
    options, rest = parser().parse_known_args(words)
    assert (options.command, rest) == (words[0], [])


def test_there_are_commands() -> None:
    assert len(list(commands())) > 25


def test_every_path_is_there() -> None:
    """In backquotes: a path of the tree has a slash and no blank, or is a file at the top."""
    named = set(re.findall(r"`((?:model|gen|proofs|tests|docs)/[\w./*-]*|\.[\w-]+\.yaml|LICENSE)`", TEXT))
    assert len(named) > 15
    assert [name for name in named if not list(ROOT.glob(name.rstrip("/")))] == []


def test_it_is_short() -> None:
    assert TEXT.count("\n") <= 210
