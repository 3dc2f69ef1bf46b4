"""The least type information that the kernel wants of a program with callbacks: one FUNC a function.

Layout: Documentation/bpf/btf.rst. All functions are static, without parameters, and return int.
"""

import struct
from collections.abc import Sequence

MAGIC = 0xEB9F
INT, FUNC, FUNC_PROTO = 1, 12, 13
SIGNED = 1 << 24


def function_types(names: Sequence[str]) -> tuple[bytes, list[int]]:
    """The BTF, in this machine's byte order, and the type number of each function."""
    strings = bytearray(b"\0int\0")
    types = bytearray(struct.pack("=IIII", 1, INT << 24, 4, SIGNED | 32))
    types += struct.pack("=III", 0, FUNC_PROTO << 24, 1)
    for name in names:
        types += struct.pack("=III", len(strings), FUNC << 24, 2)
        strings += name.encode() + b"\0"
    header = struct.pack("=HBBIIIII", MAGIC, 1, 0, 24, 0, len(types), len(types), len(strings))
    return header + types + strings, list(range(3, 3 + len(names)))
