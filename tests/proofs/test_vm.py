"""A release's own kernel against the model: what is predicted, how an answer is judged, and a real one where it is."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from model.errors import InputError, Unsupported
from model.isa.insn import Insn
from model.kernel.abi import ABIS
from model.kernel.data import load_release
from model.kernel.nearest import nearest
from model.loaders import assembly
from model.loaders.live import why_not
from model.loaders.vm import emulator, image
from model.loaders.vm.guest import Guest, compiled
from model.rewrite.passes import Rewritten
from proofs.check_release import check
from proofs.cli import main
from proofs.commands import vm
from proofs.solver import Solver
from proofs.vm_claims import Claim, Ran, Shown, claims, rewritten
from proofs.vm_kernel import about, named, switch
from proofs.vm_sites import Read, read

X86 = ABIS["x86_64"]
OLD, NEW = load_release("6.1"), load_release("6.12")
SIGNED = {"EEXIST": 0xFFFFFFFFFFFFFFEF, "ENOENT": 0xFFFFFFFFFFFFFFFE, "EINVAL": 0xFFFFFFFFFFFFFFEA}
NARROW = {"EEXIST": 0x00000000FFFFFFEF, "ENOENT": 0x00000000FFFFFFFE, "EINVAL": 0x00000000FFFFFFEA}
ERRORS = {  # read in kernel/bpf of 6.1 and 6.12: the operations' own bodies
    "hash-map_update_elem": "EEXIST",
    "array-map_update_elem": "EEXIST",
    "hash-map_delete_elem": "ENOENT",
    "array-map_delete_elem": "EINVAL",
    "queue-map_push_elem": "EINVAL",
    "stack-map_pop_elem": "ENOENT",
    "queue-map_peek_elem": "ENOENT",
    "array-for_each_map_elem": "EINVAL",
    "hash-for_each_map_elem": "EINVAL",
}


@pytest.fixture(scope="module")
def old() -> dict[str, Claim]:
    return {claim.case.name: claim for claim in claims(check(OLD, X86, Solver()), OLD, X86)[0]}


def test_what_6_1_is_predicted_to_do(old: dict[str, Claim]) -> None:
    assert len(old) == 28
    for name, error in ERRORS.items():
        claim = old[name]
        assert (claim.verdict, claim.before, claim.after) == ("refuted", SIGNED[error], NARROW[error]), name


def test_what_6_12_is_predicted_to_do() -> None:
    found, without = claims(check(NEW, X86, Solver()), NEW, X86)
    for claim in found:
        assert claim.verdict == "proved"
        assert claim.before == claim.after
        if claim.case.name in ERRORS:
            assert claim.after == SIGNED[ERRORS[claim.case.name]]
    assert "devmap redirect_map: proved" in without


def test_an_answer_is_judged(old: dict[str, Claim]) -> None:
    """A kernel that widens, one that loses more, one whose helper does neither, and one that refuses."""
    claim = old["hash-map_update_elem"]
    right, narrow = SIGNED["EEXIST"], NARROW["EEXIST"]
    jit, plain = Ran(narrow, right), Ran(right, right)
    site = Read(1, "map_update_elem", "a", "a", True)
    good = Shown(claim, jit, plain, (site,))
    assert good.agrees is True
    assert good.before == right
    wrong = [
        replace(good, jit=Ran(right, right)),
        replace(good, jit=Ran(narrow, narrow)),
        replace(good, plain=Ran(narrow, right)),
        replace(good, sites=(site, replace(site, agrees=False))),
        replace(good, jit=Ran(right, right), sites=(replace(site, agrees=None),)),
    ]
    assert [one.agrees for one in wrong] == [False] * 5
    refused = Ran(refused="no")
    assert replace(good, plain=refused).before == right  # the call that is kept
    assert replace(good, plain=refused).agrees is True
    assert replace(good, jit=refused).agrees is None
    assert replace(good, sites=(replace(site, agrees=None),)).agrees is None


def test_the_walk_has_no_other_side_on_6_1(old: dict[str, Claim]) -> None:
    """A second map at such a call is refused there, and callbacks are without the JIT: only one side is seen."""
    claim = old["array-for_each_map_elem"]
    assert not claim.case.kept
    shown = Shown(claim, Ran(NARROW["EINVAL"], SIGNED["EINVAL"]), Ran(refused="callbacks are not allowed"))
    assert shown.before is None
    assert shown.agrees is True
    assert vm.row(shown)[4] == "not to be had"
    assert replace(shown, jit=Ran(SIGNED["EINVAL"], SIGNED["EINVAL"])).agrees is False


TEXT = """
.map h hash 4 8 4
.map a array 4 8 4
*(u64 *)(r10 -8) = 0
r1 = map[h]
r2 = r10
r2 += -8
call map_delete_elem
r1 = map[h]
r2 = r10
r2 += -8
call map_lookup_elem
r0 = 0
exit
"""
DELETE, LOOKUP, HELPER = 1000, 2000, 3000
NAMED = {DELETE: ("htab_map_delete_elem",), LOOKUP: ("__htab_map_lookup_elem",), HELPER: ("bpf_map_delete_elem",)}


def _program(*, jit: bool = True) -> Rewritten:
    return rewritten(assembly.load(TEXT, "t", OLD.helper_ids).programs[0], OLD, X86, jit=jit)


def _kernel() -> list[Insn]:
    """What 6.1 makes of it: a direct call, and htab_map_gen_lookup's three instructions (offset 56 there)."""
    load = [Insn(0x18, 1, 1, 0, 7), Insn(0)]
    key = [Insn(0xBF, 2, 10), Insn(0x07, 2, 0, 0, -8)]
    inlined = [Insn(0x85, imm=LOOKUP), Insn(0x15, 0, 0, 1, 0), Insn(0x07, 0, 0, 0, 56)]
    return [Insn(0x7A, 10, 0, -8), *load, *key, Insn(0x85, imm=DELETE), *load, *key, *inlined, Insn(0xB7), Insn(0x95)]


