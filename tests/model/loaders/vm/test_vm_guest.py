"""The guest's program, run here without a guest: what it answers, and what its owner makes of silence and junk."""

import errno
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from model.errors import Unsupported
from model.isa.insn import Insn
from model.loaders.live import Live, ProgramType, Refused, why_not
from model.loaders.vm import guest as module
from model.loaders.vm import wire
from model.loaders.vm.guest import Guest, Lost, compiled
from model.loaders.vm.live import GuestLive
from model.loaders.vm.wire import Answer, Buffer

HASH, ARRAY, HASH_OF_MAPS, QUEUE = 1, 2, 13, 22  # enum bpf_map_type


EIGHT = "00" * 8
WRONG = (
    *("z", "c", "w", "w 2f", "b", "b 0", "b 0 -", "b 0 0g"),
    *("b 0 00 0 0 8 -", f"b 0 {EIGHT} 1 0 8 -", f"b 0 {EIGHT} 0 1 8 -", f"b 0 {EIGHT} 0 0 99999999999 -"),
    *(f"b 0 {EIGHT} 0 0 1 0102", f"b 0 {EIGHT} 0 0 2 xx"),
)


@contextmanager
def started(*command: str) -> Iterator[Guest]:
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as process:
        assert process.stdin
        assert process.stdout
        try:
            yield Guest(process.stdin, process.stdout, lambda: "last words")
        finally:
            process.kill()


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> str:
    try:
        data = compiled()
    except Unsupported as reason:
        if "is installed" in str(reason):
            pytest.skip(str(reason))
        raise
    path: Path = tmp_path_factory.mktemp("guest") / "init"
    path.write_bytes(data)
    path.chmod(0o755)
    return str(path)


def test_it_reads_and_writes_files(program: str, tmp_path: Path) -> None:
    file = tmp_path / "file of mine"
    file.write_bytes(b"one\ntwo words\nthree\n")
    with started(program) as guest:
        guest.wait(10)
        assert guest.lines(str(file)) == ["one", "two words", "three"]
        assert guest.lines(str(file), ["o w", "hre"]) == ["two words", "three"]
        assert guest.lines(str(tmp_path / "none")) == []
        assert guest.store(str(tmp_path / "none"), b"1") == -errno.ENOENT
        assert guest.store(str(file), b"ONE") == 3
    assert file.read_bytes() == b"ONE\ntwo words\nthree\n"


def test_requests_of_no_form_are_answered_and_touch_nothing(program: str) -> None:
    with started(program) as guest:
        guest.wait(10)
        for words in WRONG:
            answer = guest.ask(lambda number, words=words: f"{number} {words}\n".encode())  # type: ignore[misc]
            assert answer.result < 0, words
            assert answer.data == ()
        assert guest.ask(wire.end).result == 0


def test_a_number_that_no_command_has(program: str) -> None:
    with started(program) as guest:
        guest.wait(10)
        answer = guest.ask(lambda number: wire.call(number, 9999, bytes(8), [Buffer(0, 0, 5, b"ab")]))
        assert answer.result in (-errno.EINVAL, -errno.EPERM, -errno.ENOSYS)
        assert answer.data[1] == b"ab"


@pytest.mark.live
def test_the_same_as_without_it(program: str) -> None:
    """Maps, a load, its log, a run, and what is read back, over the wire and without."""
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    with started(program) as guest:
        guest.wait(10)
        with GuestLive(guest) as there, Live() as here:
            assert _seen(there) == _seen(here)
            assert there.call is not here.call


def _seen(live: Live) -> list[object]:
    table = live.create_map(HASH, 4, 8, 4)
    seen: list[object] = [live.update(table, b"abcd", b"12345678"), live.update(table, b"abcd", b"12345678", 1)]
    seen += [live.lookup(table, b"abcd", 8), live.lookup(table, b"none", 8), live.keys(table, 4)]
    queue = live.create_map(QUEUE, 0, 4, 4)
    seen += [live.update(queue, b"", b"\0\0\0\1"), live.take(queue, b"", 4), live.take(queue, b"", 4)]
    inner = live.create_map(HASH_OF_MAPS, 4, 4, 1, inner=live.create_map(ARRAY, 4, 4, 1))
    seen += [live.delete(table, b"abcd"), live.delete(table, b"abcd"), live.lookup(inner, bytes(4), 4)]
    callback = (Insn(0x18, 2, 4, 0, 6), Insn(0), Insn(0xB7, 1, 0, 0, 3), Insn(0xB7, 3), Insn(0xB7, 4),
                Insn(0x85, imm=181), Insn(0x95), Insn(0xB7), Insn(0x95))  # fmt: skip
    loaded = live.load(callback, ProgramType.SCHED_CLS, functions={0: "main", 7: "visit"})
    run = live.run(loaded, data=b"x" * 64)
    seen += [run.result, run.data, len(live.xlated(loaded)) >= 9]
    with pytest.raises(Refused) as refused:
        live.load((Insn(0x95),), ProgramType.SCHED_CLS)
    return [*seen, refused.value.number, refused.value.log]


def test_silence_ends() -> None:
    with started(sys.executable, "-c", "import time; time.sleep(60)") as guest:
        with pytest.raises(Lost, match=r"^vm: the guest does not start within 0.2 s: last words$"):
            guest.wait(0.2)
        with pytest.raises(Lost, match=r"^vm: the guest does not answer within 0.2 s: last words$"):
            guest.ask(lambda number: b"x" * (1 << 22), limit=0.2)  # a pipe that nobody reads fills


def test_everything_has_an_end() -> None:
    with subprocess.Popen([sys.executable, "-c", "print('=0 0'); input()"], stdin=-1, stdout=-1, bufsize=0) as process:
        assert process.stdin
        assert process.stdout
        guest = Guest(process.stdin, process.stdout, limit=1)
        guest.wait(60)
        with pytest.raises(Lost, match=r"^vm: the guest is not done within 1 s$"):
            guest.ask(lambda number: b"", limit=60)
        process.kill()


def test_an_end_is_told() -> None:
    with started(sys.executable, "-c", "print('=0 0')") as guest:
        guest.wait(10)
        with pytest.raises(Lost, match=r"^vm: the guest ended: last words$"):
            guest.ask(wire.end, limit=10)


def test_junk_and_answers_to_others_are_passed_over() -> None:
    said = (
        r"import sys; sys.stdout.buffer.write(b'\xff\n=0 0\nboot = ok\n=9 1\n=1 0 0\n[x]=1 5 0a\n'); sys.stdin.read()"
    )
    with started(sys.executable, "-c", said) as guest:
        guest.wait(10)
        assert guest.ask(wire.end, limit=10) == Answer(1, 5, (b"\n",))


def test_too_much_is_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LONGEST", 1000)
    with started(sys.executable, "-c", "print('x' * 10**6)") as guest, pytest.raises(Lost, match="says more than it"):
        guest.wait(10)


def test_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(Unsupported, match=r"^vm: the guest's program needs a C compiler: none is installed"):
        compiled()


def test_a_compiler_that_refuses(program: str) -> None:
    with pytest.raises(Unsupported, match=r"^vm: .* does not compile the guest's program: .*error") as reason:
        compiled((*module.FLAGS, "-DLONGEST=nonsense("))
    assert "\n" not in str(reason.value)
