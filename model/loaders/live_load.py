"""What BPF_PROG_LOAD is given, packed (`union bpf_attr`, include/uapi/linux/bpf.h of 6.12)."""

import ctypes
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from model.isa.codec import ByteOrder, encode
from model.isa.insn import Insn

FUNCTION_RECORD, LINE_RECORD, CORE_RECORD = 8, 16, 16
"""Bytes of a record of struct bpf_func_info, bpf_line_info, bpf_core_relo."""
LOG_SIZE = 1 << 20
Block = ctypes.Array[ctypes.c_char]


@dataclass(frozen=True, slots=True)
class Load:
    """One program. `kind` is enum bpf_prog_type, `attach` enum bpf_attach_type, `target` the BTF id attached to.

    `types` is the descriptor of the program's BTF; `functions`, `lines` and `core` are records packed in this machine's
    byte order, which need it. `version` is LINUX_VERSION_CODE, which kprobes had to name before 5.0.
    """

    insns: Sequence[Insn]
    kind: int
    license: str = "GPL"
    flags: int = 0
    attach: int = 0
    target: int = 0
    types: int = 0
    functions: bytes = b""
    lines: bytes = b""
    core: bytes = b""
    version: int = 0
    name: bytes = b"model"


def block(data: bytes) -> Block:
    return ctypes.create_string_buffer(data, max(len(data), 1))


def packed(
    load: Load, order: ByteOrder, level: int, log_size: int = LOG_SIZE
) -> tuple[bytes, Block, tuple[Block, ...]]:
    """The attributes, the log's buffer, and all buffers whose addresses the attributes hold.

    `level` is log_level, 0 for none. What a kernel of before 5.17 does not know (`core`) is left out where it is not
    used.
    """
    log = ctypes.create_string_buffer(log_size if level else 1)
    code, licence = block(encode(load.insns, order)), block(load.license.encode() + b"\0")
    functions, lines, core = block(load.functions), block(load.lines), block(load.core)
    attributes = struct.pack(
        "=IIQQIIQII16sIIIIQIIQIIII",
        *(load.kind, len(load.insns), ctypes.addressof(code), ctypes.addressof(licence)),
        *(level, len(log) if level else 0, ctypes.addressof(log) if level else 0, load.version, load.flags),
        *(load.name[:15], 0, load.attach, load.types),
        *_records(load.functions, functions, FUNCTION_RECORD),
        *_records(load.lines, lines, LINE_RECORD),
        *(load.target, 0, len(load.core) // CORE_RECORD),
    )
    if load.core:
        attributes += struct.pack("=QQII", 0, ctypes.addressof(core), CORE_RECORD, 0)
    return attributes, log, (code, licence, log, functions, lines, core)


def _records(data: bytes, held: Block, size: int) -> tuple[int, int, int]:
    """Size of a record, address, number of records; all 0 where there is none."""
    return (size, ctypes.addressof(held), len(data) // size) if data else (0, 0, 0)
