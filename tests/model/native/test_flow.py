"""Functions of a few hand-assembled instructions (Intel SDM, volume 2): what rax holds at the return, by hand."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model.errors import InputError
from model.native.flow import Flow, Found
from model.native.values import ANY, CALL, FULL, SIGN, SMALL, ZERO, Atom, Upper

pytest.importorskip("capstone")
from model.native.x86_decode import Decoder

BASE = 0x1000
DECODER = Decoder()


class Text:
    """Functions one after the other, padded with int3; each begins where the symbol says."""

    def __init__(self, functions: dict[str, str]) -> None:
        self.places: dict[int, str] = {}
        self.data = bytearray()
        for name, text in functions.items():
            self.places[BASE + len(self.data)] = name.replace("_cold", ".cold")
            code = bytes.fromhex(text)
            self.data += code + b"\xcc" * (-len(code) % 32)

    def read(self, address: int, size: int) -> bytes:
        at = address - BASE
        if at < 0 or at + size > len(self.data):
            raise InputError("text", hex(address), "expected bytes")
        return bytes(self.data[at : at + size])

    def names(self, address: int) -> tuple[str, ...]:
        return (self.places[address],) if address in self.places else ()

    def around(self, address: int) -> tuple[int, str] | None:
        starts = [start for start in self.places if start <= address < BASE + len(self.data)]
        return (starts[-1], self.places[starts[-1]]) if starts else None

    def end(self, address: int, limit: int) -> int:
        later = [start for start in self.places if start > address]
        return min(later[0] if later else BASE + len(self.data), address + limit)


WIDTHS = {"wide": (64, 64), "slim": (64, 32), "alone": (64,)}


def flow(functions: dict[str, str], labels: dict[int, int] | None = None, fixups: dict[int, int] | None = None) -> Flow:
    return Flow(Text(functions), DECODER.step, WIDTHS.get, labels or {}, fixups or {})


def found(
    text: str, narrow: tuple[int, ...] = (), others: dict[str, str] | None = None, *, whole: bool = True
) -> Found:
    return flow({"f": text, **(others or {})}).function(BASE, narrow, whole=whole)


def const(number: int, place: int) -> Atom:
    return Atom(Upper.CONST, number, BASE + place)


RESULTS = [
    ("mov eax, -17", "b8 ef ff ff ff c3", {const(0xFFFFFFEF, 0)}),
    ("mov rax, -17", "48 c7 c0 ef ff ff ff c3", {const(0xFFFFFFFFFFFFFFEF, 0)}),
    ("movabs rax", "48 b8 ef ff ff ff 00 00 00 00 c3", {const(0xFFFFFFEF, 0)}),
    ("xor eax, eax", "31 c0 c3", {const(0, 0)}),
    ("or eax, -1", "83 c8 ff c3", {const(0xFFFFFFFF, 0)}),
    ("or rax, -1", "48 83 c8 ff c3", {const(0xFFFFFFFFFFFFFFFF, 0)}),
    ("movsxd rax, edi", "48 63 c7 c3", {SIGN}),
    ("mov eax, edi", "89 f8 c3", {ZERO}),
    ("mov rax, rdi", "48 89 f8 c3", {Atom(Upper.PARAM, 0)}),
    ("mov eax, [rdi]", "8b 07 c3", {ZERO}),
    ("mov rax, [rdi]", "48 8b 07 c3", {FULL}),
    ("movzx eax, byte [rdi]", "0f b6 07 c3", {SMALL}),
    ("movsx eax, byte [rdi]", "0f be 07 c3", {ZERO}),
    ("movsx rax, byte [rdi]", "48 0f be 07 c3", {SIGN}),
    ("mov eax, -17; cdqe", "b8 ef ff ff ff 48 98 c3", {const(0xFFFFFFFFFFFFFFEF, 0)}),
    ("mov eax, edi; cdqe", "89 f8 48 98 c3", {SIGN}),
    ("mov rax, -17; mov eax, eax", "48 c7 c0 ef ff ff ff 89 c0 c3", {const(0xFFFFFFEF, 0)}),
    ("mov al, 5 keeps the rest", "48 63 c7 b0 05 c3", {SIGN}),
    ("and eax, 0x7f", "89 f8 83 e0 7f c3", {SMALL}),
    ("shr eax, 1", "89 f8 d1 e8 c3", {SMALL}),
    ("add eax, esi", "89 f8 01 f0 c3", {ZERO}),
    ("add rax, rsi", "48 89 f8 48 01 f0 c3", {FULL}),
    ("sar rax, 32", "48 89 f8 48 c1 f8 20 c3", {SIGN}),
    ("setne al; movzx", "85 ff 0f 95 c0 0f b6 c0 c3", {SMALL}),
    ("sbb eax, eax; and eax, -22", "83 ff 01 19 c0 83 e0 ea c3", {const(0, 5), const(0xFFFFFFEA, 5)}),
    ("neg of 22", "b8 16 00 00 00 f7 d8 c3", {const(0xFFFFFFEA, 5)}),
    ("if: -22, else 0", "85 ff 74 06 b8 ea ff ff ff c3 31 c0 c3", {const(0xFFFFFFEA, 4), const(0, 10)}),
    ("cmov", "b8 ea ff ff ff 31 c9 85 ff 0f 44 c1 c3", {const(0xFFFFFFEA, 0), const(0, 5)}),
    ("through ebx", "53 bb ea ff ff ff 89 d8 5b c3", {const(0xFFFFFFEA, 1)}),
    ("through the stack", "c7 44 24 f8 ea ff ff ff 8b 44 24 f8 c3", {const(0xFFFFFFEA, 0)}),
    ("pushed and popped", "68 ea ff ff ff 58 c3", {const(0xFFFFFFFFFFFFFFEA, 0)}),
    ("a loop", "31 c0 ff c0 39 f8 75 fa c3", {ZERO}),
    ("mov eax, -22; mov al, 5", "b8 ea ff ff ff b0 05 c3", {ZERO}),
    (
        "0, and -22 when it comes round",
        "31 c0 85 ff 74 07 b8 ea ff ff ff eb f5 c3",
        {const(0, 0), const(0xFFFFFFEA, 6)},
    ),
    ("push -22; rep stosb; pop rax", "68 ea ff ff ff f3 aa 58 c3", {ANY}),
    ("rep stosb", "b8 ea ff ff ff f3 aa c3", {ANY}),
    ("cmpxchg", "31 c0 f0 0f b1 37 c3", {const(0, 0), ZERO}),
    ("an indirect call", "ff d7 c3", {CALL}),
    ("an indirect tail call", "ff e7", {CALL}),
    ("WARN, then 1", "0f 0b b8 01 00 00 00 c3", {const(1, 2)}),
    ("-22 over a WARN", "bb ea ff ff ff 0f 0b 89 d8 c3", {ZERO}),
]


@pytest.mark.parametrize(("text", "expected"), [row[1:] for row in RESULTS], ids=[row[0] for row in RESULTS])
def test_results(text: str, expected: set[Atom]) -> None:
    answer = found(text)
    assert (answer.problems, answer.uses) == ((), ())
    assert answer.result == expected


@pytest.mark.parametrize(
    ("text", "others", "expected"),
    [
        # call g (0x1020); ret
        ("e8 1b 00 00 00 c3", {"g": "b8 ea ff ff ff c3"}, {Atom(Upper.CONST, 0xFFFFFFEA, 0x1020)}),
        ("e8 1b 00 00 00 48 98 c3", {"g": "b8 ea ff ff ff c3"}, {Atom(Upper.CONST, 0xFFFFFFFFFFFFFFEA, 0x1020)}),
        ("e9 1b 00 00 00", {"g": "b8 ea ff ff ff c3"}, {Atom(Upper.CONST, 0xFFFFFFEA, 0x1020)}),  # a tail call
        ("b8 01 00 00 00 e9 16 00 00 00", {"__x86_return_thunk": "c3"}, {Atom(Upper.CONST, 1, 0x1000)}),
        ("b8 01 00 00 00 e9 16 00 00 00", {"f_cold": "b8 02 00 00 00 c3"}, {Atom(Upper.CONST, 2, 0x1020)}),
        ("b8 01 00 00 00 e8 16 00 00 00 c3", {"__fentry__": "c3"}, {Atom(Upper.CONST, 1, 0x1000)}),
        ("e8 1b 00 00 00 c3", {"__x86_indirect_thunk_array": "ff e0"}, {CALL}),
        ("e8 1b 00 00 00 c3", {"g": "48 89 f8 c3"}, {ANY}),  # a parameter of the callee's
        ("b9 ea ff ff ff e8 16 00 00 00 89 c8 c3", {"g": "c3"}, {ZERO}),  # ecx over a call
        ("e8 1b 00 00 00 c3", {"g": "e8 fb ff ff ff c3"}, {CALL}),  # endless recursion
        # test edi, edi; je over the call; xor eax, eax; ret
        ("85 ff 75 03 31 c0 c3 e8 14 00 00 00", {"__stack_chk_fail": "c3"}, {Atom(Upper.CONST, 0, 0x1004)}),
    ],
)
def test_calls(text: str, others: dict[str, str], expected: set[Atom]) -> None:
    answer = found(text, (), others)
    assert answer.problems == ()
    assert answer.result == expected


def test_a_slot_whose_address_is_away_is_not_known_after_a_call() -> None:
    # sub rsp, 24; mov dword [rsp], 0; mov rdi, rsp; call g; mov eax, [rsp]; add rsp, 24; ret
    text = "48 83 ec 18 c7 04 24 00 00 00 00 {} e8 {} 00 00 00 8b 04 24 48 83 c4 18 c3"
    kept = found(text.format("89 ff 90", "0d"), others={"g": "c3"})
    away = found(text.format("48 89 e7", "0d"), others={"g": "c3"})
    assert kept.result == {Atom(Upper.CONST, 0, 0x1004)}
    assert away.result == {ZERO}


def test_jump_labels_go_both_ways() -> None:
    text = "0f 1f 44 00 00 31 c0 c3 b8 ea ff ff ff c3"  # nop; xor eax, eax; ret; mov eax, -22; ret
    assert found(text).result == {const(0, 5)}
    both = flow({"f": text}, {BASE: BASE + 8}).function(BASE, ())
    assert both.result == {const(0, 5), const(0xFFFFFFEA, 8)}


def test_a_faulting_load_goes_on_at_its_fixup() -> None:
    text = "31 c0 8b 0f c3 90 c3"  # xor eax, eax; mov ecx, [rdi]; ret; nop; ret
    assert found(text).result == {const(0, 0)}
    both = flow({"f": text}, None, {BASE + 2: BASE + 5}).function(BASE, ())
    assert both.result == {const(0, 0), ANY}


USES = [
    ("mov eax, [rdi+rsi*4]", "8b 04 b7 c3", "mov eax, dword ptr [rdi + rsi*4]: used in an address", True),
    ("lea rax, [rdi+rsi]; mov eax, [rax]", "48 8d 04 37 8b 00 c3", "used in an address", True),
    ("cmp rdi, rsi", "48 39 f7 c3", "compared in 64 bits", True),
    ("push rsi; pop rax; cmp rax, 5", "56 58 48 83 f8 05 31 c0 c3", "compared in 64 bits", True),
    ("shr rsi, 3", "48 c1 ee 03 c3", "used in 64 bits by shr", True),
    ("mov [rdi], rsi", "48 89 37 c3", "stored in 64 bits", True),
    ("div rsi", "48 f7 f6 c3", "used in 64 bits by div", True),
    ("mov rcx, rsi; rep stosb", "48 89 f1 f3 aa c3", "may be used by stosb", False),
    ("mov rax, rsi; ret", "48 89 f0 c3", "returned in 64 bits", True),
    ("call rdi", "ff d7 c3", "perhaps handed on", False),
]


@pytest.mark.parametrize(("text", "how", "sure"), [row[1:] for row in USES], ids=[row[0] for row in USES])
def test_uses_of_the_upper_half(text: str, how: str, sure: bool) -> None:
    uses = found(text, (1,)).uses
    assert [(use.index, use.sure) for use in uses] == [(1, sure)]
    assert how in uses[0].how
    assert found(text).uses == ()  # of a parameter of 64 bits nothing is told


@pytest.mark.parametrize(
    "text",
    [
        "89 f6 8b 04 b7 c3",  # mov esi, esi; mov eax, [rdi+rsi*4]
        "48 63 f6 8b 04 b7 c3",  # movsxd rsi, esi
        "8d 04 36 c3",  # lea eax, [rsi+rsi]
        "48 8d 04 36 89 c0 39 f0 c3",  # lea rax, [rsi+rsi]; mov eax, eax; cmp eax, esi
        "89 37 c3",  # mov [rdi], esi
        "48 81 e6 ff 00 00 00 8b 04 b7 c3",  # and rsi, 0xff
        "48 31 f6 8b 04 b7 c3",  # xor rsi, rsi
        "56 8b 34 24 8b 04 b7 5e c3",  # push rsi; mov esi, [rsp]; …
        "83 fe 05 c3",  # cmp esi, 5
    ],
)
def test_what_uses_the_low_half_only(text: str) -> None:
    assert found(text, (1,)).uses == ()


def test_a_narrow_result_may_have_anything_in_its_upper_half() -> None:
    assert found("48 89 f0 c3", (1,), whole=False).uses == ()


def test_an_argument_that_is_handed_on() -> None:
    call = "e8 1b 00 00 00 c3"
    assert found(call, (1,), {"slim": "c3"}).uses == ()
    assert found(call, (1,), {"alone": "c3"}).uses == ()
    (use,) = found(call, (1,), {"wide": "c3"}).uses
    assert (use.sure, "handed on as 64 bits" in use.how) == (True, True)
    (use,) = found(call, (1,), {"other": "c3"}).uses
    assert use.sure is False


@pytest.mark.parametrize(
    ("text", "problem"),
    [("06", "no instruction at f+0x0"), ("90" * 32, "no instruction at"), ("eb 7e", "leads to no symbol")],
)
def test_what_cannot_be_followed_is_told(text: str, problem: str) -> None:
    answer = found(text)
    assert problem in " ".join(answer.problems)


def test_a_loop_that_pushes_ends() -> None:
    # push rdi; jmp: for ever; and with a way out: push rdi; test edi, edi; jne; pop rax; ret
    assert found("57 eb fd").problems == ()
    assert found("57 85 ff 75 fb 58 c3").result == {Atom(Upper.PARAM, 0), FULL}


@settings(max_examples=150)
@given(st.binary(min_size=1, max_size=96))
def test_any_bytes(data: bytes) -> None:
    answer = found(data.hex(), (0, 1, 2))
    assert len(answer.result) <= 32
