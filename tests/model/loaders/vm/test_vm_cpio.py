"""Archives as Documentation/driver-api/early-userspace/buffer-format.rst has them, and as cpio reads them."""

import shutil
import subprocess
from pathlib import Path

import pytest

from model.errors import InputError
from model.loaders.vm.cpio import archive

# magic, inode, mode (regular file, 0755), uid, gid, links, time, size, four device numbers, size of the name, checksum
ONE = (
    b"070701" b"00000001" b"000081ed" b"00000000" b"00000000" b"00000001" b"00000000" b"00000003"
    b"00000000" b"00000000" b"00000000" b"00000000" b"00000005" b"00000000" b"init\0\0" b"abc\0"
    b"070701" b"00000000" b"00000000" b"00000000" b"00000000" b"00000001" b"00000000" b"00000000"
    b"00000000" b"00000000" b"00000000" b"00000000" b"0000000b" b"00000000" b"TRAILER!!!\0\0\0\0"
)  # fmt: skip


def test_one_file() -> None:
    """110 bytes of head and 5 of name are filled to 116, 3 of data to 4."""
    assert archive({"init": b"abc"}) == ONE


def test_nothing_but_the_end() -> None:
    assert archive({}) == ONE[120:]


@pytest.mark.skipif(shutil.which("cpio") is None, reason="cpio is not installed")
def test_cpio_unpacks_it(tmp_path: Path) -> None:
    files = {"init": b"\x7fELF" + bytes(range(256)), "empty": b"", "näme of 4": b"1234", "five": b"12345"}
    subprocess.run(["cpio", "-id", "--quiet"], cwd=tmp_path, input=archive(files), check=True)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == files
    assert (tmp_path / "init").stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize("name", ["", "/init", "a\0b", "TRAILER!!!", "x" * 256, "ä" * 128])
def test_a_name_that_no_file_has(name: str) -> None:
    with pytest.raises(InputError, match="expected a relative name of at most 255 bytes"):
        archive({name: b""})
