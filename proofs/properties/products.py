"""What is known of multiplication where a claim leaves it an unknown function: each axiom as an obligation of its own.

Bit-blasted multipliers are what solvers are slow at, so `proofs.solver` first decides a claim with products as an
unknown function under instances of these (`proofs.symbolic.Products`), and confirms a refutation with real products.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from model.bits import B, W
from model.world import World
from proofs.obligation import Obligation

WIDE, NARROW = 64, 32


@dataclass(frozen=True, slots=True)
class Powers:
    """a << s = a × (1 << s), for every s; a × b = b × a; the low half of a product of 32-bit words.

    `off` is added to each left side: not 0 in a planted fault only.
    """

    off: int = 0

    def __call__(self, world: World[W, B]) -> Mapping[str, B]:
        b, narrow = world.bits(WIDE), world.bits(NARROW)
        x, y = world.fresh("x", WIDE), world.fresh("y", WIDE)
        p, q = world.fresh("p", NARROW), world.fresh("q", NARROW)
        product = b.mul(narrow.zext(p, WIDE), narrow.zext(q, WIDE))
        off = b.const(self.off)
        return {
            "shift_is_product": b.eq(b.add(b.shl(x, y), off), b.mul(x, b.shl(b.const(1), y))),
            "commutes": b.eq(b.add(b.mul(x, y), off), b.mul(y, x)),
            "low_half": b.eq(b.extract(b.add(product, off), NARROW - 1, 0), narrow.mul(p, q)),
        }

    def reason(self, part: str) -> str:
        return ""

    def planted(self, part: str) -> "Powers":
        return Powers(off=1)


@dataclass(frozen=True, slots=True)
class Monotone:
    """x <= y gives factor × x <= factor × y, at 64 bits for words below 2^32; decided over the integers.

    `off` is added to the first product: not 0 in a planted fault only.
    """

    off: int = 0

    def __call__(self, world: World[W, B]) -> Mapping[str, B]:
        b, narrow = world.bits(WIDE), world.bits(NARROW)
        factor, x, y = (narrow.zext(world.fresh(name, NARROW), WIDE) for name in ("factor", "x", "y"))
        world.assume("x is at most y", b.ule(x, y))
        return {"monotone": b.ule(b.add(b.mul(factor, x), b.const(self.off)), b.mul(factor, y))}

    def reason(self, part: str) -> str:
        return ""

    def planted(self, part: str) -> "Monotone":
        return Monotone(off=1)


def product_obligations() -> list[Obligation]:
    origin = "axiom for products as an unknown function"
    powers = [
        Obligation(f"products/{part}", origin, Powers(), part) for part in ("shift_is_product", "commutes", "low_half")
    ]
    return [*powers, Obligation("products/monotone", origin, Monotone(), "monotone", over="integers")]
