"""Inlined lookups in dumps: recognised, or told apart with the reason."""

import pytest

from model.isa.insn import Insn
from model.kernel.data import load_release
from model.kernel.release import GenLookup, Opaque
from model.program import Form, Map, Program, SymbolRef
from model.rewrite.config import Config
from model.rewrite.recognise import Match, Mismatch, match_lookup

HASH = (Insn(0x85, imm=248656), Insn(0x15, 0, off=1), Insn(0x07, imm=56))
ARRAY = (
    Insn(0x07, 1, imm=360),
    Insn(0x61, 0, 2),
    Insn(0x35, 0, off=3, imm=5),
    Insn(0x67, 0, imm=3),
    Insn(0x0F, 0, 1),
    Insn(0x05, off=1),
    Insn(0xB7),
)
MASKED = (*ARRAY[:2], Insn(0x35, 0, off=4, imm=5), Insn(0x54, 0, imm=7), *ARRAY[3:])


def dump(*insns: Insn, call: str = "__htab_map_lookup_elem", base: int = 0) -> Program:
    calls = {slot: SymbolRef(call) for slot, insn in enumerate(insns) if insn.opcode == 0x85 and call}
    return Program("p", insns, form=Form.XLATED, refs=calls, base=base)


def match(
    program: Program, function: str, found: Map | None, slot: int = 0, unprivileged: bool = False
) -> Match | Mismatch:
    release = load_release("6.12")
    return match_lookup(program, slot, release.gen_lookup[function], found, Config(unprivileged=unprivileged), release)


def a_map(kind: str, key_size: int | None = 4, value_size: int | None = 8, entries: int | None = 5) -> Map:
    return Map("m", kind, key_size, value_size, entries, 0)


@pytest.mark.parametrize("key_size", [1, 4, 8])
def test_56_is_right_for_a_hash_whose_key_takes_8_bytes(key_size: int) -> None:
    assert match(dump(*HASH), "htab_map_gen_lookup", a_map("hash", key_size)) == Match(3)


def test_56_is_wrong_for_a_key_of_16_bytes() -> None:
    outcome = match(dump(*HASH), "htab_map_gen_lookup", a_map("hash", 16))
    assert outcome == Mismatch("instruction 2: immediate 64 expected, found 56 (htab_map_gen_lookup)", 2)


def test_an_unknown_key_size_is_learned() -> None:
    assert match(dump(*HASH), "htab_map_gen_lookup", a_map("hash", None)) == Match(3, {"round_up(map.key_size, 8)": 8})
    assert match(dump(*HASH), "htab_map_gen_lookup", None) == Match(3, {"round_up(map.key_size, 8)": 8})


def test_a_sequence_may_begin_anywhere() -> None:
    program = dump(Insn(0xBF, 6, 1), *HASH)
    assert match(program, "htab_map_gen_lookup", a_map("hash"), 1) == Match(3)


def test_array_with_its_unknown_offset() -> None:
    assert match(dump(*ARRAY), "array_map_gen_lookup", a_map("array")) == Match(7, {"struct bpf_array.value": 360})


def test_array_of_which_nothing_is_known() -> None:
    outcome = match(dump(*MASKED), "array_map_gen_lookup", None)
    assert isinstance(outcome, Match)
    assert outcome.bound == {
        "struct bpf_array.value": 360,
        "map.max_entries": 5,
        "array.index_mask": 7,
        "ilog2(array.elem_size)": 3,
    }
    assert ("!map.bypass_spec_v1", True) in outcome.conditions


WRONG = {
    "another size of the table": (ARRAY, a_map("array", entries=6), False, "immediate 6 expected, found 5"),
    "another size of the value": (ARRAY, a_map("array", value_size=16), False, "immediate 4 expected, found 3"),
    "a value that is multiplied": (ARRAY, a_map("array", value_size=24), False, "opcode 0x27 expected, found 0x67"),
    "a mask that is missing": (ARRAY, a_map("array"), True, "offset 4 expected, found 3"),
    "a mask that should not be": (MASKED, a_map("array"), False, "offset 3 expected, found 4"),
    "a wrong register": (
        (*ARRAY[:4], Insn(0x0F, 0, 2), *ARRAY[5:]),
        a_map("array"),
        False,
        "registers r0, r1 expected, found r0, r2",
    ),
    "a jump too far": ((*ARRAY[:5], Insn(0x05, off=2), ARRAY[6]), a_map("array"), False, "offset 1 expected, found 2"),
    "an end too early": (ARRAY[:6], a_map("array"), False, "the program ends before"),
}


@pytest.mark.parametrize("row", WRONG)
def test_arrays_that_differ(row: str) -> None:
    insns, found, unprivileged, reason = WRONG[row]
    outcome = match(dump(*insns), "array_map_gen_lookup", found, unprivileged=unprivileged)
    assert isinstance(outcome, Mismatch)
    assert reason in outcome.reason


def test_an_unknown_must_have_one_value_throughout() -> None:
    insns = (Insn(0x85), Insn(0x15, 0, off=4), Insn(0x71, 1, 0, 35), Insn(0x55, 1, off=1), Insn(0x72, 0, 0, 36, 1))
    outcome = match(dump(*insns, Insn(0x07, imm=56)), "htab_lru_map_gen_lookup", a_map("lru_hash"))
    assert isinstance(outcome, Mismatch)
    assert outcome.reason == "instruction 4: offset 35 expected, found 36 (htab_lru_map_gen_lookup)"


def test_another_function_is_called() -> None:
    outcome = match(dump(*HASH, call="htab_map_lookup_elem"), "htab_map_gen_lookup", a_map("hash"))
    assert isinstance(outcome, Mismatch)
    assert "call of __htab_map_lookup_elem expected, found htab_map_lookup_elem" in outcome.reason


def test_a_call_without_a_name_proves_nothing() -> None:
    outcome = match(dump(*HASH, call=""), "htab_map_gen_lookup", a_map("hash"))
    assert isinstance(outcome, Mismatch)
    assert "found a call without a name" in outcome.reason


def test_places_are_counted_as_the_listing_does() -> None:
    outcome = match(dump(*HASH, base=142), "htab_map_gen_lookup", a_map("hash", 16))
    assert isinstance(outcome, Mismatch)
    assert outcome.reason.startswith("instruction 144: ")


def test_an_inner_array_of_any_size_is_not_inlined() -> None:
    found = Map("m", "array", 4, 8, 5, 1 << 12)
    outcome = match(dump(*ARRAY), "array_map_gen_lookup", found)
    assert outcome == Mismatch("array_map_gen_lookup declines with -EOPNOTSUPP: a direct call was expected", 0)


def test_what_the_extractor_could_not_read_matches_nothing() -> None:
    gen = GenLookup("f", (Opaque("goto out;", 7),), "f.c", 1)
    outcome = match_lookup(dump(*HASH), 0, gen, None, Config(), load_release("6.12"))
    assert outcome == Mismatch("f: the model cannot read line 7: goto out;", 0)
