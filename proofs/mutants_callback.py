"""Seeded faults of the Callback claims: one edit of a walk's C, and a claim that must refute it.

Each fault is put into a claim that is proved without it (for walks of fewer than 2^31 callbacks). Those of the User
callback claims are put into one side of a program's walk, or into the callback's code in the program after.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from model.errors import Unsupported
from model.facts import analyse
from model.isa.insn import Insn
from model.kernel.abi import ABIS
from model.kernel.c_body import Leave, Number, Unary
from model.kernel.release import Release
from model.program import Program, SymbolRef
from model.rewrite.config import Config
from model.rewrite.passes import Rewritten, rewrite
from model.semantics.call import REGISTER
from proofs import mutants_walk_c as c
from proofs.mutants import DoesNotApply, Mutant
from proofs.mutants_program import program
from proofs.obligation import Obligation
from proofs.properties import callback_user_cases as user
from proofs.properties.callback import Callback
from proofs.properties.callback_cases import callback_claim, callback_types, obligations_of
from proofs.properties.callback_small import Plain
from proofs.properties.callback_user import User

KEY_AND_VALUE = c.hands_over(0, 2, 1, 3, 4)

# name, what is wrong, map type, the edit of the walk's C
FAULTS: tuple[tuple[str, str, str, c.Edit], ...] = (
    ("walk-starts-at-one", "the first element is left out", "array", c.begins_at(1)),
    ("walk-skips", "every second element is left out", "array", c.steps_by(2)),
    ("walk-stands-still", "the first element again and again", "array", c.steps_by(0)),
    ("walk-one-too-far", "i <= max_entries", "array", c.one_too_far),
    ("walk-counts-in-16-bits", "num_elems is a u16", "array", c.declared("num_elems", c.U16)),
    ("walk-index-of-16-bits", "i is a u16", "array", c.declared("i", c.U16)),
    ("walk-returns-0", "the count is not returned", "array", c.returns(0)),
    ("walk-of-a-list-returns-0", "the count is not returned", "hash", c.returns(0)),
    ("walk-flags-32-bits", "only the low half of flags is looked at", "array", c.low_half("flags")),
    ("walk-flags-not-refused", "flags are not looked at", "hash", c.never("flags")),
    ("walk-other-error", "flags are refused with -EPERM", "array",
     c.swap({Leave(Unary("-", Number(22, c.INT))): Leave(Unary("-", c.ONE))})),
    ("walk-stop-32-bits", "only the low half of the callback's result is looked at", "array", c.low_half("ret")),
    ("walk-stop-on-one-bit", "only a callback's odd result ends the walk", "hash", c.lowest_bit("ret")),
    ("walk-stop-ignored", "the callback's result is not looked at", "array", c.never("ret")),
    ("walk-stop-of-one-list", "a callback's stop ends the list, not the walk", "hash", c.leaves_the_list_only),
    ("walk-wrong-key", "the key is one too large", "array", c.next_key),
    ("walk-next-value", "the value of the next element with this one's key", "array", c.next_value),
    ("walk-next-per-cpu-value", "the value of the next element with this one's key", "percpu_array", c.next_value),
    ("walk-last-not-counted", "the callback that ends the walk is not counted", "array", c.counted_late),
    ("walk-nothing-counted", "num_elems stays 0", "hash", c.counts(0)),
    ("walk-counts-double", "each callback counts as two", "hash", c.counts(2)),
    ("walk-key-for-value", "key and value change places", "array", KEY_AND_VALUE),
    ("walk-no-context", "the context is not handed over", "hash", c.hands_over(0, 1, 2, None, 4)),
    ("walk-no-map", "the key where the map should be", "hash", c.hands_over(1, 1, 2, 3, 4)),
    ("walk-fifth-argument", "the fifth argument is the context too", "hash", c.hands_over(0, 1, 2, 3, 3)),
    ("walk-per-cpu-array-pointer", "the per-CPU pointer itself, not this CPU's area", "percpu_array",
     c.without("this_cpu_ptr")),
    ("walk-per-cpu-hash-pointer", "the per-CPU pointer itself, not this CPU's area", "percpu_hash",
     c.without("this_cpu_ptr")),
    ("walk-successor-late", "the successor is read after the callback, which may have deleted the element", "hash",
     c.late_successor),
    ("walk-bucket-skipped", "every second bucket is left out", "hash", c.steps_by(2)),
    ("walk-bucket-too-far", "i <= n_buckets", "hash", c.one_too_far),
    ("walk-first-bucket", "bucket 0 is left out", "hash", c.begins_at(1)),
    ("walk-other-bucket", "the list of the next bucket", "hash", c.next_value),
    ("walk-value-not-aligned", "the value right behind the key", "hash", c.without("round_up")),
    ("walk-lru-value-not-aligned", "the value right behind the key", "lru_hash", c.without("round_up")),
    ("walk-rhash-value-not-aligned", "the value right behind the key", "rhash", c.without("round_up")),
    ("walk-rhash-stands-still", "the first element again and again", "rhash", c.keeps_the_key),
    ("walk-rhash-last-not-counted", "the callback that ends the walk is not counted", "rhash", c.counted_late),
)  # fmt: skip
UNBOUNDED: tuple[tuple[str, str, str, c.Edit], ...] = (
    ("walk-counts-in-int", "num_elems is an int: negative from 2^31 on", "array", c.declared("num_elems", c.INT)),
)
"""Faults that only a walk of 2^31 callbacks or more shows, in releases whose walks return 64 bits."""


def _edited(claim: Callback, edit: c.Edit) -> Callback:
    try:
        return replace(claim, code=c.edited(claim.code, edit))
    except Unsupported as hole:
        raise DoesNotApply(str(hole)) from None


def _claimed(release: Release, name: str, map_type: str, edit: c.Edit, *, bounded: bool = True) -> list[Obligation]:
    if map_type not in callback_types(release):
        raise DoesNotApply(f"{release.name} has no for_each of {map_type}")
    claim = callback_claim(release, map_type, bounded=bounded)
    if not bounded and claim.result.bits < REGISTER:
        raise DoesNotApply(f"{release.name} returns {claim.result.bits} bits")
    wrong = _edited(claim, edit)
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
# name, what is wrong, map type, side, the edit of that side's C, and of the unrolled walk's steps
USER_WALKS: tuple[tuple[str, str, str, Literal["before", "after"], c.Edit, dict[str, Any]], ...] = (
    ("user-stop-32-bits", "only the low half of the callback's result is looked at", "array", "after",
     c.low_half("ret"), {"stop_bits": 32}),
    ("user-stop-ignored", "the walk goes on after the callback's stop", "hash", "after",
     c.never("ret"), {"stop_bits": 0}),
    ("user-helper-stop-on-one-bit", "the helper's walk ends at odd results only", "hash", "before",
     c.lowest_bit("ret"), {}),
    ("user-key-for-value", "key and value change places", "array", "after",
     KEY_AND_VALUE, {"arguments": ("map", "value", "key", "context", "0")}),
    ("user-no-context", "the context is not handed over", "hash", "after",
     c.hands_over(0, 1, 2, None, 4), {"arguments": ("map", "key", "value", "0", "0")}),
    ("user-no-map", "the key where the map should be", "percpu_array", "after", c.hands_over(1, 1, 2, 3, 4), {}),
    ("user-stop-not-counted", "the callback that ends the walk is not counted", "array", "after",
     c.counted_late, {"count_stop": False}),
    ("user-counts-double", "each callback counts as two", "hash", "after", c.counts(2), {"counted": 2}),
    ("user-next-value", "the value of the next element with this one's key", "array", "after", c.next_value, {}),
    ("user-skips", "every second element is left out", "array", "after", c.steps_by(2), {"step": 2}),
    ("user-one-too-far", "i <= max_entries", "percpu_array", "after", c.one_too_far, {}),
    ("user-successor-late", "the successor is read after the callback, which deletes the element", "hash", "after",
     c.late_successor, {}),
    ("user-value-not-aligned", "the value right behind the key", "lru_hash", "after", c.without("round_up"), {}),
    ("user-per-cpu-pointer", "the per-CPU pointer itself, not this CPU's area", "percpu_hash", "after",
     c.without("this_cpu_ptr"), {}),
    ("user-flags-32-bits", "only the low half of flags is looked at", "hash", "after", c.low_half("flags"), {}),
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


SMALL = frozenset({"user-sum-lost", "user-store-elsewhere", "user-stops-elsewhere"})
"""Faults of the callback's code that the claims on maps with two elements must refute as well."""


