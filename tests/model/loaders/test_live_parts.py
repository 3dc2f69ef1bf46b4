"""What loading an object into a kernel needs, without a kernel: sections, BTF, relocations, constants, places."""

import re
import struct
from dataclasses import replace
from pathlib import Path

import pytest

from model.errors import InputError, Unsupported
from model.isa.insn import Insn
from model.loaders import assembly, elf
from model.loaders.btf import Btf, Kind
from model.loaders.live import Refused
from model.loaders.live_constants import settled
from model.loaders.live_core import POISON, relocated
from model.loaders.live_load import Load, packed
from model.loaders.live_object import read_error
from model.loaders.live_sections import FRAGS, SECTIONS, SLEEPABLE, section_of
from model.loaders.live_types import core_records, for_kernel, function_records
from model.loaders.live_xlated import line_records, places_of
from model.program import Map, MapRef, Program, Subprogram

OBJECTS = Path(__file__).resolve().parents[2] / "data" / "objects"


def parts(name: str) -> elf.Parts:
    return elf.parts((OBJECTS / name).read_bytes(), name)


@pytest.mark.parametrize(
    ("name", "type", "attach", "flags", "rest"),
    [
        ("xdp", "XDP", "XDP", 0, ""),
        ("xdp.frags/devmap", "XDP", "XDP_DEVMAP", FRAGS, ""),
        ("tc", "SCHED_CLS", "", 0, ""),
        ("?tc/ingress", "SCHED_CLS", "TCX_INGRESS", 0, ""),
        ("classifier/other", "SCHED_CLS", "", 0, "other"),
        ("kprobe/do_unlinkat+0x4", "KPROBE", "", 0, "do_unlinkat+0x4"),
        ("tracepoint/syscalls/sys_enter_open", "TRACEPOINT", "", 0, "syscalls/sys_enter_open"),
        ("fentry.s/vfs_read", "TRACING", "TRACE_FENTRY", SLEEPABLE, "vfs_read"),
        ("iter/task", "TRACING", "TRACE_ITER", 0, "task"),
        ("cgroup/sendmsg6", "CGROUP_SOCK_ADDR", "CGROUP_UDP6_SENDMSG", 0, ""),
        ("cgroup/connect_unix", "CGROUP_SOCK_ADDR", "CGROUP_UNIX_CONNECT", 0, ""),
        ("sk_skb/stream_verdict/x", "SK_SKB", "SK_SKB_STREAM_VERDICT", 0, "x"),
        ("uprobe.multi.s//bin/true:main", "KPROBE", "TRACE_UPROBE_MULTI", SLEEPABLE, "/bin/true:main"),
        ("syscall", "SYSCALL", "", SLEEPABLE, ""),
        ("", "SCHED_CLS", "", 0, ""),
    ],
)
def test_a_section_tells_type_and_attach_type(name: str, type: str, attach: str, flags: int, rest: str) -> None:
    found, behind = section_of(name)
    assert (found.type, found.attach, found.flags, behind) == (type, attach, flags, rest)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        (".text", "tells no type"),
        ("xdpx", "tells no type"),
        ("struct_ops/init", "struct_ops map"),
        ("freplace/main", "replaces a function"),
    ],
)
def test_what_a_section_does_not_tell_is_said(name: str, told: str) -> None:
    with pytest.raises(Unsupported, match=told):
        section_of(name)


def test_sections_are_told_once() -> None:
    assert len({section.name for section in SECTIONS}) == len(SECTIONS)
    assert section_of("tp_btf/sched_switch")[0].typedef
    assert section_of("lsm.s/file_open")[0].btf == "bpf_lsm_"


