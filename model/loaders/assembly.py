"""Assembly text for people -> programs: the kernel's syntax with labels, names and a few directives.

One instruction a line, as `model.isa.parse` reads it, with or without `NN:` in front (then it must be the
right number) and the opcode in parentheses. A comment starts with `;`, `#` or `//` at the start of a
line or after white space. Directives:

* `.program NAME [SECTION]` begins a program; without one, everything is a program named "main".
* `.func NAME` begins a static subprogram of the program above it.
* `.map NAME TYPE KEY_SIZE VALUE_SIZE MAX_ENTRIES [flags=N] [extra=N] [inner=NAME]`, sizes in bytes, anywhere.
* `NAME:` labels the next instruction; names hold within one program.

Operands by name: `goto NAME`, `if … goto NAME`, `call NAME` (a function or label of the program, else a
helper), `r2 = subprog NAME`, `r1 = map[NAME]`, `r1 = map[NAME][0]+8`. This is the kernel's syntax, so
`r1 = 0x10` is a 64-bit load (two slots) and `r1 = 16` a move.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from io import StringIO

from model.errors import InputError
from model.isa.codec import form_of, why_no_form
from model.isa.insn import Insn
from model.isa.opcodes import CALL, GOTOL, Call, Imm64
from model.isa.parse import ParsedInsn, parse_insn
from model.loaders.assembly_layout import check_targets, subprograms
from model.program import Line, Map, MapRef, Object, Program, Ref

MOST_CHARACTERS = 64 << 20
MOST_INSTRUCTIONS = 1_000_000
MOST_MAPS = 65_536
MOST_PROGRAMS = 65_536
MOST_LINES = 4_000_000
LONGEST_LINE = 4096

_COMMENT = re.compile(r"(?:^|\s)(?:;|#|//).*", re.ASCII)
_INDEX = re.compile(r"([0-9]{1,9}):(?:\s+|$)", re.ASCII)
_LABEL = re.compile(r"([A-Za-z_.$][\w.$]{0,255}):(?:\s+|$)", re.ASCII)
_NAME = re.compile(r"[A-Za-z_.$][\w.$]{0,255}", re.ASCII)
_REGISTER = re.compile(r"[rw][0-9]+|pc", re.ASCII)
_NUMBER = re.compile(r"0x[0-9a-fA-F]{1,8}|[0-9]{1,10}", re.ASCII)
_S16, _S32 = range(-(1 << 15), 1 << 15), range(-(1 << 31), 1 << 31)


@dataclass(slots=True)
class _Draft:
    """A program while its lines are read. `named` holds what is resolved at the end: slot -> (what, line)."""

    name: str
    section: str
    insns: list[Insn] = field(default_factory=list)
    functions: dict[str, int] = field(default_factory=dict)
    labels: dict[str, int] = field(default_factory=dict)
    lines: dict[int, Line] = field(default_factory=dict)
    named: dict[int, tuple[ParsedInsn, int]] = field(default_factory=dict)
    base: int = 0
    line: int = 1


@dataclass(slots=True)
class _Source:
    """A file while it is read."""

    file: str
    helper_ids: Mapping[str, int]
    programs: list[_Draft] = field(default_factory=list)
    maps: dict[str, Map] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)
    inner: dict[str, tuple[str, int]] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)
    labels: int = 0
    count: int = 0

    def wrong(self, line: int, expected: str) -> InputError:
        return InputError(self.file, f"line {line}", expected)

    def begin(self, line: int, name: str, section: str) -> None:
        if name in self.names:
            raise self.wrong(line, f"a program name of its own, found {name!r} again")
        if len(self.programs) == MOST_PROGRAMS:
            raise self.wrong(line, f"at most {MOST_PROGRAMS} programs")
        self.names.add(name)
        self.programs.append(_Draft(name, section, line=line))

    def program(self, line: int) -> _Draft:
        if not self.programs:
            self.begin(line, "main", "")
        return self.programs[-1]


def _name(source: _Source, line: int, text: str, what: str) -> str:
    if not _NAME.fullmatch(text) or _REGISTER.fullmatch(text):
        raise source.wrong(line, f"the name of a {what}, found {text[:40]!r}")
    return text


def _number(source: _Source, line: int, text: str, what: str) -> int:
    value = int(text, 16 if text.startswith("0x") else 10) if _NUMBER.fullmatch(text) else -1
    if not 0 <= value < 1 << 32:
        raise source.wrong(line, f"{what} as a number of 32 bits, found {text[:40]!r}")
    return value


def _map(source: _Source, line: int, words: list[str]) -> None:
    if len(words) < 5:
        raise source.wrong(line, ".map NAME TYPE KEY_SIZE VALUE_SIZE MAX_ENTRIES [flags=N] [extra=N] [inner=NAME]")
    name = _name(source, line, words[0], "map")
    if name in source.maps:
        raise source.wrong(line, f"a map name of its own, found {name!r} again")
    if len(source.maps) == MOST_MAPS:
        raise source.wrong(line, f"at most {MOST_MAPS} maps")
    kind = _name(source, line, words[1], "map type").lower().removeprefix("bpf_map_type_")
    key_size, value_size, most = (
        _number(source, line, word, what)
        for word, what in zip(words[2:5], ("key size", "value size", "max entries"), strict=True)
    )
    flags = extra = 0
    for word in words[5:]:
        key, _, value = word.partition("=")
        match key:
            case "flags":
                flags = _number(source, line, value, "flags")
            case "extra":
                extra = _number(source, line, value, "extra")
            case "inner":
                source.inner[name] = (value, line)
            case _:
                raise source.wrong(line, f"flags=N, extra=N or inner=NAME, found {word[:40]!r}")
    source.numbers[name] = len(source.maps)
    source.maps[name] = Map(name, kind, key_size, value_size, most, flags, extra=extra)


def _directive(source: _Source, line: int, text: str) -> None:
    word, *rest = text.split()
    match word, rest:
        case ".program", [name] | [name, _]:
            section = rest[1] if len(rest) > 1 else ""
            source.begin(line, _name(source, line, name, "program"), section)
        case ".func", [name]:
            draft = source.program(line)
            if not draft.insns:
                raise source.wrong(line, "the program's own instructions before its first .func")
            _new_label(source, draft, line, name)
            draft.functions[name] = len(draft.insns)
        case ".map", _:
            _map(source, line, rest)
        case _:
            raise source.wrong(line, f".map, .program or .func with its arguments, found {text[:60]!r}")


def _new_label(source: _Source, draft: _Draft, line: int, name: str) -> None:
    _name(source, line, name, "label")
    if name in draft.labels:
        raise source.wrong(line, f"a label of its own, found {name!r} again")
    draft.labels[name] = len(draft.insns)
    source.labels += 1
    if source.labels > MOST_INSTRUCTIONS:
        raise source.wrong(line, f"at most {MOST_INSTRUCTIONS} labels")


def _instruction(source: _Source, line: int, column: int, text: str, index: int | None) -> None:
    draft = source.program(line)
    slot = len(draft.insns)
    if index is not None:
        if not slot:
            draft.base = index
        if index != draft.base + slot:
            raise source.wrong(line, f"index {draft.base + slot}, found {index}")
    parsed = parse_insn(text, labels=True, file=source.file, place=f"line {line}")
    if form_of(parsed.insn, loaded=False) is None:
        why = why_no_form(parsed.insn, loaded=False)
        raise source.wrong(line, f"an instruction that a program may hold, found {text[:80]!r}: {why}")
    if parsed.target is not None and (parsed.unknown or parsed.target in ("map", "call")):
        draft.named[slot] = (parsed, line)
    draft.insns.append(parsed.insn)
    if parsed.high is not None:
        draft.insns.append(Insn(0, imm=parsed.high))
    draft.lines[slot] = Line(source.file, line, column, text)
    source.count += 1
    if source.count > MOST_INSTRUCTIONS:
        raise source.wrong(line, f"at most {MOST_INSTRUCTIONS} instructions")


def _line(source: _Source, line: int, raw: str) -> None:
    text = _COMMENT.sub("", raw, count=1).strip()
    if len(text) > LONGEST_LINE:
        raise source.wrong(line, f"at most {LONGEST_LINE} characters, found {len(text)}")
    index: int | None = None
    while text:
        if text[0] == "." and not _LABEL.match(text):
            return _directive(source, line, text)
        if match := _INDEX.match(text):
            index = int(match[1])
        elif match := _LABEL.match(text):
            _new_label(source, source.program(line), line, match[1])
        else:
            return _instruction(source, line, raw.index(text) + 1, text, index)
        text = text[match.end() :]
    return None


def _helper(source: _Source, draft: _Draft, parsed: ParsedInsn, line: int) -> Insn:
    """A call by name or number; raises `InputError` where the name is neither in the program nor a helper's."""
    insn, name = parsed.insn, parsed.name
    if name is None or insn.src != Call.HELPER:
        return insn
    known = source.helper_ids.get(name.removeprefix("bpf_"))
    if "imm" not in parsed.unknown:
        if known is not None and known != insn.imm:
            raise source.wrong(line, f"helper {name} with its number {known}, found {insn.imm}")
        return insn
    if known is None:
        raise source.wrong(line, f"a function or label of the program or a helper, found {name!r}")
    return replace(insn, imm=known)


