"""Seeded faults of the Inline claims: one wrong argument, instruction or row, and a claim that must refute it.

Each fault is put into a release whose claim is proved without it (for maps of fewer than 2^31 entries).
"""

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any

from model.kernel.abi import ABIS
from model.kernel.c_body import Binary, Cast
from model.kernel.release import Apply, Const, Decline, Emit, Expr, Field, If, Name, Offset, Release, Statement
from model.maps.allocation import rules
from proofs.mutants import DoesNotApply, Mutant
from proofs.obligation import Obligation
from proofs.properties.inline_cases import map_obligations

Edit = Callable[[Emit], Statement | None]
HTAB_KEY = Offset("htab_elem", "key")


def sequence(body: tuple[Statement, ...], edit: Edit) -> tuple[Statement, ...]:
    """The body with each emitted instruction replaced; None drops it."""
    made: list[Statement] = []
    for statement in body:
        match statement:
            case If(condition, then, otherwise):
                made.append(If(condition, sequence(then, edit), sequence(otherwise, edit)))
            case Emit(_, _, _):
                edited = edit(statement)
                made += [] if edited is None else [edited]
            case _:
                made.append(statement)
    return tuple(made)


Change = Callable[[tuple[Statement, ...]], tuple[Statement, ...]]


def with_lookup(release: Release, map_type: str, change: Change) -> Release:
    """The release with another `map_gen_lookup` for the type."""
    name = _slot(release, map_type, "map_gen_lookup")
    row = release.gen_lookup[name]
    wrong = replace(row, body=change(row.body))
    if wrong == row:
        raise DoesNotApply(f"{name} has no such instruction in {release.name}")
    return replace(release, gen_lookup=MappingProxyType({**release.gen_lookup, name: wrong}))


def _slot(release: Release, map_type: str, slot: str) -> str:
    row = release.map_types.get(map_type)
    slots = release.ops[row.ops].slots if row is not None and row.ops is not None else {}
    if slot not in slots:
        raise DoesNotApply(f"{map_type} has no {slot} in {release.name}")
    return slots[slot]


def claimed(release: Release, name: str, map_type: str, *, inner: bool = False) -> list[Obligation]:
    _slot(release, map_type, "map_gen_lookup")
    made = map_obligations(release, ABIS["x86_64"], map_type, inner=inner, bounded=True)
    return [replace(one, name=f"mutant/{name}/{one.name}") for one in made if one.expect == "valid"]


OVERFLOWS = ("multiplied-in-32-bits", "operation-overflows")


def _edited(release: Release, name: str, map_type: str, edit: Edit) -> list[Obligation]:
    _large_enough(release, name, map_type)
    return claimed(with_lookup(release, map_type, partial(sequence, edit=edit)), name, map_type)


def _large_enough(release: Release, name: str, map_type: str) -> None:
    """A product of 32 bits is no fault where no map is large enough to see it."""
    charged = any(rule.source.startswith("bpf_map_charge_init") for rule in rules(map_type, release.name))
    if name in OVERFLOWS and charged:
        raise DoesNotApply(f"bpf_map_charge_init keeps maps below 4 GiB in {release.name}")


def on(macro: str, operation: str, change: Callable[[Emit], Statement | None]) -> Edit:
    """An edit of the instructions of `macro` whose first argument is `operation` ("" for any)."""

    def edit(emit: Emit) -> Statement | None:
        first = emit.arguments[0]
        hit = emit.macro == macro and (not operation or first == Name(operation))
        return change(emit) if hit else emit

    return edit


def argument(index: int, value: Expr) -> Callable[[Emit], Emit]:
    def change(emit: Emit) -> Emit:
        return replace(emit, arguments=(*emit.arguments[:index], value, *emit.arguments[index + 1 :]))

    return change


def _drop(emit: Emit) -> None:
    return None


