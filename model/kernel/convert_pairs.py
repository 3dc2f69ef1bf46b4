"""Which pairs of map type and helper the verifier accepts, for a release that is made from a table."""

import re
from collections.abc import Mapping

from model.kernel.draft import Draft
from model.kernel.release import Acceptance, Helper, MapType, OpsTable, Release
from model.kernel.spans import Span, at

LINE = re.compile(r"(\.[ch]):\d+")  # of a place in a reason


def convert_pairs(
    draft: Draft, types: Mapping[str, MapType], ops: Mapping[str, OpsTable], helpers: Mapping[str, Helper]
) -> dict[str, dict[str, Acceptance]]:
    """Every pair of this release. A pair of which nothing is known is not accepted, and a hole."""
    accepted: dict[str, dict[str, Acceptance]] = {}
    for name, helper in helpers.items():
        accepted[name] = {}
        for kind, row in types.items():
            found = _pair(draft, kind, name)
            if found is None:
                draft.missing(draft.apart(f"whether {name} is accepted with {kind}"), f"accepted:{kind}/{name}")
                found = Acceptance(False, "", "not known")
            elif found.accepted and helper.slot not in ops[row.ops or ""].slots:
                what = f"{name} with {kind}: accepted by the rows, but {row.ops} has no {helper.slot}"
                draft.missing(what, f"accepted:{kind}/{name}")
            accepted[name][kind] = found
    return accepted


def _pair(draft: Draft, kind: str, name: str) -> Acceptance | None:
    near, key = draft.near, f"{kind}/{name}"
    row = at(f"accepted/{key}", draft.table.version)
    both = [found for release in near.both if (found := _said(release, kind, name)) is not None]
    if near.older is not None and len(both) == 2 and both[0].accepted == both[1].accepted:
        draft.source("accepted", near.source, key)
        return _merged(draft, both[0], both[1])
    read = [(release, found) for release in near.read if (found := _said(release, kind, name)) is not None]
    if row is not None:
        return _by_row(draft, key, row, [found for _, found in read])
    if read and not any(found.accepted for _, found in read):
        release, found = read[0]
        draft.source("accepted", f"refused in {', '.join(release.version for release, _ in read)}", key)
        return Acceptance(False, "", _reason(found.reason, release))
    return None


def _said(release: Release, kind: str, name: str) -> Acceptance | None:
    found = release.accepted.get(name, {}).get(kind)
    return None if release.acceptance_hole(name, kind) else found


def _merged(draft: Draft, old: Acceptance, new: Acceptance) -> Acceptance:
    """What two neighbours say alike of a pair; where only the condition differs, both conditions."""
    older, newer = draft.near.both
    if not new.accepted:
        return Acceptance(False, "", _reason(new.reason, newer))
    if old.condition == new.condition:
        return Acceptance(True, old.condition, "")
    told = [f"{row.condition or 'all'} in {release.version}" for row, release in ((old, older), (new, newer))]
    return Acceptance(True, f"for some programs: {'; '.join(told)}", "")


def _by_row(draft: Draft, key: str, row: Span, read: list[Acceptance]) -> Acceptance | None:
    """An accepted pair of the rows, which no release that was read may contradict."""
    if not all(found.accepted for found in read):
        return None
    draft.source("accepted", row.text, key)
    return Acceptance(True, "" if row.value == "yes" else row.value, "")


def _reason(reason: str, release: Release) -> str:
    place = LINE.sub(r"\1", reason)
    return f"{place} (as in {release.version})"
