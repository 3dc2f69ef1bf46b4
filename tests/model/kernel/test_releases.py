"""The releases that come with the model: literals from reading the sources of 6.1, 6.12, 7.3 and 5.10."""

import pytest

from model.errors import InputError
from model.kernel.abi import ABIS
from model.kernel.data import available, dump_release, load_release, read_release
from model.kernel.release import Apply, Const, Decline, Emit, Field, If, Name, Offset, Release, SizeOf

NAMES = ("5.10", "6.1", "6.12", "7.3")  # from trees; those from tables have tests of their own


@pytest.fixture(params=NAMES)
def release(request: pytest.FixtureRequest) -> Release:
    return load_release(str(request.param))


def pairs(release: Release) -> set[tuple[str, str]]:
    return {(kind, helper) for helper, table in release.accepted.items() for kind, row in table.items() if row.accepted}


def test_available_in_the_order_of_versions() -> None:
    names = "4.19 5.4 5.10 5.15 5.16 5.19 6.1 6.2 6.3 6.6 6.10 6.12 6.14 6.18 6.19 7.3"
    assert available() == tuple(names.split())
    assert tuple(name for name in available() if not load_release(name).provenance) == NAMES
    assert load_release("newest").name == "7.3"


def test_unknown_release() -> None:
    with pytest.raises(InputError, match=r"expected a release: 4\.19, 5\.4, 5\.10, .*, 7\.3"):
        load_release("2.6")


def test_text_is_stable(release: Release) -> None:
    text = dump_release(release)
    assert read_release(text, "x") == release
    assert dump_release(read_release(text, "x")) == text


def test_no_machine_in_the_text(release: Release) -> None:
    text = dump_release(release)
    assert "/home" not in text
    assert "/root" not in text
    assert "linux-source" not in text


# KERNEL.md's list, typed from it: what the verifier of each release accepts of the nine helpers.
LUDE = ("map_lookup_elem", "map_update_elem", "map_delete_elem", "for_each_map_elem")
LUD = LUDE[:3]
PERCPU = (*LUDE, "map_lookup_percpu_elem")
ACCEPTED = {
    "array": LUDE,
    "hash": LUDE,
    "lru_hash": LUDE,
    "percpu_array": PERCPU,
    "percpu_hash": PERCPU,
    "lru_percpu_hash": PERCPU,
    "lpm_trie": LUD,
    "array_of_maps": ("map_lookup_elem",),
    "hash_of_maps": ("map_lookup_elem",),
    "devmap": ("map_lookup_elem", "redirect_map"),
    "devmap_hash": ("map_lookup_elem", "redirect_map"),
    "xskmap": ("map_lookup_elem", "redirect_map"),
    "cpumap": ("redirect_map",),
    "sockmap": LUD,
    "sockhash": LUD,
    "queue": ("map_push_elem", "map_pop_elem", "map_peek_elem"),
    "stack": ("map_push_elem", "map_pop_elem", "map_peek_elem"),
    "bloom_filter": ("map_push_elem", "map_peek_elem"),
}


@pytest.mark.parametrize(("name", "more"), [("6.1", {}), ("6.12", {}), ("7.3", {"rhash": LUDE})])
def test_accepted_pairs(name: str, more: dict[str, tuple[str, ...]]) -> None:
    expected = {(kind, helper) for kind, helpers in (ACCEPTED | more).items() for helper in helpers}
    assert pairs(load_release(name)) == expected


def test_no_accepted_pair_has_a_null_operation(release: Release) -> None:
    for kind, helper in pairs(release):
        assert release.operation(kind, release.helpers[helper].slot) is not None, (kind, helper)


def test_refusals_have_their_reasons() -> None:
    rows = load_release("6.12").accepted
    assert rows["map_lookup_elem"]["arena"].reason.startswith("key of 0 bytes (kernel/bpf/arena.c:")
    assert "check_map_prog_compatibility" in rows["map_update_elem"]["struct_ops"].reason
    assert rows["for_each_map_elem"]["lpm_trie"].reason.startswith("-ENOTSUPP in set_map_elem_callback_state")
    assert rows["map_update_elem"]["prog_array"].reason.startswith("check_map_func_compatibility, kernel/bpf/verifier")
    assert all(row.accepted or row.reason for table in rows.values() for row in table.values())


def test_sock_maps_ask_for_the_program_type() -> None:
    old, new = load_release("6.12").accepted, load_release("7.3").accepted
    assert old["map_lookup_elem"]["sockmap"].condition == ""
    assert old["map_update_elem"]["sockmap"].condition == (
        "programs of type tracing (eatype == BPF_TRACE_ITER), socket_filter, sched_cls, sched_act, xdp, sk_reuseport, "
        "flow_dissector, sk_lookup"
    )
    assert new["map_update_elem"]["sockhash"].condition == (
        "programs of type tracing (eatype == BPF_TRACE_ITER), sk_reuseport, sk_lookup"
    )
    assert "sock_ops" in new["map_delete_elem"]["sockhash"].condition
    assert "sock_ops" not in new["map_update_elem"]["sockhash"].condition


