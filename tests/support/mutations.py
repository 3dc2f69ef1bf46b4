"""Inputs of every kind that a command reads, and ways to damage them. All choices come from the `Random` given."""

import io
import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from elftools.elf.elffile import ELFFile
from facts_mini import table
from kernel_mini_tree import FILES as TREE
from kernel_mini_tree import HERE as TREE_ROOT
from kernel_writer import kernel, system_map

from model.kernel.data import dump_release, load_release
from model.kernel.extract import extract
from proofs.cli import main

TESTS = Path(__file__).resolve().parents[1]
OBJECTS, DUMPS = TESTS / "data" / "objects", TESTS / "data" / "dumps"
MOST = 1 << 20
"""Bytes of a damaged input."""
CASE = """\
; input 0x0000000000000001 7
; entry m0 00000000 0100000000000000
.map io array 4 64 1
.map m0 hash 4 8 4
r9 = 0
*(u32 *)(r10 -4) = 0
r2 = r10
r2 += -4
r1 = map[io]
call bpf_map_lookup_elem
if r0 == 0x0 goto out
r9 = r0
r1 = *(u64 *)(r9 +0)
*(u64 *)(r10 -16) = r1
r2 = r10
r2 += -4
r1 = map[m0]
call bpf_map_delete_elem
*(u64 *)(r9 +32) = r0
out:
r0 = 0
exit
"""
LLVM = """\
start:
    r1 = 0x1122334455667788 ll
    r0 = r1
    w2 = w1
    if r0 s> -1 goto end
    r0 = be16 r0
    lock *(u64 *)(r10 - 8) += r0
    r0 s/= 3
    call 5
end:
    exit
"""
UBPF = """\
mov %r0, 0
lddw %r1, 0x1122334455667788
stxdw [%r10-8], %r1
ldxw %r2, [%r10-8]
again:
add %r0, 1
jlt %r0, 7, again
call 5
be32 %r0
exit
"""
CONFORMANCE = "-- asm\nldxh %r0, [%r1+1]\nbe16 %r0\nexit\n-- mem\naa bb 11 cc\n-- result\n0xbb11\n"
AFTER = """\
; sum in socket
   0: (18) r1 = map[values:array 4 8 16]
   2: (18) r2 = subprog[+6]
   4: (b7) r3 = 0
   5: (b7) r4 = 0
   6: (85) call bpf_for_each_array_elem#170336
   7: (b7) r0 = 0
   8: (95) exit
   9: (b7) r0 = 0
  10: (95) exit
"""
KNOWN = """\
[[known]]
name = "dispatch/6.1/x86_64/hash/*"
reason = "int results, fixed in 6.4"
link = "https://git.kernel.org/linus/d7ba4cc900bf"

[[known]]
name = "dispatch/*/x86_64/queue/map_p*_elem"
reason = "the same"
"""
CODE = bytes.fromhex("ffd04898c3"), bytes.fromhex("b8eaffffffc3"), bytes.fromhex("48c7c0eaffffffc3")
FUNCTIONS = dict(zip(("bpf_map_delete_elem", "htab_map_delete_elem", "array_map_delete_elem"), CODE, strict=True))


def _files(*places: Path) -> tuple[bytes, ...]:
    return tuple(path.read_bytes() for path in places)


ARTEFACTS = tuple(f"out/{name}" for name in ("manifest.json", "dispatch/7.3/x86_64/hash/map_update_elem/r0.smt2"))


def _artefacts() -> tuple[bytes, ...]:
    """What `check --smt2` writes of one obligation, in the order of `ARTEFACTS`."""
    with TemporaryDirectory() as place, redirect_stdout(io.StringIO()):
        status = main(["check", "--match", "dispatch/7.3/x86_64/hash/map_update_elem/r0", "--smt2", f"{place}/out"])
        assert status == 0
        return _files(*(Path(place, name) for name in ARTEFACTS))


