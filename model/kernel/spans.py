"""What differs from release to release, as rows: the releases between which each holds, and the commit that began it.

A row says what was read: it holds in every release from `first` to `last`. Between two rows of one subject lie releases
of which nothing is said (`at` gives None), and what would need it is a hole. The rows serve releases that are made from
a table of operations (`model.kernel.convert`); a release that is extracted from a tree needs none of them.
"""

from dataclasses import dataclass

from model.kernel.nearest import version_numbers

MAP = "struct bpf_map *"
BASIC = ("hash", "array", "percpu_hash", "percpu_array", "lru_hash", "lru_percpu_hash")
PERCPU = ("percpu_hash", "percpu_array", "lru_percpu_hash")
ANY = ""  # no end
NO_DISPATCH = "asks no operation of the map"


@dataclass(frozen=True, slots=True)
class Span:
    """`value` of `subject` in all releases from `first` to `last` (6.8 is 6.8.y as a whole), "" for no end.

    `commit` began it, "" where it is as old as the first release, or no commit is known to have.
    """

    subject: str
    value: str
    first: str
    last: str = ANY
    commit: str = ""

    def covers(self, version: str) -> bool:
        asked, last = version_numbers(version), version_numbers(self.last)
        return version_numbers(self.first) <= asked and (not last or asked[: len(last)] <= last)

    @property
    def text(self) -> str:
        """The row in one line, as provenance."""
        ends = f"{self.first} to {self.last}" if self.last else f"since {self.first}"
        return f"row {self.subject}: {self.value or 'none'}, {ends}" + (f", {self.commit}" if self.commit else "")


def _helper(name: str, rest: str, first: str, last: str = ANY, commit: str = "") -> Span:
    """`rest` are the types of the BPF_CALL_n parameters behind the map."""
    return Span(f"helper/{name}", ", ".join(filter(None, (MAP, rest))), first, last, commit)


def _no_helper(name: str, last: str) -> Span:
    """There is no helper of this name."""
    return Span(f"helper/{name}", "", "4.19", last)


def _rewrite(name: str, result: str, first: str, last: str = ANY, commit: str = "") -> Span:
    """`result` is what BUILD_BUG_ON demands of the operation's result."""
    return Span(f"rewrite/{name}", result, first, last, commit)


# In 6.3.y the results became long with 6.3.2 (d7ba4cc900bf, 6.4).
WORDS = ("4.19", "6.3.1"), ("6.3.2", ANY)
LONG = "d7ba4cc900bf"

HELPERS = (
    _helper("map_lookup_elem", "void *", "4.19"),
    _helper("map_update_elem", "void *, void *, u64", "4.19"),
    _helper("map_delete_elem", "void *", "4.19"),
    _no_helper("map_push_elem", "4.19"),
    _no_helper("map_pop_elem", "4.19"),
    _no_helper("map_peek_elem", "4.19"),
    _helper("map_push_elem", "void *, u64", "4.20"),
    _helper("map_pop_elem", "void *", "4.20"),
    _helper("map_peek_elem", "void *", "4.20"),
    Span("helper/redirect_map", NO_DISPATCH, "4.19", "5.12"),
    _helper("redirect_map", "u32, u64", "5.15", "6.1", "ee75aef23afe"),
    _helper("redirect_map", "u64, u64", "6.2", commit="32637e33003f"),
    _no_helper("for_each_map_elem", "5.12"),
    _helper("for_each_map_elem", "void *, void *, u64", "5.15"),
    _no_helper("map_lookup_percpu_elem", "5.18"),
    _helper("map_lookup_percpu_elem", "void *, u32", "5.19", commit="07343110b293"),
)

