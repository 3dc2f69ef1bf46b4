"""Seeded faults: each is one wrong row or one wrong patch, and a claim that must refute it by name.

A mutant is killed when one of its obligations is refuted with a counterexample that replays; anything
else (proved, unknown, unsupported) is a survivor, and the claim has no teeth there.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType

from model.isa.insn import Insn
from model.kernel.abi import ABIS, Abi, Extension
from model.kernel.release import CType, Function, Helper, OpsTable, Prototype, Release
from proofs.obligation import Obligation
from proofs.properties.dispatch import CallImmediate, Dispatch
from proofs.properties.dispatch_cases import claim, obligations

CALL = Insn(0x85)
INT = CType("int", 32, True)
U16 = CType("u16", 16, False)
U32 = CType("u32", 32, False)


class DoesNotApply(Exception):
    """The fault is of rows that this release does not have."""


Build = Callable[[Release], list[Obligation]]


@dataclass(frozen=True, slots=True)
class Mutant:
    """`family` is the claim that must see it; `fault` tells what is wrong in it."""

    family: str
    name: str
    fault: str
    build: Build


Add = Callable[[str, str, Build], Mutant]


def _dispatch(
    release: Release,
    name: str,
    map_type: str = "hash",
    helper: str = "map_update_elem",
    *,
    abi: Abi = ABIS["x86_64"],
    patch: Sequence[Insn] = (CALL,),
    calls: Mapping[int, str] | None = None,
    immediate: CallImmediate | None = None,
) -> list[Obligation]:
    """The claim for one pair; `calls` are the symbols that the patch calls (default: what the rewrite row says)."""
    if calls is None:
        rewrite = release.rewrite(helper)
        function = None if rewrite is None else release.operation(map_type, rewrite.slot)
        if function is None:
            raise DoesNotApply(f"{release.name} does not rewrite {helper} of {map_type}")
        calls = {i: function.name for i, insn in enumerate(patch) if insn.opcode == 0x85}
    case: Dispatch = claim(release, abi, map_type, helper, patch, calls)
    if immediate is not None:
        case = replace(case, immediate=immediate)
    return obligations(f"mutant/{name}", case, f"seeded fault in {release.name}")


def with_operation(release: Release, map_type: str, slot: str, function: str) -> Release:
    """The release with another function in one slot of one map type's table."""
    symbol = release.map_types[map_type].ops
    assert symbol is not None
    table: OpsTable = release.ops[symbol]
    changed = replace(table, slots=MappingProxyType({**table.slots, slot: function}))
    return replace(release, ops=MappingProxyType({**release.ops, symbol: changed}))


def with_prototype(release: Release, function: str, prototype: Prototype) -> Release:
    row: Function = release.functions[function]
    changed = {**release.functions, function: replace(row, prototype=prototype)}
    return replace(release, functions=MappingProxyType(changed))


def with_rewrite_slot(release: Release, helper: str, slot: str) -> Release:
    rows = tuple(replace(row, slot=slot) if row.helper == helper else row for row in release.rewrites)
    return replace(release, rewrites=rows)


def _operation(release: Release, map_type: str, slot: str) -> str:
    function = release.operation(map_type, slot)
    if function is None:
        raise DoesNotApply(f"{map_type} has no {slot} in {release.name}")
    return function.name


def _int_result(release: Release, map_type: str, slot: str) -> Release:
    """`long` turned back to `int` in one operation and in its slot, as before d7ba4cc900bf."""
    name = _operation(release, map_type, slot)
    prototype = replace(release.functions[name].prototype, result=INT)
    changed = with_prototype(release, name, prototype)
    slots = {**release.slots, slot: replace(release.slots[slot], result=INT)}
    return replace(changed, slots=MappingProxyType(slots))


def _with_int_result(release: Release, name: str, map_type: str, helper: str, slot: str) -> list[Obligation]:
    return _dispatch(_int_result(release, map_type, slot), name, map_type, helper)


def _row(release: Release, helper: str) -> Helper:
    if helper not in release.helpers:
        raise DoesNotApply(f"{release.name} has no {helper}")
    return release.helpers[helper]


def _helper_row(release: Release, helper: str, **fields: object) -> Release:
    row = replace(_row(release, helper), **fields)  # type: ignore[arg-type]
    return replace(release, helpers=MappingProxyType({**release.helpers, helper: row}))


def _mutants() -> Iterator[Mutant]:
    def add(name: str, fault: str, build: Build) -> Mutant:
        return Mutant("dispatch", name, fault, build)

    d = _dispatch
    yield add(
        "wrong-slot",
        "the rewrite of update takes the delete slot",
        lambda r: d(with_rewrite_slot(r, "map_update_elem", "map_delete_elem"), "wrong-slot"),
    )
    yield add(
        "swapped-push-pop",
        "the rewrite of push takes the pop slot",
        lambda r: d(
            with_rewrite_slot(r, "map_push_elem", "map_pop_elem"), "swapped-push-pop", "queue", "map_push_elem"
        ),
    )
    yield add(
        "swapped-pop-peek",
        "the rewrite of pop takes the peek slot",
        lambda r: d(with_rewrite_slot(r, "map_pop_elem", "map_peek_elem"), "swapped-pop-peek", "stack", "map_pop_elem"),
    )
    yield add(
        "wrong-operation",
        "the call of a hash's update reaches the array's",
        lambda r: d(r, "wrong-operation", calls={0: _operation(r, "array", "map_update_elem")}),
    )
    yield add(
        "neighbours-table",
        "the LRU hash is given the plain hash's operation",
        lambda r: d(r, "neighbours-table", "lru_hash", calls={0: _operation(r, "hash", "map_update_elem")}),
    )
    yield add(
        "queue-for-stack",
        "the stack's pop is given the queue's operation",
        lambda r: d(r, "queue-for-stack", "stack", "map_pop_elem", calls={0: _operation(r, "queue", "map_pop_elem")}),
    )
    yield add(
        "for-each-of-hash-on-array",
        "for_each on an array walks buckets",
        lambda r: d(
            r,
            "for-each-of-hash-on-array",
            "array",
            "for_each_map_elem",
            calls={0: _operation(r, "hash", "map_for_each_callback")},
        ),
    )
    yield from _argument_mutants(add)
    yield from _immediate_mutants(add)
    yield from _patch_mutants(add)
    yield from _width_mutants(add)


