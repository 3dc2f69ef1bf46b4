"""Indirect branches of kernel functions, hand-assembled (Intel SDM, volume 2): where their targets came from."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model.errors import InputError
from model.native.origin_state import Argument, Loaded, Origin, Stack
from model.native.origins import Body, Indirect, body

pytest.importorskip("capstone")
from model.native.x86_decode import Decoder

BASE = 0x1000
THUNKS = {0x4000: "__x86_indirect_thunk_rax", 0x4020: "__x86_indirect_thunk_rbp", 0x5000: "other", 0x5100: "panic"}
DECODER = Decoder()


class Text:
    """The function f at 0x1000, f.cold at 0x2000, and names without text."""

    def __init__(self, text: str, cold: str = "") -> None:
        self.parts = {BASE: bytes.fromhex(text), 0x2000: bytes.fromhex(cold)}
        self.symbols = {BASE: "f", 0x2000: "f.cold", **THUNKS}

    def read(self, address: int, size: int) -> bytes:
        if address not in self.parts:
            raise InputError("text", hex(address), "expected bytes")
        return self.parts[address][:size]

    def names(self, address: int) -> tuple[str, ...]:
        return (self.symbols[address],) if address in self.symbols else ()

    def around(self, address: int) -> tuple[int, str] | None:
        starts = [start for start in self.symbols if start <= address]
        return (max(starts), self.symbols[max(starts)]) if starts else None

    def end(self, address: int, limit: int) -> int:
        return address + min(limit, len(self.parts.get(address, b"")))


def found(text: str, cold: str = "", labels: dict[int, int] | None = None, steps: int = 1000) -> Body:
    return body(Text(text, cold), DECODER.step, BASE, labels, steps)


OPS = Loaded(Loaded(Argument(0), 0x28), 0x68)
ORIGINS: list[tuple[str, str, Origin]] = [
    ("jmp rsi", "ff e6", Argument(1)),
    ("mov rax, [rdi+0x28]; mov rax, [rax+0x68]; jmp rax", "48 8b 47 28 48 8b 40 68 ff e0", OPS),
    ("the same by call [rax+0x68]", "48 8b 47 28 ff 50 68 c3", OPS),
    ("the same by the thunk", "48 8b 47 28 48 8b 40 68 e9 f3 2f 00 00", OPS),
    ("mov rbp, rsi; call other; call rbp", "48 89 f5 e8 f8 3f 00 00 ff d5 c3", Argument(1)),
    ("mov rbp, rsi; call thunk_rbp", "48 89 f5 e8 18 30 00 00 c3", Argument(1)),
    ("call other; call rsi", "e8 fb 3f 00 00 ff d6 c3", None),
    ("push rsi; call other; pop rax; call rax", "56 e8 fa 3f 00 00 58 ff d0 c3", Argument(1)),
    ("sub rsp, 16; mov [rsp+8], rsi; call [rsp+8]", "48 83 ec 10 48 89 74 24 08 ff 54 24 08 c3", Argument(1)),
    ("the same, overwritten in part", "48 83 ec 10 48 89 74 24 08 c6 44 24 0a 00 ff 54 24 08 c3", None),
    ("the same, another slot", "48 83 ec 10 48 89 74 24 08 ff 14 24 c3", None),
    (
        "push rbp; mov rbp, rsp; mov [rbp-8], rdx; leave; jmp [rsp-16]",
        "55 48 89 e5 48 89 55 f8 c9 ff 64 24 f0",
        Argument(2),
    ),
    ("mov esi, esi; call rsi", "89 f6 ff d6 c3", None),
    ("add rsi, 1; call rsi", "48 83 c6 01 ff d6 c3", None),
    ("test rsi, rsi; call rsi", "48 85 f6 ff d6 c3", Argument(1)),
    ("xchg rsi, rdx; call rsi", "48 87 d6 ff d6 c3", None),
    ("mul rsi; call rdx", "48 f7 e6 ff d2 c3", None),
    ("mov rsi, [rsi+rax*8]; call rsi", "48 8b 34 c6 ff d6 c3", None),
    ("mov rsi, gs:[rsi]; call rsi", "65 48 8b 36 ff d6 c3", None),
    ("lea rax, [rsp+8]; call rax", "48 8d 44 24 08 ff d0 c3", Stack(8)),
    ("five loads: not told", "48 8b 3f 48 8b 3f 48 8b 3f 48 8b 3f 48 8b 3f ff d7 c3", None),
    # two ways that join: the same on both, or not (je over mov rax, rdx)
    ("both", "48 89 f0 74 03 48 89 f0 ff d0 c3", Argument(1)),
    ("either", "48 89 f0 74 03 48 89 d0 ff d0 c3", None),
    # mov rax, rsi; je L; mov rax, rdx; jne L; ret; L: call rax
    ("two branches", "48 89 f0 74 06 48 89 d0 75 01 c3 ff d0 c3", None),
    # mov rbp, rsi; L: call thunk_rbp; test rax, rax; je L; ret
    ("loop", "48 89 f5 e8 18 30 00 00 48 85 c0 74 f6 c3", Argument(1)),
    # as above, with rbp written behind the call: what it was is no longer told
    ("loop that changes it", "48 89 f5 e8 18 30 00 00 48 89 c5 48 85 c0 74 f3 c3", None),
]


@pytest.mark.parametrize(("name", "text", "origin"), ORIGINS)
def test_origins(name: str, text: str, origin: Origin) -> None:
    told = found(text)
    assert [one.origin for one in told.indirect] == [origin]
    assert told.problems == ()


def test_place_and_name() -> None:
    assert found("48 89 f5 e8 18 30 00 00 c3").indirect == (
        Indirect(0x1003, "__x86_indirect_thunk_rbp", True, Argument(1)),
    )
    assert found("ff e6").indirect == (Indirect(0x1000, "jmp rsi", False, Argument(1)),)


def test_what_is_reached() -> None:
    """Behind a return nothing is; a jump label and a .cold part are; behind panic() code may end."""
    assert found("c3 ff d0").indirect == ()
    assert len(found("0f 1f 44 00 00 c3 ff d0 c3", labels={BASE: 0x1006}).indirect) == 1
    assert len(found("e9 fb 0f 00 00", cold="ff d0 c3").indirect) == 1  # jmp 0x2000
    assert found("e8 fb 40 00 00").problems == ()  # call panic


def test_what_is_not_read_is_told() -> None:
    assert found("").problems == ("no instruction at 0x1000",)
    assert found("90 06").problems == ("no instruction at 0x1001",)
    assert found("90 90 90", steps=2).problems == ("too many paths",)
    other = body(Text("c3"), DECODER.step, 0x5000)
    assert other.problems == ("text: 0x5000: expected bytes",)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=120))
def test_any_bytes(data: bytes) -> None:
    found(data.hex())
