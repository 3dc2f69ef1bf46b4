"""A release from a kernel source tree: the driver that asks each room and puts the rows together."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from model.errors import InputError
from model.kernel.c_layout import Structs
from model.kernel.c_tree import Code, Notes, Tree, Unread
from model.kernel.c_types import Lookup, typedefs
from model.kernel.evidence import Checked
from model.kernel.extract_c_body import read_bodies
from model.kernel.extract_gen_lookup import read_gen_lookup
from model.kernel.extract_helpers import Proto, read_helpers, read_ids, read_protos
from model.kernel.extract_ops import GEN_LOOKUP, read_functions, read_slots, read_tables
from model.kernel.extract_returns import read_returns
from model.kernel.extract_rewrites import read_rewrites
from model.kernel.extract_types import TYPES, read_map_types, read_numbers
from model.kernel.extract_verifier import poison_for_each, read_acceptance
from model.kernel.nesting import bounded
from model.kernel.release import (
    Apply,
    Decline,
    DirectCall,
    Emit,
    Expr,
    Function,
    GenLookup,
    Helper,
    If,
    MapType,
    Offset,
    Opaque,
    OpsTable,
    Prototype,
    Release,
    Statement,
)

Row = TypeVar("Row", Helper, DirectCall)

# Directory under arch/ -> the name of its 64-bit ABI (model.kernel.abi).
ARCHITECTURES = {
    "x86": "x86_64",
    "arm64": "arm64",
    "riscv": "riscv64",
    "s390": "s390x",
    "powerpc": "ppc64le",
    "loongarch": "loongarch64",
    "mips": "mips64",
    "sparc": "sparc64",
}
PERCPU = "bpf_jit_supports_percpu_insn"


def extract(tree: Path) -> Release:
    """The release whose sources are at `tree`; `Release.unread` names what has no rule.

    InputError where this is no kernel source tree, or one that lacks the files which decide.
    """
    if not tree.is_dir():
        raise InputError(str(tree), "", "expected a directory with a kernel source tree")
    try:
        return _extract(Tree(tree))
    except RecursionError:
        raise InputError(str(tree), "", "expected C that is nested less deeply") from None


def _extract(tree: Tree) -> Release:
    notes = Notes()
    name, version = _version(tree)
    look = typedefs(tree)
    numbers = read_numbers(tree, notes)
    types = read_map_types(tree, numbers, notes)
    slots = read_slots(tree, look, notes)
    tables, places = read_tables(tree, slots, notes)
    tables, functions = read_functions(tree, tables, places, look, notes)
    types = _with_tables(tree, types, tables, notes)
    ids = read_ids(tree)
    helpers = _with_slots(read_helpers(tree, ids, look, notes), slots, notes)
    protos = read_protos(tree, {row.function for row in helpers.values()}, notes)
    rewrites, insn_buf = read_rewrites(tree, look, notes)
    rewrites = _known(rewrites, helpers, ids, slots, notes)
    gen_lookup, layout = _sequences(tree, tables, functions, look, notes)
    bodies, offsets = read_bodies(tree, tables, functions, gen_lookup, look, notes, numbers)
    accepted = read_acceptance(tree, types, numbers, tables, helpers, protos, notes)
    callbacks = frozenset(_callbacks(tree, tables, functions, notes))
    percpu_insn = frozenset(_percpu_insn(tree, notes))
    holes = _holes(notes, rewrites, gen_lookup, tables)
    return Release(
        name=name,
        version=version,
        origin=f"extracted from a linux {version} source tree",
        map_types=types,
        ops=tables,
        functions=functions,
        slots=slots,
        helpers=helpers,
        helper_ids=ids,
        accepted=accepted,
        rewrites=rewrites,
        gen_lookup=gen_lookup,
        meta_equal=_meta_equal(types, tables),
        callbacks=callbacks,
        insn_buf=insn_buf,
        poison_for_each=poison_for_each(tree),
        layout=layout | offsets,
        percpu_insn=percpu_insn,
        unread=tuple(sorted(notes.lines)),
        bodies=bodies,
        holes=holes,
        returns=read_returns(tree, types, tables, functions, helpers, accepted),
        checked=_checked(helpers, protos),
    )


def _checked(helpers: Mapping[str, Helper], protos: Mapping[str, Proto]) -> dict[str, Checked]:
    """What each helper's prototype demands of the arguments that it has."""
    rows = {name: (protos.get(row.function), len(row.params)) for name, row in helpers.items()}
    return {
        name: Checked(proto.arguments[:count], proto.file, proto.line)
        for name, (proto, count) in rows.items()
        if proto is not None
    }


