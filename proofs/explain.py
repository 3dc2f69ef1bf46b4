"""Obligations in words: what a claim states, what it assumes, what one part of it says."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from random import Random

from model.errors import InputError, Unsupported
from model.kernel.abi import ABIS
from model.kernel.data import available, load_release
from model.kernel.release import Release
from proofs.check_claims import FAMILIES
from proofs.check_release import matches, prefix, release_obligations
from proofs.concrete import IntWorld
from proofs.obligation import Claim, Obligation
from proofs.properties.dispatch_cases import Pair, rows

MODULES: Mapping[str, str] = {
    "dispatch": "dispatch",
    "inline": "inline",
    "callback": "callback",
    "patching": "patching",
    "rewrite": "rewrites",
    "direct": "direct",
    "whole": "whole",
}
"""Families and the modules of `proofs.properties` whose docstrings state them."""
PARTS: tuple[tuple[str, str], ...] = (
    ("dispatch/.*/target", "the direct call reaches the function that the helper's indirect call reaches"),
    ("dispatch/.*/arguments", "the operation is handed the same, in every bit that it can observe under the ABI"),
    ("dispatch/.*/r0", "all 64 bits of r0 are the same behind both calls"),
    ("inline/.*/fits", "the sequence is not longer than the pass's buffer, and not empty where it is put in"),
    ("inline/.*/declines", "where map_gen_lookup declines, it says -EOPNOTSUPP, so that the direct call stays"),
    ("inline/.*/r0/.*", "behind this pair of paths r0 is the same: the value's address, or NULL"),
    ("inline/.*/lemma/.*", "a lemma that other parts of the claim use, proved by itself"),
    ("callback/.*/flags", "flags other than 0 give -EINVAL, and no callback is made"),
    ("callback/.*/key", "the callback's second argument points to the key of the element"),
    ("callback/.*/value", "its third argument is the element's value"),
    ("callback/.*/arguments", "its first argument is the map, its fourth the context"),
    ("callback/.*/stop", "a result other than 0 ends the walk, at once"),
    ("callback/.*/count", "what is returned is the number of callbacks that were made"),
    ("callback/.*/base", "the walk begins at its first element"),
    ("callback/.*/next", "behind an element comes the next one"),
    ("callback/.*/end", "the walk ends behind its last element, and returns the number of callbacks"),
    ("rewrite/.*/lemma", "a signed division by -1 negates, its remainder is 0: what the other parts take for granted"),
    ("rewrite/.*/registers", "every register is what the instruction leaves"),
    ("rewrite/.*/defined", "no division is come to that the processor does not define"),
    (".*/callee_saved", "r6 to r9 and the frame pointer are as they were"),
    (".*/memory", "memory is the same behind both sides"),
    (".*/kernel", "the kernel's state is the same behind both sides"),
    (".*/callbacks", "the same callbacks were made, in the same order, with the same arguments"),
    (".*/reach/.*", "this path is taken in some state: what is proved of it is not vacuous"),
    (".*/dead/.*", "no state takes this path"),
)
HOW: Mapping[str, str] = {
    "words": "bit-vectors, with real multiplication",
    "products": "bit-vectors, products an unknown function at first; a refutation is confirmed with real ones",
    "integers": "unbounded integers",
}


@dataclass(frozen=True, slots=True)
class Explained:
    """`assumptions` are in the claim's words, each once, in the order in which it makes them."""

    obligation: Obligation
    says: str
    assumptions: tuple[str, ...]


class _Listening(IntWorld):
    """Plain ints; what is assumed of them is only written down."""

    def __init__(self, random: Random) -> None:
        super().__init__(lambda name, width: random.getrandbits(width))
        self.heard: dict[str, None] = {}

    def assume(self, why: str, condition: bool) -> None:
        self.heard.setdefault(why)


def statement(family: str) -> str:
    """The docstring of the family's module. Raises `InputError` for another family."""
    module = MODULES.get(family)
    if module is None:
        raise InputError("explain", family[:80], f"expected a family ({', '.join(MODULES)}), or an obligation's name")
    return (import_module(f"proofs.properties.{module}").__doc__ or "").strip()


def says(name: str) -> str:
    """What a part of a claim says, in a line; "" where the name alone has to do."""
    return next((text for pattern, text in PARTS if re.fullmatch(pattern, name)), "")


def assumptions(claim: Claim) -> tuple[str, ...]:
    world = _Listening(Random(0))
    claim(world)
    return tuple(world.heard)


def explained(pattern: str) -> Iterator[Explained]:
    """The release obligations whose name, or a path that it begins with, fits the glob `pattern`.

    Raises `InputError` where `pattern` does not begin with a family and a release of the data.
    """
    family, _, rest = pattern.partition("/")
    release = _release(rest.partition("/")[0])
    for obligation in _obligations(family, release, pattern):
        yield Explained(obligation, says(obligation.name), assumptions(obligation.claim))


def _release(name: str) -> Release:
    if name not in available():
        wish = f"expected FAMILY/RELEASE/…, with a release of {', '.join(available())}"
        raise InputError("explain", name[:80], wish)
    return load_release(name)


def _obligations(family: str, release: Release, pattern: str) -> Iterator[Obligation]:
    if family == "dispatch":
        for abi in ABIS.values():
            for row in rows(release):
                begun = prefix(release, abi, row)
                if row.pair is Pair.CLAIMED and _may_fit(begun, pattern):
                    yield from _fitting(lambda abi=abi, row=row: release_obligations(release, abi, row), pattern)
        return
    for name, build in FAMILIES[family](release, ABIS["x86_64"]):
        if _may_fit(name, pattern):
            yield from _fitting(build, pattern)


def _may_fit(name: str, pattern: str) -> bool:
    """Whether an obligation that begins with `name` can fit: their first parts do, one by one."""
    return all(matches(one, other) for one, other in zip(name.split("/"), pattern.split("/"), strict=False))


def _fitting(build: object, pattern: str) -> Iterator[Obligation]:
    try:
        made = build()  # type: ignore[operator]
    except Unsupported:
        return
    yield from (obligation for obligation in made if matches(obligation.name, pattern))
