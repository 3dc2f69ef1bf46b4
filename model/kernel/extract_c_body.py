"""Function bodies from a kernel source tree: operations that claims compare with what they are to do.

What a body calls is read too, down to the functions that an inlined sequence itself calls, and to those whose
definition is in another file: these stay unknown.
A definition that two branches of the preprocessor have is taken from the first (the feature built in).
"""

import re
from collections.abc import Iterable, Iterator, Mapping

from model.kernel.c_body import (
    Assign,
    Body,
    Branch,
    Call,
    Check,
    Container,
    Declare,
    Do,
    Each,
    Leave,
    Member,
    Param,
    Step,
    Unreadable,
    nodes_of,
    steps_of,
)
from model.kernel.c_layout import Structs
from model.kernel.c_tree import Code, Notes, Source, Tree, Unread, closing, parse
from model.kernel.c_types import Lookup
from model.kernel.extract_c_body_expr import MACROS, Scope, read_expr, read_place
from model.kernel.extract_c_body_types import declared, read_c_type
from model.kernel.extract_walk import EFFECTLESS, MACRO, read_effect, read_walk
from model.kernel.nesting import bounded
from model.kernel.release import Emit, Function, GenLookup, If, Name, OpsTable, Statement

ANNOTATION = re.compile(
    rb"\b__(?:percpu|rcu|user|force|always_inline|bpf_kfunc|private|must_check)\b|\b__must_hold\s*\([^()]{0,80}\)"
)
# A type among the arguments of a macro, which is no C expression: blanked down to the tag.
CONTAINER = re.compile(rb"(?<=\bcontainer_of\()(\s*\w+\s*,\s*)struct(?=\s+\w+\s*,\s*\w+\s*\))")
DIRECTIVE = re.compile(rb"(?m)^[ \t]*#(?:\\\n|[^\n])*")
INCLUDE = re.compile(rb'(?m)^[ \t]*#[ \t]*include[ \t]+(?:"([\w./-]{1,200})"|<([\w./-]{1,200})>)')
BRACE = re.compile(rb"\s*(?:__\w+(?:\s*\([^()]{0,80}\))?\s*)*\{")
LOCKS = r"!?\s*(?:rcu_read_lock_held|rcu_read_lock_trace_held|rcu_read_lock_bh_held|bpf_rcu_lock_held)\(\)"
LOCK_CHECK = re.compile(rf"\(\s*{LOCKS}(?:\s*(?:&&|\|\|)\s*{LOCKS})*\s*\)")
CALLS = ("BPF_EMIT_CALL",)
FUNCTIONS = 512  # bodies of one release; the newest has 26
WALK = "map_for_each_callback"
ERRNO = "include/uapi/asm-generic/errno-base.h"
DEFINE = re.compile(rb"(?m)^[ \t]*#[ \t]*define[ \t]+(E[A-Z0-9]+)[ \t]+(\d{1,4})[ \t]*$")


def read_bodies(
    tree: Tree,
    tables: Mapping[str, OpsTable],
    functions: Mapping[str, Function],
    lookups: Mapping[str, GenLookup],
    look: Lookup,
    notes: Notes,
    numbers: Mapping[str, int] | None = None,
) -> tuple[dict[str, Body], dict[str, int]]:
    """The `map_lookup_elem` of every table with a `map_gen_lookup`, each `map_for_each_callback`, and what they call.

    By symbol. `numbers` are enumerators by name. Also the offsets in them that are known without a build
    ("struct bpf_array.map" -> 0).
    """
    unknown = {name for lookup in lookups.values() for name in _called(lookup.body)}
    wanted = list(_operations(tables, functions))
    constants = {**(numbers or {}), **_errnos(tree)}
    found: dict[str, Body] = {}
    while wanted:
        name, file = wanted.pop()
        if name in found:
            continue
        if len(found) == FUNCTIONS:
            notes.add(file, 1, f"more than {FUNCTIONS} functions are called by lookups")
            break
        try:
            body = _body(tree, name, file, name in unknown, look, constants)
            bounded(body)
        except Unread as error:
            notes.add(file, 1, f"{name}: {error}")
            continue
        found[name] = body
        for step in steps_of(body.steps or ()):
            if isinstance(step, Unreadable):
                notes.add(body.file, step.line, f"{name}: a statement that is not understood: {step.text}")
        calls = {node.function for node in nodes_of(body.steps) if isinstance(node, Call)}
        wanted += [(call, body.file) for call in sorted(calls - set(MACROS))]
    return dict(sorted(found.items())), _offsets(tree, found.values(), look)


