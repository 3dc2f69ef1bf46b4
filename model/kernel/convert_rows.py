"""Helpers and the pass that rewrites their calls, for a release that is made from a table: by rows and neighbours."""

from collections.abc import Mapping

from model.kernel.draft import Draft
from model.kernel.neighbours import placeless
from model.kernel.release import DirectCall, Helper, Prototype
from model.kernel.spans import NO_DISPATCH, Span, at, subjects


def convert_helpers(draft: Draft, slots: Mapping[str, Prototype]) -> dict[str, Helper]:
    """The helpers that dispatch through a slot of this release."""
    helpers = {}
    alike = dict(draft.near.alike(lambda release: release.helpers))
    for name in subjects("helper"):
        row = at(f"helper/{name}", draft.table.version)
        if row is not None and row.value in ("", NO_DISPATCH):
            continue
        helper, source = alike.get(name), draft.near.source if name in alike else ""
        if helper is None and row is not None:
            helper, source = _by_row(draft, name, row)
        if helper is None:
            draft.missing(draft.apart(f"the body of helper {name}"), f"helper:{name}", f"rewrite:{name}")
        elif row is not None and _parameters(helper) != row.value:
            draft.missing(f"the body of helper {name}: {row.text}, but {source} another", f"helper:{name}")
        elif helper.slot not in slots:
            draft.missing(f"helper {name}: the table has no slot {helper.slot}", f"helper:{name}")
        else:
            helpers[name] = helper
            draft.source("helpers", source, name)
    return dict(sorted(helpers.items(), key=lambda item: item[1].id))


def _parameters(helper: Helper) -> str:
    return ", ".join(kind.c for kind in helper.params)


def _by_row(draft: Draft, name: str, row: Span) -> tuple[Helper | None, str]:
    """The neighbour's helper whose parameters are those of the row."""
    for release in draft.near.both:
        found = release.helpers.get(name)
        if found is not None and _parameters(found) == row.value:
            return placeless(found), f"{row.text}; the body as in {release.version}"
    return None, ""


def convert_pass(
    draft: Draft, slots: Mapping[str, Prototype], helpers: Mapping[str, Helper]
) -> tuple[tuple[DirectCall, ...], int, str]:
    """The rewrites in the source's order, the limit of a patch, and what a poisoned pointer does to for_each."""
    place = _value(draft, "pass", "rewrite:*", "rewrites")
    function, _, file = (place or "not known").partition(" ")
    rewrites = []
    for name in subjects("rewrite"):
        row = at(f"rewrite/{name}", draft.table.version)
        helper = helpers.get(name)
        if row is None:
            draft.missing(draft.apart(f"whether {name} is rewritten"), f"rewrite:{name}")
        elif row.value and helper is not None:
            demanded = slots[helper.slot]
            if demanded.result.c != row.value:
                what = f"{row.text}, but the table's {helper.slot} returns {demanded.result.c}"
                draft.missing(what, f"rewrite:{name}")
            # BUILD_BUG_ON compares with the member's own type, so that any other would not have been built.
            rewrites.append(DirectCall(name, helper.slot, demanded, function, file or "?", 0))
            draft.source("rewrites", row.text, name)
    limit = _value(draft, "insn_buf", "condition:insn_buf", "insn_buf")
    poison = _value(draft, "poison_for_each", "rewrite:for_each_map_elem", "poison_for_each")
    return tuple(rewrites), int(limit or 0), poison or ""


def _value(draft: Draft, subject: str, hole: str, section: str) -> str | None:
    row = at(subject, draft.table.version)
    if row is None:
        draft.missing(draft.apart(subject), hole)
        return None
    draft.source(section, row.text)
    return row.value