@pytest.mark.parametrize(
    ("name", "c", "bits"), [("5.10", "int", 32), ("6.1", "int", 32), ("6.12", "long", 64), ("7.3", "long", 64)]
)
def test_results_of_operations(name: str, c: str, bits: int) -> None:
    release = load_release(name)
    update = release.operation("array", "map_update_elem")
    assert update is not None
    assert update.name == "array_map_update_elem"
    assert (update.prototype.result.c, update.prototype.result.bits, update.prototype.result.signed) == (c, bits, True)
    assert [p.c for p in update.prototype.params] == ["struct bpf_map *", "void *", "void *", "u64"]
    assert update.file == "kernel/bpf/arraymap.c"
    for row in release.rewrites:
        if row.slot not in ("map_lookup_elem", "map_lookup_percpu_elem"):
            assert row.prototype is not None
            assert row.prototype.result.c == c
        operations = {release.operation(kind, row.slot) for kind, helper in pairs(release) if helper == row.helper}
        for operation in operations:
            assert operation is not None
            assert operation.prototype == release.slots[row.slot] == row.prototype


IDS = {
    "map_lookup_elem": 1,
    "map_update_elem": 2,
    "map_delete_elem": 3,
    "redirect_map": 51,
    "map_push_elem": 87,
    "map_pop_elem": 88,
    "map_peek_elem": 89,
    "for_each_map_elem": 164,
    "map_lookup_percpu_elem": 195,
}


@pytest.mark.parametrize("name", ["6.1", "6.12", "7.3"])
def test_nine_helpers_with_their_numbers_and_slots(name: str) -> None:
    release = load_release(name)
    assert {helper: row.id for helper, row in release.helpers.items()} == IDS
    slots = {helper: row.slot for helper, row in release.helpers.items()}
    assert slots == {helper: helper for helper in IDS} | {
        "redirect_map": "map_redirect",
        "for_each_map_elem": "map_for_each_callback",
    }
    assert all(row.arguments == tuple(range(len(row.params))) for row in release.helpers.values())
    casts = {helper for helper, row in release.helpers.items() if row.result_cast is not None}
    assert casts == {"map_lookup_elem", "map_lookup_percpu_elem"}
    assert [row.helper for row in release.rewrites] == [
        "map_lookup_elem",
        "map_update_elem",
        "map_delete_elem",
        "map_push_elem",
        "map_pop_elem",
        "map_peek_elem",
        "redirect_map",
        "for_each_map_elem",
        "map_lookup_percpu_elem",
    ]
    assert {row.helper: row.slot for row in release.rewrites} == slots


def test_helper_numbers_of_other_helpers() -> None:
    assert load_release("5.10").helper_ids["redirect_peer"] == 155
    assert load_release("6.1").helper_ids["user_ringbuf_drain"] == 209
    assert load_release("7.3").helper_ids["cgrp_storage_delete"] == 211
    assert load_release("7.3").helper_ids["loop"] == 181
    assert "unspec" not in load_release("7.3").helper_ids


@pytest.mark.parametrize(("name", "c"), [("6.1", "u32"), ("6.12", "u64"), ("7.3", "u64")])
def test_the_key_of_redirect(name: str, c: str) -> None:
    release = load_release(name)
    operation = release.operation("xskmap", "map_redirect")
    assert operation is not None
    assert operation.prototype.params[1].c == c
    assert release.helpers["redirect_map"].params[1].c == c
    assert (release.helpers["redirect_map"].function, release.helpers["redirect_map"].file) == (
        "bpf_xdp_redirect_map",
        "net/core/filter.c",
    )


def test_six_rewrites_in_5_10() -> None:
    release = load_release("5.10")
    assert [row.helper for row in release.rewrites] == list(IDS)[:3] + list(IDS)[4:7]
    assert {row.function for row in release.rewrites} == {"fixup_bpf_calls"}
    assert release.poison_for_each == ""
    assert load_release("6.12").rewrites[0].function == "do_misc_fixups"
    assert (load_release("7.3").rewrites[0].function, load_release("7.3").rewrites[0].file) == (
        "bpf_do_misc_fixups",
        "kernel/bpf/fixups.c",
    )


def test_what_changed_between_releases() -> None:
    old, middle, new = (load_release(name) for name in ("6.1", "6.12", "7.3"))
    assert (old.insn_buf, middle.insn_buf, new.insn_buf) == (16, 32, 32)
    assert (old.poison_for_each, middle.poison_for_each, new.poison_for_each) == ("refused", "stays", "stays")
    assert old.percpu_insn == frozenset()
    assert middle.percpu_insn == {"x86_64", "arm64", "riscv64"}
    assert new.percpu_insn == {"x86_64", "arm64", "riscv64", "loongarch64", "ppc64le"}
    assert new.percpu_insn <= ABIS.keys()
    assert old.callbacks == middle.callbacks == {"bpf_for_each_array_elem", "bpf_for_each_hash_elem"}
    assert new.callbacks - old.callbacks == {"bpf_each_rhash_elem"}
    assert (new.map_types["rhash"].number, new.map_types["rhash"].ops) == (35, "rhtab_map_ops")
    assert "rhash" not in middle.map_types
    assert middle.map_types["cgroup_storage"].number == 19
    assert middle.map_types["percpu_cgroup_storage"].number == 21
    assert new.map_types["hash"].number == 1
    assert (old.meta_equal["array"], old.meta_equal["hash"]) == ("array_map_meta_equal", "bpf_map_meta_equal")


