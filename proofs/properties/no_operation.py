"""An accepted pair whose operation is NULL: no call there is equivalent to anything, each jumps to address 0.

The helper loads NULL from the map's operations and calls it; the pass, which makes no test of the slot
(`do_misc_fixups`, 5.10 to 7.3), writes imm = (s32)(NULL - __bpf_call_base), which the JIT takes for a call too.
The verifier of every release read so far refuses such pairs; one that does not lets programs crash the kernel.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from model.bits import B, W
from model.world import World
from proofs.obligation import Obligation

PART = "operation"


@dataclass(frozen=True, slots=True)
class NoOperation:
    """The claim that `slot` of the map's table, NULL in the source, is a function: false in every state."""

    slot: str

    def __call__(self, world: World[W, B]) -> Mapping[str, B]:
        b = world.bits(64)
        base = world.fresh("address of __bpf_call_base", 64)
        called = b.const(0)
        immediate = b.extract(b.sub(called, base), 31, 0)
        reached = b.add(base, world.bits(32).sext(immediate, 64))
        world.prefer(b.eq(base, b.const(0xFFFFFFFF81200000)))
        world.show("__bpf_call_base", 64, base)
        world.show("helper: target", 64, called)
        world.show("direct: imm", 32, immediate)
        world.show("direct: target of the call", 64, reached)
        return {PART: b.negate(b.eq(called, b.const(0)))}

    def reason(self, part: str) -> str:
        """What the values mean, for a person."""
        return f"the verifier accepts the pair, but {self.slot} is NULL: the helper and the rewritten call go there"

    def planted(self, part: str) -> "NoOperation":
        """The claim as it is: NULL in the slot is the fault."""
        return self


def no_operation(prefix: str, slot: str, origin: str) -> list[Obligation]:
    """The claim as an obligation: `prefix/operation`."""
    return [Obligation(f"{prefix}/{PART}", origin, NoOperation(slot), PART)]
