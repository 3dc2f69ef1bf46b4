"""Assembly text in LLVM's syntax for BPF (llvm-mc, inline assembly of C) -> a program.

Where it differs from the kernel's: jumps as `goto +3`, 64-bit immediates with `ll` behind them (without it, a
number is a 32-bit immediate, `r1 = 0x10` one slot), `w` registers where a memory access has 32 bits,
`xchg_64`, `cmpxchg32_32`, `skb[r7]`, several instructions in a line between `;`. `call local NAME` is uBPF's. `#` and
`//` begin comments, `/*` and `*/` enclose them.
Section and symbol directives say nothing about the program and are passed over.
"""

import re
from collections.abc import Iterator, Mapping

from model.isa.insn import Insn
from model.isa.opcodes import GOTOL, WIDE
from model.isa.parse import ParsedInsn, parse_insn
from model.loaders.assembly_draft import Draft, Place, bounded, split64, wrap32
from model.program import Program

_COMMENT = re.compile(r"(?:#|//).*")
_DIRECTIVE = re.compile(r"\.[a-z_]\w*(?:\s.*)?", re.ASCII)
_WIDE = re.compile(r"r([0-9]{1,2})\s*=\s*([+-]?\s*(?:0x[0-9a-fA-F]{1,16}|[0-9]{1,20}))\s*ll", re.ASCII)
_CODE = re.compile(r"r([0-9]{1,2})\s*=\s*([A-Za-z_.$][\w.$]*)\s+ll", re.ASCII)
_NUMBER = re.compile(r"(?<![\w.$])(?:0x[0-9a-fA-F]{1,16}|[0-9]{1,20})(?!\w)", re.ASCII)
_DISTANCE = re.compile(r"\b(goto|gotol|may_goto|call)\s+([+-]\s*)(0x[0-9a-fA-F]{1,8}|[0-9]{1,10})", re.ASCII)
_REWRITES = tuple(
    (re.compile(pattern, re.ASCII), text)
    for pattern, text in (
        (r"^call\s+local\s+", "call "),
        (r"\bskb\[\s*(r[0-9]{1,2})\s*\]", r"skb[\1 + 0]"),
        (r"\bxchg_64\(\s*(r[0-9]{1,2}.*?),", r"atomic64_xchg((u64 *)(\1),"),
        (r"\bxchg32_32\(\s*(r[0-9]{1,2}.*?),", r"atomic_xchg((u32 *)(\1),"),
        (r"\bcmpxchg_64\(\s*(r[0-9]{1,2}.*?),", r"atomic64_cmpxchg((u64 *)(\1),"),
        (r"\bcmpxchg32_32\(\s*(r[0-9]{1,2}.*?),", r"atomic_cmpxchg((u32 *)(\1),"),
        (r"\batomic_(fetch_\w+)\(\(u64 ", r"atomic64_\1((u64 "),
    )
)
_MEMORY = re.compile(r"\*\s*\)|xchg", re.ASCII)
_CUES = re.compile(
    r"\b(?:gotol?|call)\s+[+-]|/\*|\S;|;[ \t]*\S|\bll\b"
    r"|xchg_64|xchg32_32|\batomic_fetch_\w{1,8}\(\(u64|\*\)skb\[r\d+\]|\*\)[^\n]{0,80}=[ \t]*w",
    re.ASCII,
)


def looks_like(text: str) -> bool:
    """Whether something in `text` is LLVM's syntax and not the kernel's."""
    return _CUES.search(_COMMENT.sub("", text)) is not None


def _without_enclosed(text: str) -> str:
    """The text without what `/*` and `*/` enclose, its lines kept; what is never closed stays (and is refused)."""
    kept: list[str] = []
    at = 0
    while (start := text.find("/*", at)) >= 0 and (end := text.find("*/", start + 2)) >= 0:
        kept += [text[at:start], " ", "\n" * text.count("\n", start, end)]
        at = end + 2
    return "".join([*kept, text[at:]])


def _statements(text: str, file: str) -> Iterator[tuple[int, str]]:
    for number, raw in enumerate(bounded(_without_enclosed(text), file), 1):
        for part in _COMMENT.sub("", raw, count=1).split(";"):
            if statement := part.strip():
                yield number, statement


def _signed(match: re.Match[str]) -> str:
    """A number as the signed 32-bit immediate that it is, in decimal: the kernel's syntax takes hex for 64 bits."""
    value = int(match[0], 16 if match[0].startswith("0x") else 10)
    wrapped = wrap32(value)
    return str(value if wrapped is None else wrapped)


def _kernel_text(statement: str) -> str:
    """The statement in the kernel's syntax."""
    text = statement
    for pattern, replacement in _REWRITES:
        text = pattern.sub(replacement, text)
    if _MEMORY.search(text):
        text = re.sub(r"\bw([0-9]{1,2})\b", r"r\1", text)
    if match := _DISTANCE.search(text):
        distance = int(match[3], 16 if match[3].startswith("0x") else 10)
        return f"{_NUMBER.sub(_signed, text[: match.start()])}{match[1]} pc{match[2].strip()}{distance}"
    return _NUMBER.sub(_signed, text)


def _put(draft: Draft, line: int, statement: str, parsed: ParsedInsn) -> None:
    label: tuple[Place, str] | None = None
    if parsed.name is not None and parsed.unknown:
        place: Place = "imm" if parsed.insn.opcode == GOTOL or parsed.target == "callback" else "off"
        label = ("call" if parsed.target == "call" else place, parsed.name)
    draft.put(line, statement, parsed.insn, high=parsed.high, label=label)


def load(text: str, file: str, helper_ids: Mapping[str, int]) -> Program:
    """The program of an assembly text. Raises `InputError` with the line for what is not as above."""
    draft = Draft(file, helper_ids)
    for line, raw in _statements(text, file):
        statement = draft.take_labels(line, raw).strip()
        if not statement or _DIRECTIVE.fullmatch(statement):
            continue
        if match := _WIDE.fullmatch(statement):
            digits = re.sub(r"\s", "", match[2])
            halves = split64(int(digits, 16 if "0x" in digits else 10))
            if halves is None:
                raise draft.wrong(line, f"an immediate of 64 bits, found {statement[:80]!r}")
            draft.put(line, statement, Insn(WIDE, int(match[1]) & 15, imm=halves[0]), high=halves[1])
            continue
        if match := _CODE.fullmatch(statement):
            statement = f"r{match[1]} = subprog {match[2]}"
        parsed = parse_insn(_kernel_text(statement), labels=True, file=file, place=f"line {line}")
        _put(draft, line, statement, parsed)
    return draft.program()
