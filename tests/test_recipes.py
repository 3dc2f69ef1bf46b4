"""The gate recipes in docs/: read as what they are, their commands parsed by the real parser, and run."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kernel_mini_tree import write_tree
from sarif_pydantic import Sarif
from shell import shell

from model.kernel.data import dump_release
from model.kernel.extract import extract
from proofs.cli import parser

ROOT = Path(__file__).resolve().parent.parent
DOCS, OBJECTS = ROOT / "docs", ROOT / "tests" / "data" / "objects"
INT = ("kernel/bpf/bag.c", "static long bag_put(", "static int bag_put(")
KNOWN = '[[known]]\nname = "dispatch/*/x86_64/bag/*"\nreason = "on purpose"\n'


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def scripts() -> dict[str, str]:
    """The shell scripts of the recipes, by file."""
    (job,) = read(DOCS / "github-actions.yml")["jobs"].values()
    github = [step["run"] for step in job["steps"] if "run" in step]
    gitlab = read(DOCS / "gitlab-ci.yml")["bpf-devirt"]
    return {
        "github-actions.yml": "\n".join(github),
        "gitlab-ci.yml": "\n".join([*gitlab["before_script"], *gitlab["script"]]),
        "kernel-gate.sh": (DOCS / "kernel-gate.sh").read_text(encoding="utf-8"),
    }


def commands(script: str) -> Iterator[list[str]]:
    """The arguments of each `python -m proofs`."""
    for line in script.replace("\\\n", " ").splitlines():
        if " -m proofs " in line and not line.lstrip().startswith("#"):
            yield shlex.split(line.partition(" -m proofs ")[2])


@pytest.mark.parametrize("file", scripts())
def test_the_parser_takes_every_command(file: str) -> None:
    found = list(commands(scripts()[file]))
    assert found
    for arguments in found:
        options, rest = parser().parse_known_args(arguments)
        assert rest == []
        assert options.command == arguments[0]


def test_the_workflow_is_one() -> None:
    """Its shape (GitHub's workflow syntax): `on` is YAML 1.1's true."""
    flow = read(DOCS / "github-actions.yml")
    assert flow[True] == ["push", "pull_request"]
    assert flow["permissions"]["security-events"] == "write"  # what upload-sarif asks for
    (job,) = flow["jobs"].values()
    assert job["runs-on"]
    assert all(("uses" in step) != ("run" in step) for step in job["steps"])
    (upload,) = (step for step in job["steps"] if "upload-sarif" in step.get("uses", ""))
    assert upload["with"]["sarif_file"] == "bpf-devirt.sarif"
    assert upload["if"].startswith("always()")


@pytest.mark.parametrize(
    ("file", "report"), [("github-actions.yml", "bpf-devirt.sarif"), ("gitlab-ci.yml", "bpf-devirt.xml")]
)
@pytest.mark.parametrize(("known", "status"), [("bpf-devirt.toml", 0), ("other.toml", 2)])
def test_the_check_of_a_workflow_runs(file: str, report: str, known: str, status: int, tmp_path: Path) -> None:
    """Its very lines, in a directory with one built object; without a baseline file it is bad input."""
    (tmp_path / "build").mkdir()
    shutil.copy(OBJECTS / "two_maps.o", tmp_path / "build" / "two_maps.bpf.o")
    (tmp_path / known).write_text("", encoding="utf-8")
    script = scripts()[file].replace("\\\n", " ").splitlines()
    done = shell("\n".join(line for line in script if " -m proofs " in line), tmp_path)
    assert done.returncode == status, done.stderr
    assert (tmp_path / report).exists() is (status == 0)


def test_the_hook_runs(tmp_path: Path) -> None:
    """pre-commit's own form: id, name, entry, language; the entry gets the files' names behind it."""
    (hook,) = read(ROOT / ".pre-commit-hooks.yaml")
    assert {"id", "name", "entry", "language"} <= hook.keys()
    assert hook["language"] == "python"
    assert [name for name in ("x.bpf.o", "a/x.bpf.o", "x.o", "x.bpf.c") if re.search(hook["files"], name)] == [
        "x.bpf.o",
        "a/x.bpf.o",
    ]
    options, rest = parser().parse_known_args([*shlex.split(hook["entry"])[1:], "x.bpf.o"])
    assert (options.files, rest) == (["x.bpf.o"], [])
    done = shell(f"{hook['entry']} {shlex.quote(str(OBJECTS / 'two_maps.o'))}", tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].endswith("0 refuted, 0 unknown, 0 unsupported")


def test_the_hook_is_a_command_of_the_package() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (hook,) = read(ROOT / ".pre-commit-hooks.yaml")
    assert f'\n{hook["entry"].split()[0]} = "proofs.cli:main"\n' in text


def gate(place: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", str(DOCS / "kernel-gate.sh"), *arguments],
        cwd=place,
        env={**os.environ, "PYTHON": sys.executable, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_a_kernel_gate_that_passes(tmp_path: Path) -> None:
    """Against the tree before it, with no baseline there."""
    write_tree(tmp_path / "before")
    write_tree(tmp_path / "after", ("kernel/bpf/bag.c", "ERR_PTR(-EINVAL)", "ERR_PTR(-ENOMEM)"))
    done = gate(tmp_path, "after", "before")
    assert done.returncode == 0, done.stderr
    assert "as before" in done.stdout
    Sarif.model_validate_json((tmp_path / "bpf-devirt.sarif").read_text(encoding="utf-8"))
    assert sorted(one.name for one in tmp_path.iterdir()) == ["after", "before", "bpf-devirt.sarif"]


def test_a_kernel_gate_that_fails(tmp_path: Path) -> None:
    """A planted `int`, against a release file; what is known passes."""
    base = tmp_path / "base.json"
    base.write_text(dump_release(extract(write_tree(tmp_path / "before"))), encoding="utf-8")
    write_tree(tmp_path / "after", INT)
    done = gate(tmp_path, "after", "base.json", "known.toml", "out.sarif")
    assert done.returncode == 1, done.stderr
    assert "newly refuted: dispatch/x86_64/bag/" in done.stdout
    run = json.loads((tmp_path / "out.sarif").read_text(encoding="utf-8"))["runs"][0]
    names = [result["locations"][0]["logicalLocations"][0]["fullyQualifiedName"] for result in run["results"]]
    assert [name for name in names if "/x86_64/bag/" in name] != []
    (tmp_path / "known.toml").write_text(KNOWN, encoding="utf-8")
    assert gate(tmp_path, "after", "base.json", "known.toml", "out.sarif").returncode == 0


@pytest.mark.parametrize(
    ("arguments", "told"),
    [((), "usage: "), (("one",), "usage: "), (("nowhere", "6.12"), "nowhere"), (("after", "9.9"), "9.9")],
)
def test_a_kernel_gate_without_what_it_needs(arguments: tuple[str, ...], told: str, tmp_path: Path) -> None:
    write_tree(tmp_path / "after")
    done = gate(tmp_path, *arguments)
    assert done.returncode == 2
    assert told in done.stderr
    assert not (tmp_path / "bpf-devirt.sarif").exists()
