"""Programs that show refuted Inline and Callback claims on a real kernel: C for libbpf, and the steps.

What takes a map of 2^31 entries has none: 16 GiB of memory, and a lookup beyond them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from textwrap import dedent

from model.kernel.release import Release
from model.maps.state import BPF_F_ZERO_SEED
from proofs.causes import ENTRIES
from proofs.obligation import Refuted
from proofs.properties.callback import Callback
from proofs.properties.inline import Inline
from proofs.solver import Result

HUGE = "it takes a map of 2^31 entries: 16 GiB of memory or more"
UNORDERED = "the order of its elements is not defined, so no callback can choose what is next"


@dataclass(frozen=True, slots=True)
class Example:
    """A directory's `name`, what the program does, and the texts of its files."""

    name: str
    what: str
    texts: Mapping[str, str]


def examples(results: Iterable[Result], release: Release) -> tuple[list[Example], list[str]]:
    """An example for each refuted claim that has one, and a line about each of the others."""
    found: dict[str, Example] = {}
    without: dict[str, None] = {}
    for result in results:
        claim, verdict = result.obligation.claim, result.verdict
        if not isinstance(verdict, Refuted) or not isinstance(claim, Inline | Callback):
            continue
        name = "-".join((release.name, claim.map_type, "inner" if isinstance(claim, Inline) else "for_each"))
        shown = {word.label: word.value for word in verdict.counterexample.shown}
        if isinstance(claim, Callback) and claim.kind == "hash" and result.obligation.part in ("count", "end"):
            found.setdefault(name, _endless(name, claim.map_type, release))
        elif isinstance(claim, Inline) and claim.inner and shown[f"template->{ENTRIES}"] != shown[f"map->{ENTRIES}"]:
            found.setdefault(name, _template(name, claim.map_type, release))
        else:
            rhash = isinstance(claim, Callback) and claim.kind == "rhash"
            without[f"{result.obligation.name}: {UNORDERED if rhash else HUGE}"] = None
    return list(found.values()), list(without)


HEAD = """\
// clang -O2 -g -target bpf -c prog.bpf.c -o prog.bpf.o
typedef unsigned int u32;
typedef unsigned long long u64;
#define SEC(name) __attribute__((section(name), used))
#define UINT(name, value) int (*name)[value]

"""
OUT = """\
struct result { u64 first, second; };
struct { UINT(type, ARRAY); UINT(max_entries, 1); UINT(key_size, 4); UINT(value_size, 16); } out SEC(".maps");

"""
LICENSE = '\nchar _license[] SEC("license") = "GPL";\n'
HELPERS = {
    "map_lookup_elem": "void *(*const bpf_map_lookup_elem)(void *map, const void *key)",
    "map_update_elem": "long (*const bpf_map_update_elem)(void *map, const void *key, const void *value, u64 flags)",
    "map_delete_elem": "long (*const bpf_map_delete_elem)(void *map, const void *key)",
    "for_each_map_elem": "long (*const bpf_for_each_map_elem)(void *map, void *callback, void *ctx, u64 flags)",
    "ktime_get_ns": "u64 (*const bpf_ktime_get_ns)(void)",
}
STEPS = """\

Build, load and run (as root; nothing is attached):
  clang -O2 -g -target bpf -c prog.bpf.c -o prog.bpf.o
  mount -t bpf bpf /sys/fs/bpf 2>/dev/null
  bpftool prog load prog.bpf.o /sys/fs/bpf/reproduce
  bpftool prog dump xlated pinned /sys/fs/bpf/reproduce
  head -c 64 /dev/zero > packet
  bpftool prog run pinned /sys/fs/bpf/reproduce data_in packet repeat 1
  bpftool map dump name out                                  the two words below, 8 bytes each
  rm /sys/fs/bpf/reproduce
"""


def _source(release: Release, helpers: tuple[str, ...], body: str) -> str:
    made = [f"static {HELPERS[name]} = (void *){release.helper_ids[name]};" for name in helpers]
    array = str(release.map_types["array"].number)
    return HEAD + "\n".join(made) + "\n\n" + OUT.replace("ARRAY", array) + dedent(body) + LICENSE