def _known(
    rewrites: tuple[DirectCall, ...],
    helpers: Mapping[str, Helper],
    ids: Mapping[str, int],
    slots: Mapping[str, Prototype],
    notes: Notes,
) -> tuple[DirectCall, ...]:
    """The rewrites of helpers that have a number, to slots that were read."""
    for row in rewrites:
        if row.helper not in ids:
            notes.add(row.file, row.line, f"{row.helper} is rewritten, but has no number", f"rewrite:{row.helper}")
        elif row.helper not in helpers:
            what = f"{row.helper} is rewritten, but no body of it was read"
            notes.add(row.file, row.line, what, f"helper:{row.helper}")
    return tuple(_with_slots({row.helper: row for row in rewrites if row.helper in ids}, slots, notes).values())


def _holes(
    notes: Notes,
    rewrites: tuple[DirectCall, ...],
    lookups: Mapping[str, GenLookup],
    tables: Mapping[str, OpsTable],
) -> dict[str, str]:
    """The holes that can matter: not those of helpers that no release rewrites, nor of an errno that none returns."""
    holes = dict(notes.holes)
    touched = {row.helper for row in rewrites} | {key.removeprefix("rewrite:") for key in holes}
    for key in [key for key in holes if key.startswith("helper:")]:
        if key.removeprefix("helper:") not in touched and "rewrite:*" not in holes:
            del holes[key]
    read = {table.slots[GEN_LOOKUP] for table in tables.values() if GEN_LOOKUP in table.slots} <= lookups.keys()
    if read and not any("EOPNOTSUPP" in _errnos(lookup.body) for lookup in lookups.values()):
        notes.lines.pop(holes.pop("condition:eopnotsupp", ""), None)  # before 5.10: the pass has no need to look for it
    return dict(sorted(holes.items()))


def _errnos(body: tuple[Statement, ...]) -> Iterator[str]:
    """Every errno that a sequence can return; "EOPNOTSUPP" too where a statement was not read."""
    for statement in body:
        match statement:
            case Decline(errno):
                yield errno
            case Opaque():
                yield "EOPNOTSUPP"
            case If(_, then, otherwise):
                yield from _errnos(then + otherwise)


def _version(tree: Tree) -> tuple[str, str]:
    """Name ("6.12") and version ("6.12.117") from the Makefile."""
    text = tree.need("Makefile").data[:4000].decode("utf-8", "replace")
    parts = [re.search(rf"(?m)^{key} = (\d{{1,4}})$", text) for key in ("VERSION", "PATCHLEVEL", "SUBLEVEL")]
    found = [match[1] for match in parts if match]
    if len(found) != 3:
        raise InputError(str(tree.root), "Makefile", "expected VERSION, PATCHLEVEL and SUBLEVEL of a kernel")
    extra = re.search(r"(?m)^EXTRAVERSION = ([\w.-]{1,40})$", text)
    return ".".join(found[:2]), ".".join(found) + (extra[1] if extra else "")


def _with_tables(
    tree: Tree, types: Mapping[str, MapType], tables: Mapping[str, OpsTable], notes: Notes
) -> dict[str, MapType]:
    """The types, without the operations that no file under kernel/ and net/ defines."""
    source = tree.need(TYPES)
    for row in types.values():
        if row.ops is not None and row.ops not in tables:
            what = f"no table was found for {row.name}: {row.ops}"
            notes.add(TYPES, source.line(source.data.find(row.ops.encode())), what, f"type:{row.name}")
    return {key: row if row.ops in tables else MapType(row.name, row.number, None) for key, row in types.items()}


def _with_slots(rows: Mapping[str, Row], slots: Mapping[str, Prototype], notes: Notes) -> dict[str, Row]:
    """The helpers or rewrites whose slot is a member of struct bpf_map_ops that was read."""
    for name, row in rows.items():
        if row.slot not in slots:
            hole = f"helper:{name}" if isinstance(row, Helper) else f"rewrite:{name}"
            notes.add(row.file, row.line, f"a slot that struct bpf_map_ops was not seen to have: {row.slot}", hole)
    return {name: row for name, row in rows.items() if row.slot in slots}


