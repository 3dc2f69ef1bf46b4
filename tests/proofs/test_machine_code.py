"""Machine code against the program's own form: by hand, with planted faults; and on the running kernel."""

import struct
from collections.abc import Iterator
from ctypes import Array, addressof, c_char, memmove
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from rich.console import Console

from model.errors import InputError, ModelError, Unsupported
from model.isa.insn import Insn
from model.kernel.data import load_release
from model.loaders import assembly
from model.loaders.kernel_btf import KernelTypes
from model.loaders.kernel_image import KernelImage
from model.loaders.kernel_symbols import Symbols
from model.loaders.live import Command, Live, ProgramType, why_not
from model.loaders.live_jited import parts
from model.loaders.live_program import create_all, load
from model.native.jited import Part, What
from proofs.callees import Kernel, Role, Way
from proofs.commands.machine_code import files, opened, show, status
from proofs.machine_code import MachineCode, match, read
from proofs.report.jited import jited_report

pytest.importorskip("capstone")
RELEASE = load_release("6.12")
OBJECT = Path(__file__).resolve().parents[1] / "data" / "objects" / "for_each.o"

BASE, UPDATE, WALK, ARRAY_WALK, LOOKUP, KTIME, THUNK, RETURN = (0xFFFFFFFF81000000 + 0x100 * n for n in range(8))
OWN, SECOND, OTHER = 0xFFFFFFFFC0000000, 0xFFFFFFFFC0000100, 0xFFFFFFFFC0008000
NAMES = {
    BASE: "__bpf_call_base",
    UPDATE: "bpf_map_update_elem",
    WALK: "array_map_update_elem",
    ARRAY_WALK: "bpf_for_each_array_elem",
    LOOKUP: "__htab_map_lookup_elem",
    KTIME: "bpf_ktime_get_ns",
    THUNK: "__x86_indirect_thunk_rbp",
    RETURN: "__x86_return_thunk",
}
BODIES = {
    UPDATE: bytes.fromhex("48 8b 47 28 48 8b 40 68 ff e0"),  # mov rax, [rdi+0x28]; mov rax, [rax+0x68]; jmp rax
    WALK: bytes.fromhex("31 c0 c3"),
    ARRAY_WALK: bytes.fromhex("55 48 89 f5 e8 f7 02 00 00 5d c3"),  # push rbp; mov rbp, rsi; call THUNK; pop; ret
    LOOKUP: bytes.fromhex("31 c0 c3"),
    KTIME: bytes.fromhex("ff 15 00 01 00 00 c3"),  # call [rip+0x100]
}


class Types:
    """struct bpf_map has ops at 0x28; struct bpf_map_ops map_update_elem at 0x68."""

    def offset(self, struct: str, member: str) -> int | None:
        return {("bpf_map", "ops"): 0x28}.get((struct, member))

    def slots(self, struct: str) -> dict[str, tuple[int, None]]:
        return {"map_update_elem": (0x68, None)}


def text(address: int, size: int) -> bytes:
    return BODIES[address][:size] if address in BODIES else unreadable(address, size)


def unreadable(address: int, size: int) -> bytes:
    raise InputError("text", hex(address), "expected bytes")


def kernel(machine: str = "x86_64", *, hidden: frozenset[int] = frozenset(), readable: bool = True) -> Kernel:
    sizes = {address: len(code) for address, code in BODIES.items()}
    symbols = Symbols([(at, name) for at, name in NAMES.items() if at not in hidden], sizes)
    return Kernel(
        KernelImage("by hand", machine, symbols, cast(KernelTypes, Types()), text if readable else unreadable), RELEASE
    )


def near(opcode: int, at: int, to: int) -> bytes:
    """A call (0xe8) or jump (0xe9) at `at` (SDM: relative to the next instruction)."""
    return struct.pack("<Bi", opcode, to - at - 5)


def insn(target: int) -> Insn:
    return Insn(0x85, imm=target - BASE)


def image(*pieces: int | bytes, at: int = OWN) -> Part:
    """`pieces` are targets of calls, or bytes; a return ends it."""
    code = b"\x0f\x1f\x44\x00\x00\x55\x48\x89\xe5"  # nop5; push rbp; mov rbp, rsp
    for piece in pieces:
        code += piece if isinstance(piece, bytes) else near(0xE8, at + len(code), piece)
    code += b"\xc9"
    return Part(at, code + near(0xE9, at + len(code), RETURN))