def seeds() -> Mapping[str, tuple[bytes, ...]]:
    """Good inputs by kind."""
    instructions = bytes.fromhex("b7000000050000001801000000000000000000000100000005000100000000009500000000000000")
    releases = [extract(TREE_ROOT), load_release("6.1"), load_release("7.3")]
    return {
        "object": _files(*sorted(OBJECTS.glob("*.o"))),
        "dump": _files(*sorted(path for path in DUMPS.rglob("*.txt"))),
        "json": _files(*sorted(path for path in DUMPS.glob("*.json") if path.name != "maps.json")),
        "maps": _files(DUMPS / "maps.json", DUMPS / "live" / "maps.json"),
        "baseline": (KNOWN.encode(),),
        "release": tuple(dump_release(release).encode() for release in releases),
        "case": (CASE.encode(),),
        "after": (AFTER.encode(),),
        "assembly": (CASE.encode(),),
        "foreign": (LLVM.encode(), UBPF.encode(), CONFORMANCE.encode()),
        "raw": (instructions, instructions.hex().encode()),
        "symbols": (system_map(FUNCTIONS).encode() + b"ffffffff81000000 T __bpf_call_base\n",),
        "artefacts": _artefacts(),
        "facts": (json.dumps(table()).encode(),),
        "vmlinux": (kernel(FUNCTIONS),),
        "source": tuple(text.encode() for text in TREE.values()),
        "word": (
            b"dispatch/6.1/x86_64/hash/map_update_elem/r0",
            b"inline/7.3/array/*/fits",
            b"callback/6.12/hash/count",
            b"142:r4=array",
            b"releases",
            b"7.3,6.1",
        ),
    }


EXTREMES = (
    *(0, -1, 1, 7, 255, 256, 65535, 65536, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, (1 << 63) - 1, 1 << 63),
    *((1 << 64) - 1, 1 << 64, -(1 << 31), -(1 << 63), 10**30, 10**400),
)
JUNK = (b"\0", b"\x1b[31m", b"\xff\xfe", "\u2028".encode(), "\u0663".encode(), b"\r", b"'", b'"', b"[[", b"{")
NUMBER = re.compile(rb"-?(?:0x[0-9a-fA-F]+|[0-9]+)")
TOKEN = re.compile(rb"[A-Za-z_][\w.]*|[0-9]+|[^\s\w]+")
Mutation = Callable[[Random, bytes, bytes], bytes]


def flip(random: Random, data: bytes, other: bytes) -> bytes:
    made = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 8, 64))):
        if made:
            made[random.randrange(len(made))] ^= 1 << random.randrange(8)
    return bytes(made)


def cut(random: Random, data: bytes, other: bytes) -> bytes:
    return data[: random.randrange(len(data) + 1)]


def without(random: Random, data: bytes, other: bytes) -> bytes:
    at = random.randrange(len(data) + 1)
    return data[:at] + data[at + random.choice((1, 4, 8, 64)) :]


def insert(random: Random, data: bytes, other: bytes) -> bytes:
    at = random.randrange(len(data) + 1)
    put = random.choice((random.randbytes(random.randrange(1, 33)), random.choice(JUNK) * random.choice((1, 3, 2000))))
    return data[:at] + put + data[at:]


def twice(random: Random, data: bytes, other: bytes) -> bytes:
    """A block again, at its place or at another one, once or many times."""
    start = random.randrange(len(data) + 1)
    block = data[start : start + random.choice((8, 40, 64, 400))]
    at = random.choice((start, random.randrange(len(data) + 1)))
    return data[:at] + block * random.choice((1, 2, 500)) + data[at:]


def lines(random: Random, data: bytes, other: bytes) -> bytes:
    """Lines dropped, repeated, in another order."""
    rows = data.splitlines(keepends=True) or [b""]
    for _ in range(random.randrange(1, 5)):
        at, to = random.randrange(len(rows)), random.randrange(len(rows))
        rows[at : at + 1] = random.choice(([], [rows[at]] * 2, [rows[to]], [rows[at]] * 300)) or [b""]
    return b"".join(rows)


