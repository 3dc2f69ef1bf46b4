"""What a step refuses, and the frames around it; its values are in tests/conformance."""

from dataclasses import replace
from typing import Any

import pytest

from model.bits import IntBits
from model.errors import Unsupported
from model.isa.insn import Insn
from model.memory import Cells
from model.semantics import frames
from model.semantics.load_store import Packet
from model.semantics.operation import Address
from model.semantics.step import State, step

BITS = IntBits(64)


class Around:
    order: Any = "little"

    def frame(self, depth: int) -> int:
        return 0x1000 * depth

    def packet(self) -> Packet[int]:
        return Packet(0, 0, 0, 0)

    def address(self, load: Address) -> int:
        return 0

    def this_cpu(self, pointer: int) -> int:
        return pointer

    def may_goto(self, state: State[int, bool]) -> bool:
        return False


def state(*registers: int | None) -> State[int, bool]:
    words: Any = (*registers, *[None] * (11 - len(registers)))
    memory: Cells[int, bool] = Cells(BITS, lambda address: 0)
    return State(words, memory, 0, True)


def successors(before: State[int, bool], insn: Insn, around: Around | None = None) -> list[State[int, bool]]:
    def call(at: State[int, bool], insn: Insn, imm: int) -> State[int, bool]:
        return at.put(0, imm)

    return list(step(BITS, before, insn, insn.imm & 0xFFFFFFFF, call, around=around))


def test_both_sides_of_a_branch_have_their_guard() -> None:
    taken, fallen = successors(state(5), Insn(0x15, 0, off=3, imm=5))
    assert (taken.slot, taken.guard, fallen.slot, fallen.guard) == (4, True, 1, False)


def test_calls_of_kernel_functions_are_the_callers_to_mean() -> None:
    for src in (0, 2):
        (after,) = successors(state(), Insn(0x85, 0, src, imm=-7))
        assert (after.registers[0], after.slot) == (0xFFFFFFF9, 1)


@pytest.mark.parametrize(
    "insn", [Insn(0x85, 0, 1), Insn(0x30), Insn(0xE5), Insn(0x18, 0, 1), Insn(0xBF, 0, 6, -1), Insn(0xF5)]
)
def test_what_needs_surroundings_says_so(insn: Insn) -> None:
    with pytest.raises(Unsupported, match="without what is around"):
        successors(state(0, 1, 2, 3, 4, 5, 6), insn)


def test_a_register_that_holds_nothing_cannot_be_read() -> None:
    with pytest.raises(frames.Unreadable, match="r3 is read but holds nothing"):
        successors(state(1), Insn(0x0F, 0, 3))
    (after,) = successors(state(), Insn(0xB7, 3, imm=1))
    assert after.registers[3] == 1


def test_a_step_goes_no_deeper_than_eight_frames() -> None:
    inside = state(0, 1, 2, 3, 4, 5)
    for depth in range(1, 8):
        (inside,) = successors(inside, Insn(0x85, 0, 1), Around())
        assert inside.registers[10] == 0x1000 * depth
    with pytest.raises(Unsupported, match="8 frames"):
        successors(inside, Insn(0x85, 0, 1), Around())


def test_a_packet_load_outside_of_the_packet_ends_the_function() -> None:
    (inside,) = successors(state(0, 1, 2, 3, 4, 5, 6), Insn(0x85, 0, 1), Around())
    registers: Any = (*inside.registers[:6], 6, *inside.registers[7:])
    ways = successors(replace(inside, registers=registers), Insn(0x30), Around())
    ended = [way for way in ways if way.guard]
    assert [(way.slot, way.registers[0], way.callers) for way in ended] == [(1, 0, ())]


def test_frames_restore_what_the_caller_keeps() -> None:
    caller = list(range(100, 111))
    callee = frames.enter(caller, 0x2000)
    assert callee == [None, 101, 102, 103, 104, 105, None, None, None, None, 0x2000]
    callee[0], callee[6] = 7, 8
    assert frames.leave(caller, callee) == [7, None, None, None, None, None, 106, 107, 108, 109, 110]