def test_data_sections_get_sizes_and_offsets() -> None:
    """global_data.o, as its compiler left it, has sections of size 0; llvm-readelf -S tells the sizes."""
    found = parts("global_data.o")
    assert found.btf is not None
    sizes = {section.name: section.size for section in found.elf.sections}
    fixed = Btf(for_kernel(found.elf, found.btf), "fixed")
    seen = {name: fixed.type(number) for name, number in fixed.datasecs.items()}
    assert {name for name in seen if name in (".data", ".bss", ".rodata")}
    for name, one in seen.items():
        assert one.target == sizes[name], name
        rows = fixed.variables(one)
        assert [row.offset for row in rows] == sorted(row.offset for row in rows)
        assert all(row.offset + row.size <= one.target for row in rows)


def test_an_offset_that_btf_cannot_hold_is_refused() -> None:
    found = parts("global_data.o")
    assert found.btf is not None
    far = tuple(replace(one, value=1 << 40) if one.type == 1 else one for one in found.elf.symbols)
    with pytest.raises(InputError, match="expected less than 4 GiB"):
        for_kernel(replace(found.elf, symbols=far), found.btf)


def test_what_is_outside_of_an_object_is_a_variable_of_four_bytes() -> None:
    found = parts("externs.o")
    assert found.btf is not None
    fixed = Btf(for_kernel(found.elf, found.btf), "fixed")
    section = fixed.type(fixed.datasecs[".ksyms"])
    rows = fixed.variables(section)
    assert [(row.offset, row.size) for row in rows] == [(4 * number, 4) for number in range(len(rows))]
    assert section.target == 4 * len(rows)
    assert {fixed.type(row.type).kind for row in rows} == {Kind.VAR}
    functions = [fixed.type(number) for number in range(1, len(fixed)) if fixed.type(number).kind is Kind.FUNC]
    assert {fixed.linkage(one) for one in functions} <= {0, 1}


def test_each_function_of_a_program_has_a_record() -> None:
    found = parts("for_each.o")
    assert found.btf is not None
    for number, program in enumerate(found.found.programs):
        records = function_records(found, found.places[number])
        assert records is not None
        rows = list(struct.iter_unpack("=II", records))
        assert [at for at, _ in rows] == [part.start for part in program.subprograms]
        assert [found.btf.type(kind).name for _, kind in rows] == [part.name for part in program.subprograms]
    assert function_records(parts("gcc.o"), parts("gcc.o").places[0]) is None  # it has no BTF


