"""Calls of C functions from BPF: conversions of C, and what an ABI says of narrow values.

Conversions: C11 6.3.1.3 (integer to integer). Extension of arguments and results narrower than a
register: the row in `model.kernel.abi`.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic

from model.bits import Bits
from model.errors import Unsupported
from model.kernel.abi import Abi, Extension
from model.kernel.release import CType, Prototype
from model.memory import Outside
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
class Callee:
    """A C function by its symbol; `prototype` is that of its definition."""

    symbol: str
    prototype: Prototype


def address_of(world: World[W, B], symbol: str) -> W:
    """&symbol, 64 bits: within 2 GiB of `__bpf_call_base`, as the kernel's image and modules are on each 64-bit JIT.

    (arch/*/include/asm/module.h and vmalloc layouts; `BPF_CALL_IMM` keeps 32 bits of the difference.)
    """
    if symbol == "__bpf_call_base":
        return world.fresh("__bpf_call_base", REGISTER)
    distance = world.fresh(f"&{symbol} - __bpf_call_base", 32)
    return world.bits(REGISTER).add(world.fresh("__bpf_call_base", REGISTER), world.bits(32).sext(distance, REGISTER))


def _observations(
    world: World[W, B], abi: Abi, callee: Callee, registers: Sequence[W], outside: Outside[W, B]
) -> list[tuple[W, int]]:
    """What `callee` may depend on: its address, its arguments as it may see them, the world outside."""
    params = callee.prototype.params
    if len(params) > len(registers):
        raise Unsupported(f"{callee.symbol} takes {len(params)} arguments, more than {len(registers)} registers")
    seen = [observed(world, abi.argument, register, ctype) for register, ctype in zip(registers, params, strict=False)]
    seen += [world.bits(REGISTER).const(0)] * (BPF_ARGUMENTS - len(seen))
    words = [address_of(world, callee.symbol), *seen, outside.memory, outside.kernel, outside.callbacks]
    return [(word, REGISTER) for word in words]


@dataclass(frozen=True, slots=True)
class Return(Generic[W, B]):
    """What a call leaves: the return register (64 bits), the arguments that the callee saw, and the world outside."""

    register: W
    seen: tuple[W, ...]
    outside: Outside[W, B]


def enter(
    world: World[W, B], abi: Abi, callee: Callee, registers: Sequence[W], outside: Outside[W, B], side: str
) -> Return[W, B]:
    """`callee` entered with the argument `registers` (64 bits each). Its body is unknown: any body.

    All that it does is an unknown function of what it can observe. `side` names this call's unspecified
    bits, which two calls need not share.
    """
    arguments = _observations(world, abi, callee, registers, outside)
    result = callee.prototype.result
    if result.bits == 0:
        register = world.fresh(f"{side}: register left by a void function", REGISTER)
    else:
        value = world.apply(f"result{result.bits}", result.bits, arguments)
        register = in_register(world, abi.result, value, result, f"{side}: unspecified upper bits of the result")
    after = Outside(
        world,
        world.apply("memory", REGISTER, arguments),
        world.apply("kernel", REGISTER, arguments),
        world.apply("callbacks", REGISTER, arguments),
    )
    return Return(register, tuple(word for word, _ in arguments[1 : 1 + BPF_ARGUMENTS]), after)


def call_address(
    world: World[W, B],
    abi: Abi,
    callees: Sequence[Callee],
    target: W,
    registers: Sequence[W],
    outside: Outside[W, B],
    side: str,
) -> Return[W, B]:
    """A call through the address `target`: of whichever of `callees` is there, or of code that is not known at all."""
    b = world.bits(REGISTER)
    elsewhere = [world.fresh(f"{side}: call of unknown code: {what}", REGISTER) for what in ("r0", "memory", "kernel")]
    callbacks = world.fresh(f"{side}: call of unknown code: callbacks", REGISTER)
    left = Return(elsewhere[0], tuple(registers[:BPF_ARGUMENTS]), Outside(world, elsewhere[1], elsewhere[2], callbacks))
    for callee in callees:
        here = b.eq(target, address_of(world, callee.symbol))
        left = choose(b, here, enter(world, abi, callee, registers, outside, side), left)
    return left


def choose(b: Bits[W, B], condition: B, one: Return[W, B], other: Return[W, B]) -> Return[W, B]:
    """`one` where `condition` holds, else `other`, field by field."""
    pick = functools.partial(b.ite, condition)
    outside = Outside(
        one.outside.world,
        pick(one.outside.memory, other.outside.memory),
        pick(one.outside.kernel, other.outside.kernel),
        pick(one.outside.callbacks, other.outside.callbacks),
    )
    seen = tuple(pick(x, y) for x, y in zip(one.seen, other.seen, strict=True))
    return Return(pick(one.register, other.register), seen, outside)
