"""`check --callbacks FILE`: what is printed of walks with the program's own callback, and the exit status."""

import re
from pathlib import Path

import pytest

from model.facts import analyse
from model.kernel.abi import ABIS
from model.kernel.data import load_release
from model.loaders import assembly
from model.rewrite.config import Config
from model.rewrite.passes import Rewritten, rewrite
from proofs.callbacks import Callbacks
from proofs.cli import main
from proofs.mutants_callback import WALK
from proofs.outcome import word

RELEASE = load_release("6.12")


def checked(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, *options: str) -> tuple[int, str]:
    file = tmp_path / "walk.asm"
    file.write_text(text, encoding="utf-8")
    status = main(["check", "--callbacks", *options, str(file)])
    return status, capsys.readouterr().out


def test_proved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out = checked(tmp_path, capsys, WALK.format(kind="hash"), "--kernel", "6.12")
    assert status == 0
    assert "  User callback at 8: proved callback/6.12/hash/user/main/visit\n" in out
    assert "    unrolled, proved: 0-elements, 1-element, 2-elements, 2-elements-apart\n" in out


def test_refuted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out = checked(tmp_path, capsys, WALK.format(kind="array"), "--kernel", "6.1")
    assert status == 1
    assert "  User callback at 8: refuted callback/6.1/array/user/main/visit\n" in out
    assert "    refuted callback/6.1/array/user/main/visit/after/flags\n" in out
    assert "bpf_for_each_array_elem returns 32 bits: a direct call leaves the rest of r0 unspecified" in out


def test_a_hole_is_a_note_and_no_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = WALK.format(kind="hash").replace("call bpf_map_delete_elem", "call bpf_tail_call")
    status, out = checked(tmp_path, capsys, text, "--kernel", "6.12")
    assert status == 0
    told = "(a call of tail_call in a run over symbols)"
    assert f"  User callback at 8: unsupported callback/6.12/hash/user/main/visit {told}\n" in out


def test_what_only_the_unrolled_walk_cannot_follow(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = WALK.format(kind="array").replace("call bpf_map_delete_elem", "call bpf_get_prandom_u32")
    status, out = checked(tmp_path, capsys, text, "--kernel", "6.12")
    assert status == 0
    assert "  User callback at 8: proved callback/6.12/array/user/main/visit\n" in out
    assert "    2-elements: unsupported (a call of what is no operation of a map in a run of a small map)\n" in out


def test_verbose_lists_the_obligations(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out = checked(tmp_path, capsys, WALK.format(kind="hash"), "--kernel", "6.12", "--verbose")
    assert re.search(r"^  proved .* ms  satisfiable .* callback/6.12/hash/user/main/visit/agree/address$", out, re.M)
    assert re.search(r"ms  satisfiable .* callback/6.12/hash/user/main/visit/small/2-elements/after/memory$", out, re.M)


def test_without_a_file_it_is_bad_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--callbacks"]) == 2
    assert "--callbacks" in capsys.readouterr().err


def done(text: str) -> Rewritten:
    before = assembly.load(text, "walk", RELEASE.helper_ids).programs[0]
    return rewrite(before, analyse(before, RELEASE), RELEASE, Config())


def test_equal_callbacks_are_decided_once() -> None:
    """The second program has the callback elsewhere; the third has another in its place."""
    callbacks = Callbacks(RELEASE, ABIS["x86_64"])
    text = WALK.format(kind="hash")
    (first,) = callbacks.check(done(text), Config())
    (again,) = callbacks.check(done(text.replace("r3 = r10", "r7 = 0\n r3 = r10")), Config())
    (other,) = callbacks.check(done(text.replace("if r6 != 7", "if r6 != 8")), Config())
    (array,) = callbacks.check(done(WALK.format(kind="array")), Config())
    assert again.results is first.results
    assert again.slot == first.slot + 1
    assert other.results is not first.results
    assert array.results is not first.results
    assert {word(one.verdict) for one in (first, again, other, array)} == {"proved"}
