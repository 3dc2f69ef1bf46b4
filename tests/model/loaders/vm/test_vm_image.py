"""Which package is taken, from where, and what is said where none can be had. No test here downloads anything."""

import os
import shutil
import tarfile
from io import BytesIO
from pathlib import Path

import pytest

from model.errors import InputError, Unsupported
from model.loaders.vm import image

NAMES = """\
linux-image-6.1.0-9-cloud-amd64
linux-image-6.1.0-57-cloud-amd64
linux-image-6.1.0-57-cloud-amd64-dbg
linux-image-6.1.0-58-cloud-amd64-unsigned
linux-image-6.1.0-99-amd64
linux-image-6.12-cloud-amd64
linux-image-6.12.101+deb12-cloud-amd64
linux-image-6.12.99+deb12-cloud-amd64
"""
BOOTABLE = b"\0" * 0x202 + b"HdrS" + b"\0" * 4096  # Documentation/arch/x86/boot.rst


@pytest.mark.parametrize(
    ("release", "package"),
    [
        ("6.1", "linux-image-6.1.0-57-cloud-amd64"),
        ("6.12", "linux-image-6.12.101+deb12-cloud-amd64"),
        ("5.10", None),
        ("6.10", None),
        ("6.1(", None),
    ],
)
def test_the_newest_of_a_release(release: str, package: str | None) -> None:
    assert image.newest(release, NAMES) == package


def test_the_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    kept = tmp_path / "bpf-devirt" / "kernels"
    assert image.cache() == kept
    assert image.cached("6.1") is None
    kept.mkdir(parents=True)
    for name in (*NAMES.split(), ".linux-image-6.1.0-70-cloud-amd64.123"):
        (kept / name).write_bytes(BOOTABLE)
    assert image.cached("6.1") == kept / "linux-image-6.1.0-57-cloud-amd64"
    monkeypatch.setenv("PATH", "/nowhere")  # nothing is fetched
    assert image.fetched("6.1") == kept / "linux-image-6.1.0-57-cloud-amd64"


@pytest.mark.parametrize("place", ["", "relative/place"])
def test_a_relative_cache_is_ignored(monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", place)
    monkeypatch.setenv("HOME", "/home/somebody")
    assert str(image.cache()) == "/home/somebody/.cache/bpf-devirt/kernels"


def test_a_file_of_the_user(tmp_path: Path) -> None:
    file = tmp_path / "vmlinuz"
    file.write_bytes(BOOTABLE)
    assert image.given(str(file)) == file
    file.write_bytes(b"\x7fELF" + bytes(5000))
    with pytest.raises(InputError, match="expected a kernel image to boot"):
        image.given(str(file))
    with pytest.raises(InputError, match="cannot be read: No such file"):
        image.given(str(tmp_path / "none"))
    with pytest.raises(InputError, match="cannot be read: Is a directory"):
        image.given(str(tmp_path))


@pytest.fixture
def tools(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """apt and dpkg that do what files beside them say."""
    place, kept = tmp_path / "bin", tmp_path / "kept"
    place.mkdir()
    scripts = {
        "apt-cache": f'cat "{place}/names"',
        "apt-get": f'[ -e "{place}/archive" ] || {{ echo "E: no network" >&2; exit 100; }}; : > "$3_1_amd64.deb"',
        "dpkg-deb": f'cat "{place}/archive"',
    }
    for name, script in scripts.items():
        (place / name).write_text(f"#!/bin/sh\n{script}\n")
        (place / name).chmod(0o755)
    (place / "names").write_text(NAMES)
    monkeypatch.setenv("PATH", f"{place}:{os.path.dirname(shutil.which('cat') or '/bin/cat')}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(kept))
    return place


def _archive(members: dict[str, bytes]) -> bytes:
    made = BytesIO()
    with tarfile.open(fileobj=made, mode="w") as out:
        for name, data in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            out.addfile(entry, BytesIO(data))
    return made.getvalue()


def test_one_file_of_a_package_is_kept(tools: Path, tmp_path: Path) -> None:
    files = {"./boot/System.map-6.1": b"no", "./boot/vmlinuz-6.1.0-57-cloud-amd64": BOOTABLE, "./../../evil": b"no"}
    (tools / "archive").write_bytes(_archive(files))
    found = image.fetched("6.1")
    assert found == tmp_path / "kept/bpf-devirt/kernels/linux-image-6.1.0-57-cloud-amd64"
    assert found.read_bytes() == BOOTABLE
    assert [path.name for path in found.parent.iterdir()] == [found.name]
    (tools / "archive").unlink()
    assert image.fetched("6.1") == found


def test_no_network(tools: Path) -> None:
    message = r"^vm: apt-get -q download linux-image-6.1.0-57-cloud-amd64: E: no network$"
    with pytest.raises(Unsupported, match=message):
        image.fetched("6.1")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (_archive({"./boot/config-6.1": b""}), r"has no boot/vmlinuz-…$"),
        (b"junk" * 1000, "cannot be unpacked"),
        (b"", "cannot be unpacked"),
    ],
)
def test_a_package_without_an_image(tools: Path, content: bytes, message: str) -> None:
    (tools / "archive").write_bytes(content)
    with pytest.raises(Unsupported, match=message) as reason:
        image.fetched("6.1")
    assert "\n" not in str(reason.value)
    assert image.cached("6.1") is None


def test_no_package(tools: Path) -> None:
    with pytest.raises(Unsupported, match=r"^vm: apt knows no package linux-image-5.10…-cloud-amd64"):
        image.fetched("5.10")


def test_no_apt(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(Unsupported, match=r"^vm: apt-cache is not installed: give a kernel image of 6.1 with --image$"):
        image.fetched("6.1")
