"""The Inline claims of a release: which types have one, and each type's claim from the release's rows."""

from dataclasses import replace
from typing import Any, Literal

from model.errors import Unsupported
from model.kernel.abi import Abi
from model.kernel.c_body import Body, Call, Container, Integer, Member, nodes_of
from model.kernel.release import PERCPU_INSN, CType, Emit, GenLookup, If, Offset, Release
from model.maps.allocation import ARRAYS, TYPES, rules
from model.maps.templates import OUTER, compared, copied
from proofs.concrete import IntWorld
from proofs.obligation import Obligation
from proofs.properties.inline import DEAD, R0, REACH, Dead, IndexMask, Inline

HELPER = "map_lookup_elem"
SLOT = "map_gen_lookup"

# Paths that are in the source and that no map takes, by map type.
DEADS = {
    "array_of_maps": (
        Dead("not-is_power_of_2(", "fd_array_map_alloc_check: value_size is 4, so an element has 8 bytes"),
    ),
    "percpu_array": (Dead("declined/", "array_map_alloc_check: BPF_F_INNER_MAP is for plain arrays"),),
}


def inline_types(release: Release) -> list[str]:
    """The map types with a `map_gen_lookup`, in the release's order."""
    return [
        row.name for row in release.map_types.values() if row.ops is not None and SLOT in release.ops[row.ops].slots
    ]


def inline_claim(release: Release, abi: Abi, map_type: str, inner: bool = False) -> Inline:
    """Inline(release, map_type, map_lookup_elem) on `abi`. Raises `Unsupported`, with the reason."""
    row = release.map_types.get(map_type)
    if row is None or row.ops is None or SLOT not in release.ops[row.ops].slots:
        raise Unsupported(f"{map_type} has no {SLOT} in {release.name}")
    slots = release.ops[row.ops].slots
    lookup = release.gen_lookup.get(slots[SLOT])
    if lookup is None:
        raise Unsupported(f"{slots[SLOT]} was not read")
    operation = slots.get(HELPER, "")
    if operation not in release.bodies:
        raise Unsupported(f"the C of {operation or HELPER} was not read")
    if map_type not in TYPES:
        raise Unsupported(f"no rule for the allocation of {map_type}")
    _pointers_only(release)
    if inner and (map_type in OUTER or map_type not in release.meta_equal):
        raise Unsupported(f"{map_type} can be no inner map")
    bodies = _reached(release, operation)
    return Inline(
        abi=_rules(abi, bodies),
        map_type=map_type,
        allocation=tuple(rules(map_type, release.version)),
        copied=copied(map_type, release.version) if inner else (),
        lookup=_placeless(lookup),
        operation=operation,
        bodies=tuple(replace(body, line=0) for body in bodies),
        layout=_layout(release, lookup, bodies),
        percpu=abi.name in release.percpu_insn and PERCPU_INSN in repr(lookup.body),  # else no difference: one claim
        limit=release.insn_buf,
        inner=release.meta_equal[map_type] if inner else "",
        dead=DEADS.get(map_type, ()),
    )


def _rules(abi: Abi, bodies: list[Body]) -> Abi:
    """Only the functions whose bodies are not known are called as the ABI says."""
    unknown = [body for body in bodies if body.steps is None]
    handed = [param.type for body in unknown for param in body.params]
    kinds = [
        [CType("", c.bits, c.signed) for c in row if isinstance(c, Integer)]
        for row in (handed, [b.result for b in unknown])
    ]
    return abi.rules(*kinds)


def _placeless(node: Any) -> Any:
    """The map_gen_lookup without places, so that releases with the same text have the same claim."""
    match node:
        case Emit(macro, arguments, _):
            return Emit(macro, arguments, 0)
        case If(condition, then, otherwise):
            return If(condition, _placeless(then), _placeless(otherwise))
        case tuple():
            return tuple(_placeless(item) for item in node)
        case GenLookup(function, body, _, _):
            return GenLookup(function, _placeless(body), "", 0)
    return node


def _reached(release: Release, operation: str) -> list[Body]:
    """The operation and what it calls, as far as it was read."""
    found: dict[str, Body] = {}
    wanted = [operation]
    while wanted:
        name = wanted.pop()
        if name in release.bodies and name not in found:
            found[name] = release.bodies[name]
            wanted += [node.function for node in nodes_of(found[name].steps) if isinstance(node, Call)]
    return [found[name] for name in sorted(found)]


