"""Macros and inline functions of the kernel that map operations and their inlined forms use, by name.

include/linux/math.h (kernel.h up to 5.10) and include/linux/log2.h; the same text in 5.10, 6.1, 6.12 and 7.3.
"""

from model.bits import B, W
from model.errors import Unsupported
from model.kernel.c_body import Integer
from model.semantics.c_types import (
    INT,
    UNSIGNED_LONG,
    Value,
    binary,
    convert,
    divide,
    flag,
    integer,
    number,
    power,
    truth,
)
from model.world import World

U64_BITS = 64
MAX_ERRNO = 4095  # include/linux/err.h


def round_up(world: World[W, B], x: Value[W], multiple: int) -> Value[W]:
    """round_up(x, multiple), a power of two: ((x - 1) | (typeof(x))(multiple - 1)) + 1."""
    if power(multiple) is None:
        raise Unsupported(f"round_up to {multiple}, no power of two")
    mask = convert(world, number(world, multiple - 1, INT), integer(x))
    return binary(world, "+", binary(world, "|", binary(world, "-", x, _one(world)), mask), _one(world))


def roundup(world: World[W, B], x: Value[W], multiple: int) -> Value[W]:
    """roundup(x, multiple), any int: ((x + (multiple - 1)) / multiple) * multiple."""
    if multiple <= 0:
        raise Unsupported(f"roundup to {multiple}")
    count = divide(world, binary(world, "+", x, number(world, multiple - 1, INT)), multiple, INT)
    return binary(world, "*", count, number(world, multiple, INT))


def is_power_of_2(world: World[W, B], x: Value[W]) -> Value[W]:
    """is_power_of_2(unsigned long n): n != 0 && (n & (n - 1)) == 0."""
    n = convert(world, x, UNSIGNED_LONG)
    rest = binary(world, "&", n, binary(world, "-", n, _one(world)))
    bits = world.bits(U64_BITS)
    return flag(world, bits.conj(truth(world, n), bits.eq(rest.word, bits.const(0))))


def ilog2(world: World[W, B], x: Value[W]) -> Value[W]:
    """ilog2(n), an int: the index of n's highest set bit; -1 for 0 (fls(0) - 1). Raises `Unsupported` for signed n."""
    kind = integer(x)
    if kind.signed or kind.bits < INT.bits:
        raise Unsupported(f"ilog2 of {kind}")
    bits, result = world.bits(kind.bits), world.bits(INT.bits)
    found = result.const(-1)
    for index in range(kind.bits):
        found = result.ite(bits.ule(bits.const(1 << index), x.word), result.const(index), found)
    return Value(INT, found)


def this_cpu_address(world: World[W, B], pointer: W) -> W:
    """The address of this CPU's copy of what a per-CPU pointer names: unknown, but one for one pointer.

    this_cpu_ptr (include/linux/percpu-defs.h) and BPF_MOV64_PERCPU_REG (include/linux/filter.h) add the same offset of
    the CPU that runs the program; programs do not migrate (bpf_prog_run_pin_on_cpu, include/linux/filter.h).
    """
    return world.apply("this_cpu_ptr", 64, [(pointer, 64)])


def is_err(world: World[W, B], pointer: Value[W]) -> Value[W]:
    """IS_ERR(ptr) (include/linux/err.h): a pointer that is a negative errno, from -MAX_ERRNO on."""
    bits = world.bits(U64_BITS)
    return flag(world, bits.ule(bits.const(-MAX_ERRNO), convert(world, pointer, UNSIGNED_LONG).word))


def _one(world: World[W, B]) -> Value[W]:
    return number(world, 1, Integer(32, True))