def _resolve(source: _Source, draft: _Draft, slot: int) -> tuple[Insn, Ref | None]:
    """The instruction at `slot` with what it names put in."""
    parsed, line = draft.named[slot]
    insn, name = parsed.insn, parsed.name
    if parsed.target == "map":
        return _map_load(source, parsed, line)
    target = draft.labels.get(name) if name is not None else None
    if parsed.target == "call" and (target is None or "imm" not in parsed.unknown):
        return _helper(source, draft, parsed, line), None
    if target is None:
        raise source.wrong(line, f"a label of the program, found {name!r}")
    distance = target - slot - 1
    if parsed.target == "call":
        return Insn(CALL, 0, int(Call.SUBPROGRAM), 0, distance), None
    if parsed.target == "callback" or insn.opcode == GOTOL:
        return replace(insn, imm=distance), None
    if distance not in _S16:
        raise source.wrong(line, f"a label within 16 bits of distance, found {name!r} at {distance:+d}")
    return replace(insn, off=distance), None


def _map_load(source: _Source, parsed: ParsedInsn, line: int) -> tuple[Insn, Ref]:
    name, insn = parsed.name, parsed.insn
    if name is None:
        if insn.src not in (Imm64.MAP_FD, Imm64.MAP_VALUE):
            raise source.wrong(line, "a map by name or id, found an index")
        name = f"id:{insn.imm}"
        source.maps.setdefault(name, Map(name, None, id=insn.imm))
        source.numbers.setdefault(name, len(source.numbers))
    if name not in source.maps:
        raise source.wrong(line, f"a map that a .map line defines, found {name!r}")
    offset = None if insn.src == Imm64.MAP_FD else (parsed.high or 0) & 0xFFFFFFFF
    return insn, MapRef(source.numbers[name], offset)


