"""A second opinion on the ABI rows: does the compiled code of helpers and map operations extend as the row says?

Nothing is solved here: `model.native` tells how the upper halves came about, this compares it with the row.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from model.errors import Unsupported
from model.kernel.abi import Abi, Extension, Upper, upper_bits
from model.kernel.release import CType, Prototype, Release
from model.loaders.kernel_image import KernelImage
from model.native import values
from model.native.flow import Flow, Found
from model.native.values import Atom, is_sign_extended
from model.native.x86_decode import Decoder

MACHINES = ("x86_64",)
JUMP_ROW, FIXUP_ROW = 16, 12  # struct jump_entry, struct exception_table_entry (x86)
LOW = (1 << 32) - 1


class Code(Enum):
    """What compiled code does with the upper half of a value."""

    EXTENDED = "extended"  # as the C type says, on all paths
    NOT_EXTENDED = "not extended"  # a path is known on which the upper half is not the extension
    NARROW = "not extended, sign unknown"  # written in 32 bits (or cut from 64), and the value is not known
    LOW_HALF = "low half only"  # an argument: nothing depends on the upper half
    RELIES = "relies on the upper half"  # an argument
    WHOLE = "64 bits"  # nothing narrow
    UNKNOWN = "cannot tell"


class Agreement(Enum):
    AGREES = "agrees"
    CONTRADICTS = "contradicts"
    CANNOT_TELL = "cannot tell"
    NOT_THERE = "not in the image"


@dataclass(frozen=True, slots=True)
class Subject:
    """A function to look at. `result` is the type that its value has before any conversion to u64: for a helper the
    slot's, and `called` are then the widths of the slot's parameters.
    """

    name: str
    role: str
    result: CType
    params: tuple[CType, ...]
    called: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """One value that crosses a function's boundary: its type, the row's demand, what the code does, and `why`."""

    subject: Subject
    part: str
    type: CType
    demand: str
    code: Code
    why: str
    agreement: Agreement


def subjects(release: Release, image: KernelImage) -> Iterator[Subject]:
    """Helpers that dispatch through map->ops, then every operation in the slots that they call; each function once."""
    slots = dict(release.slots)
    if image.types is not None:
        told = image.types.slots("bpf_map_ops")
        slots |= {name: kind for name, (_, kind) in told.items() if kind is not None}
    for helper in release.helpers.values():
        if helper.slot in slots:
            slot = slots[helper.slot]
            widths = tuple(kind.bits for kind in slot.params)
            yield Subject(helper.function, "helper", slot.result, helper.params, widths)
    called = dict.fromkeys(helper.slot for helper in release.helpers.values())
    keys = {table.slots[slot]: None for table in release.ops.values() for slot in called if slot in table.slots}
    done = set()
    for key in keys:
        known = release.functions.get(key)
        name = key.partition("@")[0]
        prototype = _prototype(image, name) or (known.prototype if known is not None else None)
        if prototype is not None and name not in done:
            done.add(name)
            yield Subject(name, "operation", prototype.result, prototype.params)


def _prototype(image: KernelImage, name: str) -> Prototype | None:
    """From the image's own type information."""
    try:
        found = image.types.function(name) if image.types is not None else None
    except Unsupported:
        return None
    return None if found is None else found[1]


def check(release: Release, abi: Abi, image: KernelImage) -> Iterator[Row]:
    """Raises Unsupported, by name, for machines whose code is not read."""
    if image.machine not in MACHINES or abi.name != image.machine:
        wanted = image.machine if abi.name == image.machine else f"{image.machine} under the ABI of {abi.name}"
        raise Unsupported(f"machine code of {wanted} (there is {', '.join(MACHINES)})")

    def widths(name: str) -> tuple[int, ...] | None:
        prototype = _prototype(image, name)
        if prototype is None and name in release.functions:
            prototype = release.functions[name].prototype
        return None if prototype is None else tuple(kind.bits for kind in prototype.params)

    labels, fixups = dict(image.pairs("__jump_table", JUMP_ROW)), dict(image.pairs("__ex_table", FIXUP_ROW))
    flow = Flow(image, Decoder().step, widths, labels, fixups)
    for subject in subjects(release, image):
        yield from _rows(subject, abi, image, flow)


def _rows(subject: Subject, abi: Abi, image: KernelImage, flow: Flow) -> Iterator[Row]:
    places = image.symbols.places(subject.name)
    narrow = tuple(index for index, kind in enumerate(subject.params[:6]) if 0 < kind.bits < 64)
    if len(places) != 1:
        there = Agreement.CANNOT_TELL if places else Agreement.NOT_THERE
        why = f"{len(places)} functions have this name" if places else "no symbol of this name"
        yield Row(subject, "result", subject.result, "", Code.UNKNOWN, why, there)
        return
    whole = subject.role == "helper" or subject.result.bits == 64
    found = flow.function(places[0], narrow, subject.called, whole=whole)
    yield _result(subject, abi, image, found)
    for index in narrow:
        yield _argument(subject, index, abi, image, found)


def demand(rule: Extension, kind: CType, who: str) -> tuple[Upper, str]:
    upper = upper_bits(rule, kind)
    return upper, "nobody extends" if upper is Upper.ANY else f"{who} {upper.value}-extends"


