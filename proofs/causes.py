"""What a refutation comes from: its shape, read from the claim and its counterexample, and the rows of known causes.

A shape is never told from a release's number. A row adds what the kernel's history knows of the shape; a shape
without a row is a cause of its own, shown as unknown.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from model.kernel.abi import Extension
from model.kernel.release import CType
from proofs.obligation import Counterexample, Obligation, Refuted
from proofs.properties.callback import Callback
from proofs.properties.dispatch import Dispatch
from proofs.properties.inline import Inline
from proofs.properties.no_operation import NoOperation
from proofs.properties.rewrites import Rewritten
from proofs.solver import Result, Solver

REGISTER, INT = 64, 32  # bits
ENTRIES = "max_entries"


@dataclass(frozen=True, slots=True)
class Shape:
    """Which of the known ways to fail. `kind` is "result", "argument", "null", "overflow", "entries", "template",
    "count" or "".

    `what` tells more: the slot for an argument, the member for a template, the variable for a count, the obligation's
    part where the kind is "". `bits` and `signed` are of the narrow type, `position` counts arguments from 1.
    """

    kind: str
    what: str = ""
    position: int = 0
    bits: int = 0
    signed: bool = False


@dataclass(frozen=True, slots=True)
class Cause:
    """A row: what the kernel's history says of a shape.

    `since` is the first release with it, `until` the first without: numbers ("6.4"), "" where there is none or it is
    not known. `commits` says what made and what ended it.
    """

    shape: Shape
    name: str
    text: str
    since: str = ""
    until: str = ""
    commits: str = ""

    def covers(self, version: tuple[int, ...]) -> bool:
        """Whether a release of this version is one where history expects the cause."""
        return numbers(self.since) <= version and (not self.until or version < numbers(self.until))


CAUSES = (
    Cause(
        Shape("result", bits=32, signed=True),
        "int result",
        "the operation returns int; this ABI leaves the upper half of the return register open, where the helper "
        "sign-extends",
        until="6.3.2",
        commits="ended by d7ba4cc900bf: operations return long (6.4, stable 6.3.2)",
    ),
    Cause(
        Shape("argument", "map_lookup_percpu_elem", 3, 32),
        "u32 cpu",
        "u32 cpu of lookup_percpu is handed over as the program left it; this ABI lets the operation rely on its "
        "extension",
        since="5.19",
        commits="since 07343110b293 (5.19)",
    ),
    Cause(
        Shape("argument", "map_redirect", 2, 32),
        "u32 ifindex",
        "u32 ifindex of redirect is handed over as the program left it; this ABI lets the operation rely on its "
        "extension",
        since="5.15",
        until="6.2",
        commits="since e6a4750ffe9d, ee75aef23afe (in 5.15); ended by 32637e33003f: the key is u64 (6.2)",
    ),
    Cause(
        Shape("null"),
        "no operation",
        "the verifier accepts the pair, but its slot is NULL: helper and direct call both go to address 0",
    ),
    Cause(
        Shape("overflow", "signed division"),
        "signed overflow",
        "the least number divided by -1 comes to a division that this processor traps on",
        since="6.6",
        until="6.12",
        commits="since ec0e2da95f72 (6.6); ended by 7dd34d7b7dcf (6.12)",
    ),
    Cause(
        Shape("entries"),
        "sign-extended bound",
        "the inlined lookup compares the index, 64 bits, with max_entries as a sign-extended immediate: from 2^31 "
        "entries on the bound never fires",
    ),
    Cause(
        Shape("template", ENTRIES),
        "template's bound",
        "an inner map may have fewer entries than the template of its outer map, whose number the inlined lookup uses",
        since="6.10",
        commits="since db69718b8efa (6.10: per-CPU arrays are inlined)",
    ),
    Cause(
        Shape("count", "result", bits=32, signed=True),
        "int count",
        "for_each returns its count of callbacks as int: negative from 2^31 callbacks on",
        until="6.3.2",
        commits="ended by d7ba4cc900bf: operations return long (6.4, stable 6.3.2)",
    ),
    Cause(
        Shape("count", "counter", bits=32, signed=True),
        "int counter",
        "for_each counts its callbacks in an int: negative from 2^31 callbacks on, which a hash of few entries has "
        "where its callback deletes and inserts",
    ),
)


def numbers(version: str) -> tuple[int, ...]:
    """ "6.3.2" -> (6, 3, 2); () for ""."""
    return tuple(int(part) for part in version.split(".") if part.isdigit())


def known(shape: Shape, rows: tuple[Cause, ...] = CAUSES) -> Cause | None:
    return next((row for row in rows if row.shape == shape), None)


def cause_of(shape: Shape, rows: tuple[Cause, ...] = CAUSES) -> Cause:
    """The shape's row, or one that says that there is none."""
    return known(shape, rows) or Cause(shape, "no known cause", f"no row fits: {_told(shape)}")