def test_relocations_move_with_their_function() -> None:
    found = parts("relocated.o")
    for number, program in enumerate(found.found.programs):
        offsets = [row[0] // 8 for row in struct.iter_unpack("=IIII", core_records(found, found.places[number]))]
        assert offsets == sorted(offsets)
        assert set(offsets) == set(program.relocated)


LOG = """\
libbpf: prog '': relo #0: matching candidate #0 <byte_off> [7] struct task_struct.pid (0:1 @ offset 1256)
prog '': relo #0: patched insn #0 (LDX/ST/STX) off 8 -> 1256
prog '': relo #1: patched insn #1 (ALU/ALU64) imm 0 -> -1
prog '': relo #2: patched insn #2 (LDX/ST/STX) off 4 -> 6
prog '': relo #2: patched insn #2 (LDX/ST/STX) mem_sz 4 -> 8
prog '': relo #3: patched insn #3 (LDIMM64) imm64 1 -> 18446744071562067968
prog '': relo #4: substituting insn #5 w/ invalid insn
prog '': relo #5: patched insn #99 (ALU/ALU64) imm 0 -> 1
"""


def test_the_kernels_log_tells_the_relocated_program() -> None:
    before = (Insn(0x61, 1, 2, 8), Insn(0xB7, 1), Insn(0x61, 1, 2, 4), Insn(0x18, 1, imm=1), Insn(0), Insn(0xB7, 3))
    assert relocated(before, LOG) == (
        Insn(0x61, 1, 2, 1256),
        Insn(0xB7, 1, imm=-1),
        Insn(0x79, 1, 2, 6),
        Insn(0x18, 1, imm=-2147483648),
        Insn(0, imm=-1),
        POISON,
    )
    assert relocated(before, "processed 3 insns") == before


def insns(*texts: str) -> tuple[Insn, ...]:
    """In the kernel's syntax: `r1 = 0x4` is a 64-bit load, two slots."""
    return assembly.load("\n".join(texts), "text", {"ktime_get_ns": 5}).programs[0].insns


def program(*texts: str) -> Program:
    """`r1 = 0x…` stands for the address of that byte of map 0's value."""
    made = insns(*texts)
    refs = {slot: MapRef(0, insn.imm) for slot, insn in enumerate(made) if insn.opcode == 0x18}
    return Program("p", made, (Map(".rodata", "array"),), (Subprogram("p", 0, len(made)),), refs)


def test_a_load_of_a_frozen_value_is_a_move_of_it() -> None:
    given = program("r1 = 0x4", "r2 = *(u8 *)(r1 +1)", "r3 = *(u32 *)(r1 +0)", "r4 = *(s8 *)(r1 +1)", "exit")
    found = settled(given, {0: bytes.fromhex("00000000 01ff0080".replace(" ", ""))})
    assert found.insns[2:] == insns("r2 = 255", "w3 = -2147418367", "r4 = -1", "exit")


@pytest.mark.parametrize(
    "texts",
    [
        ("r1 = 0x0", "call ktime_get_ns", "r2 = *(u8 *)(r1 +0)", "exit"),  # r1 is scratch behind a call
        ("r1 = 0x0", "r1 = r9", "r2 = *(u8 *)(r1 +0)", "exit"),
        ("r1 = 0x0", "if r3 == 0 goto pc+0", "r2 = *(u8 *)(r1 +0)", "exit"),  # another way leads here
        ("r1 = 0x0", "r1 = *(u64 *)(r10 -8)", "r2 = *(u8 *)(r1 +0)", "exit"),
        ("r1 = 0x7", "r2 = *(u16 *)(r1 +0)", "exit"),  # beyond the value
        ("r1 = 0x0", "r2 = *(u64 *)(r1 +0)", "exit"),  # more than a move holds
    ],
)
def test_any_other_load_stays(texts: tuple[str, ...]) -> None:
    given = program(*texts)
    assert settled(given, {0: bytes.fromhex("ff00ff00ff00ff00")}).insns == given.insns
    assert settled(given, {}).insns == given.insns


def test_the_places_of_instructions_are_read_from_their_records() -> None:
    """Five instructions in six slots; the second was removed, the last is three now."""
    before = insns("r1 = 1", "r2 = 2", "r3 = 0x5", "r0 = 0", "exit")
    records = list(struct.iter_unpack("=IIII", line_records(before)))
    assert [(row[0], row[3]) for row in records] == [(0, 0), (1, 1), (2, 2), (4, 4), (5, 5)]
    moved, removed = places_of(before, 7, {0: 0, 2: 1, 4: 3, 5: 4})
    assert moved == (0, 1, 1, 2, 3, 4, 7)
    assert removed == {1}


def test_what_is_not_asked_is_not_in_the_attributes() -> None:
    """`core_relos` (5.17) lengthens the attributes: older kernels refuse what they do not know, unless it is 0."""
    plain, _, _ = packed(Load((Insn(0x95),), 1), "little", 1)
    core, _, _ = packed(Load((Insn(0x95),), 1, core=bytes(32)), "little", 1)
    assert len(plain) == 120
    assert len(core) == 144
    assert struct.unpack_from("=I", core, 116) == (2,)
    assert struct.unpack_from("=I", core, 136) == (16,)


def test_a_refusal_is_one_line_the_last_that_the_verifier_wrote() -> None:
    error = Refused("load the program", 22, "0: (95) exit\nR0 !read_ok\nprocessed 1 insns (limit 1000000)\n")
    assert read_error(error) == "load the program: EINVAL (Invalid argument): R0 !read_ok"
    assert not re.search("\n", read_error(Refused("create a map of type 7", 22)))