def _operations(tables: Mapping[str, OpsTable], functions: Mapping[str, Function]) -> Iterator[tuple[str, str]]:
    """Name and file of each function whose body is wanted for its own sake."""
    for table in tables.values():
        for slot, needed in (("map_lookup_elem", "map_gen_lookup"), (WALK, WALK)):
            function = functions.get(table.slots.get(slot, ""))
            if needed in table.slots and function is not None:
                yield function.name, function.file


def _errnos(tree: Tree) -> dict[str, int]:
    """The error numbers that all architectures share."""
    source = tree.get(ERRNO)
    found = DEFINE.findall(source.data) if source else []
    return {name.decode(): int(value) for name, value in found}


def _offsets(tree: Tree, bodies: Iterable[Body], look: Lookup) -> dict[str, int]:
    """Offsets of members that need no build; a first member's is 0 in any (C11 6.7.2.1)."""
    layout: dict[str, int] = {}
    for body in bodies:
        structs = Structs(tree, look, (body.file,))
        for node in nodes_of(body.steps):
            if isinstance(node, Member | Container | Each):
                key = f"struct {node.struct}.{node.member}"
                try:
                    first = next(structs.definition(node.struct)[0].find("field_declaration"))
                    alone = [name.text for name in first.find("field_identifier")] == [node.member]
                    layout[key] = 0 if alone else structs.offset(node.struct, node.member)
                except Unread:
                    continue  # the configuration decides: left open by design
    return layout


def _called(body: Iterable[Statement]) -> set[str]:
    """Kernel functions that a sequence calls."""
    names: set[str] = set()
    for statement in body:
        match statement:
            case Emit(macro, arguments, _) if macro in CALLS:
                names |= {argument.name for argument in arguments if isinstance(argument, Name)}
            case If(_, then, otherwise):
                names |= _called(then) | _called(otherwise)
    return names


def _body(tree: Tree, name: str, file: str, unknown: bool, look: Lookup, constants: Mapping[str, int]) -> Body:
    source, code = _find(tree, name, file)
    unknown = unknown or code.type == "declaration"
    structs = Structs(tree, look, (source.file,))
    declarator = code.need("declarator")
    stars = 0
    while declarator.type == "pointer_declarator":
        declarator, stars = declarator.need("declarator"), stars + 1
    result = read_c_type(code.need("type").text + " " + "*" * stars, look)
    params = []
    for item in declarator.need("parameters").children:
        if item.text != "void":
            kind, inner = declared(item.need("type"), item.need("declarator"), look)
            params.append(Param(inner, kind))
    steps = None
    if not unknown:
        names = {param.name: param.type for param in params}
        scope = Scope(look, structs, names, constants, lambda macro: _macro(tree, source, macro))
        steps = tuple(_block(code.need("body").children, scope))
    return Body(name, result, tuple(params), steps, source.file, code.line)


def _find(tree: Tree, name: str, file: str) -> tuple[Source, Code]:
    """The definition of `name` in `file` or in a header that it includes itself."""
    source = tree.get(file)
    files = [file] if source is None else [file, *_headers(source)]
    for place in files:
        source = tree.get(place)
        if source is not None and name.encode() in source.data:
            code = _definition(source, name)
            if code is not None:
                return source, code
    for place in files:
        source = tree.get(place)
        match = _declaration_of(name).search(source.outline) if source is not None else None
        if source is not None and match is not None:
            raw = ANNOTATION.sub(lambda m: re.sub(rb"[^\n]", b" ", m[0]), match[0])
            return source, next(parse(raw, place, source.line(match.start())).find("declaration"))
    raise Unread(f"no definition was found in {file} or its headers")


def _declaration_of(name: str) -> re.Pattern[bytes]:
    return re.compile(rb"(?m)^[A-Za-z_][\w \t*]{0,100}?\b" + re.escape(name).encode() + rb"\s*\([^(){};]{1,400}\);")


