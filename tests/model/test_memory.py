"""`Cells`: bytes over ints, and over terms at addresses that are not known."""

import z3

from model.bits import IntBits
from model.memory import Cells
from proofs.symbolic import TermBits


def test_bytes_of_ints_in_both_orders() -> None:
    little = Cells(IntBits(64), lambda address: address & 0xFF)
    assert little.load(0x10, 4) == 0x13121110
    stored = little.store(0x11, 2, 0xAABB)
    assert stored.load(0x10, 4) == 0x13AABB10
    assert little.load(0x10, 4) == 0x13121110
    big = Cells(IntBits(64), lambda address: address & 0xFF, order="big").store(0x11, 2, 0xAABB)
    assert big.load(0x10, 4) == 0x10AABB13


def test_the_newest_store_wins_and_addresses_wrap() -> None:
    cells = Cells(IntBits(64), lambda address: 0).store(0, 8, 0x1111111111111111).store(2, 1, 0x22)
    assert cells.load(0, 8) == 0x1111111111221111
    assert cells.store(0xFFFFFFFFFFFFFFFF, 2, 0xAABB).load(0, 1) == 0xAA


def test_stores_through_unknown_addresses() -> None:
    bits = TermBits(64)
    p, q = z3.BitVecs("p q", 64)
    initial = z3.Function("byte", z3.BitVecSort(64), z3.BitVecSort(8))
    cells = Cells(bits, initial).store(p, 4, z3.BitVecVal(0x11223344, 32))
    solver = z3.Solver()
    loaded = cells.load(q, 1)
    solver.add(q == p + 1, loaded != 0x33)
    assert solver.check() == z3.unsat
    apart = z3.Solver()
    apart.add(z3.ULT(q, p), z3.ULT(p, z3.BitVecVal(-8, 64)), loaded != initial(q))
    assert apart.check() == z3.unsat
