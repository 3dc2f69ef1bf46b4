"""An archive that a kernel takes as its initramfs: cpio's "newc" form (Documentation/driver-api/early-userspace/
buffer-format.rst)."""

from collections.abc import Mapping
from stat import S_IFREG

from model.errors import InputError

MAGIC = b"070701"
TRAILER = "TRAILER!!!"
LONGEST_NAME = 255  # bytes
_MOST = 0xFFFFFFFF


def archive(programs: Mapping[str, bytes]) -> bytes:
    """`programs`, by name, as files that everybody may run. Raises InputError for a name that is none of a file."""
    made = bytearray()
    for number, (name, data) in enumerate(programs.items(), 1):
        if not name or "\0" in name or name.startswith("/") or len(name.encode()) > LONGEST_NAME or name == TRAILER:
            raise InputError("initramfs", name[:80], f"expected a relative name of at most {LONGEST_NAME} bytes")
        made += _entry(name, data, S_IFREG | 0o755, number)
    made += _entry(TRAILER, b"", 0, 0)
    return bytes(made)


def _entry(name: str, data: bytes, mode: int, number: int) -> bytes:
    """Head and name, then the data, each filled with zeros to 4 bytes; the head is 13 numbers of 8 hex digits."""
    if len(data) > _MOST:
        raise InputError("initramfs", name[:80], "expected less than 4 GiB")
    word = name.encode() + b"\0"
    # c_ino c_mode c_uid c_gid c_nlink c_mtime c_filesize c_maj c_min c_rmaj c_rmin c_namesize c_chksum
    numbers = (number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(word), 0)
    head = MAGIC + b"".join(b"%08x" % one for one in numbers)
    return _filled(head + word) + _filled(data)


def _filled(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)
