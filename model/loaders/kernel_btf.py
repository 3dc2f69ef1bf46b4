"""What a kernel's BTF says of its C: prototypes, members' offsets, enumerators. See `model.loaders.btf`.

Type texts follow those of `model.kernel.c_types` (qualifiers kept only on what a pointer points to).
"""

from collections.abc import Callable
from functools import cache
from pathlib import Path

from model.errors import InputError, Unsupported
from model.kernel.release import CType, Prototype
from model.loaders.btf import Btf, Kind, Type

RUNNING = Path("/sys/kernel/btf/vmlinux")
LIMIT = 256 << 20  # bytes; 4 to 8 MB is usual
DEPTH = 16  # pointers to pointers, anonymous members in anonymous members
_LISTED = {Kind.STRUCT, Kind.FUNC, Kind.ENUM, Kind.TYPEDEF, Kind.VAR}
_SPELLING = {
    "_Bool": "bool",
    "long int": "long",
    "long unsigned int": "unsigned long",
    "long long int": "long long",
    "long long unsigned int": "unsigned long long",
    "short int": "short",
    "short unsigned int": "unsigned short",
}


class KernelTypes:
    """The named structs, functions, enums, typedefs and variables of a kernel."""

    __slots__ = ("_ids", "btf", "file")

    def __init__(self, data: bytes, file: str) -> None:
        """InputError where `data` is no BTF."""
        self.file = file
        self.btf = Btf(data, file)
        self._ids: dict[tuple[Kind, str], list[int]] = {}
        for number in range(1, len(self.btf)):
            found = self.btf.type(number)
            if found.kind in _LISTED and found.name:
                self._ids.setdefault((found.kind, found.name), []).append(number)

    def ids(self, kind: Kind, name: str) -> tuple[int, ...]:
        """The BTF ids of all types of a kind and name."""
        return tuple(self._ids.get((kind, name), ()))

    def function(self, name: str) -> tuple[int, Prototype] | None:
        """BTF id and prototype of a function; None where BTF has none, or several that differ. Raises Unsupported."""
        ids = self._ids.get((Kind.FUNC, name), [])
        found = [self.prototype(self.btf.type(number).target) for number in ids]
        return (ids[0], found[0]) if found and all(one == found[0] for one in found) else None

    def enumerators(self, name: str) -> dict[str, int]:
        """Values by name, in order. InputError where there is no such enum."""
        return dict(self.btf.enumerators(self._one(Kind.ENUM, name)))

    def struct(self, name: str) -> Type:
        """InputError where the kernel has no, or two, such structs."""
        return self._one(Kind.STRUCT, name)

    def _one(self, kind: Kind, name: str) -> Type:
        ids = self._ids.get((kind, name), [])
        if len(ids) != 1:
            raise InputError(self.file, "BTF", f"expected one {kind.name.lower()} {name}, found {len(ids)}")
        return self.btf.type(ids[0])

    def offset(self, struct: str, member: str) -> int | None:
        """Bytes from the struct's start, through anonymous members; None where it is not there, or is ambiguous."""
        ids = self._ids.get((Kind.STRUCT, struct), [])
        found = {self._bit(self.btf.type(number), member, DEPTH) for number in ids}
        bits = found.pop() if len(found) == 1 else None
        return None if bits is None or bits % 8 else bits // 8

    def _bit(self, outer: Type, wanted: str, depth: int) -> int | None:
        for member in self.btf.members(outer):
            if member.name == wanted:
                return member.offset
            inner = self.btf.resolve(member.type)
            if not member.name and depth and inner.kind in (Kind.STRUCT, Kind.UNION):
                bit = self._bit(inner, wanted, depth - 1)
                if bit is not None:
                    return member.offset + bit
        return None

    def slots(self, struct: str) -> dict[str, tuple[int, Prototype | None]]:
        """Each member that is a pointer to a function: offset in bytes, prototype (None: has no width)."""
        found = {}
        for member in self.btf.members(self.struct(struct)):
            pointer = self.btf.resolve(member.type)
            if pointer.kind is Kind.PTR and self.btf.resolve(pointer.target).kind is Kind.FUNC_PROTO:
                found[member.name] = (member.offset // 8, _or_none(self.prototype, pointer.target))
        return found

    def prototype(self, number: int) -> Prototype:
        """Of a FUNC_PROTO. Raises Unsupported for a type that has no width here."""
        found = self.btf.resolve(number)
        parameters = self.btf.parameters(found)
        if parameters and parameters[-1] == ("", 0):
            raise Unsupported(f"{self.file}: type {number} has a variable number of parameters")
        return Prototype(self.ctype(found.target), tuple(self.ctype(kind) for _, kind in parameters))

    def ctype(self, number: int) -> CType:
        """Raises Unsupported for structs and unions by value, floats and 128-bit integers."""
        found = self.btf.resolve(number)
        text = self._text(number, DEPTH, top=True)
        match found.kind:
            case Kind.VOID:
                return CType(text, 0, False)
            case Kind.PTR:
                return CType(text, 64, False, True)
            case Kind.INT if self.btf.integer(found)[0] <= 64:
                # BTF gives bool 8 bits, and char its sign on this architecture
                bits, signed = self.btf.integer(found)
                return CType(text, bits, signed)
            case Kind.ENUM | Kind.ENUM64 if 0 < found.target <= 8:
                return CType(text, 8 * found.target, found.flag)
        raise Unsupported(f"{self.file}: {text} has no width in registers here")

    def _text(self, number: int, depth: int, top: bool = False) -> str:
        if depth == 0:
            return "…"
        found = self.btf.type(number)
        match found.kind:
            case Kind.PTR:
                target = self._text(found.target, depth - 1)
                return target + ("*" if target.endswith("*") else "" if target.endswith(")") else " *")
            case Kind.CONST if not top:
                return f"const {self._text(found.target, depth - 1)}"
            case Kind.CONST | Kind.VOLATILE | Kind.RESTRICT | Kind.TYPE_TAG:
                return self._text(found.target, depth - 1, top)
            case Kind.STRUCT | Kind.UNION | Kind.ENUM | Kind.ENUM64:
                tag = "enum" if found.kind in (Kind.ENUM, Kind.ENUM64) else found.kind.name.lower()
                return f"{tag} {found.name or '{…}'}"
            case Kind.FWD:
                return f"{'union' if found.flag else 'struct'} {found.name}"
            case Kind.FUNC_PROTO:
                parameters = [self._text(kind, depth - 1, True) for _, kind in self.btf.parameters(found)]
                return f"{self._text(found.target, depth - 1, True)} (*)({', '.join(parameters)})"
            case Kind.ARRAY:
                return f"{self._text(self.btf.array(found)[0], depth - 1)} *"
        return _SPELLING.get(found.name, found.name)


def _or_none(read: Callable[[int], Prototype], number: int) -> Prototype | None:
    try:
        return read(number)
    except Unsupported:
        return None


@cache
def running_types() -> KernelTypes:
    """The running kernel's. InputError where it has none."""
    try:
        with RUNNING.open("rb") as stream:
            data = stream.read(LIMIT)
    except OSError as error:
        raise InputError("the running kernel", str(RUNNING), f"cannot be read: {error.strerror}") from None
    return KernelTypes(data, str(RUNNING))