# Name, fault, map type, edit of the emitted instructions.
ROWS: tuple[tuple[str, str, str, Edit], ...] = (
    (
        "shift-too-far",
        "elements are twice as far apart",
        "percpu_array",
        on("BPF_ALU64_IMM", "BPF_LSH", argument(2, Const(4))),
    ),
    ("no-bounds-test", "the index is not compared with max_entries", "array", on("BPF_JMP_IMM", "BPF_JGE", _drop)),
    (
        "bounds-off-by-one",
        "the element behind the last one is let through",
        "array",
        on("BPF_JMP_IMM", "BPF_JGE", argument(0, Name("BPF_JGT"))),
    ),
    (
        "bounds-of-another-size",
        "the index is compared with value_size",
        "array",
        on("BPF_JMP_IMM", "BPF_JGE", argument(2, Field("map.value_size", 32, False))),
    ),
    (
        "jump-off-by-one",
        "an index out of bounds jumps behind the instruction that clears r0",
        "xskmap",
        on("BPF_JMP32_IMM", "BPF_JGE", argument(3, Const(6))),
    ),
    (
        "signed-bounds",
        "the index is compared as a signed number: 0x80000000 is below any size",
        "xskmap",
        on("BPF_JMP32_IMM", "BPF_JGE", argument(0, Name("BPF_JSGE"))),
    ),
    (
        "wrong-mask",
        "the index is masked with max_entries",
        "array",
        on("BPF_ALU32_IMM", "BPF_AND", argument(2, Field("map.max_entries", 32, False))),
    ),
    (
        "value-size-for-elem-size",
        "elements are value_size apart, not value_size rounded up to 8",
        "array",
        on("BPF_ALU64_IMM", "BPF_MUL", argument(2, Field("map.value_size", 32, False))),
    ),
    (
        "multiplied-in-32-bits",
        "the product with elem_size keeps 32 bits",
        "array",
        on("BPF_ALU64_IMM", "BPF_MUL", lambda emit: replace(emit, macro="BPF_ALU32_IMM")),
    ),
    (
        "offset-of-another-member",
        "the elements are taken to begin where index_mask stands",
        "array",
        on("BPF_ALU64_IMM", "BPF_ADD", argument(2, Offset("bpf_array", "index_mask"))),
    ),
    (
        "key-size-not-rounded",
        "the value is taken to follow the key's last byte",
        "hash",
        on("BPF_ALU64_IMM", "BPF_ADD", argument(2, Apply("+", (HTAB_KEY, Field("map.key_size", 32, False))))),
    ),
    (
        "no-null-test",
        "a missing element gets an address",
        "hash",
        on("BPF_JMP_IMM", "BPF_JEQ", _drop),
    ),
    (
        "null-test-too-short",
        "a missing element's value is loaded",
        "hash_of_maps",
        on("BPF_JMP_IMM", "BPF_JEQ", argument(3, Const(1))),
    ),
    (
        "wrong-callee",
        "the update operation is called instead of the look-up",
        "hash",
        on("BPF_EMIT_CALL", "", argument(0, Name("htab_map_update_elem"))),
    ),
    ("reference-not-set", "the element is not marked as used", "lru_hash", on("BPF_ST_MEM", "", argument(3, Const(0)))),
    (
        "reference-set-to-two",
        "the element's mark gets another value",
        "lru_hash",
        on("BPF_ST_MEM", "", argument(3, Const(2))),
    ),
    (
        "reference-test-inverted",
        "only an element that has the mark gets it",
        "lru_hash",
        on("BPF_JMP_IMM", "BPF_JNE", argument(0, Name("BPF_JEQ"))),
    ),
    (
        "per-cpu-pointer-as-address",
        "the per-CPU pointer is handed out as it is",
        "percpu_array",
        on("BPF_MOV64_PERCPU_REG", "", lambda emit: replace(emit, macro="BPF_MOV64_REG")),
    ),
    (
        "callee-saved-register-used",
        "r6 holds the index",
        "xskmap",
        on("BPF_LDX_MEM", "BPF_W", argument(1, Name("BPF_REG_6"))),
    ),
)


def _without_decline(body: tuple[Statement, ...]) -> tuple[Statement, ...]:
    return tuple(
        item for item in body if not (isinstance(item, If) and any(isinstance(arm, Decline) for arm in item.then))
    )


def _other_errno(body: tuple[Statement, ...]) -> tuple[Statement, ...]:
    return tuple(
        replace(item, then=(Decline("EINVAL"),)) if isinstance(item, If) and isinstance(item.then[0], Decline) else item
        for item in body
    )


def _narrow_product(node: Any) -> Any:
    """`(u64)elem_size * index` without its cast, as up to 5.10."""
    match node:
        case Binary("*", Cast(_, left), right):
            return Binary("*", left, right)
        case tuple():
            return tuple(_narrow_product(item) for item in node)
    if not is_dataclass(node) or isinstance(node, type):
        return node
    return replace(node, **{field.name: _narrow_product(getattr(node, field.name)) for field in fields(node)})


def _with_body(
    release: Release, name: str, map_type: str, function: str, change: Callable[[Any], Any]
) -> list[Obligation]:
    _large_enough(release, name, map_type)
    changed = {**release.bodies, function: change(release.bodies[function])}
    return claimed(replace(release, bodies=MappingProxyType(changed)), name, map_type)


def _with_lookup(
    release: Release, name: str, map_type: str, change: Change, *, inner: bool = False
) -> list[Obligation]:
    return claimed(with_lookup(release, map_type, change), name, map_type, inner=inner)


def _with_meta_equal(release: Release, name: str, map_type: str, function: str) -> list[Obligation]:
    changed = MappingProxyType({**release.meta_equal, map_type: function})
    return claimed(replace(release, meta_equal=changed), name, map_type, inner=True)


def _mutants() -> Iterator[Mutant]:
    for name, fault, map_type, edit in ROWS:
        yield Mutant("inline", name, fault, partial(_edited, name=name, map_type=map_type, edit=edit))

    yield Mutant(
        "inline",
        "inner-array-of-any-size",
        "arrays with BPF_F_INNER_MAP are inlined with the template's size",
        partial(_with_lookup, name="inner-array-of-any-size", map_type="array", change=_without_decline, inner=True),
    )
    yield Mutant(
        "inline",
        "declines-with-an-error",
        "arrays with BPF_F_INNER_MAP make the load fail",
        partial(_with_lookup, name="declines-with-an-error", map_type="array", change=_other_errno),
    )
    yield Mutant(
        "inline",
        "inner-entries-not-compared",
        "an outer map lets in per-CPU arrays of other sizes than the template's",
        partial(
            _with_meta_equal, name="inner-entries-not-compared", map_type="percpu_array", function="bpf_map_meta_equal"
        ),
    )
    yield Mutant(
        "inline",
        "operation-overflows",
        "the operation multiplies in 32 bits, and arrays may be larger than 4 GiB",
        partial(
            _with_body,
            name="operation-overflows",
            map_type="array",
            function="array_map_lookup_elem",
            change=_narrow_product,
        ),
    )


INLINE_MUTANTS = tuple(_mutants())
