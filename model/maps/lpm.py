"""LPM_TRIE (kernel/bpf/lpm_trie.c): the longest stored prefix of a key.

A key is a u32 prefix length in bits and data_size = key_size − 4 bytes, the most significant bit of the lowest byte
first. The trie's nodes are not modelled, but what they mean: a set of prefixes, at most one of each. An element that
is updated is replaced by another one. The memory of one that was deleted or replaced is the allocator's; the model
leaves it as it was and does not use it again.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Generic

from model.bits import B, W
from model.maps.allocation import applies
from model.maps.errors import EEXIST, EINVAL, ENOENT, ENOSPC
from model.maps.state import BPF_EXIST, BPF_NOEXIST, Cases, Effect, Outcomes, Site, Write, above_exist


@dataclass(frozen=True, slots=True)
class Prefix(Generic[W]):
    """`length` in bits has the width of the data, `data` its 8 × data_size bits with the lowest byte on top."""

    number: int
    length: W
    data: W


@dataclass(frozen=True, slots=True)
class Trie(Generic[W]):
    """`made` numbers of elements were ever used."""

    prefixes: tuple[Prefix[W], ...] = ()
    made: int = 0


def _data_bits(site: Site[W, B]) -> int:
    return 8 * (site.shape.key_size - 4)


def _width(site: Site[W, B]) -> int:
    """Wide enough for the data and for a u32."""
    return max(_data_bits(site), 32)


def _key(site: Site[W, B], key: W) -> tuple[W, W, B]:
    """Length and data of the key at `key`, at `_width`, and whether the length is above the map's longest."""
    bits = _data_bits(site)
    length = site.memory.load(key, 4)
    data = site.memory.load(site.offset(key, 4), 1)
    for at in range(8, bits, 8):
        data = site.bits.at(at).concat(data, site.memory.load(site.offset(key, 4 + at // 8), 1), 8)
    narrow = site.bits.at(32)
    too_long = narrow.ult(narrow.const(bits), length)
    return narrow.zext(length, _width(site)), site.bits.at(bits).zext(data, _width(site)), too_long


def _starts(site: Site[W, B], prefix: Prefix[W], data: W) -> B:
    """Whether the first `prefix.length` bits of `data` are those of `prefix`."""
    wide = site.bits.at(_width(site))
    distance = wide.sub(wide.const(_data_bits(site)), prefix.length)
    return wide.eq(wide.lshr(wide.bvxor(prefix.data, data), distance), wide.const(0))


def lookup(site: Site[W, B], state: Trie[W], key: W) -> Outcomes[W, B]:
    """trie_lookup_elem: the value of the longest stored prefix of the key that is not longer than the key's own length,
    else NULL; NULL for a length above 8 × data_size.
    """
    b, wide = site.bits, site.bits.at(_width(site))
    length, data, too_long = _key(site, key)
    cases = Cases(b)
    yield cases.when(too_long, b.const(0))
    fits = [b.conj(wide.ule(p.length, length), _starts(site, p, data)) for p in state.prefixes]
    for prefix, fit in zip(state.prefixes, fits, strict=True):
        longer = [b.conj(f, wide.ult(prefix.length, p.length)) for p, f in zip(state.prefixes, fits, strict=True)]
        yield cases.when(b.conj(fit, b.negate(b.disj(*longer))), site.offset(site.element(prefix.number), _value(site)))
    yield cases.otherwise(b.const(0))


def _value(site: Site[W, B]) -> int:
    """found->data + data_size: not rounded up."""
    return site.place.value


def update(site: Site[W, B], state: Trie[W], key: W, value: W, flags: W) -> Outcomes[W, B]:
    """trie_update_elem: flags from 3 on -EINVAL; a length above 8 × data_size -EINVAL; then, from 6.1 on, the prefix is
    there and NOEXIST -EEXIST, it is not and EXIST -ENOENT, it is new and there are max_entries -ENOSPC. Before, the
    other flags are not looked at, and with max_entries there every update is -ENOSPC. (eae6a075e952 of 6.13 and its
    neighbours, in the stable 6.1 and 6.12 read.)
    """
    b, wide = site.bits, site.bits.at(_width(site))
    length, data, too_long = _key(site, key)
    minding = applies("6.1", "", site.shape.release)
    full = len(state.prefixes) >= site.shape.max_entries
    cases = Cases(b)
    yield cases.error(above_exist(b, flags), EINVAL)
    yield cases.error(too_long, EINVAL)
    if full and not minding:
        yield cases.otherwise(b.const(-ENOSPC))
        return
    made = partial(_made, site, state, length, data, value)
    for prefix in state.prefixes:
        same = b.conj(wide.eq(prefix.length, length), _starts(site, prefix, data))
        if minding:
            yield cases.error(b.conj(same, b.eq(flags, b.const(BPF_NOEXIST))), EEXIST)
        yield cases.when(same, b.const(0), partial(made, prefix))
    if minding:
        yield cases.error(b.eq(flags, b.const(BPF_EXIST)), ENOENT)
    yield cases.otherwise(b.const(-ENOSPC)) if full else cases.otherwise(b.const(0), made)


def _made(site: Site[W, B], state: Trie[W], length: W, data: W, value: W, old: Prefix[W] | None = None) -> Effect[W]:
    """A new element, in the place of `old`."""
    new = Prefix(state.made, length, data)
    kept = tuple(prefix for prefix in state.prefixes if old is None or prefix.number != old.number)
    size = site.shape.value_size
    write = Write(site.offset(site.element(state.made), _value(site)), size, site.read(value, size))
    return Effect((write,), Trie((*kept, new), state.made + 1))


def delete(site: Site[W, B], state: Trie[W], key: W) -> Outcomes[W, B]:
    """trie_delete_elem: a length above 8 × data_size -EINVAL; no such prefix -ENOENT."""
    b, wide = site.bits, site.bits.at(_width(site))
    length, data, too_long = _key(site, key)
    cases = Cases(b)
    yield cases.error(too_long, EINVAL)
    for prefix in state.prefixes:
        same = b.conj(wide.eq(prefix.length, length), _starts(site, prefix, data))
        yield cases.when(same, b.const(0), partial(_without, state, prefix))
    yield cases.otherwise(b.const(-ENOENT))


def _without(state: Trie[W], prefix: Prefix[W]) -> Effect[W]:
    return Effect((), replace(state, prefixes=tuple(p for p in state.prefixes if p.number != prefix.number)))