def _template(name: str, map_type: str, release: Release) -> Example:
    """An inner map of four entries for a template of one. The clock keeps the second lookup a helper's call."""
    types = release.map_types
    fields = f"UINT(type, {types[map_type].number}); UINT(max_entries, %d); UINT(key_size, 4); UINT(value_size, 8);"
    body = f"""\
        struct one {{ {fields % 1} }} one SEC(".maps");
        struct {{ {fields % 4} }} four SEC(".maps"), other SEC(".maps");
        struct {{
            UINT(type, {types["array_of_maps"].number}); UINT(max_entries, 1); UINT(key_size, 4); UINT(value_size, 4);
            struct one *values[];
        }} outer SEC(".maps") = {{ .values = {{ (void *)&four }} }};

        SEC("socket") int prog(void *skb)
        {{
            u32 zero = 0, key = 3;
            struct result *result = bpf_map_lookup_elem(&out, &zero);
            void *inner = bpf_map_lookup_elem(&outer, &zero);

            if (!result || !inner)
                return 2;
            result->first = bpf_map_lookup_elem(inner, &key) != 0;
            if (!bpf_ktime_get_ns())
                inner = &other;
            result->second = bpf_map_lookup_elem(inner, &key) != 0;
            return result->first != result->second;
        }}
    """
    told = f"""\
        {name}: element 3 of an inner map of four entries, whose template has one

        prog looks it up twice: inlined, with the template's number of entries, and by the helper (a second map can
        reach that call).

        Expected on Linux {release.version} (release {release.name}), JIT on:
          inlined 0 (not found), helper 1 (found); the test run returns 1
        Expected where the claim is proved (7.3: such a map is not let in):
          the load fails with -EINVAL where the element of `outer` is set
    """
    texts = {"prog.bpf.c": _source(release, ("map_lookup_elem", "ktime_get_ns"), body), "README": dedent(told) + STEPS}
    return Example(name, "a lookup in an inner map that is larger than its template", texts)


def _endless(name: str, map_type: str, release: Release) -> Example:
    """Two elements in one bucket; each callback deletes the other one and inserts it again."""
    number = release.map_types[map_type].number
    body = f"""\
        #ifndef CALLBACKS
        #define CALLBACKS 0x80000000ULL
        #endif
        struct {{
            UINT(type, {number}); UINT(max_entries, 4); UINT(key_size, 4); UINT(value_size, 8);
            UINT(map_flags, {BPF_F_ZERO_SEED});
        }} m SEC(".maps");

        static long visit(void *map, u32 *key, void *value, void *context)
        {{
            u32 zero = 0, other = *key == 7 ? 6 : 7;
            struct result *result = bpf_map_lookup_elem(&out, &zero);
            u64 one = 1;

            if (!result || ++result->second >= CALLBACKS)
                return 1;
            bpf_map_delete_elem(map, &other);
            bpf_map_update_elem(map, &other, &one, 0);
            return 0;
        }}

        SEC("socket") int prog(void *skb)
        {{
            u32 zero = 0, six = 6, seven = 7;
            u64 one = 1;
            struct result *result = bpf_map_lookup_elem(&out, &zero);

            if (!result)
                return 2;
            bpf_map_update_elem(&m, &six, &one, 0);
            bpf_map_update_elem(&m, &seven, &one, 0);
            result->second = 0;
            result->first = bpf_for_each_map_elem(&m, visit, 0, 0);
            return result->first != result->second;
        }}
    """
    told = f"""\
        {name}: a walk of 2^31 callbacks through a map of two elements

        Both keys are in one bucket (BPF_F_ZERO_SEED). Each callback deletes the other element and inserts it again:
        its memory, freed last, is used for it, so that the walk goes on there. The callback ends the walk.

        It takes minutes, in which the CPU does nothing else: on a machine for tests, with warnings of stalls. With
        -DCALLBACKS=1000 it only shows that a walk has more callbacks than the map has entries, at once.

        Expected on Linux {release.version} (release {release.name}):
          counted 0xffffffff80000000 (the low half on releases whose walks return int, called directly)
          made    0x0000000080000000; the test run returns 1
        Expected with -DCALLBACKS=1000, and where the claim is proved:
          both alike; the test run returns 0
    """
    helpers = ("map_lookup_elem", "map_update_elem", "map_delete_elem", "for_each_map_elem")
    texts = {"prog.bpf.c": _source(release, helpers, body), "README": dedent(told) + STEPS}
    return Example(name, "a walk with 2^31 callbacks through a map of two elements", texts)
