"""Packets: what the context of a network program points to, where a program is one by its section.

Offsets are those of the context that a program is written for (struct xdp_md, struct __sk_buff in
include/uapi/linux/bpf.h, 6.1 to 7.3): its pointers are 32 bits there, so the packet lies below 4 GiB here.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from model.program import Form, Program

BASE = 0x4000_0000
LENGTHS = (64, 0, 14, 34, 54, 128)
"""Bytes of the packets that are tried: 64 first; headers of Ethernet, IPv4 and TCP end at the next ones."""
MOST = 4096


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the context has the packet's first byte, its end, its metadata (none here), and its length."""

    data: int
    end: int
    meta: int
    length: int | None = None

    def filled(self, context: bytes, packet: bytes) -> bytes:
        """The context of this packet."""
        words = {self.data: BASE, self.end: BASE + len(packet), self.meta: BASE}
        if self.length is not None:
            words[self.length] = len(packet)
        for at, word in words.items():
            context = context[:at] + word.to_bytes(4, "little") + context[at + 4 :]
        return context

    def holds(self, at: int) -> bool:
        """Whether the context's byte is one of these."""
        return any(start is not None and start <= at < start + 4 for start in self._starts())

    def _starts(self) -> tuple[int | None, ...]:
        return self.data, self.end, self.meta, self.length


XDP = Layout(0, 4, 8)
SKB = Layout(76, 80, 140, 0)
LAYOUTS: Mapping[str, Layout] = {
    "xdp": XDP,
    "xdp.frags": XDP,
    "tc": SKB,
    "tcx": SKB,
    "classifier": SKB,
    "action": SKB,
    "socket": SKB,
}
"""By the section's name up to the first slash (section_defs, tools/lib/bpf/libbpf.c, 7.3)."""


def layout_of(program: Program) -> Layout | None:
    """None for other programs, and for one whose accesses to the context the kernel has rewritten already."""
    return LAYOUTS.get(program.type) if program.form is Form.OBJECT else None
