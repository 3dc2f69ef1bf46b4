"""Inputs that are a little simpler than one that is given."""

from collections.abc import Iterator
from dataclasses import replace

from proofs.pair_run import Entry, Input


def smaller(given: Input) -> Iterator[Input]:
    """The boldest first: less of it, then zeros, then smaller numbers."""
    if given.ones:
        yield replace(given, ones=False)
    for index in range(len(given.entries)):
        yield replace(given, entries=given.entries[:index] + given.entries[index + 1 :])
    if given.numbers:
        yield replace(given, numbers=given.numbers[:-1])
    for index, number in enumerate(given.numbers):
        for less in (0, 1, number // 2, number - 1):
            if less < number:
                yield replace(given, numbers=(*given.numbers[:index], less, *given.numbers[index + 1 :]))
    for length in range(0, len(given.packet), max(1, len(given.packet) // 8)):
        yield replace(given, packet=given.packet[:length])
    for packet in _bytes(given.packet):
        yield replace(given, packet=packet)
    for context in _bytes(given.context):
        yield replace(given, context=context)
    for index, entry in enumerate(given.entries):
        for value in _bytes(entry.value):
            lower: Entry = replace(entry, value=value)
            yield replace(given, entries=(*given.entries[:index], lower, *given.entries[index + 1 :]))


def _bytes(data: bytes) -> Iterator[bytes]:
    """Stretches made zero, from all to single bytes; then each byte smaller."""
    size = len(data)
    while size:
        for at in range(0, len(data), size):
            if any(data[at : at + size]):
                yield data[:at] + bytes(len(data[at : at + size])) + data[at + size :]
        size //= 4 if size > 8 else 2
    for at, byte in enumerate(data):
        for less in (1, byte // 2, byte - 1):
            if less < byte and byte:
                yield data[:at] + bytes([less]) + data[at + 1 :]
