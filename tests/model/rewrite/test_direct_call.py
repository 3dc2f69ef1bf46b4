"""Decisions: what becomes of a call, and the words for it."""

from dataclasses import replace

import pytest

from model.facts import MapPointer, SiteFact
from model.isa.insn import Insn
from model.kernel.data import load_release
from model.program import Map
from model.rewrite.config import Config
from model.rewrite.direct_call import Decision, Kind, decide
from model.rewrite.patch import Patch, Reloc

KINDS = ("hash", "array", "array_of_maps", "queue", "lpm_trie", "xskmap", "percpu_hash")
INNER_FLAG = 1 << 12


def a_map(kind: str | None, name: str = "m", flags: int = 0) -> MapPointer:
    return MapPointer(("map", 0), Map(name, kind, 4, 8, 10, flags))


def one(
    helper: str, *pointers: MapPointer, version: str = "6.12", config: Config | None = None, **more: object
) -> Decision:
    fact = SiteFact(3, helper, pointers, reached=True)
    return decide(load_release(version), config or Config(), helper, replace(fact, **more))  # type: ignore[arg-type]


DIRECT = [
    ("6.1", "map_update_elem", "hash", "htab_map_update_elem"),
    ("6.12", "map_delete_elem", "array", "array_map_delete_elem"),
    ("6.12", "map_lookup_elem", "lpm_trie", "trie_lookup_elem"),
    ("6.12", "map_push_elem", "queue", "queue_stack_map_push_elem"),
    ("6.12", "map_pop_elem", "queue", "queue_map_pop_elem"),
    ("6.12", "map_peek_elem", "stack", "stack_map_peek_elem"),
    ("6.12", "redirect_map", "xskmap", "xsk_map_redirect"),
    ("6.1", "for_each_map_elem", "array", "bpf_for_each_array_elem"),
    ("7.3", "for_each_map_elem", "lru_percpu_hash", "bpf_for_each_hash_elem"),
    ("6.1", "map_lookup_percpu_elem", "percpu_array", "percpu_array_map_lookup_percpu_elem"),
    ("6.1", "map_lookup_elem", "percpu_hash", "htab_percpu_map_lookup_elem"),
]


@pytest.mark.parametrize(("version", "helper", "kind", "function"), DIRECT)
def test_direct_calls(version: str, helper: str, kind: str, function: str) -> None:
    decision = one(helper, a_map(kind), version=version)
    assert (decision.kind, decision.function, decision.slot, decision.helper) == (Kind.DIRECT, function, 3, helper)
    assert decision.patch == Patch((Insn(0x85),), {0: Reloc("call", function)})


def test_lookups_are_inlined_where_the_map_has_a_sequence() -> None:
    decision = one("map_lookup_elem", a_map("hash"))
    assert (decision.kind, decision.function, decision.reason) == (Kind.INLINED, "htab_map_lookup_elem", "")
    assert decision.patch is not None
    assert [insn.opcode for insn in decision.patch.insns] == [0x85, 0x15, 0x07]


def test_an_array_that_may_be_an_inner_map_of_any_size_is_called_directly() -> None:
    decision = one("map_lookup_elem", a_map("array", flags=INNER_FLAG))
    assert (decision.kind, decision.function) == (Kind.DIRECT, "array_map_lookup_elem")
    assert decision.reason == "array_map_gen_lookup declines with -EOPNOTSUPP"


A, B = a_map("array", "a"), MapPointer(("map", 1), Map("b", "hash", 4, 8, 10, 0))

