"""`check` on several releases and ABIs: the text, the exit status, and wrong options."""

import json
import re
from pathlib import Path

import pytest

from model.kernel.data import dump_release, load_release
from proofs.cli import main


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = main(["check", *arguments])
    done = capsys.readouterr()
    return status, done.out, done.err


def test_table_causes_and_status(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capsys, "--kernel", "6.12,6.1", "--arch", "x86_64,riscv64")
    assert (status, err) == (1, "")
    rows = [line.split() for line in out.splitlines() if re.match(r"6\.\d+ ", line)]
    assert rows == [["6.1", "17/36/0/0", "46/7/0/0"], ["6.12", "53/0/0/0", "50/3/0/0"]]
    assert "1. int result: " in out
    assert "releases  6.1; gone in 6.12" in out
    assert "refuted   36: 32 reachable, 4 latent, 0 unclear" in out
    assert "d7ba4cc900bf" in out
    assert "07343110b293" in out
    assert "32637e33003f" in out
    assert "array_map_delete_elem returns -EINVAL" not in out, "one evidence a helper"
    assert max(map(len, out.splitlines())) <= 120
    assert "\x1b" not in out
    again = run(capsys, "--kernel", "6.1,6.12", "--arch", "x86_64,riscv64")[1]
    timeless = re.compile(r"\(\d+\.\d s\)")
    assert timeless.sub("", again) == timeless.sub("", out), "the order of the options does not matter"


def test_proved_everywhere_is_status_0(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "--kernel", "6.12,7.3", "--arch", "x86_64,arm64")
    assert status == 0
    assert "220 claims in " in out
    assert "220 proved, 0 refuted" in out


def test_verbose_names_every_refutation(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "--kernel", "all", "--match", "dispatch/*/array/map_delete_elem", "--verbose")
    assert status == 1
    name = "reachable dispatch/6.1/x86_64/array/map_delete_elem (6.1, x86_64)"
    line = f"{name}: array_map_delete_elem returns -EINVAL, kernel/bpf/arraymap.c:402"
    assert line in out


def test_one_release_and_one_abi_is_the_ordinary_report(capsys: pytest.CaptureFixture[str]) -> None:
    alone = run(capsys, "--kernel", "6.12")[1]
    listed = run(capsys, "--kernel", "6.12,v6.12", "--arch", "x86-64,x86_64")[1]
    assert listed.splitlines()[:-1] == alone.splitlines()[:-1]


def test_a_hole_is_counted_and_told(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    text = json.loads(dump_release(load_release("6.12")))
    text["name"], text["holes"] = "mine", {"rewrite:map_push_elem": "fixups.c:1: not understood"}
    (tmp_path / "mine.json").write_text(json.dumps(text))
    status, out, _ = run(capsys, "--kernel", f"{tmp_path}/mine.json,6.12")
    assert status == 3
    assert ["mine", "50/0/0/3"] in [line.split() for line in out.splitlines()]
    assert "unsupported dispatch/mine/x86_64/queue/map_push_elem and 2 more: fixups.c:1: not understood" in out


def test_a_release_that_is_open_is_not_said_to_be_free(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    text = json.loads(dump_release(load_release("6.3")))
    text["holes"]["rewrite:map_delete_elem"] = "verifier.c:1: not understood"
    (tmp_path / "6.3.json").write_text(json.dumps(text))
    kernels = f"6.1,{tmp_path}/6.3.json,6.12"
    _, out, _ = run(capsys, "--kernel", kernels, "--match", "dispatch/*/hash/*")
    assert "releases  6.1; open in 6.3" in out
    _, out, _ = run(capsys, "--kernel", kernels, "--match", "dispatch/*/map_update_elem")
    assert "releases  6.1; gone in 6.3" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--kernel", "6.1,"), "--kernel"),
        (("--kernel", "6.1,6.99"), "6.99"),
        (("--arch", "x86_64,vax"), "vax"),
        (("--arch", ","), "--arch"),
        (("--kernel", "all", "--reproduce", "out"), "--reproduce"),
        (("--kernel", "all", "--match", "nothing/*"), "--match"),
        (("--kernel", "all", "prog.o"), "expected a release"),
        (("--arch", "all", "prog.o"), "expected one of"),
    ],
)
def test_wrong_options_are_one_line(
    arguments: tuple[str, ...],
    words: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    status, out, err = run(capsys, *arguments)
    assert status == 2
    assert words in err
    assert err.count("\n") == 1
    assert out == ""


def test_two_releases_of_one_name(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(dump_release(load_release("6.1")).replace('"insn_buf": 16', '"insn_buf": 17'))
    status, _, err = run(capsys, "--kernel", f"6.1,{tmp_path}/a.json")
    assert status == 2
    assert "one release of the name 6.1" in err
