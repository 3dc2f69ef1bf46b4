"""Programs that show refuted Inline and Callback claims: which there are, that they compile, what they do."""

import subprocess
from pathlib import Path

import pytest
from test_reproduce import CLANG, on_kernel

from model.facts import analyse
from model.kernel.abi import ABIS
from model.kernel.data import load_release
from model.loaders import elf
from model.loaders.live import Live, why_not
from model.program import Program
from model.rewrite.config import Config
from model.rewrite.direct_call import Kind
from model.rewrite.passes import rewrite
from proofs.check_claims import check
from proofs.cli import main
from proofs.reproduce_claims import HUGE, UNORDERED, Example, examples
from proofs.solver import Solver

HASHES = ("hash", "percpu_hash", "lru_hash", "lru_percpu_hash")


def found(name: str, family: str, match: str) -> tuple[list[Example], list[str]]:
    release = load_release(name)
    groups = check(family, release, ABIS["x86_64"], Solver(), match)
    return examples((result for group in groups for result in group.results), release)


@pytest.mark.parametrize("name", ["6.1", "6.12", "7.3"])
def test_walks(name: str) -> None:
    made, without = found(name, "callback", "callback/*/count")
    assert {one.name for one in made} == {f"{name}-{kind}-for_each" for kind in HASHES}
    assert (
        without
        == {
            "6.1": [f"callback/6.1/{kind}/count: {HUGE}" for kind in ("array", "percpu_array")],
            "6.12": [],
            "7.3": [f"callback/7.3/rhash/count: {UNORDERED}"],
        }[name]
    )
    assert all(f"(release {name})" in one.texts["README"] for one in made)


def test_the_path_of_a_lookup_is_told_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["check", "--kernel", "6.12", "--claim", "inline", "--match", "inline/*/percpu_array/*/inner/r0/*"]) == 1
    )
    told = "the two sides differ in r0, on the path not-map_flags-&-BPF_F_INNER_MAP,bypass_spec_v1/1"
    assert f"  Reason: {told}\n" in capsys.readouterr().out


def test_lookups() -> None:
    made, without = found("6.12", "inline", "inline/*/percpu_array/*/r0/*")
    assert [one.name for one in made] == ["6.12-percpu_array-inner"]
    assert len(without) == 2
    assert all(line.endswith(f": {HUGE}") for line in without)


def compiled(example: Example, place: Path, *defines: str) -> Program:
    if CLANG is None:
        pytest.skip("no clang")
    source, built = place / "prog.bpf.c", place / "prog.bpf.o"
    source.write_text(example.texts["prog.bpf.c"], encoding="utf-8")
    command = [CLANG, "-O2", "-g", "-Wall", "-Werror", "-target", "bpf", *defines, "-c", str(source), "-o", str(built)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "No available targets" in done.stderr or "unknown target" in done.stderr:
        pytest.skip("this clang has no BPF target")
    assert done.returncode == 0, done.stderr
    return elf.load(built.read_bytes(), str(built)).programs[0]


def test_the_first_lookup_is_inlined_and_the_second_may_stay(tmp_path: Path) -> None:
    (example,) = found("6.12", "inline", "inline/*/percpu_array/*/inner/r0/*")[0]
    built, release = compiled(example, tmp_path), load_release("6.12")
    decisions = rewrite(built, analyse(built, release), release, Config()).decisions
    kinds = [one.kind for one in decisions if one.helper == "map_lookup_elem"]
    assert kinds == [Kind.INLINED, Kind.INLINED, Kind.INLINED, Kind.MAY_STAY]


@pytest.mark.live
@pytest.mark.parametrize("kind", HASHES)
def test_1000_callbacks_for_two_elements_on_the_running_kernel(kind: str, tmp_path: Path) -> None:
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    release = load_release("6.12")
    made, _ = found("6.12", "callback", f"callback/*/{kind}/count")
    built = compiled(made[0], tmp_path, "-DCALLBACKS=1000")
    types = {name: row.number for name, row in release.map_types.items()}
    with Live() as live:
        assert on_kernel(live, built, types) == (0, 1000, 1000)


def test_a_family_alone_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["check", "--kernel", "6.12", "--claim", "callback", "--match", "callback/*/hash/count"]
    assert main([*command, "--reproduce", str(tmp_path)]) == 1
    assert "6.12-hash-for_each: a walk with 2^31 callbacks" in capsys.readouterr().out
    assert sorted(path.name for path in (tmp_path / "6.12-hash-for_each").iterdir()) == ["README", "prog.bpf.c"]
