"""QUEUE and STACK (kernel/bpf/queue_stack_maps.c; 5.10, 6.1, 6.12 and 7.3 agree).

Programs never see where an element lies, so the state has the values themselves. Not modelled: -EBUSY, which only a
program that interrupts another one on the same lock gets (in NMI up to 6.14, by rqspinlock since).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Generic

from model.bits import B, W
from model.maps.errors import E2BIG, EINVAL, ENOENT
from model.maps.state import BPF_EXIST, BPF_NOEXIST, Cases, Effect, Outcomes, Site, Write, above_exist, has


@dataclass(frozen=True, slots=True)
class Queue(Generic[W]):
    """The values (8 × value_size bits), oldest first."""

    values: tuple[W, ...] = ()


def push(site: Site[W, B], state: Queue[W], value: W, flags: W) -> Outcomes[W, B]:
    """queue_stack_map_push_elem: flags other than ANY and EXIST -EINVAL; with max_entries there -E2BIG, but with EXIST
    the oldest value goes, in a stack too.
    """
    b, values = site.bits, state.values
    cases = Cases(b)
    yield cases.error(b.disj(has(b, flags, BPF_NOEXIST), above_exist(b, flags)), EINVAL)
    if len(values) >= site.shape.max_entries:
        yield cases.error(b.negate(has(b, flags, BPF_EXIST)), E2BIG)
        values = values[1:]
    yield cases.otherwise(b.const(0), lambda: Effect((), Queue((*values, site.read(value, site.shape.value_size)))))


def _take(site: Site[W, B], state: Queue[W], value: W, chosen: int, left: Queue[W]) -> Outcomes[W, B]:
    """Empty: -ENOENT, and value_size zeroes at `value`. Else the value at index `chosen`; `left` stays in the map."""
    size, b = site.shape.value_size, site.bits
    empty = not state.values
    word = b.at(8 * size).const(0) if empty else state.values[chosen]
    write: Callable[[], Effect[W]] = partial(Effect, (Write(value, size, word),), left)
    yield Cases(b).otherwise(b.const(-ENOENT if empty else 0), write)


def queue_pop(site: Site[W, B], state: Queue[W], value: W) -> Outcomes[W, B]:
    """queue_map_pop_elem: the oldest value."""
    return _take(site, state, value, 0, Queue(state.values[1:]))


def queue_peek(site: Site[W, B], state: Queue[W], value: W) -> Outcomes[W, B]:
    """queue_map_peek_elem: as pop, but the value stays."""
    return _take(site, state, value, 0, state)


def stack_pop(site: Site[W, B], state: Queue[W], value: W) -> Outcomes[W, B]:
    """stack_map_pop_elem: the newest value."""
    return _take(site, state, value, -1, Queue(state.values[:-1]))


def stack_peek(site: Site[W, B], state: Queue[W], value: W) -> Outcomes[W, B]:
    """stack_map_peek_elem: as pop, but the value stays."""
    return _take(site, state, value, -1, state)


def lookup(site: Site[W, B], state: Queue[W], key: W) -> Outcomes[W, B]:
    """queue_stack_map_lookup_elem: always NULL."""
    yield Cases(site.bits).otherwise(site.bits.const(0))


def update(site: Site[W, B], state: Queue[W], key: W, value: W, flags: W) -> Outcomes[W, B]:
    """queue_stack_map_update_elem: always -EINVAL."""
    yield Cases(site.bits).otherwise(site.bits.const(-EINVAL))


def delete(site: Site[W, B], state: Queue[W], key: W) -> Outcomes[W, B]:
    """queue_stack_map_delete_elem: always -EINVAL."""
    yield Cases(site.bits).otherwise(site.bits.const(-EINVAL))