def _macro(tree: Tree, source: Source, name: str) -> tuple[list[str], str] | None:
    """The function-like macro `name` of the file or of a header that it includes itself."""
    for place in (source.file, *_headers(source)):
        near = tree.get(place)
        if near is not None and name.encode() in near.data and name in near.macros:
            return near.macros[name]
    return None


def _headers(source: Source) -> list[str]:
    folder = source.file.rpartition("/")[0]
    found = [(near.decode(), far.decode()) for near, far in INCLUDE.findall(source.data)]
    names = [f"{folder}/{near}" if near else f"include/{far}" for near, far in found]
    return [name for name in names if ".." not in name]


def _definition(source: Source, name: str) -> Code | None:
    head = re.compile(rb"^[A-Za-z_][\w\s*]{0,200}?\b" + re.escape(name).encode() + rb"\s*\(", re.MULTILINE)
    for match in head.finditer(source.data):
        try:
            brace = BRACE.match(source.data, closing(source.data, match.end() - 1))
            if brace is None:
                continue
            end = closing(source.data, brace.end() - 1)
            raw = source.data[match.start() : brace.end()] + MACRO.sub(rb"while (\1)", source.data[brace.end() : end])
        except Unread:
            continue
        line = source.line(match.start())
        if DIRECTIVE.search(raw):
            raise Unread(f"the configuration decides what {source.file}:{line} does")
        raw = ANNOTATION.sub(lambda m: re.sub(rb"[^\n]", b" ", m[0]), raw)
        raw = CONTAINER.sub(lambda m: m[1] + b" " * 6, raw)
        code = next(parse(raw, source.file, line).find("function_definition"), None)
        if code is None or code.node.has_error:
            raise Unread(f"the definition at {source.file}:{line} does not parse")
        return code
    return None


def _block(items: list[Code], scope: Scope) -> list[Step]:
    steps: list[Step] = []
    for code in items:
        try:
            steps += _step(code, scope)
        except Unread:
            steps.append(Unreadable(code.text[:1000], code.line))
    return steps


def _inside(code: Code | None) -> list[Code]:
    if code is None:
        return []
    if code.type == "else_clause":
        code = code.children[0]
    return code.children if code.type == "compound_statement" else [code]


def _step(code: Code, scope: Scope) -> list[Step]:
    match code.type:
        case "declaration":
            return _declaration(code, scope)
        case "compound_statement":
            return _block(code.children, scope)
        case "if_statement":
            condition = read_expr(code.need("condition"), scope)
            then = tuple(_block(_inside(code.need("consequence")), scope))
            return [Branch(condition, then, tuple(_block(_inside(code.get("alternative")), scope)))]
        case "return_statement":
            return [Leave(read_expr(code.children[0], scope) if code.children else None)]
        case "expression_statement" if code.children:
            return _expression(code.children[0], scope)
    return read_walk(code, scope, _block)


def _declaration(code: Code, scope: Scope) -> list[Step]:
    steps: list[Step] = []
    kind_id = code.need("type").node.id
    for item in code.children:
        if item.node.id == kind_id or item.type in ("type_qualifier", "storage_class_specifier"):
            continue
        value = item.get("value")
        kind, name = declared(code.need("type"), item.need("declarator") if value is not None else item, scope.look)
        if name in scope.locals:
            raise Unread(f"a name that is declared twice: {name}")
        initial = None if value is None else read_expr(value, scope)
        scope.locals[name] = kind
        steps.append(Declare(name, kind, initial))
    return steps


def _expression(code: Code, scope: Scope) -> list[Step]:
    if code.type == "call_expression":
        function, arguments = code.need("function").text, code.need("arguments")
        if function == "WARN_ON_ONCE" and LOCK_CHECK.fullmatch(arguments.text):
            return [Check(arguments.text[1:-1])]
        if function == "WRITE_ONCE" and len(arguments.children) == 2:  # include/asm-generic/rwonce.h: one store
            return [Assign(read_place(arguments.children[0], scope), read_expr(arguments.children[1], scope))]
        if function not in EFFECTLESS:
            return [Do(read_expr(code, scope))]
    return read_effect(code, scope)