def _case(release: Release, name: str, done: Rewritten) -> tuple[user.Case, User]:
    facts = analyse(done.before, release)
    case = next(user.cases(done, facts, release, ABIS["x86_64"]))
    if case.claim is None:
        raise DoesNotApply(case.hole)
    case = replace(case, prefix=f"mutant/{name}/{case.prefix}")
    assert case.claim is not None
    return case, case.claim


def _by_induction(case: user.Case, release: Release) -> list[Obligation]:
    return [one for one in user.obligations(case, release) if one.expect == "valid"]


def _unrolled(case: user.Case, done: Rewritten, **plain: Any) -> list[Obligation]:
    name, claim = next(one for one in user.small_claims(case, done) if one[1].count == 2)
    return user.small_obligations(case, name, replace(claim, **plain))


def _user_walk(release: Release, name: str, kind: str, side: str, edit: c.Edit) -> list[Obligation]:
    case, claim = _case(release, name, walked(release, kind))
    fields: dict[str, Any] = {side: _edited(getattr(claim, side), edit)}
    wrong = replace(claim, **fields)
    return _by_induction(replace(case, claim=wrong), release)


def _small_walk(release: Release, name: str, kind: str, side: str, fields: dict[str, Any]) -> list[Obligation]:
    done = walked(release, kind)
    return _unrolled(_case(release, name, done)[0], done, **{side: Plain(**fields)})


