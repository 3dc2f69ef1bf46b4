"""Programs that show a refuted Dispatch claim on a real kernel: assembly, C, and the steps.

Where a direct call loses the sign of an error, a call that fails shows it: the same call twice in one program, once
as the kernel rewrites it, once with two maps that can reach it, so that the helper stays. Each failing call changes
nothing, so both get the same answer from a right kernel.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

from rich.console import Console

from model.errors import InputError
from model.kernel.release import Release
from proofs.obligation import Refuted
from proofs.report.text import clean
from proofs.reproduce_claims import Example, examples
from proofs.site import Site
from proofs.solver import Result

EEXIST, ENOENT, EINVAL = 17, 2, 22
NO_PREALLOC = 1
VALUE = 8


@dataclass(frozen=True, slots=True)
class Failing:
    """A call that fails on a new map of one of `types`: with `flags`, after an element was put in (`filled`)."""

    helper: str
    types: frozenset[str]
    errno: int
    flags: int
    filled: bool
    what: str
    source: str


ARRAYS = frozenset({"array", "percpu_array"})
HASHES = frozenset({"hash", "percpu_hash", "lru_hash", "lru_percpu_hash"})
TRIE = frozenset({"lpm_trie"})
QUEUES = frozenset({"queue", "stack"})
BLOOM = frozenset({"bloom_filter"})
PRESENT = "update with BPF_NOEXIST of a key that is there"
ABSENT = "delete of a key that is not there"
ROWS = (
    Failing("map_update_elem", ARRAYS, EEXIST, 1, False, "update of an array, BPF_NOEXIST", "array_map_update_elem"),
    Failing("map_update_elem", HASHES, EEXIST, 1, True, PRESENT, "check_flags"),
    Failing("map_update_elem", TRIE, EEXIST, 1, True, PRESENT, "trie_update_elem"),
    Failing("map_delete_elem", ARRAYS, EINVAL, 0, False, "delete from an array", "array_map_delete_elem"),
    Failing("map_delete_elem", HASHES, ENOENT, 0, False, ABSENT, "htab_map_delete_elem"),
    Failing("map_delete_elem", TRIE, ENOENT, 0, False, ABSENT, "trie_delete_elem"),
    Failing("map_push_elem", QUEUES, EINVAL, 1, False, "push with BPF_NOEXIST", "queue_stack_map_push_elem"),
    Failing("map_push_elem", BLOOM, EINVAL, 1, False, "push with a flag", "bloom_map_push_elem"),
    Failing("map_pop_elem", QUEUES, ENOENT, 0, False, "pop from an empty map", "__queue_map_get, __stack_map_get"),
    Failing("map_peek_elem", QUEUES, ENOENT, 0, False, "peek into an empty map", "__queue_map_get, __stack_map_get"),
    Failing("map_peek_elem", BLOOM, ENOENT, 0, False, "peek for a value that is not there", "bloom_map_peek_elem"),
    Failing("for_each_map_elem", ARRAYS, EINVAL, 1, False, "for_each with a flag", "bpf_for_each_array_elem"),
    Failing("for_each_map_elem", HASHES, EINVAL, 1, False, "for_each with a flag", "bpf_for_each_hash_elem"),
)
FOR_EACH = "for_each_map_elem"
LOOKUP = "map_lookup_elem"


@dataclass(frozen=True, slots=True)
class Case:
    """One refuted claim and the call that shows it. `kept`: a second call, that the release leaves to the helper."""

    name: str
    map_type: str
    failing: Failing
    kept: bool


def cases(results: Iterable[Result], release: Release) -> tuple[list[Case], list[str]]:
    """A case for each refuted claim whose result differs, and the names of refuted claims that have none."""
    found: dict[str, Case] = {}
    without: list[str] = []
    for result in results:
        name = result.obligation.name
        path = name.split("/")
        if not isinstance(result.verdict, Refuted) or path[0] != "dispatch" or len(path) != 6:
            continue
        _, _, _, map_type, helper, part = path
        row = next((row for row in ROWS if row.helper == helper and map_type in row.types), None)
        if row is None or part != "r0":
            without.append(name)
            continue
        kept = helper != FOR_EACH or release.poison_for_each == "stays"
        found.setdefault(name, Case("-".join(path[1:5]), map_type, row, kept))
    return list(found.values()), without


def of_sites(sites: Iterable[Site], release: Release) -> tuple[list[Case], list[str]]:
    return cases((result for site in sites for result in site.results), release)


def write(directory: str, made: tuple[list[Case], list[str]], release: Release, out: Console) -> None:
    """A directory for each case in `directory`, and a line about each. Raises `InputError` where it cannot write."""
    found, without = made
    whole = [Example(case.name, case.failing.what, files(case, release)) for case in found]
    _write(directory, whole, [f"{name}: no call is known that shows it" for name in without], out)


def write_all(directory: str, results: Sequence[Result], release: Release, out: Console) -> None:
    """As `write`, for claims of any family."""
    (found, without), (more, none) = cases(results, release), examples(results, release)
    whole = [Example(case.name, case.failing.what, files(case, release)) for case in found] + more
    _write(directory, whole, [*(f"{name}: no call is known that shows it" for name in without), *none], out)


def _write(directory: str, found: Sequence[Example], without: Sequence[str], out: Console) -> None:
    for one in found:
        place = Path(directory) / one.name
        try:
            place.mkdir(parents=True, exist_ok=True)
            for name, text in one.texts.items():
                (place / name).write_text(text, encoding="utf-8")
        except OSError as error:
            raise InputError(str(place), "", f"cannot be written: {error.strerror}") from None
        out.print(clean(f"reproduce: {place}: {one.what}"), markup=False, soft_wrap=True)
    for line in without:
        out.print(clean(f"reproduce: {line}"), markup=False, soft_wrap=True)
    if not found and not without:
        out.print("reproduce: no claim is refuted: nothing to write", markup=False)


def files(case: Case, release: Release) -> dict[str, str]:
    return {
        "prog.asm": assembly(case),
        "prog.bpf.c": c_source(case, release),
        "README": readme(case, release),
    }


def _sizes(map_type: str) -> tuple[int, int]:
    """Bytes of a key, and flags of the map."""
    if map_type in QUEUES | BLOOM:
        return 0, 0
    return (8, NO_PREALLOC) if map_type == "lpm_trie" else (4, 0)


def assembly(case: Case) -> str:
    """The program in this project's syntax; the packet's length is in r7, which decides on a map where both can be."""
    row, (key, flags) = case.failing, _sizes(case.map_type)
    made = f"{case.map_type} {key} {VALUE} 2" + (f" flags={flags}" if flags else "")
    lines = [f"; {row.what}: -{row.errno}", f".map m {made}", *([f".map other {made}"] if case.kept else [])]
    lines += [".map out array 4 16 1", "r7 = *(u32 *)(r1 +0)", "r9 = map[out][0]+0"]
    lines += ["*(u64 *)(r10 -8) = 0", f"*(u64 *)(r10 -16) = {7}"]
    if row.filled:
        lines += [*_arguments("map_update_elem", 0), "r1 = map[m]", "call bpf_map_update_elem"]
    lines += [*_arguments(row.helper, row.flags), "r1 = map[m]", f"call bpf_{row.helper}"]
    lines += ["*(u64 *)(r9 +0) = r0", "r6 = r0"]
    if case.kept:
        lines += [*_arguments(row.helper, row.flags), "r1 = map[other]", "if r7 == 77777 goto kept", "r1 = map[m]"]
        lines += [f"kept: call bpf_{row.helper}"]
    else:
        lines += [f"r0 = -{row.errno}"]
    lines += ["*(u64 *)(r9 +8) = r0", "if r6 != r0 goto differ", "r0 = 0", "exit", "differ: r0 = 1", "exit"]
    if row.helper == FOR_EACH:
        lines += [".func visit", "r0 = 0", "exit"]
    return "\n".join(lines) + "\n"


def _arguments(helper: str, flags: int) -> list[str]:
    """r2 and following: the key is at r10 - 8, the value at r10 - 16."""
    key, value = ["r2 = r10", "r2 += -8"], ["r2 = r10", "r2 += -16"]
    match helper:
        case "map_update_elem":
            return [*key, "r3 = r10", "r3 += -16", f"r4 = {flags}"]
        case "map_delete_elem":
            return key
        case "map_push_elem":
            return [*value, f"r3 = {flags}"]
        case "for_each_map_elem":
            return ["r2 = subprog visit", "r3 = 0", f"r4 = {flags}"]
    return value


CALLS: Mapping[str, tuple[str, str]] = {
    "map_update_elem": ("void *map, const void *key, const void *value, u64 flags", "&key, &value, {flags}"),
    "map_delete_elem": ("void *map, const void *key", "&key"),
    "map_push_elem": ("void *map, const void *value, u64 flags", "&value, {flags}"),
    "map_pop_elem": ("void *map, void *value", "&value"),
    "map_peek_elem": ("void *map, void *value", "&value"),
    "for_each_map_elem": ("void *map, void *callback, void *ctx, u64 flags", "visit, 0, {flags}"),
}
"""Parameters of helpers in C, and the arguments behind the map."""


def c_source(case: Case, release: Release) -> str:
    """C for `clang -target bpf`, with maps as libbpf reads them; needs no header."""
    row, (key, flags) = case.failing, _sizes(case.map_type)
    ids = release.helper_ids
    used = dict.fromkeys([row.helper, *(["map_update_elem"] if row.filled else [])])
    helpers = "\n".join(f"static long (*const bpf_{name})({CALLS[name][0]}) = (void *){ids[name]};" for name in used)
    number = release.map_types[case.map_type].number
    fields = f"UINT(type, {number}); UINT(max_entries, 2); UINT(value_size, {VALUE});"
    fields += f" UINT(key_size, {key});" if key else ""
    fields += f" UINT(map_flags, {flags});" if flags else ""
    maps = "\n".join(f'struct {{ {fields} }} {name} SEC(".maps");' for name in ["m", *(["other"] if case.kept else [])])
    call = f"bpf_{row.helper}({{}}, {CALLS[row.helper][1].format(flags=row.flags)})"
    fill = f"    bpf_map_update_elem(&m, {CALLS['map_update_elem'][1].format(flags=0)});\n" if row.filled else ""
    visit = (
        "static long visit(void *map, void *key, void *value, void *ctx)\n{\n    return 0;\n}\n\n"
        if row.helper == FOR_EACH
        else ""
    )
    kept = f"    kept = {call.format('*(volatile u32 *)skb == 77777 ? (void *)&other : (void *)&m')};\n"
    kept = kept if case.kept else f"    kept = -{row.errno};\n"
    return "\n".join(
        [
            f"// {row.what}: -{row.errno} ({row.source}).",
            "// clang -O2 -g -target bpf -c prog.bpf.c -o prog.bpf.o",
            "typedef unsigned int u32;",
            "typedef unsigned long long u64;",
            "#define SEC(name) __attribute__((section(name), used))",
            "#define UINT(name, value) int (*name)[value]",
            "",
            f"static void *(*const bpf_map_lookup_elem)(void *map, const void *key) = (void *){ids[LOOKUP]};",
            helpers,
            "",
            "struct result { u64 direct, kept; };",
            maps,
            f"struct {{ UINT(type, {release.map_types['array'].number}); UINT(max_entries, 1); UINT(key_size, 4); "
            'UINT(value_size, 16); } out SEC(".maps");',
            "",
            f'{visit}SEC("socket") int prog(void *skb)',
            "{",
            "    u32 zero = 0;",
            *[f"    u64 {name} = {value};" for name, value in (("key", 0), ("value", 7)) if f"&{name}" in call + fill],
            "    long direct, kept;",
            "    struct result *result = bpf_map_lookup_elem(&out, &zero);",
            "",
            "    if (!result)",
            "        return 2;",
            f"{fill}    direct = {call.format('&m')};",
            f"{kept}    result->direct = direct;",
            "    result->kept = kept;",
            "    return direct != kept;",
            "}",
            "",
            'char _license[] SEC("license") = "GPL";',
            "",
        ]
    )


def readme(case: Case, release: Release) -> str:
    row = case.failing
    error = (1 << 64) - row.errno
    direct = error & 0xFFFFFFFF
    if case.kept:
        other = 'once with two maps that can reach it, which leaves the helper in place ("kept").'
    else:
        other = (
            f'and holds it against -{row.errno} ("kept": this release refuses a second map at such a call; to see the\n'
            "helper's own answer, load with `sysctl net.core.bpf_jit_enable=0`, which leaves the helper in place)."
        )
    return dedent(
        f"""\
        {case.name}: {row.what}

        The call fails with -{row.errno} ({row.source}). prog calls it once as the kernel rewrites it ("direct"),
        {{other}}

        Expected on Linux {release.version} (release {release.name}), JIT on:
          kept    r0 = 0x{error:016x} ({-row.errno})
          direct  r0 = 0x{direct:016x} ({direct}): the upper 32 bits are what the operation leaves, zeros mostly
          the test run returns 1
        Expected where the claim is proved (Linux 6.4 and later return long):
          both    r0 = 0x{error:016x} ({-row.errno})
          the test run returns 0

        Build, load and run (as root; nothing is attached):
          clang -O2 -g -target bpf -c prog.bpf.c -o prog.bpf.o
          mount -t bpf bpf /sys/fs/bpf 2>/dev/null
          bpftool prog load prog.bpf.o /sys/fs/bpf/reproduce
          bpftool prog dump xlated pinned /sys/fs/bpf/reproduce      which call is direct
          head -c 64 /dev/zero > packet
          bpftool prog run pinned /sys/fs/bpf/reproduce data_in packet repeat 1
          bpftool map dump name out                                  direct, then kept, 8 bytes each
          rm /sys/fs/bpf/reproduce

        prog.asm is the same program for the model:
          python -m proofs check prog.asm --kernel {release.name}
        """
    ).replace("{other}", other)
