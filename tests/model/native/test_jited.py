"""Machine code as arch/x86/net/bpf_jit_comp.c emits it, assembled by hand (Intel SDM, volume 2): what is told of it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model.native.jited import Part, What, events

pytest.importorskip("capstone")
from model.native.x86_decode import Decoder

BASE = 0xFFFFFFFFC0000000
DECODER = Decoder()
HELPER, THUNK, ITS, RETURN, PROGRAM = (BASE + at for at in (0x1000, 0x2000, 0x2100, 0x3000, 0x4000))
NAMES = {
    HELPER: ("bpf_map_update_elem",),
    THUNK: ("__pi___x86_indirect_thunk_rcx", "__x86_indirect_thunk_rcx"),
    ITS: ("__x86_indirect_its_thunk_rcx",),
    RETURN: ("its_return_thunk",),
}


def told(code: bytes) -> list[tuple[int, What, int | None, str]]:
    found = events(Part(BASE, code), DECODER.step, lambda address: NAMES.get(address, ()))
    return [(event.address - BASE, event.what, event.target, event.via) for event in found]


def code(text: str) -> bytes:
    return bytes.fromhex(text)


# nop5; xor eax, eax; push rbp; mov rbp, rsp; call helper; xor eax, eax; leave; (ret | jmp return thunk)
PROLOGUE = "0f 1f 44 00 00 48 31 c0 55 48 89 e5"


@pytest.mark.parametrize("leave", ["c3", "c3 cc", "e9 e6 2f 00 00"])  # 0x3000 - (0x15 + 5)
def test_direct_call(leave: str) -> None:
    text = f"{PROLOGUE} e8 ef 0f 00 00 31 c0 c9 90 {leave}"  # 0x1000 - (0xc + 5)
    assert told(code(text)) == [(0xC, What.CALL, HELPER, "")]


@pytest.mark.parametrize(
    ("text", "what", "via"),
    [
        ("ff d0", What.INDIRECT_CALL, "call rax"),
        ("41 ff d3", What.INDIRECT_CALL, "call r11"),
        ("ff 50 68", What.INDIRECT_CALL, "call qword ptr [rax + 0x68]"),
        ("e8 fb 1f 00 00", What.INDIRECT_CALL, "__x86_indirect_thunk_rcx"),
        ("ff e0 cc", What.INDIRECT_JUMP, "jmp rax"),
        ("0f ae e8 ff e1", What.INDIRECT_JUMP, "jmp rcx"),
        ("41 ff e5", What.INDIRECT_JUMP, "jmp r13"),
        ("ff 60 68", What.INDIRECT_JUMP, "jmp qword ptr [rax + 0x68]"),
        ("e9 fb 1f 00 00", What.INDIRECT_JUMP, "__x86_indirect_thunk_rcx"),
        ("e9 fb 20 00 00", What.INDIRECT_JUMP, "__x86_indirect_its_thunk_rcx"),
        ("e9 fb 3f 00 00", What.LEAVES, "jmp 0xffffffffc0004000"),
        ("0f 84 fa 3f 00 00", What.LEAVES, "je 0xffffffffc0004000"),
        ("0f 0b", What.UNREAD, "ud2"),
        ("06", What.UNREAD, "06"),  # push es: no instruction in 64-bit mode
        ("e8 ef 0f 00", What.UNREAD, "e8 ef 0f 00"),  # cut
        ("eb 01 b8 c3 00 00 00", What.UNREAD, "jmp 0xffffffffc0000003 (a jump into the middle)"),
        ("e8 01 00 00 00 90 c3", What.UNREAD, "call 0xffffffffc0000006 (a call into the middle)"),
        # emit_kcfi's and the JIT of 4.19's retpoline: call 1f; 2: pause; lfence; jmp 2b; 1: mov [rsp], rcx; ret
        (
            "e8 07 00 00 00 f3 90 0f ae e8 eb f9 48 89 0c 24 c3",
            What.INDIRECT_JUMP,
            "a retpoline written out, mov qword ptr [rsp], rcx",
        ),
    ],
)
def test_what_leaves(text: str, what: What, via: str) -> None:
    ((_, found, _, how),) = told(code(text))
    assert (found, how) == (what, via)


# Tail calls, stack of 8 bytes, no callee-saved registers in use; each text begins where BPF_TAIL_CALL does.
COUNT_6_1 = "8b 85 f4 ff ff ff 83 f8 21"  # mov eax, [rbp-12]; cmp eax, 33
ADD_6_1 = "83 c0 01 89 85 f4 ff ff ff"  # add eax, 1; mov [rbp-12], eax
COUNT = "48 8b 85 e8 ff ff ff 48 83 38 21"  # 6.12, 6.18, 7.3: mov rax, [rbp-24]; cmp qword [rax], 33
ADD = "48 83 00 01"  # add qword [rax], 1
UNWIND_6_1 = "58 48 81 c4 08 00 00 00"  # pop rax; add rsp, 8
UNWIND = f"58 {UNWIND_6_1}"
NOP5 = "0f 1f 44 00 00"
END = "31 c0 c9 c3"
PATCHED = [
    # ja until 5.16 (5.10: 32), jae since; the bypass jumps, or was patched to a no-operation with the target
    ("5.10 empty", f"8b 85 f4 ff ff ff 83 f8 20 77 1b {ADD_6_1} e9 0d 00 00 00 {UNWIND_6_1} {NOP5} {END}", 9, None),
    ("6.1 empty", f"{COUNT_6_1} 73 1b {ADD_6_1} e9 0d 00 00 00 {UNWIND_6_1} {NOP5} {END}", 9, None),
    ("6.1 filled", f"{COUNT_6_1} 73 1b {ADD_6_1} {NOP5} {UNWIND_6_1} e9 da 3f 00 00 {END}", 9, PROGRAM),
    ("7.3 empty", f"{COUNT} 73 17 e9 12 00 00 00 {ADD} {UNWIND} {NOP5} {END}", 11, None),
    ("7.3 filled", f"{COUNT} 73 17 {NOP5} {ADD} {UNWIND} e9 dc 3f 00 00 {END}", 11, PROGRAM),
    ("7.3 emptied later", f"{COUNT} 73 17 e9 12 00 00 00 {ADD} {UNWIND} e9 dc 3f 00 00 {END}", 11, None),
]


@pytest.mark.parametrize(("name", "text", "at", "target"), PATCHED)
def test_patched_tail_calls(name: str, text: str, at: int, target: int | None) -> None:
    """emit_bpf_tail_call_direct."""
    assert [event[:3] for event in told(code(text))] == [(at, What.TAIL_PATCHED, target)]


LOAD = "48 8b 8c d6 00 01 00 00 48 85 c9"  # mov rcx, [rsi + rdx*8 + 0x100]; test rcx, rcx
BEFORE = "89 d2 39 56 10 76"  # mov edx, edx; cmp [rsi+16], edx; jbe out
FUNCTION = "48 8b 49 30 48 83 c1 0f"  # mov rcx, [rcx+0x30]; add rcx, 15
INDIRECT = [
    (
        "6.1 retpoline",
        f"{BEFORE} 36 {COUNT_6_1} 73 2b {ADD_6_1} {LOAD} 74 15 {UNWIND_6_1} {FUNCTION} e9 c3 1f 00 00 {END}",
        0x38,
        "__x86_indirect_thunk_rcx",
    ),
    (
        "6.1 without",
        f"{BEFORE} 34 {COUNT_6_1} 73 29 {ADD_6_1} {LOAD} 74 13 {UNWIND_6_1} {FUNCTION} ff e1 cc {END}",
        0x38,
        "jmp rcx",
    ),
    (
        "7.3 retpoline",
        f"{BEFORE} 34 {COUNT} 73 27 {LOAD} 74 1a {ADD} {UNWIND} {FUNCTION} e9 c5 1f 00 00 {END}",
        0x36,
        "__x86_indirect_thunk_rcx",
    ),
    (
        "7.3 ITS",
        f"{BEFORE} 34 {COUNT} 73 27 {LOAD} 74 1a {ADD} {UNWIND} {FUNCTION} e9 c5 20 00 00 {END}",
        0x36,
        "__x86_indirect_its_thunk_rcx",
    ),
    (
        "7.3 lfence",
        f"{BEFORE} 34 {COUNT} 73 27 {LOAD} 74 1a {ADD} {UNWIND} {FUNCTION} 0f ae e8 ff e1 {END}",
        0x39,
        "jmp rcx",
    ),
    (
        "7.3 without",
        f"{BEFORE} 32 {COUNT} 73 25 {LOAD} 74 18 {ADD} {UNWIND} {FUNCTION} ff e1 cc {END}",
        0x36,
        "jmp rcx",
    ),
]


@pytest.mark.parametrize(("name", "text", "at", "via"), INDIRECT)
def test_indirect_tail_calls(name: str, text: str, at: int, via: str) -> None:
    assert told(code(text)) == [(at, What.TAIL_INDIRECT, None, via)]


@pytest.mark.parametrize(
    ("there", "instead"),
    [
        ("48 8b 8c d6", "48 8b 8c de"),  # another base than the array's
        ("48 83 c1 0f", "48 83 c2 0f"),  # not behind the prologue
        ("48 8b 49 30", "48 8b 48 30"),  # loaded from somewhere else
        ("48 81 c4 08 00 00 00", "e8 cc 0f 00 00 66 90"),  # a call between: rcx is not what was loaded
    ],
)
def test_jumps_that_only_look_like_a_tail_call(there: str, instead: str) -> None:
    _, text, at, via = INDIRECT[2]
    assert text.count(there) == 1
    assert (at, What.INDIRECT_JUMP, None, via) in told(code(text.replace(there, instead)))


@pytest.mark.parametrize(
    ("there", "instead", "what"),
    [
        ("48 83 38 21", "48 83 38 22", What.LEAVES),  # another limit
        ("48 83 38 21", "48 83 39 21", What.LEAVES),  # not the counter
        ("73 17", "72 17", What.LEAVES),  # another test
        (NOP5, "eb 03 0f 1f 00", What.LEAVES),  # nothing that can be patched
        (NOP5, "e9 00 00 00 00", What.LEAVES),  # a bypass to somewhere else
        (f"73 17 {NOP5}", "73 14 66 90", What.LEAVES),  # too short to be patched
        ("e9 dc 3f 00 00", "e9 dc 1f 00 00", What.INDIRECT_JUMP),  # to the thunk
    ],
)
def test_jumps_out_that_are_no_tail_call(there: str, instead: str, what: What) -> None:
    text = PATCHED[4][1]
    assert text.count(there) == 1
    assert [kind for _, kind, _, _ in told(code(text.replace(there, instead)))] == [what]


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    assert all(BASE <= BASE + at < BASE + len(data) for at, *_ in told(data))


@settings(max_examples=100, deadline=None)
@given(st.sampled_from([row[1] for row in (*PATCHED, *INDIRECT)]), st.data())
def test_damaged_images(text: str, data: st.DataObject) -> None:
    image = bytearray(code(text))
    image[data.draw(st.integers(0, len(image) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(image)))
    assert len(told(bytes(image[:cut]))) <= cut


def test_thousands_of_instructions() -> None:
    assert told(b"\x90" * 20_000 + code("ff d0")) == [(20_000, What.INDIRECT_CALL, None, "call rax")]