REASONS = {
    "two maps surely": (
        one("map_update_elem", A, B, sure_poison=True),
        Kind.STAYS,
        "map pointer poisoned: a, b reach it",
    ),
    "two maps, and the verifier may see one": (
        one("map_update_elem", A, B, pruned_possible="because"),
        Kind.MAY_STAY,
        "map pointer may be poisoned: a, b may reach it; because",
    ),
    "two maps at for_each, 6.1": (
        one("for_each_map_elem", A, B, sure_poison=True, version="6.1"),
        Kind.STAYS,
        "release 6.1 refuses for_each_map_elem with several maps: a, b reach it",
    ),
    "two maps at for_each, 6.1 without JIT": (
        one("for_each_map_elem", A, B, sure_poison=True, version="6.1", config=Config(jit=False)),
        Kind.STAYS,
        "release 6.1 refuses for_each_map_elem with several maps: a, b reach it",
    ),
    "two maps at for_each, 5.15, which has no direct form": (
        one("for_each_map_elem", A, B, sure_poison=True, version="5.15"),
        Kind.STAYS,
        "release 5.15 refuses for_each_map_elem with several maps: a, b reach it",
    ),
    "perhaps two maps at for_each, 5.15": (
        one("for_each_map_elem", A, B, pruned_possible="because", version="5.15"),
        Kind.STAYS,
        "release 5.15 does not rewrite for_each_map_elem",
    ),
    "two maps at for_each, 6.12": (
        one("for_each_map_elem", A, B, sure_poison=True),
        Kind.STAYS,
        "map pointer poisoned: a, b reach it",
    ),
    "no JIT": (one("map_update_elem", A, config=Config(jit=False)), Kind.STAYS, "not JITed"),
    "a helper that the release leaves alone": (
        one("for_each_map_elem", A, version="5.10"),
        Kind.STAYS,
        "release 5.10 does not rewrite for_each_map_elem",
    ),
    "a pair that the verifier refuses": (
        one("map_push_elem", B),
        Kind.STAYS,
        "verifier refuses hash with map_push_elem",
    ),
    "a type that the release has not": (
        one("map_update_elem", a_map("rhash"), version="6.1"),
        Kind.STAYS,
        "release 6.1 has no map type rhash",
    ),
    "no map known": (one("map_update_elem", unknown=True), Kind.UNKNOWN, "map in r1 unknown"),
    "one map known, and perhaps others": (one("map_update_elem", A, unknown=True), Kind.UNKNOWN, "map in r1 unknown"),
    "no map": (
        one("map_update_elem"),
        Kind.UNKNOWN,
        "no map pointer reaches r1: the verifier refuses such a program",
    ),
    "no type": (one("map_update_elem", a_map(None, "what")), Kind.UNKNOWN, "type of map what unknown"),
    "no way there": (one("map_update_elem", reached=False), Kind.STAYS, "call is never reached"),
    "no key size": (
        one("map_lookup_elem", MapPointer(("map", 0), Map("m", "hash", None, 8, 10, 0))),
        Kind.UNKNOWN,
        "htab_map_gen_lookup uses round_up(map.key_size, 8), not known of m",
    ),
}


@pytest.mark.parametrize("row", REASONS)
def test_reasons(row: str) -> None:
    decision, kind, reason = REASONS[row]
    assert (decision.kind, decision.reason, decision.function, decision.patch) == (kind, reason, None, None)


def test_two_arrays_poison_each_other_although_their_operations_are_the_same() -> None:
    other = MapPointer(("map", 1), Map("other", "array", 4, 8, 10, 0))
    assert one("map_update_elem", A, other, sure_poison=True).kind is Kind.STAYS


def test_a_sequence_that_does_not_fit_the_buffer_fails_the_load() -> None:
    release = replace(load_release("6.12"), insn_buf=3)
    decision = decide(release, Config(), "map_lookup_elem", SiteFact(3, "map_lookup_elem", (B,), reached=True))
    assert (decision.kind, decision.patch) == (Kind.STAYS, None)
    assert decision.reason == "htab_map_gen_lookup makes 3 instructions: the load fails"


def test_every_accepted_pair_has_an_answer() -> None:
    """No pair that the verifier accepts is left without an operation (KERNEL: no accepted pair has a NULL one)."""
    for version in ("6.1", "6.12", "7.3"):
        release = load_release(version)
        for helper, row in release.accepted.items():
            for kind, acceptance in row.items():
                if acceptance.accepted:
                    decision = one(helper, a_map(kind), version=version)
                    assert decision.kind in (Kind.DIRECT, Kind.INLINED), (version, helper, kind, decision.reason)
