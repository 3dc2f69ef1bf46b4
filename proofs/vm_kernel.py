"""What a guest's kernel tells of itself, and its two states: with the JIT, which rewrites, and without."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from model.errors import InputError, Unsupported
from model.kernel.release import Release
from model.loaders.kernel_symbols import parse_symbols
from model.loaders.vm.guest import Guest

BASE = "__bpf_call_base"
JIT = "/proc/sys/net/core/bpf_jit_enable"
KALLSYMS = "/proc/kallsyms"
AT_ONCE = 50
"""Texts that are looked for at once."""


@dataclass(frozen=True, slots=True)
class About:
    version: str
    build: str


def about(guest: Guest, release: Release) -> About:
    """Raises `InputError` where the kernel is none of `release`."""
    version, build = (
        " ".join(guest.lines(f"/proc/sys/kernel/{name}"))[:200] or "not told" for name in ("osrelease", "version")
    )
    if not f"{version}.".startswith(f"{release.name}."):
        raise InputError("--image", version, f"expected a kernel of {release.name}")
    return About(version, build)


def switch(guest: Guest, *, jit: bool) -> None:
    """Raises `Unsupported` where the kernel does not let the JIT be switched (CONFIG_BPF_JIT_ALWAYS_ON)."""
    wanted = b"1" if jit else b"0"
    guest.store(JIT, wanted)
    found = guest.lines(JIT)
    if found != [wanted.decode()]:
        raise Unsupported(f"net.core.bpf_jit_enable stays {' '.join(found)[:20] or 'unreadable'} in the guest")


def named(guest: Guest, distances: Iterable[int]) -> Mapping[int, Sequence[str]]:
    """The names of functions by their distance from __bpf_call_base; Raises `Unsupported` where symbols are hidden."""
    lines = guest.lines(KALLSYMS, [f" {BASE}"])
    try:
        base = parse_symbols("\n".join(lines), KALLSYMS).places(BASE)[0]
    except (InputError, IndexError):
        raise Unsupported(f"the guest's {KALLSYMS} does not tell {BASE}") from None
    wanted = {distance: (base + distance) & ((1 << 64) - 1) for distance in distances}
    texts = [f"{address:016x} " for address in sorted(set(wanted.values()))]
    for start in range(0, len(texts), AT_ONCE):
        lines += guest.lines(KALLSYMS, texts[start : start + AT_ONCE])
    symbols = parse_symbols("\n".join(lines), KALLSYMS)
    return {distance: symbols.names(address) for distance, address in wanted.items()}