EXIT = Insn(0x95)
CALLS = (UPDATE, WALK, ARRAY_WALK, LOOKUP, KTIME)
PROGRAM = (*(insn(target) for target in CALLS), Insn(0x85, src=1, off=1, imm=1), EXIT, EXIT)
PARTS = (image(*CALLS, SECOND), image(at=SECOND))


def test_every_call_is_named() -> None:
    found = match(PARTS, PROGRAM, kernel(), ("main", "visit"))
    assert (found.broken, found.unclear) == ((), ())
    assert [(site.slot, site.role, site.name, site.callee.helper if site.callee else "") for site in found.sites] == [
        (0, Role.STAYS, "bpf_map_update_elem", "map_update_elem"),
        (1, Role.DIRECT, "array_map_update_elem", "map_update_elem"),
        (2, Role.DIRECT, "bpf_for_each_array_elem", "for_each_map_elem"),
        (3, Role.LOOKUP, "__htab_map_lookup_elem", "map_lookup_elem"),
        (4, Role.HELPER, "bpf_ktime_get_ns", "ktime_get_ns"),
        (5, Role.OWN, "visit", ""),
    ]


def test_what_callees_do_is_listed() -> None:
    found = match(PARTS, PROGRAM, kernel())
    inside = [[(one.place, one.way, one.through) for one in site.callee.inside] for site in found.sites if site.callee]
    assert inside == [
        [("bpf_map_update_elem+0x8", Way.DISPATCH, "map->ops->map_update_elem")],
        [],
        [("bpf_for_each_array_elem+0x4", Way.CALLBACK, "argument 2")],
        [],
        [("bpf_ktime_get_ns+0x0", Way.OTHER, "call qword ptr [rip + 0x100]")],
    ]


def test_a_load_that_is_no_dispatch(monkeypatch: pytest.MonkeyPatch) -> None:
    """From another member than ops, and from a slot that there is not: told as what it is, and the dispatch missed."""
    for body, through in (
        ("48 8b 47 30 48 8b 40 68 ff e0", "[[argument 1 + 0x30] + 0x68]"),
        ("48 8b 47 28 48 8b 40 60 ff e0", "[[argument 1 + 0x28] + 0x60]"),
    ):
        monkeypatch.setitem(BODIES, UPDATE, bytes.fromhex(body))
        (site,) = match((image(UPDATE),), (insn(UPDATE), EXIT), kernel()).sites
        assert site.callee is not None
        assert [(one.way, one.through) for one in site.callee.inside] == [(Way.OTHER, through)]
        assert site.callee.unread == ("no dispatch through map->ops was found in bpf_map_update_elem",)


def test_kfuncs() -> None:
    """Their immediate is a distance like a helper's, 12 (bpf_tail_call's number) too."""
    program = (Insn(0x85, src=2, imm=WALK - BASE), Insn(0x85, src=2, imm=12), EXIT)
    found = match((image(WALK, BASE + 12),), program, kernel())
    assert [site.role for site in found.sites] == [Role.KFUNC, Role.KFUNC]
    assert (found.broken, found.unclear) == ((), ("1: what is called has no symbol: 0xffffffff8100000c",))


def broken(parts_: tuple[Part, ...], program: tuple[Insn, ...] = PROGRAM) -> tuple[str, ...]:
    return match(parts_, program, kernel()).broken


def test_planted_faults() -> None:
    """Another target, a call through a register or a thunk, a jump out, a function of another number."""
    rest = PARTS[1:]
    assert broken((image(KTIME, *CALLS[1:], SECOND), *rest)) == (
        "0: expected a call of bpf_map_update_elem, found a call of bpf_ktime_get_ns+0x0",
    )
    assert broken((image(*CALLS[:2], b"\xff\xd5", *CALLS[3:], SECOND), *rest)) == (
        "2: expected a call of bpf_for_each_array_elem, found indirect call by call rbp",
    )
    assert broken((image(*CALLS[:4], THUNK, SECOND), *rest)) == (
        "4: expected a call of bpf_ktime_get_ns, found indirect call by __x86_indirect_thunk_rbp",
    )
    assert broken((image(*CALLS, OWN), *rest)) == ("5: expected a call of function 1, found a call of function 0+0x0",)
    assert broken(PARTS, (*PROGRAM[:5], replace(PROGRAM[5], imm=2), EXIT, EXIT)) == (
        "5: expected a call of no function, found a call of function 1+0x0",
    )
    assert status(match((image(*CALLS, OWN), *rest), PROGRAM, kernel())) == 1
    leaves = Part(SECOND, near(0xE9, SECOND, OTHER))
    assert broken((PARTS[0], leaves)) == ("function 1+0x0: jmp 0xffffffffc0008000: a jump out of the program",)


