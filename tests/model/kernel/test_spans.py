"""The rows of what differs by release: literals typed from the kernel's history, not computed from the rows."""

import pytest

from model.kernel.data import available, load_release
from model.kernel.spans import NO_DISPATCH, SPANS, at, first, subjects

READ = [name for name in available() if not load_release(name).provenance]


@pytest.mark.parametrize(
    ("subject", "version", "value"),
    [
        ("insn_buf", "4.19.0", "16"),
        ("insn_buf", "6.11.9", "16"),
        ("insn_buf", "6.12", "32"),
        ("poison_for_each", "6.8.12", "refused"),
        ("poison_for_each", "6.10.0", "stays"),
        ("poison_for_each", "5.4.3", ""),
        ("helper/redirect_map", "5.4.3", NO_DISPATCH),
        ("helper/redirect_map", "6.1.192", "struct bpf_map *, u32, u64"),
        ("helper/redirect_map", "6.2.1", "struct bpf_map *, u64, u64"),
        ("helper/map_push_elem", "4.19.0", ""),
        ("helper/map_push_elem", "4.20", "struct bpf_map *, void *, u64"),
        ("rewrite/map_push_elem", "4.19.325", ""),
        ("rewrite/map_push_elem", "5.4.3", "int"),
        ("rewrite/map_update_elem", "6.3.1", "int"),
        ("rewrite/map_update_elem", "6.3.2", "long"),
        ("rewrite/map_lookup_elem", "7.3.4", "void *"),
        ("rewrite/for_each_map_elem", "5.15.215", ""),
        ("rewrite/for_each_map_elem", "5.16.10", "int"),
        ("rewrite/map_lookup_percpu_elem", "5.18.3", ""),
        ("rewrite/map_lookup_percpu_elem", "5.19.0", "void *"),
        ("pass", "5.4.3", "fixup_bpf_calls kernel/bpf/verifier.c"),
        ("pass", "6.19.0", "do_misc_fixups kernel/bpf/verifier.c"),
        ("accepted/bloom_filter/map_peek_elem", "5.16.10", "yes"),
    ],
)
def test_rows(subject: str, version: str, value: str) -> None:
    row = at(subject, version)
    assert row is not None
    assert row.value == value


@pytest.mark.parametrize(
    ("subject", "version"),
    [
        ("poison_for_each", "6.9.3"),  # 6.8 refuses, 6.10 keeps the helper; nobody looked between
        ("pass", "7.1"),
        ("rewrite/redirect_map", "5.13"),
        ("accepted/devmap/map_lookup_elem", "5.4.3"),
        ("accepted/sockmap/map_delete_elem", "4.19.0"),
        ("helper/nobody", "6.1"),
    ],
)
def test_between_the_rows_nothing_is_said(subject: str, version: str) -> None:
    assert at(subject, version) is None


def test_first() -> None:
    assert first("helper/map_lookup_percpu_elem") == "5.19"
    assert first("helper/redirect_map") == "4.19"
    assert first("helper/nobody") == ""


def test_no_two_rows_say_something_of_one_release() -> None:
    for subject in {row.subject for row in SPANS}:
        for version in (
            "4.19.0",
            "5.4.3",
            "5.10.223",
            "5.15.215",
            "5.19.0",
            "6.2.1",
            "6.3.1",
            "6.3.2",
            "6.12.1",
            "7.3.4",
        ):
            assert len([row for row in SPANS if row.subject == subject and row.covers(version)]) <= 1


@pytest.mark.parametrize("name", READ)
def test_the_rows_say_what_the_extracted_releases_say(name: str) -> None:
    """A second opinion in both directions: helpers with parameters, rewrites with results, pass, limits, pairs."""
    release = load_release(name)

    def value(subject: str) -> str:
        row = at(subject, release.version)
        return "?" if row is None else row.value

    for helper in subjects("helper"):
        found = release.helpers.get(helper)
        want = "" if found is None else ", ".join(kind.c for kind in found.params)
        assert value(f"helper/{helper}").replace(NO_DISPATCH, "") == want
    for helper in subjects("rewrite"):
        row = release.rewrite(helper)
        assert value(f"rewrite/{helper}") == ("" if row is None or row.prototype is None else row.prototype.result.c)
    assert {row.function + " " + row.file for row in release.rewrites} == {value("pass")}
    assert (value("insn_buf"), value("poison_for_each")) == (str(release.insn_buf), release.poison_for_each)
    accepted = {f"accepted/{kind}/{helper}" for helper, t in release.accepted.items() for kind in t if t[kind].accepted}
    rows = {row.subject for row in SPANS if row.subject.startswith("accepted/") and row.covers(release.version)}
    assert {row for row in rows if row.split("/")[1] in release.map_types} == accepted
