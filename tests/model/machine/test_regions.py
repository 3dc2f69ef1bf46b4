"""Concrete memory: bounds, byte order, what was never written, addresses."""

import pytest

from model.machine.outcome import Violation
from model.machine.regions import OBJECT_BASE, STACK_BASE, Region, Regions


def memory(order: str = "little") -> Regions:
    made = Regions("big" if order == "big" else "little")
    made.add(Region("one", 0x10000, bytearray(range(16))))
    made.add(Region("two", 0x10010, bytearray(8)))
    return made


def test_loads_and_stores_in_both_byte_orders() -> None:
    assert memory().load(0x10001, 4) == 0x04030201
    assert memory("big").load(0x10001, 4) == 0x01020304
    assert memory("big").store(0x10000, 8, 0x1122334455667788).read(0x10000, 8).hex() == "1122334455667788"
    assert memory().store(0x10000, 2, 0x1122).read(0x10000, 3).hex() == "221102"


@pytest.mark.parametrize(
    ("address", "size", "reason"),
    [
        (0, 1, "1 byte at 0x0: null pointer"),
        (0xFFF, 8, "8 bytes at 0xfff: null pointer + 4095"),
        (0xFFFF, 1, "1 byte at 0xffff: out of bounds: offset -1 in one of 16 bytes"),
        (0x1000D, 4, "4 bytes at 0x1000d: out of bounds: offset"),
        (0x10018, 1, "1 byte at 0x10018: out of bounds: offset 8 in two of 8 bytes"),
        (0xFFFFFFFFFFFFFFFF, 8, "out of bounds: no memory is there"),
    ],
)
def test_bounds(address: int, size: int, reason: str) -> None:
    made = memory()
    with pytest.raises(Violation) as load:
        made.load(address, size)
    with pytest.raises(Violation) as store:
        made.store(address, size, 0)
    with pytest.raises(Violation):
        made.read(address, size)
    with pytest.raises(Violation):
        made.write(address, bytes(size))
    assert reason in str(load.value)
    assert str(store.value) == str(load.value)


def test_neighbours_do_not_make_one_region() -> None:
    with pytest.raises(Violation):
        memory().load(0x1000C, 8)


def test_every_byte_of_a_load_must_have_been_written() -> None:
    made = Regions()
    stack = made.add(Region("stack frame 0", STACK_BASE, bytearray(16), known=bytearray(16)))
    made.store(STACK_BASE + 8, 4, 7)
    assert made.load(STACK_BASE + 8, 4) == 7
    with pytest.raises(Violation, match=r"uninitialised stack frame 0 \(r10-8\)"):
        made.load(STACK_BASE + 8, 8)
    with pytest.raises(Violation, match="uninitialised"):
        made.read(STACK_BASE, 8)
    assert made.read(STACK_BASE + 8, 4) == b"\7\0\0\0"
    for offset, size in ((8, 8), (12, 4), (11, 2), (7, 2)):
        with pytest.raises(Violation, match="uninitialised"):
            made.read(STACK_BASE + offset, size)
    made.write(STACK_BASE, bytes(16))
    assert made.load(STACK_BASE + 8, 8) == 0
    assert stack.known == bytearray(b"\1" * 16)


def test_what_is_removed_is_out_of_bounds() -> None:
    made = Regions()
    placed = made.place("value", b"12345678")
    assert made.load(placed.base, 1) == ord("1")
    made.remove(placed)
    with pytest.raises(Violation):
        made.load(placed.base, 1)


def test_places_are_the_same_every_time_and_apart() -> None:
    first, second = Regions(), Regions()
    places = [(r.place("a", bytes(100)).base, r.place("b", bytes(1)).base) for r in (first, second)]
    assert places[0] == places[1]
    assert places[0][0] == OBJECT_BASE
    assert places[0][1] - places[0][0] >= 100 + 0x1000


def test_regions_do_not_overlap() -> None:
    made = memory()
    for base, size in ((0x1000F, 1), (0xFFFF, 2), (0x10017, 8)):
        with pytest.raises(ValueError, match="overlaps"):
            made.add(Region("three", base, bytearray(size)))
