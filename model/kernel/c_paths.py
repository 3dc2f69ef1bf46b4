"""What a small C function does, path by path: enough to ask the verifier's checks about one map type and helper.

Conditions are evaluated where their names are known and forked on where they are not; the path then says so.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from model.kernel.c_tree import Code, Unread, split_arguments

STEPS = 4000  # statements in all paths of one question; the verifier's own need about 60
SKIPPED = ("declaration", "comment", ";")
FALLTHROUGH = ("fallthrough;", "__attribute__((fallthrough));", "__fallthrough;")
CONSTANT = re.compile(r"[A-Z_][A-Z0-9_a-z]*\Z")


@dataclass(frozen=True, slots=True)
class Path:
    """One way through: the unknown conditions that it took as (text, truth), and how it ended.

    `end` is "" (goes on), "break", "goto LABEL" or "return TEXT"; `line` is where it ended.
    """

    taken: tuple[tuple[str, bool], ...] = ()
    end: str = ""
    line: int = 0


Known = Mapping[str, str]  # expression text -> the constant's name that it has ("map->map_type" -> "BPF_MAP_TYPE_HASH")


@dataclass(slots=True)
class Paths:
    """An evaluation over `known` names; `functions` are bodies that conditions may call; equal `constants` are one."""

    known: Known
    functions: Mapping[str, Code]
    constants: Mapping[str, object]
    steps: int = STEPS

    def run(self, function: Code) -> list[Path]:
        """All paths through the function's body. Raises Unread for statements that have no rule."""
        return list(self._block(function.need("body").children, Path()))

    def _block(self, statements: list[Code], path: Path) -> Iterator[Path]:
        if not statements:
            yield path
            return
        for after in self._statement(statements[0], path):
            if after.end:
                yield after
            else:
                yield from self._block(statements[1:], after)

    def _statement(self, code: Code, path: Path) -> Iterator[Path]:
        self.steps -= 1
        if self.steps < 0:
            raise Unread(f"too many paths: {code.text[:80]}")
        match code.type:
            case "compound_statement":
                yield from self._block(code.children, path)
            case "if_statement":
                yield from self._if(code, path)
            case "switch_statement":
                yield from self._switch(code, path)
            case "break_statement":
                yield replace(path, end="break", line=code.line)
            case "goto_statement":
                yield replace(path, end=f"goto {code.children[0].text}", line=code.line)
            case "return_statement":
                text = code.children[0].text if code.children else ""
                yield replace(path, end=f"return {text}", line=code.line)
            case "labeled_statement":
                yield from self._block(code.children[1:], path)
            case "expression_statement" if code.text in FALLTHROUGH or _is_call(code):
                yield path
            case kind if kind in SKIPPED and not self._asks(code.text):
                yield path
            case _:
                raise Unread(f"a statement that is not understood: {code.text[:120]}")

    def _if(self, code: Code, path: Path) -> Iterator[Path]:
        otherwise = code.get("alternative")
        for after, truth in self._truth(code.need("condition"), path):
            if truth:
                yield from self._statement(code.need("consequence"), after)
            elif otherwise is not None:
                inner = otherwise.children if otherwise.type == "else_clause" else [otherwise]
                yield from self._block(inner, after)
            else:
                yield after

    def _switch(self, code: Code, path: Path) -> Iterator[Path]:
        subject = _bare(code.need("condition")).text
        cases = code.need("body").children
        for case in cases:
            value = case.get("value")
            if case.type != "case_statement" or (value is not None and not CONSTANT.match(value.text)):
                raise Unread(f"a case that is not understood: {case.text[:120]}")
        values = [value.text if (value := case.get("value")) else None for case in cases]
        name = self.known.get(subject)
        if name is None and self._asks(subject):
            raise Unread(f"a condition that is not understood: {subject[:120]}")
        if name is not None:
            hits = [i for i, value in enumerate(values) if value is not None and self._same(value, name)]
            hits = hits or [i for i, value in enumerate(values) if value is None]
            starts = [(hits[0] if hits else len(cases), path)]
        else:
            starts = [
                (index, self._take(path, f"{subject} == {value}" if value else f"{subject} otherwise", True))
                for index, value in enumerate(values)
            ]
        for start, taken in starts:
            rest = [statement for case in cases[start:] for statement in _case_body(case)]
            for after in self._block(rest, taken):
                yield replace(after, end="") if after.end == "break" else after

    @staticmethod
    def _take(path: Path, text: str, truth: bool) -> Path:
        return replace(path, taken=(*path.taken, (text, truth)))

    def _same(self, one: str, other: str) -> bool:
        return self.constants.get(one, one) == self.constants.get(other, other)

    def _truth(self, code: Code, path: Path) -> Iterator[tuple[Path, bool]]:
        code = _bare(code)
        operator = code.get("operator")
        symbol = operator.text if operator else ""
        if code.type == "unary_expression" and symbol == "!":
            for after, truth in self._truth(code.need("argument"), path):
                yield after, not truth
        elif code.type == "binary_expression" and symbol in ("&&", "||"):
            for after, truth in self._truth(code.need("left"), path):
                if truth == (symbol == "||"):
                    yield after, truth
                else:
                    yield from self._truth(code.need("right"), after)
        elif symbol in ("==", "!=") and (sides := self._compared(code)) is not None:
            yield path, self._same(*sides) == (symbol == "==")
        elif code.type == "call_expression" and code.need("function").text in self.functions:
            yield from self._call(code, path)
        elif code.text in self.known:
            yield path, self.known[code.text] not in ("0", "NULL", "false")
        elif self._asks(code.text):
            raise Unread(f"a condition that is not understood: {code.text[:120]}")
        else:
            for truth in (True, False):
                yield self._take(path, code.text, truth), truth

    def _asks(self, text: str) -> bool:
        """Whether `text` depends on what is asked for: one of the known names whose value is a constant's name."""
        names = (name for name, value in self.known.items() if CONSTANT.match(value))
        return any(re.search(rf"(?<![\w.>]){re.escape(name)}(?!\w|\s*->|\s*\.)", text) for name in names)

    def _compared(self, code: Code) -> tuple[str, str] | None:
        """A known name's value and the constant that it is compared with, on either side; None for other operands."""
        left, right = _bare(code.need("left")).text, _bare(code.need("right")).text
        for one, other in ((left, right), (right, left)):
            if one in self.known and CONSTANT.match(other):
                return other, self.known[one]
        return None

    def _call(self, call: Code, path: Path) -> Iterator[tuple[Path, bool]]:
        function = self.functions[call.need("function").text]
        names = [
            re.findall(r"\w+", item.text)[-1] for item in function.need("declarator").find("parameter_declaration")
        ]
        arguments = split_arguments(call.need("arguments").text[1:-1])
        for name, argument in zip(names, arguments, strict=False):
            if argument != name and self._asks(argument):
                raise Unread(f"a call that is not understood: {call.text[:120]}")
        for after in self._block(function.need("body").children, path):
            if after.end not in ("return true", "return false"):
                raise Unread(f"a result that is not understood: {after.end}")
            yield replace(after, end="", line=0), after.end == "return true"


def _is_call(code: Code) -> bool:
    return bool(code.children) and code.children[0].type == "call_expression"


def _bare(code: Code) -> Code:
    while code.type == "parenthesized_expression" and code.children:
        code = code.children[0]
    return code


def _case_body(case: Code) -> list[Code]:
    """The statements behind `case VALUE:`."""
    value = case.get("value")
    return [child for child in case.children if value is None or child.node.id != value.node.id]
