"""Seeded faults of the Callback claims: one wrong field of a walk's loop, and a claim that must refute it.

Each fault is put into a claim that is proved without it (for walks of fewer than 2^31 callbacks). Those of the User
callback claims are put into one side of a program's walk, or into the callback's code in the program after.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from model.facts import analyse
from model.isa.insn import Insn
from model.kernel.abi import ABIS
from model.kernel.release import CType, Release
from model.program import Program, SymbolRef
from model.rewrite.config import Config
from model.rewrite.passes import Rewritten, rewrite
from proofs.mutants import DoesNotApply, Mutant
from proofs.mutants_program import program
from proofs.obligation import Obligation
from proofs.properties import callback_user_cases as user
from proofs.properties.callback_cases import callback_claim, callback_types, obligations_of

U16 = CType("u16", 16, False)
S16 = CType("short", 16, True)

# name, what is wrong, map type, fields of the loop (or of the claim: "key")
FAULTS: tuple[tuple[str, str, str, dict[str, Any]], ...] = (
    ("walk-starts-at-one", "the first element is left out", "array", {"start": 1}),
    ("walk-skips", "every second element is left out", "array", {"step": 2}),
    ("walk-stands-still", "the first element again and again", "array", {"step": 0}),
    ("walk-one-too-far", "i <= max_entries", "array", {"inclusive": True}),
    ("walk-counts-in-16-bits", "num_elems is a u16", "array", {"counter": U16}),
    ("walk-returns-short", "the operation returns 16 bits", "array", {"result": S16}),
    ("walk-flags-32-bits", "only the low half of flags is looked at", "array", {"flags_bits": 32}),
    ("walk-stop-32-bits", "only the low half of the callback's result is looked at", "array", {"stop_bits": 32}),
    ("walk-stop-on-one-bit", "only a callback's odd result ends the walk", "hash", {"stop_bits": 1}),
    ("walk-next-value", "the value of the next element with this one's key", "array", {"ahead": 1}),
    ("walk-last-not-counted", "the callback that ends the walk is not counted", "array", {"count_stop": False}),
    ("walk-nothing-counted", "num_elems stays 0", "hash", {"counted": 0}),
    ("walk-counts-double", "each callback counts as two", "hash", {"counted": 2}),
    ("walk-key-for-value", "key and value change places", "array",
     {"arguments": ("map", "value", "key", "context", "0")}),
    ("walk-no-context", "the context is not handed over", "hash", {"arguments": ("map", "key", "value", "0", "0")}),
    ("walk-no-map", "the key where the map should be", "hash", {"arguments": ("key", "key", "value", "context", "0")}),
    ("walk-fifth-argument", "the fifth argument is the context too", "hash",
     {"arguments": ("map", "key", "value", "context", "context")}),
    ("walk-per-cpu-array-pointer", "the per-CPU pointer itself, not this CPU's area", "percpu_array", {"here": False}),
    ("walk-per-cpu-hash-pointer", "the per-CPU pointer itself, not this CPU's area", "percpu_hash", {"here": False}),
    ("walk-successor-late", "the successor is read after the callback, which may have deleted the element", "hash",
     {"successor_first": False}),
    ("walk-bucket-skipped", "every second bucket is left out", "hash", {"step": 2}),
    ("walk-bucket-too-far", "i <= n_buckets", "hash", {"inclusive": True}),
    ("walk-first-bucket", "bucket 0 is left out", "hash", {"start": 1}),
    ("walk-value-not-aligned", "the value right behind the key", "hash", {"rounded": False}),
    ("walk-lru-value-not-aligned", "the value right behind the key", "lru_hash", {"rounded": False}),
)  # fmt: skip


def _claimed(release: Release, name: str, map_type: str, fields: dict[str, Any]) -> list[Obligation]:
    if map_type not in callback_types(release):
        raise DoesNotApply(f"{release.name} has no for_each of {map_type}")
    claim = callback_claim(release, map_type, bounded=True)
    wrong = replace(claim, loop=replace(claim.loop, **fields))
    made = obligations_of(f"mutant/{name}/callback/{release.name}/{map_type}", wrong, f"seeded fault in {release.name}")
    return [one for one in made if one.expect == "valid"]


# A walk whose callback is moved by an inlined lookup in front of it, adds the value up in the context, deletes the
# element it is given and stops at a word of the context; another function lies behind it.
WALK = """
.map m {kind} 4 8 2
.map numbers array 4 8 4
        r3 = r10
        r3 += -8
        *(u64 *)(r3 +0) = 0
        r1 = map[m]
        r2 = subprog visit
        r4 = 0
        call bpf_for_each_map_elem
        *(u64 *)(r10 -8) = 0
        r1 = map[numbers]
        r2 = r10
        r2 += -8
        call bpf_map_lookup_elem
        call other
        exit