def extreme(random: Random, data: bytes, other: bytes) -> bytes:
    """A number in text becomes an extreme one; so do a few bytes in binary data."""
    found = list(NUMBER.finditer(data))
    number = random.choice(EXTREMES)
    if b"\0" not in data[:64] and found:
        one = random.choice(found)
        text = random.choice((f"{number}", f"{number:#x}", f"{number}.5", f"{number}e9")).encode()
        return data[: one.start()] + text + data[one.end() :]
    size = random.choice((1, 2, 4, 8))
    at = random.randrange(len(data) + 1)
    return data[:at] + (number % (1 << 8 * size)).to_bytes(size, random.choice(("little", "big"))) + data[at + size :]


def token(random: Random, data: bytes, other: bytes) -> bytes:
    """A token of the other input takes the place of one."""
    here, there = list(TOKEN.finditer(data[:MOST])), list(TOKEN.finditer(other[:MOST]))
    if not here or not there:
        return data + other
    one, two = random.choice(here), random.choice(there)
    return data[: one.start()] + two[0] + data[one.end() :]


def splice(random: Random, data: bytes, other: bytes) -> bytes:
    return data[: random.randrange(len(data) + 1)] + other[random.randrange(len(other) + 1) :]


def tree(random: Random, data: bytes, other: bytes) -> bytes:
    """One value of a JSON text becomes another one, or goes; other inputs lose a byte."""
    try:
        value = json.loads(data)
        places = _places(value)
    except (ValueError, RecursionError):
        return without(random, data, other)
    if not places:
        return random.choice((b"{}", b"[]", b"1"))
    for _ in range(random.choice((1, 1, 1, 3))):
        holder, key = random.choice(places)
        _put(random, holder, key, places)
    try:
        return json.dumps(value).encode()
    except (ValueError, RecursionError):  # a value that holds itself
        return data


def _places(value: Any) -> list[tuple[Any, Any]]:
    found: list[tuple[Any, Any]] = []
    wait = [value] if isinstance(value, dict | list) else []
    while wait:
        holder = wait.pop()
        keys: Sequence[Any] = list(holder) if isinstance(holder, dict) else range(len(holder))
        for key in keys:
            found.append((holder, key))
            if isinstance(holder[key], dict | list):
                wait.append(holder[key])
    return found


def _put(random: Random, holder: Any, key: Any, places: Sequence[tuple[Any, Any]]) -> None:
    if key not in (range(len(holder)) if isinstance(holder, list) else holder):
        return
    other, place = random.choice(places)
    taken = other[place] if isinstance(other, dict) and place in other else None
    plain: tuple[Any, ...] = (None, True, "", "\x1b[2J", "é" * 300, [], {}, 1.5, float("nan"), {"": []}, taken)
    match random.randrange(5):
        case 0:
            del holder[key]
        case 1 if isinstance(holder, dict):
            holder[random.choice(("", "x", "\n", str(taken)[:80]))] = holder.pop(key)
        case 2 if isinstance(holder, list):
            holder.insert(key, taken)
        case 3:
            holder[key] = random.choice(EXTREMES[:-1])
        case _:
            holder[key] = random.choice(plain)


def line(random: Random, data: bytes, other: bytes) -> bytes:
    """A line goes, comes again, or changes places with another one."""
    rows = data.splitlines(keepends=True)
    if len(rows) < 2:
        return near(random, data, other)
    at, to = random.randrange(len(rows)), random.randrange(len(rows))
    match random.randrange(3):
        case 0:
            del rows[at]
        case 1:
            rows.insert(at, rows[to])
        case _:
            rows[at], rows[to] = rows[to], rows[at]
    return b"".join(rows)


