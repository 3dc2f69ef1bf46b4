"""What would make a refuted claim hold, or why it is harmless where it is: a row for each kind of claim and shape."""

from collections.abc import Mapping

from proofs.causes import dispatch_shape
from proofs.obligation import Refuted
from proofs.properties.callback import Callback
from proofs.properties.callback_user import User
from proofs.properties.dispatch import Dispatch
from proofs.properties.inline import Inline
from proofs.properties.no_operation import NoOperation
from proofs.properties.rewrites import Rewritten
from proofs.solver import Result

DISPATCH: Mapping[str, str] = {
    "result": (
        "let the operation return long, as the helper's 64-bit result is (d7ba4cc900bf did so in 6.4), or extend r0 "
        "after the call; harmless only where the operation never returns a negative value, or the program looks at "
        "32 bits of r0"
    ),
    "argument": (
        "give the operation's argument 64 bits (as 32637e33003f did for redirect's key), or extend it in front of the "
        "call; harmless where the program hands over a value that is extended as this ABI demands"
    ),
    "": "the direct call must be of the operation that the map's own table holds, with the helper's arguments",
}
FAMILY: Mapping[type, str] = {
    NoOperation: "the verifier must refuse the pair, or the table must have the operation",
    Inline: (
        "compare with the map's member as it is (unsigned, 32 bits), or refuse the inlining for such maps; harmless "
        "for maps with fewer than 2^31 entries and templates of the inner map's own size"
    ),
    Rewritten: "guard the division by tests of the divisor for 0, and for -1 where it is signed (7dd34d7b7dcf, 6.12)",
    Callback: "count and return in 64 bits; harmless below 2^31 callbacks",
    User: "count and return in 64 bits; harmless below 2^31 callbacks",
}
OTHER = "undo the change that the values above follow, or show that no program can have such values"


def suggestion(result: Result) -> str:
    """One sentence for a refuted result."""
    claim, verdict = result.obligation.claim, result.verdict
    if isinstance(claim, Dispatch) and isinstance(verdict, Refuted):
        return DISPATCH[dispatch_shape(claim, result.obligation.part, verdict.counterexample).kind]
    return FAMILY.get(type(claim), OTHER)