.func other
        r0 = 0
        exit
.func visit
        r9 = r4
        r5 = *(u64 *)(r3 +0)
        r6 = *(u64 *)(r4 +0)
        r6 += r5
        *(u64 *)(r4 +0) = r6
        call bpf_map_delete_elem
        r0 = *(u64 *)(r9 +8)
        if r6 != 7 goto out
        r0 = 1
out:    exit
"""


def walked(release: Release, kind: str) -> Rewritten:
    before = program(release, WALK.format(kind=kind))
    return rewrite(before, analyse(before, release), release, Config())


def _moved(done: Rewritten, wanted: Insn) -> int:
    """The slot after of an instruction of the callback."""
    start = next(one.start for one in done.after.subprograms if one.name == "visit")
    return next(slot for slot in range(start, len(done.after.insns)) if done.after.insns[slot] == wanted)


def _changed(done: Rewritten, *, wanted: Insn, fields: dict[str, int]) -> Program:
    at = _moved(done, wanted)
    insns = list(done.after.insns)
    insns[at] = replace(insns[at], **fields)
    return replace(done.after, insns=tuple(insns))


def _address(done: Rewritten, *, distance: int) -> Program:
    """The callback's address, some slots away."""
    at = next(slot for slot, insn in enumerate(done.after.insns) if insn.opcode == 0x18 and insn.src == 4)
    insns = list(done.after.insns)
    insns[at] = replace(insns[at], imm=insns[at].imm + distance)
    return replace(done.after, insns=tuple(insns))


def _operation(done: Rewritten) -> Program:
    """The callback's delete is one of another map type."""
    at = next(slot for slot, ref in done.after.refs.items() if ref == SymbolRef("htab_map_delete_elem"))
    return replace(done.after, refs={**done.after.refs, at: SymbolRef("array_map_delete_elem")})


SUM, STORE = Insn(0x0F, 6, 5), Insn(0x7B, 4, 6)
SWAPPED = ("map", "value", "key", "context", "0")
USER_WALKS: tuple[tuple[str, str, str, Literal["before", "after"], dict[str, Any]], ...] = (
    ("user-stop-32-bits", "only the low half of the callback's result is looked at", "array", "after",
     {"stop_bits": 32}),
    ("user-stop-ignored", "the walk goes on after the callback's stop", "hash", "after", {"stop_bits": 0}),
    ("user-helper-stop-on-one-bit", "the helper's walk ends at odd results only", "hash", "before", {"stop_bits": 1}),
    ("user-key-for-value", "key and value change places", "array", "after", {"arguments": SWAPPED}),
    ("user-no-context", "the context is not handed over", "hash", "after",
     {"arguments": ("map", "key", "value", "0", "0")}),
    ("user-no-map", "the key where the map should be", "percpu_array", "after",
     {"arguments": ("key", "key", "value", "context", "0")}),
    ("user-stop-not-counted", "the callback that ends the walk is not counted", "array", "after",
     {"count_stop": False}),
    ("user-counts-double", "each callback counts as two", "hash", "after", {"counted": 2}),
    ("user-next-value", "the value of the next element with this one's key", "array", "after", {"ahead": 1}),
    ("user-skips", "every second element is left out", "array", "after", {"step": 2}),
    ("user-one-too-far", "i <= max_entries", "percpu_array", "after", {"inclusive": True}),
    ("user-successor-late", "the successor is read after the callback, which deletes the element", "hash", "after",
     {"successor_first": False}),
    ("user-value-not-aligned", "the value right behind the key", "lru_hash", "after", {"rounded": False}),
    ("user-per-cpu-pointer", "the per-CPU pointer itself, not this CPU's area", "percpu_hash", "after",
     {"here": False}),
    ("user-flags-32-bits", "only the low half of flags is looked at", "hash", "after", {"flags_bits": 32}),
)  # fmt: skip
USER_CODE: tuple[tuple[str, str, str, Callable[[Rewritten], Program]], ...] = (
    ("user-address-late", "the callback's address is one instruction late", "array", partial(_address, distance=1)),
    ("user-address-early", "the callback's address is one instruction early", "hash", partial(_address, distance=-1)),
    ("user-other-function", "another function's address", "hash", partial(_address, distance=-2)),
    ("user-sum-lost", "the callback adds another register", "array",
     partial(_changed, wanted=SUM, fields={"src": 3})),
    ("user-store-elsewhere", "the callback's store goes to the value", "array",
     partial(_changed, wanted=STORE, fields={"dst": 3})),
    ("user-stops-elsewhere", "the callback stops at another sum", "hash",
     partial(_changed, wanted=Insn(0x55, 6, off=1, imm=7), fields={"imm": 8})),
    ("user-result-other", "the callback's last result is 2", "hash",
     partial(_changed, wanted=Insn(0xB7, 0, imm=1), fields={"imm": 2})),
    ("user-other-operation", "the callback's delete becomes another type's", "hash", _operation),
)  # fmt: skip