def test_counts_that_differ_are_not_matched() -> None:
    """An indirect branch more breaks the claim all the same; a call too few leaves it open."""
    found = match((image(*CALLS[1:], SECOND), PARTS[1]), PROGRAM, kernel())
    assert (found.sites, found.broken, found.unclear) == ((), (), ("6 calls in the program, 5 in its machine code",))
    found = match((image(*CALLS, SECOND, b"\xff\xd0"), PARTS[1]), PROGRAM, kernel())
    assert found.broken == ("function 0+0x27: indirect call by call rax",)
    found = match((PARTS[0], Part(SECOND, b"\x06")), PROGRAM, kernel())
    assert found.unclear == ("function 1+0x0: not read: 06",)


def test_tail_calls_are_told_apart() -> None:
    """By hand as 6.12 has them: patched in place, and through rcx; neither where the program has a helper call."""
    patched = bytes.fromhex(
        "48 8b 85 e8 ff ff ff 48 83 38 21 73 17 e9 12 00 00 00 48 83 00 01 58 58 48 81 c4 08 00 00 00 0f 1f 44 00 00"
    )
    indirect = bytes.fromhex("48 8b 8c d6 00 01 00 00 48 85 c9 74 0b 48 8b 49 30 48 83 c1 0f ff e1 cc")
    tail = Insn(0x85, imm=12)
    found = match((image(patched, indirect),), (tail, tail, EXIT), kernel())
    assert [site.event.what for site in found.sites] == [What.TAIL_PATCHED, What.TAIL_INDIRECT]
    assert (found.broken, found.unclear) == ((), ())
    assert broken((image(patched, indirect),), (tail, insn(KTIME), EXIT)) == (
        "1: expected a call of bpf_ktime_get_ns, found tail call, indirect by jmp rcx",
    )
    assert broken((image(b"\xff\xe1\xcc"),), (tail, EXIT)) == (
        "0: expected a tail call, found indirect jump by jmp rcx",
    )


def test_goto_through_a_register() -> None:
    """BPF_JA | BPF_X (7.3): the program's own indirect jump, which is not removed and not hidden."""
    goto = Insn(0x0D)
    found = match((image(b"\xff\xe7\xcc"),), (goto, EXIT), kernel())
    assert [site.role for site in found.sites] == [Role.GOTO]
    assert found.broken == ()
    assert "no indirect call and no retpoline call" in shown(found)
    assert broken((image(KTIME),), (goto, EXIT))[0].startswith("0: expected an indirect jump, found a call of ")


def test_what_the_jit_calls_itself() -> None:
    own = KernelImage("by hand", "x86_64", Symbols([*NAMES.items(), (OTHER, "clear_bhb_loop")]), None, text)
    found = match((image(OTHER),), (EXIT,), Kernel(own, RELEASE))
    assert (found.sites, found.broken, found.unclear) == ((), (), ())


def test_what_is_not_known_is_told() -> None:
    found = match((image(WALK),), (insn(WALK), EXIT), kernel(hidden=frozenset({WALK})))
    assert (found.broken, found.unclear) == ((), ("0: what is called has no symbol: 0xffffffff81000200",))
    assert status(found) == 3
    found = match((image(ARRAY_WALK),), (insn(ARRAY_WALK), EXIT), kernel(readable=False))
    assert (found.broken, found.unclear, status(found)) == ((), (), 0)
    assert "not known: text: 0xffffffff81000300: expected bytes" in shown(found)
    assert "1 not known" in shown(found)


def test_other_kernels() -> None:
    with pytest.raises(Unsupported, match="machine code of arm64"):
        kernel("arm64")
    with pytest.raises(Unsupported, match="__bpf_call_base"):
        kernel(hidden=frozenset({BASE}))


