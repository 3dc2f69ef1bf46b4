"""The emulator: what it is given, its end on every way out, and what is said where it cannot be."""

import os
import platform
import subprocess
import sys
import time
from pathlib import Path

import pytest

from model.errors import Unsupported
from model.loaders.vm import emulator
from model.loaders.vm.guest import Lost


def test_no_network_no_disk_no_display() -> None:
    words = emulator.command(Path("/k"), Path("/i"), Path("/tmp/a,b"))
    assert words[words.index("-nic") + 1] == "none"
    assert words[words.index("-m") + 1] == "512M"
    assert words[words.index("-machine") + 1] == "pc,accel=tcg"
    assert "file,id=console,path=/tmp/a,,b" in words
    assert {"-nodefaults", "-no-reboot", "-no-user-config"} <= set(words)
    assert not {"-drive", "-hda", "-netdev", "-fsdev"} & set(words)


@pytest.fixture
def instead(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A program in QEMU's place; its number is left in a file."""
    program = tmp_path / emulator.QEMU
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(emulator, "compiled", lambda: b"init")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    return program


def _write(program: Path, script: str) -> Path:
    number = program.with_name("number")
    program.write_text(f"#!/bin/sh\necho $$ > {number}\n{script}\n")
    program.chmod(0o755)
    return number


def _ended(number: Path) -> bool:
    return not Path(f"/proc/{number.read_text().strip()}").exists()


def test_it_ends_at_the_end(instead: Path) -> None:
    number = _write(instead, "echo '=0 0'; exec sleep 60")
    with emulator.booted(Path("/none")):
        assert not _ended(number)
    assert _ended(number)


def test_it_ends_on_an_error(instead: Path) -> None:
    number = _write(instead, "echo '=0 0'; exec sleep 60")
    with pytest.raises(KeyboardInterrupt), emulator.booted(Path("/none")):
        raise KeyboardInterrupt
    assert _ended(number)


OWNER = """
import os, platform, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from model.loaders.vm import emulator
emulator.compiled, platform.machine = lambda: b"init", lambda: "x86_64"
with emulator.booted(Path("/none")):
    os._exit(0)  # no end of any `with`
"""


def test_it_ends_with_its_owner(instead: Path) -> None:
    number = _write(instead, "echo '=0 0'; exec sleep 60")
    subprocess.run([sys.executable, "-c", OWNER, str(Path(__file__).parents[4])], check=True, timeout=60)
    until = time.monotonic() + 10
    while time.monotonic() < until and _state(number) not in ("", "Z"):
        time.sleep(0.05)
    assert _state(number) in ("", "Z")  # Z: dead, and nobody asked


def _state(number: Path) -> str:
    try:
        text = Path(f"/proc/{number.read_text().strip()}/stat").read_text()
    except OSError:
        return ""
    return text.rpartition(")")[2].split()[0]


def test_last_words(instead: Path) -> None:
    _write(instead, "echo 'qemu: no such image' >&2; exit 1")
    with pytest.raises(Lost, match=r"^vm: the guest ended: qemu: no such image$"), emulator.booted(Path("/none")):
        pass


def test_a_panic_is_told_first(tmp_path: Path) -> None:
    console, errors = tmp_path / "console", tmp_path / "errors"
    errors.write_bytes(b"\n")
    console.write_bytes(b"[1] ok\n[2] Kernel panic - not syncing: \xff no init\n[3] Rebooting\n")
    assert emulator._last_words(errors, console) == "[2] Kernel panic - not syncing: \ufffd no init"
    assert emulator._last_words(tmp_path / "none") == ""


def test_silence_is_limited(instead: Path) -> None:
    number = _write(instead, "exec sleep 60")
    with pytest.raises(Lost, match=r"is not done within 0\.3 s"), emulator.booted(Path("/none"), 0.3):
        pass
    assert _ended(number)


def test_other_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    with pytest.raises(Unsupported, match="this machine is aarch64"), emulator.booted(Path("/none")):
        pass


def test_no_qemu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(Unsupported, match=r"^vm: qemu-system-x86_64 is not installed \(apt-get"):  # noqa: SIM117
        with emulator.booted(Path("/none")):
            pass