SMALL = frozenset(
    {
        *("user-stop-32-bits", "user-stop-ignored", "user-key-for-value", "user-no-context", "user-stop-not-counted"),
        *("user-counts-double", "user-skips", "user-sum-lost", "user-store-elsewhere", "user-stops-elsewhere"),
    }
)
"""Those that the claims on maps with two elements must refute as well."""


def _user(
    release: Release, name: str, done: Rewritten, fields: dict[str, Any], side: str, *, small: bool
) -> list[Obligation]:
    """The claim with other fields in one side's loop."""
    facts = analyse(done.before, release)
    case = next(user.cases(done, facts, release, ABIS["x86_64"]))
    if case.claim is None:
        raise DoesNotApply(case.hole)
    walk = getattr(case.claim, side)
    wrong = replace(case.claim, **{side: replace(walk, loop=replace(walk.loop, **fields))})
    case = replace(case, claim=wrong, prefix=f"mutant/{name}/{case.prefix}")
    if small:
        return user.small_obligations(case, *next(one for one in user.small_claims(case, done) if one[1].count == 2))
    return [one for one in user.obligations(case, release) if one.expect == "valid"]


def _user_walk(
    release: Release, name: str, kind: str, side: str, fields: dict[str, Any], *, small: bool = False
) -> list[Obligation]:
    return _user(release, name, walked(release, kind), fields, side, small=small)


def _user_code(
    release: Release, name: str, kind: str, change: Callable[[Rewritten], Program], *, small: bool = False
) -> list[Obligation]:
    done = walked(release, kind)
    return _user(release, name, replace(done, after=change(done)), {}, "after", small=small)


def _user_mutants(name: str, fault: str, build: Callable[..., list[Obligation]]) -> list[Mutant]:
    made = [Mutant("callback", name, fault, partial(build, name=name))]
    if name in SMALL:
        small = name.replace("user", "small")
        made.append(Mutant("callback", small, f"{fault} (two elements)", partial(build, name=small, small=True)))
    return made


CALLBACK_MUTANTS = (
    *(
        Mutant("callback", name, fault, partial(_claimed, name=name, map_type=map_type, fields=fields))
        for name, fault, map_type, fields in FAULTS
    ),
    *(
        mutant
        for name, fault, kind, side, fields in USER_WALKS
        for mutant in _user_mutants(name, fault, partial(_user_walk, kind=kind, side=side, fields=fields))
    ),
    *(
        mutant
        for name, fault, kind, change in USER_CODE
        for mutant in _user_mutants(name, fault, partial(_user_code, kind=kind, change=change))
    ),
)
