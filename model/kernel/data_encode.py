"""From a `Release` to plain JSON values, in the order in which the file shows them."""

from collections.abc import Mapping

from model.kernel.data_c import encode_c
from model.kernel.data_code import encode_body
from model.kernel.data_rows import SCHEMA
from model.kernel.evidence import Checked, Returned
from model.kernel.release import (
    Acceptance,
    CType,
    DirectCall,
    Function,
    GenLookup,
    Helper,
    OpsTable,
    Prototype,
    Release,
)


def encode_release(release: Release) -> dict[str, object]:
    """Plain values in the file's order. ValueError where two C types share a text and differ in meaning."""
    types: dict[str, CType] = {}

    def text(c: CType) -> str:
        if types.setdefault(c.c, c) != c:
            raise ValueError(f"the C type {c.c!r} has two meanings: {types[c.c]} and {c}")
        return c.c

    def proto(prototype: Prototype) -> dict[str, object]:
        return {"result": text(prototype.result), "params": [text(c) for c in prototype.params]}

    def place(row: OpsTable | Function | Helper | DirectCall | GenLookup | Checked) -> dict[str, object]:
        return {"file": row.file, "line": row.line}

    tables: dict[str, object] = {
        "map_types": {
            row.name: {"number": row.number, "ops": row.ops}
            for row in sorted(release.map_types.values(), key=lambda row: row.number)
        },
        "ops": {key: {**place(row), "slots": dict(row.slots)} for key, row in sorted(release.ops.items())},
        "functions": {
            key: ({} if key == row.name else {"name": row.name}) | proto(row.prototype) | place(row)
            for key, row in sorted(release.functions.items())
        },
        "slots": {key: proto(row) for key, row in release.slots.items()},
        "helpers": {
            row.name: {
                "id": row.id,
                "function": row.function,
                "params": [text(c) for c in row.params],
                "slot": row.slot,
                "arguments": list(row.arguments),
                "result_cast": None if row.result_cast is None else text(row.result_cast),
                **place(row),
            }
            for row in sorted(release.helpers.values(), key=lambda row: row.id)
        },
        "accepted": {
            helper: {kind: _encode_acceptance(row) for kind, row in table.items()}
            for helper, table in release.accepted.items()
        },
        "rewrites": [
            {
                "helper": row.helper,
                "slot": row.slot,
                "prototype": None if row.prototype is None else proto(row.prototype),
                "function": row.function,
                **place(row),
            }
            for row in release.rewrites
        ],
        "gen_lookup": {
            key: {**place(row), "body": encode_body(row.body)} for key, row in sorted(release.gen_lookup.items())
        },
        "bodies": {key: encode_c(body) for key, body in sorted(release.bodies.items())},
        "meta_equal": dict(sorted(release.meta_equal.items())),
        "callbacks": sorted(release.callbacks),
        "layout": dict(sorted(release.layout.items())),
        "helper_ids": dict(sorted(release.helper_ids.items(), key=lambda item: item[1])),
        "unread": list(release.unread),
        "holes": dict(sorted(release.holes.items())),
        "returns": {key: [_encode_returned(row) for row in rows] for key, rows in sorted(release.returns.items())},
        "checked": {
            key: {"arguments": list(row.arguments), **place(row)} for key, row in sorted(release.checked.items())
        },
    }
    if release.provenance:
        tables["provenance"] = {
            key: {source: list(rows) for source, rows in sources.items()} for key, sources in release.provenance.items()
        }
    head: dict[str, object] = {"schema": SCHEMA, "name": release.name, "version": release.version}
    head |= {"origin": release.origin, "insn_buf": release.insn_buf, "poison_for_each": release.poison_for_each}
    head |= {
        "percpu_insn": sorted(release.percpu_insn),
        "types": {key: _encode_type(types[key]) for key in sorted(types)},
    }
    return head | tables


def _encode_type(row: CType) -> Mapping[str, object]:
    return {"bits": row.bits, "signed": row.signed} | ({"pointer": True} if row.pointer else {})


def _encode_acceptance(row: Acceptance) -> Mapping[str, object]:
    return (
        {"accepted": row.accepted}
        | ({"condition": row.condition} if row.condition else {})
        | ({"reason": row.reason} if row.reason else {})
    )


def _encode_returned(row: Returned) -> Mapping[str, object]:
    numbers = {} if row.low is None else {"low": row.low, "high": row.high}
    return {"text": row.text, **numbers, "function": row.function, "file": row.file, "line": row.line}