def _inner_maps(source: _Source) -> None:
    for name, (inner, line) in source.inner.items():
        if inner not in source.maps:
            raise source.wrong(line, f"an inner map that a .map line defines, found {inner[:40]!r}")
        if inner in source.inner:
            raise source.wrong(line, f"an inner map that holds no maps itself, found {inner!r}")
        source.maps[name] = replace(source.maps[name], inner=source.maps[inner])


def _finish(source: _Source, draft: _Draft) -> Program:
    if not draft.insns:
        raise source.wrong(draft.line, f"instructions in program {draft.name!r}, found none")
    refs: dict[int, Ref] = {}
    for slot in draft.named:
        draft.insns[slot], ref = _resolve(source, draft, slot)
        if ref is not None:
            refs[slot] = ref
    insns = tuple(draft.insns)
    names = {slot: name for name, slot in reversed(draft.labels.items())}
    names.update({slot: name for name, slot in draft.functions.items()})
    names[0] = draft.name

    def wrong(slot: int, expected: str) -> InputError:
        return source.wrong(draft.lines[slot].line, expected)

    parts = subprograms(insns, names, set(draft.functions.values()), wrong)
    check_targets(insns, parts, wrong)
    return Program(
        draft.name,
        insns,
        subprograms=parts,
        refs=refs,
        lines=draft.lines,
        section=draft.section,
        base=draft.base,
    )


def load(text: str, file: str, helper_ids: Mapping[str, int]) -> Object:
    """The programs and maps of an assembly text.

    `helper_ids` maps helper names without `bpf_` to their numbers; `call bpf_x#2` and `call 2` need none.
    Raises `InputError` with the line for everything that is not as above, and beyond 64 Mi characters,
    4,000,000 lines, 1,000,000 instructions or labels, 65,536 maps or programs, or 4,096 characters in a line.
    """
    if len(text) > MOST_CHARACTERS:
        raise InputError(file, "", f"at most {MOST_CHARACTERS} characters, found {len(text)}")
    source = _Source(file, helper_ids)
    for line, raw in enumerate(StringIO(text, newline="\n"), 1):
        if line > MOST_LINES:
            raise source.wrong(line, f"at most {MOST_LINES} lines")
        _line(source, line, raw.rstrip("\r\n"))
    if not source.programs:
        raise InputError(file, "", "instructions, found none")
    _inner_maps(source)
    programs = [_finish(source, draft) for draft in source.programs]
    maps = tuple(source.maps.values())
    return Object(file, tuple(replace(program, maps=maps) for program in programs), maps)
