"""Calls of C functions from BPF: conversions of C, and what an ABI says of narrow values.

Conversions: C11 6.3.1.3 (integer to integer). Extension of arguments and results narrower than a
register: the row in `model.kernel.abi`.
"""

from dataclasses import dataclass
from typing import Generic

from model.kernel.abi import Abi, Extension
from model.kernel.release import CType, Prototype
from model.world import B, W, World

REGISTER = 64  # bits of a register of every ABI here
BPF_ARGUMENTS = 5  # r1 to r5


def narrow(world: World[W, B], register: W, ctype: CType) -> W:
    """The value of type `ctype` in the low bits of a 64-bit register, at the type's own width."""
    return world.bits(REGISTER).extract(register, ctype.bits - 1, 0)


def widen(world: World[W, B], value: W, ctype: CType) -> W:
    """C's conversion of a value of type `ctype` to u64: sign-extended if signed, else zero-extended."""
    bits = world.bits(ctype.bits)
    return bits.sext(value, REGISTER) if ctype.signed else bits.zext(value, REGISTER)


def in_register(world: World[W, B], rule: Extension, value: W, ctype: CType, junk: str) -> W:
    """A value of type `ctype` as the ABI puts it into a 64-bit register; unspecified bits are the fresh word `junk`."""
    if ctype.bits == REGISTER:
        return value
    bits = world.bits(ctype.bits)
    match rule:
        case Extension.NOBODY:
            rest = REGISTER - ctype.bits
            return world.bits(rest).concat(world.fresh(junk, rest), value, ctype.bits)
        case Extension.BY_TYPE:
            return widen(world, value, ctype)
        case Extension.SIGN:
            if ctype.bits == 32 or ctype.signed:
                return bits.sext(value, REGISTER)
            return bits.zext(value, REGISTER)  # narrower than 32 bits: widened by its sign to 32 first


def observed(world: World[W, B], rule: Extension, register: W, ctype: CType) -> W:
    """What a callee's behaviour may depend on, 64 bits: under NOBODY the value alone, else the whole register.

    Where the ABI makes the caller extend, compilers use the full register unseen (as an array index, say),
    so a register that is not extended as demanded is another argument.
    """
    if ctype.bits == REGISTER or rule is not Extension.NOBODY:
        return register
    return world.bits(ctype.bits).zext(narrow(world, register, ctype), REGISTER)


@dataclass(frozen=True, slots=True)
class Effect(Generic[W]):
    """What a call leaves: the return register and three 64-bit names of what it did to the world outside."""

    result: W
    memory: W
    kernel: W
    callbacks: W


def body(
    world: World[W, B], abi: Abi, prototype: Prototype, address: W, registers: tuple[W, ...], state: W, side: str
) -> Effect[W]:
    """The function at `address`, defined with `prototype`, entered with the argument `registers` (64 bits each).

    The body is unknown: everything that it does is a function of its address, of the arguments that it can
    observe and of the `state` before. `side` names this call's unspecified bits.
    """
    seen = [
        observed(world, abi.argument, register, ctype)
        for register, ctype in zip(registers, prototype.params, strict=False)
    ]
    zero = world.bits(REGISTER).const(0)
    padded = seen + [zero] * (BPF_ARGUMENTS - len(seen))
    arguments = [(word, REGISTER) for word in [address, *padded, state]]
    result = prototype.result
    if result.bits == 0:
        value = world.fresh(f"{side}: register left by a void function", REGISTER)
    else:
        raw = world.apply(f"result{result.bits}", result.bits, arguments)
        value = in_register(world, abi.result, raw, result, f"{side}: unspecified upper bits of the result")
    return Effect(
        value,
        world.apply("memory", REGISTER, arguments),
        world.apply("kernel", REGISTER, arguments),
        world.apply("callbacks", REGISTER, arguments),
    )
