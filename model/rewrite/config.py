"""What the rewrite asks of the machine that loads the program, apart from the kernel's release."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Config:
    """`arch` as in `model.kernel.abi` (64-bit ones only); `jit`: the program is to be compiled (`jit_requested`).

    `unprivileged`: the maps were made without CAP_PERFMON, so `bypass_spec_v1` of arrays is false and
    their inlined lookups mask the index (`array_map_alloc`, 5.10 to 7.3).
    """

    arch: str = "x86_64"
    jit: bool = True
    unprivileged: bool = False
