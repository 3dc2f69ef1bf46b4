"""A session with the kernel of a guest: `Live`, whose system calls are made over there."""

import ctypes
import struct
from collections.abc import Iterator

from model.loaders.live import Command, Live
from model.loaders.vm import wire
from model.loaders.vm.guest import Guest
from model.loaders.vm.wire import Buffer

Block = ctypes.Array[ctypes.c_char]


class GuestLive(Live):
    """As `Live`, in `guest`. Raises Lost too, where the guest does not answer."""

    def __init__(self, guest: Guest) -> None:
        super().__init__()
        self._guest = guest

    def call(self, command: Command, attributes: bytes, *buffers: Block) -> tuple[int, bytes]:
        used = list(_used(attributes, buffers))
        sent = [buffer for _, buffer in used]
        answer = self._guest.ask(lambda number: wire.call(number, command, attributes, sent))
        back = answer.data[1:]
        for (block, buffer), data in zip(used, back, strict=False):
            block.raw = data.ljust(buffer.size, b"\0")[: buffer.size]
        return answer.result, answer.data[0] if answer.data else attributes

    def shut(self, fd: int) -> None:
        self._guest.ask(lambda number: wire.shut(number, fd))


def _used(attributes: bytes, buffers: tuple[Block, ...]) -> Iterator[tuple[Block, Buffer]]:
    """Those whose addresses stand in the attributes, or in another that does, in front of it."""
    holders = [attributes]
    for block in buffers:
        address = struct.pack("=Q", ctypes.addressof(block))
        for number, holder in enumerate(holders):
            place = holder.find(address)
            if place >= 0:
                yield block, Buffer(number, place, len(block), block.raw)
                holders.append(block.raw)
                break
