"""The kernel functions that a program's machine code calls: what they are, and what they do indirectly themselves.

Only a function's own body is read; what it calls in turn is not.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

from model.errors import ModelError, Unsupported
from model.kernel.release import Release
from model.loaders.kernel_image import KernelImage
from model.native.flow import LIMIT
from model.native.origin_state import Argument, Loaded, Origin, Stack
from model.native.origins import Body, body
from model.native.thunks import thunk
from model.native.x86_decode import Decoder
from proofs.abi_check import JUMP_ROW, MACHINES
from proofs.symbols import OPERATION, symbols

BASE = "__bpf_call_base"


class Role(Enum):
    """What a site is in the kernel's form of the program."""

    OWN = "own function"
    DIRECT = "direct"  # a map's operation, in place of the helper
    LOOKUP = "inlined"  # the direct call that an inlined lookup keeps
    STAYS = "stays"  # the helper, which dispatches through map->ops
    HELPER = "helper"  # any other
    KFUNC = "kfunc"
    TAIL_CALL = "tail call"
    GOTO = "goto register"  # the program's own indirect jump, through an instruction array


class Way(Enum):
    """What an indirect branch in a callee is."""

    DISPATCH = "dispatch"
    CALLBACK = "callback"  # to what an argument points to
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Inside:
    """An indirect branch in a callee's own body. `place` is relative to a symbol, `through` what its target was."""

    place: str
    via: str
    way: Way
    through: str


@dataclass(frozen=True, slots=True)
class Callee:
    """`helper` is whose calls lead here after the rewrite, "" where the release does not tell. One that is not `named`
    has no symbol, and its address for a name; `unread` tells what of the body is not known.
    """

    name: str
    role: Role
    helper: str
    inside: tuple[Inside, ...]
    unread: tuple[str, ...]
    named: bool = True


class Kernel:
    """The kernel that a program was loaded into, and the release that tells what its functions are."""

    def __init__(self, image: KernelImage, release: Release) -> None:
        """Unsupported, by name, for machines whose code is not read; InputError where capstone is not installed."""
        if image.machine not in MACHINES:
            raise Unsupported(f"machine code of {image.machine} (there is {', '.join(MACHINES)})")
        places = image.symbols.places(BASE)
        if len(places) != 1:
            raise Unsupported(f"calls without the address of {BASE}: {image.file} has it {len(places)} times")
        self.image, self.release, self.base = image, release, places[0]
        self.decode = Decoder().step
        self._known: dict[int, Callee] = {}

    def names(self, address: int) -> tuple[str, ...]:
        return self.image.names(address)

    def place(self, address: int) -> str:
        around = self.image.around(address)
        near = around is not None and address - around[0] < LIMIT
        return f"{around[1]}+{address - around[0]:#x}" if around and near else f"{address:#x}"

    def callee(self, address: int) -> Callee:
        """Each function is read once."""
        if address not in self._known:
            self._known[address] = self._callee(address)
        return self._known[address]

    def _callee(self, address: int) -> Callee:
        names = self.names(address)
        known = [name for name in names if name in self._symbols] or list(names)
        name = known[0] if known else f"{address:#x}"
        role, helper = self._role(name)
        if not names:
            return Callee(name, role, "", (), (), named=False)
        found = body(self.image, self.decode, address, self.labels)
        inside = self._inside(found)
        unread = list(found.problems)
        if role is Role.STAYS and not unread and not any(one.way is Way.DISPATCH for one in inside):
            unread.append(f"no dispatch through map->ops was found in {name}")
        return Callee(name, role, helper, inside, tuple(unread))

    @cached_property
    def _symbols(self) -> Mapping[str, str]:
        return symbols(self.release)

    @cached_property
    def labels(self) -> Mapping[int, int]:
        """Where jump labels lead, by address; empty where the kernel does not show them."""
        try:
            return dict(self.image.pairs("__jump_table", JUMP_ROW))
        except ModelError:
            return {}

    @cached_property
    def _operations(self) -> Mapping[str, str]:
        """Helper by operation."""
        release = self.release
        pairs = [(row.helper, row.slot) for row in release.rewrites]
        return {
            table.slots[slot].partition("@")[0]: helper
            for helper, slot in pairs
            for table in release.ops.values()
            if slot in table.slots
        }

    def _role(self, name: str) -> tuple[Role, str]:
        what = self._symbols.get(name)
        if name in self._operations:
            return Role.DIRECT, self._operations[name]
        if what == OPERATION:
            return Role.LOOKUP, "map_lookup_elem"
        if what is not None:
            return (Role.STAYS if what in self.release.helpers else Role.HELPER), what
        return Role.HELPER, ""

    def _inside(self, found: Body) -> tuple[Inside, ...]:
        return tuple(
            Inside(self.place(one.address), one.via, *self._way(one.origin, one.via)) for one in found.indirect
        )

    @cached_property
    def _slots(self) -> tuple[int | None, Mapping[int, str]]:
        """The offset of `ops` in struct bpf_map, and the members of struct bpf_map_ops by offset."""
        types = self.image.types
        if types is None:
            return None, {}
        return types.offset("bpf_map", "ops"), {at: name for name, (at, _) in types.slots("bpf_map_ops").items()}

    def _way(self, origin: Origin, via: str) -> tuple[Way, str]:
        ops, slots = self._slots
        match origin:
            case Loaded(Loaded(_, first), second) if first == ops and second in slots:
                return Way.DISPATCH, f"map->ops->{slots[second]}"
            case Argument(index):
                return Way.CALLBACK, f"argument {index + 1}"
        return Way.OTHER, described(origin) or ("" if thunk((via,)) else via)


def described(origin: Origin) -> str:
    """ "" where nothing is known."""
    match origin:
        case Argument(index):
            return f"argument {index + 1}"
        case Loaded(base, disp):
            return f"[{described(base)} + {disp:#x}]"
        case Stack():
            return "the stack"
    return ""
