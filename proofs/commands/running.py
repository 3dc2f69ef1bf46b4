"""`--kernel running`: the running kernel's release; its sources and differences from the data go to stderr."""

import sys
from functools import cache

from model.kernel.compare_facts import differences
from model.kernel.release import Release
from model.loaders.live_release import running
from proofs.report.text import clean


@cache
def running_release() -> Release:
    """Asks the kernel once. InputError where it does not permit that."""
    found = running()
    for line in found.provenance:
        print(clean(line), file=sys.stderr)
    told = differences(found.release, found.near)
    for line in told:
        print(clean(f"differs: {line}"), file=sys.stderr)
    if not told:
        print(clean(f"no difference from {found.near.name}"), file=sys.stderr)
    for line in found.release.unread:
        print(clean(f"not read: {line}"), file=sys.stderr)
    return found.release