def test_lengths_that_do_not_add_up() -> None:
    assert parts(b"abc", (16, 32), (1, 2)) == ((16, b"a"), (32, b"bc"))
    for sizes in ((1, 1), (1, 3), (3,), (3, 0)):
        with pytest.raises(Unsupported):
            parts(b"abc", (16, 32), sizes)


def shown(found: MachineCode) -> str:
    out = Console(width=160, force_terminal=False, no_color=True)
    with out.capture() as captured:
        jited_report(out, found, kernel())
    return captured.get()


def test_report() -> None:
    lines = shown(match(PARTS, PROGRAM, kernel())).splitlines()
    assert lines[0].startswith("slot  helper")
    assert lines[1].split("  ")[0] == "0"
    assert "+0x8 jmp rax: dispatch (map->ops->map_update_elem)" in lines[1]
    assert "+0x4 __x86_indirect_thunk_rbp: callback (argument 2), once an element" in lines[3]
    assert lines[7:] == [
        "machine code: 60 bytes in 2 functions, 6 direct calls; "
        "in the program's own code no indirect call or jump, no retpoline",
        "left in what it calls, a site each: 1 dispatch through map->ops, 1 callback through a pointer, "
        "1 other indirect branch",
        "the kernel does not show its jump labels: ways behind a label that is off here were not followed",
    ]
    assert "broken: 2: expected a call of" in shown(
        match((image(*CALLS[:2], b"\xff\xd5", *CALLS[3:], SECOND), PARTS[1]), PROGRAM, kernel())
    )


# The running kernel


@pytest.fixture(scope="module")
def running() -> Iterator[Kernel]:
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    try:
        with opened(load_release("6.18")) as found:
            yield found
    except ModelError as error:
        pytest.skip(str(error))


TYPES = {name: row.number for name, row in RELEASE.map_types.items()}
WALKS = """
.map one array 4 8 4
.map other array 4 8 4
r6 = *(u32 *)(r1 +12)
r1 = map[one]
if r6 != 0x7eadbee goto same
r1 = map[{again}]
same:
r2 = subprog visit
r3 = 0
r4 = 0
call for_each_map_elem
r0 = 0
exit
.func visit
r0 = 0
exit
"""
JUMPS = """
.map jumps prog_array 4 4 4
r6 = r1
r7 = *(u32 *)(r1 +12)
r7 &= 3
r2 = map[jumps]
r3 = 1
call tail_call
r1 = r6
r2 = map[jumps]
r3 = 0
call tail_call
r1 = r6
r2 = map[jumps]
r3 = r7
call tail_call
r0 = 0
exit
"""


def loaded(live: Live, source: str, kernel_: Kernel) -> tuple[MachineCode, list[int], int]:
    program = assembly.load(source, "case", RELEASE.helper_ids).programs[0]
    fds = create_all(live, program.maps, TYPES)
    if "prog_array" in source:
        callee = live.load((Insn(0xB7), EXIT), ProgramType.SCHED_CLS)
        assert live.update(fds[0], struct.pack("=I", 1), struct.pack("=I", callee)) == 0
    fd = load(live, program, ProgramType.SCHED_CLS, fds)
    try:
        return read(live, fd, live.xlated(fd), kernel_, [part.name for part in program.subprograms]), fds, fd
    except Unsupported as hole:
        pytest.skip(str(hole))


@pytest.mark.live
def test_direct_site(running: Kernel) -> None:
    """No thunk in the program's own code; the callback is called through a pointer, and shown as that."""
    with Live() as live:
        found, _, _ = loaded(live, WALKS.format(again="one"), running)
    (site,) = found.sites
    assert (found.broken, found.unclear) == ((), ())
    assert (site.role, site.name) == (Role.DIRECT, "bpf_for_each_array_elem")
    assert site.callee is not None
    assert [(one.way, one.through) for one in site.callee.inside] == [(Way.CALLBACK, "argument 2")]


@pytest.mark.live
def test_poisoned_site(running: Kernel) -> None:
    with Live() as live:
        found, _, _ = loaded(live, WALKS.format(again="other"), running)
    (site,) = found.sites
    assert (found.broken, found.unclear) == ((), ())
    assert (site.role, site.name) == (Role.STAYS, "bpf_for_each_map_elem")
    assert site.callee is not None
    (inside,) = site.callee.inside
    assert (inside.way, inside.through) == (Way.DISPATCH, "map->ops->map_for_each_callback")