def _argument_mutants(add: Add) -> Iterator[Mutant]:
    d = _dispatch
    yield add(
        "missing-argument",
        "the helper hands over three arguments of four",
        lambda r: d(_helper_row(r, "map_update_elem", arguments=(0, 1, 2)), "missing-argument"),
    )
    yield add(
        "argument-order",
        "the helper hands over value before key",
        lambda r: d(_helper_row(r, "map_update_elem", arguments=(0, 2, 1, 3)), "argument-order"),
    )
    yield add(
        "helper-wired-to-wrong-slot",
        "the helper's own body dispatches to pop instead of peek",
        lambda r: d(
            _helper_row(r, "map_peek_elem", slot="map_pop_elem"), "helper-wired-to-wrong-slot", "queue", "map_peek_elem"
        ),
    )
    yield add(
        "flags-cast-to-32-bits",
        "the helper's BPF_CALL casts the flags to u32",
        lambda r: d(
            _helper_row(r, "map_push_elem", params=(*_row(r, "map_push_elem").params[:2], U32)),
            "flags-cast-to-32-bits",
            "queue",
            "map_push_elem",
        ),
    )


def _immediate_mutants(add: Add) -> Iterator[Mutant]:
    d = _dispatch
    yield add(
        "imm-truncated",
        "the call's immediate keeps 16 bits of the distance",
        lambda r: d(r, "imm-truncated", immediate=CallImmediate(bits=16)),
    )
    yield add(
        "call-base-off-by-one",
        "the immediate is one more than the distance to the call base",
        lambda r: d(r, "call-base-off-by-one", immediate=CallImmediate(addend=1)),
    )
    yield add(
        "other-call-base",
        "the immediate is taken from another base",
        lambda r: d(r, "other-call-base", immediate=CallImmediate(base="__bpf_call_base_args")),
    )


def _patch_mutants(add: Add) -> Iterator[Mutant]:
    rows = (
        ("clobbered-r6", "the patch sets r6 before the call", (Insn(0xB7, 6), CALL)),
        ("clobbered-r10", "the patch moves the frame pointer", (Insn(0x07, 10, imm=8), CALL)),
        ("clobbered-r1", "the patch overwrites the map pointer before the call", (Insn(0xBF, 1, 2), CALL)),
        ("swapped-registers", "key and value change places before the call", _swap(2, 3)),
        ("stray-store", "the patch stores to the stack before the call", (Insn(0x7A, 10, off=-8), CALL)),
        ("no-call", "the patch answers 0 without calling", (Insn(0xB7, 0),)),
        ("two-calls", "the operation is called twice", (CALL, Insn(0xBF, 1, 6), CALL)),
        ("result-dropped", "r0 is set to 0 after the call", (CALL, Insn(0xB7, 0))),
        ("result-truncated", "w0 = w0 after the call clears the upper half", (CALL, Insn(0xBC, 0, 0))),
        ("conditional-call", "the call is skipped when flags are 0", (Insn(0x15, 4, off=1), CALL)),
    )
    for name, fault, patch in rows:
        yield add(name, fault, partial(_dispatch, name=name, patch=patch))


def _swap(one: int, other: int) -> tuple[Insn, ...]:
    return (Insn(0xBF, 0, one), Insn(0xBF, one, other), Insn(0xBF, other, 0), CALL)


def _width_mutants(add: Add) -> Iterator[Mutant]:
    d = _dispatch
    sign = replace(ABIS["x86_64"], argument=Extension.SIGN)
    for map_type, helper, slot in (
        ("hash", "map_update_elem", "map_update_elem"),
        ("lpm_trie", "map_delete_elem", "map_delete_elem"),
        ("array", "for_each_map_elem", "map_for_each_callback"),
    ):
        name = f"int-result-{map_type}-{helper}"
        yield add(
            name,
            f"{helper} of {map_type} returns int again, on x86-64",
            partial(_with_int_result, name=name, map_type=map_type, helper=helper, slot=slot),
        )
    yield add(
        "abi-row-flipped",
        "x86-64 is said to extend narrow arguments in the caller",
        lambda r: d(r, "abi-row-flipped", "percpu_hash", "map_lookup_percpu_elem", abi=sign),
    )
    yield add(
        "cpu-narrowed",
        "the helper casts the CPU to u16, the operation takes u32",
        lambda r: d(
            _helper_row(r, "map_lookup_percpu_elem", params=(*_row(r, "map_lookup_percpu_elem").params[:2], U16)),
            "cpu-narrowed",
            "percpu_array",
            "map_lookup_percpu_elem",
        ),
    )
    yield add(
        "result-cast-to-u32",
        "the helper casts the operation's result to u32",
        lambda r: d(
            _helper_row(r, "map_delete_elem", result_cast=U32), "result-cast-to-u32", "hash", "map_delete_elem"
        ),
    )


DISPATCH_MUTANTS = tuple(_mutants())