def _result(subject: Subject, abi: Abi, image: KernelImage, found: Found) -> Row:
    kind = subject.result
    if not 0 < kind.bits < 64:
        return _whole(subject, image, found)
    wanted, text = demand(abi.result, kind, "callee")
    handed = False
    if subject.role == "helper":  # its value is a u64: C converts the operation's narrow result by its type
        handed = wanted is not Upper.ANY
        wanted = Upper.SIGN if kind.signed else Upper.ZERO
        text = f"helper {wanted.value}-extends"
    code, why = result_code(kind, found, image, wanted, handed=handed)
    if wanted is Upper.ANY:
        agreement = Agreement.CANNOT_TELL if code is Code.UNKNOWN else Agreement.AGREES
    else:
        agreement = {Code.EXTENDED: Agreement.AGREES, Code.NOT_EXTENDED: Agreement.CONTRADICTS}.get(
            code, Agreement.CANNOT_TELL
        )
    return Row(subject, "result", kind, text, code, why, agreement)


def _whole(subject: Subject, image: KernelImage, found: Found) -> Row:
    """No row asks anything of 64 bits. But a `long` in which only 32 bits of a negative number arrive looks like an int
    that was widened wrongly: that is told, and left open.
    """
    kind, atoms = subject.result, sorted(found.result, key=lambda atom: (atom.number, atom.place))
    constants = [atom for atom in atoms if atom.upper is values.Upper.CONST and atom.number >> 31]
    cut = [atom for atom in constants if atom.number <= LOW]
    if kind.signed and not kind.pointer and cut:
        why = f"{cut[0].number:#018x} from {_where(image, cut[0].place)}, in 64 bits"
        return Row(subject, "result", kind, "64 bits", Code.NOT_EXTENDED, why, Agreement.CANNOT_TELL)
    why = f"{constants[0].number:#018x} from {_where(image, constants[0].place)}" if constants else ""
    return Row(subject, "result", kind, "64 bits", Code.WHOLE, why, Agreement.AGREES)


def result_code(kind: CType, found: Found, image: KernelImage, wanted: Upper, *, handed: bool) -> tuple[Code, str]:
    """What the code does, and by which instruction. `handed`: what another function left is extended by the ABI."""
    signed = wanted is Upper.SIGN or (wanted is Upper.ANY and kind.signed)
    atoms = sorted(found.result, key=lambda atom: (atom.upper.name, atom.number, atom.place))
    wrong = [atom for atom in atoms if _wrong(atom, signed)]
    if wrong:
        return Code.NOT_EXTENDED, f"{wrong[0].number:#018x} from {_where(image, wrong[0].place)}"
    if _hands_on(atoms) and wanted is not Upper.ANY and not handed:
        return Code.NOT_EXTENDED, "the callee's result is handed on as it came"
    if found.problems:
        return Code.UNKNOWN, found.problems[0]
    rest = [atom for atom in atoms if not _right(atom, signed, handed)]
    if not atoms:
        return Code.UNKNOWN, "no way to a return was found"
    if not rest:
        return Code.EXTENDED, "on every path"
    unknown = [atom for atom in rest if atom.upper not in (values.Upper.ZERO, values.Upper.SIGN, values.Upper.FULL)]
    if unknown:
        return Code.UNKNOWN, f"the upper half is {unknown[0].upper.value}"
    return Code.NARROW, f"the upper half is {rest[0].upper.value}"


def _hands_on(atoms: list[Atom]) -> bool:
    return any(atom.upper is values.Upper.CALL for atom in atoms)


def _wrong(atom: Atom, signed: bool) -> bool:
    if atom.upper is not values.Upper.CONST:
        return False
    return not is_sign_extended(atom.number) if signed else atom.number > LOW


def _right(atom: Atom, signed: bool, handed: bool) -> bool:
    match atom.upper:
        case values.Upper.CONST:
            return not _wrong(atom, signed)
        case values.Upper.SMALL:
            return True
        case values.Upper.SIGN:
            return signed
        case values.Upper.ZERO:
            return not signed
        case values.Upper.CALL:
            return handed
    return False


def _argument(subject: Subject, index: int, abi: Abi, image: KernelImage, found: Found) -> Row:
    kind = subject.params[index]
    upper, text = demand(abi.argument, kind, "caller")
    if subject.role == "helper":  # BPF_CALL_n takes u64 and casts
        upper, text = Upper.ANY, "a cast drops the upper half"
    part = f"argument {index + 1}"
    uses = [use for use in found.uses if use.index == index]
    sure = [use for use in uses if use.sure]
    if sure:
        code, why = Code.RELIES, f"{sure[0].how} at {_where(image, sure[0].place)}"
        agreement = Agreement.CONTRADICTS if upper is Upper.ANY else Agreement.AGREES
    elif uses or found.problems:
        code = Code.UNKNOWN
        why = f"{uses[0].how} at {_where(image, uses[0].place)}" if uses else found.problems[0]
        agreement = Agreement.CANNOT_TELL if upper is Upper.ANY else Agreement.AGREES
    else:
        code, why, agreement = Code.LOW_HALF, "", Agreement.AGREES
    return Row(subject, part, kind, text, code, why, agreement)


def _where(image: KernelImage, address: int) -> str:
    around = image.around(address)
    return f"{address:#x}" if around is None else f"{around[1]}+{address - around[0]:#x}"
