"""Loads and stores (RFC 9669, sections 5.1, 5.2, 5.4, 5.5).

`b` has width 64. Sizes are bytes. An address is a 64-bit register plus the 16-bit offset, sign-extended; the
sum wraps. Memory is in the host's byte order (`model.memory`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic

from model.bits import B, Bits, W
from model.isa.opcodes import Mode
from model.memory import Memory
from model.semantics.endian import ByteOrder, reverse


def mem(b: Bits[W, B], word: W, size: int) -> W:
    """{MEM, size, LDX}: dst = *(unsigned size *)(src + offset): zero-extended to 64 bits."""
    return b.at(8 * size).zext(word, 64)


def memsx(b: Bits[W, B], word: W, size: int) -> W:
    """{MEMSX, size, LDX}: dst = *(signed size *)(src + offset): sign-extended to all 64 bits (B, H, W only)."""
    return b.at(8 * size).sext(word, 64)


Extension = Callable[[Bits[W, B], W, int], W]


def loads() -> Mapping[Mode, "Extension[W, B]"]:
    """Mode -> what becomes of the word of 8 × size bits that was loaded."""
    return {Mode.MEM: mem, Mode.MEMSX: memsx}


def address(b: Bits[W, B], base: W, offset: W) -> W:
    """base + offset, both 64 bits."""
    return b.add(base, offset)


def store(b: Bits[W, B], memory: Memory[W], at: W, size: int, value: W) -> Memory[W]:
    """{MEM, size, STX} and ST: *(size *)(dst + offset) = the low bits of the 64-bit `value`.

    ST stores the immediate sign-extended to 64 bits: with size DW and immediate -1, eight bytes 0xff.
    """
    return memory.store(at, size, b.extract(value, 8 * size - 1, 0))


def wide(b: Bits[W, B], low: W, high: W) -> W:
    """{IMM, DW, LD}, subtype 0: dst = (next_imm << 32) | imm, both 32 bits (section 5.4): imm is not sign-extended."""
    return b.at(32).concat(high, low, 32)


NETWORK_OFFSET, LINK_OFFSET = -0x100000, -0x200000
"""SKF_NET_OFF, SKF_LL_OFF (include/uapi/linux/filter.h): offsets from there up count from a header."""


@dataclass(frozen=True, slots=True)
class Packet(Generic[W]):
    """The packet of legacy loads, 64-bit words: address of its first byte, length, offsets of two headers in it."""

    data: W
    length: W
    network: W
    link: W


def packet_offset(b: Bits[W, B], packet: Packet[W], offset: W) -> W:
    """The 32-bit `offset` of a legacy load as 64 bits (signed) from the packet's first byte.

    bpf_skb_load_helper_convert_offset (net/core/filter.c, 7.3): a negative offset counts from the network
    header from -0x100000 on, from the link header from -0x200000 on, and is out of bounds below.
    """
    signed = b.at(32).sext(offset, 64)
    network = b.add(b.sub(signed, b.const(NETWORK_OFFSET)), packet.network)
    link = b.add(b.sub(signed, b.const(LINK_OFFSET)), packet.link)
    negative = b.ite(b.sle(b.const(NETWORK_OFFSET), signed), network, link)
    negative = b.ite(b.sle(b.const(LINK_OFFSET), signed), negative, b.const(-1))
    return b.ite(b.sle(b.const(0), signed), signed, negative)


def packet_inside(b: Bits[W, B], packet: Packet[W], offset: W, size: int) -> B:
    """Whether `size` bytes at `offset` (of `packet_offset`) are in the packet; if not, the function returns r0 = 0."""
    end = b.add(offset, b.const(size))
    return b.conj(b.sle(b.const(0), offset), b.sle(end, packet.length))


def packet_word(b: Bits[W, B], word: W, size: int, order: ByteOrder) -> W:
    """{ABS, size, LD}, {IND, size, LD} (section 5.5): the field, in network byte order, as a number in r0, 64 bits.

    The context is in r6 (implicit). As in a call of a function, r1 to r5 are scratched (bpf_gen_ld_abs,
    net/core/filter.c, 7.3).
    """
    host = reverse(b, word, 8 * size) if order == "little" else word
    return b.at(8 * size).zext(host, 64)
