"""Kernel symbols with their addresses, to turn names of call targets into immediates."""

import re
from collections.abc import Mapping
from dataclasses import replace

from model.errors import InputError
from model.rewrite.passes import Rewritten

BASE = "__bpf_call_base"
LIMIT = 256 << 20  # bytes; /proc/kallsyms of a distribution kernel takes about 15 MB


def read_symbols(path: str) -> dict[str, int]:
    """Symbol -> address from lines "ADDRESS TYPE NAME [MODULE]"; of several with one name, the first.

    Raises InputError where the file cannot be read, has no `__bpf_call_base`, or has its addresses hidden.
    """
    table: dict[str, int] = {}
    try:
        with open(path, encoding="utf-8") as stream:
            size = 0
            for number, text in enumerate(stream, 1):
                size += len(text)
                if size > LIMIT:
                    raise InputError(path, f"line {number}", "expected at most 256 MiB")
                fit = re.fullmatch(r"([0-9a-f]{1,16}) (\S) (\S+)(?:\s+\[\S+\])?\s*", text)
                if fit is None:
                    raise InputError(path, f"line {number}", "expected ADDRESS TYPE NAME, as in /proc/kallsyms")
                table.setdefault(fit[3], int(fit[1], 16))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(path, "", f"cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if BASE not in table:
        raise InputError(path, "", f"expected the symbol {BASE}")
    if table[BASE] == 0:
        raise InputError(path, BASE, "expected an address, but it is hidden (read the file as root)")
    return table


def link(done: Rewritten, symbols: Mapping[str, int], path: str) -> Rewritten:
    """`done` with the immediates of its calls filled in: symbol - `__bpf_call_base`, 32 bits signed."""
    insns = list(done.after.insns)
    left = dict(done.relocs)
    for slot, reloc in done.relocs.items():
        if reloc.kind != "call":
            continue
        if reloc.symbol not in symbols:
            raise InputError(path, "", f"expected the symbol {reloc.symbol}: is it of the same kernel?")
        distance = symbols[reloc.symbol] - symbols[BASE]
        if not -(1 << 31) <= distance < 1 << 31:
            raise InputError(path, reloc.symbol, f"expected an address within 2 GiB of {BASE}")
        insns[slot] = replace(insns[slot], imm=distance)
        del left[slot]
    return replace(done, after=replace(done.after, insns=tuple(insns)), relocs=left)
