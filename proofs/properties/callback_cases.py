"""The Callback claims of a release: the types with a `map_for_each_callback`, and each type's claim from its rows."""

from typing import Literal

from model.bits import B, W
from model.errors import Unsupported
from model.kernel.release import CType, Release
from model.maps.allocation import HASHES, Parameters, Rule, rules
from model.world import World
from proofs.concrete import IntWorld
from proofs.obligation import Obligation
from proofs.properties.callback import INT, REACH, U32, Callback, Loop

SLOT = "map_for_each_callback"

# The functions' loops, read in 6.1, 6.12 and 7.3: the kind of walk, the types of num_elems and of i.
LOOPS: dict[str, tuple[Literal["array", "hash", "rhash"], CType, CType]] = {
    "bpf_for_each_array_elem": ("array", U32, U32),
    "bpf_for_each_hash_elem": ("hash", INT, INT),
    "bpf_each_rhash_elem": ("rhash", INT, INT),
}
KEYS = {"hash": "struct htab_elem.key", "rhash": "struct rhtab_elem.data"}
BUCKET = 16
"""sizeof(struct bucket), at least: a pointer and a lock, aligned as the pointer."""


def _buckets(world: World[W, B], m: Parameters[W]) -> B:
    """n_buckets = roundup_pow_of_two(max_entries) <= U32_MAX / sizeof(struct bucket): max_entries is 2^27 at most."""
    b = world.bits(32)
    most = ((1 << 32) - 1) // BUCKET
    return b.ule(m.max_entries, b.const(1 << (most.bit_length() - 1)))


BUCKETS = Rule(HASHES - {"rhash"}, "htab_map_alloc, kernel/bpf/hashtab.c", _buckets)
"""Read in 5.10, 6.1, 6.12 and 7.3; without it, an `int` num_elems would not be wide enough."""
PERCPU = frozenset({"percpu_array", "percpu_hash", "lru_percpu_hash"})


def callback_types(release: Release) -> list[str]:
    """The map types with a walk, in the release's order."""
    return [
        row.name for row in release.map_types.values() if row.ops is not None and SLOT in release.ops[row.ops].slots
    ]


def callback_claim(release: Release, map_type: str, *, bounded: bool = False) -> Callback:
    """Raises `Unsupported` where the type has no walk, or one whose C is no row here."""
    function = release.operation(map_type, SLOT)
    if function is None:
        raise Unsupported(f"{map_type} has no {SLOT} in {release.name}")
    row = LOOPS.get(function.name)
    if row is None:
        raise Unsupported(f"the loop of {function.name} is not modelled")
    kind, counter, index = row
    result = function.prototype.result
    loop = Loop(kind, CType("", result.bits, result.signed), counter, index)
    key = 0 if kind == "array" else release.layout[KEYS[kind]]
    allocation = (*rules(map_type, release.name), *([BUCKETS] if map_type in BUCKETS.types else []))
    return Callback(map_type, loop, allocation, map_type in PERCPU, key, bounded)


def obligations_of(prefix: str, claim: Callback, origin: str) -> list[Obligation]:
    """The claim's parts, each an obligation of its own: `prefix/part`."""
    made = []
    for part in claim(IntWorld(lambda name, width: 0)):
        expect: Literal["valid", "reachable"] = "reachable" if part.startswith(REACH) else "valid"
        made.append(Obligation(f"{prefix}/{part}", origin, claim, part, expect=expect, over="products"))
    return made


def callback_obligations(release: Release, map_type: str, *, bounded: bool = False) -> list[Obligation]:
    """`bounded`: for walks of fewer than 2^31 callbacks. Raises `Unsupported`, with the reason."""
    function = release.operation(map_type, SLOT)
    claim = callback_claim(release, map_type, bounded=bounded)
    assert function is not None
    prefix = f"callback/{release.name}/{map_type}" + ("/bounded" if bounded else "")
    return obligations_of(prefix, claim, f"{release.version}: {function.name} {function.file}:{function.line}")