def test_sites_are_read_back() -> None:
    done = _program()
    found = read(done, _kernel(), OLD, NAMED)
    assert [(one.slot, one.found, one.agrees) for one in found] == [
        (5, "htab_map_delete_elem", True),
        (10, "inlined, 3 instructions", True),
    ]


@pytest.mark.parametrize(
    ("slot", "insn", "agrees"),
    [
        (5, Insn(0x85, imm=HELPER), [False, True]),
        (5, Insn(0x85, imm=9), [False, True]),
        (5, Insn(0x85, src=1, imm=DELETE), [False, True]),
        (10, Insn(0x85, imm=DELETE), [True, False]),
        (11, Insn(0x15, 0, 0, 2, 0), [True, False]),
        (11, Insn(0x55, 0, 0, 1, 0), [None, None]),
        (12, Insn(0x07, 1, 0, 0, 56), [True, False]),
        (12, Insn(0x17, 0, 0, 0, 56), [True, False]),
        (0, Insn(0x05), [None, None]),
        (3, Insn(0xBF, 3, 10), [True, True]),  # no site
    ],
)
def test_a_kernel_that_does_something_else(slot: int, insn: Insn, agrees: Sequence[bool | None]) -> None:
    insns = _kernel()
    insns[slot] = insn
    assert [one.agrees for one in read(_program(), insns, OLD, NAMED)] == agrees


def test_a_program_that_another_pass_moved_is_not_told() -> None:
    found = read(_program(), [*_kernel(), Insn(0x95)], OLD, NAMED)
    assert [one.agrees for one in found] == [None, None]
    assert "another pass changed the program (16 instructions, 15 expected)" in found[0].found