@pytest.mark.live
def test_tail_calls(running: Kernel) -> None:
    with Live() as live:
        found, _, _ = loaded(live, JUMPS, running)
    assert (found.broken, found.unclear) == ((), ())
    events = [site.event for site in found.sites]
    assert [event.what for event in events] == [What.TAIL_PATCHED, What.TAIL_PATCHED, What.TAIL_INDIRECT]
    assert [event.target is None for event in events] == [False, True, True]


@pytest.mark.live
def test_a_fault_in_what_the_kernel_gives(running: Kernel) -> None:
    """The same image with its call turned into call rax (and three no-operations) is refuted."""
    with Live() as live:
        found, _, fd = loaded(live, WALKS.format(again="one"), running)
        insns = live.xlated(fd)
    (event,) = found.events
    first = found.parts[0]
    at = event.address - first.address
    code = first.code[:at] + b"\xff\xd0\x90\x90\x90" + first.code[at + 5 :]
    again = match((replace(first, code=code), *found.parts[1:]), insns, running)
    assert [line.partition(", found ")[2] for line in again.broken] == ["indirect call by call rax"]


@pytest.mark.live
def test_status(running: Kernel) -> None:
    out = Console(width=160, force_terminal=False, no_color=True)
    with Live() as live, out.capture() as captured:
        fd = live.load((Insn(0xB7), EXIT), ProgramType.SCHED_CLS)
        assert show(out, live, fd, live.xlated(fd), running) == 0
        assert show(out, live, fd, (Insn(0x85, imm=1), EXIT), running) == 3
    assert "not told: 1 call in the program, 0 in its machine code" in captured.get()


@pytest.mark.live
def test_files(running: Kernel, tmp_path: Path) -> None:
    """A generated case's form, an object, a program that no kernel takes, and a dump."""
    case, bad, dump = (tmp_path / name for name in ("case.asm", "bad.asm", "dump.txt"))
    case.write_text("; input 0x0\n.map io array 4 64 1\n" + WALKS.format(again="one"))
    bad.write_text("r0 = r5\nexit\n")
    dump.write_text("0: (b7) r0 = 0\n1: (95) exit\n")
    out = Console(width=160, force_terminal=False, no_color=True)
    with out.capture() as captured:
        assert files(out, [str(case), str(OBJECT)], running.release, "sched_cls") == 0
        assert files(out, [str(case), str(bad)], running.release, "sched_cls") == 3
    text_ = captured.get()
    assert "for_each_map_elem  direct" in text_
    assert f"{bad}: main\nnot loaded: load the program: EACCES" in text_
    with pytest.raises(InputError, match="expected programs as they are loaded"):
        files(out, [str(dump)], running.release)


class Hiding(Live):
    """A kernel whose answer with `buffers` buffers has other bytes at `at`."""

    def __init__(self, buffers: int, at: int, value: bytes) -> None:
        super().__init__()
        self.buffers, self.at, self.value = buffers, at, value

    def call(self, command: Command, attributes: bytes, *buffers: Array[c_char]) -> tuple[int, bytes]:
        found = super().call(command, attributes, *buffers)
        if command is Command.OBJ_GET_INFO_BY_FD and len(buffers) == self.buffers:
            memmove(addressof(buffers[0]) + self.at, self.value, len(self.value))
        return found


@pytest.mark.live
@pytest.mark.parametrize(
    ("buffers", "at", "value", "why"),
    [
        (1, 16, bytes(4), "not JITed"),
        (1, 16, b"\xff" * 4, "4294967295 bytes of machine code"),
        (1, 108, b"\2", "in 1 functions with 2 lengths"),
        (4, 24, bytes(8), "does not show machine code here"),
        (4, 16, b"\1", "changed while it was read"),
    ],
)
def test_what_the_kernel_does_not_show(running: Kernel, buffers: int, at: int, value: bytes, why: str) -> None:
    """struct bpf_prog_info: jited_prog_len, nr_jited_func_lens, jited_prog_insns."""
    with Hiding(buffers, at, value) as live:
        fd = live.load((Insn(0xB7), EXIT), ProgramType.SCHED_CLS)
        with pytest.raises(Unsupported, match=why):
            read(live, fd, (), running)