def test_offsets_that_need_no_build(release: Release) -> None:
    known = {"struct htab_elem.key": 48, "struct htab_elem.lru_node": 16, "struct bpf_lru_node.ref": 19}
    known |= {"struct bpf_array.map": 0, "struct xsk_map.map": 0}  # first members
    walks = {"struct bpf_htab.map": 0, "struct bucket.head": 0, "struct htab_elem.hash_node": 0}  # for_each: since 5.13
    rhash = {"struct bpf_rhtab.map": 0, "struct rhtab_elem.data": 8}
    known |= (walks if release.name != "5.10" else {}) | (rhash if release.name == "7.3" else {})
    assert release.layout == known


GEN = {"array_map", "array_of_map", "htab_map", "htab_lru_map", "htab_of_map", "xsk_map"}


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("5.10", set()),
        ("6.1", set()),
        ("6.12", {"percpu_array_map", "htab_percpu_map"}),
        ("7.3", {"percpu_array_map", "htab_percpu_map", "rhtab_map"}),
    ],
)
def test_sequences_are_there_and_all_read(name: str, more: set[str]) -> None:
    release = load_release(name)
    assert release.gen_lookup.keys() == {f"{stem}_gen_lookup" for stem in GEN | more}
    assert "opaque" not in dump_release(release)
    assert [line.split(" calls ")[0].split(" ")[1] for line in release.unread] == ["sk_select_reuseport"]


def test_the_lookup_of_an_array() -> None:
    ret, index, at = Name("BPF_REG_0"), Name("BPF_REG_2"), Name("BPF_REG_1")
    size, entries = Field("array.elem_size", 32, False), Field("map.max_entries", 32, False)
    shapes = [
        statement if not isinstance(statement, Emit) else (statement.macro, statement.arguments)
        for statement in load_release("6.12").gen_lookup["array_map_gen_lookup"].body
    ]
    assert shapes[0] == If(
        Apply("&", (Field("map.map_flags", 32, False), Name("BPF_F_INNER_MAP"))), (Decline("EOPNOTSUPP"),), ()
    )
    assert shapes[1] == ("BPF_ALU64_IMM", (Name("BPF_ADD"), at, Offset("bpf_array", "value")))
    assert shapes[2] == ("BPF_LDX_MEM", (Name("BPF_W"), ret, index, Const(0)))
    checked, scaled = shapes[3], shapes[4]
    assert isinstance(checked, If)
    assert checked.condition == Apply("!", (Field("map.bypass_spec_v1", 8, False),))
    assert [row.arguments for row in checked.then if isinstance(row, Emit)] == [
        (Name("BPF_JGE"), ret, entries, Const(4)),
        (Name("BPF_AND"), ret, Field("array.index_mask", 32, False)),
    ]
    assert isinstance(scaled, If)
    assert scaled.condition == Apply("is_power_of_2", (size,))
    assert [row.arguments for row in scaled.otherwise if isinstance(row, Emit)] == [(Name("BPF_MUL"), ret, size)]
    assert shapes[-1] == ("BPF_MOV64_IMM", (ret, Const(0)))
    assert len(shapes) == 8


def test_the_lookup_of_a_hash_and_of_an_xskmap() -> None:
    release = load_release("6.1")
    call, *rest = release.gen_lookup["htab_map_gen_lookup"].body
    assert isinstance(call, Emit)
    assert (call.macro, call.arguments) == ("BPF_EMIT_CALL", (Name("__htab_map_lookup_elem"),))
    last = rest[-1]
    assert isinstance(last, Emit)
    assert last.arguments[2] == Apply(
        "+", (Offset("htab_elem", "key"), Apply("round_up", (Field("map.key_size", 32, False), Const(8))))
    )
    body = release.gen_lookup["xsk_map_gen_lookup"].body
    assert isinstance(body[5], Emit)
    assert body[5].arguments[0] == Apply("BPF_SIZEOF", (SizeOf("struct xsk_sock *"),))
    assert isinstance(body[2], Emit)
    assert body[2].arguments[2] == Apply("ilog2", (SizeOf("struct xsk_sock *"),))
    old = load_release("5.10").gen_lookup["htab_map_gen_lookup"].body[0]
    assert isinstance(old, Emit)
    assert old.arguments == (Name("__htab_map_lookup_elem"),)  # BPF_CAST_CALL is only a cast