def test_what_stays_without_the_jit() -> None:
    insns = [insn for slot, insn in enumerate(_kernel()) if slot not in (11, 12)]
    insns[5], insns[10] = Insn(0x85, imm=HELPER), Insn(0x85, imm=4000)
    names = {**NAMED, 4000: ("bpf_map_lookup_elem",)}
    assert [one.agrees for one in read(_program(jit=False), insns, OLD, names)] == [True, True]
    assert [one.agrees for one in read(_program(jit=False), insns, OLD, NAMED)] == [True, False]


@dataclass
class FakeGuest:
    files: dict[str, list[str]] = field(default_factory=dict)
    stuck: bool = False

    def lines(self, path: str, texts: Sequence[str] = ()) -> list[str]:
        return [line for line in self.files.get(path, []) if not texts or any(text in line for text in texts)]

    def store(self, path: str, data: bytes) -> int:
        if not self.stuck:
            self.files[path] = [data.decode()]
        return 1


def _fake(**files: str) -> Guest:
    paths = {"release": "/proc/sys/kernel/osrelease", "symbols": "/proc/kallsyms"}
    return FakeGuest({paths[name]: text.splitlines() for name, text in files.items()})  # type: ignore[return-value]


def test_whose_kernel_it_is() -> None:
    assert about(_fake(release="6.1.0-57-cloud-amd64\n"), OLD).version == "6.1.0-57-cloud-amd64"
    for text in ("6.12.1", "6", "", "16.1.0"):
        with pytest.raises(InputError, match=r"expected a kernel of 6\.1$"):
            about(_fake(release=text), OLD)


def test_the_switch() -> None:
    guest = FakeGuest()
    switch(guest, jit=False)  # type: ignore[arg-type]
    assert guest.files == {"/proc/sys/net/core/bpf_jit_enable": ["0"]}
    with pytest.raises(Unsupported, match="stays unreadable in the guest"):
        switch(FakeGuest(stuck=True), jit=False)  # type: ignore[arg-type]


SYMBOLS = """\
ffffffff81000000 T __bpf_call_base
ffffffff81000000 T __bpf_call_base_args
ffffffff81000100 t queue_map_pop_elem
ffffffff80ffff00 T bpf_map_pop_elem
ffffffff81000200 t other
"""


def test_names_by_distance() -> None:
    assert named(_fake(symbols=SYMBOLS), {0x100, -0x100, 8}) == {
        0x100: ("queue_map_pop_elem",),
        -0x100: ("bpf_map_pop_elem",),
        8: (),
    }
    for hidden in ("", "0000000000000000 T __bpf_call_base\n", "junk"):
        with pytest.raises(Unsupported, match="does not tell __bpf_call_base"):
            named(_fake(symbols=hidden), {1})


@pytest.mark.parametrize(
    ("words", "message", "status"),
    [
        (["--kernel", "running"], "--kernel: running: expected a release to boot", 2),
        (["--kernel", "6.1", "--image", "/nowhere/vmlinuz"], "--image: /nowhere/vmlinuz: cannot be read", 2),
        (["--kernel", "6.1", "--match", "nothing"], "--match: nothing: expected a glob", 2),
        (["--kernel", "6.1", "/nowhere/file"], "/nowhere/file: expected a file that can be read", 2),
        (["--kernel", "6.1", "--match", "x", "FILE"], "--match: x: expected no FILE", 2),
        (["--kernel", "6.1"], "unsupported: vm: apt-cache is not installed", 3),
    ],
)
def test_what_cannot_be(
    words: list[str],
    message: str,
    status: int,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "/nowhere")
    assert main(["vm", *words]) == status
    told = capsys.readouterr().err
    assert told.startswith(f"bpf-devirt: {message}")
    assert told.count("\n") == 1