def _told(shape: Shape) -> str:
    width = f"{shape.bits} bits ({'signed' if shape.signed else 'unsigned'})"
    match shape.kind:
        case "result":
            return f"the operation returns {width} and the direct call does not extend it"
        case "argument":
            return f"argument {shape.position} of {shape.what}, {width}, is handed over as the program left it"
        case "template":
            return f"the template's {shape.what} is not the inner map's"
        case "count":
            return f"the count of callbacks, {width}, does not fit its {shape.what}"
    return f"part {shape.what}"


def shape_of(result: Result, operation: CType, solver: Solver) -> Shape:
    """The shape of a refuted result. `operation` is the type that the release's function returns.

    `solver` is asked whether a bound on the map's size is all that is missing.
    """
    obligation, verdict = result.obligation, result.verdict
    assert isinstance(verdict, Refuted)
    match obligation.claim:
        case Dispatch():
            return dispatch_shape(obligation.claim, obligation.part, verdict.counterexample)
        case NoOperation():
            return Shape("null")
        case Rewritten() if obligation.part == "defined" and obligation.claim.before.off == 1:
            return Shape("overflow", "signed division")
        case Inline():
            return _inline(obligation.claim, obligation, verdict.counterexample, solver)
        case Callback():
            return _callback(obligation.claim, obligation, operation, solver)
    return Shape("", obligation.part)


def dispatch_shape(claim: Dispatch, part: str, counterexample: Counterexample) -> Shape:
    """Told by the first difference between the two sides: the target, an argument, then the result."""
    helper, direct = _sides(counterexample, "helper"), _sides(counterexample, "direct")
    operation = next(callee.prototype for callee in claim.functions if callee.symbol == claim.expected)
    if part == "target" or helper.get("target") != direct.get("target"):
        return Shape("", part)
    for position, param in enumerate(operation.params, 1):
        label = f"argument {position} as the operation may see it"
        if helper.get(label) == direct.get(label):
            continue
        if claim.abi.argument is not Extension.NOBODY and _low(helper, direct, label, param.bits):
            return Shape("argument", _slot(claim), position, param.bits, param.signed)
        return Shape("", part)
    result = operation.result
    if part == "r0" and claim.abi.result is Extension.NOBODY and _low(helper, direct, "r0", result.bits):
        return Shape("result", "", 0, result.bits, result.signed)
    return Shape("", part)


def _slot(claim: Dispatch) -> str:
    return next((slot for slot, symbol in claim.table if symbol == claim.expected), "")


def _sides(counterexample: Counterexample, side: str) -> dict[str, int]:
    """The words that one side of the counterexample shows, by label."""
    rows = ((word.label.partition(": "), word.value) for word in counterexample.shown)
    return {label: value for (name, _, label), value in rows if name == side}


def _low(helper: Mapping[str, int], direct: Mapping[str, int], label: str, bits: int) -> bool:
    """Whether the two words are a type's that is narrower than a register, and agree in its bits."""
    mask = (1 << bits) - 1
    return 0 < bits < REGISTER and (helper[label] ^ direct[label]) & mask == 0


def _inline(claim: Inline, obligation: Obligation, counterexample: Counterexample, solver: Solver) -> Shape:
    """Small maps first: what fails on them too is not the bound's fault."""
    if not claim.bounded:
        bounded = solver.decide(replace(obligation, claim=replace(claim, bounded=True))).verdict
        if not isinstance(bounded, Refuted):
            return Shape("entries")
        counterexample = bounded.counterexample
    shown = {word.label: word.value for word in counterexample.shown}
    members = [label.removeprefix("template->") for label in shown if label.startswith("template->")]
    differ = [name for name in members if shown.get(f"map->{name}") != shown[f"template->{name}"]]
    if ENTRIES in differ:
        return Shape("template", ENTRIES)
    return Shape("template", differ[0]) if differ else Shape("", obligation.part)


def _callback(claim: Callback, obligation: Obligation, operation: CType, solver: Solver) -> Shape:
    """Walks of fewer than 2^31 callbacks first, as above. `operation` is the type that the walk's function returns."""
    if not claim.bounded:
        bounded = solver.decide(replace(obligation, claim=replace(claim, bounded=True))).verdict
        if not isinstance(bounded, Refuted):
            what = "result" if operation.bits < REGISTER else "counter"
            return Shape("count", what, 0, INT, True)
    return Shape("", obligation.part)