REWRITES = (
    _rewrite("map_lookup_elem", "void *", "4.19", commit="09772d92cd5a"),
    _rewrite("map_update_elem", "int", *WORDS[0], "09772d92cd5a"),
    _rewrite("map_update_elem", "long", *WORDS[1], LONG),
    _rewrite("map_delete_elem", "int", *WORDS[0], "09772d92cd5a"),
    _rewrite("map_delete_elem", "long", *WORDS[1], LONG),
    _rewrite("map_push_elem", "", "4.19", "4.19"),
    _rewrite("map_push_elem", "int", "5.4", "6.3.1", "84430d4232c3"),
    _rewrite("map_push_elem", "long", *WORDS[1], LONG),
    _rewrite("map_pop_elem", "", "4.19", "4.19"),
    _rewrite("map_pop_elem", "int", "5.4", "6.3.1", "84430d4232c3"),
    _rewrite("map_pop_elem", "long", *WORDS[1], LONG),
    _rewrite("map_peek_elem", "", "4.19", "4.19"),
    _rewrite("map_peek_elem", "int", "5.4", "6.3.1", "84430d4232c3"),
    _rewrite("map_peek_elem", "long", *WORDS[1], LONG),
    _rewrite("redirect_map", "", "4.19", "5.12"),
    _rewrite("redirect_map", "int", "5.15", "6.3.1", "e6a4750ffe9d"),
    _rewrite("redirect_map", "long", *WORDS[1], LONG),
    _rewrite("for_each_map_elem", "", "4.19", "5.15"),
    _rewrite("for_each_map_elem", "int", "5.16", "6.3.1", "0640c77c46cb"),
    _rewrite("for_each_map_elem", "long", *WORDS[1], LONG),
    _rewrite("map_lookup_percpu_elem", "", "4.19", "5.18"),
    _rewrite("map_lookup_percpu_elem", "void *", "5.19", commit="07343110b293"),
)

PASS = (
    Span("pass", "fixup_bpf_calls kernel/bpf/verifier.c", "4.19", "5.12"),
    Span("pass", "do_misc_fixups kernel/bpf/verifier.c", "5.15", "6.19"),
    Span("pass", "bpf_do_misc_fixups kernel/bpf/fixups.c", "7.2"),
    Span("insn_buf", "16", "4.19", "6.11"),
    Span("insn_buf", "32", "6.12"),
    Span("poison_for_each", "", "4.19", "5.12"),
    Span("poison_for_each", "refused", "5.15", "6.8"),
    Span("poison_for_each", "stays", "6.10", commit="9d482da9e17a"),
)


def _accepted(types: tuple[str, ...], helpers: str, first: str, condition: str = "") -> tuple[Span, ...]:
    """The verifier takes each of `helpers` with each of `types`."""
    return tuple(
        Span(f"accepted/{kind}/{name}", condition or "yes", first) for kind in types for name in helpers.split()
    )


# Read in 5.10, 6.1, 6.12 and 7.3. Older releases are listed for types that no case of the check names (any helper whose
# arguments fit will do), and for maps of maps and queues, which are made for these calls. What 4.19 and 5.4 say of the
# others (device and socket maps, whose checks have changed) was not read.
PAIRS = (
    *_accepted((*BASIC, "lpm_trie"), "map_lookup_elem map_update_elem map_delete_elem", "4.19"),
    *_accepted(("array_of_maps", "hash_of_maps"), "map_lookup_elem", "4.19"),
    *_accepted(("queue", "stack"), "map_push_elem map_pop_elem map_peek_elem", "4.20"),
    *_accepted(("devmap", "devmap_hash", "xskmap", "sockmap", "sockhash"), "map_lookup_elem", "5.10"),
    *_accepted(("sockmap", "sockhash"), "map_update_elem map_delete_elem", "5.10", "for some program types"),
    *_accepted(("devmap", "devmap_hash", "xskmap", "cpumap"), "redirect_map", "5.15"),
    *_accepted(("bloom_filter",), "map_push_elem map_peek_elem", "5.16"),
    *_accepted(BASIC, "for_each_map_elem", "5.15"),
    *_accepted(PERCPU, "map_lookup_percpu_elem", "5.19"),
    *_accepted(("rhash",), "map_lookup_elem map_update_elem map_delete_elem for_each_map_elem", "7.2"),
)

SPANS = (*HELPERS, *REWRITES, *PASS, *PAIRS)


def at(subject: str, version: str) -> Span | None:
    """The row that says what `subject` is in `version`; None where none does. The first row where two do."""
    return next((row for row in SPANS if row.subject == subject and row.covers(version)), None)


def first(subject: str) -> str:
    """The first release that has `subject` (a value that is not ""), "" where no row knows one."""
    return next((row.first for row in SPANS if row.subject == subject and row.value), "")


def subjects(kind: str) -> tuple[str, ...]:
    """What the rows of a kind ("helper", "rewrite") are about, in the table's order: names."""
    names = (row.subject.partition("/")[2] for row in SPANS if row.subject.startswith(f"{kind}/"))
    return tuple(dict.fromkeys(names))
