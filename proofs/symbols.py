"""What a kernel symbol is, as a call's target."""

from collections.abc import Mapping, Sequence

from model.kernel.release import Apply, Emit, If, Release, Statement

OPERATION = "operation"


def symbols(release: Release) -> Mapping[str, str]:
    """What a kernel symbol is: "operation" (of a map, or called by an inlined lookup), or the helper's name."""
    table = {f"bpf_{name}": name for name in release.helper_ids}
    table |= {helper.function: name for name, helper in release.helpers.items()}
    for ops in release.ops.values():
        table |= dict.fromkeys(ops.slots.values(), OPERATION)
    for gen in release.gen_lookup.values():
        table |= dict.fromkeys(_emitted_calls(gen.body), OPERATION)
    return table


def _emitted_calls(body: Sequence[Statement]) -> list[str]:
    found: list[str] = []
    for statement in body:
        if isinstance(statement, Emit) and statement.macro == "BPF_EMIT_CALL":
            for argument in statement.arguments:
                name = argument.arguments[0] if isinstance(argument, Apply) else argument
                found.append(getattr(name, "name", ""))
        elif isinstance(statement, If):
            found += _emitted_calls(statement.then) + _emitted_calls(statement.otherwise)
    return [name for name in found if name]


def helper_functions(release: Release) -> dict[int, str]:
    """The function of each helper, by the helper's id; `bpf_` and its name unless the release tells otherwise."""
    table = {number: f"bpf_{name}" for name, number in release.helper_ids.items()}
    return table | {helper.id: helper.function for helper in release.helpers.values()}