def near(random: Random, data: bytes, other: bytes) -> bytes:
    """A number becomes one beside it, or another one of the same input."""
    found = list(NUMBER.finditer(data))
    if not found:
        return flip(random, data, other)
    one = random.choice(found)
    number = int(one[0], 16) if b"x" in one[0] else int(one[0])
    text = random.choice((f"{number + 1}".encode(), f"{abs(number) // 2}".encode(), random.choice(found)[0]))
    return data[: one.start()] + text + data[one.end() :]


def alike(random: Random, data: bytes, other: bytes) -> bytes:
    """A name or sign becomes another one of the same input."""
    found = list(TOKEN.finditer(data))
    if not found:
        return flip(random, data, other)
    one = random.choice(found)
    same = [two[0] for two in found if two[0][:1].isalpha() == one[0][:1].isalpha()]
    return data[: one.start()] + random.choice(same) + data[one.end() :]


def leaf(random: Random, data: bytes, other: bytes) -> bytes:
    """A value of a JSON text becomes another one of its type, from the same text."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return alike(random, data, other)
    places = _places(value)
    if not places:
        return data
    holder, key = random.choice(places)
    kind = type(holder[key])
    same = [two[place] for two, place in places if type(two[place]) is kind]
    new = random.choice(same)
    if isinstance(new, int) and not isinstance(new, bool) and random.random() < 0.5:
        new += random.choice((-1, 1, 8, 1 << 31))
    holder[key] = json.loads(json.dumps(new))
    return json.dumps(value).encode()


def instruction(random: Random, data: bytes, other: bytes) -> bytes:
    """In an object or a raw program: a slot becomes another one, or a field of it another value (RFC 9669, 3)."""
    places = _slots(data)
    if not places:
        return random.choice((near, alike, line))(random, data, other)
    at, to = random.choice(places), random.choice(places)
    slot = bytearray(data[at : at + 8])
    match random.randrange(5):
        case 0:
            slot = bytearray(data[to : to + 8])
        case 1:
            slot[0] ^= 1 << random.randrange(8)
        case 2:
            slot[1] = random.randrange(11) | random.randrange(11) << 4
        case 3:
            slot[2:4] = random.choice((-3, -2, -1, 0, 1, 2, 8)).to_bytes(2, "little", signed=True)
        case _:
            slot[4:] = (random.choice(EXTREMES) % (1 << 32)).to_bytes(4, "little")
    return data[:at] + bytes(slot) + data[at + 8 :]


def _slots(data: bytes) -> Sequence[int]:
    """Where instructions begin: those of an object's executable sections (gABI, chapter 4)."""
    if not data.startswith(b"\x7fELF"):
        return range(0, len(data) - 7, 8) if b"\0" in data else ()
    try:
        sections = [one.header for one in ELFFile(io.BytesIO(data)).iter_sections()]
    except Exception:  # damaged already, and pyelftools says so in many ways
        return ()
    found: list[int] = []
    for header in sections:
        if header["sh_flags"] & 4:
            end = min(header["sh_offset"] + header["sh_size"], len(data))
            found += range(header["sh_offset"], end - 7, 8)
    return found


FINE: tuple[Mutation, ...] = (line, near, alike, leaf, instruction, instruction)
"""What a loader mostly takes, so that the damage is what comes behind it."""
GROSS: tuple[Mutation, ...] = (flip, cut, without, insert, twice, lines, extreme, extreme, token, splice, tree, tree)


@dataclass(frozen=True, slots=True)
class Inputs:
    """`good` are the seeds."""

    good: Mapping[str, tuple[bytes, ...]]

    def damaged(self, random: Random, kind: str) -> bytes:
        data = random.choice(self.good[kind])
        gross = random.random() < 0.4
        for _ in range(random.choice((1, 1, 2, 4) if gross else (1, 1, 1, 3))):
            other = random.choice(self.good[random.choice((kind, random.choice(tuple(self.good))))])
            data = random.choice(GROSS if gross else FINE)(random, data, other)[:MOST]
        return data
