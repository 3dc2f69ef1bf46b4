"""Seeded faults of the Callback claims: one wrong field of a walk's loop, and a claim that must refute it.

Each fault is put into a claim that is proved without it (for walks of fewer than 2^31 callbacks).
"""

from dataclasses import replace
from functools import partial
from typing import Any

from model.kernel.release import CType, Release
from proofs.mutants import Mutant
from proofs.obligation import Obligation
from proofs.properties.callback_cases import callback_claim, obligations_of

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
    claim = callback_claim(release, map_type, bounded=True)
    wrong = replace(claim, loop=replace(claim.loop, **fields))
    made = obligations_of(f"mutant/{name}/callback/{release.name}/{map_type}", wrong, f"seeded fault in {release.name}")
    return [one for one in made if one.expect == "valid"]


CALLBACK_MUTANTS = tuple(
    Mutant("callback", name, fault, partial(_claimed, name=name, map_type=map_type, fields=fields))
    for name, fault, map_type, fields in FAULTS
)