def _user_code(
    release: Release, name: str, kind: str, change: Callable[[Rewritten], Program], *, small: bool = False
) -> list[Obligation]:
    done = walked(release, kind)
    wrong = replace(done, after=change(done))
    case, _ = _case(release, name, wrong)
    return _unrolled(case, wrong) if small else _by_induction(case, release)


def _walk_mutants() -> Iterator[Mutant]:
    for name, fault, kind, side, edit, fields in USER_WALKS:
        yield Mutant("callback", name, fault, partial(_user_walk, name=name, kind=kind, side=side, edit=edit))
        small = name.replace("user", "small")
        if fields:
            build = partial(_small_walk, name=small, kind=kind, side=side, fields=fields)
            yield Mutant("callback", small, f"{fault} (two elements)", build)


def _code_mutants() -> Iterator[Mutant]:
    for name, fault, kind, change in USER_CODE:
        yield Mutant("callback", name, fault, partial(_user_code, name=name, kind=kind, change=change))
        small = name.replace("user", "small")
        if name in SMALL:
            build = partial(_user_code, name=small, kind=kind, change=change, small=True)
            yield Mutant("callback", small, f"{fault} (two elements)", build)


CALLBACK_MUTANTS = (
    *(
        Mutant("callback", name, fault, partial(_claimed, name=name, map_type=map_type, edit=edit, bounded=bounded))
        for rows, bounded in ((FAULTS, True), (UNBOUNDED, False))
        for name, fault, map_type, edit in rows
    ),
    *_walk_mutants(),
    *_code_mutants(),
)
