"""Listings of `rewrite --format asm`, read back; and torn ones, which end in one line of error at most."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.errors import InputError
from model.loaders import rewritten
from model.loaders.xlated import NO_MAPS
from model.program import MapRef, SymbolRef

TEXT = """; first in socket
first:
   0: (18) r1 = map[numbers]
   2: (18) r6 = map[state][0]+8
   4: (07) r1 += offsetof(struct bpf_array, value) + offsetof(struct bpf_array, map) + -8
   5: (35) if r0 >= index_mask goto pc+1
   6: (85) call pc+2#part
   7: (85) call __htab_map_lookup_elem#?
   8: (95) exit
part:
   9: (18) r1 = map[id:35]
  11: (95) exit
; second
second:
   0: (61) r0 = *(u32 *)(r1 +offsetof(struct bpf_array, value))
   1: (95) exit
"""


def test_two_programs() -> None:
    loaded = rewritten.load(TEXT, "after.txt", NO_MAPS)
    first, second = loaded.found.programs
    assert [m.name for m in first.maps] == ["numbers", "state", "map[id:35]"]
    assert first.refs == {0: MapRef(0), 2: MapRef(1, 8), 7: SymbolRef("__htab_map_lookup_elem"), 9: MapRef(2)}
    assert first.maps[2].id == 35
    assert [part.start for part in first.subprograms] == [0, 9]
    assert first.insns[4].imm == -8
    told = [{slot: (named.kind, named.symbol) for slot, named in table.items()} for table in loaded.relocs]
    assert told == [
        {4: ("offset", "struct bpf_array.value + struct bpf_array.map"), 5: ("offset", "index_mask")},
        {0: ("displacement", "struct bpf_array.value")},
    ]
    assert second.insns[0].off == 0


@pytest.mark.parametrize(
    ("text", "expected"),
    [("   0: (95) exit\n", False), ("   0: (85) call x#?\n", True), ("r1 = map[a]\ncall x\n", False)],
)
def test_what_only_the_rewrite_prints(text: str, expected: bool) -> None:
    assert rewritten.looks_like(text) is expected


@given(st.integers(0, len(TEXT)), st.integers(0, 40), st.text(max_size=20))
def test_torn_text(at: int, length: int, put: str) -> None:
    with contextlib.suppress(InputError):
        rewritten.load(TEXT[:at] + put + TEXT[at + length :], "after.txt", NO_MAPS)
