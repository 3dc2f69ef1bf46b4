"""Cases as files: a generated program as assembly that every command reads, its run in comments in front.

; input 0x0000000000000001 0x0000000000000000
; entry m0 00000000 0100000000000000        (map, key, value; - for no key)
"""

import re

from gen.maps import Entry
from gen.programs import INPUTS, Generated
from model.errors import InputError

HEAD = "; python -m proofs replay FILE"
_INPUT = re.compile(r";\s*input((?:\s+(?:0x[0-9a-fA-F]{1,16}|[0-9]{1,20})){0,16})\s*")
_ENTRY = re.compile(r";\s*entry\s+([\w.]{1,64})\s+(-|(?:[0-9a-fA-F]{2}){1,512})\s+((?:[0-9a-fA-F]{2}){1,65536})\s*")
_MARK = re.compile(r";\s*(input|entry)\b")
MOST_ENTRIES = 65_536
FORM = f"'; input NUMBER…' (at most {INPUTS}, of 64 bits) or '; entry MAP KEY VALUE' (in hex)"


def written(made: Generated, notes: tuple[str, ...] = ()) -> str:
    """The file's text; `notes` become comments, whatever they hold."""
    lines = [HEAD, *(f"; {_plain(line)}" for note in notes for line in note.splitlines())]
    lines += ["; input " + " ".join(f"0x{word:016x}" for word in made.inputs)]
    lines += [f"; entry {entry.map} {entry.key.hex() or '-'} {entry.value.hex()}" for entry in made.entries]
    return "\n".join([*lines, made.text])


def _plain(line: str) -> str:
    """A note that nobody takes for input, an entry or an escape code."""
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)
    return f"- {shown}" if _MARK.match(f"; {shown}") else shown


def read(text: str, file: str) -> Generated:
    """The case of a file. Raises `InputError` for an input or entry of another form; the program itself is not read."""
    inputs: tuple[int, ...] = ()
    entries: list[Entry] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not _MARK.match(line):
            continue
        if found := _INPUT.fullmatch(line):
            inputs = tuple(int(word, 16 if word.startswith("0x") else 10) for word in found[1].split())
        elif (found := _ENTRY.fullmatch(line)) and len(entries) < MOST_ENTRIES:
            key = "" if found[2] == "-" else found[2]
            entries.append(Entry(found[1], bytes.fromhex(key), bytes.fromhex(found[3])))
        else:
            raise InputError(file, f"line {number}", f"expected {FORM}")
    if len(inputs) > INPUTS or any(word >> 64 for word in inputs):
        raise InputError(file, "input", f"expected {FORM}")
    return Generated(text, (), tuple(entries), inputs + (0,) * (INPUTS - len(inputs)))