def _sequences(
    tree: Tree, tables: Mapping[str, OpsTable], functions: Mapping[str, Function], look: Lookup, notes: Notes
) -> tuple[dict[str, GenLookup], dict[str, int]]:
    """The map_gen_lookup functions as data, and the offsets in them that need no build."""
    lookups: dict[str, GenLookup] = {}
    layout: dict[str, int] = {}
    for key, code in _bodies(tree, tables, functions, GEN_LOOKUP):
        structs = Structs(tree, look, (code.file,))
        try:
            lookup = read_gen_lookup(code, look, structs, notes)
            bounded(lookup)
        except Unread as error:
            notes.add(code.file, code.line, f"{key}: {error}")
            continue
        lookups[key] = lookup
        for place in _offsets(lookups[key].body):
            try:
                layout[f"struct {place.struct}.{place.member}"] = structs.offset(place.struct, place.member)
            except Unread:
                continue  # needs a build: such offsets are left open by design, not by lack of a rule
    return lookups, layout


def _bodies(
    tree: Tree, tables: Mapping[str, OpsTable], functions: Mapping[str, Function], slot: str
) -> Iterator[tuple[str, Code]]:
    """The definitions of the functions in `slot`, each once."""
    for key in sorted({table.slots[slot] for table in tables.values() if slot in table.slots}):
        function = functions.get(key)
        source = tree.get(function.file) if function else None
        code = source.function(function.name) if source and function else None
        if code is not None:
            yield key, code


def _offsets(body: tuple[Statement, ...]) -> Iterator[Offset]:
    for statement in body:
        match statement:
            case Emit(_, arguments, _):
                for argument in arguments:
                    yield from _offsets_in(argument)
            case If(condition, then, otherwise):
                yield from _offsets_in(condition)
                yield from _offsets(then + otherwise)


def _offsets_in(expr: Expr) -> Iterator[Offset]:
    if isinstance(expr, Offset):
        yield expr
    elif isinstance(expr, Apply):
        for argument in expr.arguments:
            yield from _offsets_in(argument)


def _meta_equal(types: Mapping[str, MapType], tables: Mapping[str, OpsTable]) -> dict[str, str]:
    functions = {name: tables[row.ops].slots.get("map_meta_equal") for name, row in types.items() if row.ops}
    return {name: function for name, function in functions.items() if function}


def _callbacks(
    tree: Tree, tables: Mapping[str, OpsTable], functions: Mapping[str, Function], notes: Notes
) -> Iterator[str]:
    """The operations for for_each that call their bpf_callback_t parameter (maybe through a cast)."""
    for key, code in _bodies(tree, tables, functions, "map_for_each_callback"):
        params = [item.text for item in code.need("declarator").find("parameter_declaration")]
        # Up to 5.15 the callback is a `void *`, the parameter behind the map.
        named = [text for text in params if "bpf_callback_t" in text] or params[1:2]
        names = [text.split()[-1].lstrip("*") for text in named]
        calls = list(code.need("body").find("call_expression"))
        called = {name for name in names for call in calls if re.search(rf"\b{name}\b", call.need("function").text)}
        handed = {name for name in names for call in calls if re.search(rf"\b{name}\b", call.need("arguments").text)}
        if called or handed or not names:
            yield key  # where it cannot be told, an indirect call is shown that may not be there
        if not called and (handed or not names):
            notes.add(code.file, code.line, f"{key} does not call its callback itself")


def _percpu_insn(tree: Tree, notes: Notes) -> Iterator[str]:
    """Architectures whose JIT says that it has per-CPU instructions."""
    for folder, name in ARCHITECTURES.items():
        for file in tree.files(f"arch/{folder}/net"):
            source = tree.need(file)
            code = source.function(PERCPU) if PERCPU.encode() in source.data else None
            if code is None:
                continue
            text = code.need("body").text
            if text in ("{ return true; }", "{ return IS_ENABLED(CONFIG_PPC64); }"):
                yield name
            elif text != "{ return false; }":
                notes.add(file, code.line, f"{PERCPU}: {text}", f"percpu_insn:{name}")
