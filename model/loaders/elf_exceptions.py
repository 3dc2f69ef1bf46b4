"""Exception callbacks: what a program runs when it calls bpf_throw (6.7 and later).

A program names its callback by a BTF DECL_TAG "exception_callback:NAME" on its function (`__exception_cb`
of the kernel's bpf_experimental.h); libbpf 1.3 and later puts that subprogram behind everything else that
the program reaches (bpf_prog_assign_exc_cb), and the kernel verifies it as one more entry.
"""

from collections.abc import Sequence

from model.loaders.btf import Btf, Kind
from model.loaders.elf_functions import Function

_PREFIX = "exception_callback:"
_GLOBAL = 1


def callbacks(btf: Btf | None, functions: Sequence[Function]) -> dict[str, Function]:
    """Name of each program that has an exception callback -> the callback.

    Raises InputError for what libbpf or the kernel refuses: a tag on anything but a global function, two
    tags, a callback that is not there, is static or is itself a program.
    """
    if btf is None:
        return {}
    programs = {function.name for function in functions if function.entry}
    subprograms = {function.name: function for function in functions if not function.entry}
    found: dict[str, Function] = {}
    for id in btf.tags:
        tag = btf.type(id)
        if not tag.name.startswith(_PREFIX) or btf.component(tag) != -1:
            continue
        tagged = btf.type(tag.target)
        if tagged.kind != Kind.FUNC or btf.linkage(tagged) != _GLOBAL:
            raise btf.error(tag.at, f"tag {tag.name}: expected it on a program, found it on {tagged.kind.name}")
        if tagged.name not in programs:
            continue
        if tagged.name in found:
            raise btf.error(tag.at, f"program {tagged.name}: expected one exception callback, found several")
        name = tag.name.removeprefix(_PREFIX)
        callback = subprograms.get(name)
        if callback is None or callback.local:
            raise btf.error(tag.at, f"program {tagged.name}: expected {name!r} to be a global subprogram")
        found[tagged.name] = callback
    return found
