"""A program of the loaders put into the running kernel: its maps, their descriptors in its instructions, itself."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from model.errors import Unsupported
from model.isa.insn import Insn
from model.loaders.live import Live, ProgramType
from model.program import Map, MapRef, Program


def create(live: Live, wanted: Map, types: Mapping[str, int]) -> int:
    """The descriptor of a new map, its template first; `types` are the numbers of enum bpf_map_type by name.

    Raises `Unsupported` for a map whose type or sizes are not known, `Refused` where the kernel says no.
    """
    number = wanted.type_number if wanted.type_number is not None else types.get(str(wanted.type))
    if number is None:
        raise Unsupported(f"map {wanted.name}: no number is known of its type {wanted.type}")
    if wanted.key_size is None or wanted.value_size is None or wanted.max_entries is None:
        raise Unsupported(f"map {wanted.name}: its sizes are not known")
    inner = create(live, wanted.inner, types) if wanted.inner is not None else 0
    sizes = (wanted.key_size, wanted.value_size, wanted.max_entries)
    return live.create_map(number, *sizes, flags=wanted.flags or 0, inner=inner)


def create_all(live: Live, maps: Iterable[Map], types: Mapping[str, int]) -> list[int]:
    """One new map each, as `create` makes it; those of one name that is a template of another are two."""
    return [create(live, wanted, types) for wanted in maps]


def with_maps(program: Program, fds: Sequence[int]) -> tuple[Insn, ...]:
    """The instructions with a descriptor (by the map's number) where the program names a map.

    Raises `Unsupported` where an instruction names anything else outside of the program.
    """
    insns = list(program.insns)
    for slot, ref in program.refs.items():
        if not isinstance(ref, MapRef):
            raise Unsupported(f"slot {slot} of {program.name} names {ref.name}, which only a loader can resolve")
        insns[slot] = replace(insns[slot], imm=fds[ref.map])
    return tuple(insns)


def load(live: Live, program: Program, kind: ProgramType, fds: Sequence[int]) -> int:
    """The descriptor of the loaded program. Raises as `with_maps` and `Live.load` do."""
    functions = {part.start: part.name for part in program.subprograms}
    return live.load(with_maps(program, fds), kind, functions=functions)
