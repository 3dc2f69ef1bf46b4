"""The Callback claims of a release: the types with a `map_for_each_callback`, and each type's claim from its C.

A release file without the C of its walks (one that was not extracted from a tree) has no claim, with the reason.
"""

from dataclasses import replace
from typing import Literal

from model.errors import Unsupported
from model.kernel.c_body import Body, Call, Container, Each, Member, nodes_of
from model.kernel.release import Release
from model.maps.allocation import rules
from proofs.concrete import IntWorld
from proofs.obligation import Obligation
from proofs.properties.callback import KINDS, REACH, Callback
from proofs.properties.callback_code import Code

SLOT = "map_for_each_callback"


def callback_types(release: Release) -> list[str]:
    """The map types with a walk, in the release's order."""
    return [
        row.name for row in release.map_types.values() if row.ops is not None and SLOT in release.ops[row.ops].slots
    ]


def walk_code(release: Release, function: str) -> Code:
    """The C of a walk and of what it calls. Raises `Unsupported` where it was not read."""
    if function not in release.bodies:
        raise Unsupported(f"{release.name}: the C of {function} was not read")
    found: dict[str, Body] = {}
    wanted = [function]
    while wanted:
        name = wanted.pop()
        body = release.bodies.get(name)
        if body is not None and name not in found:
            found[name] = replace(body, line=1)  # so that equal C in two releases is one claim
            wanted += [node.function for node in nodes_of(body.steps) if isinstance(node, Call)]
    nodes = [node for body in found.values() for node in nodes_of(body.steps)]
    used = {f"struct {node.struct}.{node.member}" for node in nodes if isinstance(node, Member | Container | Each)}
    layout = {key: value for key, value in release.layout.items() if key in used}
    return Code(function, tuple(found[name] for name in sorted(found)), tuple(sorted(layout.items())))


def callback_claim(release: Release, map_type: str, *, bounded: bool = False) -> Callback:
    """Raises `Unsupported` where the type has no walk, one without a specification, or one whose C was not read."""
    function = release.operation(map_type, SLOT)
    if function is None:
        raise Unsupported(f"{map_type} has no {SLOT} in {release.name}")
    if map_type not in KINDS:
        raise Unsupported(f"what a walk through a {map_type} is to do is not modelled")
    code, result = walk_code(release, function.name), function.prototype.result
    number = release.map_types[map_type].number
    allocation = tuple(rules(map_type, release.version))
    return Callback(map_type, code, number, replace(result, c=""), allocation, bounded)


def obligations_of(prefix: str, claim: Callback, origin: str) -> list[Obligation]:
    """The claim's parts, each an obligation of its own: `prefix/part`."""
    made = []
    for part in claim(IntWorld(lambda name, width: 0)):
        expect: Literal["valid", "reachable"] = "reachable" if part.startswith(REACH) else "valid"
        path = f"{REACH}stopped" if part in ("stop", "count") else ""
        made.append(Obligation(f"{prefix}/{part}", origin, claim, part, expect=expect, over="products", path=path))
    return made


def callback_obligations(release: Release, map_type: str, *, bounded: bool = False) -> list[Obligation]:
    """`bounded`: for walks of fewer than 2^31 callbacks. Raises `Unsupported`, with the reason."""
    function = release.operation(map_type, SLOT)
    claim = callback_claim(release, map_type, bounded=bounded)
    assert function is not None
    prefix = f"callback/{release.name}/{map_type}" + ("/bounded" if bounded else "")
    return obligations_of(prefix, claim, f"{release.version}: {function.name} {function.file}:{function.line}")
