"""How deep what was read from C is nested: a release file takes only so much (`data_rows.NEST`)."""

from collections.abc import Iterable
from dataclasses import is_dataclass

from model.kernel.c_tree import Unread

MOST = 40
"""Levels of statements and expressions in one another; the kernel's functions need 6."""


def bounded(value: object) -> None:
    """Raises `Unread` where dataclasses are nested in more than `MOST` levels; tuples are no level."""
    level: list[object] = [value]
    for _ in range(MOST + 1):
        level = [part for node in level for part in _parts(node)]
        if not level:
            return
    raise Unread(f"nested in more than {MOST} levels")


def _parts(node: object) -> list[object]:
    """The dataclasses right inside of a dataclass or of a tuple."""
    if isinstance(node, tuple):
        values: Iterable[object] = node
    else:
        values = (getattr(node, name) for name in getattr(type(node), "__dataclass_fields__", ()))
    found: list[object] = []
    for value in values:
        if is_dataclass(value):
            found.append(value)
        elif isinstance(value, tuple):
            found += _parts(value)
    return found