def _layout(release: Release, lookup: GenLookup, bodies: list[Body]) -> tuple[tuple[str, int], ...]:
    """The offsets that the two sides ask for, where they are known without a build."""
    nodes = [*nodes_of(lookup.body), *(node for body in bodies for node in nodes_of(body.steps))]
    asked = {f"struct {n.struct}.{n.member}" for n in nodes if isinstance(n, Offset | Member | Container)}
    return tuple(sorted((key, value) for key, value in release.layout.items() if key in asked))


def _pointers_only(release: Release) -> None:
    """The helper hands r1 and r2 over and returns the operation's pointer, all 64 bits wide."""
    helper = release.helpers[HELPER]
    widths = [ctype.bits for ctype in helper.params] + [64 if helper.result_cast is None else helper.result_cast.bits]
    if set(widths) != {64} or helper.arguments != (0, 1):
        raise Unsupported(f"{HELPER} does more than hand two pointers over and one back")


def can_be_inner(release: Release, map_type: str) -> bool:
    return map_type in release.meta_equal and map_type not in OUTER


def same_entries(release: Release, map_type: str) -> bool:
    """Whether an inner map has as many entries as its template (unless BPF_F_INNER_MAP, where nothing is inlined)."""
    return "max_entries" in compared(release.meta_equal.get(map_type, ""))


def obligations_of(prefix: str, claim: Inline, origin: str) -> list[Obligation]:
    """The claim's parts, each an obligation of its own; Unsupported where one of its sides has no rule."""
    made = []
    for part in claim(IntWorld(lambda name, width: 0)):
        expect: Literal["valid", "reachable"] = "reachable" if part.startswith(REACH) else "valid"
        why = claim.reason(part)
        where = f"{origin}; {why}" if part.startswith(DEAD) else origin
        path = part.replace(R0, f"{REACH}inlined/", 1) if part.startswith(R0) else ""
        made.append(Obligation(f"{prefix}/{part}", where, claim, part, expect=expect, over="products", path=path))
    return made


def inline_obligations(release: Release, abi: Abi, map_type: str, *, bounded: bool = False) -> list[Obligation]:
    """The claim on the map itself, then on inner maps of the type. Raises `Unsupported`, with the reason.

    A type whose `map_gen_lookup` declines for every map (a JIT without per-CPU instructions) has no claim.
    `bounded` makes the claim for maps of fewer than 2^31 entries only.
    """
    made = map_obligations(release, abi, map_type, bounded=bounded)
    if map_type in ARRAYS:
        lemma = Obligation(f"{_prefix(release, map_type)}/lemma/index_mask", made[0].origin, INDEX_MASK, "index_mask")
        made.append(lemma)
    if can_be_inner(release, map_type):
        made += map_obligations(release, abi, map_type, inner=True, bounded=bounded)
    return made


INDEX_MASK = IndexMask("array")


def _prefix(release: Release, map_type: str) -> str:
    return f"inline/{release.name}/{map_type}/{HELPER}"


def map_obligations(
    release: Release, abi: Abi, map_type: str, *, inner: bool = False, bounded: bool = False
) -> list[Obligation]:
    """One claim's obligations: on maps of the type as such, or (`inner`) on inner maps. Raises `Unsupported`."""
    claim = replace(inline_claim(release, abi, map_type, inner), bounded=bounded)
    prefix = _prefix(release, map_type) + ("/inner" if inner else "") + ("/bounded" if bounded else "")
    made = obligations_of(prefix, claim, origin(release, claim))
    if not any(one.part.startswith((REACH + "inlined", DEAD + "inlined")) for one in made):
        raise Unsupported(f"{claim.lookup.function} declines on {abi.name}: no per-CPU instructions")
    return made


def origin(release: Release, claim: Inline) -> str:
    body = release.bodies[claim.operation]
    lookup = release.gen_lookup[claim.lookup.function]
    return (
        f"{release.version}: operation {body.function} {body.file}:{body.line}, "
        f"inlined by {lookup.function} {lookup.file}:{lookup.line}"
    )