@pytest.mark.live
def test_a_kernel_that_rewrites_where_it_should_not(tmp_path: Path) -> None:
    """The guest's program on the running kernel, whose JIT nobody switches off: half of the sites disagree."""
    reason = why_not() or (None if Path("/proc/sys/net/core/bpf_jit_enable").exists() else "no JIT")
    if reason is not None or shutil.which("cc") is None:
        pytest.skip(reason or "no C compiler")
    release = nearest(os.uname().release)
    found, _ = claims(check(release, X86, Solver(), "dispatch/*/queue/*"), release, X86)
    program = tmp_path / "init"
    program.write_bytes(compiled())
    program.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch, subprocess.Popen([program], stdin=-1, stdout=-1, bufsize=0) as process:
        patch.setattr(vm, "switch", lambda guest, *, jit: None)
        assert process.stdin
        assert process.stdout
        guest = Guest(process.stdin, process.stdout)
        guest.wait(10)
        shown = vm.show(guest, found, release)
        process.kill()
    assert len(shown) == 3
    for one in shown:
        assert one.jit.direct == one.plain.direct == one.claim.after
        assert [site.agrees for site in one.sites] == [True, True, False, True]
        assert one.agrees is False


@pytest.fixture(scope="module")
def real() -> None:
    if sys.platform != "linux" or shutil.which(emulator.QEMU) is None:
        pytest.skip(f"{emulator.QEMU} is not installed")
    if image.cached("6.1") is None:
        pytest.skip(f"no kernel image of 6.1 in {image.cache()} (python -m proofs vm --kernel 6.1 fetches it)")
    try:
        compiled()
    except Unsupported as reason:
        pytest.skip(str(reason))


@pytest.mark.slow
def test_a_real_6_1(real: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["vm", "--kernel", "6.1"]) == 0
    told = capsys.readouterr().out
    lines = [line.split() for line in told.splitlines()]
    for words in (
        "hash update refuted 0xffffffffffffffef 0xffffffffffffffef 0x00000000ffffffef 0x00000000ffffffef 6 of 6 yes",
        "array delete refuted 0xffffffffffffffea 0xffffffffffffffea 0x00000000ffffffea 0x00000000ffffffea 4 of 4 yes",
        "queue push refuted 0xffffffffffffffea 0xffffffffffffffea 0x00000000ffffffea 0x00000000ffffffea 4 of 4 yes",
        "stack pop refuted 0xfffffffffffffffe 0xfffffffffffffffe 0x00000000fffffffe 0x00000000fffffffe 4 of 4 yes",
        "queue peek refuted 0xfffffffffffffffe 0xfffffffffffffffe 0x00000000fffffffe 0x00000000fffffffe 4 of 4 yes",
        "array for_each refuted 0xffffffffffffffea not to be had 0x00000000ffffffea 0x00000000ffffffea 1 of 1 yes",
    ):
        assert words.split() in lines
    assert "28 programs: 28 agree; 28 refuted claims are shown by this kernel, 6 of them after the rewrite only" in told


CASE = """
; input 5 6
; entry h 01000000 0700000000000000
.map io array 4 64 1
.map h hash 4 8 4
r9 = map[io][0]+0
*(u64 *)(r10 -8) = 9
r1 = map[h]
r2 = r10
r2 += -8
call bpf_map_delete_elem
*(u64 *)(r9 +32) = r0
r0 = 0
exit
"""


@pytest.mark.slow
def test_files_on_a_real_6_1(real: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case, refused, again = (tmp_path / name for name in ("case.asm", "refused.asm", "plain.asm"))
    case.write_text(CASE)
    refused.write_text("r0 = r5\nexit\n")
    again.write_text(TEXT)
    assert main(["vm", "--kernel", "6.1", str(case), str(again)]) == 0
    told = capsys.readouterr().out
    assert "  with the JIT: as the model, after the rewrite\n" in told
    assert "  without the JIT: as the model, before the rewrite\n" in told
    assert (
        "    slot 10: map_lookup_elem: model inlined, 3 instructions, kernel inlined, 3 instructions: agrees\n" in told
    )
    assert told.count("agrees\n") == 6
    assert main(["vm", "--kernel", "6.1", str(case), str(refused)]) == 3
    assert "refused: R5 !read_ok" in capsys.readouterr().out
